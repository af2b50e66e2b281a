"""NOUN Measurement: what was timed on one machine, sample by sample, and under which conditions.

``measurement_files.py`` reads and writes it. Samples are never changed, dropped or averaged on the way: an outlier is
flagged, and a mean is made when somebody asks for it.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from kerncast.errors import InputError
from kerncast.launch import Extent

#: No quantity of physics is larger, and sums and squares of such numbers are finite.
LARGEST_NUMBER = 1e100
#: A sample so many scaled median deviations from the median is flagged.
#: Source: Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993, section 3.3: modified z-score above 3.5.
_OUTLIER_SCORE = 3.5
_NORMAL_MEDIAN_DEVIATION = 0.6745


class Method(StrEnum):
    """The ways to time a launch."""

    SERIES = "series"
    """back to back on the same buffers between two CUDA events: warm caches"""
    ROTATED = "rotated"
    """back to back, each launch on other copies of the buffers, which together exceed L2"""
    GRAPH = "graph"
    """back to back as one CUDA graph, on the same buffers"""
    SINGLE = "single"
    """one launch between two events, warm caches"""
    COLD = "cold"
    """one launch between two events, L2 flushed before"""


class Outcome(StrEnum):
    """The results of comparing the device's buffers with those of the CPU."""

    EQUAL = "equal"
    """same bits"""
    CLOSE = "close"
    """floating-point results that differ by rounding"""
    DIFFERENT = "different"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPU, its driver and the compiler: what must be equal for times to be compared."""

    gpu_name: str
    gpu_uuid: str
    compute_capability: str
    """compute capability, such as 9.0"""
    sm_count: int
    memory_bytes: int
    l2_bytes: int
    clock_max_hz: float
    """highest SM clock that the driver names"""
    memory_clock_hz: float | None
    memory_bus_bits: int | None
    power_limit_w: float | None
    ecc_enabled: bool | None
    mig_enabled: bool | None
    driver: str
    """version of the driver, and the CUDA version that it supports"""
    compiler: str
    """compiler and its version, such as NVRTC 12.9"""
    host: str
    """operating system and CPU of the host"""
    software: str
    """versions of kerncast, Python and the CUDA libraries"""

    def differences(self, other: "Machine") -> tuple[str, ...]:
        """Name each fact that forbids mixing times of the two machines, with both values."""
        return tuple(
            f"{field.name} is {getattr(self, field.name)!r}, not {getattr(other, field.name)!r}"
            for field in fields(self)
            if field.name not in _MAY_DIFFER and getattr(self, field.name) != getattr(other, field.name)
        )


#: Facts that say where a time comes from, but do not change it.
_MAY_DIFFER = frozenset({"host", "software"})


@dataclass(frozen=True, slots=True)
class ClockState:
    """Clocks, temperature and power at one moment; None where the driver reports none."""

    sm_hz: float | None = None
    memory_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    """reasons such as sw_power_cap; being idle is not one"""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Numbers of trials and of launches for a configuration."""

    trials: int = 10
    iterations: int | None = None
    """samples or launches of a trial; None: 100 for kernels below a millisecond, 50 for others"""
    warmups: int | None = None
    """launches before the samples; None: 20 for kernels below a millisecond, 10 for others"""
    trial_seconds: float = 0.25
    """target duration of a trial: a slow kernel has fewer iterations, at least 5"""
    methods: tuple[Method, ...] = (Method.SERIES, Method.SINGLE, Method.COLD)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One launch that is measured."""

    key: str
    """unique name in a file: group/launch-file#index, followed by @N for N SMs, such as seed/saxpy#0; the group is
    seed, extended, ceilings, partition or the stem of a launch file"""
    kernel: str
    source_sha256: str
    """digest of the source's text and its macros"""
    code_sha256: str
    """digest of the PTX without file names and line numbers; headers count, too"""
    grid: Extent
    block: Extent
    shared_bytes: int
    """dynamic shared memory per block"""
    arguments: tuple[tuple[str, str], ...]
    """name and value of each argument, as launch files write them"""
    seed: int
    registers_per_thread: int
    in_place: tuple[str, ...] = ()
    """buffers that the kernel both reads and writes: restored before every trial, and before every launch of single
    and cold; later launches of a series see what earlier ones left"""
    sm_count: int | None = None
    """SMs of the partition; None for the whole GPU"""
    amount: float | None = None
    """work of one launch, for a ceiling"""
    amount_unit: str | None = None
    """unit of the work: B, FLOP, op, launch or step"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One independent run: warm-ups, then samples."""

    configuration: str
    method: Method
    number: int
    """number of the trial, from 0"""
    seconds: tuple[float, ...]
    """seconds per launch; one sample is the mean over launches_per_sample launches"""
    warmup_seconds: tuple[float, ...]
    launches_per_sample: int
    before: ClockState
    after: ClockState
    began: str
    """start in ISO 8601, UTC with microseconds, such as 2026-03-01T12:00:00.000000+00:00"""

    @property
    def is_throttled(self) -> bool:
        """Whether something held the clock back before it or after it."""
        return bool(self.before.throttle_reasons or self.after.throttle_reasons)

    def __post_init__(self) -> None:
        # Written so that NaN, which is not above anything, is refused too.
        if not self.seconds or not all(0 < s <= LARGEST_NUMBER for s in (*self.seconds, *self.warmup_seconds)):
            raise InputError(
                "a sample is missing, or is not a time above zero and at most 1e100 s",
                where=f"{self.configuration}, {self.method}, trial {self.number}",
                cure="Measure it again.",
            )


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that a kernel measured itself, such as a latency in cycles."""

    configuration: str
    name: str
    values: tuple[float, ...]
    unit: str


@dataclass(frozen=True, slots=True)
class Check:
    """The device's results against those of the executor on the CPU, after the first launch."""

    configuration: str
    outcome: Outcome
    blocks: int
    """blocks whose results were compared"""
    largest_difference: float
    """largest relative error of an element; of integers, the share that differs"""
    reason: str
    """reason why nothing was checked, or place of the difference; empty otherwise"""


