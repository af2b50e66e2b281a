"""Fragments of matrix products as the PTX ISA writes them down: which element a lane holds, formula by formula.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.14.5, "Matrix Fragments for mma.m…n…k…". Each rule takes
the group of a lane (lane / 4), its place in the group (lane modulo 4) and the number i of the element in the lane.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Place = Callable[[int, int, int], tuple[int, int]]
Matrix = npt.NDArray[Any]


def _lower(i: int, *ranges: range) -> int:
    """Return 8, the lower half of the rows, where the document's condition for the upper half does not hold."""
    return 0 if any(i in each for each in ranges) else 8


#: By bits of an element and k: row and column of a[i], then of b[i].
_FACTORS: dict[tuple[int, int], tuple[Place, Place]] = {
    (64, 4): (lambda g, t, i: (g + _lower(i, range(1)), t), lambda g, t, _: (t, g)),
    (64, 8): (lambda g, t, i: (g + (0, 8, 0, 8)[i], t + (0, 0, 4, 4)[i]), lambda g, t, i: (t + (0, 4)[i], g)),
    (64, 16): (
        lambda g, t, i: (g if i % 2 == 0 else g + 8, i * 2 + t if i % 2 == 0 else i * 2 - 2 + t),
        lambda g, t, i: (t + i * 4, g),
    ),
    (32, 4): (lambda g, t, i: (g + _lower(i, range(1)), t), lambda g, t, _: (t, g)),
    (32, 8): (lambda g, t, i: (g + (0, 8, 0, 8)[i], t + (0, 0, 4, 4)[i]), lambda g, t, i: (t + (0, 4)[i], g)),
    (16, 8): (lambda g, t, i: (g + _lower(i, range(2)), t * 2 + (i & 1)), lambda g, t, i: (t * 2 + i, g)),
    (16, 16): (
        lambda g, t, i: (g + _lower(i, range(2), range(4, 6)), t * 2 + (i & 1) + (0 if i < 4 else 8)),
        lambda g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g),
    ),
    (8, 16): (lambda g, t, i: (g + _lower(i, range(4)), t * 4 + (i & 3)), lambda g, t, i: (t * 4 + i, g)),
    (8, 32): (
        lambda g, t, i: (g + _lower(i, range(4), range(8, 12)), t * 4 + (i & 3) + (0 if i < 8 else 16)),
        lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g),
    ),
    (4, 32): (lambda g, t, i: (g + _lower(i, range(8)), t * 8 + (i & 7)), lambda g, t, i: (t * 8 + (i & 7), g)),
    (4, 64): (
        lambda g, t, i: (g + _lower(i, range(8), range(16, 24)), t * 8 + (i & 7) + (0 if i < 16 else 32)),
        lambda g, t, i: (t * 8 + (i & 7) + (0 if i < 8 else 32), g),
    ),
    (1, 128): (lambda g, t, i: (g + _lower(i, range(32)), t * 32 + (i & 31)), lambda g, t, i: (t * 32 + i, g)),
    (1, 256): (
        lambda g, t, i: (g + _lower(i, range(32), range(64, 96)), t * 32 + (i & 31) + (0 if i < 64 else 128)),
        lambda g, t, i: (t * 32 + (i & 31) + (0 if i < 32 else 128), g),
    ),
}
BITS = {"f64": 64, "s32": 32, "f32": 32, "tf32": 32, "f16": 16, "bf16": 16, "b1": 1} | dict.fromkeys(
    ("s8", "u8", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1"), 8  # floats of fewer bits have a byte each
) | dict.fromkeys(("s4", "u4"), 4)  # fmt: skip


def _total(g: int, t: int, i: int) -> tuple[int, int]:
    return g + (0 if i < 2 else 8), t * 2 + (i & 1)


@dataclass(frozen=True)
class Fragment:
    """How the lanes of a warp hold a matrix."""

    place: Place
    shape: tuple[int, int]
    bits: int
    """of an element"""

    @property
    def word(self) -> int:
        """Bits of a register."""
        return max(32, self.bits)

    @property
    def elements(self) -> int:
        """Elements of a lane."""
        return self.shape[0] * self.shape[1] // 32

    def words(self, codes: Matrix) -> Matrix:
        """Return [lanes, registers] the registers that hold the codes of a matrix, the first element lowest."""
        per = self.word // self.bits
        found = np.zeros((32, self.elements // per), np.uint64)
        for lane in range(32):
            for i in range(self.elements):
                code = int(codes[self.place(lane // 4, lane % 4, i)])
                found[lane, i // per] |= np.uint64(code << self.bits * (i % per))
        return found

    def codes(self, words: Matrix) -> Matrix:
        """Return the matrix of codes that registers hold, [lanes, registers]."""
        per = self.word // self.bits
        found = np.zeros(self.shape, np.uint64)
        for lane in range(32):
            for i in range(self.elements):
                word = int(words[lane, i // per])
                found[self.place(lane // 4, lane % 4, i)] = word >> self.bits * (i % per) & (1 << self.bits) - 1
        return found


def fragments(shape: tuple[int, int, int], factor: str, total: str) -> tuple[Fragment, Fragment, Fragment]:
    """Return the fragments of A, of B, and of C and D."""
    m, n, k = shape
    a, b = _FACTORS[BITS[factor], k]
    bits = BITS[factor]
    return Fragment(a, (m, k), bits), Fragment(b, (k, n), bits), Fragment(_total, (m, n), BITS[total])


#: The dtype in which NumPy has a type, and by how many bits the codes are shifted left to be one.
_AS: dict[str, tuple[str, int]] = {"f64": ("f8", 0), "f32": ("f4", 0), "tf32": ("f4", 0), "bf16": ("f4", 16),
                                   "f16": ("f2", 0), "e5m2": ("f2", 8)}  # fmt: skip
#: Codes of 8-bit floats from here on are too large for sums of FP16, or no numbers.
_LIMIT = {"e4m3": 0x60, "e5m2": 0x4C}
#: Values of short floats by their codes without the sign. Source: OCP Microscaling Formats 1.0, section 5.3.
_SHORT = {
    "e2m1": [0, 0.5, 1, 1.5, 2, 3, 4, 6],
    "e2m3": [n / 8 for n in range(16)] + [n / 4 for n in range(8, 16)] + [n / 2 for n in range(8, 16)],
    "e3m2": [n / 16 for n in range(8)] + [(4 + n % 4) / 4 * 2.0 ** (n // 4 - 1) for n in range(24)],
}


def drawn(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> Matrix:
    """Return random codes of a type, as unsigned integers; floats are finite and of moderate size."""
    if kind in _LIMIT:
        return rng.integers(0, _LIMIT[kind], shape) | rng.integers(0, 2, shape) << 7
    if kind in _AS:
        name, shift = _AS[kind]
        return rng.normal(size=shape).astype(name).view(f"u{name[1]}") >> shift
    return rng.integers(0, 1 << BITS[kind], shape, dtype=np.uint64)


def numbers(kind: str, codes: Matrix) -> Matrix:
    """Return what codes mean, as FP64 or as integers.

    TF32 has no meaning for its 13 lowest bits: they are ignored. E4M3 is FP16 with fewer bits and 2^8 times as large.
    """
    if kind in _AS:
        name, shift = _AS[kind]
        bits = codes.astype(f"u{name[1]}") << shift
        kept = bits & np.uint32(0xFFFFE000) if kind == "tf32" else bits
        return kept.view(name).astype(np.float64)
    whole = codes.astype(np.int64)
    if kind in _SHORT:  # 6 bits lie lowest in their byte, 4 bits in its middle; what is beside them has no meaning
        own = whole >> 2 if kind == "e2m1" else whole
        size = len(_SHORT[kind])
        return np.array(_SHORT[kind])[own % size] * np.where(own & size, -1, 1)
    if kind == "e4m3":
        return ((whole & 0x80) << 8 | (whole & 0x7F) << 7).astype(np.uint16).view(np.float16).astype(float) * 2.0**8
    return np.where(whole >> BITS[kind] - 1, whole - (1 << BITS[kind]), whole) if kind.startswith("s") else whole
