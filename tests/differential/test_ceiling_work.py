"""The ceilings' stated work against what their kernels do on the executor, and their results against closed forms."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.bench.ceilings import Ceiling, ceilings_for
from kerncast.compile import CompiledKernel
from kerncast.execute import WholeGrid, execute, profile_of
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.measurements import Machine
from kerncast.profiles import KernelProfile
from kerncast.profiles.counts import (
    ATOMIC_THREADS,
    FP16_FLOPS,
    FP32_FLOPS,
    FP64_FLOPS,
    GLOBAL_BYTES_REQUESTED,
    GLOBAL_BYTES_TOUCHED,
    INTEGER_OPS,
    SPECIAL_OPS,
    TENSOR_OPS,
)
from kerncast.traces import Trace
from tests.helpers.ceiling_kernels import compiled

#: Two SMs, little memory and a slow clock: every kernel runs on the executor in a moment.
TINY = Machine(
    gpu_name="tiny",
    gpu_uuid="GPU-0",
    compute_capability="8.6",
    sm_count=2,
    memory_bytes=2**23,
    l2_bytes=2**16,
    clock_max_hz=1.6e7,
    memory_clock_hz=None,
    memory_bus_bits=None,
    power_limit_w=None,
    ecc_enabled=None,
    mig_enabled=None,
    driver="",
    compiler="",
    host="",
    software="",
)
#: One of each version of the compiler's code generator, and 5.2, which the sources tell from the newer ones.
CAPABILITIES = ("5.2", "8.6", "12.0")


def tiny(capability: str) -> Machine:
    return replace(TINY, compute_capability=capability)


def run(launch: Launch, capability: str = "8.6") -> tuple[Trace, KernelProfile]:
    return run_once(launch, capability)


@cache
def run_once(launch: Launch, capability: str) -> tuple[Trace, KernelProfile]:
    kernel = compiled(launch, capability)
    if own_ptx(kernel) == own_ptx(same := compiled(launch, "8.6")):
        kernel = same
    trace, sampler = execute(kernel, launch, WholeGrid())
    return trace, profile_of(trace, sampler, kernel, launch)


def own_ptx(kernel: CompiledKernel) -> str:
    """Return the PTX of a kernel without what surrounds it, lines and the numbers of labels."""
    begin = kernel.ptx.index(f".entry {kernel.kernel}(")
    own = kernel.ptx[begin:].partition("\n}\n")[0]
    return re.sub(r"\t*\.loc\t.*\n|\$L\w+|__\w+tmp\w+", "", own)


def small_product(capability: str = "8.6") -> Ceiling:
    """Return the matrix product of a GPU so slow that it has two tiles a side."""
    return named(replace(tiny(capability), clock_max_hz=1e6))["matrix_product"]


def named(machine: Machine) -> dict[str, Ceiling]:
    return {each.name: each for each in ceilings_for(machine)}


def with_argument(launch: Launch, **values: Any) -> Launch:
    arguments = (Argument(a.name, values.get(a.name, a.value)) for a in launch.arguments)
    return replace(launch, arguments=tuple(arguments))


def argument(launch: Launch, name: str) -> Any:
    return next(each.value for each in launch.arguments if each.name == name)


def counted(ceiling: Ceiling, profile: KernelProfile) -> float:
    """Return what the executor counted of what a ceiling says it does."""
    name = ceiling.name.partition("#")[0]
    counts = {
        "fma_f64": FP64_FLOPS,
        "fma_f16x2": FP16_FLOPS,
        "add_i32": INTEGER_OPS,
        "mad_i32": INTEGER_OPS,
        "ex2_f32": SPECIAL_OPS,
        "rsqrt_f32": SPECIAL_OPS,
    }
    if name in counts:
        found = counts[name]
    elif name.startswith("atomic"):
        found = ATOMIC_THREADS
    else:
        found = GLOBAL_BYTES_REQUESTED if ceiling.unit == "B" else FP32_FLOPS
    return profile.counts[found].value


def is_counted(ceiling: Ceiling) -> bool:
    return ceiling.unit not in {"step", "launch"} and not ceiling.name.startswith(("tensor", "shared"))


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_stated_work_is_what_the_executor_counts(capability: str) -> None:
    for each in filter(is_counted, ceilings_for(tiny(capability))):
        ceiling = small_product(capability) if each.name == "matrix_product" else each
        found = counted(ceiling, run(ceiling.launch, capability)[1])
        if ceiling.name.endswith("i32"):  # addresses are integers too, but no part of the rounds
            found -= counted(ceiling, run(with_argument(ceiling.launch, rounds=0), capability)[1])
        # An integer addition of three numbers is one operation of the GPU and two of PTX.
        additions = 2 if ceiling.name == "add_i32" and "7" < capability < "9.1" and capability != "12.0" else 1
        assert found == pytest.approx(additions * float(ceiling.amount or 0), rel=0.03), ceiling.name


def test_shared_reads_are_counted_by_requests() -> None:
    for name, nbytes in (("shared_read", 16), ("shared_conflict", 4)):
        ceiling = named(TINY)[name]
        mix = run(ceiling.launch)[1].mix
        assert mix is not None
        loads = sum(kind.thread_instructions.value for kind in mix.kinds if kind.kind == "ld.shared")
        assert loads * nbytes == ceiling.amount


def test_the_executor_counts_the_work_of_tensor_kernels() -> None:
    for name, ceiling in named(tiny("8.0")).items():
        if name.startswith("tensor"):
            counts = run(ceiling.launch, "8.0")[1].counts
            found = sum(counts[each].value for each in dict.fromkeys(TENSOR_OPS.values()) if each in counts)
            assert found == ceiling.amount, name


@pytest.mark.parametrize("capability", ["7.0", "7.2", "7.5", "8.0", "9.0"])
def test_tensor_products_in_ptx_are_as_many_as_stated(capability: str) -> None:
    """The loop's products, counted in the PTX, times rounds and warps."""
    for name, ceiling in named(tiny(capability)).items():
        if not name.startswith("tensor"):
            continue
        launch = ceiling.launch
        ptx = compiled(launch, capability).ptx
        own = ptx[ptx.index(f".entry {name}(") :].partition(".entry tensor_")
        body = own[0] + own[1] + own[2].partition(".entry ")[0]
        products = body.count("wmma.mma.sync")
        shape = {"tensor_tf32": (16, 16, 8), "tensor_f64": (8, 8, 4)}.get(name, (16, 16, 16))
        warps = launch.blocks * launch.warps_per_block
        work = 2 * np.prod(shape) * products * argument(launch, "rounds") * warps
        assert ceiling.amount == work, name


