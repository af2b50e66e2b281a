"""Random PTX kernels that are valid and end: control flow of every shape around random instructions.

A program is a function of its seed. A share of the programs has a hazard: an access out of bounds, a trap, an endless
loop, and so on, which some thread may meet.
"""

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from kerncast.compile import CompiledKernel
from kerncast.execute import Budget, WholeGrid
from kerncast.launch import Argument, Launch, Struct, parse_value
from tests.helpers import random_instructions
from tests.helpers.engine_agreement import disagreement, outcome
from tests.helpers.random_barriers import HAZARDS, hazard
from tests.helpers.random_code import IN_BLOCK, PLACE, REGISTERS, THREAD, WORDS, Code
from tests.helpers.random_control import Writer

HEAD = ".version 8.8\n.target sm_100\n.address_size 64\n"
FORMAT = b"%d %x;\n\0"
_BLOCKS = [(1, 1, 1), (7, 1, 1), (32, 1, 1), (33, 1, 1), (64, 1, 1), (96, 1, 1), (5, 3, 2), (31, 2, 1), (8, 4, 3),
           (3, 1, 15), (40, 1, 1)]  # fmt: skip
_GRIDS = [(1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 1, 3), (5, 1, 1), (9, 5, 1)]
_BUFFERS = ("in", "own", "mid", "common", "out", "fa", "ha", "ba")
_PROTOTYPE = "prototype: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);"
_CELL_BYTES = 256


@dataclass(frozen=True)
class RandomProgram:
    """A kernel with a launch."""

    text: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    hazard: str
    """what it may do wrong: one of the hazards, or stuck, or nothing"""
    sampled: bool = False
    """whether only some of the blocks run"""

    @property
    def kernel(self) -> CompiledKernel:
        return CompiledKernel("k", "k", "sm_90", self.text, cast("Any", None), None)

    @property
    def launch(self) -> Launch:
        total = math.prod(self.grid) * math.prod(self.block)
        fills = {
            "in": "u32[288] randint(0, 4294967296)", "own": f"u32[{16 * total}]", "mid": f"u32[{16 * total}] iota",
            "common": "u64[32] randint(0, 99999)", "out": f"u32[{64 * total}]", "fa": f"f32[{8 * total}]",
            "ha": f"f16[{16 * total}]", "ba": f"u16[{16 * total}]",
        }  # fmt: skip
        arguments = [Argument(name, parse_value(fills[name], name, Path())) for name in _BUFFERS]
        arguments += [Argument("struct", Struct(bytes(range(16)))), Argument("n", 50), Argument("x", 0.75)]
        shared = 16 * math.prod(self.block)
        return Launch(Path("k.cu"), "k", self.grid, self.block, shared, tuple(arguments))


def compare(program: RandomProgram) -> tuple[str, str | None]:
    """Run a program on both engines; return how it ended, and where they disagree."""
    steps = 5_000 if program.hazard == "endless" else 300_000
    plan = Budget(sample_seconds=0.0001) if program.sampled else WholeGrid()
    budget = replace(plan, seconds=60, block_steps=steps)
    native, reference = (outcome(program.kernel, program.launch, budget, engine) for engine in ("native", "reference"))
    return native.kind, disagreement(native, reference, {"fa": "f4", "ha": "f2", "ba": "bf16"})


def random_program(seed: int) -> RandomProgram:
    """Return the program of a seed."""
    choose = random.Random(seed)  # noqa: S311  no secret
    grid, block = choose.choice(_GRIDS), choose.choice(_BLOCKS)
    style = choose.random()
    danger = "stuck" if style < 0.2 else choose.choice(HAZARDS) if style < 0.35 else ""
    functions = [_function(choose, number) for number in range(choose.choice([0, 0, 1, 2]))]
    code = Code(choose, loose=danger == "stuck")
    kernel = Writer(code, threads=math.prod(block), functions=len(functions), calm=danger == "endless")
    _begin(code, math.prod(grid) * math.prod(block))
    kernel.statements(choose.choice([3, 5, 8, 12]), uniform=True)
    if danger and not code.loose:
        code.lines.insert(choose.randrange(min(15, len(code.lines)), len(code.lines) + 1), hazard(code, danger))
    if not code.loose:
        code.add("bar.sync 0;")
        code.add(f"rem.u32 %t0, {IN_BLOCK}, 32; mov.u32 %t1, sums; mad.lo.u32 %t1, %t0, 8, %t1; "
                 "ld.shared.b64 %a0, [%t1]; st.global.b64 [%o0+248], %a0;")  # fmt: skip
    _end(code)
    text = [HEAD, _variables(choose, math.prod(block)), *functions]
    if functions:
        text.append(f".global .align 8 .u64 functions[2] = {{f0, f{len(functions) - 1}}};")
    parameters = ", ".join(f".param .u64 {name}" for name in _BUFFERS)
    text.append(f".entry k({parameters}, .param .align 8 .b8 struct[16], .param .u32 n, .param .f32 x) {{")
    text += [_declarations(), _PROTOTYPE if functions else "", *code.lines, "}"]
    return RandomProgram("\n".join(text) + "\n", grid, block, danger, sampled=choose.random() < 0.15)


