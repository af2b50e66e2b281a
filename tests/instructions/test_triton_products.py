"""Whole kernels of Triton that multiply by wgmma and tcgen05, as PTX on both engines against NumPy."""

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.compile import CompiledKernel
from kerncast.execute import WholeGrid, execute
from kerncast.launch import Argument, Launch, parse_value
from tests.instructions.test_wide_memory import ENGINES

HERE = Path(__file__).parent / "triton"
Arrays = dict[str, npt.NDArray[Any]]


def run(name: str, engine: Any, grid: tuple[int, int, int], shared: int, values: list[Any]) -> Arrays:
    ptx = (HERE / f"{name}.ptx").read_text(encoding="utf-8")
    found = re.search(r"\.entry (\w+)", ptx)
    assert found is not None
    parsed = [parse_value(value, "x", HERE) if isinstance(value, str) else value for value in [*values, 0, 0]]
    arguments = tuple(Argument(f"a{number}", value) for number, value in enumerate(parsed))
    threads = re.search(r"\.reqntid (\d+)", ptx)
    assert threads is not None
    given = Launch(HERE / f"{name}.ptx", found[1], grid, (int(threads[1]), 1, 1), shared, arguments)
    kernel = CompiledKernel(found[1], found[1], "sm_90a", ptx, cast("Any", None), None)
    return execute(kernel, given, WholeGrid(), engine=engine)[0].memory


@ENGINES
def test_product_of_bytes(engine: str) -> None:
    sizes = [128, 64, 160, 160, 160, 64]
    values = ["u8[128,160] randint(0, 70)", "u8[64,160] randint(0, 70)", "f16[128,64] zeros", *sizes]
    memory = run("matmul_fp8_sm90", engine, (4, 1, 1), 12288, values)
    codes = np.arange(128)  # OCP 8-bit Floating Point Specification 1.0: 4 bits of exponent, biased by 7, and 3 bits
    numbers = np.where(codes >> 3, 2.0 ** ((codes >> 3) - 7) * (1 + codes % 8 / 8), 2.0**-6 * codes / 8)
    expected = numbers[memory["a0"]] @ numbers[memory["a1"]].T
    assert np.allclose(memory["a2"].astype("f8"), expected, rtol=1e-3)


@ENGINES
def test_product_in_tensor_memory(engine: str) -> None:
    sizes = [256, 64, 96, 96, 64, 64]
    values = ["f16[256,96] random", "f16[96,64] random", "f16[256,64] zeros", *sizes]
    memory = run("matmul_f16_sm100", engine, (4, 1, 1), 20496, values)
    expected = memory["a0"].astype("f8") @ memory["a1"].astype("f8")
    assert np.allclose(memory["a2"].astype("f8"), expected, rtol=1e-3)


TMA = [("matmul_tma_sm90", 64, 24592), ("matmul_tma_ws_sm100", 128, 41148)]


@ENGINES
@pytest.mark.parametrize(("name", "rows", "shared"), TMA)
def test_product_of_boxes(engine: str, name: str, rows: int, shared: int) -> None:
    """Tiles come and go by TMA; on sm_100 other warps issue the copies and the products than those that wait."""
    m, n, k = 2 * rows, 64, 192
    sizes = {"A": (m, k, rows, 64, "random"), "B": (n, k, 32, 64, "random"), "C": (m, n, rows, 32, "zeros")}
    values: list[Any] = []
    for height, width, tall, wide, fill in sizes.values():
        turns = "128B" if wide == 64 else "64B"
        text = f"tensormap(f16[{height}, {width}] {fill}, box = [{tall}, {wide}], swizzle = {turns})"
        values += [text, height, width, width, 1]
    memory = run(name, engine, (4, 1, 1), shared, [*values, m, n, k])
    a, b, c = (each.astype("f8") for each in memory.values() if each.ndim == 2)
    assert np.allclose(c, a @ b.T, rtol=1e-3)


@ENGINES
def test_attention(engine: str) -> None:
    size = "f16[2,128,32]"
    values = [*[f"{size} random"] * 3, 0.25, f"{size} zeros", "f32[2,128] zeros", 4096, 32, 2, 128]
    memory = run("flash_sm90", engine, (2, 2, 1), 12288, values)
    q, k, v = (memory[f"a{n}"].astype("f8") for n in range(3))
    scores = np.where(np.tril(np.ones((128, 128), bool)), q @ k.swapaxes(1, 2) * 0.25, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    sums = weights.sum(axis=-1, keepdims=True)
    assert np.allclose(memory["a4"].astype("f8"), weights / sums @ v, atol=1e-3)
    logarithms = np.log2(np.exp(scores).sum(axis=-1))
    assert np.allclose(memory["a5"], logarithms, atol=1e-2)
