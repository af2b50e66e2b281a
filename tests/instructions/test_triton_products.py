"""Whole kernels of Triton that multiply by wgmma and tcgen05, as PTX on both engines against NumPy."""

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from kerncast import predict
from kerncast.compile import CompiledKernel
from kerncast.execute import WholeGrid, execute
from kerncast.execute.setup.prepare import linked_program
from kerncast.gpu import GPU, load_gpu
from kerncast.launch import Argument, Launch, parse_value
from kerncast.models.sm.lower import lower
from kerncast.models.sm.micro_ops import Memory
from kerncast.models.sm.plan import tensor_columns
from kerncast.prediction import Prediction, Timing
from kerncast.ptx.tensor_layouts import COLUMNS
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


def boxes(rows: int, m: int, n: int, k: int) -> list[Any]:
    """Return the arguments of a product by tensor maps, in tiles of so many rows and 32 columns."""
    sizes = {"A": (m, k, rows, 64, "random"), "B": (n, k, 32, 64, "random"), "C": (m, n, rows, 32, "zeros")}
    values: list[Any] = []
    for height, width, tall, wide, fill in sizes.values():
        turns = "128B" if wide == 64 else "64B"
        text = f"tensormap(f16[{height}, {width}] {fill}, box = [{tall}, {wide}], swizzle = {turns})"
        values += [text, height, width, width, 1]
    return [*values, m, n, k]


@ENGINES
@pytest.mark.parametrize(("name", "rows", "shared"), TMA)
def test_product_of_boxes(engine: str, name: str, rows: int, shared: int) -> None:
    """Tiles come and go by TMA; on sm_100 other warps issue the copies and the products than those that wait."""
    memory = run(name, engine, (4, 1, 1), shared, boxes(rows, 2 * rows, 64, 192))
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


def forecast(name: str, gpu: GPU, where: tuple[int, int], values: list[Any], folder: Path) -> Prediction:
    """Forecast a fixture by a launch file; ``where`` are its blocks and its shared memory."""
    ptx = (HERE / f"{name}.ptx").read_text(encoding="utf-8")
    kernel, head = re.search(r"\.entry (\w+)\((.*?)\)", ptx, re.DOTALL).groups()  # type: ignore[union-attr]
    given = zip(re.findall(r"\w+_param_\d+", head), [*values, 0, 0], strict=True)
    quoted = ((key, f'"{value}"' if isinstance(value, str) else value) for key, value in given)
    arguments = ", ".join(f"{key} = {value}" for key, value in quoted)
    threads = re.search(r"\.reqntid (\d+)", ptx)[1]  # type: ignore[index]
    text = f'[[launch]]\nkernel = "{kernel}"\ngrid = [{where[0]}]\nblock = [{threads}]\nshared_bytes = {where[1]}\n'
    (folder / "k.ptx").write_text(ptx, encoding="utf-8")
    (folder / "k.toml").write_text(f'source = "k.ptx"\n{text}args = {{ {arguments} }}\n', encoding="utf-8")
    (found,) = predict(folder / "k.toml", gpu, timing=Timing.PROFILER.value)
    return found


@pytest.mark.parametrize(("case", "gpu"), [(TMA[0], "h100-sxm"), (TMA[1], "b200")])
def test_products_by_boxes_are_simulated_below_the_peak(case: tuple[str, int, int], gpu: str, tmp_path: Path) -> None:
    """Dense FP16 of the data sheets: 989 and 2250 TFLOP/s. Twice the depth takes longer, by its products at least."""
    name, rows, shared = case
    peak = {"h100-sxm": 989e12, "b200": 2250e12}[gpu]
    times = []
    for k in (192, 384):
        found = forecast(name, load_gpu(gpu), (4, shared), boxes(rows, 2 * rows, 64, k), tmp_path)
        assert found.model == "simulation"
        times.append(found.seconds)
        assert found.seconds > 2 * 2 * rows * 64 * k / peak
        assert {term.name for term in found.terms} >= {"tensor", "l2", "shared"}
    # Tiles that nobody has asked for before cost some of their latency, and no more than all of it.
    assert 0 < times[1] - times[0] < 3 * 2 * 1e-6


def test_what_warps_of_different_roles_take() -> None:
    """Registers that warps hand to one another stay the launch's; tensor memory of 32 columns leaves room for 16."""
    ptx = (HERE / "matmul_tma_ws_sm100.ptx").read_text(encoding="utf-8")
    program = linked_program(ptx, "matmul_tma_kernel")
    code = program.function.instructions
    assert tensor_columns(code) == 32
    assert COLUMNS // tensor_columns(code) == 16
    found = lower(program.function, program.cfg, load_gpu("b200").architecture)
    handed = [number for number, ins in enumerate(code) if ins.opcode.name == "setmaxnreg"]
    assert handed
    of_these = np.isin(found.instruction, handed)
    assert set(found.memory[of_these].tolist()) <= {Memory.NONE}
    # Barriers name the warps that meet: all eight, or those of one role.
    barriers = found.memory == Memory.BARRIER
    assert set(zip(found.group[barriers].tolist(), found.left[barriers].tolist(), strict=True)) >= {
        (0, 0), (0, 4), (1, 0), (3, 2),
    }  # fmt: skip
