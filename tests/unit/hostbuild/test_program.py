"""Whole programs: compiled, linked, run natively, and remembered."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncast.errors import CompileError, InputError
from kerncast.hostbuild import compiling, program
from kerncast.hostbuild.host_compilers import c_compilers, run_tool
from kerncast.hostbuild.program import NamedSource, build_program, library_of_runtime, link_error, sources_in
from tests.helpers.host_builds import make_runtime, needs_system, needs_wheels, request_of

pytestmark = [needs_wheels, needs_system]

SOURCES = {
    "k.cu": '__global__ void k(int n) {}\nextern "C" void launch() { k<<<1, 1>>>(3); }\n',
    "part.cpp": "#include <cuda_runtime.h>\n#include <vector>\nint part() { return std::vector<int>(2).size(); }\n",
    "main.c": "void launch(void); int cudaDeviceSynchronize(void);\n"
    "int main(void) { launch(); launch(); return cudaDeviceSynchronize(); }\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("program")
    for name, text in SOURCES.items():
        (place / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("KERNCAST_CACHE", str(place / "cache"))
        make_runtime(place / "runtime")
        yield place


def run(path: Path, folder: Path) -> int:
    environment = {"LD_LIBRARY_PATH": str(folder / "runtime")}
    return subprocess.run([path.absolute()], env=environment, check=False).returncode


def test_a_program_is_built_once_and_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int, int]] = []
    request = request_of(folder / "runtime", "k.cu", "part.cpp", "main.c", "-lm", "-o", "app")
    built = build_program(request, lambda *each: told.append(each))
    assert built.compiled == 3
    assert run(built.path, folder) == 2
    assert ("compiling k.cu", 0, 3) in told
    assert told[-1] == ("linking", 0, 0)

    def refuse(*_: object) -> None:
        raise AssertionError("nothing is compiled or linked again")

    for module in (compiling, program):
        monkeypatch.setattr(module, "run_tool", refuse)
    built.path.unlink()
    begun = time.perf_counter()
    again = build_program(request)
    assert time.perf_counter() - begun < 1.0  # 0.02 s where the machine has nothing else to do
    assert again.compiled == 0
    assert run(again.path, folder) == 2


def test_a_program_names_the_runtime_by_its_name_alone(folder: Path) -> None:
    build_program(request_of(folder / "runtime", "k.cu", "main.c", "-o", "app"))
    found = (folder / "app").read_bytes()
    assert b"libcudart.so.12\0" in found
    assert str(folder / "runtime").encode() not in found


def test_a_program_names_its_sources(folder: Path) -> None:
    build_program(request_of(folder / "runtime", "-I", "inc", "k.cu", "part.cpp", "main.c", "-o", "app"))
    assert sources_in(folder / "app") == (NamedSource(folder / "k.cu", (folder / "inc",)),)
    broken = b"KERNCAST SOURCE {]}\0KERNCAST SOURCE {}\0"
    (folder / "broken").write_bytes(broken)
    assert sources_in(folder / "broken") == ()


def test_objects_are_linked_as_they_are_now(folder: Path) -> None:
    for status in (3, 4):
        (folder / "given.c").write_text(f"int main(void) {{ return {status}; }}", encoding="utf-8")
        assert run_tool([*c_compilers()[0].command, "-c", "given.c", "-o", "given.o"]).status == 0
        build_program(request_of(folder / "runtime", "given.o", "-o", "given"))
        assert run(folder / "given", folder) == status


def test_a_library_can_be_made(folder: Path) -> None:
    request = request_of(folder / "runtime", "-shared", "-Xcompiler", "-fPIC", "part.cpp", "-o", "libpart.so")
    assert build_program(request).path.read_bytes()[:4] == b"\x7fELF"


def test_libraries_of_the_runtime_come_first_and_closed_ones_are_left_out(folder: Path) -> None:
    request = request_of(folder / "runtime", "main.c", "k.cu", "-lcudart_static", "-lcusparse", "-o", "app")
    assert build_program(request).remarks == (
        "there is no library cusparse for programs that are run here: it is left out",
    )
    assert library_of_runtime("cudart", folder / "runtime") == folder / "runtime" / "libcudart.so"
    assert library_of_runtime("cublas", folder / "runtime") is None


def test_what_nothing_defines_is_named(folder: Path) -> None:
    (folder / "open.c").write_text(
        "void cublasCreate_v2(void); int main(void) { cublasCreate_v2(); }", encoding="utf-8"
    )
    with pytest.raises(CompileError, match="nothing defines cublasCreate_v2") as caught:
        build_program(request_of(folder / "runtime", "open.c", "-lcublas", "-o", "open"))
    assert "there is no library cublas" in str(caught.value)
    assert not (folder / "open").exists()


def test_messages_of_linkers() -> None:
    lld = link_error("error: ld.lld: undefined symbol: launch(int)\n>>> referenced by a.o\n")
    assert "nothing defines launch(int)" in lld.what
    missing = link_error("/usr/bin/ld: cannot find -lfoo: No such file or directory")
    assert missing.what == "the program does not link: there is no library foo"
    assert link_error("ld: \x1b[1mfailed").what == "the program does not link\nld: \\x1b[1mfailed"


def test_an_output_that_cannot_be_written_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        build_program(request_of(folder / "runtime", "k.cu", "main.c", "-o", "absent/app"))
