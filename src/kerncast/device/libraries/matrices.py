"""Level 2 of BLAS: a matrix and vectors. Triangles, bands and packed triangles lie column by column.

Source: Dongarra et al., "An Extended Set of FORTRAN Basic Linear Algebra Subprograms", ACM Trans. Math. Softw. 14
(1988) 1; cuBLAS Library User's Guide 12.9, section 2.6.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kerncast.device.libraries.operands import Arguments, Array, Number, Work, require

INVALID_VALUE = 7
_N, _T, _C, _CONJUGATED = range(4)
UPPER = 1
_UNIT = 1


def applied(a: Array, op: int) -> Array:
    """Return a matrix, transposed or conjugated as an operation says."""
    a = a.T if op in {_T, _C} else a
    return a.conj() if op in {_C, _CONJUGATED} and a.dtype.kind == "c" else a


def check_op(*ops: int) -> None:
    """Raise StatusError for numbers that are no operations."""
    require(*(each in {_N, _T, _C, _CONJUGATED} for each in ops), status=INVALID_VALUE)


def check_either(*choices: int) -> None:
    """Raise StatusError for a side, a triangle or a diagonal that there is not."""
    require(*(each in {0, 1} for each in choices), status=INVALID_VALUE)


def check_sizes(*sizes: int) -> None:
    """Raise StatusError for negative sizes."""
    require(*(each >= 0 for each in sizes), status=INVALID_VALUE)


def check_leading(leading: int, rows: int) -> None:
    """Raise StatusError for a leading dimension below the rows."""
    require(leading >= max(1, rows), status=INVALID_VALUE)


def combined(alpha: Number, product: Callable[[], Array], beta: Number, old: Array) -> Array:
    """Return alpha times a product plus beta times what was there, neither of which is looked at where it counts 0."""
    found = alpha * product() if alpha != 0 else np.zeros(old.shape, old.dtype)
    return found + beta * old if beta != 0 else found


def triangle(a: Array, uplo: int, diag: int = 0) -> Array:
    """Return one triangle of a matrix, with zeros for the other one, and ones on its diagonal where it is unit."""
    found = np.triu(a) if uplo == UPPER else np.tril(a)
    if diag == _UNIT:
        np.fill_diagonal(found, 1)
    return found


def mirrored(a: Array, uplo: int, *, hermitian: bool = False) -> Array:
    """Return the symmetric or hermitian matrix of which a triangle is given."""
    half = triangle(a, uplo)
    other = half.T.conj() if hermitian else half.T
    found = half + other
    diagonal = np.diagonal(a)
    np.fill_diagonal(found, diagonal.real if hermitian else diagonal)
    return found


def put_triangle(view: Array, values: Array, uplo: int, *, hermitian: bool = False) -> None:
    """Store one triangle of a matrix; the diagonal of a hermitian one is real."""
    mask = np.tri(len(view), dtype=bool)
    np.copyto(view, values, where=mask.T if uplo == UPPER else mask)
    if hermitian:
        places = np.arange(len(view))
        view[places, places] = view[places, places].real


@dataclass(frozen=True, slots=True)
class _Packed:
    """A triangle whose columns lie one after the other."""

    memory: Array
    order: int
    uplo: int

    @classmethod
    def at(cls, call: Arguments, address: int, order: int, uplo: int) -> "_Packed":
        return cls(call.memory.vector(address, order * (order + 1) // 2, 1, call.form), order, uplo)

    def columns(self) -> "list[tuple[slice, int, Array]]":
        """Return the rows of each column, its number and its numbers."""
        found, place = [], 0
        for column in range(self.order):
            rows = slice(0, column + 1) if self.uplo == UPPER else slice(column, self.order)
            length = rows.stop - rows.start
            found.append((rows, column, self.memory[place : place + length]))
            place += length
        return found

    def read(self) -> Array:
        made = np.zeros((self.order, self.order), self.memory.dtype, order="F")
        for rows, column, numbers in self.columns():
            made[rows, column] = numbers
        return made

    def write(self, values: Array, *, hermitian: bool = False) -> None:
        for rows, column, numbers in self.columns():
            numbers[...] = values[rows, column]
            if hermitian:
                place = -1 if self.uplo == UPPER else 0
                numbers[place] = numbers[place].real


# Products


def _general_sizes(call: Arguments, count: int) -> tuple[int, ...]:
    op, *sizes = call.integers(count)
    check_op(op)
    check_sizes(*sizes)
    return (op, *sizes)


def _vectors_around(call: Arguments, x_size: int, y_size: int) -> tuple[Array, Number, Array]:
    """Take a vector that is read, a factor, and the vector that is written."""
    x, incx = call.pointer(), call.integer()
    beta = call.scalar()
    y, incy = call.pointer(), call.integer()
    require(incx != 0, incy != 0, status=INVALID_VALUE)
    return (
        call.memory.vector(x, x_size, incx, call.form), beta, call.memory.vector(y, y_size, incy, call.form),
    )  # fmt: skip


def gemv(call: Arguments) -> Work | None:
    """Multiply a matrix and a vector."""
    op, m, n = _general_sizes(call, 3)
    alpha, address, leading = call.scalar(), call.pointer(), call.integer()
    check_leading(leading, m)
    rows, columns = (n, m) if op in {_T, _C} else (m, n)
    x, beta, y = _vectors_around(call, columns, rows)
    if not m or not n:
        return None
    a = call.memory.matrix(address, (m, n), leading, call.form)
    y[...] = combined(alpha, lambda: applied(a, op) @ x, beta, y)
    return call.work(m * n, m * n + m + n)


def gbmv(call: Arguments) -> Work | None:
    """Multiply a band of a matrix and a vector."""
    op, m, n, below, above = _general_sizes(call, 5)
    alpha, address, leading = call.scalar(), call.pointer(), call.integer()
    check_leading(leading, below + above + 1)
    rows, columns = (n, m) if op in {_T, _C} else (m, n)
    x, beta, y = _vectors_around(call, columns, rows)
    if not m or not n:
        return None
    band = call.memory.matrix(address, (below + above + 1, n), leading, call.form)

    def product() -> Array:
        found = np.zeros(rows, y.dtype)
        for line in range(below + above + 1):
            shift = line - above  # of the row against the column
            first, last = max(0, -shift), min(n, m - shift)
            if first >= last:
                continue
            numbers = applied(band[line, first:last], op)
            at_row, at_column = slice(first + shift, last + shift), slice(first, last)
            to, of = (at_column, at_row) if op in {_T, _C} else (at_row, at_column)
            found[to] += numbers * x[of]
        return found

    y[...] = combined(alpha, product, beta, y)
    work = min(m, n) * (below + above + 1)
    return call.work(work, work + m + n)


def _symmetric(call: Arguments, *, hermitian: bool) -> Work | None:
    uplo, n = call.integers(2)
    check_either(uplo)
    check_sizes(n)
    alpha, address, leading = call.scalar(), call.pointer(), call.integer()
    check_leading(leading, n)
    x, beta, y = _vectors_around(call, n, n)
    if not n:
        return None
    a = call.memory.matrix(address, (n, n), leading, call.form)
    y[...] = combined(alpha, lambda: mirrored(a, uplo, hermitian=hermitian) @ x, beta, y)
    return call.work(n * n, n * n / 2 + 2 * n)


def _symmetric_packed(call: Arguments, *, hermitian: bool) -> Work | None:
    uplo, n = call.integers(2)
    check_either(uplo)
    check_sizes(n)
    alpha, address = call.scalar(), call.pointer()
    x, beta, y = _vectors_around(call, n, n)
    if not n:
        return None
    packed = _Packed.at(call, address, n, uplo)
    y[...] = combined(alpha, lambda: mirrored(packed.read(), uplo, hermitian=hermitian) @ x, beta, y)
    return call.work(n * n, n * n / 2 + 2 * n)


def _band_lines(band: Array, n: int, uplo: int) -> "list[tuple[int, Array]]":
    """Return the diagonals of a band beside the main one: by how much the row is further, and its numbers."""
    k = len(band) - 1
    if uplo == UPPER:
        return [(-d, band[k - d, d:]) for d in range(min(k, n - 1) + 1)]
    return [(d, band[d, : n - d]) for d in range(min(k, n - 1) + 1)]


def _band_product(lines: "list[tuple[int, Array]]", x: Array) -> Array:
    found = np.zeros(x.shape, x.dtype)
    for shift, numbers in lines:
        n, d = len(x), abs(shift)
        to, of = (slice(d, n), slice(0, n - d)) if shift > 0 else (slice(0, n - d), slice(d, n))
        found[to] += numbers * x[of]
    return found


def _symmetric_band(call: Arguments, *, hermitian: bool) -> Work | None:
    uplo, n, k = call.integers(3)
    check_either(uplo)
    check_sizes(n, k)
    alpha, address, leading = call.scalar(), call.pointer(), call.integer()
    check_leading(leading, k + 1)
    x, beta, y = _vectors_around(call, n, n)
    if not n:
        return None
    lines = _band_lines(call.memory.matrix(address, (k + 1, n), leading, call.form), n, uplo)
    others = [(-shift, numbers.conj() if hermitian else numbers) for shift, numbers in lines if shift]
    if hermitian:
        lines = [(shift, numbers if shift else numbers.real) for shift, numbers in lines]
    y[...] = combined(alpha, lambda: _band_product(lines + others, x), beta, y)
    return call.work(n * (2 * k + 1), n * (k + 3))


def symv(call: Arguments) -> Work | None:
    """Multiply a symmetric matrix and a vector."""
    return _symmetric(call, hermitian=False)


def hemv(call: Arguments) -> Work | None:
    """Multiply a hermitian matrix and a vector."""
    return _symmetric(call, hermitian=True)


def spmv(call: Arguments) -> Work | None:
    """Multiply a packed symmetric matrix and a vector."""
    return _symmetric_packed(call, hermitian=False)


def hpmv(call: Arguments) -> Work | None:
    """Multiply a packed hermitian matrix and a vector."""
    return _symmetric_packed(call, hermitian=True)


def sbmv(call: Arguments) -> Work | None:
    """Multiply a symmetric band and a vector."""
    return _symmetric_band(call, hermitian=False)


def hbmv(call: Arguments) -> Work | None:
    """Multiply a hermitian band and a vector."""
    return _symmetric_band(call, hermitian=True)


# Triangles


@dataclass(frozen=True, slots=True)
class _Triangle:
    """What the three forms of a triangle have in common."""

    uplo: int
    op: int
    diag: int
    order: int

    @classmethod
    def of(cls, call: Arguments) -> "_Triangle":
        uplo, op, diag, n = call.integers(4)
        check_either(uplo, diag)
        check_op(op)
        check_sizes(n)
        return cls(uplo, op, diag, n)

    def vector(self, call: Arguments) -> Array:
        address, step = call.pointer(), call.integer()
        require(step != 0, status=INVALID_VALUE)
        return call.memory.vector(address, self.order, step, call.form)

    def solved(self, a: Array, x: Array) -> Array:
        return solve_triangle(triangle(a, self.uplo, self.diag), x[:, None], (self.uplo, self.op, self.diag))[:, 0]

    def multiplied(self, a: Array, x: Array) -> Array:
        return applied(triangle(a, self.uplo, self.diag), self.op) @ x


def solve_triangle(a: Array, b: Array, form: tuple[int, int, int]) -> Array:
    """Return what a triangle times makes the columns of b; ``form`` is its triangle, operation and diagonal."""
    from scipy.linalg import blas  # noqa: PLC0415  takes a while, and few programs need it

    uplo, op, diag = form
    if op == _CONJUGATED:
        a, op = a.conj(), _N
    solve = {"f4": blas.strsm, "f8": blas.dtrsm, "c8": blas.ctrsm, "c16": blas.ztrsm}[b.dtype.str[1:]]
    found: Array = solve(1, a, b, lower=int(uplo != UPPER), trans_a=op, diag=diag)
    return found


def _dense(of: Callable[[_Triangle, Array, Array], Array]) -> Callable[[Arguments], Work | None]:
    def routine(call: Arguments) -> Work | None:
        form = _Triangle.of(call)
        n, address, leading = form.order, call.pointer(), call.integer()
        check_leading(leading, n)
        x = form.vector(call)
        if not n:
            return None
        x[...] = of(form, call.memory.matrix(address, (n, n), leading, call.form), x)
        return call.work(n * n / 2, n * n / 2 + 2 * n)

    return routine


def _packed(of: Callable[[_Triangle, Array, Array], Array]) -> Callable[[Arguments], Work | None]:
    def routine(call: Arguments) -> Work | None:
        form = _Triangle.of(call)
        n, address = form.order, call.pointer()
        x = form.vector(call)
        if not n:
            return None
        x[...] = of(form, _Packed.at(call, address, n, form.uplo).read(), x)
        return call.work(n * n / 2, n * n / 2 + 2 * n)

    return routine


trmv, tpmv = _dense(_Triangle.multiplied), _packed(_Triangle.multiplied)
trsv, tpsv = _dense(_Triangle.solved), _packed(_Triangle.solved)


def _band_of(call: Arguments, form: _Triangle) -> tuple[Array, Array]:
    k, address, leading = call.integer(), call.pointer(), call.integer()
    check_sizes(k)
    check_leading(leading, k + 1)
    x = form.vector(call)
    return call.memory.matrix(address, (k + 1, form.order), leading, call.form), x


def tbmv(call: Arguments) -> Work | None:
    """Multiply a triangular band and a vector."""
    form = _Triangle.of(call)
    band, x = _band_of(call, form)
    if not form.order:
        return None
    lines = _band_lines(band, form.order, form.uplo)
    if form.diag == _UNIT:
        lines = [(0, np.ones(form.order, x.dtype)), *((shift, each) for shift, each in lines if shift)]
    turns = -1 if form.op in {_T, _C} else 1
    conjugates = form.op in {_C, _CONJUGATED}
    x[...] = _band_product([(turns * shift, each.conj() if conjugates else each) for shift, each in lines], x)
    return call.work(form.order * len(band), form.order * (len(band) + 2))


def tbsv(call: Arguments) -> Work | None:
    """Solve with a triangular band."""
    from scipy.linalg import blas  # noqa: PLC0415  takes a while, and few programs need it

    form = _Triangle.of(call)
    band, x = _band_of(call, form)
    if not form.order:
        return None
    op, numbers = (_N, band.conj()) if form.op == _CONJUGATED else (form.op, band)
    solve = {"f4": blas.stbsv, "f8": blas.dtbsv, "c8": blas.ctbsv, "c16": blas.ztbsv}[x.dtype.str[1:]]
    lower = int(form.uplo != UPPER)
    x[...] = solve(len(band) - 1, numbers.copy(order="F"), x.copy(), lower=lower, trans=op, diag=form.diag)
    return call.work(form.order * len(band), form.order * (len(band) + 2))


# Updates


def _outer(call: Arguments, *, conjugates: bool) -> Work | None:
    m, n = call.integers(2)
    check_sizes(m, n)
    alpha = call.scalar()
    x, incx, y, incy, address, leading = (
        call.pointer(), call.integer(), call.pointer(), call.integer(), call.pointer(), call.integer()
    )  # fmt: skip
    require(incx != 0, incy != 0, status=INVALID_VALUE)
    check_leading(leading, m)
    if not m or not n or alpha == 0:
        return None
    column = call.memory.vector(x, m, incx, call.form)
    row = call.memory.vector(y, n, incy, call.form)
    a = call.memory.matrix(address, (m, n), leading, call.form)
    a += np.outer(alpha * column, row.conj() if conjugates else row)
    return call.work(m * n, 2 * m * n + m + n)


def ger(call: Arguments) -> Work | None:
    """Add the product of a column and a row."""
    return _outer(call, conjugates=False)


def gerc(call: Arguments) -> Work | None:
    """Add the product of a column and a conjugated row."""
    return _outer(call, conjugates=True)


@dataclass(frozen=True, slots=True)
class _Update:
    """How a symmetric matrix is changed by one or two vectors."""

    vectors: int
    hermitian: bool = False
    packed: bool = False

    def __call__(self, call: Arguments) -> Work | None:
        """Do it."""
        uplo, n = call.integers(2)
        check_either(uplo)
        check_sizes(n)
        alpha = call.scalar(call.form.real if self.hermitian and self.vectors == 1 else None)
        given = [(call.pointer(), call.integer()) for _ in range(self.vectors)]
        require(*(step != 0 for _, step in given), status=INVALID_VALUE)
        address = call.pointer()
        leading = n if self.packed else call.integer()
        check_leading(leading, n) if not self.packed else None
        if not n or alpha == 0:
            return None
        vectors = [call.memory.vector(at, n, step, call.form) for at, step in given]
        change = self._change(alpha, vectors)
        if self.packed:
            packed = _Packed.at(call, address, n, uplo)
            packed.write(packed.read() + change, hermitian=self.hermitian)
        else:
            a = call.memory.matrix(address, (n, n), leading, call.form)
            put_triangle(a, a + change, uplo, hermitian=self.hermitian)
        return call.work(self.vectors * n * n / 2, n * n + self.vectors * n)

    def _change(self, alpha: Number, vectors: "list[Array]") -> Array:
        x, y = vectors[0], vectors[-1]
        if self.vectors == 1:
            return np.outer(alpha * x, x.conj() if self.hermitian else x)
        first = np.outer(alpha * x, y.conj() if self.hermitian else y)
        return first + (first.T.conj() if self.hermitian else first.T)


syr, her = _Update(1), _Update(1, hermitian=True)
spr, hpr = _Update(1, packed=True), _Update(1, hermitian=True, packed=True)
syr2, her2 = _Update(2), _Update(2, hermitian=True)
spr2, hpr2 = _Update(2, packed=True), _Update(2, hermitian=True, packed=True)
