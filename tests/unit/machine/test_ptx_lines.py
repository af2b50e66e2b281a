"""Which line of the PTX text each instruction stands on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.execute.setup import linked_program
from kerncast.machine.ptx_counts import PtxCounts, flows_of
from kerncast.ptx import inline_calls, parse_ptx

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(
	.param .u64 k_param_0
)
{
	.reg .b16 	%rs<4>;
	.reg .b64 	%rd<3>;
	ld.param.u64 	%rd1, [k_param_0];
	ld.global.u16 	%rs1, [%rd1];
	// begin inline asm
	{mul.f16 %rs2,%rs1,%rs1;
}
	// end inline asm
	// begin inline asm
	{  fma.rn.f16 %rs3,%rs1,%rs2,%rs1;}

	// end inline asm
	st.global.u16 	[%rd1], %rs3;
	ret;
}
"""


def test_inline_assembly_in_a_scope_of_its_own_has_its_own_line() -> None:
    """cuda_fp16.h puts each intrinsic into braces: it does not belong to the line before."""
    text = PTX.split("\n")
    lines = [instruction.line for instruction in inline_calls(parse_ptx(PTX), "k").instructions]
    assert [text[line - 1].strip(" \t{}").split()[0] for line in lines] == [
        "ld.param.u64", "ld.global.u16", "mul.f16", "fma.rn.f16", "st.global.u16", "ret;",
    ]  # fmt: skip


def test_blocks_that_never_ran_do_not_count_as_too_many() -> None:
    """CUTLASS's kernels have hundreds of them; the flow through the others is exact."""
    arms = "".join(
        f"setp.eq.u32 %p1, %r1, {number}; @%p1 bra on{number}; add.u32 %r1, %r1, 1; on{number}:\n"
        for number in range(400)
    )
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    text = f"{head}.visible .entry k() {{ .reg .pred %p<2>; .reg .b32 %r<2>;\n{arms} ret; }}"
    program = linked_program(text, "k")
    blocks = len(program.cfg.blocks)
    assert blocks > 600
    threads = np.array([float(number % 2 == 0) for number in range(blocks)])  # every branch is taken
    counts = PtxCounts(program.function.instructions, program.cfg, np.zeros(0), threads)
    taken = {pair: n for pair, n in counts.edges.items() if n > 0.5}
    assert all(a % 2 == 0 and b % 2 == 0 for a, b in taken if b < blocks)
    assert list(taken.values()) == pytest.approx([1.0] * len(taken))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_flows_are_the_least_that_have_these_sums(data: st.DataObject) -> None:
    """Against all sums solved at once: also where they leave a choice."""
    nodes = data.draw(st.integers(2, 8))
    edge = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    pairs = data.draw(st.lists(edge, min_size=1, max_size=16, unique=True))
    sizes = st.integers(0, 9).map(float)
    true = np.array(data.draw(st.lists(sizes, min_size=len(pairs), max_size=len(pairs))))
    sums = [[n for n, pair in enumerate(pairs) if pair[end] == node] for end in (0, 1) for node in range(nodes)]
    totals = np.array([true[members].sum() for members in sums])
    matrix = np.array([[float(n in members) for n in range(len(pairs))] for members in sums])
    expected = np.linalg.lstsq(matrix, totals, rcond=None)[0]
    assert flows_of(sums, totals, len(pairs)) == pytest.approx(expected, abs=1e-6)
