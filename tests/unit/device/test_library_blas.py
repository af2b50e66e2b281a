"""cuBLAS's functions against NumPy's dense products, for matrices and vectors of any layout."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.errors import IllegalAddress, MachineLimitError, UnsupportedError
from kerncast.operators import parse_operator
from tests.helpers.library_calls import At, Device

Array = npt.NDArray[Any]
TYPES = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
SEEDS = range(6)
INVALID = 7


class Case:
    """Random numbers of one format, and a device to call with them."""

    def __init__(self, letter: str, seed: int) -> None:
        self.letter, self.dtype = letter, np.dtype(TYPES[letter])
        self.random = np.random.default_rng([seed, ord(letter)])
        self.device = Device(2**20)
        self.real: np.dtype[Any] = np.zeros(1, self.dtype).real.dtype
        self.tolerance = 2e-4 if self.real == np.float32 else 1e-11

    def numbers(self, *shape: int) -> Array:
        made = self.random.normal(size=shape)
        if self.dtype.kind == "c":
            made = made + 1j * self.random.normal(size=shape)
        return made.astype(self.dtype)

    def number(self) -> Any:
        return self.numbers(1)[0]

    def size(self, most: int = 9) -> int:
        return int(self.random.integers(1, most))

    def pick(self, *choices: int) -> int:
        return int(self.random.choice(choices))

    def step(self) -> int:
        return self.pick(1, 2, 3, -1, -2)

    def op(self) -> int:
        return self.pick(0, 1, 2)

    def vector(self, count: int) -> tuple[Array, At, int]:
        values, step = self.numbers(count), self.step()
        return values, self.device.put_vector(values, step), step

    def matrix(self, rows: int, columns: int) -> tuple[Array, At, int]:
        values, leading = self.numbers(rows, columns), rows + self.pick(0, 1, 5)
        return values, self.device.put_matrix(values, leading), leading

    def call(self, name: str, *operands: object) -> None:
        found = self.device.call(f"cublas{name}_v2", *operands)
        assert found.status == 0
        if found.work is not None:
            assert found.work.double == (self.real == np.float64)

    def same(self, found: Any, wanted: Any) -> None:
        np.testing.assert_allclose(found, wanted, self.tolerance, self.tolerance)


@pytest.fixture(params=[(letter, seed) for letter in TYPES for seed in SEEDS], ids=lambda each: f"{each[0]}{each[1]}")
def case(request: pytest.FixtureRequest) -> Case:
    return Case(*request.param)


def applied(a: Array, op: int) -> Array:
    return [a, a.T, a.conj().T][op]


def half(a: Array, uplo: int, diag: int = 0) -> Array:
    found = np.triu(a) if uplo else np.tril(a)
    if diag:
        np.fill_diagonal(found, 1)
    return found


def whole(a: Array, uplo: int, *, hermitian: bool) -> Array:
    strict = np.triu(a, 1) if uplo else np.tril(a, -1)
    middle = np.diag(np.diag(a).real if hermitian else np.diag(a))
    return strict + middle + (strict.conj().T if hermitian else strict.T)


def names(case: Case, symmetric: str, hermitian: str) -> Iterator[tuple[str, bool]]:
    """Yield what a format has of a pair of functions."""
    yield case.letter + symmetric, False
    if case.dtype.kind == "c":
        yield case.letter + hermitian, True


def test_vectors_are_added_scaled_and_exchanged(case: Case) -> None:
    n, alpha = case.size(), case.number()
    (x, at_x, incx), (y, at_y, incy) = case.vector(n), case.vector(n)
    case.call(f"{case.letter}axpy", n, alpha, at_x, incx, at_y, incy)
    case.same(case.device.get_vector(at_y, n, incy, case.dtype), alpha * x + y)
    case.call(f"{case.letter}swap", n, at_x, incx, at_y, incy)
    case.same(case.device.get_vector(at_x, n, incx, case.dtype), alpha * x + y)
    case.call(f"{case.letter}copy", n, at_y, incy, at_x, incx)
    case.same(case.device.get_vector(at_x, n, incx, case.dtype), x)
    case.call(f"{case.letter}scal", n, alpha, at_x, abs(incx))
    case.same(case.device.get_vector(at_x, n, incx, case.dtype), alpha * x)


def test_vectors_are_reduced(case: Case) -> None:
    n = case.size(40)
    x, at_x, incx = case.vector(n)
    y, at_y, incy = case.vector(n)
    place = case.device.allocate(16)
    prefix = {"S": "S", "D": "D", "C": "Sc", "Z": "Dz"}[case.letter]
    sizes = abs(x.real) + abs(x.imag) if case.dtype.kind == "c" else abs(x)
    turned = sizes if incx > 0 else sizes[::-1]  # by a positive step they are read from the front
    for name, wanted in (("asum", sizes.sum()), ("nrm2", np.linalg.norm(x))):
        case.call(prefix + name, n, at_x, abs(incx), place)
        case.same(case.device.get(place, (1,), case.real)[0], wanted)
    for name, index in (("amax", turned.argmax()), ("amin", turned.argmin())):
        case.call(f"I{case.letter.lower()}{name}", n, at_x, abs(incx), place)
        assert case.device.get(place, (1,), np.int32)[0] == index + 1
    for name, left in (("dotu", x), ("dotc", x.conj())) if case.dtype.kind == "c" else (("dot", x),):
        case.call(case.letter + name, n, at_x, incx, at_y, incy, place)
        case.same(case.device.get(place, (1,), case.dtype)[0], left @ y)


def test_points_are_rotated(case: Case) -> None:
    n = case.size()
    (x, at_x, incx), (y, at_y, incy) = case.vector(n), case.vector(n)
    c, s = case.real.type(0.6), case.number()
    case.call(f"{case.letter}rot", n, at_x, incx, at_y, incy, c, s)
    case.same(case.device.get_vector(at_x, n, incx, case.dtype), c * x + s * y)
    case.same(case.device.get_vector(at_y, n, incy, case.dtype), c * y - np.conj(s) * x)


def test_a_rotation_turns_a_point_onto_the_axis(case: Case) -> None:
    a, b = case.numbers(2)
    at_a, at_b, at_c, at_s = case.device.put(np.array([a])), case.device.put(np.array([b])), *map(
        case.device.allocate, (16, 16))  # fmt: skip
    case.call(f"{case.letter}rotg", at_a, at_b, at_c, at_s)
    c, s = case.device.get(at_c, (1,), case.real)[0], case.device.get(at_s, (1,), case.dtype)[0]
    case.same(np.array([[c, s], [-np.conj(s), c]]) @ [a, b], [case.device.get(at_a, (1,), case.dtype)[0], 0])
    case.same(c * c + abs(s) ** 2, 1)


@pytest.mark.parametrize(("d1", "d2", "x1", "y1"), [
    (2.0, 3.0, 5.0, 1.0), (2.0, 3.0, 1.0, 5.0), (1e-9, 3.0, 5.0, 1e-3), (2.0, 1e9, 1.0, 5.0), (2.0, 3.0, 5.0, 0.0),
    (2.0, -0.1, 5.0, 1.0),
])  # fmt: skip
def test_a_modified_rotation_makes_the_second_coordinate_zero(d1: float, d2: float, x1: float, y1: float) -> None:
    device = Device(2**16)
    places = [device.put(np.array([each])) for each in (d1, d2, x1)]
    matrix = device.put(np.zeros(5))
    assert device.call("cublasDrotmg_v2", *places, np.float64(y1), matrix).status == 0
    x, y = device.put(np.array([x1, 7.0])), device.put(np.array([y1, 8.0]))
    assert device.call("cublasDrotm_v2", 2, x, 1, y, 1, matrix).status == 0
    new_d1, new_d2, new_x1 = (device.get(each, (1,), float)[0] for each in places)
    (first, third), (second, fourth) = device.get(x, (2,), float), device.get(y, (2,), float)
    assert first == pytest.approx(new_x1)
    assert second == pytest.approx(0, abs=1e-12)
    # Scaled lengths and products stay what they were.
    assert new_d1 * first**2 + new_d2 * second**2 == pytest.approx(d1 * x1**2 + d2 * y1**2)
    assert new_d1 * first * third + new_d2 * second * fourth == pytest.approx(d1 * x1 * 7 + d2 * y1 * 8)


def test_matrix_times_vector(case: Case) -> None:
    m, n, op = case.size(), case.size(), case.op()
    a, at_a, lda = case.matrix(m, n)
    x, at_x, incx = case.vector(m if op else n)
    y, at_y, incy = case.vector(n if op else m)
    alpha, beta = case.number(), case.number()
    case.call(f"{case.letter}gemv", op, m, n, alpha, at_a, lda, at_x, incx, beta, at_y, incy)
    case.same(case.device.get_vector(at_y, len(y), incy, case.dtype), alpha * applied(a, op) @ x + beta * y)


def banded(a: Array, below: int, above: int) -> tuple[Array, Array]:
    """Return the band of a matrix, and the matrix without the rest."""
    m, n = a.shape
    band, rest = np.full((below + above + 1, n), 99, a.dtype), np.zeros_like(a)
    for i in range(m):
        for j in range(n):
            if -above <= i - j <= below:
                band[above + i - j, j] = rest[i, j] = a[i, j]
    return band, rest


def test_a_band_times_a_vector(case: Case) -> None:
    m, n, op, below, above = case.size(), case.size(), case.op(), case.pick(0, 1, 3), case.pick(0, 2, 4)
    band, a = banded(case.numbers(m, n), below, above)
    at_a = case.device.put_matrix(band, len(band) + 2)
    x, at_x, incx = case.vector(m if op else n)
    y, at_y, incy = case.vector(n if op else m)
    alpha, beta = case.number(), case.number()
    case.call(f"{case.letter}gbmv", op, m, n, below, above, alpha, at_a, len(band) + 2, at_x, incx, beta, at_y, incy)
    case.same(case.device.get_vector(at_y, len(y), incy, case.dtype), alpha * applied(a, op) @ x + beta * y)


def pack(a: Array, uplo: int) -> Array:
    return np.concatenate([a[: j + 1, j] if uplo else a[j:, j] for j in range(len(a))])


def test_symmetric_matrices_times_a_vector(case: Case) -> None:
    n, uplo, k = case.size(), case.pick(0, 1), case.pick(0, 1, 3)
    alpha, beta = case.number(), case.number()
    a, at_a, lda = case.matrix(n, n)
    x, at_x, incx = case.vector(n)
    packed = case.device.put(pack(a, uplo))
    band, part = banded(a, 0 if uplo else k, k if uplo else 0)
    at_band = case.device.put_matrix(band, k + 2)
    is_real = case.dtype.kind != "c"
    for form, first in (("y", (at_a, lda)), ("p", (packed,)), ("b", (at_band, k + 2))):
        symmetric, hermitian = {"y": ("symv", "hemv"), "p": ("spmv", "hpmv"), "b": ("sbmv", "hbmv")}[form]
        for name, is_hermitian in names(case, symmetric, hermitian):
            if not is_real and not is_hermitian and form != "y":
                continue
            y, at_y, incy = case.vector(n)
            full = whole(part if form == "b" else a, uplo, hermitian=is_hermitian)
            sizes = (uplo, n, k) if form == "b" else (uplo, n)
            case.call(name, *sizes, alpha, *first, at_x, incx, beta, at_y, incy)
            case.same(case.device.get_vector(at_y, n, incy, case.dtype), alpha * full @ x + beta * y)


def test_triangles_are_multiplied_and_solved(case: Case) -> None:
    n, uplo, op, diag, k = case.size(), case.pick(0, 1), case.op(), case.pick(0, 1), case.pick(0, 1, 3)
    values = case.numbers(n, n) / 4 + 3 * np.eye(n, dtype=case.dtype)
    lda = n + 2
    at_a = case.device.put_matrix(values, lda)
    packed = case.device.put(pack(values, uplo))
    band, part = banded(values, 0 if uplo else k, k if uplo else 0)
    at_band = case.device.put_matrix(band, k + 2)
    for form, sizes, first in (("tr", (), (at_a, lda)), ("tp", (), (packed,)), ("tb", (k,), (at_band, k + 2))):
        full = applied(half(part if form == "tb" else values, uplo, diag), op)
        x, at_x, incx = case.vector(n)
        case.call(f"{case.letter}{form}mv", uplo, op, diag, n, *sizes, *first, at_x, incx)
        case.same(case.device.get_vector(at_x, n, incx, case.dtype), full @ x)
        case.call(f"{case.letter}{form}sv", uplo, op, diag, n, *sizes, *first, at_x, incx)
        case.same(case.device.get_vector(at_x, n, incx, case.dtype), x)


def test_outer_products_are_added(case: Case) -> None:
    m, n, alpha = case.size(), case.size(), case.number()
    (x, at_x, incx), (y, at_y, incy) = case.vector(m), case.vector(n)
    kinds = (("geru", y), ("gerc", y.conj())) if case.dtype.kind == "c" else (("ger", y),)
    for name, row in kinds:
        a, at_a, lda = case.matrix(m, n)
        case.call(case.letter + name, m, n, alpha, at_x, incx, at_y, incy, at_a, lda)
        case.same(case.device.get_matrix(at_a, (m, n), lda, case.dtype), a + alpha * np.outer(x, row))


def test_symmetric_updates_change_one_triangle(case: Case) -> None:
    n, uplo = case.size(), case.pick(0, 1)
    (x, at_x, incx), (y, at_y, incy) = case.vector(n), case.vector(n)
    for name, hermitian in names(case, "syr", "her"):
        alpha = case.real.type(0.7) if hermitian else case.number()
        a, at_a, lda = case.matrix(n, n)
        case.call(name, uplo, n, alpha, at_x, incx, at_a, lda)
        wanted = a + alpha * np.outer(x, x.conj() if hermitian else x)
        check_triangle(case, case.device.get_matrix(at_a, (n, n), lda, case.dtype), (a, wanted), uplo, hermitian)
        if not hermitian and case.dtype.kind == "c":
            continue
        at_packed = case.device.put(pack(a, uplo))
        case.call(name.replace("her", "hpr").replace("syr", "spr"), uplo, n, alpha, at_x, incx, at_packed)
        case.same(
            case.device.get(at_packed, (n * (n + 1) // 2,), case.dtype), pack(real_middle(wanted, hermitian), uplo)
        )
    for name, hermitian in names(case, "syr2", "her2"):
        alpha = case.number()
        a, at_a, lda = case.matrix(n, n)
        case.call(name, uplo, n, alpha, at_x, incx, at_y, incy, at_a, lda)
        one = alpha * np.outer(x, y.conj() if hermitian else y)
        wanted = a + one + (one.conj().T if hermitian else one.T)
        check_triangle(case, case.device.get_matrix(at_a, (n, n), lda, case.dtype), (a, wanted), uplo, hermitian)
        if not hermitian and case.dtype.kind == "c":
            continue
        at_packed = case.device.put(pack(a, uplo))
        case.call(name.replace("her", "hpr").replace("syr", "spr"), uplo, n, alpha, at_x, incx, at_y, incy, at_packed)
        case.same(
            case.device.get(at_packed, (n * (n + 1) // 2,), case.dtype), pack(real_middle(wanted, hermitian), uplo)
        )


def real_middle(a: Array, hermitian: bool) -> Array:
    return a - 1j * np.diag(np.diag(a).imag) if hermitian else a


def check_triangle(case: Case, found: Array, sides: tuple[Array, Array], uplo: int, hermitian: bool) -> None:
    """Check one triangle; the other one is what it was."""
    before, wanted = sides
    inside = np.tri(len(found), dtype=bool)
    inside = inside.T if uplo else inside
    case.same(found[inside], real_middle(wanted, hermitian)[inside])
    assert (found[~inside] == before[~inside]).all()


def test_matrix_times_matrix(case: Case) -> None:
    m, n, k, opa, opb = case.size(), case.size(), case.size(), case.op(), case.op()
    a, at_a, lda = case.matrix(*((k, m) if opa else (m, k)))
    b, at_b, ldb = case.matrix(*((n, k) if opb else (k, n)))
    c, at_c, ldc = case.matrix(m, n)
    alpha, beta = case.number(), case.number()
    case.call(f"{case.letter}gemm", opa, opb, m, n, k, alpha, at_a, lda, at_b, ldb, beta, at_c, ldc)
    wanted = alpha * applied(a, opa) @ applied(b, opb) + beta * c
    case.same(case.device.get_matrix(at_c, (m, n), ldc, case.dtype), wanted)


def test_symmetric_matrix_times_matrix(case: Case) -> None:
    side, uplo, m, n = case.pick(0, 1), case.pick(0, 1), case.size(), case.size()
    a, at_a, lda = case.matrix(*([n if side else m] * 2))
    b, at_b, ldb = case.matrix(m, n)
    alpha, beta = case.number(), case.number()
    for name, hermitian in names(case, "symm", "hemm"):
        c, at_c, ldc = case.matrix(m, n)
        full = whole(a, uplo, hermitian=hermitian)
        case.call(name, side, uplo, m, n, alpha, at_a, lda, at_b, ldb, beta, at_c, ldc)
        wanted = alpha * (b @ full if side else full @ b) + beta * c
        case.same(case.device.get_matrix(at_c, (m, n), ldc, case.dtype), wanted)


def test_updates_by_whole_matrices(case: Case) -> None:
    uplo, n, k = case.pick(0, 1), case.size(), case.size()
    for two in (False, True):
        for name, hermitian in names(case, "syr2k" if two else "syrk", "her2k" if two else "herk"):
            op = case.pick(0, 2 if hermitian else 1)
            a, at_a, lda = case.matrix(*((k, n) if op else (n, k)))
            b, at_b, ldb = case.matrix(*((k, n) if op else (n, k)))
            c, at_c, ldc = case.matrix(n, n)
            alpha = case.real.type(0.3) if hermitian and not two else case.number()
            beta = case.real.type(1.5) if hermitian else case.number()
            left, right = applied(a, op), applied(b, op) if two else applied(a, op)
            end = 2 if hermitian else 1
            product = alpha * left @ applied(right, end)
            if two:
                product = product + (np.conj(alpha) if hermitian else alpha) * right @ applied(left, end)
            second = (at_b, ldb) if two else ()
            case.call(name, uplo, op, n, k, alpha, at_a, lda, *second, beta, at_c, ldc)
            found = case.device.get_matrix(at_c, (n, n), ldc, case.dtype)
            old = real_middle(c, hermitian)
            check_triangle(case, found, (c, product + beta * old), uplo, hermitian)


def test_triangles_and_matrices(case: Case) -> None:
    side, uplo, op, diag = case.pick(0, 1), case.pick(0, 1), case.op(), case.pick(0, 1)
    m, n, alpha = case.size(), case.size(), case.number()
    order = n if side else m
    a = case.numbers(order, order) / 4 + 3 * np.eye(order, dtype=case.dtype)
    at_a = case.device.put_matrix(a, order + 1)
    b, at_b, ldb = case.matrix(m, n)
    _, at_c, ldc = case.matrix(m, n)
    full = applied(half(a, uplo, diag), op)
    form = (side, uplo, op, diag, m, n, alpha, at_a, order + 1)
    case.call(f"{case.letter}trmm", *form, at_b, ldb, at_c, ldc)
    wanted = alpha * (b @ full if side else full @ b)
    case.same(case.device.get_matrix(at_c, (m, n), ldc, case.dtype), wanted)
    case.call(f"{case.letter}trsm", *form, at_c, ldc)
    case.same(case.device.get_matrix(at_c, (m, n), ldc, case.dtype), alpha * alpha * b)
    case.call(f"{case.letter}trmm", *form, at_b, ldb, at_b, ldb)
    case.same(case.device.get_matrix(at_b, (m, n), ldb, case.dtype), wanted)


# What belongs to no format


def test_a_factor_of_zero_hides_what_is_no_number() -> None:
    device = Device()
    nothing = np.full((3, 3), np.nan)
    a, c = device.put(np.eye(3)), device.put(nothing)
    assert device.call("cublasDgemm_v2", 0, 0, 3, 3, 3, 2.0, a, 3, a, 3, 0.0, c, 3).status == 0
    assert (device.get(c, (3, 3), float) == 2 * np.eye(3)).all()
    b = device.put(nothing)
    assert device.call("cublasDgemm_v2", 0, 0, 3, 3, 3, 0.0, b, 3, b, 3, 1.0, c, 3).status == 0
    assert (device.get(c, (3, 3), float) == 2 * np.eye(3)).all()


def test_factors_may_lie_on_the_device() -> None:
    device = Device()
    x, alpha = device.put(np.arange(4.0)), device.put(np.array([3.0]))
    assert device.call("cublasDscal_v2", 4, alpha, x, 1).status == 0
    assert (device.get(x, (4,), float) == [0, 3, 6, 9]).all()


@pytest.mark.parametrize("operands", [
    (0, 0, -1, 2, 2, 1.0, 2, 2, 0.0, 2), (0, 0, 2, 2, 2, 1.0, 1, 2, 0.0, 2), (0, 1, 2, 3, 2, 1.0, 2, 2, 0.0, 2),
    (0, 0, 2, 2, 2, 1.0, 2, 2, 0.0, 1), (4, 0, 2, 2, 2, 1.0, 2, 2, 0.0, 2), (-1, 0, 2, 2, 2, 1.0, 2, 2, 0.0, 2),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_told(operands: tuple[Any, ...]) -> None:
    device = Device()
    a = device.put(np.zeros((8, 8)))
    opa, opb, m, n, k, alpha, lda, ldb, beta, ldc = operands
    found = device.call("cublasDgemm_v2", opa, opb, m, n, k, alpha, a, lda, a, ldb, beta, a, ldc)
    assert found.status == INVALID
    assert found.work is None


@pytest.mark.parametrize("scale", [math.inf, math.nan, -math.inf, 5e-324, 1.7e308])
def test_a_modified_rotation_of_any_numbers_ends(scale: float) -> None:
    device = Device()
    places = [device.put(np.array([value])) for value in (scale, 2.0, 3.0)]
    assert device.call("cublasDrotmg_v2", *places, np.float64(scale), device.put(np.zeros(5))).status == 0


def test_bytes_that_are_read_for_hours_are_refused() -> None:
    device = Device()
    x = device.put(np.ones(4))
    with pytest.raises(MachineLimitError, match="times over"):
        device.call("cublasDdot_v2", 2**40, x, 0, x, 0, device.put(np.zeros(1)))


def test_pointers_that_lead_nowhere_are_illegal() -> None:
    device = Device()
    a = device.put(np.zeros((8, 8)))
    for place in (At(0), At(2**63), At(a - 4096), At(a + 1024)):
        with pytest.raises(IllegalAddress):
            device.call("cublasDgemm_v2", 0, 0, 4, 4, 4, 1.0, place, 8, a, 8, 0.0, a, 8)
    with pytest.raises(IllegalAddress, match="520 bytes"):
        device.call("cublasDasum_v2", 65, a, 1, a)
    with pytest.raises(IllegalAddress):
        device.call("cublasDasum_v2", 2**31 - 1, a, 2**31 - 1, a)


def test_what_is_too_large_or_makes_no_sense_is_refused() -> None:
    device = Device()
    a = device.put(np.zeros(4))
    side = 2**20
    with pytest.raises(MachineLimitError, match="operations"):
        device.call("cublasDgemm_v2", 0, 0, side, side, side, 1.0, a, side, a, side, 0.0, a, side)
    for operands in ((1,), (a, 1, a, 1), (1, a, 1, 1), (1, a, 1, a, 1), (1, np.float32(1), 1, a)):
        with pytest.raises(UnsupportedError, match="operand"):
            device.call("cublasDasum_v2", *operands)
    with pytest.raises(UnsupportedError, match="cublasDnone_v2 is not there"):
        device.call("cublasDnone_v2")


def test_the_work_of_a_call_is_told() -> None:
    device = Device()
    a = device.put(np.zeros((64, 64), np.float32))
    one = np.float32(1)
    work = device.call("cublasSgemm_v2", 0, 0, 32, 16, 64, one, a, 64, a, 64, np.float32(0), a, 64).work
    assert work is not None
    assert (work.function, work.operations, work.double) == ("cublasSgemm_v2", 2 * 32 * 16 * 64, False)
    assert work.nbytes == 4 * (32 * 64 + 64 * 16 + 32 * 16)
    assert parse_operator(work.operator).sizes == (32, 16, 64)
    work = device.call("cublasSgemmStridedBatched", 0, 0, 8, 8, 8, one, a, 8, 64, a, 8, 64, one, a, 8, 64, 3).work
    assert work is not None
    assert parse_operator(work.operator).sizes == (3, 8, 8, 8)
    work = device.call("cublasSaxpy_v2", 64, one, a, 1, a, 1).work
    assert work is not None
    assert (work.operator, work.operations, work.nbytes) == ("", 128, 3 * 64 * 4)
