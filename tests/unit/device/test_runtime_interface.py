"""The libraries of the runtime define what CUDA's headers declare, under the versions that programs ask for."""

import re
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection
from elftools.elf.sections import SymbolTableSection

from kerncast.device.wire import Message
from tests.helpers.runtime_libraries import OTHER_MAJORS, SOURCES, compiler, includes, libraries, link, program
from tests.helpers.stub_device import StubDevice, run_on


def exported(library: Path) -> set[str]:
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        return {each.name for each in table.iter_symbols() if each["st_shndx"] != "SHN_UNDEF"}


def declared(header: str, pattern: str, *options: str) -> set[str]:
    command = [compiler(), "-E", "-P", *options, *includes(), "-include", header, "-xc", "/dev/null"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(pattern, text))


def test_the_runtime_defines_all_that_its_header_declares() -> None:
    names = declared("cuda_runtime_api.h", r"\b(cuda[A-Z]\w*)\s*\(")
    per_thread = declared("cuda_runtime_api.h", r"\b(cuda[A-Z]\w*)\s*\(", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM")
    assert len(names) > 300
    assert (names | per_thread) - exported(libraries() / "libcudart.so.12") == set()


def test_the_driver_defines_all_that_its_header_declares() -> None:
    names = declared("cuda.h", r"\b(cu[A-Z]\w*)\s*\(")
    old = declared("cuda.h", r"\b(cu[A-Z]\w*)\s*\(", "-D__CUDA_API_VERSION_INTERNAL")
    per_thread = declared("cuda.h", r"\b(cu[A-Z]\w*)\s*\(", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM")
    assert len(names) > 450
    assert (names | old | per_thread) - exported(libraries() / "libcuda.so.1") == set()


def test_nothing_else_is_exported() -> None:
    assert {each for each in exported(libraries() / "libcuda.so.1") if not re.match("cu[A-Z]", each)} == set()
    core = exported(libraries() / "libkerncast_device.so")
    own = {"clock", "time", "gettimeofday", "timespec_get", "clock_gettime", "clock_nanosleep", "sem_timedwait"}
    assert own < core
    assert {each for each in core if not re.match("kc_|clock|sem_|pthread_", each)} <= own


def test_programs_find_the_versions_that_they_ask_for() -> None:
    with (libraries() / "libcudart.so.12").open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_d")
        assert isinstance(section, GNUVerDefSection)
        names = [next(iter(names)).name for _, names in section.iter_versions()]
    assert names == ["libcudart.so.12", "libcudart.so.12"]


PROPERTIES = r"""
/* As a program of each version sees the bytes that its runtime writes: where a count of blocks lies, and the end. */
int main(int count, char **arguments) {
  unsigned char room[1100];
  memset(room, 0xAA, sizeof room);
  MUST(cudaGetDeviceProperties((void *)room, 0));
  int last = sizeof room;
  while (last > 0 && room[last - 1] == 0xAA) last--;
  int blocks, major;
  memcpy(&blocks, room + atoi(arguments[1]), 4);
  memcpy(&major, room + atoi(arguments[2]), 4);
  printf("%d %d %d\n", last, blocks, major);
  return 0;
}
"""

#: Bytes of cudaDeviceProp, and where maxBlocksPerMultiProcessor and major lie: of CUDA's own headers.
LAYOUTS = {11: (728, 712, 360), 13: (1008, 688, 360)}


@pytest.mark.parametrize("name", OTHER_MAJORS)
def test_other_versions_lay_properties_out_as_their_headers_do(name: str, tmp_path: Path) -> None:
    major = OTHER_MAJORS[name]
    for each in libraries().glob("lib*"):
        (tmp_path / each.name).symlink_to(each)
    sources = [SOURCES / "cudart.c", SOURCES / "cudart_versions.c"]
    link(tmp_path / name, f"cudart-{major}.map", sources, f"-DKC_CUDA_MAJOR={major}")
    source = PROPERTIES.replace("cudaGetDeviceProperties(", "own(").replace(
        "int main", 'int own(void *, int) __asm__("cudaGetDeviceProperties");\nint main', 1
    )
    found = program(tmp_path, source, tmp_path / name)
    size, *places = LAYOUTS[major]
    with StubDevice() as device:
        done = run_on(device, found, tmp_path, *map(str, places))
    assert done.stdout == f"{size} 16 7\n", done.stderr


def test_properties_end_where_they_end(tmp_path: Path) -> None:
    with StubDevice() as device:
        done = run_on(device, program(tmp_path, PROPERTIES), libraries(), "712", "360")
    assert done.stdout == "1032 16 7\n", done.stderr


MISSING = r"""
#undef cudaFreeMipmappedArray
int cudaFreeMipmappedArray();
int cuTexObjectCreate();
int cuGetExportTable();
int main(void) {
  void *table = &table;
  SAY(cudaFreeMipmappedArray(0));
  SAY(cudaGetLastError());
  SAY(cuTexObjectCreate(0, 0, 0, 0));
  SAY(cuTexObjectCreate(0, 0, 0, 0));
  SAY(cuGetExportTable(&table, "0123456789abcdef"));
  SAY(table);
}
"""


def test_what_is_not_there_is_told_once(tmp_path: Path) -> None:
    body = MISSING.replace("int cudaFreeMipmappedArray();", "")
    with StubDevice() as device:
        done = run_on(device, program(tmp_path, body), libraries())
    numbers = [line.rsplit(" ", 1)[1] for line in done.stdout.splitlines()]
    assert numbers == ["801", "801", "801", "801", "500", "0"]
    assert device.said(Message.MISSING) == [b"cudaFreeMipmappedArray", b"cuTexObjectCreate"]
