"""PTX as it comes with programs, through the assembler, against the compiler's own machine code."""

import pytest

from kerncast.compile.assembler import assemble, entries_of, library_path
from kerncast.errors import CompileError

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


def test_ptx_of_a_newer_compiler_is_read_as_far_as_it_uses_nothing_new() -> None:
    assert assemble(text("9.3"), "sm_90", "k.ptx").cubin == assemble(text("8.8"), "sm_90", "k.ptx").cubin


def test_faults_are_named_with_their_line() -> None:
    with pytest.raises(CompileError, match="invented") as caught:
        assemble(text(more="invented.u32 %r1, 1;"), "sm_90", "k.ptx")
    assert caught.value.where == "k.ptx:10"


def test_ptx_is_not_for_older_architectures() -> None:
    with pytest.raises(CompileError, match=r"sm_7[05]"):
        assemble(text(), "sm_70", "k.ptx")


def test_names_of_kernels() -> None:
    assert entries_of(text().decode()) == ("k",)
    assert entries_of(".weak .entry _Z1kILi3EEvv()\n.entry b(") == ("_Z1kILi3EEvv", "b")
