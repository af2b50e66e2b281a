"""NOUN Prediction: a time with its interval, and why."""

from dataclasses import dataclass
from enum import StrEnum

from kerncast.caveats import Caveat
from kerncast.errors import Refusal


class Timing(StrEnum):
    """The ways to time a launch that a forecast can stand for."""

    SERIES = "series"
    """mean per launch of a warm, back-to-back series between CUDA events"""
    SINGLE = "single"
    """one launch between events, after others like it: L2 holds what they left"""
    COLD = "cold"
    """one launch between events, L2 flushed before"""
    PROFILER = "profiler"
    """the kernel's own duration, after other launches like it"""


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a forecast: the time that one resource alone would need."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a forecast from a measured run rests on, for both GPUs."""

    name: str
    """name of the number, such as occupancy, efficiency or l2 intensity"""
    unit: str
    """unit, such as FLOP/s, B/s, FLOP/B; 1 for a share"""
    source: float | None
    """value on the GPU of the run; None where it has none"""
    target: float | None


@dataclass(frozen=True, slots=True)
class Transfer:
    """The measured run that a forecast was carried over from, and by which numbers."""

    gpu: str
    gpu_id: str
    measured_seconds: float
    figures: tuple[Figure, ...]

    def figure(self, name: str) -> Figure | None:
        """Return the figure of this name, or None."""
        return next((figure for figure in self.figures if figure.name == name), None)


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """One measured time, and what it does to a forecast."""

    gpu: str
    gpu_id: str
    kernel: str
    launch: int | None
    """number of the launch among those that are forecast; None where it is another one"""
    seconds: float
    simulated_seconds: float | None
    """simulated time of the same launch on the same GPU; None where nothing is simulated"""
    factor: float | None
    """factor on the forecast: above 1 where the measurement makes it longer; None where there is none without times"""
    contradicts: bool
    """whether the time lies outside the 99 % posterior of all other times"""


@dataclass(frozen=True, slots=True)
class ProbableLimit:
    """One resource that may limit a kernel of which only times are known."""

    resource: str
    probability: float
    seconds: float
    """forecast if this resource limits the kernel on every GPU"""


@dataclass(frozen=True, slots=True)
class MeasuredEvidence:
    """The measured times behind a forecast."""

    seconds_without: float | None
    """forecast without any measured time; None where there is none"""
    times: tuple[MeasuredTime, ...]
    limits: tuple[ProbableLimit, ...] = ()
    """resources that may limit the kernel, the most probable first; empty where a simulation tells"""


@dataclass(frozen=True, slots=True)
class SimulatedWork:
    """Instructions and bytes of a whole launch on one GPU, as a simulation counted them."""

    warp_instructions: float
    """machine instructions that warps issue"""
    l2_bytes: float
    """bytes between SMs and L2, an atomic's both ways"""
    dram_read_bytes: float
    """bytes that L2 reads from DRAM: none for what an earlier launch has left in it, unless L2 is cold"""
    dram_written_bytes: float

    @property
    def dram_bytes(self) -> float:
        """Bytes between L2 and DRAM, both ways."""
        return self.dram_read_bytes + self.dram_written_bytes


@dataclass(frozen=True, slots=True)
class Prediction:
    """The forecast time of one launch on one GPU, its interval, and its reasons."""

    kernel: str
    launch: int
    gpu: str
    gpu_id: str
    seconds: float
    low: float
    high: float
    level: float
    """share of measured times that the interval claims to contain"""
    timing: Timing
    limiter: str
    """name of the term that decides"""
    terms: tuple[Term, ...]
    caveats: tuple[Caveat, ...]
    model: str
    transfer: Transfer | None = None
    """the measured run that was carried over; None where there is none, or the model does not use it"""
    evidence: MeasuredEvidence | None = None
    """measured times that moved the simulation, or are all that is known; None without any"""
    count: int = 1
    """times that the launch occurs: totals count it so often"""
    work: SimulatedWork | None = None
    """work of the launch on this GPU; None where nothing was simulated"""

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.seconds <= self.high:
            raise ValueError(f"interval [{self.low}, {self.high}] does not contain {self.seconds}")

    @property
    def measured(self) -> tuple[str, float] | None:
        """The GPU and the seconds of the measured run of this launch that moves the forecast most; None without one."""
        if self.transfer:
            return self.transfer.gpu, self.transfer.measured_seconds
        own = [time for time in self.evidence.times if time.launch == self.launch] if self.evidence else []
        most = max(own, key=lambda time: max(time.factor, 1 / time.factor) if time.factor else 1.0, default=None)
        return (most.gpu, most.seconds) if most else None

    def term(self, name: str) -> float | None:
        """Return the seconds of a term, or None where the model has no such term."""
        return next((term.seconds for term in self.terms if term.name == name), None)


@dataclass(frozen=True, slots=True)
class Refused:
    """A launch and a GPU for which there is no forecast."""

    kernel: str
    launch: int
    gpu: str | None
    """name of the GPU; None where the launch is refused for every GPU"""
    reason: str
    refusal: type[Refusal] = Refusal
    """kind of the reason"""
    gpu_id: str | None = None
    """id of the GPU; two may have one name"""
