"""Whole kernels: the engine against the scalar oracle, final memory bit for bit and thread counts per opcode."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.compile import CompiledKernel, compile_source
from kerncast.execute import WholeGrid, execute
from kerncast.launch import Argument, Launch, parse_value
from tests.helpers.scalar_oracle import Extent, Grid, Program

SOURCE = Path(__file__).parent / "engine_kernels.cu"
TYPES = {"u1": "u8", "i1": "i8", "u2": "u16", "i2": "i16", "u4": "u32", "i4": "i32", "u8": "u64", "i8": "i64"}
FLOATS = {"f2": "f16", "f4": "f32", "f8": "f64"}


@dataclass(frozen=True)
class Case:
    """One launch of the suite."""

    kernel: str
    grid: Extent
    block: Extent
    arguments: tuple[Any, ...]
    """arrays become buffers, bytes a struct, numbers what the parameter is"""
    shared: int = 0
    unordered: frozenset[int] = frozenset()
    """buffers whose contents may stand in another order, by number"""
    racing: bool = False
    """whether threads race, so that only what is in memory at the end is the same"""


def uniform(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(5).random(shape, np.float32)


def whole(low: int, high: int, *shape: int, kind: str = "i4") -> npt.NDArray[Any]:
    return np.random.default_rng(7).integers(low, high, shape).astype(kind)


def zeros(kind: str, *shape: int) -> npt.NDArray[Any]:
    return np.zeros(shape, kind)


PAIR = np.array(
    [(-5, 1.25, [3, 1, 4, 1, 5])], np.dtype([("a", "i2"), ("b", "f8"), ("c", "i4", 5)], align=True)
).tobytes()
HALVES = (uniform(96) * 4 - 2).astype(np.float16)

CASES = [
    Case("saxpy", (3, 1, 1), (64, 1, 1), (150, -1.5, uniform(192), uniform(192))),
    Case("matmul", (2, 2, 1), (8, 8, 1), (uniform(16, 16), uniform(16, 16), zeros("f4", 16, 16), 16)),
    Case("conv3x3", (2, 2, 1), (16, 8, 1), (uniform(13, 27), zeros("f4", 13, 27), 27, 13)),
    Case("reduce", (3, 1, 1), (64, 1, 1), (uniform(192), zeros("f4", 3), 170), shared=256),
    Case("histogram", (2, 1, 1), (96, 1, 1), (whole(0, 256, 500, kind="u1"), zeros("u4", 16), 500)),
    Case("transpose", (2, 3, 1), (16, 4, 1), (uniform(37, 25), zeros("f4", 25, 37), 25, 37)),
    Case("divergent", (3, 1, 1), (96, 1, 1), (whole(0, 4000, 288), zeros("i4", 288), 250)),
    Case("many_cases", (1, 1, 1), (128, 1, 1), (whole(0, 2**31, 128, kind="u4"), zeros("u4", 128))),
    Case("shuffle_reduce", (2, 1, 1), (64, 1, 1), (uniform(128), zeros("f4", 128))),
    Case("shuffle_widths", (1, 1, 1), (64, 1, 1), (whole(0, 999, 64), zeros("i4", 320))),
    Case("votes", (1, 1, 1), (96, 1, 1), (whole(0, 14, 96), zeros("u4", 96))),
    Case("struct_argument", (1, 1, 1), (32, 1, 1), (PAIR, 20, zeros("f8", 20))),
    Case("doubles", (1, 1, 1), (40, 1, 1), (uniform(40).astype("f8") * 9, zeros("f8", 40))),
    Case("special_functions", (1, 1, 1), (48, 1, 1), (uniform(48) * 20, zeros("f4", 48))),
    Case("integer_division", (1, 1, 1), (64, 1, 1), (whole(-5000, 5000, 64), whole(1, 900, 64), zeros("i8", 64))),
    Case("vector_loads", (2, 1, 1), (32, 1, 1), (uniform(64, 4), zeros("f4", 64, 2), zeros("u1", 64, 4))),
    Case("local_array", (1, 1, 1), (64, 1, 1), (whole(0, 99, 64), zeros("i4", 64))),
    Case("device_functions", (1, 1, 1), (50, 1, 1), (whole(0, 99, 50), zeros("i4", 50))),
    Case("constants", (1, 1, 1), (64, 1, 1), (whole(0, 64, 64), zeros("i4", 64))),
    Case("dynamic_shared", (1, 1, 1), (72, 1, 1), (whole(0, 5000, 72), zeros("i4", 72)), shared=6 * 72),
    Case(
        "atomics",
        (2, 1, 1),
        (48, 1, 1),
        (whole(1, 9, 16), zeros("u4", 96), whole(0, 500, 96)),
        unordered=frozenset({1}),
        racing=True,
    ),
    Case("half_arithmetic", (1, 1, 1), (64, 1, 1), (HALVES, zeros("f2", 96), 48)),
    Case("geometry", (2, 3, 2), (5, 3, 3), (zeros("i4", 6, 8, 9), np.array([9, 8, 6], "i4").tobytes())),
    *(
        Case("generic_pointers", (1, 1, 1), (64, 1, 1), (whole(0, 99, 64), zeros("i4", 64), which))
        for which in range(3)
    ),
    Case("named_barriers", (1, 1, 1), (96, 1, 1), (whole(0, 99, 96), zeros("i4", 96))),
    Case("inline_assembly", (1, 1, 1), (64, 1, 1), (whole(0, 20, 64), zeros("i4", 64))),
]


@cache
def compiled(architecture: str) -> CompiledKernel:
    return compile_source(SOURCE, architectures=[architecture], kernel="saxpy").kernels[0]


def element_of(array: npt.NDArray[Any]) -> str:
    code = array.dtype.str[1:]
    return {**TYPES, **FLOATS}[code]


def run_engine(case: Case, kernel: CompiledKernel, folder: Path) -> tuple[list[bytes], Counter[str]]:
    arguments = []
    for number, value in enumerate(case.arguments):
        if isinstance(value, np.ndarray):
            np.save(folder / f"{number}.npy", value)
            shape = ",".join(map(str, value.shape))
            text = f"{element_of(value)}[{shape}] file({number}.npy)"
        else:
            text = f"bytes({value.hex()})" if isinstance(value, bytes) else value
        arguments.append(Argument(f"a{number}", parse_value(text, "", folder)))
    launch = Launch(SOURCE, case.kernel, case.grid, case.block, case.shared, tuple(arguments))
    trace, _ = execute(kernel, launch, WholeGrid())
    counts: Counter[str] = Counter()
    for instruction, threads in zip(trace.function.instructions, trace.thread_executions.sum(axis=0), strict=True):
        counts[instruction.name] += int(threads)
    return [array.tobytes() for array in trace.memory.values()], +counts


def run_oracle(case: Case, kernel: CompiledKernel) -> tuple[list[bytes], Counter[str]]:
    grid = Grid(Program(kernel.ptx), kernel.mangled, case.grid, case.block, case.shared)
    addresses, values = [], []
    sizes = [size for _, size, _ in grid.code.parameters]
    for value, size in zip(case.arguments, sizes, strict=True):
        if isinstance(value, np.ndarray):
            addresses.append(grid.add_buffer(value.tobytes()))
            values.append(addresses[-1].to_bytes(8, "little"))
        elif isinstance(value, bytes):
            values.append(value)
        else:
            values.append(np.array([value], f"f{size}" if isinstance(value, float) else f"i{size}").tobytes())
    grid.set_parameters(values)
    result = grid.run()
    return [bytes(result.memory.pieces[address]) for address in addresses], result.counts


def in_order(case: Case, buffers: list[bytes]) -> Iterator[bytes]:
    arrays = [value for value in case.arguments if isinstance(value, np.ndarray)]
    for number, (data, array) in enumerate(zip(buffers, arrays, strict=True)):
        yield np.sort(np.frombuffer(data, array.dtype)).tobytes() if number in case.unordered else data


def own_ptx(kernel: str, architecture: str) -> str:
    """Return the PTX of a kernel without lines of the source and the numbers of labels."""
    text = compiled(architecture).ptx
    own = text[text.index(f".entry {kernel}(") :].partition("\n}\n")[0]
    return re.sub(r"\s*\.loc[^\n]*|\$L\w+|__\w+tmp\w+", "", own)


def test_of_volta_and_hopper_the_compiler_writes_the_same_but_for_halves() -> None:
    kernels = {case.kernel for case in CASES}
    assert {k for k in kernels if own_ptx(k, "sm_70") != own_ptx(k, "sm_90")} == {"half_arithmetic"}


@pytest.mark.parametrize(
    ("case", "architecture"),
    [(each, name) for each in CASES for name in ("sm_70", "sm_90") if name == "sm_70" or "half" in each.kernel],
    ids=lambda value: value if isinstance(value, str) else value.kernel,
)
def test_kernel(case: Case, architecture: str, tmp_path: Path) -> None:
    kernel = replace(compiled(architecture), kernel=case.kernel, mangled=case.kernel, signature=None)
    memory, counts = run_engine(case, kernel, tmp_path)
    expected, expected_counts = run_oracle(case, kernel)
    assert case.racing or counts == expected_counts
    assert list(in_order(case, memory)) == list(in_order(case, expected))


def test_template_instance(tmp_path: Path) -> None:
    kernel = compile_source(SOURCE, architectures=["sm_70"], kernel="scanned<double, 8>").kernels[0]
    case = Case("scanned", (1, 1, 1), (64, 1, 1), (uniform(64).astype("f8"), zeros("f8", 64)))
    assert run_engine(case, kernel, tmp_path) == run_oracle(case, kernel)
