"""Resources of each kernel, from the machine code (ELF) and from the assembler's log.

NVIDIA does not document the attributes in ``.nv.info``; those that are used here agree with the log
of the assembler on every architecture tested (``tests/unit/test_compile_cubin.py``).
"""

import io
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

from kerncast.errors import CompileError
from kerncast.profiles import Resources

_FRAME_SIZE = 0x11  # symbol, bytes
_REGISTERS = 0x2F  # symbol, count; the section header holds it only in the old ABI
_MAX_THREADS = 0x05  # x, y, z
_REQUIRED_BLOCK = 0x10  # x, y, z
_CLUSTER = 0x3D  # x, y, z
_BARRIERS = 0x4C  # count; only in the new ABI

_FORMAT_SIZED = 4

#: From sm_90 on, a block holds 1 KiB of shared memory for the system, and the section includes it.
_FIRST_WITH_RESERVED_SHARED = 90
_RESERVED_SHARED_BYTES = 1024

_ENTRY = re.compile(r"(?:Compiling entry function '([^']+)'|Function properties for (\S+))")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_DIGITS = re.compile(r"\d+")
_USED_BARRIERS = re.compile(r"used (\d+) barriers")
#: nvJitLink compiles PTX for linking, where a warp's registers stay those of the launch.
_WITHOUT_SETMAXNREG = "'setmaxnreg' ignored"


@dataclass(frozen=True, slots=True)
class Spills:
    """Facts of one kernel that only the assembler's log has, not the machine code."""

    store_bytes: int
    load_bytes: int
    barriers: int | None
    """barriers of a block; None where the log does not count them (NVRTC 11.8)"""


def read_resources(cubin: bytes, log: str, architecture: str) -> dict[str, Resources]:
    """Return the resources of each kernel by its mangled name."""
    try:
        elf = ELFFile(io.BytesIO(cubin))
        sections = {section.name: section for section in elf.iter_sections()}
        machine = _MachineCode(sections, architecture)
        return {
            name: machine.resources(name, spills)
            for name, spills in read_spills(log).items()
            if f".text.{name}" in sections
        }
    except (ELFError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise CompileError(f"the compiler's machine code for {architecture} cannot be read ({error!r})") from None


def read_spills(log: str) -> dict[str, Spills]:
    """Read the lines that ``--ptxas-options=-v`` adds to the log, by mangled name of the kernel.

    A device function that was not inlined has lines of its own, which are left out. So are spills of code without the
    registers that its warps ask for by ``setmaxnreg``: the code that a GPU runs has them. Fails when: that code spills
    too.
    """
    is_short = _WITHOUT_SETMAXNREG in log
    spills: dict[str, Spills] = {}
    entries: set[str] = set()
    current = ""
    for line in log.splitlines():
        if name := _ENTRY.search(line):
            if name[1]:
                entries.add(name[1])
            current = name[1] or name[2]
        elif current in entries and (frame := _FRAME.search(line)):
            store_bytes, load_bytes = (0, 0) if is_short else (int(frame[2]), int(frame[3]))
            spills[current] = Spills(store_bytes, load_bytes, barriers=None)
        elif current in spills and (count := _USED_BARRIERS.search(line)):
            found = spills[current]
            spills[current] = Spills(found.store_bytes, found.load_bytes, int(count[1]))
    return spills


class _MachineCode:
    """The sections of one ELF file, asked kernel by kernel."""

    def __init__(self, sections: dict[str, Section], architecture: str) -> None:
        self._sections = sections
        self._architecture = architecture
        self._of_symbols = self._symbol_attributes()

    def resources(self, name: str, spills: Spills) -> Resources:
        of_symbol = self._of_symbols[name]
        own = dict(_attributes(self._data(f".nv.info.{name}")))
        threads = _extent(own, _MAX_THREADS)
        return Resources(
            architecture=self._architecture,
            registers_per_thread=of_symbol[_REGISTERS],
            static_shared_bytes=self._static_shared(name),
            local_bytes_per_thread=of_symbol.get(_FRAME_SIZE, 0),
            spill_store_bytes=spills.store_bytes,
            spill_load_bytes=spills.load_bytes,
            code_bytes=self._sections[f".text.{name}"]["sh_size"],
            barriers=self._barriers(name, own) if spills.barriers is None else spills.barriers,
            max_threads_per_block=math.prod(threads) if threads else None,
            required_block=_extent(own, _REQUIRED_BLOCK),
            cluster_blocks=_extent(own, _CLUSTER),
        )

    def _symbol_attributes(self) -> dict[str, dict[int, int]]:
        """Return what the module's own attributes say of each function, by name and attribute."""
        table = self._sections[".symtab"]
        if not isinstance(table, SymbolTableSection):
            raise ELFError(".symtab is not a table of symbols")
        found: dict[str, dict[int, int]] = {}
        for code, value in _attributes(self._data(".nv.info")):
            if code in {_REGISTERS, _FRAME_SIZE}:
                symbol, number = struct.unpack("<2I", value)
                found.setdefault(table.get_symbol(symbol).name, {})[code] = number
        return found

    def _static_shared(self, name: str) -> int:
        section = self._sections.get(f".nv.shared.{name}")
        size = int(section["sh_size"]) if section is not None else 0
        if int(_DIGITS.findall(self._architecture)[0]) >= _FIRST_WITH_RESERVED_SHARED:
            return max(size - _RESERVED_SHARED_BYTES, 0)
        return size

    def _barriers(self, name: str, own: dict[int, bytes]) -> int:
        """Return the count of barriers: an attribute in the new ABI, flags of the code in the old one."""
        if _BARRIERS in own:
            return own[_BARRIERS][0]
        return int(self._sections[f".text.{name}"]["sh_flags"]) >> 20 & 0x7F

    def _data(self, name: str) -> bytes:
        section = self._sections.get(name)
        return bytes(section.data()) if section is not None else b""


def _extent(attributes: dict[int, bytes], code: int) -> tuple[int, int, int] | None:
    if code not in attributes:
        return None
    x, y, z = struct.unpack("<3I", attributes[code])
    return x, y, z


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of each attribute: format and code in a byte each, then value or length."""
    place = 0
    while place + 4 <= len(data):
        form, code = data[place], data[place + 1]
        value = data[place + 2 : place + 4]
        place += 4
        if form == _FORMAT_SIZED:
            length = int.from_bytes(value, "little")
            value = data[place : place + length]
            place += length
        yield code, value
