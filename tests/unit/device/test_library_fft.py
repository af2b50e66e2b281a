"""cuFFT's transforms against the sum that defines them, and against NumPy, for data of any layout."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.errors import IllegalAddress
from tests.helpers.library_calls import At, Device

Array = npt.NDArray[Any]
FORWARD, INVERSE = -1, 1
KINDS = {
    "C2C": (0x29, np.complex64, np.complex64), "R2C": (0x2A, np.float32, np.complex64),
    "C2R": (0x2C, np.complex64, np.float32), "Z2Z": (0x69, np.complex128, np.complex128),
    "D2Z": (0x6A, np.float64, np.complex128), "Z2D": (0x6C, np.complex128, np.float64),
}  # fmt: skip
SIZES = [(8,), (7,), (1,), (12,), (4, 6), (3, 5), (2, 3, 4), (4, 4, 5)]


def numbers(seed: int, dtype: Any, *shape: int) -> Array:
    random = np.random.default_rng(seed)
    made = random.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * random.normal(size=shape)
    return made.astype(dtype)


def defined(x: Array, sign: int) -> Array:
    """Return the transform of all axes but the first, by the sum that defines it."""
    found = x.astype(complex)
    for axis in range(1, x.ndim):
        n = x.shape[axis]
        matrix = np.exp(sign * 2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
        found = np.moveaxis(np.tensordot(matrix, found, (1, axis)), 0, axis)
    return found


def execute(device: Device, name: str, direction: int, sizes: tuple[int, ...], *rest: object) -> int:
    """Call a transform; the rest are the batch, layouts or none, and two places."""
    batch, layouts, *places = rest
    rank = len(sizes)
    given = layouts or ((0,) * rank, 0, 0) * 2
    flat = [one for each in given for one in (each if isinstance(each, tuple) else (each,))]  # type: ignore[attr-defined]
    head = (KINDS[name][0], direction, batch, int(layouts is not None), rank)
    return device.call(f"cufftExec{name}", *head, *sizes, *flat, *places).status


def put(device: Device, values: Array) -> At:
    """Put numbers as C lays them out."""
    return device.put(values.reshape(-1))


def read(device: Device, place: At, shape: tuple[int, ...], dtype: Any) -> Array:
    return device.get(place, (int(np.prod(shape)),), dtype).reshape(shape)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
def test_transforms_are_what_defines_them(name: str, sizes: tuple[int, ...], in_place: bool) -> None:
    device, batch = Device(), 3
    _, given, result = KINDS[name]
    tolerance = 1e-4 if result in {np.float32, np.complex64} else 1e-11
    inner = (*sizes[:-1], sizes[-1] // 2 + 1)
    room = (batch, *sizes[:-1], 2 * inner[-1])
    for direction in (FORWARD, INVERSE):
        if name in {"C2C", "Z2Z"}:
            x, shape = numbers(1, given, batch, *sizes), (batch, *sizes)
            wanted = defined(x, direction)
        elif name in {"R2C", "D2Z"}:
            x, shape = numbers(1, given, batch, *sizes), (batch, *inner)
            wanted = defined(x, FORWARD)[..., : inner[-1]]
        else:
            wanted = numbers(1, result, batch, *sizes)
            x, shape = defined(wanted, FORWARD)[..., : inner[-1]].astype(given), (batch, *sizes)
            wanted = wanted * np.prod(sizes)
        is_real_first, is_real_last = name in {"R2C", "D2Z"}, name in {"C2R", "Z2D"}
        if in_place and is_real_first:
            wide: Array = np.zeros(room, given)
            wide[..., : sizes[-1]] = x
            x = wide
        place = put(device, x)
        to = place if in_place else device.allocate(16 * int(np.prod(room)))
        assert execute(device, name, direction, sizes, batch, None, place, to) == 0
        found = read(device, to, room if in_place and is_real_last else shape, result)
        np.testing.assert_allclose(found[..., : shape[-1]], wanted, tolerance, tolerance * np.prod(sizes))
        if not in_place:
            assert (read(device, place, x.shape, given) == x).all()


def test_layouts_tell_strides_distances_and_room() -> None:
    device, batch, sizes = Device(), 2, (3, 4)
    # Rows of 6 numbers of which every second one is meant; transforms lie 50 numbers apart.
    x = numbers(1, np.complex64, batch, *sizes)
    memory = np.full(100, 99, np.complex64)
    for b, i, j in np.ndindex(x.shape):
        memory[b * 50 + 2 * (i * 6 + j)] = x[b, i, j]
    to = put(device, np.full(80, 99, np.complex64))
    layouts = ((9, 6), 2, 50, (9, 5), 1, 20)
    assert execute(device, "C2C", FORWARD, sizes, batch, layouts, put(device, memory), to) == 0
    found = read(device, to, (80,), np.complex64)
    wanted = np.full(80, 99, np.complex64)
    for b, i, j in np.ndindex(x.shape):
        wanted[b * 20 + i * 5 + j] = defined(x, FORWARD)[b, i, j]
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


def test_columns_of_a_matrix_are_transformed() -> None:
    device, n, columns = Device(), 8, 5
    x = numbers(1, np.complex128, n, columns)
    place = put(device, x)
    assert execute(device, "Z2Z", FORWARD, (n,), columns, ((n,), columns, 1, (n,), columns, 1), place, place) == 0
    np.testing.assert_allclose(read(device, place, (n, columns), np.complex128), np.fft.fft(x, axis=0), 1e-11, 1e-11)


def test_a_transform_there_and_back_multiplies_by_its_length() -> None:
    device, n = Device(), 1 << 12
    x = numbers(1, np.float32, n)
    place, between = put(device, x), device.allocate(8 * (n // 2 + 1))
    assert execute(device, "R2C", FORWARD, (n,), 1, None, place, between) == 0
    assert execute(device, "C2R", INVERSE, (n,), 1, None, between, place) == 0
    np.testing.assert_allclose(read(device, place, (n,), np.float32) / n, x, 1e-3, 1e-3)


def test_work_is_told_by_the_usual_formula() -> None:
    device = Device()
    place = device.allocate(8 * 1024 * 3)
    call = ("cufftExecC2C", 0x29, FORWARD, 3, 0, 1, 1024, 0, 0, 0, 0, 0, 0, place, place)
    work = device.call(*call).work
    assert work is not None
    assert (work.function, work.operator, work.double) == ("cufftExecC2C", "", False)
    assert work.operations == 5 * 1024 * 10 * 3
    assert work.nbytes == 2 * 3 * 1024 * 8


def test_wrong_pointers_and_numbers_are_told() -> None:
    device = Device()
    place = device.allocate(8 * 64)
    with pytest.raises(IllegalAddress, match="520 bytes"):
        execute(device, "C2C", FORWARD, (65,), 1, None, place, place)
    with pytest.raises(IllegalAddress):
        execute(device, "C2C", FORWARD, (8,), 1, None, At(4096), place)
    with pytest.raises(IllegalAddress):
        execute(device, "C2C", FORWARD, (2**20, 2**10), 1, None, place, place)
    assert execute(device, "C2C", 0, (8,), 1, None, place, place) == 4
    assert execute(device, "C2C", FORWARD, (0,), 1, None, place, place) == 4