@dataclass(frozen=True, slots=True)
class Counters:
    """Hardware counters of one launch, from Nsight Compute."""

    configuration: str
    metrics: tuple[tuple[str, float, str], ...]
    """name, value and unit of each metric"""


@dataclass(frozen=True, slots=True)
class Failure:
    """A configuration that could not be measured, and why."""

    configuration: str
    reason: str
    at: str
    """time in ISO 8601, UTC with microseconds, such as 2026-03-01T12:00:00.000000+00:00"""


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean and spread of samples; every sample counts, flagged or not."""

    trials: int
    samples: int
    mean: float
    deviation: float | None
    """standard deviation of the trials' means; None with one trial"""
    median: float
    lowest: float
    highest: float
    outliers: int
    throttled_trials: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """All records of one machine."""

    machine: Machine
    configurations: tuple[Configuration, ...] = ()
    trials: tuple[Trial, ...] = ()
    readings: tuple[Reading, ...] = ()
    checks: tuple[Check, ...] = ()
    counters: tuple[Counters, ...] = ()
    failures: tuple[Failure, ...] = ()

    def configuration(self, key: str) -> Configuration:
        """Return the configuration of a key; raises KeyError."""
        for each in self.configurations:
            if each.key == key:
                return each
        raise KeyError(key)

    def trials_of(self, key: str, method: Method) -> tuple[Trial, ...]:
        """Return the trials of one configuration by one method, in order."""
        found = (t for t in self.trials if t.configuration == key and t.method is method)
        return tuple(sorted(found, key=lambda t: t.number))

    def trials_by_method(self) -> Mapping[tuple[str, Method], tuple[Trial, ...]]:
        """Return all trials by configuration and method, each group in the order of the file."""
        groups: dict[tuple[str, Method], list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault((trial.configuration, trial.method), []).append(trial)
        return {group: tuple(trials) for group, trials in groups.items()}

    def summary(self, key: str, method: Method) -> Summary | None:
        """Return mean and spread of one configuration by one method, or None where there is no trial."""
        trials = self.trials_of(key, method)
        return summarise(trials) if trials else None

    def open_failures(self) -> tuple[Failure, ...]:
        """Return the failures after which no trial of that configuration began.

        A trial that began at the very time of a failure leaves it open: a failure told twice is better than one hidden.
        Fails when: the host's clock was set back between the two.
        """
        last: dict[str, str] = {}
        for trial in self.trials:
            last[trial.configuration] = max(trial.began, last.get(trial.configuration, ""))
        return tuple(each for each in self.failures if each.at >= last.get(each.configuration, ""))


def summarise(trials: Iterable[Trial]) -> Summary:
    """Return mean and spread over trials of one configuration and method."""
    all_trials = tuple(trials)
    samples = [s for trial in all_trials for s in trial.seconds]
    means = [statistics.fmean(trial.seconds) for trial in all_trials]
    return Summary(
        trials=len(all_trials),
        samples=len(samples),
        mean=statistics.fmean(samples),
        deviation=statistics.stdev(means) if len(means) > 1 else None,
        median=statistics.median(samples),
        lowest=min(samples),
        highest=max(samples),
        outliers=sum(outliers(samples)),
        throttled_trials=sum(trial.is_throttled for trial in all_trials),
    )


def outliers(samples: Iterable[float]) -> tuple[bool, ...]:
    """Flag the samples that lie far from the others.

    A modified z-score above 3.5. Source: Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993, section 3.3.
    Fails when: more than half of the samples are equal, so that the median deviation is 0; then none is flagged.

    >>> outliers([1.0, 1.01, 0.99, 1.02, 1.5])
    (False, False, False, False, True)
    """
    values = tuple(samples)
    middle = statistics.median(values)
    deviation = statistics.median(abs(v - middle) for v in values)
    limit = _OUTLIER_SCORE * deviation / _NORMAL_MEDIAN_DEVIATION
    return tuple(deviation > 0 and abs(v - middle) > limit for v in values)
