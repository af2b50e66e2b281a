"""Level 3 of BLAS and what cuBLAS adds to it: products of matrices, in batches and of other formats, sums, factors.

Source: Dongarra et al., "A Set of Level 3 Basic Linear Algebra Subprograms", ACM Trans. Math. Softw. 16 (1990) 1;
cuBLAS Library User's Guide 12.9, sections 2.7 and 2.8.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kerncast.device.libraries.matrices import (
    INVALID_VALUE,
    applied,
    check_either,
    check_leading,
    check_op,
    check_sizes,
    combined,
    mirrored,
    put_triangle,
    solve_triangle,
    triangle,
)
from kerncast.device.libraries.operands import (
    BFLOAT,
    COMPLEX,
    DOUBLE,
    DOUBLE_COMPLEX,
    HALF,
    INT8,
    INT32,
    SINGLE,
    Arguments,
    Array,
    Format,
    Number,
    StatusError,
    Work,
    require,
)

_NOT_SUPPORTED = 15
#: Columns are computed in groups of about so many operations, between which a call may be stopped.
_OPERATIONS_AT_ONCE = 2e10
_RIGHT = 1
#: Formats by the numbers of cudaDataType.
FORMATS: Mapping[int, Format] = {
    0: SINGLE, 1: DOUBLE, 2: HALF, 3: INT8, 4: COMPLEX, 5: DOUBLE_COMPLEX, 10: INT32, 14: BFLOAT,
}  # fmt: skip


def format_of(number: int) -> Format:
    """Return the format of a number of cudaDataType; raises StatusError for one that is not computed here."""
    found = FORMATS.get(number)
    if found is None:
        raise StatusError(_NOT_SUPPORTED)
    return found


# General products


@dataclass(frozen=True, slots=True)
class _Operand:
    """A matrix of a product, or one for each of a batch."""

    address: int
    leading: int
    form: Format
    stride: int = 0
    """numbers from one matrix of a batch to the next"""


@dataclass(frozen=True, slots=True)
class _Product:
    """C = alpha op(A) op(B) + beta C."""

    ops: tuple[int, int]
    sizes: tuple[int, int, int]
    alpha: Number
    a: _Operand
    b: _Operand
    beta: Number
    c: _Operand

    def check(self) -> None:
        """Raise StatusError for sizes that do not fit together."""
        check_op(*self.ops)
        check_sizes(*self.sizes)
        m, n, k = self.sizes
        check_leading(self.a.leading, k if self.ops[0] in {1, 2} else m)
        check_leading(self.b.leading, n if self.ops[1] in {1, 2} else k)
        check_leading(self.c.leading, m)

    def work(self, call: Arguments, batch: int) -> Work:
        """Return what it does."""
        m, n, k = self.sizes
        name, operator = self.a.form.name, ""
        if name and k:
            operator = f"gemm(M={m},N={n},K={k},dtype={name})"
            if batch > 1:
                operator = f"bmm(B={batch},M={m},N={k},K={n},dtype={name})"
        found = call.work(batch * m * n * k, 0, operator)
        moved = m * k * self.a.form.nbytes + k * n * self.b.form.nbytes
        moved += m * n * self.c.form.nbytes * (2 if self.beta != 0 else 1)
        return replace(found, nbytes=float(batch * moved))

    def multiply(self, call: Arguments, places: tuple[int, int, int]) -> None:
        """Compute one product, by columns of the result."""
        m, n, k = self.sizes
        a, b, c = self._views(call, places)
        left = applied(self.a.form.read(a), self.ops[0])
        step = max(1, int(_OPERATIONS_AT_ONCE / max(1, 2 * m * k)))
        # Written only when all is read: C may be A or B.
        parts = list(self._columns(call, (left, applied(self.b.form.read(b), self.ops[1]), c), step))
        for start, part in zip(range(0, n, step), parts, strict=True):
            self.c.form.write(c[:, start : start + step], part)

    def _columns(self, call: Arguments, matrices: tuple[Array, Array, Array], step: int) -> Iterator[Array]:
        left, right, c = matrices
        for start in range(0, self.sizes[1], step):
            call.go_on()
            some = slice(start, start + step)
            old = self.c.form.read(c[:, some])
            yield combined(self.alpha, partial(np.matmul, left, right[:, some]), self.beta, old)

    def _views(self, call: Arguments, places: tuple[int, int, int]) -> tuple[Array, Array, Array]:
        m, n, k = self.sizes
        shapes = ((k, m) if self.ops[0] in {1, 2} else (m, k), (n, k) if self.ops[1] in {1, 2} else (k, n), (m, n))
        found = [
            call.memory.matrix(place, shape, each.leading, each.form)
            for place, shape, each in zip(places, shapes, (self.a, self.b, self.c), strict=True)
        ]
        return found[0], found[1], found[2]


def _take_operand(call: Arguments, form: Format | None, *, strided: bool) -> _Operand:
    address = call.pointer()
    found = form or format_of(call.integer())
    leading = call.integer()
    return _Operand(address, leading, found, call.integer() if strided else 0)


def _take_product(call: Arguments, form: Format | None, *, strided: bool = False) -> _Product:
    """Take the operands of a product; where no format is given, each tells its own, and the factors have the call's."""
    opa, opb, m, n, k = call.integers(5)
    alpha = call.scalar()
    a = _take_operand(call, form, strided=strided)
    b = _take_operand(call, form, strided=strided)
    beta = call.scalar()
    c = _take_operand(call, form, strided=strided)
    return _Product((opa, opb), (m, n, k), alpha, a, b, beta, c)