def test_the_bytes_of_a_stream_are_touched_once() -> None:
    for name, ceiling in named(TINY).items():
        if name.startswith("dram_") and ceiling.unit == "B":
            touched = run(ceiling.launch)[1].counts.get(GLOBAL_BYTES_TOUCHED)
            assert touched is not None
            passes = ceiling.launch.grid[1]
            assert passes > 1
            assert ceiling.amount is not None
            assert touched.value == pytest.approx(ceiling.amount / passes, rel=1e-3)


def test_matrix_product_equals_numpy() -> None:
    ceiling = small_product()
    assert argument(ceiling.launch, "rows") == 256
    trace, _ = run(ceiling.launch)
    a, b = (trace.memory[name].astype(np.float64).reshape(256, 256) for name in "ab")
    assert trace.memory["c"].reshape(256, 256) == pytest.approx(a @ b, rel=1e-5)


def test_matrix_product_of_unequal_extents() -> None:
    launch = named(TINY)["matrix_product"].launch
    rows, columns, depth = 128, 384, 256
    shaped = with_argument(
        launch,
        a=Buffer("f32", (rows, depth), Fill("random")),
        b=Buffer("f32", (depth, columns), Fill("random")),
        c=Buffer("f32", (rows, columns), Fill("zeros")),
        rows=rows,
        columns=columns,
        depth=depth,
    )
    trace, _ = run(replace(shaped, grid=(3, 1, 1)))
    a, b = (trace.memory[name].astype(np.float64) for name in "ab")
    product = a.reshape(rows, depth) @ b.reshape(depth, columns)
    assert trace.memory["c"].reshape(rows, columns) == pytest.approx(product, rel=1e-5)


