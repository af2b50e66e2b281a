"""The line that all blocks read, and what its slice of L2 costs."""

from pathlib import Path

import pytest

from kerncast.forecast import Options, forecast_all
from kerncast.gpu import load_gpu
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.models.sm.micro_ops import Memory, Pipe
from kerncast.models.sm.multiprocessor import HotLine, hot_line, hot_lines
from kerncast.models.sm.simulate import simulate
from kerncast.prediction import Timing
from kerncast.traces import Operation, SMTrace
from tests.helpers.sm_programs import WHOLE_LINE, Op, Step, program_of, sm_of, trace_of

SLICES = 16
LOAD = Op(Pipe.LSU, Memory.LOAD, sources=(0,), destinations=(1,), accesses=(0,))
USE = Op(Pipe.ALU, sources=(1,), destinations=(0,))


def blocks(common: int, own: int, count: int = 3, operation: Operation = Operation.LOAD) -> SMTrace:
    """Each warp reads some lines of its own and one sector of a line that is everybody's, line 7."""

    def steps(serial: int) -> list[Step]:
        lines = [(operation, 1000 * (serial + 1) + i, WHOLE_LINE) for i in range(own)]
        return [Step(0, {0: [line]}) for line in [*lines, *[(operation, 7, 0b10)] * common]]

    return trace_of([[steps(2 * b + w) for w in range(2)] for b in range(count)])


def test_the_line_that_each_block_reads_often_is_hot() -> None:
    trace = blocks(common=3, own=5)
    assert hot_line(trace, 0, SLICES, trace) == HotLine(7, sectors_per_block=6.0)


def test_a_line_that_adds_less_than_a_slice_has_anyway_is_not() -> None:
    assert list(hot_lines(blocks(common=1, own=5), 0, SLICES)) == []


def test_a_line_that_l1_answers_is_not() -> None:
    trace = blocks(common=3, own=5, operation=Operation.LOAD_READ_ONLY)
    assert hot_line(trace, 1 << Operation.LOAD, SLICES, trace) == HotLine(7, 6.0)
    assert hot_line(trace, 1 << Operation.LOAD_READ_ONLY, SLICES, trace) is None


def test_a_line_of_this_sm_alone_is_not() -> None:
    """The blocks of one SM may lie in one column of the grid, and share what others do not read."""
    assert hot_line(blocks(common=3, own=5), 0, SLICES, blocks(common=0, own=5)) is None


def test_all_sms_wait_for_the_slice_of_a_hot_line() -> None:
    """A quarter of the sectors is of one line: 80 cycles each, and one for each other sector."""
    sm = sm_of(l1_lines=0, dram_read_share=0.0, hot_line=7, hot_sector_cycles=80.0, sector_slice_cycles=1.0)
    trace = trace_of([
        [[Step(0, {0: [(Operation.LOAD, line, 1)]}) for line in (7, 100 * w, 100 * w + 1, 100 * w + 2)] * 25
         for w in range(1, 33)]
    ])  # fmt: skip
    done = simulate(program_of([LOAD, USE]), trace, sm, 1)
    assert float(done.finish_cycles[-1]) == pytest.approx(32 * 25 * (80 + 3), rel=0.05)


def test_a_table_that_all_blocks_read_costs_its_slice_on_kepler(tmp_path: Path) -> None:
    """One sector of the table per warp and cycle of the GPU, however many SMs: 24 slices have the rest."""
    source = tmp_path / "k.cu"
    source.write_text(
        'extern "C" __global__ void k(float *table, float *y) {\n'
        "  const int i = blockIdx.x * blockDim.x + threadIdx.x; float sum = 0;\n"
        "  for (int n = 0; n < 16; ++n) { sum += table[threadIdx.x % 8]; y[i] = sum; }\n}\n",
        encoding="utf-8",
    )
    warps = 4096 * 8
    values = {"table": Buffer("f32", (8,), Fill("random")), "y": Buffer("f32", (warps * 32,), Fill("zeros"))}
    arguments = tuple(Argument(name, value) for name, value in values.items())
    launch = Launch(source, "k", (4096, 1, 1), (256, 1, 1), arguments=arguments)
    gpu = load_gpu("gtx-titan").at_clock("base")
    found = forecast_all(launch, [(gpu, ())], Options(timing=Timing.PROFILER, model="simulation"))
    term = next(term.seconds for term in found.predictions[0].terms if term.name == "l2")
    assert term * gpu.clock_hz / warps == pytest.approx(16 * (1 + 4 / 24), rel=0.05)
