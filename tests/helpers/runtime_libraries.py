"""Builds the runtime of the virtual GPU with the system's compiler, and small C programs on top of it."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers.places import PACKAGE

SOURCES = PACKAGE / "device" / "runtime"
HEADERS = PACKAGE / "hostbuild" / "include"
#: File of the library, its linker script, and how the names of its sources begin.
LIBRARIES = {
    "libkerncast_device.so": ("device.map", ""),
    "libcudart.so.12": ("cudart-12.map", "cudart"),
    "libcuda.so.1": ("driver.map", "driver"),
    "libcublas.so.12": ("cublas.map", "cublas"),
    "libcufft.so.11": ("cufft.map", "cufft"),
    "libcurand.so.10": ("curand.map", "curand"),
}
OTHER_MAJORS = {"libcudart.so.11.0": 11, "libcudart.so.13": 13}

PRELUDE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cuda_runtime_api.h>

void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *, dim3 *, dim3 *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
void __cudaUnregisterFatBinary(void **);

/* What nvcc makes of a program: the code of its module, and functions of the host that stand for kernels. */
static struct { int magic, version; const void *code; void *rest; } wrapped = {0x466243B1, 1, ".version 8.0\n", 0};
static int shadow;
#define KERNEL(name) static void name(void) { __asm__ volatile("# " #name); }
KERNEL(add)
KERNEL(scale)
KERNEL(slow)
KERNEL(absent)
static void registered(void) {
  void **module = __cudaRegisterFatBinary(&wrapped);
  __cudaRegisterFunction(module, (char *)add, 0, "add", -1, 0, 0, 0, 0, 0);
  __cudaRegisterFunction(module, (char *)scale, 0, "scale", -1, 0, 0, 0, 0, 0);
  __cudaRegisterFunction(module, (char *)slow, 0, "slow", -1, 0, 0, 0, 0, 0);
  __cudaRegisterFunction(module, (char *)absent, 0, "absent", -1, 0, 0, 0, 0, 0);
  __cudaRegisterVar(module, (char *)&shadow, 0, "variable", 0, 4, 0, 1);
}
#define ONE (dim3){1, 1, 1}
#define SAY(what) printf("%s %lld\n", #what, (long long)(what))
static inline void must(const char *what, int error) {
  if (!error) return;
  printf("%s: error %d\n", what, error);
  exit(9);
}
#define MUST(what) must(#what, (int)(what))
static inline double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
"""


def includes() -> list[str]:
    """Return the options by which CUDA's headers are found, those of the installed wheels."""
    found = find_spec("nvidia")
    assert found is not None
    roots = [Path(each) for each in found.submodule_search_locations or ()]
    folders = ("cuda_runtime/include", "cuda_cccl/include", "cu13/include")
    found_folders = [root / folder for root in roots for folder in folders if (root / folder).is_dir()]
    return [f"-isystem{each}" for each in (*found_folders, HEADERS)]


def compiler() -> str:
    """Return the system's compiler; skips the test where there is none, or none of ours runs."""
    found = shutil.which("gcc") or shutil.which("cc")
    if found is None:
        pytest.skip("the runtime is written in C, and this machine has no C compiler")
    if sys.platform != "linux":
        pytest.skip("programs run on the virtual GPU on Linux only")
    return found


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr


def link(output: Path, script: str, sources: list[Path], *options: str) -> None:
    """Build one library; a warning is an error."""
    own = [f"-Wl,-soname,{output.name}", f"-Wl,--version-script={SOURCES / script}", "-Wl,-Bsymbolic"]
    beside = [] if output.name == "libkerncast_device.so" else [f"-L{output.parent}", "-lkerncast_device"]
    flags = ["-std=c11", "-O0", "-fPIC", "-shared", "-Wall", "-Wextra"]
    _run(compiler(), *flags, *includes(), *options, *sources, "-o", output, *own, *beside, "-ldl", "-lpthread")


def sources_of(prefix: str) -> list[Path]:
    """Return the files of a library, by how their names begin; the core has all that belong to no other."""
    others = tuple(name for _, name in LIBRARIES.values() if name)
    files = sorted(SOURCES.glob("*.c"))
    return [each for each in files if (each.name.startswith(prefix) if prefix else not each.name.startswith(others))]


@cache
def libraries() -> Path:
    """Return the folder of the libraries, built once for all processes that test."""
    digest = hashlib.sha256()
    for path in (*sorted(SOURCES.iterdir()), *sorted(HEADERS.glob("*.h")), Path(__file__)):
        digest.update(path.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"kerncast-runtime-{os.getuid()}-{digest.hexdigest()[:16]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            for name, (script, prefix) in LIBRARIES.items():
                link(folder / name, script, sources_of(prefix), "-DKC_CUDA_MAJOR=12")
            (folder / "built").touch()
    return folder


def program(folder: Path, body: str, runtime: Path | None = None, also: tuple[str, ...] = ()) -> Path:
    """Compile a C program behind the prelude, linked to a runtime, the driver and more; returns its path."""
    source, output = folder / "program.c", folder / "program"
    source.write_text(PRELUDE + body, encoding="utf-8")
    found = libraries()
    names: list[str | Path] = [
        runtime or found / "libcudart.so.12",
        found / "libcuda.so.1",
        *(found / each for each in also),
        f"-Wl,-rpath-link,{found}",
    ]
    _run(compiler(), "-std=c11", "-O1", "-w", *includes(), source, "-o", output, *names, "-lpthread")
    return output