def _each(call: Arguments, product: _Product, batch: int, *, by_pointers: bool) -> Work | None:
    """Compute all products of a batch."""
    product.check()
    check_sizes(batch)
    m, n, _ = product.sizes
    if not m or not n or not batch:
        return None
    work = product.work(call, batch)
    operands = (product.a, product.b, product.c)
    if by_pointers:
        for a, b, c in zip(*(call.memory.addresses(each.address, batch) for each in operands), strict=True):
            product.multiply(call, (a, b, c))
        return work
    for number in range(batch):
        a, b, c = (each.address + number * each.stride * each.form.nbytes for each in operands)
        product.multiply(call, (a, b, c))
    return work


def gemm(call: Arguments) -> Work | None:
    """Multiply two matrices."""
    product = _take_product(call, call.form)
    return _each(call, product, 1, by_pointers=False)


def gemm_batched(call: Arguments) -> Work | None:
    """Multiply matrices that pointers in memory tell."""
    product = _take_product(call, call.form)
    return _each(call, product, call.integer(), by_pointers=True)


def gemm_strided(call: Arguments) -> Work | None:
    """Multiply matrices at equal distances."""
    product = _take_product(call, call.form, strided=True)
    return _each(call, product, call.integer(), by_pointers=False)


# Products of several formats

#: By the numbers of cublasComputeType_t: in halves, singles, doubles and whole numbers.
_HALVES, _DOUBLES, _WHOLE = {64, 65}, {70, 71}, {72, 73}
_SINGLES = {68, 69, 74, 75, 77}


def _mixed(call: Arguments, *, strided: bool = False) -> _Product:
    """Take a product whose matrices tell their formats, behind those of the factors and of the computation."""
    scale, compute = call.integers(2)
    product = _take_product(call.as_form(format_of(scale)), None, strided=strided)
    a, c = product.a.form, product.c.form
    wanted = (
        compute in _HALVES and a is c is HALF,
        compute in _DOUBLES and a is c and a in {DOUBLE, DOUBLE_COMPLEX},
        compute in _WHOLE and a is INT8 and c is INT32,
        compute in _SINGLES and a in {HALF, BFLOAT, SINGLE, INT8} and (c is SINGLE or (c is a and a is not INT8)),
        compute in _SINGLES and a is c is COMPLEX,
    )
    require(a is product.b.form, any(wanted), status=_NOT_SUPPORTED)
    return product


def gemm_mixed(call: Arguments) -> Work | None:
    """Multiply two matrices of a format that is told."""
    return _each(call, _mixed(call), 1, by_pointers=False)


def gemm_batched_mixed(call: Arguments) -> Work | None:
    """Multiply matrices that pointers in memory tell, of a format that is told."""
    product = _mixed(call)
    return _each(call, product, call.integer(), by_pointers=True)


def gemm_strided_mixed(call: Arguments) -> Work | None:
    """Multiply matrices at equal distances, of a format that is told."""
    product = _mixed(call, strided=True)
    return _each(call, product, call.integer(), by_pointers=False)


# Products of special matrices


