"""Layouts of tensor memory: 128 lanes of 512 columns of 32 bits, and which thread moves which word.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.16 (TensorCore 5th Generation Family Instructions).
"""

from collections.abc import Mapping
from dataclasses import dataclass

LANES, COLUMNS = 128, 512
#: Columns are taken in units of so many.
UNIT_COLUMNS = 32
#: Lanes that the threads of one warp can reach.
WARP_LANES = 32


@dataclass(frozen=True, slots=True)
class Movement:
    """The words that a warp moves between its registers and tensor memory; the first registers, which repeat."""

    lanes: int
    """lanes of tensor memory"""
    registers: int
    """registers of one thread until the pattern repeats"""
    columns: int
    """columns until then"""
    is_split: bool = False
    """whether the upper half of the warp has a column of its own"""

    def place(self, thread: int, register: int) -> tuple[int, int]:
        """Return lane and column of a word, from where the movement begins.

        >>> MOVEMENTS["16x64b"].place(5, 0), MOVEMENTS["16x256b"].place(5, 3)
        ((9, 0), (9, 3))
        """
        if self.lanes == WARP_LANES:
            return thread, 0
        if self.is_split:
            return thread % 16, 0
        if self.columns == 2:
            return thread // 4 + 8 * (thread % 2), thread // 2 % 2
        near = self.columns // 4
        return thread // 4 + 8 * (register // near), near * (thread % 4) + register % near


#: Movements by the modifier that names them.
MOVEMENTS: Mapping[str, Movement] = {
    "32x32b": Movement(32, 1, 1),
    "16x64b": Movement(16, 1, 2),
    "16x128b": Movement(16, 2, 4),
    "16x256b": Movement(16, 4, 8),
    "16x32bx2": Movement(16, 1, 1, is_split=True),
}
REPEATS = tuple(1 << n for n in range(8))


def movement_of(modifiers: tuple[str, ...]) -> tuple[Movement, int] | None:
    """Return what a tcgen05.ld or st moves, and how often the pattern repeats; None where that is not one."""
    found = [MOVEMENTS[m] for m in modifiers if m in MOVEMENTS]
    times = [int(m[1:]) for m in modifiers if m.startswith("x") and m[1:].isdigit()]
    if len(found) != 1 or len(times) != 1 or found[0].registers * times[0] > LANES:
        return None
    return found[0], times[0]


#: Copies from shared memory: rows, bytes of each, and the lane where each quarter of 32 rows begins, by their name.
COPIES: Mapping[tuple[str, ...], tuple[int, int, tuple[tuple[int, ...], ...]]] = {
    ("128x256b",): (128, 32, ((0,), (32,), (64,), (96,))),
    ("128x128b",): (128, 16, ((0,), (32,), (64,), (96,))),
    ("64x128b", "warpx2::02_13"): (64, 16, ((0, 64), (32, 96))),
    ("64x128b", "warpx2::01_23"): (64, 16, ((0, 32), (64, 96))),
    ("32x128b", "warpx4"): (32, 16, ((0, 32, 64, 96),)),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What the kind of a tcgen05.mma says of its products."""

    k: int
    formats: Mapping[int, str]
    """types of A and B by their number in the instruction descriptor"""
    totals: Mapping[int, str]
    """types of D by theirs"""
    is_scaled: bool = False
    """whether 32 numbers of a row of A, and of a column of B, share a factor in tensor memory"""


_ROWS_OF_SCALED = 128
#: Numbers of one row, so that tiles may lie turned: TF32 needs a swizzle of its own.
_LEAST_TURNED = 16
_FLOATS = {0: "f16", 1: "f32"}
_BYTES = {0: "e4m3", 1: "e5m2"}
#: Kinds by their modifier.
KINDS: Mapping[str, Kind] = {
    "kind::f16": Kind(16, {0: "f16", 1: "bf16"}, _FLOATS),
    "kind::tf32": Kind(8, {2: "tf32"}, {1: "f32"}),
    "kind::f8f6f4": Kind(32, _BYTES, _FLOATS),
    "kind::i8": Kind(32, {0: "u8", 1: "s8"}, {2: "s32"}),
    "kind::mxf8f6f4": Kind(32, _BYTES, {}, is_scaled=True),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instruction descriptor says."""

    m: int
    n: int
    k: int
    a: str
    b: str
    total: str
    negates: bool
    """whether the products are subtracted"""
    turns: tuple[bool, bool]
    """whether rows of A, and columns of B, lie beside one another"""
    saturates: bool
    scale_bytes: tuple[int, int]
    """places of the scales of A and B in their words"""


def shape_of(kind: Kind, descriptor: int) -> Shape | None:
    """Return what an instruction descriptor says; None for what is not executed: sparse, narrow or unknown."""
    formats = kind.formats.get(descriptor >> 7 & 7), kind.formats.get(descriptor >> 10 & 7)
    scaled = kind.is_scaled
    total = "f32" if scaled else kind.totals.get(descriptor >> 4 & 3)
    m = 128 * (descriptor >> 27 & 3) if scaled else 16 * (descriptor >> 24 & 31)
    n = 8 * (descriptor >> 17 & 63)
    turns = bool(descriptor >> 15 & 1), bool(descriptor >> 16 & 1)
    fits = m == _ROWS_OF_SCALED if scaled else m in {64, 128}
    if (
        formats[0] is None
        or formats[1] is None
        or total is None
        or descriptor & 4
        or not fits
        or n not in range(8, 257)
    ):
        return None
    if (any(turns) and kind.k < _LEAST_TURNED) or (scaled and not descriptor >> 23 & 1):
        return None
    negates = (descriptor >> 13 ^ descriptor >> 14) & 1
    ids = (descriptor >> 29 & 3, descriptor >> 4 & 3) if scaled else (0, 0)
    return Shape(m, n, kind.k, formats[0], formats[1], total, bool(negates), turns, bool(descriptor & 8), ids)
