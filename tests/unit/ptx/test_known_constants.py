"""Registers that hold one number, and descriptors of products put together from bits by the published layout."""

import numpy as np
import pytest

from kerncast.ptx import Register, parse_ptx
from kerncast.ptx.known_constants import Constants, described_product
from kerncast.ptx.tensor_layouts import KINDS, kind_of, shape_of

HEAD = ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u32 n) {\n"
REGISTERS = ".reg .b32 %r<9>; .reg .b64 %d; .reg .pred %p;\n"


def constants(body: str) -> Constants:
    return Constants(parse_ptx(f"{HEAD}{REGISTERS}{body} ret; }}").functions["k"])


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("mov.b32 %r0, 7; shl.b32 %r1, %r0, 4; or.b32 %r2, %r1, 1;", 113),
        ("mov.u32 %r0, 5; mad.lo.u32 %r2, %r0, 3, 2;", 17),
        ("mov.u32 %r0, 5; sub.u32 %r2, %r0, 6;", 0xFFFFFFFF),
        ("mov.u32 %r0, 5; mov.u32 %r1, -1; bfi.b32 %r2, %r0, %r1, 4, 8;", 0xFFFFF05F),
        ("mov.u32 %r2, 5; mov.u32 %r2, 5;", 5),
        ("mov.u32 %r2, 5; mov.u32 %r2, 6;", None),
        ("ld.param.u32 %r2, [n];", None),
        ("mov.u32 %r2, 5; add.u32 %r2, %r2, 1;", None),
        ("setp.eq.u32 %p, 0, 0; @%p mov.u32 %r2, 5;", None),
        ("mov.u32 %r0, 5; mul.hi.u32 %r2, %r0, 3;", None),
    ],
)
def test_values(body: str, value: int | None) -> None:
    assert constants(body).of(Register("%r2", "b32")) == value


@pytest.mark.parametrize("kind", KINDS)
def test_descriptors_are_read_as_the_engines_read_them(kind: str) -> None:
    random = np.random.default_rng(len(kind))
    is_scaled = bool(KINDS[kind].factors)
    scales = "[%r4], [%r5], " if is_scaled else ""
    modifiers = (kind, *(("block_scale", max(KINDS[kind].factors)) if is_scaled else ()))
    of_kind = kind_of(modifiers)
    assert of_kind is not None
    seen = 0
    for _ in range(100):
        a, b = random.choice(list(KINDS[kind].formats), 2).tolist()
        rows = 8 if is_scaled else int(random.choice([4, 8]))  # 64 or 128, of 16 each
        total = int(random.choice([*KINDS[kind].totals, 0]))
        word = total << 4 | a << 7 | b << 10 | int(random.integers(1, 33)) << 17 | 1 << 23 | rows << 24
        name = ".".join(("tcgen05.mma.cta_group::1", *modifiers))
        text = f"mov.b32 %r3, {word}; {name} [%r0], %d, %d, %r3, {scales}1;"
        function = parse_ptx(f"{HEAD}{REGISTERS}{text} ret; }}").functions["k"]
        shape = shape_of(of_kind, word)
        if shape is None:
            continue
        seen += 1
        found = described_product(function.instructions[1], Constants(function))
        assert found is not None
        assert (found.m, found.n, found.k, found.total) == (shape.m, shape.n, shape.k, shape.total)
    assert seen
