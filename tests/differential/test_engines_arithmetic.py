"""Every arithmetic instruction as PTX on both engines against the scalar oracle: one kernel for each family."""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.compile import CompiledKernel
from kerncast.execute import WholeGrid, execute
from kerncast.execute.sampling.run import EngineName
from kerncast.launch import Argument, Launch, parse_value
from tests.differential.test_engine_arithmetic import (
    APPROXIMATE,
    COMPARE_FLOAT,
    EDGES,
    FAMILIES,
    agree,
    expand,
    source_width,
)
from tests.differential.test_engine_arithmetic import result_type as type_of
from tests.helpers.scalar_arithmetic import WIDTHS, evaluate
from tests.helpers.thorough import THOROUGH

HEAD = ".version 8.8\n.target sm_100\n.address_size 64\n"
LANES = 64 if THOROUGH else 32
REGISTER_WIDTHS = (16, 32, 64)
ENGINES: tuple[EngineName, ...] = ("native", "reference")
WITH_PREDICATE = {
    "selp.{b16,u32,s64,f32,f64}": 3, f"setp.{COMPARE_FLOAT}.{{and,or,xor}}.{{f32,f16x2}}": 3,
    "setp.{eq,lt,hi}.{and,or,xor}.u32": 3, "set.{eq,ltu}.{and,or,xor}.{u32,f32}.{f32,s32}": 3,
    "set.{ne,geu}.{and,or,xor}.{f16x2,u32}.f16x2": 3,
}  # fmt: skip
EVERY_FAMILY = FAMILIES | APPROXIMATE | WITH_PREDICATE


@cache
def inputs(count: int) -> npt.NDArray[np.uint64]:
    """Return [widths, sources, lanes] bit patterns: special values, their neighbours, few bits, anything."""
    choice = random.Random(11)  # noqa: S311  the same values in each run
    values = np.zeros((len(REGISTER_WIDTHS), count, LANES), np.uint64)
    for number, width in enumerate(REGISTER_WIDTHS):
        top = (1 << width) - 1
        edges = [e for e in EDGES if e <= top]
        for place in np.ndindex(count, LANES):
            kinds = (
                choice.choice(edges),
                choice.choice(edges) + choice.randint(-2, 2) & top,
                1 << choice.randrange(width) | 1 << choice.randrange(width),
                choice.randrange(top + 1),
                choice.randint(0, 70),
            )
            values[number][place] = choice.choice(kinds)
    return values


def result_width(opcode: str) -> int:
    root, *modifiers = opcode.split(".")
    if root in {"setp", "testp"}:
        return 1
    if root in {"popc", "clz", "bfind"}:
        return 32
    return WIDTHS[type_of(opcode)] * (2 if "wide" in modifiers else 1)


def takes_predicate(opcode: str, position: int) -> bool:
    return position == 2 and opcode.split(".", maxsplit=1)[0] in {"selp", "set", "setp"}


def body(opcode: str, count: int, number: int) -> str:
    """Return the PTX of one instruction, and of the store of its result."""
    sources = [
        "%third" if takes_predicate(opcode, i) else f"%s{max(source_width(opcode, i), 16)}_{i}" for i in range(count)
    ]
    width = result_width(opcode)
    if width == 1:
        is_packed = opcode.startswith("setp") and opcode.endswith("x2")
        text = f"{opcode} {'%yes|%also' if is_packed else '%yes'}, {', '.join(sources)};\nselp.u64 %s64, 1, 0, %yes;\n"
        if is_packed:
            text += "selp.u64 %d64, 2, 0, %also;\nor.b64 %s64, %s64, %d64;\n"
    else:
        own = max(width, 16)
        text = f"{opcode} %d{own}, {', '.join(sources)};\n" + (
            "mov.b64 %s64, %d64;\n" if own == 64 else f"cvt.u64.u{own} %s64, %d{own};\n"
        )
    return text + f"st.global.u64 [%out+{8 * LANES * number}], %s64;\n"


