"""PTX as it comes with programs, through the assembler, against the compiler's own machine code."""

import pytest

from kerncast.compile.assembler import assemble, entries_of, failure, library_path
from kerncast.errors import CompileError
from kerncast.machine.control_flow import machine_graph
from kerncast.machine.listing import disassemble

pytestmark = pytest.mark.skipif(library_path() is None, reason="nvJitLink is not installed (extra ptx)")

PTX = """.version {version}
.target sm_75
.address_size 64
.visible .entry k(.param .u64 k_0) {{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [k_0];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  st.global.u32 [%rd2], %r1;
  {more}
  ret;
}}
"""


def text(version: str = "7.0", more: str = "") -> bytes:
    return PTX.format(version=version, more=more).encode()


def test_ptx_becomes_an_elf_file_for_newer_architectures_too() -> None:
    for architecture in ("sm_75", "sm_90"):
        found = assemble(text(), architecture, "k.ptx")
        assert found.cubin.startswith(b"\x7fELF")
        assert "Used" in found.log
        assert "registers" in found.log


def test_machine_code_names_the_lines_of_ptx_that_names_no_source() -> None:
    """Nor does it fail where a routine stands elsewhere: ``__assertfail`` has no blocks here."""
    call = ".extern .func __assertfail(.param .b64 a);\n"
    more = (
        "setp.eq.u32 %p1, %r1, 7; @!%p1 bra on; {{ .param .b64 a; st.param.b64 [a], 0; call __assertfail, (a); }} on:"
    )
    ptx = text(more=".reg .pred %p<2>; " + more.format()).decode()
    ptx = ptx.replace(".visible .entry", call + ".visible .entry")
    code = disassemble(assemble(ptx.encode(), "sm_75", "k.ptx").cubin, "sm_75")
    lines = ptx.splitlines()
    (store,) = (each for each in code.routines["k"].instructions if each.opcode == "STG")
    assert lines[store.line - 1].strip().startswith("st.global.u32")
    graph = machine_graph(code.routines["k"])
    assert [block.called for block in graph.blocks if block.called] == ["__assertfail"]
    assert all(block.calls is None for block in graph.blocks)


def test_ptx_of_a_newer_compiler_is_read_as_far_as_it_uses_nothing_new() -> None:
    assert assemble(text("9.3"), "sm_90", "k.ptx").cubin == assemble(text("8.8"), "sm_90", "k.ptx").cubin


def test_faults_are_named_with_their_line() -> None:
    with pytest.raises(CompileError, match="invented") as caught:
        assemble(text(more="invented.u32 %r1, 1;"), "sm_90", "k.ptx")
    assert caught.value.where == "k.ptx:10"


def test_ptx_is_not_for_older_architectures() -> None:
    with pytest.raises(CompileError, match=r"sm_7[05]"):
        assemble(text(), "sm_70", "k.ptx")


def test_a_function_with_too_many_registers_is_named() -> None:
    """Mangled names of templates have thousands of letters: the reason comes behind them."""
    name = "_ZN7cutlass" + "IJNS_4gemm" * 90
    log = f"error   : entry function '{name}' with max regcount of 168 calls function '{name}' with regcount of 254"
    error = failure(log.encode(), "sm_90a", "kernel.ptx")
    assert "with max regcount of 168" in error.what
    assert error.what.endswith("with regcount of 254")
    assert error.cure is not None
    assert "__forceinline__" in error.cure


def test_names_of_kernels() -> None:
    assert entries_of(text().decode()) == ("k",)
    assert entries_of(".weak .entry _Z1kILi3EEvv()\n.entry b(") == ("_Z1kILi3EEvv", "b")