def _symmetric(call: Arguments, *, hermitian: bool) -> Work | None:
    side, uplo, m, n = call.integers(4)
    check_either(side, uplo)
    check_sizes(m, n)
    alpha = call.scalar()
    a, lda, b, ldb = call.pointer(), call.integer(), call.pointer(), call.integer()
    beta, c, ldc = call.scalar(), call.pointer(), call.integer()
    order = n if side == _RIGHT else m
    check_leading(lda, order)
    check_leading(ldb, m)
    check_leading(ldc, m)
    if not m or not n:
        return None
    work = call.work(m * n * order, order * order / 2 + 3 * m * n)
    half = call.memory.matrix(a, (order, order), lda, call.form)
    other = call.memory.matrix(b, (m, n), ldb, call.form)
    to = call.memory.matrix(c, (m, n), ldc, call.form)

    def product() -> Array:
        whole = mirrored(half, uplo, hermitian=hermitian)
        return other @ whole if side == _RIGHT else whole @ other

    to[...] = combined(alpha, product, beta, to)
    return work


def symm(call: Arguments) -> Work | None:
    """Multiply a symmetric matrix and another one."""
    return _symmetric(call, hermitian=False)


def hemm(call: Arguments) -> Work | None:
    """Multiply a hermitian matrix and another one."""
    return _symmetric(call, hermitian=True)


@dataclass(frozen=True, slots=True)
class _RankK:
    """A symmetric matrix changed by one or two others: C = alpha op(A) op(B)^T + ... + beta C."""

    matrices: int
    hermitian: bool = False

    def __call__(self, call: Arguments) -> Work | None:
        """Do it."""
        uplo, op, n, k = call.integers(4)
        check_either(uplo)
        check_op(op)
        check_sizes(n, k)
        real = call.form.real
        alpha = call.scalar(real if self.hermitian and self.matrices == 1 else None)
        given = [(call.pointer(), call.integer()) for _ in range(self.matrices)]
        beta = call.scalar(real if self.hermitian else None)
        c, ldc = call.pointer(), call.integer()
        rows, columns = (n, k) if op == 0 else (k, n)
        for _, leading in given:
            check_leading(leading, rows)
        check_leading(ldc, n)
        if not n:
            return None
        work = call.work(self.matrices * n * n * k / 2, self.matrices * n * k + n * n)
        views = [call.memory.matrix(at, (rows, columns), leading, call.form) for at, leading in given]
        to = call.memory.matrix(c, (n, n), ldc, call.form)
        values = combined(alpha, lambda: self._product(alpha, views, op), beta, to)
        put_triangle(to, values, uplo, hermitian=self.hermitian)
        return work

    def _product(self, alpha: Number, views: "list[Array]", op: int) -> Array:
        a, b = (each if op == 0 else each.T for each in (views[0], views[-1]))
        if not self.hermitian:
            return a @ b.T if self.matrices == 1 else a @ b.T + b @ a.T
        # With op(A) = A^H the product is A^H B: the first factor is the conjugated one.
        a, b = (a, b) if op == 0 else (a.conj(), b.conj())
        if self.matrices == 1:
            return a @ a.conj().T
        # The factor of the second term is conjugated; what is returned is multiplied by alpha itself.
        first: Array = a @ b.conj().T
        second: Array = (np.conj(alpha) / alpha) * first.T.conj()
        return first + second


syrk, herk = _RankK(1), _RankK(1, hermitian=True)
syr2k, her2k = _RankK(2), _RankK(2, hermitian=True)


@dataclass(frozen=True, slots=True)
class _Triangular:
    """A triangle on one side of a matrix."""

    side: int
    uplo: int
    op: int
    diag: int
    m: int
    n: int

    @classmethod
    def of(cls, call: Arguments) -> "_Triangular":
        side, uplo, op, diag, m, n = call.integers(6)
        check_either(side, uplo, diag)
        check_op(op)
        check_sizes(m, n)
        return cls(side, uplo, op, diag, m, n)

    @property
    def order(self) -> int:
        return self.n if self.side == _RIGHT else self.m

    def solved(self, a: Array, b: Array) -> Array:
        half = triangle(a, self.uplo, self.diag)
        if self.side != _RIGHT:
            return solve_triangle(half, b, (self.uplo, self.op, self.diag))
        # X op(A) = B is op(A)^T X^T = B^T, and op(A)^T has the other triangle.
        turned = applied(half, self.op).T
        uplo = 1 - self.uplo if self.op in {0, 3} else self.uplo
        return solve_triangle(turned, b.T, (uplo, 0, self.diag)).T

    def multiplied(self, a: Array, b: Array) -> Array:
        half = applied(triangle(a, self.uplo, self.diag), self.op)
        return b @ half if self.side == _RIGHT else half @ b

    def work(self, call: Arguments, batch: int = 1) -> Work:
        moved = self.order * self.order / 2 + 2 * self.m * self.n
        return call.work(batch * self.m * self.n * self.order / 2, batch * moved)


