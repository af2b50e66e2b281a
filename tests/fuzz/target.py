"""What a fuzzer is, and what one input does to a reader."""

import os
import random
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kerncast.errors import KerncastError
from tests.fuzz.mutations import Mutation

#: An input that takes more processor time is a hang: no file of a corpus takes a hundredth of it.
HANG_SECONDS = 2.0


class Verdict(Enum):
    """What became of an input."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    DEFECT = "defect"
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an input, how long it took, and what went wrong."""

    verdict: Verdict
    seconds: float
    """processor time"""
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A reader under test: inputs are mutated files of its corpus."""

    name: str
    read: Callable[[bytes], None]
    """reads an input, and uses what was read where that is cheap; KerncastError is a refusal, any other a defect"""
    corpus: Sequence[bytes]
    """files that are read as they are; the first inputs are these"""
    mutations: Sequence[Mutation]

    def input(self, seed: int, index: int) -> bytes:
        """Return the input of an index; the same on any machine."""
        if index < len(self.corpus):
            return self.corpus[index]
        choose = random.Random(seed << 64 | zlib.crc32(self.name.encode()) << 32 | index)  # noqa: S311  no secret
        data = self.corpus[int(choose.random() * len(self.corpus))]
        return self.mutations[int(choose.random() * len(self.mutations))](choose, data)


def tried(target: Target, data: bytes) -> Outcome:
    """Read one input and say what came of it."""
    verdict, trace = Verdict.ACCEPTED, ""
    start = time.process_time()
    try:
        target.read(data)
    except KerncastError:
        verdict = Verdict.REFUSED
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  whatever else a reader raises is what is looked for
        verdict, trace = Verdict.DEFECT, traceback.format_exc(limit=-12)
    seconds = time.process_time() - start
    if verdict is not Verdict.DEFECT and seconds > HANG_SECONDS:
        verdict, trace = Verdict.HANG, f"{seconds:.1f} s of processor time"
    return Outcome(verdict, seconds, trace)


def strictly() -> None:
    """Make warnings errors: a user would see them."""
    warnings.simplefilter("error")


class Place:
    """One file that is written anew for each input, for readers that want a path; who starts a fuzzer removes it."""

    def __init__(self, name: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="kerncast-fuzz-")) / name
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)

    def holding(self, data: bytes) -> Path:
        """Return the path of the file, which holds these bytes now."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, data, 0)
        return self.path
