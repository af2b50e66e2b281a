"""Layouts of the fragments of ``mma`` and ``wgmma``: which lane holds which element of the matrices.

A lane is 4 g + t. Registers of 32 bits hold as many neighbours of one row as fit; one of 64 bits holds one element.
Of a product by four warps, each holds 16 rows of A and of the sums, and computes them alone.
Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.14.5 (Matrix Fragments for mma) and 9.7.15.5 (Register
Fragments and Shared Memory Matrix Layouts).
"""

import re
from dataclasses import dataclass

_LANES = 32
_GROUP = 8
_BITS = {
    "b1": 1, "s4": 4, "u4": 4, "e2m1": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16, "tf32": 32,
    "f32": 32, "s32": 32, "f64": 64, "e2m3": 8, "e3m2": 8, "e2m1_8": 8,
}  # fmt: skip
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")

# Columns: type of A and B, in pairs of one line any may meet any | types of C and D | shapes.
_PRODUCTS = """
f64       | f64     | m8n8k4 m16n8k4 m16n8k8 m16n8k16
f16       | f16 f32 | m16n8k8 m16n8k16
bf16      | f32     | m16n8k8 m16n8k16
tf32      | f32     | m16n8k4 m16n8k8
e4m3 e5m2 | f16 f32 | m16n8k16 m16n8k32
s8 u8     | s32     | m8n8k16 m16n8k16 m16n8k32
s4 u4     | s32     | m8n8k32 m16n8k32 m16n8k64
b1        | s32     | m8n8k128 m16n8k128 m16n8k256
"""
# The same of kind::f8f6f4, whose numbers have a byte each: those of 4 bits its middle ones.
_SMALL_PRODUCTS = """
e4m3 e5m2 e2m3 e3m2 e2m1_8 | f16 f32 | m16n8k32
"""
_SPARSE_SMALL_PRODUCTS = """
e4m3 e5m2 e2m3 e3m2 e2m1_8 | f16 f32 | m16n8k64
"""
# The same of products whose A is sparse (mma.sp): it holds every second number of a row.
_SPARSE_PRODUCTS = """
f16       | f16 f32 | m16n8k16 m16n8k32
bf16      | f32     | m16n8k16 m16n8k32
tf32      | f32     | m16n8k8 m16n8k16
e4m3 e5m2 | f16 f32 | m16n8k64
s8 u8     | s32     | m16n8k32 m16n8k64
s4 u4     | s32     | m16n8k64 m16n8k128
"""
# Products whose rows of A and columns of B have factors (block_scale), each of as many numbers as share one.
# Columns: kind | types of A and B | type of the factors | shape | factors of a row: scale_vec::1X, 2X or 4X.
_SCALED_PRODUCTS = """
kind::mxf8f6f4 | e4m3 e5m2 e2m3 e3m2 e2m1_8 | ue8m0 | m16n8k32 | 1
kind::mxf4     | e2m1      | ue8m0       | m16n8k64 | 2
kind::mxf4nvf4 | e2m1      | ue8m0       | m16n8k64 | 2
kind::mxf4nvf4 | e2m1      | ue8m0 ue4m3 | m16n8k64 | 4
"""
# Columns: the same of wgmma | types of D | numbers of one row of A.
_GROUP_PRODUCTS = """
f16       | f16 f32 | 16
bf16      | f32     | 16
tf32      | f32     | 8
e4m3 e5m2 | f16 f32 | 32
s8 u8     | s32     | 32
b1        | s32     | 256
"""
_WARP_ROWS = 16
_LAYOUTS = frozenset({"row", "col"})
_SHAPE_BY_QUADS = "m8n8k4"
#: Volta's own products in counts of instructions.
BY_QUADS = f"mma.{_SHAPE_BY_QUADS}"


def _rows_of(table: str) -> list[list[frozenset[str]]]:
    return [[frozenset(cell.split()) for cell in line.split("|")] for line in table.strip().splitlines()]


#: Products of a warp, by whether A is sparse and whether the kind says that each number has a byte.
_ROWS = {
    (False, False): _rows_of(_PRODUCTS),
    (True, False): _rows_of(_SPARSE_PRODUCTS),
    (False, True): _rows_of(_SMALL_PRODUCTS),
    (True, True): _rows_of(_SPARSE_SMALL_PRODUCTS),
}
_SCALED_ROWS = _rows_of(_SCALED_PRODUCTS)
_GROUP_ROWS = _rows_of(_GROUP_PRODUCTS)
_IN_BYTES = frozenset({"e4m3", "e5m2", "e2m3", "e3m2", "e2m1_8"})
#: Kinds whose numbers have a byte each.
_BYTE_KINDS = frozenset({"kind::f8f6f4", "kind::mxf8f6f4"})


