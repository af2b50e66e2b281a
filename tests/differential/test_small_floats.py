"""Floats of 8, 6 and 4 bits: every code against exact numbers, and through registers of 8 bits, on both engines."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from kerncast.compile import CompiledKernel
from kerncast.errors import UnsupportedError
from kerncast.execute import WholeGrid, execute
from kerncast.execute.sampling.run import EngineName
from kerncast.launch import Argument, Launch, parse_value
from tests.differential.test_engines_arithmetic import HEAD
from tests.helpers.scalar_arithmetic import SMALL, decode_any, encode

CODES = 256
#: Two codes to FP16 and back; those of 4 bits lie together in a register of 8 bits.
PAIR = """cvt.rn.f16x2.{0}x2 %r2, %h1; cvt.rn.satfinite.{0}x2.f16x2 %h2, %r2;"""
NIBBLES = """mov.b16 {{%b1, %b2}}, %h1; cvt.rn.f16x2.{0}x2 %r2, %b1; cvt.rn.satfinite.{0}x2.f16x2 %b3, %r2;
mov.b16 %h2, {{%b3, 0}};"""


def run(body: str, engine: EngineName, tmp_path: Path) -> np.ndarray:
    """Return [codes, 2] what a body makes in %r2 and %h2 of a thread's number in %r1 and %h1."""
    text = f"""{HEAD}.visible .entry k(.param .u64 a) {{
    .reg .b64 %at; .reg .b32 %r<4>; .reg .b16 %h<4>; .reg .b8 %b<4>; .reg .f32 %f<3>; .reg .b64 %p;
    ld.param.u64 %p, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %at, %r1, 8;
    add.s64 %p, %p, %at; cvt.u16.u32 %h1, %r1;
    {body} st.global.u32 [%p], %r2; st.global.u16 [%p+4], %h2; ret; }}"""
    argument = Argument("a", parse_value(f"u32[{CODES}, 2] zeros", "a", tmp_path))
    where = Launch(Path("k.ptx"), "k", (1, 1, 1), (CODES, 1, 1), 0, (argument,))
    kernel = CompiledKernel("k", "k", "sm_100", text, cast("Any", None), None)
    found: np.ndarray = execute(kernel, where, WholeGrid(), engine=engine)[0].memory["a"].view(np.uint32)
    return found.reshape(CODES, 2)


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_every_code(kind: str, engine: EngineName, tmp_path: Path) -> None:
    is_short = kind == "e2m1"
    found = run((NIBBLES if is_short else PAIR).format(kind), engine, tmp_path)
    bits = 1 + sum(SMALL[kind][:2])
    nan = SMALL[kind][4]
    for code in range(CODES):
        codes = (code & 15, code >> 4) if is_short else (code % (1 << bits), 0)
        numbers = [decode_any(each, kind) for each in codes]
        assert int(found[code, 0]) == sum(encode(n, "f16") << 16 * i for i, n in enumerate(numbers)), code
        back = [nan if n.kind == "nan" else each for each, n in zip(codes, numbers, strict=True)]
        if numbers[0].kind == "inf":
            back[0] = 0x7B | code & 0x80  # the largest number
        assert int(found[code, 1]) == back[0] | back[1] << (4 if is_short else 8), code


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_every_power_of_two(engine: EngineName, tmp_path: Path) -> None:
    found = run("cvt.rn.bf16x2.ue8m0x2 %r2, %h1; cvt.rz.ue8m0x2.bf16x2 %h2, %r2;", engine, tmp_path)
    least = encode(decode_any(0, "ue8m0"), "bf16") << 16
    for code in range(CODES):
        assert int(found[code, 0]) == encode(decode_any(code, "ue8m0"), "bf16") | least
        assert int(found[code, 1]) == code


def test_stochastic_rounding_is_refused(tmp_path: Path) -> None:
    body = "cvt.rs.satfinite.f16x2.f32 %r2, %f1, %f2, %r1;"
    with pytest.raises(UnsupportedError, match=r"cvt\.rs\.satfinite\.f16x2\.f32 is not supported") as error:
        run(body, "native", tmp_path)
    assert "rounds stochastically" in str(error.value.cure)
