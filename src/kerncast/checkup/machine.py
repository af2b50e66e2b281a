"""What this machine offers: cores, memory, a place for the cache, a compiled simulator."""

import os
from contextlib import suppress
from pathlib import Path

from kerncast.compile import ToolStatus
from kerncast.compile.cache import cache_report
from kerncast.errors import KerncastError
from kerncast.units import GIGA, format_bytes

#: What a forecast of a small kernel was seen to need, compiler and simulator together.
_LEAST_MEMORY_BYTES = 1.0 * GIGA
#: Limits of a container, cgroup versions 2 and 1 (Linux documentation, admin-guide/cgroup-v2 and cgroup-v1/memory).
_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_status() -> ToolStatus:
    """Say how many cores there are, and how much memory."""
    memory = memory_bytes()
    cores = core_count()
    said = f"{cores} core{'s' if cores > 1 else ''}"
    if memory is not None:
        said += f", {format_bytes(memory)} of memory"
    if memory is None or memory >= _LEAST_MEMORY_BYTES:
        return ToolStatus("machine", said, True, "everything", None, is_optional=True)
    trouble = f"{said}: large kernels may not compile"
    cure = f"Give the container or the virtual machine {format_bytes(_LEAST_MEMORY_BYTES)} or more."
    return ToolStatus("machine", said, False, "everything", cure, is_optional=True, trouble=trouble)


def core_count() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Return the memory of the machine or its container; None where the system does not say."""
    found = []
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in _LIMIT_FILES:
        with suppress(ValueError, OSError):
            found.append(int(Path(name).read_text(encoding="ascii")))
    return min((each for each in found if each > 0), default=None)


def cache_status() -> ToolStatus:
    """Say where compiled kernels are remembered."""
    name, needed_for = "cache of compiled kernels", "compiling a source once only"
    try:
        report = cache_report()
    except KerncastError as error:
        return ToolStatus(name, None, False, needed_for, error.cure, is_optional=True, trouble=error.what)
    if report.is_used:
        held = f"{format_bytes(report.usage.bytes)} of {format_bytes(report.most_bytes)}"
        return ToolStatus(name, f"{report.folder}, {held}", True, needed_for, None, is_optional=True)
    if report.folder is None:
        return ToolStatus(name, report.why_not, True, needed_for, None, is_optional=True)
    cure = "Name a folder that you can write to: export KERNCAST_CACHE=FOLDER"
    trouble = f"{report.folder}: {report.why_not}"
    return ToolStatus(name, None, False, needed_for, cure, is_optional=True, trouble=trouble)