def _variables(choose: random.Random, threads: int) -> str:
    words = [", ".join(str(choose.choice([*WORDS, choose.getrandbits(32)])) for _ in range(32)) for _ in range(2)]
    return (
        f".global .align 32 .b32 words[32] = {{{words[0]}}};\n.const .align 16 .b32 table[32] = {{{words[1]}}};\n"
        f".shared .align 16 .b8 cells[{32 * threads}];\n.shared .align 16 .b8 warps[{64 * -(-threads // 32)}];\n"
        f".shared .align 8 .b8 exchange[{8 * threads}];\n.shared .align 8 .b64 sums[32];\n"
        f".global .b8 format[8] = {{{', '.join(str(letter) for letter in FORMAT)}}};\n"
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
        ".extern .shared .align 16 .b8 dynamic[];"
    )


def _declarations() -> str:
    registers = " ".join(f".reg .{kind} %{letter}<{count}>;" for letter, (count, kind) in REGISTERS.items())
    return registers + " .local .align 32 .b8 depot[128];"


def _begin(code: Code, total: int) -> None:
    """Write where the thread stands, and give some registers a value."""
    code.add(f"mov.u32 %c0, {total}; mov.u32 %t0, %ntid.x; mov.u32 %t1, %ntid.y; mov.u32 %t2, %ntid.z;")
    code.add(f"mov.u32 %t3, %tid.z; mov.u32 {IN_BLOCK}, %tid.y; mad.lo.u32 {IN_BLOCK}, %t3, %t1, {IN_BLOCK};")
    code.add(f"mov.u32 %t3, %tid.x; mad.lo.u32 {IN_BLOCK}, {IN_BLOCK}, %t0, %t3; mul.lo.u32 %t4, %t0, %t1;")
    code.add("mul.lo.u32 %t4, %t4, %t2; mov.u32 %t0, %nctaid.x; mov.u32 %t1, %nctaid.y; mov.u32 %t5, %ctaid.z;")
    code.add("mov.u32 %t6, %ctaid.y; mad.lo.u32 %t5, %t5, %t1, %t6; mov.u32 %t6, %ctaid.x;")
    code.add(f"mad.lo.u32 %t5, %t5, %t0, %t6; mad.lo.u32 {THREAD}, %t5, %t4, {IN_BLOCK};")
    shift = code.choose.choice(["", f"add.u32 {PLACE}, {PLACE}, 3; rem.u32 {PLACE}, {PLACE}, %c0;",
                                f"sub.u32 {PLACE}, %c0, {PLACE}; sub.u32 {PLACE}, {PLACE}, 1;"])  # fmt: skip
    code.add(f"mov.u32 {PLACE}, {THREAD}; {shift}")
    code.add(f"ld.param.u64 %o0, [out]; mad.wide.u32 %o0, {THREAD}, {_CELL_BYTES}, %o0;")
    code.add(f"ld.param.u64 %a0, [in]; mad.wide.u32 %a0, {IN_BLOCK}, 4, %a0; ld.param.u32 %r0, [n];")
    code.add(f"mov.b32 %r1, {THREAD}; ld.param.f32 %f0, [x]; ld.param.b64 %d0, [struct+8];")
    for letter in "rdfgh":
        count, kind = REGISTERS[letter]
        size = int(kind[1:]) // 8
        for number in range(count):
            if code.chance(0.5):  # the others are read before they are written
                own, same = f"%a0+{size * code.choose.randrange(16)}", f"words+{8 * code.choose.randrange(16)}"
                source = own if size <= 4 and code.chance(0.6) else same
                code.add(f"ld.global.{kind} %{letter}{number}, [{source}];")
    for _ in range(3):
        random_instructions.compare(code)


def _end(code: Code) -> None:
    """Write all registers to memory."""
    at = 0
    for letter in "gdrfhp":
        count, kind = REGISTERS[letter]
        size = 4 if kind == "pred" else int(kind[1:]) // 8
        for number in range(count):
            if letter == "p":
                code.add(f"selp.b32 %t0, 1, 0, %p{number}; st.global.b32 [%o0+{at}], %t0;")
            else:
                code.add(f"st.global.{kind} [%o0+{at}], %{letter}{number};")
            at += size
        at = -(-at // 8) * 8
    assert at <= _CELL_BYTES
    code.add("ret;")


def _function(choose: random.Random, number: int) -> str:
    """Return a device function, which may call the one before it."""
    code = Code(choose)
    code.add("ld.param.b32 %r0, [a]; ld.param.b64 %d0, [b]; mov.u32 %r1, %laneid; mov.b32 %r7, %r0;")
    Writer(code, functions=number, in_kernel=False).statements(choose.choice([2, 4]), uniform=False)
    code.add("st.param.b32 [o], %r7; ret;")
    head = f".func (.param .b32 o) f{number}(.param .b32 a, .param .b64 b) {{"
    return "\n".join([head, _declarations(), *code.lines, "}"])
