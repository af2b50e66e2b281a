"""The subjects of a measurement: launches of the suite or of a launch file, ceilings, launches on parts of the GPU."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from kerncast.bench import KERNELS
from kerncast.bench.ceilings import Ceiling, ceilings_for
from kerncast.bench.workspace import sets_to_rotate
from kerncast.bounded_file import OUR_DATA, our_table, read_bytes
from kerncast.errors import InputError
from kerncast.launch import DEFAULT_STANDARD, Launch, load_launches
from kerncast.measurements import Configuration, Machine, Method, Protocol, parse_tpcs
from kerncast.units import MICROSECOND, MILLISECOND

SUITE = KERNELS / "suite"

#: Kernels below this get the larger numbers of warm-ups and launches.
_QUICK_SECONDS = 1 * MILLISECOND
_QUICK, _SLOW = (20, 100), (10, 50)
_LEAST_ITERATIONS = 5
#: The first warm-ups, which tell how long the kernel takes.
PILOTS = 3

#: How a launch is timed on part of a GPU: alone, often enough for its spread.
PARTITION_PROTOCOL = Protocol(trials=1, iterations=30, warmups=5, methods=(Method.SINGLE,))
#: How a ceiling is timed: its kernels run for a millisecond or more, and hardly vary.
CEILING_PROTOCOL = Protocol(trials=3, iterations=10, warmups=3)
#: An empty kernel is over so soon that the two events of a series must not count.
_LAUNCH_PROTOCOL = Protocol(trials=10, iterations=500, warmups=20)
#: What one configuration takes beside its trials: compiling, filling, the check on the CPU.
_PREPARING_SECONDS = 2.0
#: What one trial takes beside its launches: restoring, queueing, asking for clocks, writing.
_TRIAL_SECONDS = 5 * MILLISECOND


@dataclass(frozen=True, slots=True)
class Subject:
    """One launch to be measured, on the whole GPU or on several parts of it."""

    group: str
    """first part of the key: seed, extended, ceilings, partition, or the stem of a launch file"""
    name: str
    """launch file and index, such as saxpy#0, or name of a ceiling"""
    launch: Launch
    protocol: Protocol
    sm_counts: tuple[int | None, ...] = (None,)
    """numbers of SMs to run on; None is the whole GPU"""
    ceiling: Ceiling | None = None

    def key(self, sm_count: int | None = None) -> str:
        """Return the key of a configuration in the measurement file."""
        return f"{self.group}/{self.name}" + (f"@{sm_count}" if sm_count else "")

    @property
    def source_sha256(self) -> str:
        """A digest of the source's text, its macros and options: what decides the code, beside the compiler."""
        digest = hashlib.sha256(_source_bytes(self.launch.source))
        digest.update(repr(self.launch.defines).encode())
        if self.launch.standard != DEFAULT_STANDARD or self.launch.fast_math:
            digest.update(repr((self.launch.standard, self.launch.fast_math)).encode())
        return digest.hexdigest()

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launch, and the one that sets its buffers up."""
        setup = self.ceiling.setup if self.ceiling else None
        return (self.launch,) if setup is None else (self.launch, setup)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.nbytes for _, buffer in self.launch.buffers)

    @property
    def most_seconds(self) -> float:
        """Longest expected duration in seconds, if no launch takes more than a fifth of a trial (50 ms)."""
        slowest = self.protocol.trial_seconds / _LEAST_ITERATIONS
        launches = sum(launch_counts(self.protocol, slowest))
        trials = self.protocol.trials * len(self.protocol.methods) * len(self.sm_counts)
        return _PREPARING_SECONDS + trials * launches * slowest

    def expected_seconds(self, kernel_seconds: float, whole_sm_count: int) -> float:
        """Return the seconds, from those of a launch on the whole GPU; on a part it takes longer in proportion."""
        seconds = _PREPARING_SECONDS
        for size in self.sm_counts:
            slower = kernel_seconds * whole_sm_count / (size or whole_sm_count)
            trials = self.protocol.trials * len(self.protocol.methods)
            seconds += trials * (_TRIAL_SECONDS + sum(launch_counts(self.protocol, slower)) * slower)
        return seconds

    def differences(self, configuration: Configuration) -> tuple[str, ...]:
        """Name what a recorded configuration of the same key was measured with that is now something else."""
        launch = self.launch
        facts = {
            "source_sha256": self.source_sha256,
            "grid": launch.grid,
            "block": launch.block,
            "shared_bytes": launch.shared_bytes,
            "arguments": tuple((each.name, str(each.value)) for each in launch.arguments),
            "seed": launch.seed,
        }
        return tuple(
            f"{name} is {now}, not {then}"
            for name, now in facts.items()
            if (then := getattr(configuration, name)) != now
        )


def without_impossible_rotation(subject: Subject, machine: Machine) -> Subject:
    """Leave out the method `rotated` where the buffers are so small that too many copies would be needed."""
    if sets_to_rotate(subject.buffer_bytes, machine.l2_bytes):
        return subject
    methods = tuple(method for method in subject.protocol.methods if method is not Method.ROTATED)
    return replace(subject, protocol=replace(subject.protocol, methods=methods))


def launch_counts(protocol: Protocol, seconds: float) -> tuple[int, int]:
    """Return the numbers of warm-ups and of launches of a trial, for a kernel of this duration.

    What the protocol states is kept; otherwise slow kernels get fewer.
    """
    warmups, iterations = _QUICK if seconds < _QUICK_SECONDS else _SLOW
    affordable = max(int(protocol.trial_seconds / max(seconds, MICROSECOND)), _LEAST_ITERATIONS)
    warmups = protocol.warmups or min(warmups, affordable)
    return max(warmups, PILOTS), protocol.iterations or min(iterations, affordable)


def suite_subjects(protocol: Protocol) -> tuple[Subject, ...]:
    """Return every launch of the suite: the 71 configurations of the 16 kernels first, then the others."""
    seed = _table()["seed"]
    others = sorted(path.stem for path in SUITE.glob("*.toml") if path.stem not in seed)
    named = [("seed", stem) for stem in seed] + [("extended", stem) for stem in others]
    return tuple(
        Subject(group, f"{stem}#{launch.index}", launch, protocol)
        for group, stem in named
        for launch in _launches(stem)
    )


def launch_file_subjects(path: Path, protocol: Protocol) -> tuple[Subject, ...]:
    """Return every launch of a launch file; raises LaunchError."""
    return tuple(Subject(path.stem, f"{path.stem}#{launch.index}", launch, protocol) for launch in load_launches(path))


def ceiling_subjects(machine: Machine) -> tuple[Subject, ...]:
    """Return the microbenchmarks that fit a machine."""
    return tuple(
        Subject(
            "ceilings", each.name, each.launch, replace(_ceiling_protocol(each), methods=each.methods), ceiling=each
        )
        for each in ceilings_for(machine)
    )


def _ceiling_protocol(ceiling: Ceiling) -> Protocol:
    return _LAUNCH_PROTOCOL if ceiling.unit == "launch" else CEILING_PROTOCOL


def partition_subjects(
    sm_counts: Sequence[int], launches: Iterable[Subject] = (), protocol: Protocol = PARTITION_PROTOCOL
) -> tuple[Subject, ...]:
    """Return launches on each number of SMs: those given, else the ones that ``kernels/suite.toml`` names."""
    chosen = tuple(launches) or tuple(_partitioned(name) for name in _table()["partition"])
    return tuple(replace(each, protocol=protocol, sm_counts=tuple(sm_counts)) for each in chosen)


def spread_sizes(sizes: Sequence[int], most: int) -> tuple[int, ...]:
    """Choose at most so many sizes, dense where they are small: there the time changes most.

    >>> spread_sizes(range(2, 134, 2), 8)
    (2, 4, 6, 12, 22, 40, 72, 132)
    """
    ordered = sorted(sizes)
    if len(ordered) <= most or most < 2:
        return tuple(ordered[: max(most, 0)])
    ratio = (ordered[-1] / ordered[0]) ** (1 / (most - 1))
    wanted = [ordered[0] * ratio**step for step in range(most)]
    chosen: list[int] = []
    for target in wanted:
        left = [size for size in ordered if size not in chosen]
        chosen.append(min(left, key=lambda size: abs(size - target)))
    return tuple(sorted(chosen))


def sizes_of_tpcs(text: str, sms_per_tpc: int, available: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of SMs that a text such as ``1-8,16`` means in TPCs; raises InputError."""
    wanted = parse_tpcs(text)
    found = tuple(size for size in sorted(available) if size % sms_per_tpc == 0 and size // sms_per_tpc in wanted)
    if not found:
        ranges = ", ".join(str(size // sms_per_tpc) for size in sorted(available)) or "none"
        raise InputError(f"--tpcs {wanted.shown} names no partition of this GPU", cure=f"Choose from {ranges}.")
    return found


def _partitioned(name: str) -> Subject:
    stem, _, index = name.partition("#")
    return Subject("partition", name, _launches(stem)[int(index)], PARTITION_PROTOCOL)


@cache
def _table() -> dict[str, Any]:
    return our_table(KERNELS / "suite.toml")


@cache
def _launches(stem: str) -> tuple[Launch, ...]:
    path = SUITE / f"{stem}.toml"
    table = our_table(path)
    return () if "declared" in table else load_launches(path)


@cache
def _source_bytes(path: Path) -> bytes:
    return read_bytes(path, OUR_DATA)
