"""The libraries of the runtime: compiled once, whole or not at all, and made of the files that their names say."""

import ctypes
from pathlib import Path

import pytest

from kerncast.errors import CompileError
from kerncast.hostbuild import runtime
from kerncast.hostbuild.host_compilers import c_compilers
from kerncast.hostbuild.runtime import RuntimeLibraries, runtime_libraries
from tests.helpers.host_builds import needs_system

pytestmark = needs_system

SOURCES = {
    "core.c": "int kc_answer(void) { return 42; }\nint kc_hidden(void) { return 1; }\n",
    "device.map": "{ global: kc_answer; local: *; };\n",
    "cudart.c": "int kc_answer(void);\nint cudaAnswer(void) { return kc_answer() + KC_CUDA_MAJOR; }\n",
    "cudart_more.c": "int cudaMore(void) { return 7; }\nint internal(void) { return 8; }\n",
    "cudart-12.map": "libcudart.so.12 { global: cuda*; local: *; };\n",
    "driver.c": "int cuAnswer(void) { return 9; }\n",
    "notes.txt": "no source\n",
}


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    for name, text in SOURCES.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(runtime, "_SOURCES", folder)
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def made(sources: Path) -> RuntimeLibraries:
    assert sources.is_dir()
    return runtime_libraries()


def test_libraries_are_made_of_the_files_that_their_names_say(made: RuntimeLibraries) -> None:
    names = ["libkerncast_device.so", "libcudart.so.12", "libcudart.so.13", "libcudart.so.11.0", "libcuda.so.1"]
    assert [path.name for path in made.files] == names
    library = ctypes.CDLL(str(made.folder / "libcudart.so.12"))
    assert library.cudaAnswer() == 54
    assert library.cudaMore() == 7
    assert not hasattr(library, "internal")
    assert ctypes.CDLL(str(made.folder / "libcudart.so.13")).cudaAnswer() == 55
    assert (made.folder / "libcudart.so").resolve().name == "libcudart.so.12"


def test_they_are_compiled_once(made: RuntimeLibraries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "run_tool", None)
    assert runtime_libraries() == made


def test_a_changed_source_makes_others(made: RuntimeLibraries, sources: Path) -> None:
    (sources / "driver.c").write_text("int cuAnswer(void) { return 10; }\n", encoding="utf-8")
    assert runtime_libraries().folder != made.folder


@pytest.mark.parametrize("name", ["libcudart.so.12", "libcudart.so", "contents.json"])
def test_what_is_damaged_is_made_anew(made: RuntimeLibraries, name: str) -> None:
    path = made.folder / name
    path.unlink()
    if name == "libcudart.so.12":
        path.write_bytes(b"\x7fELF")
    assert runtime_libraries() == made
    assert (made.folder / "libcudart.so").stat().st_size > 1000
    assert [each.name for each in made.folder.parent.iterdir()] == [made.folder.name]


def test_the_next_compiler_is_tried(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    working = c_compilers()[0]
    monkeypatch.setattr(runtime, "c_compilers", lambda: [type(working)(("false",), "broken"), working])
    assert runtime_libraries().folder.is_dir()
    (sources / "core.c").write_text("#error no\n", encoding="utf-8")
    with pytest.raises(CompileError, match=r"(?s)does not compile.*#error no"):
        runtime_libraries()


def test_they_may_lie_elsewhere(sources: Path, tmp_path: Path) -> None:
    assert sources.is_dir()
    assert runtime_libraries(tmp_path / "own").folder.parent == tmp_path / "own"
