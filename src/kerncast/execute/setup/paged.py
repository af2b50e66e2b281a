"""Memory that costs what is touched of it: the system gives a page when it is first written.

Values that repeat lie in a file without a name, which is mapped again and again over a buffer: its pages are shared
until one is written. See docs/decisions/0017-buffers-cost-what-is-touched.md.
"""

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from kerncast.units import KIB, MIB

Bytes = npt.NDArray[np.uint8]

#: Memory from this size on is given page by page. Below it NumPy asks for huge pages, which are faster to fill.
PAGED_BYTES = 64 * MIB
#: What repeats: more than neighbouring blocks read of one buffer within the default budget, so that no one of them
#: meets the values of another.
PERIOD_BYTES = 128 * MIB
#: Mappings begin at pages, of which the largest in use have 64 KiB.
ALIGNMENT_BYTES = 64 * KIB
CAN_REPEAT = sys.platform == "linux"
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python names from 3.13 on
_FIXED = 0x10  # MAP_FIXED
_FAILED = ctypes.c_void_p(-1).value


def zeroed(nbytes: int) -> Bytes:
    """Return zeroed memory, of which only what is touched costs anything; raises MemoryError."""
    if nbytes < PAGED_BYTES or sys.platform == "win32":
        return np.zeros(nbytes, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (_NO_RESERVE if CAN_REPEAT else 0)
    try:
        region = mmap.mmap(-1, nbytes, flags=flags)
    except (OSError, OverflowError):
        raise MemoryError from None
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        # A block that touches one sector is to cost a page of 4 KiB, not one of 2 MiB.
        with suppress(OSError):  # a system without huge pages
            region.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(region, np.uint8)


def is_free(nbytes: int) -> bool:
    """Whether the system has so much memory at all; what it has not it would only miss when pages are touched."""
    try:
        np.empty(nbytes, np.uint8)
    except MemoryError:
        return False
    return True


def kept_bytes(nbytes: int) -> int:
    """Return the memory that ``repeat`` takes before anything is touched."""
    return min(nbytes, PERIOD_BYTES) if CAN_REPEAT else nbytes


def repeat(data: Bytes, fill: Callable[[Bytes], None]) -> None:
    """Fill memory with repetitions of the first PERIOD_BYTES, which ``fill`` writes.

    ``data`` begins at a multiple of ALIGNMENT_BYTES in what ``zeroed`` gave, and the rest of its last page is nobody's.
    Raises MemoryError where the system refuses.
    """
    if not CAN_REPEAT:
        fill(data[:PERIOD_BYTES])
        for start in range(PERIOD_BYTES, len(data), PERIOD_BYTES):
            part = data[start : start + PERIOD_BYTES]
            part[:] = data[: len(part)]
        return
    try:
        file = os.memfd_create("kerncast")
    except OSError:
        raise MemoryError from None
    try:
        os.ftruncate(file, PERIOD_BYTES)
        fill(np.frombuffer(mmap.mmap(file, PERIOD_BYTES), np.uint8))
        for start in range(0, len(data), PERIOD_BYTES):
            _map_over(data[start : start + PERIOD_BYTES], file)
    except OSError:
        raise MemoryError from None
    finally:
        os.close(file)


def _map_over(data: Bytes, file: int) -> None:
    """Map the beginning of a file over memory; what is written there later stays private. Raises OSError."""
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    flags = mmap.MAP_PRIVATE | _FIXED | _NO_RESERVE
    access = mmap.PROT_READ | mmap.PROT_WRITE
    if function(data.ctypes.data, len(data), access, flags, file, 0) == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
