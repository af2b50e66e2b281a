"""Which atomics ptxas makes one per warp, against its machine code where it can be disassembled."""

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kerncast.compile import CompiledKernel, compile_source
from kerncast.execute.setup import Program as PTXProgram
from kerncast.execute.setup import linked_program
from kerncast.gpu import load_architecture
from kerncast.machine.listing import disassemble, disassembler
from kerncast.models.sm.lower import lower
from kerncast.models.sm.lower.accesses import joined_atomics
from kerncast.models.sm.micro_ops import JOINED, Memory, Pipe, Program

#: Statements with an atomic on ``s``, and whether it is joined before and from sm_80 on: by any lanes, by all of them
#: only, or not at all.
CASES = {
    "atomicAdd(&s[3], 1)": ("any", "any"),
    "atomicAdd(&s[3], n)": ("any", "any"),
    "atomicAdd(&s[3], x[n])": ("any", "any"),
    "atomicAdd(&s[3], x[t])": ("all", "any"),
    "atomicSub(&s[3], x[t])": ("all", "any"),
    "atomicMax(&s[3], x[t])": ("all", "any"),
    "atomicAnd(&s[3], x[t])": ("all", "any"),
    "atomicXor(&s[3], x[t])": ("all", "any"),
    "atomicMax(&s[3], n)": ("all", "any"),
    "atomicAdd(&s[n], n)": ("any", "any"),
    "atomicAdd(&s[blockIdx.x & 31], 2)": ("any", "any"),
    "atomicAdd(&s[x[n] & 31], 2)": ("any", "any"),
    "if (x[t] > 3) atomicAdd(&s[3], 2)": ("any", "any"),
    "r = atomicAdd(&s[3], 1)": ("any", "any"),
    "r = atomicAdd(&s[3], x[t])": ("all", "all"),
    "r = atomicMax(&s[3], x[t])": ("", ""),
    "atomicAdd(&s[x[t] & 31], 1)": ("", "any"),
    "r = atomicAdd(&s[x[t] & 31], 1)": ("", ""),
    "atomicAdd(&s[x[t] & 31], 2)": ("", ""),
    "atomicAdd(&s[threadIdx.y], 2)": ("", ""),
    "atomicAdd(&s[t > 7 ? 3 : 4], 2)": ("", ""),
    "atomicExch(&s[3], x[t])": ("", ""),
    "atomicInc((unsigned *)&s[3], 1000u)": ("", ""),
    "atomicAdd((float *)&s[3], (float)x[t])": ("", ""),
    "atomicAdd((unsigned long long *)&s[4], 1ull)": ("any", "any"),
    "r = atomicAdd((unsigned long long *)&s[4], 2ull)": ("any", "any"),
    "atomicAdd((unsigned long long *)&s[4], (unsigned long long)x[t])": ("", ""),
    "atomicAdd((float *)&s[3], 2.0f)": ("", ""),
}
#: In global memory there is no instruction that counts lanes, which joins those of different addresses, too.
IN_GLOBAL = {case.replace("s[", "o["): found for case, found in CASES.items()} | {
    "atomicAdd(&o[x[t] & 31], 1)": ("", ""),
}
KERNEL = """
extern "C" __global__ void k{number}(int *o, const int *__restrict__ x, int n) {{
    __shared__ __align__(8) int s[64];
    const int t = threadIdx.x;
    int r = 0;
    s[t & 31] = 0;
    __syncthreads();
    {statement};
    __syncthreads();
    o[t] = s[t & 31] + r;
}}
"""
NUMBERS = {statement: number for number, statement in enumerate([*CASES, *IN_GLOBAL])}
_MEMORY = {
    memory: found
    for plain, (any_lanes, all_lanes) in JOINED.items()
    for memory, found in ((plain, ""), (any_lanes, "any"), (all_lanes, "all"))
}


@cache
def compiled(architecture: str) -> CompiledKernel:
    """Compile the kernels of all statements, which come together."""
    text = "".join(KERNEL.format(number=number, statement=statement) for statement, number in NUMBERS.items())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "k.cu"
        path.write_text(text, encoding="utf-8")
        return compile_source(path, architectures=[architecture], kernel="k0").kernel_for(architecture)


