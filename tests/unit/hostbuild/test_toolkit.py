"""A folder that looks like a toolkit, and the variables that lead builds to it."""

import os
import subprocess
from pathlib import Path

import pytest

from kerncast.hostbuild.toolkit import toolkit_environment, toolkit_folder
from tests.helpers.host_builds import needs_system, needs_wheels

pytestmark = needs_wheels


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a runtime that nobody links."""
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "the cache"))
    folder = tmp_path / "runtime"
    folder.mkdir()
    for name in ("libcudart.so.12", "libcudart.so", "libcuda.so.1", "libcublas.so.12"):
        (folder / name).touch()
    return folder


def test_it_has_what_builds_look_for(runtime: Path) -> None:
    folder = toolkit_folder(runtime)
    for name in (
        "bin/nvcc", "include/cuda_runtime.h", "include/cuda.h", "include/crt/host_defines.h", "include/thrust/sort.h",
        "include/cub/cub.cuh", "include/cublas_v2.h", "include/nvtx3/nvToolsExt.h", "lib64/libcudart.so",
        "lib64/libcudart_static.a", "lib64/libcublas.so.12", "lib64/stubs/libcuda.so", "lib/libcudart.so",
        "nvvm/libdevice",
    ):  # fmt: skip
        assert (folder / name).exists(), name


def test_it_is_made_once_and_again_where_it_was_damaged(runtime: Path) -> None:
    folder = toolkit_folder(runtime)
    before = (folder / "bin" / "nvcc").stat().st_mtime_ns
    assert toolkit_folder(runtime) == folder
    assert (folder / "bin" / "nvcc").stat().st_mtime_ns == before
    (folder / "bin" / "nvcc").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert toolkit_folder(runtime) == folder
    assert "kerncast.hostbuild.nvcc" in (folder / "bin" / "nvcc").read_text(encoding="utf-8")


def test_its_nvcc_can_be_run_from_anywhere(runtime: Path, tmp_path: Path) -> None:
    nvcc = toolkit_folder(runtime) / "bin" / "nvcc"
    done = subprocess.run([nvcc, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "release 12.9, V12.9.86" in done.stdout


@needs_system
def test_variables_lead_to_it(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIBRARY_PATH", "/more")
    monkeypatch.setenv("MAKEFLAGS", "k")
    folder = str(toolkit_folder(runtime))
    found = toolkit_environment(runtime)
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"):
        assert found[name] == folder
    assert found["CUDACXX"] == found["NVCC"] == f"{folder}/bin/nvcc"
    assert found["PATH"].split(os.pathsep)[0] == f"{folder}/bin"
    assert found["LIBRARY_PATH"] == f"{folder}/lib64:/more"
    assert found["CPLUS_INCLUDE_PATH"].split(os.pathsep)[0] == f"{folder}/include"
    assert found["MAKEFLAGS"].startswith("k CUDA_HOME=")
    assert "CXX" not in found


@needs_system
def test_its_runtime_comes_before_that_of_a_toolkit_whose_path_a_makefile_names(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    environment = {**os.environ, **toolkit_environment(runtime)}
    words = ["gcc", f"-L{tmp_path}", "a.c", "-lcudart", "-o", "a", "-Wl,--trace"]
    (tmp_path / "libcudart.so").write_text("of another toolkit", encoding="utf-8")
    (runtime / "libcudart.so").write_text("/* nothing */", encoding="utf-8")
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lib64/libcudart.so" in done.stdout


def test_make_takes_it_for_the_one_that_a_makefile_names(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(
        "CUDA_DIR = /usr/local/cuda\nall:\n\t@echo $(CUDA_DIR)/bin/nvcc\n", encoding="utf-8"
    )
    environment = {**os.environ, **toolkit_environment(runtime)}
    try:
        done = subprocess.run(["make", "-s"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)  # noqa: S607
    except FileNotFoundError:
        pytest.skip("needs make")
    assert done.stdout == f"{toolkit_folder(runtime)}/bin/nvcc\n"


def test_without_a_compiler_of_the_system_zig_stands_in(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path))
    found = toolkit_environment(runtime)
    assert found["CXX"] == f"{toolkit_folder(runtime)}/bin/c++"
    monkeypatch.setenv("PATH", path)  # of the shell that reads the script
    (tmp_path / "a.c").write_text(
        "#include <cuda_runtime.h>\n#include <assert.h>\nint f(int x) { assert(x); return x; }", encoding="utf-8"
    )
    environment = {**os.environ, **found, "PATH": path}
    words = [found["CC"], "-O2", "-c", "a.c", "-o", "a.o"]
    subprocess.run(words, cwd=tmp_path, env=environment, check=True)
    content = (tmp_path / "a.o").read_bytes()
    assert content[:4] == b"\x7fELF"
    assert b"__assert_fail" in content  # zig itself would define NDEBUG
    subprocess.run([found["AR"], "rcs", "a.a", "a.o"], cwd=tmp_path, check=True)
    assert (tmp_path / "a.a").read_bytes().startswith(b"!<arch>")
