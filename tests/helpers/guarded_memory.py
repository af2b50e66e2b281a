"""Memory between pages that may not be touched: an access beyond an end kills the process instead of being served."""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from kerncast.execute.native.engine import Worker
from kerncast.execute.setup import arena
from kerncast.execute.setup.paged import PAGED_BYTES, zeroed

PAGE = mmap.PAGESIZE
#: Of memory of blocks, the beginning is that of a cache line.
_LINE_BYTES = 64


def guarded(nbytes: int, *, at_end: bool = True) -> npt.NDArray[np.uint8]:
    """Return zeroed memory whose end, or whose beginning, is that of a page beside one that may not be touched."""
    pages = -(-max(nbytes, 1) // PAGE)
    region = mmap.mmap(-1, (pages + 2) * PAGE)
    whole = np.frombuffer(region, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for place in (0, (pages + 1) * PAGE):
        if protect(whole.ctypes.data + place, PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = (pages + 1) * PAGE - nbytes if at_end else PAGE
    return whole[start : start + nbytes]


@contextmanager
def guarded_launches(*, at_end: bool) -> Iterator[None]:
    """Let the buffers of launches below 64 MiB, their marks, and shared and local memory lie so."""

    def allocate(room: arena.Room, nbytes: int, what: str) -> npt.NDArray[np.uint8]:
        room.take(nbytes, what)
        return guarded(nbytes, at_end=at_end)

    def memory(worker: Worker, nbytes: int) -> npt.NDArray[np.uint8]:
        whole = guarded(-(-nbytes // _LINE_BYTES) * _LINE_BYTES, at_end=at_end)
        worker._keep.append(whole)
        return whole[:nbytes]

    def zeroed_or_guarded(nbytes: int) -> npt.NDArray[np.uint8]:
        return guarded(nbytes, at_end=at_end) if nbytes < PAGED_BYTES else zeroed(nbytes)

    with ExitStack() as stack:
        stack.enter_context(patch.object(arena, "zeroed", zeroed_or_guarded))
        stack.enter_context(patch.object(arena.Room, "allocate", allocate))
        stack.enter_context(patch.object(Worker, "_memory", memory))
        yield
