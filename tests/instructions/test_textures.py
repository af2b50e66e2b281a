"""Textures and surfaces on both engines against NumPy: texels, filters, what lies outside, handles of any kind."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.compile import CompiledKernel, compile_source
from kerncast.errors import IllegalAddress, LaunchError
from kerncast.execute import WholeGrid, execute
from kerncast.execute.sampling.run import EngineName
from kerncast.launch import Argument, Buffer, Launch, parse_value

SOURCE = Path(__file__).parent / "textures.cu"
ENGINES = pytest.mark.parametrize("engine", ["native", "reference"])
COUNT = 300
RANDOM = np.random.default_rng(5)


@pytest.fixture(scope="module")
def kernels() -> dict[str, CompiledKernel]:
    """Compile all kernels at once; the compiler gives the signature of one alone."""
    found = compile_source(SOURCE, architectures=["sm_80"], kernel="fetch1").kernels[0]
    names = re.findall(r"__global__ void (\w+)\(", SOURCE.read_text(encoding="utf-8"))
    return {name: replace(found, kernel=name, mangled=name, signature=None) for name in names}


def run(kernel: CompiledKernel, engine: EngineName, folder: Path, **arguments: Any) -> dict[str, Any]:
    """Run one block; arrays become buffers, texts are as in a launch file."""
    given = []
    for name, value in arguments.items():
        text = value
        if isinstance(value, np.ndarray):
            np.save(folder / f"{name}.npy", value)
            element = f"{value.dtype.kind}{8 * value.dtype.itemsize}"
            text = f"{element}[{', '.join(map(str, value.shape))}] file({name}.npy)"
        given.append(Argument(name, parse_value(text, name, folder)))
    where = Launch(Path("k.cu"), kernel.kernel, (1, 1, 1), (64, 1, 1), 0, tuple(given))
    return execute(kernel, where, WholeGrid(), engine=engine)[0].memory


def texture(data: np.ndarray, folder: Path, options: str = "", kind: str = "texture") -> str:
    """Return the text of a texture with this content."""
    np.save(folder / "texels.npy", data)
    letter = {"f": "f", "i": "i", "u": "u"}[data.dtype.kind]
    shape = ", ".join(map(str, data.shape))
    return f"{kind}({letter}{8 * data.dtype.itemsize}[{shape}] file(texels.npy){options and ', '}{options})"


def places(size: int, *, normalized: bool = False) -> np.ndarray:
    """Return coordinates inside and outside of a texture."""
    found = RANDOM.uniform(-2.3 * size, 3.4 * size, COUNT).astype(np.float32)
    found[:8] = [0, size, size - 1, 0.5, size - 0.5, -0.5, size + 0.5, 1]
    return found / np.float32(size) if normalized else found


def folded(at: np.ndarray, size: int, address: str, *, normalized: bool) -> np.ndarray:
    """Return coordinates in texels, with those that repeat moved inside. Source: programming guide, section 16."""
    at = at.astype(np.float32)
    if normalized:
        whole = np.floor(at)
        if address == "wrap":
            at = at - whole
        if address == "mirror":
            at = np.where(whole % 2 == 0, at - whole, np.float32(1) - (at - whole))
        at = at * np.float32(size)
    return at


def looked_up(data: np.ndarray, indices: list[np.ndarray], address: str) -> np.ndarray:
    """Return texels at whole places, x last in the shape; outside of them as the address mode says."""
    values = np.zeros(len(indices[0]))
    for n in range(len(values)):
        at = [int(each[n]) for each in indices]
        sizes = data.shape[::-1][: len(at)]
        if address == "border" and any(not 0 <= i < size for i, size in zip(at, sizes, strict=True)):
            continue
        inside = [
            i % size if address == "wrap" else min(max(i, 0), size - 1) for i, size in zip(at, sizes, strict=True)
        ]
        values[n] = data[tuple(reversed(inside))]
    return values


def filtered(data: np.ndarray, at: list[np.ndarray], address: str) -> np.ndarray:
    """Return what lies between texels, with exact weights."""
    total = np.zeros(len(at[0]))
    floors = [np.floor(each.astype(np.float64) - 0.5) for each in at]
    parts = [each - 0.5 - floor for each, floor in zip(at, floors, strict=True)]
    for corner in np.ndindex(*[2] * len(at)):
        weight = np.prod([p if bit else 1 - p for bit, p in zip(corner, parts, strict=True)], axis=0)
        total += weight * looked_up(data, [f + bit for bit, f in zip(corner, floors, strict=True)], address)
    return total


@ENGINES
def test_whole_numbers_of_a_line(engine: EngineName, kernels: dict[str, CompiledKernel], tmp_path: Path) -> None:
    data = RANDOM.random(100).astype(np.float32)
    found = run(kernels["fetch1"], engine, tmp_path, t=texture(data, tmp_path), n=COUNT, out=f"f32[{COUNT}]")["out"]
    expected = np.zeros(COUNT, np.float32)
    expected[8:108] = data
    assert np.array_equal(found, expected)


@ENGINES
@pytest.mark.parametrize("address", ["clamp", "border", "wrap", "mirror"])
@pytest.mark.parametrize("filter_", ["point", "linear"])
def test_two_dimensions(
    engine: EngineName, address: str, filter_: str, kernels: dict[str, CompiledKernel], tmp_path: Path
) -> None:
    """A linear filter has weights of 8 bits: of two dimensions it is off by 2 x 2**-9 of the spread at most."""
    normalized = address in {"wrap", "mirror"}
    data = RANDOM.random((13, 32)).astype(np.float32)
    options = f"filter = {filter_}, address = {address}" + ", coordinates = normalized" * normalized
    x, y = places(32, normalized=normalized), places(13, normalized=normalized)
    t = texture(data, tmp_path, options)
    found = run(kernels["read2"], engine, tmp_path, t=t, n=COUNT, x=x, y=y, out=f"f32[{COUNT}]")["out"]
    at = [folded(x, 32, address, normalized=normalized), folded(y, 13, address, normalized=normalized)]
    if filter_ == "point":
        assert np.array_equal(found, looked_up(data, [np.floor(each) for each in at], address).astype(np.float32))
    else:
        assert np.abs(found - filtered(data, at, address)).max() <= 2 / 512 + 1e-6


@ENGINES
def test_other_dimensions(engine: EngineName, kernels: dict[str, CompiledKernel], tmp_path: Path) -> None:
    data = RANDOM.random((5, 6, 7)).astype(np.float32)
    at = [places(size) for size in (7, 6, 5)]
    x, y, z = at
    out = f"f32[{COUNT}]"
    t = texture(data, tmp_path, "filter = linear")
    found = run(kernels["read3"], engine, tmp_path, t=t, n=COUNT, x=x, y=y, z=z, out=out)["out"]
    assert np.abs(found - filtered(data, at, "clamp")).max() <= 3 / 512 + 1e-6
    t = texture(data[0, 0], tmp_path, "filter = linear, address = border")
    found = run(kernels["read1"], engine, tmp_path, t=t, n=COUNT, x=x, out=out)["out"]
    assert np.abs(found - filtered(data[0, 0], [x], "border")).max() <= 1 / 512 + 1e-6
    t = texture(data, tmp_path, "layered = true")
    found = run(kernels["layers"], engine, tmp_path, t=t, n=COUNT, x=x, y=y, out=out)["out"]
    each = [looked_up(layer, [np.floor(x), np.floor(y)], "clamp") for layer in data]
    assert np.array_equal(found, [np.float32(each[n % 3][n]) for n in range(COUNT)])


@ENGINES
def test_channels_and_formats(engine: EngineName, kernels: dict[str, CompiledKernel], tmp_path: Path) -> None:
    x, y = RANDOM.uniform(0, 9, COUNT).astype(np.float32), RANDOM.uniform(0, 8, COUNT).astype(np.float32)
    rows, columns = y.astype(int), x.astype(int)
    data = RANDOM.integers(0, 256, (8, 9, 4)).astype(np.uint8)
    t = texture(data, tmp_path, "channels = 4")
    found = run(kernels["bytes4"], engine, tmp_path, t=t, n=COUNT, x=x, y=y, out=f"u8[{COUNT}, 4]")["out"]
    assert np.array_equal(found, data[rows, columns])
    for kind, most in ((np.uint8, 255), (np.int8, 127), (np.uint16, 65535), (np.int16, 32767)):
        whole = RANDOM.integers(np.iinfo(kind).min, most + 1, (8, 9, 4)).astype(kind)
        t = texture(whole, tmp_path, "channels = 4, read = normalized")
        found = run(kernels["floats4"], engine, tmp_path, t=t, n=COUNT, x=x, y=y, out=f"f32[{COUNT}, 4]")["out"]
        expected = np.maximum(whole[rows, columns] / most, -1)
        assert np.allclose(found, expected, atol=1e-7)
    halves = RANDOM.random((8, 9, 4)).astype(np.float16)
    t = texture(halves, tmp_path, "channels = 4")
    found = run(kernels["floats4"], engine, tmp_path, t=t, n=COUNT, x=x, y=y, out=f"f32[{COUNT}, 4]")["out"]
    assert np.array_equal(found, halves[rows, columns].astype(np.float32))


@ENGINES
def test_four_texels_of_one_channel(engine: EngineName, kernels: dict[str, CompiledKernel], tmp_path: Path) -> None:
    data = RANDOM.random((8, 9, 2)).astype(np.float32)
    x, y = places(9), places(8)
    t = texture(data, tmp_path, "channels = 2")
    found = run(kernels["gathers"], engine, tmp_path, t=t, n=COUNT, x=x, y=y, out=f"f32[{COUNT}, 4]")["out"]
    left, top = np.floor(x - np.float32(0.5)), np.floor(y - np.float32(0.5))
    corners = [(0, 1), (1, 1), (1, 0), (0, 0)]  # the order in which OpenGL gives them, too
    expected = [looked_up(data[..., 1], [left + across, top + down], "clamp") for across, down in corners]
    assert np.array_equal(found, np.stack(expected, axis=1).astype(np.float32))


@ENGINES
def test_surfaces(engine: EngineName, kernels: dict[str, CompiledKernel], tmp_path: Path) -> None:
    data = RANDOM.random((6, 10, 4)).astype(np.float32)
    given = {"from": texture(data, tmp_path, "channels = 4", "surface"), "to": "surface(f32[6, 10, 4], channels = 4)"}
    found = run(kernels["copies"], engine, tmp_path, **given, w=10, h=6)["to"]
    shifted = data[:, np.maximum(np.arange(10) - 1, 0)]
    assert np.array_equal(found, shifted[::-1])
    with pytest.raises(IllegalAddress, match="leads out of the surface"):
        run(kernels["outside"], engine, tmp_path, **{"from": "surface(f32[4, 4])"}, out="f32[1]")


@ENGINES
@pytest.mark.parametrize("handle", [0, 1, 2**44 + 512, 2**44 + 513, 2**64 - 8, 2**63])
def test_handles_that_mean_nothing(
    engine: EngineName, handle: int, kernels: dict[str, CompiledKernel], tmp_path: Path
) -> None:
    with pytest.raises(IllegalAddress):
        run(kernels["anything"], engine, tmp_path, handle=handle, out="f32[64] random")


@ENGINES
def test_objects_of_the_kernels_own_stay_inside(
    engine: EngineName, kernels: dict[str, CompiledKernel], tmp_path: Path
) -> None:
    """A kernel may write what looks like an object: whatever it says, memory outside of buffers is not read."""
    for words in ([1 << 20] * 14, [0xFFFFFFFF] * 14, [0, 0, 1, 1, 1, 1, 4, 0, 4, 0, 2, 4, 4, 1]):
        forged = np.array([0x7243656B, 0x7478654E, *words], np.uint32)
        with pytest.raises(IllegalAddress):
            run(kernels["anything"], engine, tmp_path, handle=2**44 + 512, out=forged)


def test_texts(tmp_path: Path) -> None:
    text = "texture(u8[4, 9, 2] randint(0, 9), filter = linear, read = normalized, channels = 2, address = border)"
    found = parse_value(text, "t", tmp_path)
    assert isinstance(found, Buffer)
    assert found.sampling is not None
    assert (found.sampling.filter, found.sampling.channels, found.shape) == ("linear", 2, (4, 9, 2))
    assert parse_value(str(found), "t", tmp_path) == found
    for wrong, what in {
        "texture(f32[4], filter = cubic)": "no option", "texture(f32[4], address = wrap)": "needs coordinates",
        "texture(f64[4])": "no elements of f64", "texture(u8[4], filter = linear)": "reads no u8",
        "texture(f32[4, 3], channels = 4)": "no shape of 4 channels", "texture(f32[1, 2, 3, 4])": "no shape",
        "texture(f32[4], read = normalized)": "not for f32",
    }.items():  # fmt: skip
        with pytest.raises(LaunchError, match=what):
            parse_value(wrong, "t", tmp_path)
