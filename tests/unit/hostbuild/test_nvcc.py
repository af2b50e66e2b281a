"""The stand-in for nvcc, as Makefiles and CMake call it."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kerncast.hostbuild.nvcc import main
from kerncast.hostbuild.toolkit import ARCHITECTURE_VARIABLE, TOOLKIT_VARIABLE, toolkit_environment, toolkit_folder
from tests.helpers.host_builds import make_runtime, needs_system, needs_wheels

pytestmark = [needs_wheels, needs_system]

SOURCES = {
    "k.cu": '#include "a b.h"\n__global__ void k(float *x) { x[0] = ONE; }\nint main() { k<<<1, 1>>>(0); }\n',
    "a b.h": "#define ONE 1\n",
    "other.cpp": "int other() { return 0; }\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("nvcc")
    for name, text in SOURCES.items():
        (place / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("KERNCAST_CACHE", str(place / "cache"))
        patch.setenv(TOOLKIT_VARIABLE, str(toolkit_folder(make_runtime(place / "runtime"))))
        yield place


Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def nvcc(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in the folder; returns status, output and what was said."""
    assert folder.is_dir()

    def run(text: str) -> tuple[int, str, str]:
        status = main(text.split())
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_its_version_is_that_of_the_headers(nvcc: Run, option: str) -> None:
    status, out, _ = nvcc(option)
    assert status == 0
    assert out.startswith("nvcc: NVIDIA (R) Cuda compiler driver")  # what CMake looks for
    assert "release 12.9, V12.9.86" in out


def test_host_code_is_made_for_the_gpu_of_the_run(nvcc: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NVRTC's __CUDA_ARCH_LIST__ for its kernels: CUB has it in their names."""
    (folder / "list.cu").write_text("int made_for[] = {__CUDA_ARCH_LIST__};\n", encoding="utf-8")
    monkeypatch.setenv(ARCHITECTURE_VARIABLE, "89")
    assert "int made_for[] = {890};" in nvcc("-arch=sm_60 -E list.cu")[1]


def test_cmake_finds_the_toolkit_by_an_input_that_is_none(nvcc: Run) -> None:
    status, _, said = nvcc("-v __cmake_determine_cuda")
    assert status == 1
    assert f"#$ TOP={os.environ[TOOLKIT_VARIABLE]}\n" in said
    assert "Don't know what to do with '__cmake_determine_cuda'" in said


def test_a_dry_run_makes_nothing_and_names_the_linker(nvcc: Run, folder: Path) -> None:
    status, _, said = nvcc("-dryrun -arch=sm_75 k.cu -o dry")
    assert status == 0
    assert not (folder / "dry").exists()
    assert "-arch compute_75" in said
    libraries = said.partition("#$ LIBRARIES=")[2].partition("\n")[0]
    last = said.strip().splitlines()[-1]
    assert libraries in last
    assert last.startswith(f"#$ {shutil.which('c++')} ")


def test_objects_and_a_program(nvcc: Run, folder: Path) -> None:
    assert nvcc("-O2 -c k.cu -MD -MP -MT target")[0] == 0
    rule = (folder / "k.d").read_text(encoding="utf-8")
    assert rule.startswith(f"target: \\\n {folder}/k.cu")
    assert "a\\ b.h" in rule
    assert "cuda_runtime.h:" in rule
    assert nvcc("k.o other.cpp -o program -lcudart")[0] == 0
    environment = {"LD_LIBRARY_PATH": str(folder / "runtime")}
    assert subprocess.run([folder / "program"], env=environment, check=False).returncode == 0


def test_dependencies_alone(nvcc: Run, folder: Path) -> None:
    status, out, _ = nvcc("-O2 -MM k.cu")
    assert status == 0
    assert out == f"k.o: \\\n {folder}/k.cu \\\n {folder}/a\\ b.h\n"


def test_archives_and_what_stands_for_linked_device_code(nvcc: Run, folder: Path) -> None:
    assert nvcc("-lib other.cpp -o libother.a")[0] == 0
    assert (folder / "libother.a").read_bytes().startswith(b"!<arch>")
    assert nvcc("-dlink k.o -o link.o")[0] == 0
    assert (folder / "link.o").read_bytes()[:4] == b"\x7fELF"


def test_preprocessed_text(nvcc: Run, folder: Path) -> None:
    status, out, _ = nvcc("-E -DTWO=2 other.cpp")
    assert status == 0
    assert "int other()" in out
    assert nvcc("-cuda other.cpp")[0] == 0
    assert (folder / "other.cpp.cpp.ii").exists()


def test_kernels_that_a_program_loads_itself(nvcc: Run, folder: Path) -> None:
    assert nvcc("-ptx -arch=sm_70 k.cu")[0] == 0
    text = (folder / "k.ptx").read_text(encoding="utf-8")
    assert ".target sm_70" in text
    assert ".entry _Z1kPf" in text


def test_flags_of_the_environment(nvcc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "--nonsense")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "--more")
    status, _, said = nvcc("k.cu")
    assert status == 1
    assert "--nonsense, --more" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "No input files"),
        ("-o x", "No input files"),
        ("-c k.cu other.cpp -o x", "one output"),
        ("-deviceemu k.cu", "-deviceemu"),
        ("absent.cu", "absent.cu"),
    ],
)
def test_refusals(nvcc: Run, text: str, words: str) -> None:
    status, _, said = nvcc(text)
    assert status == 1
    assert said.startswith("nvcc fatal   : ")
    assert words in said


def test_old_architectures_are_taken_with_a_word(nvcc: Run) -> None:
    status, _, said = nvcc("-O2 -gencode arch=compute_35,code=sm_35 -c k.cu")
    assert status == 0
    assert said.startswith("nvcc warning : CUDA 12 does not compile for sm_35")


PROJECT = """\
cmake_minimum_required(VERSION 3.18)
project(demo LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_executable(app k.cu other.cpp)
target_link_libraries(app CUDA::cudart)
message(STATUS "found ${CMAKE_CUDA_COMPILER_ID} ${CUDAToolkit_VERSION}")
"""


@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("make") is None, reason="needs CMake and make")
def test_a_project_of_cmake(folder: Path) -> None:
    (folder / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
    environment = {**os.environ, **toolkit_environment(folder / "runtime")}
    for words in (["cmake", "-S", ".", "-B", "build"], ["make", "-C", "build"]):
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        if words[0] == "cmake":
            assert "found NVIDIA 12.9.86" in done.stdout
    assert b"libcudart.so.12" in (folder / "build" / "app").read_bytes()
