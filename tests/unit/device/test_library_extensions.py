"""What cuBLAS has beside BLAS against NumPy: batches, other formats, sums, diagonals, factors."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.helpers.library_calls import At, Device

Array = npt.NDArray[Any]
TYPES = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
NOT_SUPPORTED = 15
#: Numbers of cudaDataType and cublasComputeType_t.
R_32F, R_64F, R_16F, R_8I, C_32F, C_64F, R_32I, R_16BF = 0, 1, 2, 3, 4, 5, 10, 14
IN_16F, IN_32F, IN_64F, IN_32I = 64, 68, 70, 72


def numbers(seed: int, dtype: Any, *shape: int) -> Array:
    random = np.random.default_rng(seed)
    made = random.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * random.normal(size=shape)
    return made.astype(dtype)


def applied(a: Array, op: int) -> Array:
    return [a, a.T, a.conj().T][op]


def pointers(device: Device, places: list[At]) -> At:
    return device.put(np.array(places, np.uint64))


@pytest.mark.parametrize("letter", TYPES)
@pytest.mark.parametrize(("opa", "opb"), [(0, 0), (1, 2), (2, 0)])
def test_batches_are_products_one_by_one(letter: str, opa: int, opb: int) -> None:
    device, dtype, batch, m, n, k = Device(), TYPES[letter], 4, 3, 5, 2
    shapes = ((k, m) if opa else (m, k), (n, k) if opb else (k, n), (m, n))
    a, b, c = (numbers(seed, dtype, batch, *shape) for seed, shape in enumerate(shapes))
    places = [[device.put(each) for each in some] for some in (a, b, c)]
    alpha, beta = dtype(2), dtype(3)
    sizes = (opa, opb, m, n, k)
    (lda, _), (ldb, _), (ldc, _) = shapes
    tables = [pointers(device, each) for each in places]
    name = f"cublas{letter}gemmBatched"
    found = device.call(name, *sizes, alpha, tables[0], lda, tables[1], ldb, beta, tables[2], ldc, batch)
    assert found.status == 0
    wanted = [alpha * applied(a[i], opa) @ applied(b[i], opb) + beta * c[i] for i in range(batch)]
    for each, place in zip(wanted, places[2], strict=True):
        np.testing.assert_allclose(device.get(place, (m, n), dtype), each, 1e-4, 1e-4)
    flat = [device.put(np.concatenate([each.reshape(-1, order="F") for each in some])) for some in (a, b, c)]
    name = f"cublas{letter}gemmStridedBatched"
    # The same matrix B for all: a stride of 0.
    found = device.call(name, *sizes, alpha, flat[0], lda, m * k, flat[1], ldb, 0, beta, flat[2], ldc, m * n, batch)
    assert found.status == 0
    result = device.get(flat[2], (m, n, batch), dtype)
    for i in range(batch):
        each = alpha * applied(a[i], opa) @ applied(b[0], opb) + beta * c[i]
        np.testing.assert_allclose(result[:, :, i], each, 1e-4, 1e-4)


def bfloat(values: Array) -> Array:
    """Return the nearest numbers of 8 bits of mantissa, by arithmetic."""
    step = 2.0 ** (np.floor(np.log2(np.abs(values))) - 7)
    return (np.rint(values / step) * step).astype(np.float32)


def bits_of_bfloat(values: Array) -> Array:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bfloat(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def mixed(device: Device, scale: int, compute: int, factors: tuple[Any, Any], sides: tuple[Any, ...]) -> int:
    """Multiply 4 x 3 and 3 x 2 by cublasGemmEx, with its first two operands those of the factors and the products."""
    alpha, beta = factors
    (a, of_a), (b, of_b), (c, of_c) = sides
    return device.call(
        "cublasGemmEx", scale, compute, 0, 0, 4, 2, 3, alpha, a, of_a, 4, b, of_b, 3, beta, c, of_c, 4
    ).status  # fmt: skip


@pytest.mark.parametrize(("result", "scale", "compute"), [
    (R_16F, R_16F, IN_16F), (R_16F, R_32F, IN_32F), (R_32F, R_32F, IN_32F),
])  # fmt: skip
def test_halves_are_multiplied(result: int, scale: int, compute: int) -> None:
    device = Device()
    a, b = numbers(1, np.float16, 4, 3), numbers(2, np.float16, 3, 2)
    kind = np.float16 if result == R_16F else np.float32
    c = numbers(3, kind, 4, 2)
    places = [(device.put(a), R_16F), (device.put(b), R_16F), (device.put(c), result)]
    factor = np.float16 if scale == R_16F else np.float32
    assert mixed(device, scale, compute, (factor(2), factor(0.5)), tuple(places)) == 0
    wanted = 2 * a.astype(float) @ b.astype(float) + 0.5 * c
    np.testing.assert_allclose(device.get(places[2][0], (4, 2), kind), wanted, 2e-3, 2e-3)


def test_brain_floats_are_multiplied_and_rounded_to_the_nearest() -> None:
    device = Device()
    a, b = bfloat(numbers(1, np.float32, 4, 3)), bfloat(numbers(2, np.float32, 3, 2))
    places = [(device.put(bits_of_bfloat(each)), R_16BF) for each in (a, b, np.zeros((4, 2)))]
    assert mixed(device, R_32F, IN_32F, (np.float32(1), np.float32(0)), tuple(places)) == 0
    found = from_bfloat(device.get(places[2][0], (4, 2), np.uint16))
    assert (found == bfloat(a @ b)).all()


def test_whole_numbers_are_multiplied_exactly() -> None:
    device = Device()
    random = np.random.default_rng(5)
    a, b = random.integers(-128, 128, (4, 3), np.int8), random.integers(-128, 128, (3, 2), np.int8)
    places = [(device.put(a), R_8I), (device.put(b), R_8I), (device.put(np.zeros((4, 2), np.int32)), R_32I)]
    assert mixed(device, R_32I, IN_32I, (np.int32(3), np.int32(0)), tuple(places)) == 0
    assert (device.get(places[2][0], (4, 2), np.int32) == 3 * a.astype(int) @ b.astype(int)).all()


@pytest.mark.parametrize(("side", "result", "scale", "compute"), [
    (R_16F, R_64F, R_32F, IN_32F), (R_64F, R_64F, R_32F, IN_32F), (R_32F, R_16F, R_32F, IN_32F),
    (28, R_32F, R_32F, IN_32F),
    (R_32F, R_32F, R_32F, 1),
])  # fmt: skip
def test_formats_that_do_not_go_together_are_told(side: int, result: int, scale: int, compute: int) -> None:
    device = Device()
    place = device.put(np.zeros(64))
    given = ((place, side), (place, side), (place, result))
    assert mixed(device, scale, compute, (np.float32(1), np.float32(0)), given) == NOT_SUPPORTED


def test_vectors_of_formats_that_are_told() -> None:
    device = Device()
    x, y = numbers(1, np.float16, 6), numbers(2, np.float16, 6)
    at_x, at_y, place = device.put(x), device.put(y), device.allocate(8)
    wide_x, wide_y = x.astype(float), y.astype(float)
    assert device.call("cublasDotEx", 6, at_x, R_16F, 1, at_y, R_16F, 1, place, R_16F, R_32F).status == 0
    assert device.get(place, (1,), np.float16)[0] == pytest.approx(wide_x @ wide_y, abs=1e-2)
    assert device.call("cublasNrm2Ex", 6, at_x, R_16F, 1, place, R_16F, R_32F).status == 0
    assert device.get(place, (1,), np.float16)[0] == pytest.approx(np.linalg.norm(wide_x), abs=1e-2)
    found = device.call("cublasAxpyEx", 6, R_32F, np.float32(2), at_x, R_16F, 1, at_y, R_16F, 1, R_32F)
    assert found.status == 0
    assert found.work is not None
    assert found.work.nbytes == 3 * 6 * 2
    np.testing.assert_allclose(device.get(at_y, (6,), np.float16), 2 * wide_x + wide_y, 2e-3, 2e-3)
    assert device.call("cublasScalEx", 6, R_32F, np.float32(3), at_x, R_16F, 1, R_32F).status == 0
    np.testing.assert_allclose(device.get(at_x, (6,), np.float16), 3 * wide_x, 2e-3, 2e-3)


@pytest.mark.parametrize("letter", TYPES)
@pytest.mark.parametrize(("opa", "opb"), [(0, 0), (1, 0), (2, 1)])
def test_matrices_are_added(letter: str, opa: int, opb: int) -> None:
    device, dtype, m, n = Device(), TYPES[letter], 4, 3
    a = numbers(1, dtype, *((n, m) if opa else (m, n)))
    b = numbers(2, dtype, *((n, m) if opb else (m, n)))
    alpha, beta = dtype(2), dtype(-3)
    at_a, at_b, at_c = device.put_matrix(a, len(a) + 1), device.put_matrix(b, len(b)), device.allocate(16 * 32)
    name, sizes = f"cublas{letter}geam", (opa, opb, m, n)
    assert device.call(name, *sizes, alpha, at_a, len(a) + 1, beta, at_b, len(b), at_c, m).status == 0
    np.testing.assert_allclose(
        device.get(at_c, (m, n), dtype), alpha * applied(a, opa) + beta * applied(b, opb), 1e-5, 1e-5
    )
    # As a transposition is written: the second matrix is not looked at.
    assert device.call(name, *sizes, alpha, at_a, len(a) + 1, dtype(0), At(0), len(b), at_c, m).status == 0
    np.testing.assert_allclose(device.get(at_c, (m, n), dtype), alpha * applied(a, opa), 1e-5, 1e-5)


@pytest.mark.parametrize("letter", TYPES)
@pytest.mark.parametrize("side", [0, 1])
def test_diagonal_matrices_scale_rows_or_columns(letter: str, side: int) -> None:
    device, dtype, m, n = Device(), TYPES[letter], 4, 3
    a, x = numbers(1, dtype, m, n), numbers(2, dtype, n if side else m)
    at_a, at_x, at_c = device.put(a), device.put_vector(x, 2), device.allocate(16 * 32)
    assert device.call(f"cublas{letter}dgmm", side, m, n, at_a, m, at_x, 2, at_c, m).status == 0
    wanted = a @ np.diag(x) if side else np.diag(x) @ a
    np.testing.assert_allclose(device.get(at_c, (m, n), dtype), wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("letter", TYPES)
@pytest.mark.parametrize("exchanges", [True, False])
def test_matrices_are_factored_inverted_and_solved(letter: str, exchanges: bool) -> None:
    device, dtype, n, batch = Device(), TYPES[letter], 5, 3
    a = numbers(1, dtype, batch, n, n) + (0 if exchanges else 8) * np.eye(n, dtype=dtype)
    places = [device.put(each) for each in a]
    table = pointers(device, places)
    rows = device.allocate(4 * n * batch) if exchanges else At(0)
    info = device.allocate(4 * batch)
    assert device.call(f"cublas{letter}getrfBatched", n, table, n, rows, info, batch).status == 0
    assert not device.get(info, (batch,), np.int32).any()
    for i, place in enumerate(places):
        lu = device.get(place, (n, n), dtype)
        product = (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)
        order = np.arange(n)
        if exchanges:
            for k, row in enumerate(device.get(At(rows + 4 * n * i), (n,), np.int32) - 1):
                order[[k, row]] = order[[row, k]]
        np.testing.assert_allclose(product, a[i][order], 1e-3, 1e-3)
    inverses = [device.allocate(16 * n * n) for _ in range(batch)]
    to = pointers(device, inverses)
    assert device.call(f"cublas{letter}getriBatched", n, table, n, rows, to, n, info, batch).status == 0
    for i, place in enumerate(inverses):
        np.testing.assert_allclose(device.get(place, (n, n), dtype) @ a[i], np.eye(n), 1e-3, 1e-3)
    right = numbers(2, dtype, batch, n, 2)
    for op in (0, 1, 2):
        sides = [device.put(each) for each in right]
        name = f"cublas{letter}getrsBatched"
        assert device.call(name, op, n, 2, table, n, rows, pointers(device, sides), n, batch).status == 0
        for i, place in enumerate(sides):
            np.testing.assert_allclose(applied(a[i], op) @ device.get(place, (n, 2), dtype), right[i], 1e-3, 1e-3)


def test_a_singular_matrix_is_told_by_its_pivot() -> None:
    device = Device()
    a = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
    for exchanges, pivot in ((True, 3), (False, 2)):
        table = pointers(device, [device.put(a)])
        rows, info = device.allocate(12) if exchanges else At(0), device.allocate(4)
        assert device.call("cublasDgetrfBatched", 3, table, 3, rows, info, 1).status == 0
        assert device.get(info, (1,), np.int32)[0] == pivot


@pytest.mark.parametrize("letter", TYPES)
def test_many_triangles_are_solved(letter: str) -> None:
    device, dtype, batch, m, n = Device(), TYPES[letter], 3, 4, 2
    a = numbers(1, dtype, batch, m, m) / 4 + 3 * np.eye(m, dtype=dtype)
    b = numbers(2, dtype, batch, m, n)
    sides = [device.put(each) for each in b]
    tables = pointers(device, [device.put(each) for each in a]), pointers(device, sides)
    name, alpha = f"cublas{letter}trsmBatched", dtype(2)
    assert device.call(name, 0, 1, 0, 0, m, n, alpha, tables[0], m, tables[1], m, batch).status == 0
    for i, place in enumerate(sides):
        np.testing.assert_allclose(np.triu(a[i]) @ device.get(place, (m, n), dtype), 2 * b[i], 1e-3, 1e-3)
