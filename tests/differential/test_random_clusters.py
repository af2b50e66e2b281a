"""Random programs of clusters on both engines: places in other blocks, good and bad, with the barrier between them."""

import random
from dataclasses import replace

import pytest

from kerncast.compile import CompiledKernel
from kerncast.execute import Budget
from tests.helpers.engine_agreement import disagreement, outcome
from tests.helpers.execute_helpers import WITH_FRAME, launch
from tests.helpers.thorough import THOROUGH

_HEAD = ".version 8.8\n.target sm_90\n.address_size 64\n"
_BEGIN = """
.visible .entry k(.param .u64 out) {
.shared .align 16 .b8 pad[48]; .shared .align 16 .b8 mem[80]; .reg .b32 %r<40>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, %ntid.x;
mad.lo.u32 %r4, %r1, %r3, %r2; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r5, %cluster_ctarank;
"""
_MEET = "barrier.cluster.arrive; barrier.cluster.wait;\n"
_END = "ld.shared.u32 %r30, [mem]; add.u32 %r6, %r6, %r30; st.global.u32 [%rd1], %r6; ret; }"


def operation(draw: random.Random) -> str:
    """Return an access to a place in the cluster, which may not be there."""
    result, value, variable = draw.randrange(6, 20), draw.randrange(6, 20), draw.choice(["mem", "pad"])
    at = draw.choice([60, 64, 76, 80, 124, 128, 1000, -4, 2, 2**20]) if draw.random() < 0.2 else draw.choice([0, 4, 8])
    rank = draw.choice(["%r2", "3", "4", "255", "65536", f"%r{value}"]) if draw.random() < 0.2 else "%r5"
    near = f"mov.u32 %r20, {variable}; mapa.shared::cluster.u32 %r21, %r20, {rank};"
    far = f"mov.u64 %rd5, {variable}; cvta.shared.u64 %rd5, %rd5; mapa.u64 %rd6, %rd5, {rank};"
    own = f"and.b32 %r22, %r2, 12; mov.u32 %r20, {variable}; add.u32 %r20, %r20, %r22;"
    space = draw.choice(["shared::cluster", "shared::cta", "shared"])
    return draw.choice([
        f"{near} ld.shared::cluster.u32 %r{result}, [%r21+{at}];",
        f"{near} st.shared::cluster.u32 [%r21+{at}], 5;",
        f"{far} red.add.u32 [%rd6+{at}], %r{value};",
        f"{far} ld.v2.u32 {{%r{result}, %r22}}, [%rd6+{at}];",
        f"{own} red.{space}.add.u32 [%r20+{at}], 1;",
        f"st.{space}.u32 [{variable}+{at}], 3; bar.sync 0;",
        f"getctarank.shared::cluster.u32 %r{result}, %r{value}; add.u32 %r{result}, %r{result}, %r5;",
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(60 if THOROUGH else 8))
def test_random_programs_of_clusters(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311  equal seeds give equal programs
    start = "".join(f"mov.u32 %r{number}, {draw.randrange(8)};" for number in range(6, 20))
    body = "".join(operation(draw) + _MEET for _ in range(draw.randrange(1, 6)))
    kernel = CompiledKernel("k", "k", "sm_90", f"{_HEAD}{_BEGIN}{start}{body}{_END}", WITH_FRAME, None)
    size = draw.choice([1, 2, 4])
    threads = draw.choice([1, 32, 48, 64])
    where = replace(launch(2 * size, threads, out="u32[512] zeros"), cluster=(size, 1, 1))
    assert (
        disagreement(outcome(kernel, where, Budget(), "native"), outcome(kernel, where, Budget(), "reference")) is None
    )
