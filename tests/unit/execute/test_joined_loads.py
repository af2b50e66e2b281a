"""Loads from shared memory that the compiler joins count, and are recorded, as the one wide load that they become."""

import numpy as np
import pytest

from kerncast.execute import WholeGrid
from kerncast.execute.recording import Plan, Recorder
from kerncast.execute.setup import linked_program
from kerncast.execute.setup.prepare import prepare
from kerncast.launch import Launch
from kerncast.machine.joined_loads import joined_loads
from kerncast.traces import INSTRUCTION_SHIFT, LINE_BITS, OPERATION_MASK, OPERATION_SHIFT, Operation, Trace
from tests.helpers.execute_helpers import launch, ptx_kernel, run
from tests.helpers.recordings import between_barriers
from tests.helpers.reference_recorder import recorded_by_reference

#: Offset of a lane's 16 bytes, and the wavefronts of a load of 16 bytes per lane there: groups of 8 lanes, which merge
#: two by two where neighbours have one address; a group takes as many as its busiest bank has words.
PATTERNS = {
    "one after the other": ("shl.b32 %r2, %r1, 4;", 4),
    "every second": ("shl.b32 %r2, %r1, 5;", 8),
    "all alike": ("mov.u32 %r2, 0;", 2),
    "halves alike": ("shr.u32 %r8, %r1, 4; shl.b32 %r2, %r8, 4;", 2),
    "an 8 x 4 tile": ("and.b32 %r8, %r1, 7; shl.b32 %r2, %r8, 4;", 4),
    "a 4 x 8 tile": ("shr.u32 %r8, %r1, 3; shl.b32 %r2, %r8, 4;", 2),
}
SINGLE = {
    "in order": "ld.shared.f32 %f1, [%r4]; ld.shared.f32 %f2, [%r4+4]; ld.shared.f32 %f3, [%r4+8];"
    " ld.shared.f32 %f4, [%r4+12];",
    "third first": "ld.shared.f32 %f3, [%r4+8]; ld.shared.f32 %f1, [%r4]; ld.shared.f32 %f4, [%r4+12];"
    " ld.shared.f32 %f2, [%r4+4];",
}
WIDE = "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r4];"
DOUBLES = "ld.shared.f64 %g1, [%r4]; ld.shared.f64 %g2, [%r4+8];"
WIDE_DOUBLES = "ld.shared.v2.f64 {%g1, %g2}, [%r4];"
STORED = " ".join(f"st.global.f32 [%d1+{4 * n}], %f{n + 1};" for n in range(4))
STORED_DOUBLES = "st.global.f64 [%d1], %g1; st.global.f64 [%d1+8], %g2;"
LANES = 32


def kernel(loads: str, offset: str, stored: str = STORED) -> str:
    """Return a kernel whose lanes fill 1024 words of shared memory with their numbers, and load some of them."""
    return f""".visible .entry k(.param .u64 out) {{
        .shared .align 16 .b8 held[4096]; .reg .f32 %f<9>; .reg .f64 %g<9>; .reg .b32 %r<9>; .reg .b64 %d<5>;
        .reg .pred %p<2>;
        mov.u32 %r1, %tid.x; mov.u32 %r3, held; shl.b32 %r5, %r1, 2; add.s32 %r6, %r3, %r5; mov.u32 %r7, %r1;
        $fill: cvt.rn.f32.u32 %f5, %r7; st.shared.f32 [%r6], %f5; add.s32 %r6, %r6, 128; add.s32 %r7, %r7, 32;
        setp.lt.u32 %p1, %r7, 1024; @%p1 bra $fill;
        bar.sync 0; {offset} add.s32 %r4, %r3, %r2; ld.param.u64 %d1, [out]; cvta.to.global.u64 %d1, %d1;
        mul.wide.u32 %d2, %r1, 16; add.s64 %d1, %d1, %d2;
        {loads} {stored} ret; }}"""


def where() -> Launch:
    return launch(1, LANES, out=f"f32[{4 * LANES}] zeros")


def shared_loads(found: Trace) -> tuple[int, int, int]:
    """Return the requests of loads from shared memory, their wavefronts and their conflicts."""
    counts = found.counts
    loads = [column for column, number in enumerate(counts.accessing) if found.function.instructions[number].is_load]
    names = (counts.shared_requests, counts.shared_wavefronts, counts.shared_conflicts)
    requests, wavefronts, conflicts = (int(each[:, loads].sum()) for each in names)
    return requests, wavefronts, conflicts


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("order", SINGLE)
@pytest.mark.usefixtures("engine")
def test_joined_loads_count_as_a_wide_one(order: str, pattern: str) -> None:
    offset, wavefronts = PATTERNS[pattern]
    single, wide = (run(ptx_kernel(kernel(loads, offset)), where()) for loads in (SINGLE[order], WIDE))
    assert shared_loads(single)[0] == 4, "they are four instructions of the PTX"
    assert shared_loads(single)[1:] == shared_loads(wide)[1:]
    assert shared_loads(wide)[1] == wavefronts
    assert np.array_equal(single.memory["out"], wide.memory["out"])
    assert single.memory["out"][1] == single.memory["out"][0] + 1, "lane 0 has loaded four neighbours"


