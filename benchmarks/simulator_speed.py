"""Time the simulation of an SM: micro-ops per second on one core, for made-up kernels and the study's 16."""

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kerncast.bench.plan import suite_subjects
from kerncast.compile import compile_source
from kerncast.execute.recording import record_sm
from kerncast.execute.sampling.run import run_launch
from kerncast.gpu import load_gpu
from kerncast.launch import Launch
from kerncast.measurements import Protocol
from kerncast.models.sm.lower import lower
from kerncast.models.sm.micro_ops import Memory, Pipe, Program
from kerncast.models.sm.multiprocessor import SM, MemoryShares, sm_of, updated_lines
from kerncast.models.sm.results import Simulated
from kerncast.models.sm.simulate import prepare, simulate
from kerncast.occupancy import cache_geometry
from kerncast.traces import Operation, SMTrace

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.helpers.sm_programs import WHOLE_LINE, Op, Step, program_of, trace_of  # noqa: E402  the tests' own builders
from tests.helpers.sm_programs import sm_of as made_up_sm  # noqa: E402

BLOCKS, ITERATIONS = 24, 100
#: Real kernels: on which GPU, and about how many warps an SM holds.
GPU, ARCHITECTURE, WARPS = "rtx-2080-ti", "sm_75", 32
BRANCH = Op(Pipe.BRANCH, sources=(9,))
COUNTER = (Op(Pipe.ALU, sources=(8,), destinations=(8,)), Op(Pipe.ALU, sources=(8,), destinations=(9,)), BRANCH)
LOAD = Op(Pipe.LSU, Memory.LOAD, sources=(0,), destinations=(1,), accesses=(0,))
STORE = Op(Pipe.LSU, Memory.STORE, sources=(1,), accesses=(1,))


def loop_of(*ops: Op) -> Program:
    """Return a loop of these micro-ops."""
    return program_of((*ops, *COUNTER))


def arithmetic() -> Program:
    """Return a loop of 16 multiply-adds in four chains."""
    return loop_of(*(Op(Pipe.FMA, sources=(i % 4,), destinations=(i % 4,)) for i in range(16)))


def tiles() -> Program:
    """Return a loop that loads from shared memory, multiplies, and meets at a barrier."""
    shared = [Op(Pipe.LSU, Memory.SHARED_LOAD, sources=(7,), destinations=(i,), accesses=(10 + i,)) for i in range(4)]
    return loop_of(
        *shared,
        *(Op(Pipe.FMA, sources=(i % 4, 10 + i % 4), destinations=(10 + i % 4,)) for i in range(16)),
        Op(Pipe.BRANCH, Memory.BARRIER),
    )


def copying() -> Program:
    """Return a loop that loads a line and stores it."""
    return loop_of(LOAD, *(Op(Pipe.ALU, sources=(i,), destinations=(i,)) for i in (2, 3, 4)), STORE)


def warp_of(kind: str, number: int) -> list[Step]:
    """Return what one warp does."""
    steps = []
    for i in range(ITERATIONS):
        line = (number * ITERATIONS + i) * 32
        accesses: dict[int, Sequence[tuple[Operation, int, int]]] = {}
        if kind in {"copying", "strided"}:
            lines = range(line, line + (1 if kind == "copying" else 8))
            accesses = {
                0: [(Operation.LOAD, at, WHOLE_LINE) for at in lines],
                1: [(Operation.STORE, at, WHOLE_LINE) for at in lines],
            }
        elif kind == "tiles":
            accesses = {10 + k: [(Operation.SHARED_LOAD, 1, 0)] for k in range(4)}
        steps.append(Step(0, accesses))
    return steps


PROGRAMS = {"arithmetic": arithmetic, "tiles": tiles, "copying": copying, "strided": copying}


def timed(program: Program, trace: SMTrace, sm: SM, resident: int) -> tuple[Simulated, float]:
    """Return what was simulated and the fastest of some runs in seconds of the processor."""
    best, done = float("inf"), None
    for _ in range(5):
        start = time.process_time()
        done = simulate(program, trace, sm, resident)
        best = min(best, time.process_time() - start)
    assert done is not None
    return done, best


def show(name: str, warps: int, done: Simulated, seconds: float) -> None:
    """Print one line."""
    print(
        f"{name:40}{warps:6}{done.issued:12,}{done.finish_cycles[-1]:12,.0f}"
        f"{1e3 * seconds:9.1f}{done.issued / seconds / 1e6:11.1f}"
    )


def made_up() -> None:
    """Time made-up kernels at several occupancies."""
    for kind, build in PROGRAMS.items():
        program = build()
        for warps, resident in ((4, 2), (8, 2), (8, 4), (8, 8)):
            trace = trace_of([[warp_of(kind, b * warps + w) for w in range(warps)] for b in range(BLOCKS)])
            show(kind, warps * resident, *timed(program, trace, made_up_sm(dram_read_share=0.5), resident))


def real(name: str, launch: Launch) -> None:
    """Time the blocks that one SM of a GPU gets of a launch, all its sectors from DRAM."""
    gpu = load_gpu(GPU)
    kernel = compile_source(
        launch.source, architectures=[ARCHITECTURE], kernel=launch.kernel, defines=launch.defines
    ).kernels[0]
    executed = run_launch(kernel, launch)
    warps = -(-math.prod(launch.block) // 32)
    resident = max(1, min(WARPS // warps, 16))
    trace = record_sm(executed, gpu.sm_count, resident, 2**24)
    program = lower(executed.trace.function, executed.trace.cfg, gpu.architecture)
    pieces = updated_lines(trace).pieces(math.prod(launch.grid))
    shares = MemoryShares(gpu.sm_count, 0.5, 0.5, dram_local=0.0, dram_atomic=1.0, atomic_pieces=pieces)
    sm = sm_of(gpu, cache_geometry(gpu, resident, launch.shared_bytes), shares)
    resident = min(resident, len(trace.block_ids))
    show(name, resident * warps, *timed(program, trace, sm, resident))


def main() -> None:
    """Print one line per kernel and number of warps."""
    prepare()
    print(f"{'kernel':40}{'warps':>6}{'micro-ops':>12}{'cycles':>12}{'ms':>9}{'million/s':>11}")
    made_up()
    seen = set()
    for subject in suite_subjects(Protocol()):
        if subject.group == "seed" and subject.launch.kernel not in seen:
            seen.add(subject.launch.kernel)
            real(subject.name, subject.launch)


if __name__ == "__main__":
    main()
