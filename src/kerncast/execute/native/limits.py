"""What keeps generated code within bounds: a limit of its size, stacks that it fits, and an end in time."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from kerncast.errors import BudgetExceededError

#: A thread of Python looks this often whether the user interrupts or the time is over.
_GLANCE_SECONDS = 0.2
_STACK_BYTES = 16 * 2**20
#: Without optimisation each value has its own place on the stack. Measured: up to nine bytes per character, with SSE2.
_STACK_BYTES_PER_CHARACTER = 32
_STARTING = threading.Lock()
#: pthread_create gives EAGAIN where resources are short for the moment, too.
_STARTS, _PAUSE_SECONDS = 5, 0.1


class TooLargeError(Exception):
    """A kernel that LLVM would take too long for, or too much memory."""


class Stoppable(Protocol):
    """Something that runs on a thread until it is done, or is told to stop."""

    def run(self) -> bool:
        """Run."""

    def stop(self) -> None:
        """Let ``run`` return soon; called from another thread."""


def run_until(workers: Sequence[Stoppable], deadline: float, text_size: int) -> None:
    """Run each worker on a thread of its own, and stop them all at the deadline or when the user interrupts.

    Generated code does not return to Python by itself, so that the main thread has to stay free for that.
    """
    threads: list[threading.Thread] = []
    try:
        threads.extend(_start(worker.run, text_size) for worker in workers)
        for thread in threads:
            while thread.is_alive() and time.monotonic() < deadline:
                thread.join(min(_GLANCE_SECONDS, max(0.0, deadline - time.monotonic())))
    finally:
        if any(thread.is_alive() for thread in threads):
            for worker in workers:
                worker.stop()
        for thread in threads:
            thread.join()


def _start(function: Callable[[], object], text_size: int) -> threading.Thread:
    """Start a thread whose stack has room for the frame of generated code; the size is a setting of the process."""
    thread = threading.Thread(target=function, daemon=True)
    with _STARTING:
        size = _STACK_BYTES + _STACK_BYTES_PER_CHARACTER * text_size
        before = threading.stack_size(-(-size // 2**20) * 2**20)
        try:
            _start_patiently(thread)
        finally:
            threading.stack_size(before)
    return thread


def _start_patiently(thread: threading.Thread) -> None:
    for attempt in range(_STARTS):
        try:
            thread.start()
        except RuntimeError:
            time.sleep(_PAUSE_SECONDS * attempt)
        else:
            return
    raise BudgetExceededError("no thread can be started: too little memory is left")
