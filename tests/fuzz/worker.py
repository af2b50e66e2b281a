"""The process in which inputs are read: it counts in shared memory, so that a crash of the interpreter costs no count.

Run as ``python -m tests.fuzz.worker TARGET SEED FIRST SECONDS COUNT FOLDER`` by the campaign beside this file.
"""

import json
import mmap
import resource
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.target import Target, Verdict, strictly, tried

#: What a reader may take; the readers' own limits are far below.
_MEMORY_BYTES = 4 << 30
#: Inputs between two looks at the clock.
_STEP = 16
_MOST_FINDINGS = 20
_COUNTS = struct.Struct("<6Q")
_AT = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the inputs of a worker."""

    next: int = 0
    """index of the input that is being read, or is next"""
    accepted: int = 0
    refused: int = 0
    defects: int = 0
    hangs: int = 0
    reading_ns: int = 0
    """time without that of starting"""


class Board:
    """The counts of a worker in a file that both processes see."""

    def __init__(self, folder: Path) -> None:
        path = folder / "counts"
        if not path.exists():
            path.write_bytes(bytes(_COUNTS.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _COUNTS.size)

    def read(self) -> Counts:
        """Return what the worker has written last."""
        return Counts(*_COUNTS.unpack(self._memory[:]))

    def begin(self, index: int) -> None:
        """Say which input is read now."""
        _AT.pack_into(self._memory, 0, index)

    def add(self, verdict: Verdict) -> None:
        """Count an input."""
        place = 8 * (1 + _ORDER.index(verdict))
        _AT.pack_into(self._memory, place, _AT.unpack_from(self._memory, place)[0] + 1)

    def spend(self, nanoseconds: int) -> None:
        """Count time."""
        place = _COUNTS.size - _AT.size
        _AT.pack_into(self._memory, place, _AT.unpack_from(self._memory, place)[0] + nanoseconds)

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()


_ORDER = (Verdict.ACCEPTED, Verdict.REFUSED, Verdict.DEFECT, Verdict.HANG)


def targets() -> dict[str, Target]:
    """Return all fuzzers by their names."""
    from tests.fuzz.binaries import binary_targets
    from tests.fuzz.kernels import kernel_targets
    from tests.fuzz.texts import text_targets

    return {each.name: each for each in (*text_targets(), *binary_targets(), *kernel_targets())}


def main() -> None:
    """Read inputs until the time is over or all are read."""
    name, seed, first, seconds, count, folder = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    target, board = targets()[name], Board(Path(folder))
    strictly()
    end, last = time.monotonic() + float(seconds), int(first) + int(count)
    seen: set[str] = set()
    index = int(first)
    with (Path(folder) / "findings.jsonl").open("a", encoding="utf-8") as findings:
        while index < last and (index % _STEP or time.monotonic() < end):
            began = time.monotonic_ns()
            board.begin(index)
            data = target.input(int(seed), index)
            found = tried(target, data)
            board.add(found.verdict)
            board.spend(time.monotonic_ns() - began)
            kind = found.trace[found.trace.rfind("  File ") :].partition("\n")[0] or found.trace
            if found.trace and kind not in seen and len(seen) < _MOST_FINDINGS:
                seen.add(kind)
                row = {"index": index, "verdict": found.verdict.value, "trace": found.trace}
                findings.write(json.dumps(row) + "\n")
                findings.flush()
            index += 1
    board.begin(index)
    board.close()


if __name__ == "__main__":
    main()