def kernel_text(opcodes: list[str], count: int) -> str:
    declared = "".join(
        f".reg .b{w} {', '.join([f'%d{w}', f'%s{w}', *(f'%s{w}_{i}' for i in range(count))])};\n"
        for w in REGISTER_WIDTHS
    )
    loads = "".join(
        f"ld.global.u{w} %s{w}_{i}, [%in+{8 * LANES * (count * number + i)}];\n"
        for number, w in enumerate(REGISTER_WIDTHS)
        for i in range(count)
    )
    third = "setp.gt.s64 %third, %s64_2, 255;\n" if count > 2 else ""
    code = "".join(body(opcode, count, number) for number, opcode in enumerate(opcodes))
    return f""".visible .entry k(.param .u64 a, .param .u64 b) {{
{declared}.reg .b64 %in, %out, %at; .reg .b32 %t; .reg .pred %yes, %also, %third;
ld.param.u64 %in, [a]; ld.param.u64 %out, [b];
mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 8; add.s64 %in, %in, %at; add.s64 %out, %out, %at;
{loads}{third}{code}ret; }}"""


def is_as_expected(family: str, opcode: str, result: int, expected: int) -> bool:
    if agree(type_of(opcode), result, expected):
        return True
    if family not in APPROXIMATE:
        return False
    step = 1 << 32 if opcode.endswith("ftz.f64") else 1  # a unit in the last place, as both compute in double precision
    shifts = (0, 16) if opcode.endswith("x2") else (0,)
    parts = [[x >> shift & (0xFFFF if len(shifts) > 1 else -1) for x in (result, expected)] for shift in shifts]
    return all(abs(a - b) <= step for a, b in parts)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_instructions(family: str, tmp_path: Path) -> None:
    """On both engines, so that the slow oracle computes once."""
    opcodes, count = expand(family), EVERY_FAMILY[family]
    values = inputs(count)
    computed = {engine: run(engine, opcodes, values, tmp_path) for engine in ENGINES}
    for number, opcode in enumerate(opcodes):
        width = (1 << max(result_width(opcode), 2)) - 1
        for lane, sources in enumerate(sources_of(opcode, values)):
            expected = evaluate(opcode, sources)
            for engine, results in computed.items():
                found = results[number][lane] & width
                assert is_as_expected(family, opcode, found, expected), (
                    engine,
                    opcode,
                    [hex(s) for s in sources],
                    hex(found),
                    hex(expected),
                )


def run(engine: EngineName, opcodes: list[str], values: npt.NDArray[np.uint64], tmp_path: Path) -> list[list[int]]:
    """Return the results of each instruction, by lane."""
    count = values.shape[1]
    np.save(tmp_path / "in.npy", values)
    texts = {"a": f"u64[{values.size}] file(in.npy)", "b": f"u64[{len(opcodes)}, {LANES}] zeros"}
    arguments = tuple(Argument(name, parse_value(text, name, tmp_path)) for name, text in texts.items())
    where = Launch(Path("k.ptx"), "k", (1, 1, 1), (LANES, 1, 1), 0, arguments)
    kernel = CompiledKernel("k", "k", "sm_100", HEAD + kernel_text(opcodes, count), cast("Any", None), None)
    results: list[list[int]] = execute(kernel, where, WholeGrid(), engine=engine)[0].memory["b"].tolist()
    return results


def sources_of(opcode: str, values: npt.NDArray[np.uint64]) -> Iterator[list[int]]:
    """Yield the sources of one instruction, lane by lane."""
    count = values.shape[1]
    widths = [source_width(opcode, i) for i in range(count)]
    columns = [values[REGISTER_WIDTHS.index(max(width, 16)), i].tolist() for i, width in enumerate(widths)]
    for lane in range(LANES):
        sources = [column[lane] & (1 << width) - 1 for column, width in zip(columns, widths, strict=True)]
        if takes_predicate(opcode, count - 1):
            sources[2] = int(values[2, 2, lane].view(np.int64) > 255)
        yield sources