def trsm(call: Arguments) -> Work | None:
    """Solve with a triangle for many right-hand sides."""
    form = _Triangular.of(call)
    alpha, a, lda, b, ldb = call.scalar(), call.pointer(), call.integer(), call.pointer(), call.integer()
    check_leading(lda, form.order)
    check_leading(ldb, form.m)
    if not form.m or not form.n:
        return None
    work = form.work(call)
    _solve_in_place(call, form, alpha, ((a, lda), (b, ldb)))
    return work


def _solve_in_place(
    call: Arguments, form: _Triangular, alpha: Number, places: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    (a, lda), (b, ldb) = places
    view = call.memory.matrix(b, (form.m, form.n), ldb, call.form)
    if alpha == 0:
        view[...] = 0
        return
    view[...] = form.solved(call.memory.matrix(a, (form.order, form.order), lda, call.form), alpha * view)


def trsm_batched(call: Arguments) -> Work | None:
    """Solve with many triangles."""
    form = _Triangular.of(call)
    alpha, a, lda, b, ldb = call.scalar(), call.pointer(), call.integer(), call.pointer(), call.integer()
    batch = call.integer()
    check_leading(lda, form.order)
    check_leading(ldb, form.m)
    check_sizes(batch)
    if not form.m or not form.n or not batch:
        return None
    work = form.work(call, batch)
    for one, other in zip(call.memory.addresses(a, batch), call.memory.addresses(b, batch), strict=True):
        _solve_in_place(call, form, alpha, ((one, lda), (other, ldb)))
    return work


def trmm(call: Arguments) -> Work | None:
    """Multiply a triangle and a matrix into a third, which may be the second."""
    form = _Triangular.of(call)
    alpha = call.scalar()
    a, lda, b, ldb, c, ldc = (
        call.pointer(), call.integer(), call.pointer(), call.integer(), call.pointer(), call.integer()
    )  # fmt: skip
    check_leading(lda, form.order)
    check_leading(ldb, form.m)
    check_leading(ldc, form.m)
    if not form.m or not form.n:
        return None
    work = form.work(call)
    half = call.memory.matrix(a, (form.order, form.order), lda, call.form)
    other = call.memory.matrix(b, (form.m, form.n), ldb, call.form)
    to = call.memory.matrix(c, (form.m, form.n), ldc, call.form)
    to[...] = alpha * form.multiplied(half, other) if alpha != 0 else 0
    return work


# Sums, diagonals, factors


def geam(call: Arguments) -> Work | None:
    """Add two matrices, each transposed or not."""
    opa, opb, m, n = call.integers(4)
    check_op(opa, opb)
    check_sizes(m, n)
    alpha, a, lda = call.scalar(), call.pointer(), call.integer()
    beta, b, ldb = call.scalar(), call.pointer(), call.integer()
    c, ldc = call.pointer(), call.integer()
    shapes = [(n, m) if op in {1, 2} else (m, n) for op in (opa, opb)]
    check_leading(lda, shapes[0][0])
    check_leading(ldb, shapes[1][0])
    check_leading(ldc, m)
    if not m or not n:
        return None
    work = call.work(m * n, 3 * m * n)
    # A factor of 0 means that its matrix is not looked at; the address may be anything.
    total = np.zeros((m, n), call.form.computed)
    for factor, place, leading, shape, op in ((alpha, a, lda, shapes[0], opa), (beta, b, ldb, shapes[1], opb)):
        if factor != 0:
            total = total + factor * applied(call.memory.matrix(place, shape, leading, call.form), op)
    call.memory.matrix(c, (m, n), ldc, call.form)[...] = total
    return work


def dgmm(call: Arguments) -> Work | None:
    """Multiply a matrix by a diagonal one."""
    side, m, n = call.integers(3)
    check_either(side)
    check_sizes(m, n)
    a, lda, x, incx = call.pointer(), call.integer(), call.pointer(), call.integer()
    c, ldc = call.pointer(), call.integer()
    check_leading(lda, m)
    check_leading(ldc, m)
    if not m or not n:
        return None
    work = call.work(m * n / 2, 2 * m * n + (n if side == _RIGHT else m))
    diagonal = call.memory.vector(x, n if side == _RIGHT else m, incx, call.form)
    given = call.memory.matrix(a, (m, n), lda, call.form)
    to = call.memory.matrix(c, (m, n), ldc, call.form)
    to[...] = given * (diagonal if side == _RIGHT else diagonal[:, None])
    return work


def _lapack(name: str, dtype: "np.dtype[np.generic]") -> Callable[..., tuple[Array, ...]]:
    from scipy.linalg import lapack  # noqa: PLC0415  takes a while, and few programs need it

    letter = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}[dtype.str[1:]]
    found: Callable[..., tuple[Array, ...]] = getattr(lapack, letter + name)
    return found


