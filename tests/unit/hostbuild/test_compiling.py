"""One source becomes an object: the line in the place of its kernels, what is remembered, errors with their place."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.errors import CompileError
from kerncast.hostbuild import compiling
from kerncast.hostbuild.compiling import (
    SOURCE_TAG,
    Compiled,
    compile_command,
    compile_error,
    compile_unit,
    object_of,
    remarks_on,
    tag_of,
)
from kerncast.hostbuild.host_compilers import toolchain
from tests.helpers.host_builds import needs_system, needs_wheels, unit_of

pytestmark = needs_wheels

SOURCE = """\
#include "half.h"
#include <cstdint>
__constant__ float weights[4];
__device__ __managed__ int both;
template <class T> __global__ void scale(T *x, uint64_t n) { if (threadIdx.x < n) x[threadIdx.x] *= HALF * rsqrtf(4); }
int main() {
  float *x = nullptr;
  cudaMalloc(&x, max(16, 4u));
  scale<float> << <1, 32 >> >(x, 4);
  return (int)clock() & 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("source")
    (place / "inc").mkdir()
    (place / "inc" / "half.h").write_text("#define HALF 0.5f\n", encoding="utf-8")
    (place / "k.cu").write_text(SOURCE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("KERNCAST_CACHE", str(place / "cache"))
        yield place


@pytest.fixture(scope="module")
def compiled(folder: Path) -> Compiled:
    return compile_unit(unit_of("-I", "inc", "-DN=4", folder / "k.cu"), toolchain())


def told(content: bytes) -> dict[str, object]:
    """Return what the line in an object says, up to the zero behind it."""
    start = content.index(SOURCE_TAG.encode())
    found = json.loads(content[start + len(SOURCE_TAG) : content.index(b"\0", start)])
    assert isinstance(found, dict)
    return found


def test_an_object_names_its_source_and_its_options(folder: Path, compiled: Compiled) -> None:
    assert compiled.content is not None
    assert told(compiled.content) == {
        "source": str(folder / "k.cu"),
        "defines": [["N", "4"]],
        "include_dirs": [str(folder / "inc")],
        "standard": "c++17",
        "fast_math": False,
        "forced_includes": [],
    }


def test_kernels_are_registered_as_those_of_cuda_12(compiled: Compiled) -> None:
    assert compiled.content is not None
    for name in (
        b"__cudaRegisterFatBinaryEnd",
        b"__cudaPushCallConfiguration",
        b"cudaLaunchKernel",
        b"__cudaRegisterVar",
    ):
        assert name in compiled.content
    assert b"_Z5scaleIfEvPT_m\0" in compiled.content
    assert b"cudaConfigureCall" not in compiled.content


def test_managed_variables_lie_where_the_runtime_finds_them(compiled: Compiled) -> None:
    assert compiled.content is not None
    assert b"__kerncastManagedVariables" in compiled.content
    assert b"__start_kerncast_managed" in compiled.content


def test_headers_are_remembered_and_an_object_is_compiled_once(folder: Path, compiled: Compiled) -> None:
    assert str(folder / "inc/half.h") in compiled.kept.files
    assert any(name.endswith("cuda_runtime.h") for name in compiled.kept.files)
    unit = unit_of("-I", "inc", "-DN=4", folder / "k.cu")
    again = compile_unit(unit, toolchain())
    assert again.content is None
    assert again.kept == compiled.kept
    assert object_of(unit, again, toolchain()) == compiled.content


@pytest.mark.usefixtures("compiled")
def test_a_changed_header_lets_a_source_be_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def run(command: list[str]) -> None:
        runs.append(command)
        raise CompileError("not run in this test")

    monkeypatch.setattr(compiling, "run_tool", run)
    unit = unit_of("-I", "inc", "-DN=4", folder / "k.cu")
    assert compile_unit(unit, toolchain()).content is None
    header = folder / "inc" / "half.h"
    before = header.read_text(encoding="utf-8")
    for text, more in (("#define HALF 2.f\n", ()), (before, ("-DM",)), (before, ("-O2",))):
        header.write_text(text, encoding="utf-8")
        with pytest.raises(CompileError, match="not run"):
            compile_unit(unit_of("-I", "inc", "-DN=4", *more, folder / "k.cu"), toolchain())
    assert len(runs) == 3
    assert compile_unit(unit, toolchain()).content is None


def test_other_options_are_told_too(folder: Path) -> None:
    unit = unit_of("-std=c++11", "-use_fast_math", "-include", "a.h", "-DA", "-DB=1", "-UB", "-isystem", "sys", "k.cu")
    found = told(tag_of(unit).encode() + b"\0")
    assert found == {
        "source": str(folder / "k.cu"), "defines": [["A", "1"]], "include_dirs": [str(folder / "sys")],
        "standard": "c++11", "fast_math": True, "forced_includes": ["a.h"],
    }  # fmt: skip
    command = compile_command(unit, toolchain())
    assert "-std=c++14" in command  # LLVM's headers take nothing older
    assert command[command.index("a.h") - 1] == "-include"


def test_headers_of_a_toolkit_are_left_out(folder: Path) -> None:
    foreign = folder / "cuda-13"
    foreign.mkdir()
    (foreign / "cuda_runtime.h").touch()
    unit = unit_of("-I", foreign, "-I", "inc", "k.cu")
    assert str(foreign) not in compile_command(unit, toolchain())
    assert told(tag_of(unit).encode() + b"\0")["include_dirs"] == [str(folder / "inc")]


def test_clang_gets_no_options_of_gcc_alone() -> None:
    command = compile_command(unit_of("-Xcompiler", "-fno-gnu-unique,-mavx,-Wall,-fopenmp", "k.cu"), toolchain())
    assert "-mavx" in command
    assert not {"-fno-gnu-unique", "-Wall", "-fopenmp"} & set(command)


def test_what_has_no_effect_is_remarked() -> None:
    unit = unit_of("-Xcompiler", "-fopenmp", "-rdc=true", "k.cu")
    assert [remark.partition(": ")[2] for remark in remarks_on(unit, toolchain())] == [
        "loops of OpenMP run in one thread",
        "its kernels cannot call device functions of other sources (-rdc)",
    ]


@needs_system
def test_gcc_gets_its_own_options_and_keeps_openmp() -> None:
    unit = unit_of("-Xcompiler", "-fopenmp", "a.cpp")
    assert "-fopenmp" in compile_command(unit, toolchain())
    assert list(remarks_on(unit, toolchain())) == []


def test_errors_name_their_place_and_a_cure(folder: Path) -> None:
    (folder / "bad.cu").write_text("#include <cudnn.h>\n", encoding="utf-8")
    with pytest.raises(CompileError, match=r"cudnn\.h") as caught:
        compile_unit(unit_of("bad.cu"), toolchain())
    assert caught.value.where == "bad.cu:1"
    assert caught.value.cure == "cuDNN is not there for programs that are run here."


def test_messages_are_few_and_steer_no_terminal() -> None:
    said = "".join(f"a.cu:{line}:3: error: \x1b[31mbad\x1b[0m\n  note\n" for line in range(1, 9))
    error = compile_error(said, unit_of("a.cu"))
    assert error.where == "a.cu:1"
    assert "\x1b" not in str(error)
    assert error.what.splitlines()[0] == r"\x1b[31mbad\x1b[0m"
    assert error.what.splitlines()[-1] == "and 3 more errors"
    assert compile_error("clang: killed", unit_of("a.cu")).what == "does not compile\nclang: killed"


def test_what_is_no_source_is_refused_before_a_compiler_waits_for_it(folder: Path) -> None:
    os.mkfifo(folder / "pipe.cu")
    with pytest.raises(CompileError, match="pipe"):
        compile_unit(unit_of("pipe.cu"), toolchain())
    with pytest.raises(CompileError, match="cannot be read"):
        compile_unit(unit_of("absent.cu"), toolchain())


def test_a_name_is_no_option() -> None:
    unit = unit_of("k.cu")
    unit = replace(unit, source=replace(unit.source, path=Path("-o.cu")))
    assert compile_command(unit, toolchain())[-1] == "./-o.cu"


def test_wheels_alone_compile_the_same_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    tools = toolchain()
    assert tools.cxx is None
    found = compile_unit(unit_of("-I", "inc", folder / "k.cu"), tools)
    assert not any(name.startswith(("/usr/include/c++", "/usr/lib/gcc")) for name in found.kept.files)
    assert found.content is not None
    assert told(found.content)["source"] == str(folder / "k.cu")


@needs_system
def test_host_functions_of_cuda_are_there(folder: Path) -> None:
    """Their values, in a program without a runtime."""
    source = folder / "host.cu"
    source.write_text(
        "int main() { return !(max(3, 4u) == 4 && min(1.f, 2.0) == 1 && rsqrtf(4) == 0.5f && norm3d(1, 2, 2) == 3); }",
        encoding="utf-8",
    )
    tools = toolchain()
    found = compile_unit(unit_of(source), tools)
    assert found.content is not None
    (folder / "host.o").write_bytes(found.content)
    assert tools.cxx is not None
    subprocess.run([tools.cxx, folder / "host.o", "-o", folder / "host", "-lm"], check=True)
    assert subprocess.run([folder / "host"], check=False).returncode == 0


def test_options_for_llvm_keep_their_values() -> None:
    words = compile_command(unit_of("-Xcompiler", "-mllvm,-inline-threshold=1000,-pthread", "a.cu"), toolchain())
    assert words[-4:] == ["-mllvm", "-inline-threshold=1000", "-pthread", "a.cu"]