@pytest.mark.parametrize("name", ["atomic_distinct", "atomic_warp", "atomic_same"])
def test_atomic_totals_have_their_closed_form(name: str) -> None:
    ceiling = named(TINY)[name]
    launch = ceiling.launch
    target = run(launch)[0].memory["target"]
    threads = launch.blocks * launch.threads_per_block
    index = np.arange(threads)
    place = index % 32 * argument(launch, "lane_stride") + index // 32 * argument(launch, "warp_stride")
    each = 8 * argument(launch, "rounds")
    assert (target == each * np.bincount(place, minlength=len(target))).all()
    assert int(target.sum()) == ceiling.amount
    distinct = {"atomic_distinct": threads, "atomic_warp": threads // 32, "atomic_same": 1}[name]
    assert np.count_nonzero(target) == distinct


@pytest.mark.parametrize("name", ["atomic_shared_distinct", "atomic_shared_same"])
def test_shared_atomics_lose_nothing(name: str) -> None:
    ceiling = named(TINY)[name]
    total = run(ceiling.launch)[0].memory["total"]
    assert int(total.sum()) == ceiling.amount
    per_block = np.count_nonzero(total) / ceiling.launch.blocks
    assert per_block == (256 if name.endswith("distinct") else 1)


# --- pointer chases ------------------------------------------------------------------------------------------------


def chain_of(ceiling: Ceiling) -> tuple[Trace, Any, int]:
    """Return the trace of the set-up, the place of the next line by line, and the first line."""
    assert ceiling.setup is not None
    trace, _ = run(ceiling.setup)
    base = next(each.address for each in trace.allocations if each.name == "chain")
    lines = (trace.memory["chain"][::16] - np.uint64(base)).astype(np.int64) // 128
    assert np.count_nonzero(trace.memory["chain"]) == len(lines), "only the first word of a line is used"
    return trace, lines, int(trace.memory["cursor"][0] - np.uint64(base)) // 128


@pytest.mark.parametrize("name", ["l1_latency", "l2_latency", "dram_latency", "dram_random_latency"])
def test_a_chain_visits_every_line_once(name: str) -> None:
    machine = replace(TINY, memory_bytes=2**26, l2_bytes=2**20)
    ceiling = named(machine)[name]
    _, following, at = chain_of(ceiling)
    order = []
    for _ in following:
        order.append(at)
        at = int(following[at])
    assert at == order[0]
    assert sorted(order) == list(range(len(following)))
    steps = np.diff(order)
    assert len(set(steps.tolist())) > min(len(steps) / 8, 1000), "no stride that a prefetcher could guess"
    if name == "dram_latency":
        windows = np.array(order) >> 14
        assert (np.diff(windows) >= 0).all(), "one page after the other"
    if name.startswith("dram"):
        assert len(following) * 128 >= 4 * machine.l2_bytes


@pytest.mark.parametrize("name", ["l1_latency", "l2_latency", "dram_latency"])
def test_a_chase_follows_the_chain_and_goes_on_where_it_ended(name: str, tmp_path: Path) -> None:
    ceiling = named(TINY)[name]
    trace, following, first = chain_of(ceiling)
    held = {}
    for buffer in ("chain", "cursor"):
        np.save(tmp_path / f"{buffer}.npy", trace.memory[buffer])
        shape = trace.memory[buffer].shape
        held[buffer] = Buffer("u64", shape, Fill("file", path=tmp_path / f"{buffer}.npy"))
    steps = 64
    warm = 5
    chased, _ = run(with_argument(ceiling.launch, **held, steps=steps, warm_steps=warm))
    base = next(each.address for each in chased.allocations if each.name == "chain")
    expected = first
    for _ in range(warm + steps):
        expected = int(following[expected])
    assert int(chased.memory["cursor"][0]) == base + 128 * expected
    assert chased.memory["cycles"][0] > 0


def test_the_chain_in_shared_memory_is_one_cycle() -> None:
    launch = named(TINY)["shared_latency"].launch
    ends = {int(run(with_argument(launch, steps=steps))[0].memory["out"][0]) for steps in (32, 64, 512, 1024, 2048)}
    whole = int(run(with_argument(launch, steps=1024))[0].memory["out"][0])
    assert whole == int(run(with_argument(launch, steps=2048))[0].memory["out"][0]) == 0
    assert len(ends) == 4


@pytest.mark.parametrize("name", ["fma_f32", "fma_f64", "ex2_f32", "rsqrt_f32", "clock"])
def test_values_stay_finite_and_normal(name: str) -> None:
    out = run(named(TINY)[name].launch)[0].memory["out"]
    assert np.isfinite(out).all()
    assert (np.abs(out) < 16 + 1e-3).all()
    assert (np.abs(out[out != 0]) > np.finfo(out.dtype).tiny).all()


def test_readings_are_written_by_the_kernels() -> None:
    for ceiling in ceilings_for(TINY):
        if ceiling.reading is not None and "chase" not in str(ceiling.launch.kernel):
            values = run(ceiling.launch)[0].memory[ceiling.reading[0]]
            assert np.isfinite(values).all()
            assert (values > 0).all(), ceiling.name
