"""Threads for generated code: one that cannot be started at once is tried again, and then refused."""

import threading
import time
from collections.abc import Callable

import pytest

from kerncast.errors import BudgetExceededError
from kerncast.execute.native.jit import run_until


class Work:
    """Says that it ran."""

    def __init__(self) -> None:
        self.is_done = False

    def run(self) -> bool:
        self.is_done = True
        return True

    def stop(self) -> None:
        """Nothing to stop."""


def failing(times: int) -> Callable[[threading.Thread], None]:
    """Return a start that fails so many times, as where the system has no thread left for the moment."""
    start, left = threading.Thread.start, [times]

    def started(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    return started


def test_a_thread_that_cannot_be_started_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    work, before = Work(), threading.stack_size()
    monkeypatch.setattr(threading.Thread, "start", failing(3))
    run_until([work], time.monotonic() + 9, 100)
    assert work.is_done
    monkeypatch.setattr(threading.Thread, "start", failing(10**6))
    with pytest.raises(BudgetExceededError, match="no thread can be started"):
        run_until([Work()], time.monotonic() + 9, 100)
    assert threading.stack_size() == before