@pytest.mark.usefixtures("engine")
def test_doubles_are_joined_in_pairs() -> None:
    offset, wavefronts = PATTERNS["one after the other"]
    found = [run(ptx_kernel(kernel(loads, offset, STORED_DOUBLES)), where()) for loads in (DOUBLES, WIDE_DOUBLES)]
    assert [shared_loads(each)[1:] for each in found] == [(wavefronts, 0)] * 2
    assert np.array_equal(found[0].memory["out"], found[1].memory["out"])


@pytest.mark.parametrize("recorder", ["native", "reference"])
def test_joined_loads_are_recorded_where_the_first_one_stands(recorder: str) -> None:
    record = recorded if recorder == "native" else recorded_by_oracle
    text = kernel(SINGLE["third first"], PATTERNS["every second"][0])
    program = linked_program(ptx_kernel(text).ptx, "k")
    joined = next(iter(joined_loads(program.function, program.cfg).values()))
    assert joined.shift == -8
    assert record(text) == [(joined.first, 8)]


def recorded(text: str) -> list[tuple[int, int]]:
    """Return instruction and wavefronts of each recorded load from shared memory."""
    recording = Recorder(prepare(ptx_kernel(text), where(), WholeGrid()), Plan(10**6, in_detail=True))
    recording.run(np.arange(1))
    return _loads(between_barriers(recording.recording()))


def recorded_by_oracle(text: str) -> list[tuple[int, int]]:
    """Return the same by the reference engine."""
    setting = prepare(ptx_kernel(text), where(), WholeGrid())
    return _loads(between_barriers(recorded_by_reference(setting, [0], in_detail=True)))


def _loads(events: dict[tuple[int, int], list[list[int]]]) -> list[tuple[int, int]]:
    every = [event for segment in events[0, 0] for event in segment]
    return [
        (event >> INSTRUCTION_SHIFT, event & (1 << LINE_BITS) - 1)
        for event in every
        if event >> OPERATION_SHIFT & OPERATION_MASK == Operation.SHARED_LOAD
    ]


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        (WIDE, 0),
        ("ld.shared.f32 %f1, [%r4]; ld.shared.f32 %f2, [%r4+4]; st.shared.f32 [%r4+64], %f1;", 2),
        ("ld.shared.f32 %f1, [%r4]; st.shared.f32 [%r4+64], %f1; ld.shared.f32 %f2, [%r4+4];", 0),
        ("ld.shared.f32 %f1, [%r4+4]; ld.shared.f32 %f2, [%r4+8];", 0),
        ("ld.shared.f32 %f1, [%r4]; @%p1 ld.shared.f32 %f2, [%r4+4];", 0),
        ("ld.shared.b32 %r4, [%r4]; ld.shared.f32 %f2, [%r4+4];", 0),
        (SINGLE["in order"].replace("ld.", "ld.volatile."), 0),
        ("ld.shared.f32 %f1, [%r4]; fence.acq_rel.cta; ld.shared.f32 %f2, [%r4+4];", 0),
        ("ld.shared.f32 %f1, [%r4]; ld.volatile.shared.f32 %f3, [%r3]; ld.shared.f32 %f2, [%r4+4];", 0),
        ("ld.shared.f32 %f1, [%r4]; ld.shared.f32 %f2, [%r4+4]; add.s32 %r4, %r4, 16; " + SINGLE["in order"], 6),
        ("mul.hi.u32 %r4, %r4, 613566757; " + SINGLE["in order"], 0),
        (DOUBLES, 2),
    ],
    ids=[
        "wide",
        "pair",
        "store between",
        "not aligned",
        "other guard",
        "other base",
        "volatile",
        "fence",
        "volatile between",
        "base written",
        "high half",
        "doubles",
    ],
)
def test_what_is_joined(loads: str, expected: int) -> None:
    program = linked_program(ptx_kernel(kernel(loads, "shl.b32 %r2, %r1, 4;")).ptx, "k")
    assert len(joined_loads(program.function, program.cfg)) == expected


def test_dynamic_shared_memory_is_as_aligned_as_its_declaration_says() -> None:
    """NVRTC declares ``extern __shared__ float held[]`` with 16 bytes: ptxas makes one LDS.128 of four loads."""
    text = kernel(SINGLE["in order"], "shl.b32 %r2, %r1, 4;").replace(".shared .align 16 .b8 held[4096];", "")
    program = linked_program(ptx_kernel(".extern .shared .align 16 .b8 held[];\n" + text).ptx, "k")
    assert len(joined_loads(program.function, program.cfg)) == 4
    assert program.static_shared_bytes == 0


def test_alignment_is_lost_along_the_longest_chain_of_sums() -> None:
    """A sum with the thread's number is aligned to nothing, however many sums with 16 follow."""
    sums = "".join(f"add.s32 %r{n + 1}, %r{n}, 16; " for n in range(20, 38))
    loads = "ld.shared.f32 %f1, [%r38]; ld.shared.f32 %f2, [%r38+4];"
    text = kernel(f"add.s32 %r20, %r3, %r1; {sums} {loads}", "mov.u32 %r2, 0;").replace("%r<9>", "%r<40>")
    program = linked_program(ptx_kernel(text).ptx, "k")
    assert not joined_loads(program.function, program.cfg)
