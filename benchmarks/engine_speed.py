"""Speed of the native engine: thread-instructions per second and core, against the reference engine in the same run.

The 16 kernels of the suite at their third size, up to an amount of work. "Bare" counts instructions only; "counting"
keeps all that no GPU changes (sectors, lines, bank conflicts, footprints); "caches" also records every access and runs
it through L1 and L2 of a TITAN V. The ratio is counting to reference. The code is also written for AVX2, and bare for
plain SSE2, which every x86-64 CPU has, and run here.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from kerncast.compile import CompiledKernel, compile_source
from kerncast.execute import WholeGrid
from kerncast.execute.caches import simulate
from kerncast.execute.native import NativeEngine
from kerncast.execute.native.engine import Compiled, compile_program
from kerncast.execute.native.jit import Host, this_host
from kerncast.execute.recording import Plan, Recorder
from kerncast.execute.reference import ReferenceEngine
from kerncast.execute.setup.prepare import prepare
from kerncast.execute.setup.state import Engine, Setting
from kerncast.forecast import profile_launch
from kerncast.gpu import load_gpu
from kerncast.launch import Launch, load_launches
from kerncast.occupancy import cache_geometry

EXAMPLES = Path(__file__).parent.parent / "examples"
KERNELS = EXAMPLES / "kernels"
SUITE = [
    "vector_add", "saxpy", "strided_copy_8", "naive_transpose", "shared_transpose", "random_access",
    "matmul_naive", "matmul_tiled", "conv2d_3x3", "conv2d_7x7", "reduce_sum", "dot_product", "histogram",
    "atomic_hotspot", "vector_add_divergent", "shared_bank_conflict",
]  # fmt: skip
HEAD = [
    "kernel", "compile ms", "bare", "counting", "two threads", "caches", "AVX2 bare", "SSE2 bare", "AVX2 caches",
    "reference", "ratio",
]  # fmt: skip
SIZE = 2  # the third of four sizes: Large
EVENTS, RESIDENT = 2**24, 4
PILOT, NATIVE_WORK, REFERENCE_WORK = 8, 3e8, 2e7
REPEATS = 3
OTHER_HOSTS = {"AVX2": Host("haswell", ""), "SSE2": Host("x86-64", "")}
START_UP = """
import time; start = time.perf_counter()
from kerncast.execute.native.engine import compile_program
from kerncast.execute.prepare import linked_program
imported = time.perf_counter()
compile_program(linked_program(open({path!r}).read(), {name!r}))
print(imported - start, time.perf_counter() - imported)
"""


def main() -> None:
    """Print one row per kernel, and the geometric means."""
    print(f"CPU as LLVM names it: {this_host().name}; rates in 10^9 thread-instructions per second\n")
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    rows = [measure(name) for name in SUITE]
    means = [geometric_mean(column) for column in zip(*rows, strict=True)]
    print(row("geometric mean", means))
    print(f"\nkerncast profile of a tiled product of 1024 x 1024 on a TITAN V: {matrix_product():.2f} s of wall time")
    print("\nStart-up: import {:.2f} s, then the first kernel {:.2f} s".format(*start_up(SUITE[7])))


def measure(name: str) -> list[float]:
    """Print and return the figures of one kernel."""
    launch = load_launches(KERNELS / f"{name}.toml")[SIZE]
    kernel = compiled(launch)
    setting = prepare(kernel, launch, WholeGrid())
    begun = time.perf_counter()
    counting = compile_program(setting.linked)
    figures = [1e3 * (time.perf_counter() - begun)]
    bare = compile_program(setting.linked, counts_memory=False)
    hosts = [compile_program(setting.linked, counts_memory=False, host=host) for host in OTHER_HOSTS.values()]
    figures += [native(kernel, launch, code, 1) for code in (bare, counting)]
    figures.append(native(kernel, launch, counting, None))
    figures.append(with_caches(kernel, launch, this_host()))
    figures += [native(kernel, launch, code, 1) for code in hosts]
    figures.append(with_caches(kernel, launch, OTHER_HOSTS["AVX2"]))
    figures.append(rate(kernel, launch, ReferenceEngine, REFERENCE_WORK))
    figures.append(figures[2] / figures[-1])
    print(row(name, figures), flush=True)
    return figures


def compiled(launch: Launch) -> CompiledKernel:
    """Compile a launch's kernel."""
    found = compile_source(launch.source, architectures=["sm_70"], kernel=launch.kernel, defines=launch.defines)
    return found.kernels[0]


def native(kernel: CompiledKernel, launch: Launch, code: Compiled, workers: int | None) -> float:
    """Return the rate of compiled code, the best of some runs; ``workers`` None is what a forecast takes."""
    runs = (rate(kernel, launch, lambda s: NativeEngine(s, code, workers), NATIVE_WORK) for _ in range(REPEATS))
    return max(runs)


def with_caches(kernel: CompiledKernel, launch: Launch, host: Host) -> float:
    """Return the rate on one core of running blocks, recording them and simulating caches; the best of some runs."""
    geometry = cache_geometry(load_gpu("titan-v"), RESIDENT, 0)

    def once() -> float:
        setting = prepare(kernel, launch, WholeGrid())
        engine = NativeEngine(setting, compile_program(setting.linked, host=host), 1)
        recorder = Recorder(setting, Plan(EVENTS), engine)
        recorder.run(np.arange(PILOT))
        before = engine.thread_instructions()
        stop = min(launch.blocks, PILOT + int(NATIVE_WORK / before * PILOT))
        begun = time.perf_counter()
        recorder.run(np.arange(PILOT, stop))
        simulate(recorder.recording(), geometry, host=host)
        return (engine.thread_instructions() - before) / (time.perf_counter() - begun) / 1e9

    once()  # compiles the simulator
    return max(once() for _ in range(REPEATS))


def rate(kernel: CompiledKernel, launch: Launch, engine: Callable[[Setting], Engine], work: float) -> float:
    """Return 10^9 thread-instructions per second, after a few blocks have shown how many make up the work."""
    runner = engine(prepare(kernel, launch, WholeGrid()))
    runner.run(list(range(PILOT)), None)
    before = runner.thread_instructions()
    stop = min(launch.blocks, PILOT + int(work / before * PILOT))
    begun = time.perf_counter()
    runner.run(list(range(PILOT, stop)), None)
    return (runner.thread_instructions() - before) / (time.perf_counter() - begun) / 1e9


def matrix_product() -> float:
    """Return the seconds to characterise a tiled product of 1024 x 1024 in a process that has done another kernel."""
    profile_launch(EXAMPLES / "saxpy.toml", "titan-v")
    begun = time.perf_counter()
    profile_launch(EXAMPLES / "matmul_tiled.toml", "titan-v")
    return time.perf_counter() - begun


def start_up(name: str) -> tuple[float, float]:
    """Return the seconds that a fresh process takes to import the engine, and to compile a first kernel."""
    kernel = compiled(load_launches(KERNELS / f"{name}.toml")[0])
    path = Path("out") / "start_up.ptx"
    path.parent.mkdir(exist_ok=True)
    path.write_text(kernel.ptx, encoding="utf-8")
    script = START_UP.format(path=str(path), name=kernel.mangled)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    imported, first = map(float, done.stdout.split())
    return imported, first


def row(name: str, figures: list[float]) -> str:
    """Return a row of the table."""
    compile_ms, *rates, ratio = figures
    return f"| {name} | {compile_ms:.0f} | " + " | ".join(f"{r:.2f}" for r in rates) + f" | {ratio:.0f} |"


if __name__ == "__main__":
    main()
