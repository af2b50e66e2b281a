"""Half precision and bfloat16 on both engines, which share no algorithm for them: every value, pairs and triples.

The native engine computes in double precision and rounds to odd, the reference engine computes with exact integers.
NumPy's own half precision is a third opinion: a single has more than twice its bits, so that rounding twice is right.
"""

from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.compile import CompiledKernel
from kerncast.execute import WholeGrid, execute
from kerncast.execute.sampling.run import EngineName
from kerncast.launch import Argument, Launch, parse_value

HEAD = ".version 8.8\n.target sm_100\n.address_size 64\n"
Words = npt.NDArray[np.uint32]
THREADS = 256
#: Zero, the ends of the subnormal and the normal numbers, one and its neighbours, infinity and NaN; both signs.
EDGES = {
    "f16": [0, 1, 2, 0x3FF, 0x400, 0x401, 0x3BFF, 0x3C00, 0x3C01, 0x6BFF, 0x7BFF, 0x7C00, 0x7C01, 0x7E00],
    "bf16": [0, 1, 2, 0x7F, 0x80, 0x81, 0x3F7F, 0x3F80, 0x3F81, 0x437F, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0],
}
UNARY = ("neg.{}", "abs.{}", "neg.{}x2", "abs.{}x2", "neg.ftz.f16", "abs.ftz.f16x2", "ex2.approx.f16", "tanh.approx.{}")
BINARY = (
    "add.rn.{}", "sub.rn.{}", "mul.rn.{}", "min.{}", "max.{}", "min.NaN.{}", "max.NaN.{}", "add.rn.{}x2", "mul.rn.{}x2",
    "max.{}x2", "sub.ftz.f16", "add.rn.ftz.sat.f16x2", "mul.ftz.f16x2", "min.ftz.NaN.f16",
)  # fmt: skip
FMA = ("fma.rn.{}", "fma.rn.relu.{}", "fma.rn.{}x2", "fma.rn.sat.f16", "fma.rn.ftz.f16", "fma.rn.ftz.relu.f16x2")
CONVERSIONS = tuple(f"cvt.{mode}.{{}}.f32" for mode in ("rn", "rz", "rm", "rp"))


def opcodes_of(patterns: tuple[str, ...], kind: str) -> list[str]:
    """Return the opcodes for one of the two formats."""
    return [text.format(kind) for text in patterns if "{}" in text or kind == "f16"]


def kernel_text(opcodes: list[str], sources: int, words: int) -> str:
    """Return a kernel that runs each opcode on words, or on their lower halves, and stores its results."""
    loads = "".join(f"ld.global.u32 %w{i}, [%in+{4 * words * i}]; cvt.u16.u32 %h{i}, %w{i};\n" for i in range(sources))
    code = ""
    for number, opcode in enumerate(opcodes):
        whole, wide = opcode.endswith("x2"), opcode.endswith("f32")
        operands = ", ".join(f"%{'w' if whole or wide else 'h'}{i}" for i in range(sources))
        code += f"{opcode} {'%w9' if whole else '%h9'}, {operands};\n"
        code += "" if whole else "cvt.u32.u16 %w9, %h9;\n"
        code += f"st.global.u32 [%out+{4 * words * number}], %w9;\n"
    return f"""{HEAD}.visible .entry k(.param .u64 a, .param .u64 b) {{
.reg .b64 %in, %out, %at; .reg .b32 %t, %c; .reg .b32 %w<10>; .reg .b16 %h<10>;
ld.param.u64 %in, [a]; ld.param.u64 %out, [b];
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %t, %c, {THREADS}, %t;
mul.wide.u32 %at, %t, 4; add.s64 %in, %in, %at; add.s64 %out, %out, %at;
{loads}{code}ret; }}"""