@dataclass(frozen=True, slots=True)
class Product:
    """The product of one mma: D = A B + C with A of m x k, B of k x n."""

    m: int
    n: int
    k: int
    a: str
    """type of the elements of A"""
    b: str
    total: str
    """type of the elements of C and D"""
    scale: str = ""
    """type of the factors of rows and columns, where there are any"""
    scales: int = 0
    """factors of one row of A, or of one column of B"""
    is_sparse: bool = False
    """whether A holds every second number of a row, and a word of metadata says which these are"""
    layouts: tuple[str, str] = ("row", "col")
    """how A and B lie in registers"""
    count: int = 1
    """products of matrices of their own, which lie below one another: one, or four by 8 lanes each (Volta's m8n8k4)"""

    @property
    def length(self) -> int:
        """Numbers of a row of A that are multiplied."""
        return self.k // 2 if self.is_sparse else self.k

    @property
    def per_register(self) -> int:
        """Elements of A or B in one register."""
        return max(1, 32 // _BITS[self.a])

    @property
    def kind(self) -> str:
        """The type of A without its sign, or of floats in a byte the first: products of one kind are as fast."""
        return {"u8": "s8", "u4": "s4"}.get(self.a) or ("e4m3" if self.a in _IN_BYTES else self.a)

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.length * self.count

    @property
    def per_total(self) -> int:
        """Elements of C or D in one register."""
        return 2 if self.total == "f16" else 1

    @property
    def registers(self) -> tuple[int, int, int]:
        """Registers of one lane for A, for B, and for C or D."""
        lanes = _LANES // self.count
        in_a, in_total = lanes * self.per_register, lanes * self.per_total
        return self.m * self.length // in_a, self.n * self.k // in_a, self.m * self.n // in_total

    def place_in_a(self, lane: int, register: int, element: int) -> tuple[int, int]:
        """Return row and column of an element of A.

        >>> product_of(("m16n8k16",), ("f32", "f16", "f16", "f32")).place_in_a(5, 3, 1)
        (9, 11)
        """
        if self.count > 1:
            own, far = self.per_register * register + element, lane % 4
            row, column = (far, own) if self.layouts[0] == "row" else (own, far)
            return _GROUP * _quad(lane) + row + 4 * (lane // 16), column
        halves, per = self.m // _GROUP, self.per_register
        return lane // 4 + _GROUP * (register % halves), per * (lane % 4 + 4 * (register // halves)) + element

    def place_of_metadata(self, row: int, number: int) -> tuple[int, int]:
        """Return where the number within its group of one that A holds stands: lane from the first, and bit.

        A group has 4 numbers, of which A holds 2, or 2 of TF32, of which it holds 1: 2 bits each, or 4. Of 4 bits
        each two neighbours are taken for one.
        Source: PTX ISA 8.8, section 9.7.14.6 (sparse matrix storage).

        >>> product_of(("sp", "m16n8k32"), ("f32", "f16", "f16", "f32")).place_of_metadata(11, 9)
        (13, 18)
        """
        number //= self.per_code
        position = number * (4 if self.a == "tf32" else 2)
        lane, below = 4 * (row % _GROUP), row // _GROUP
        if _BITS[self.a] <= 8:
            return lane + 2 * (position // 32) + below, position % 32
        return lane + position // 16, position % 16 + 16 * below

    @property
    def per_code(self) -> int:
        """Neighbours that a number in the metadata stands for."""
        return 2 if _BITS[self.a] == 4 else 1

    @property
    def lanes_of_metadata(self) -> int:
        """Neighbouring lanes of a group of 4 that hold metadata; the selector says which."""
        return self.place_of_metadata(self.m - 1, self.length - 1)[0] % 4 + 1

    def place_in_b(self, lane: int, register: int, element: int) -> tuple[int, int]:
        """Return row and column of an element of B."""
        if self.count > 1:
            own, far = self.per_register * register + element, lane % 4
            row, column = (far, own) if self.layouts[1] == "row" else (own, far)
            return self.k * _quad(lane) + row, column + 4 * (lane // 16)
        return self.per_register * (lane % 4 + 4 * register) + element, lane // 4

    def place_in_total(self, lane: int, register: int, element: int) -> tuple[int, int]:
        """Return row and column of an element of C or D."""
        number = register * self.per_total + element
        if self.count > 1:
            below = _GROUP * _quad(lane) + 4 * (lane // 16)
            if self.total == "f16":
                return below + lane % 4, number
            return below + lane % 2 + (number & 2), (number & 4) + (lane & 2) + number % 2
        halves, pair = self.m // _GROUP, number // 2
        return lane // 4 + _GROUP * (pair % halves), _GROUP * (pair // halves) + 2 * (lane % 4) + number % 2


def _quad(lane: int) -> int:
    """Return which of four products a lane takes part in: lanes 0 to 3 and 16 to 19 the first one, and so on.

    Source: PTX ISA 9.1, section 9.7.14.5.1 (Matrix Fragments for mma.m8n8k4 with .f16 floating point type).
    """
    return lane // 4 % 4


def is_by_quads(modifiers: tuple[str, ...], types: tuple[str, ...]) -> bool:
    """Return whether an mma is Volta's own: four products by the quads of a warp."""
    return _SHAPE_BY_QUADS in modifiers and types[1:3] == ("f16", "f16")


def product_of(modifiers: tuple[str, ...], types: tuple[str, ...]) -> Product | None:
    """Return what an mma with these modifiers and types (of D, A, B, C) computes; None where it is not known."""
    shape = next((m for m in modifiers if _SHAPE.fullmatch(m)), "")
    layouts = tuple(m for m in modifiers if m in _LAYOUTS)
    if is_by_quads(modifiers, types):
        fits = types in {("f16",) * 4, ("f32", "f16", "f16", "f32")} and len(layouts) == len("AB")
        return Product(8, 8, 4, "f16", "f16", types[0], layouts=(layouts[0], layouts[1]), count=4) if fits else None
    if layouts not in {(), ("row", "col")}:
        return None
    if "block_scale" in modifiers:
        return _scaled_product_of(shape, modifiers, types)
    is_sparse = "sp" in modifiers or "sp::ordered_metadata" in modifiers
    if len(types) != len("DABC") or types[0] != types[-1]:
        return None
    in_bytes = not _BYTE_KINDS.isdisjoint(modifiers)
    factors = _factors(types, in_bytes=in_bytes)
    for inputs, totals, shapes in _ROWS[is_sparse, in_bytes]:
        if inputs.issuperset(factors) and types[0] in totals and shape in shapes:
            m, n, k = map(int, re.findall(r"\d+", shape))
            return Product(m, n, k, *factors, types[0], is_sparse=is_sparse)
    return None


def _factors(types: tuple[str, ...], *, in_bytes: bool) -> tuple[str, str]:
    """Return the types of A and B; of 4 bits that of a number in the middle of a byte, where each has one."""
    a, b = ("e2m1_8" if in_bytes and name == "e2m1" else name for name in types[1:3])
    return a, b


def _scaled_product_of(shape: str, modifiers: tuple[str, ...], types: tuple[str, ...]) -> Product | None:
    if len(types) != len("DABCS") or types[0] != "f32" or types[3] != "f32":
        return None
    named = next((m[len("scale_vec::") : -1] for m in modifiers if m.startswith("scale_vec::")), "")
    for kinds, inputs, scales, shapes, counts in _SCALED_ROWS:
        count = named or ("4" if types[4] == "ue4m3" else "".join(counts))
        fits = kinds.intersection(modifiers) and shape in shapes and count in counts
        factors = _factors(types, in_bytes=not _BYTE_KINDS.isdisjoint(modifiers))
        if fits and inputs.issuperset(factors) and types[4] in scales:
            m, n, k = map(int, re.findall(r"\d+", shape))
            return Product(m, n, k, *factors, "f32", types[4], int(count))
    return None


def group_product_of(modifiers: tuple[str, ...], types: tuple[str, ...]) -> Product | None:
    """Return what one of the four warps of a wgmma computes, by its types (of D, A, B); None where it is not known.

    With a sparse A, twice as deep, its metadata are those of ``mma.sp``: a warp has those of its own rows.

    >>> group_product_of(("m64n8k16",), ("f32", "f16", "f16")).registers
    (4, 2, 4)
    """
    shape = next((m for m in modifiers if _SHAPE.fullmatch(m)), "")
    if len(types) != len("DAB") or not shape:
        return None
    m, n, k = map(int, re.findall(r"\d+", shape))
    if m != 4 * _WARP_ROWS or n not in range(_GROUP, 257, _GROUP) or (types[0] == "s32" and n > 24 and n % 16):
        return None
    is_sparse = "sp" in modifiers
    for inputs, totals, length in _GROUP_ROWS:
        fits = str(k // 2 if is_sparse else k) in length and not (is_sparse and "b1" in inputs)
        if inputs.issuperset(types[1:]) and types[0] in totals and fits:
            return Product(_WARP_ROWS, n, k, types[1], types[2], types[0], is_sparse=is_sparse)
    return None