def _factored(a: Array, *, pivots: bool) -> tuple[Array, Array, int]:
    """Return L and U in one matrix, the rows that were exchanged, and the first pivot that is 0, from 1."""
    if pivots:
        found, rows, failed = _lapack("getrf", a.dtype)(a)
        return found, rows + 1, int(failed)
    info, n = 0, len(a)
    lu = a.copy()
    with np.errstate(all="ignore"):
        for k in range(n):
            if lu[k, k] == 0:
                info = info or k + 1
                continue
            lu[k + 1 :, k] /= lu[k, k]
            lu[k + 1 :, k + 1 :] -= np.outer(lu[k + 1 :, k], lu[k, k + 1 :])
    return lu, np.arange(1, n + 1), info


def getrf_batched(call: Arguments) -> Work | None:
    """Factor matrices into L and U, in their places."""
    n, address, leading, rows, info, batch = (
        call.integer(), call.pointer(), call.integer(), call.pointer(), call.pointer(), call.integer()
    )  # fmt: skip
    check_sizes(n, batch)
    check_leading(leading, n)
    if not n or not batch:
        return None
    work = call.work(batch * n**3 / 3, 2 * batch * n * n)
    told = call.memory.vector(info, batch, 1, INT32)
    for number, place in enumerate(call.memory.addresses(address, batch)):
        a = call.memory.matrix(place, (n, n), leading, call.form)
        a[...], exchanged, told[number] = _factored(a, pivots=rows != 0)
        if rows:
            call.memory.vector(rows + 4 * number * n, n, 1, INT32)[...] = exchanged
        call.go_on()
    return work


def _pivots_of(call: Arguments, rows: int, number: int, n: int) -> Array:
    """Return the rows that were exchanged, from 0; raises StatusError for rows that there are not."""
    if not rows:
        return np.arange(n, dtype=np.int32)
    found = call.memory.vector(rows + 4 * number * n, n, 1, INT32) - 1
    require(bool(((found >= 0) & (found < n)).all()), status=INVALID_VALUE)
    return found


def getri_batched(call: Arguments) -> Work | None:
    """Invert matrices from their factors."""
    n, address, leading, rows = call.integer(), call.pointer(), call.integer(), call.pointer()
    to, ldc, info, batch = call.pointer(), call.integer(), call.pointer(), call.integer()
    check_sizes(n, batch)
    check_leading(leading, n)
    check_leading(ldc, n)
    if not n or not batch:
        return None
    work = call.work(batch * n**3 * 2 / 3, 2 * batch * n * n)
    told = call.memory.vector(info, batch, 1, INT32)
    places = zip(call.memory.addresses(address, batch), call.memory.addresses(to, batch), strict=True)
    for number, (one, other) in enumerate(places):
        lu = call.memory.matrix(one, (n, n), leading, call.form)
        found, failed = _lapack("getri", lu.dtype)(lu, _pivots_of(call, rows, number, n))
        told[number] = failed
        if not failed:
            call.memory.matrix(other, (n, n), ldc, call.form)[...] = found
        call.go_on()
    return work


def getrs_batched(call: Arguments) -> Work | None:
    """Solve systems from the factors of their matrices."""
    op, n, columns = call.integers(3)
    address, lda, rows, to, ldb, batch = (
        call.pointer(), call.integer(), call.pointer(), call.pointer(), call.integer(), call.integer()
    )  # fmt: skip
    check_op(op)
    check_sizes(n, columns, batch)
    check_leading(lda, n)
    check_leading(ldb, n)
    if not n or not columns or not batch:
        return None
    work = call.work(batch * n * n * columns, batch * (n * n + 2 * n * columns))
    places = zip(call.memory.addresses(address, batch), call.memory.addresses(to, batch), strict=True)
    for number, (one, other) in enumerate(places):
        lu = call.memory.matrix(one, (n, n), lda, call.form)
        b = call.memory.matrix(other, (n, columns), ldb, call.form)
        b[...], _ = _lapack("getrs", lu.dtype)(lu, _pivots_of(call, rows, number, n), b, trans=op)
        call.go_on()
    return work