def run(opcodes: list[str], sources: Words, folder: Path, engine: EngineName) -> Words:
    """Return [opcodes, words] the results of each opcode on columns [sources, words]."""
    count, words = sources.shape
    np.save(folder / "in.npy", sources)
    texts = {"a": f"u32[{sources.size}] file(in.npy)", "b": f"u32[{len(opcodes)}, {words}] zeros"}
    arguments = tuple(Argument(name, parse_value(text, name, folder)) for name, text in texts.items())
    launch = Launch(Path("k.ptx"), "k", (words // THREADS, 1, 1), (THREADS, 1, 1), 0, arguments)
    kernel = CompiledKernel("k", "k", "sm_100", kernel_text(opcodes, count, words), cast("Any", None), None)
    return np.asarray(execute(kernel, launch, WholeGrid(), engine=engine)[0].memory["b"], np.uint32)


def check(opcodes: list[str], sources: Words, folder: Path) -> Words:
    """Hold the engines against one another and return what both computed."""
    native, reference = (run(opcodes, sources, folder, engine) for engine in ("native", "reference"))
    for opcode, ours, theirs in zip(opcodes, native, reference, strict=True):
        # Approximate functions come from two libraries, which may round a value between two neighbours differently.
        steps = 1 if "approx" in opcode else 0
        wrong = np.flatnonzero(np.abs(ours.astype(np.int64) - theirs) > steps)
        assert not len(wrong), (
            opcode,
            [hex(row[wrong[0]]) for row in sources],
            hex(ours[wrong[0]]),
            hex(theirs[wrong[0]]),
        )
    return reference


def drawn(kind: str, sources: int, more: int) -> Words:
    """Return columns of words: all tuples of edges, and as many others, in both halves."""
    edges = [pattern | sign for pattern in EDGES[kind] for sign in (0, 0x8000)]
    tuples = np.array(list(product(edges if sources < 3 else edges[::2] + edges[1::6], repeat=sources)), np.uint32).T
    random = np.random.default_rng(5)
    others = random.integers(0, 1 << 16, (sources, more), np.uint32)
    low = np.concatenate([tuples, others], axis=1)
    low = low[:, : low.shape[1] // THREADS * THREADS]
    words: Words = low | low[:, ::-1] << np.uint32(16)
    return words


@pytest.mark.parametrize("kind", EDGES)
def test_every_value(kind: str, tmp_path: Path) -> None:
    """The sign alone changes; approximate functions agree to a unit in the last place."""
    every = np.arange(1 << 16, dtype=np.uint32)
    results = check(opcodes_of(UNARY, kind), (every | every[::-1] << np.uint32(16))[np.newaxis], tmp_path)
    assert (results[0] == every ^ 0x8000).all()
    assert (results[1] == every & 0x7FFF).all()


@pytest.mark.parametrize("kind", EDGES)
def test_pairs(kind: str, tmp_path: Path) -> None:
    sources = drawn(kind, 2, 8000)
    results = check(opcodes_of(BINARY, kind), sources, tmp_path)
    if kind == "f16":
        a, b = (row.astype(np.uint16).view(np.float16) for row in sources)
        with np.errstate(all="ignore"):
            third = [a + b, a - b, a * b]
        for ours, theirs in zip(results, third, strict=False):
            expected = np.where(np.isnan(theirs), np.uint16(0x7FFF), theirs.view(np.uint16))
            assert (ours == expected).all()


@pytest.mark.parametrize("kind", EDGES)
def test_triples(kind: str, tmp_path: Path) -> None:
    """Random triples, and addends that nearly cancel the product, where one rounding differs most from two."""
    sources = drawn(kind, 3, 8000)
    products = run([f"mul.rn.{kind}x2"], sources[:2], tmp_path, "native")[0]
    near = np.array([sources[0], sources[1], products ^ 0x80008000 ^ (sources[2] & 0x00010003)], np.uint32)
    check(opcodes_of(FMA, kind), np.concatenate([sources, near], axis=1), tmp_path)


@pytest.mark.parametrize("kind", EDGES)
def test_conversions_of_singles(kind: str, tmp_path: Path) -> None:
    """Singles of all sizes, those that lie on a half or halfway between two, and their neighbours."""
    random = np.random.default_rng(7)
    halves = random.integers(0, 1 << 16, 4096).astype(np.uint32) << np.uint32(16)
    if kind == "f16":
        halves = (halves >> np.uint32(16)).astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    middle = 0x1000 if kind == "f16" else 0x8000
    near = [halves.astype(np.int64) + offset for offset in (-1, 0, 1, middle - 1, middle, middle + 1)]
    singles = (np.concatenate([*near, random.integers(0, 1 << 32, 8192)]) & 0xFFFFFFFF).astype(np.uint32)
    results = check(opcodes_of(CONVERSIONS, kind), singles[np.newaxis], tmp_path)
    if kind == "f16":
        with np.errstate(all="ignore"):
            nearest = singles.view(np.float32).astype(np.float16)
        assert (results[0] == np.where(np.isnan(nearest), np.uint16(0x7FFF), nearest.view(np.uint16))).all()
