"""Which line of the PTX text each instruction stands on."""

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