def linked(statement: str, architecture: str) -> PTXProgram:
    return linked_program(compiled(architecture).ptx, f"k{NUMBERS[statement]}")


def lowered(statement: str, architecture: str) -> Program:
    program = linked(statement, architecture)
    return lower(program.function, program.cfg, load_architecture(architecture))


@pytest.mark.parametrize("statement", [*CASES, *IN_GLOBAL])
@pytest.mark.parametrize("architecture", ["sm_52", "sm_75", "sm_86"])
def test_what_is_joined(statement: str, architecture: str) -> None:
    (memory,) = {Memory(each) for each in lowered(statement, architecture).memory if each in _MEMORY}
    assert _MEMORY[memory] == (CASES | IN_GLOBAL)[statement][int(architecture == "sm_86")]
    assert memory.name.startswith("SHARED") == (statement in CASES)


@pytest.mark.skipif(disassembler() is None, reason="the extra sass is not installed")
@pytest.mark.parametrize("statement", [*CASES, *IN_GLOBAL])
@pytest.mark.parametrize("architecture", ["sm_75", "sm_86"])
def test_the_machine_code_joins_the_same(statement: str, architecture: str) -> None:
    """A vote tells which lanes take part; a second atomic of one lane each is for where not all do."""
    routine = disassemble(compiled(architecture).cubin, architecture).routines[f"k{NUMBERS[statement]}"]
    opcodes = [".".join((each.opcode, *each.modifiers)) for each in routine.instructions]
    atomics = [each for each in opcodes if re.match("ATOM|RED[.]", each)]
    votes = any(re.match("VOTE|MATCH", each) for each in opcodes)
    counts = any("POPC" in each for each in atomics)
    found = "any" if counts or (votes and len(atomics) == 1) else "all" if votes else ""
    assert found == (CASES | IN_GLOBAL)[statement][int(architecture == "sm_86")]


def test_kepler_joins_nothing() -> None:
    function = linked("atomicAdd(&s[3], 1)", "sm_52").function
    assert not joined_atomics(function, 35)
    assert joined_atomics(function, 52)


def test_joining_by_shuffles_occupies_the_queue_to_shared_memory() -> None:
    def shuffles(statement: str) -> int:
        program = lowered(statement, "sm_75")
        return int(((program.pipe == Pipe.LSU) & (program.memory == Memory.NONE)).sum())

    assert shuffles("atomicAdd(&s[3], x[t])") - shuffles("atomicAdd(&s[x[t] & 31], 2)") == 5


def test_registers_that_lanes_may_take_from_different_definitions_differ() -> None:
    ptx = """.version 8.5 .target sm_86 .address_size 64
.visible .entry k(.param .u32 n) {
    .reg .pred %p<3>; .reg .b32 %r<9>; .shared .align 4 .b8 s[64];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r4, s;
    setp.gt.u32 %p1, GUARD, 3;
    @%p1 bra over;
    add.u32 %r4, %r4, 4;
over:
    atom.shared.add.u32 %r5, [%r4], 2;
    ret;
}"""
    for guard, is_joined in (("%r1", True), ("%r2", False)):
        function = linked_program(ptx.replace("GUARD", guard), "k").function
        assert bool(joined_atomics(function, 86)) == is_joined


def test_what_a_lane_reads_from_memory_of_its_own_differs() -> None:
    ptx = """.version 8.5 .target sm_86 .address_size 64
.visible .entry k(.param .u32 n) {
    .local .align 4 .b8 own[32];
    .reg .b32 %r<9>; .shared .align 4 .b8 s[64];
    ld.param.u32 %r1, [n];
    mov.u32 %r3, own;
    ld.SPACE.u32 %r2, [%r3];
    mov.u32 %r4, s;
    add.u32 %r4, %r4, %r2;
    atom.shared.add.u32 %r5, [%r4], 2;
    ret;
}"""
    for space, is_joined in (("shared", True), ("local", False)):
        function = linked_program(ptx.replace("SPACE", space), "k").function
        assert bool(joined_atomics(function, 86)) == is_joined
