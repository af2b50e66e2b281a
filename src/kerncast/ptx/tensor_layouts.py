"""Layouts of tensor memory: 128 lanes of 512 columns of 32 bits, and which thread moves which word.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.16 (TensorCore 5th Generation Family Instructions).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

LANES, COLUMNS = 128, 512
#: Modifier of what two blocks of a cluster do together: those whose ranks differ in the lowest bit.
PAIR = "cta_group::2"
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
    factors: Mapping[str, int] = field(default_factory=dict)
    """factors in tensor memory of a row of A, and of a column of B, by the modifier that says so"""
    scales: int = 0
    """factors that an instruction has; 0: none"""

    @property
    def is_scaled(self) -> bool:
        """Whether numbers of a row of A, and of a column of B, share factors."""
        return self.scales > 0


#: Rows of A, and of the sums, in one block; a pair of blocks shares twice as many.
_ROWS_OF_SCALED = 128
#: Numbers of one row, so that tiles may lie turned: TF32 needs a swizzle of its own, and 4 bits may not.
_TURNED = {16, 32}
_FLOATS = {0: "f16", 1: "f32"}
_SMALL = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
#: Types of fewer than 8 bits: 16 numbers lie in 16 bytes, whose last ones are not used.
PADDED = frozenset({"e2m3", "e3m2", "e2m1"})
#: Bits of numbers that ldmatrix makes bytes of, by the name of their format in memory.
SHORT_NUMBERS: Mapping[str, int] = {"b4x16_p64": 4, "b6x16_p32": 6}
#: Kinds by their modifier.
KINDS: Mapping[str, Kind] = {
    "kind::f16": Kind(16, {0: "f16", 1: "bf16"}, _FLOATS),
    "kind::tf32": Kind(8, {2: "tf32"}, {1: "f32"}),
    "kind::f8f6f4": Kind(32, _SMALL, _FLOATS),
    "kind::i8": Kind(32, {0: "u8", 1: "s8"}, {2: "s32"}),
    "kind::mxf8f6f4": Kind(32, _SMALL, {}, {"": 1, "block32": 1, "scale_vec::1X": 1}),
    "kind::mxf4": Kind(64, {1: "e2m1"}, {}, {"": 2, "block32": 2, "scale_vec::2X": 2}),
    "kind::mxf4nvf4": Kind(64, {1: "e2m1"}, {}, {"block32": 2, "scale_vec::2X": 2, "block16": 4, "scale_vec::4X": 4}),
}


def kind_of(modifiers: tuple[str, ...]) -> Kind | None:
    """Return the kind of a tcgen05.mma with the factors that it has; None where the modifiers name no such one.

    >>> kind_of(("mma", "kind::mxf4nvf4", "block_scale", "scale_vec::4X")).scales
    4
    """
    found = [KINDS[m] for m in modifiers if m in KINDS]
    if len(found) != 1 or bool(found[0].factors) != ("block_scale" in modifiers):
        return None
    kind = found[0]
    named = {kind.factors.get(m) for m in modifiers if m in _FACTORS}
    counts = named or ({kind.factors.get("")} if kind.factors else {0})
    scales = counts.pop()
    return None if counts or scales is None else replace(kind, scales=scales)


_FACTORS = frozenset(name for kind in KINDS.values() for name in kind.factors if name)


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instruction descriptor says."""

    m: int
    """rows of A and of the sums in one block"""
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
    """places of the first scales of A and B in their words"""
    scale: str
    """type of the scales: ue8m0 or ue4m3"""
    blocks: int
    """blocks that share the product, each with its rows of A and its part of the columns of B: 1 or 2"""
    is_stationary: bool = False
    """whether B stays (``.ws``), which takes 32 rows of A as well"""

    @property
    def is_folded(self) -> bool:
        """Whether parts of the columns of the sums lie below one another: few rows of a pair, or where B stays."""
        return (self.blocks > 1 or self.is_stationary) and self.m < LANES

    @property
    def columns(self) -> int:
        """Columns of tensor memory that the sums take."""
        return self.n * self.m // LANES if self.is_folded else self.n

    def places(self) -> tuple[list[int], list[int]]:
        """Return [m] the lane of each row, and [n] how many lanes further each column is, where sums begin at lane 0.

        Source: the layouts A, B and D to G of the data path (PTX ISA 8.8, section 9.7.16.10.5), of which CUTLASS spells
        out those where B stays (tmem_frg_ws).
        """
        if self.m == LANES or self.blocks > 1 or self.is_stationary:
            rows = list(range(self.m))
        else:
            rows = [row // 16 * WARP_LANES + row % 16 for row in range(self.m)]
        return rows, [self.m * (column // self.columns) for column in range(self.n)]


#: Rows of A and columns of B that products have where B stays.
STATIONARY_ROWS, STATIONARY_COLUMNS = (32, 64, 128), (64, 128, 256)
#: Modifier of a product where B stays.
STATIONARY = "ws"


def shape_of(kind: Kind, descriptor: int, blocks: int = 1, *, is_stationary: bool = False) -> Shape | None:
    """Return what an instruction descriptor says; None for what is not executed: sparse or unknown.

    ``blocks`` share the product.
    """
    formats = kind.formats.get(descriptor >> 7 & 7), kind.formats.get(descriptor >> 10 & 7)
    scaled = kind.is_scaled
    total = "f32" if scaled else kind.totals.get(descriptor >> 4 & 3)
    m = (128 * (descriptor >> 27 & 3) if scaled else 16 * (descriptor >> 24 & 31)) // blocks
    n = 8 * (descriptor >> 17 & 63)
    turns = bool(descriptor >> 15 & 1), bool(descriptor >> 16 & 1)
    fits = m == _ROWS_OF_SCALED if scaled else m in (STATIONARY_ROWS if is_stationary else (64, 128))
    widths = STATIONARY_COLUMNS if is_stationary else range(8 * blocks, 257, 8 * blocks)
    is_known = fits and n in widths and not descriptor & 4
    if formats[0] is None or formats[1] is None or total is None or not is_known:
        return None
    scale = "ue8m0" if descriptor >> 23 & 1 else "ue4m3"
    ids = (descriptor >> 29 & 3, descriptor >> 4 & 3) if scaled else (0, 0)
    lies_wrong = [kind.k not in _TURNED or name in PADDED for name in formats]
    if any(turn and wrong for turn, wrong in zip(turns, lies_wrong, strict=True)):
        return None
    if scaled and (any(each % kind.scales for each in ids) or (scale == "ue4m3" and kind.scales != MOST_SCALES)):
        return None
    negates = (descriptor >> 13 ^ descriptor >> 14) & 1
    return Shape(
        m, n, kind.k, formats[0], formats[1], total, bool(negates), turns, bool(descriptor & 8), ids, scale, blocks,
        is_stationary,
    )  # fmt: skip


#: Factors of one row that fill a word of tensor memory; others than powers of two have no more numbers in common.
MOST_SCALES = 4
