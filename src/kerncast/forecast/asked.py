"""The question to a forecast, and all that comes of it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncast.caveats import Caveat
from kerncast.errors import InputError, KerncastError, Refusal
from kerncast.execute import Budget
from kerncast.forecast.evidence import Reading
from kerncast.gpu import GPU
from kerncast.models import DEFAULT_MODEL, DEFAULT_MODEL_OF_PROFILES, Case, FeatureCase, TimedCase
from kerncast.prediction import Prediction, Refused, Timing

if TYPE_CHECKING:
    from kerncast.models.operators.operator_work import OperatorCase
    from kerncast.observation import Observation

GPUsNoted = list[tuple[GPU, tuple[Caveat, ...]]]
"""GPUs, each with what was assumed when its name was read"""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a forecast."""

    model: str | None = None
    timing: Timing = Timing.SERIES
    level: float = 0.9
    clock: str | float | None = None
    """base, boost, default or hertz; None: the GPU's default, as one of the clocks that it may have"""
    force: bool | None = False
    """whether to forecast even launches that the GPU cannot run; None: nobody can ask for that"""
    budget: Budget | None = None
    measured: tuple["Observation", ...] = ()
    """measured times of these launches on other GPUs"""
    reading: Reading = field(default_factory=Reading)
    """how a profile is read"""
    operator_timing: Timing | None = None
    """how operators are timed; None: as the data that their model was made from"""
    features: tuple[tuple[str, float], ...] = ()
    """features of a trained model that no execution tells, by name"""
    apart: bool = False
    """whether launches are compiled, executed and simulated in a process of its own with limits, where there can be
    one (``kerncast.child_process``)"""
    by_averages: bool = False
    """whether averages stand for the machine code: its disassembler takes half a second to start"""

    def __post_init__(self) -> None:
        if not 0.001 <= self.level <= 0.9999:
            raise InputError(f"level is {self.level}", cure="Give a share from 0.001 to 0.9999, such as 0.9.")

    @property
    def simulates(self) -> bool:
        """Whether the simulation may be asked."""
        return self.model in {None, DEFAULT_MODEL}

    @property
    def fuses(self) -> bool:
        """Whether a model may be asked that all measured times move."""
        return self.model in {None, DEFAULT_MODEL, DEFAULT_MODEL_OF_PROFILES}


@dataclass(frozen=True, slots=True)
class Forecast:
    """All that came of some evidence and some GPUs."""

    predictions: tuple[Prediction, ...]
    refused: tuple[Refused, ...]
    cases: "tuple[Case | TimedCase | FeatureCase | OperatorCase, ...]"
    """case behind each prediction, in the same order"""
    first_refusal: Refusal | None = None
    failed: KerncastError | None = None
    """error that ended the work before all launches had been asked"""

    @property
    def profiled(self) -> tuple[Case, ...]:
        """Cases with a profile: all but those of kernels of which only times are known."""
        return tuple(case for case in self.cases if isinstance(case, Case))

    def whole(self) -> "Forecast":
        """Return this; raises the error that ended the work early."""
        if self.failed is not None:
            raise self.failed
        return self


def timing_named(text: str) -> Timing:
    """Return the timing of this name; raises InputError listing the known ones."""
    try:
        return Timing(text)
    except ValueError:
        raise InputError(f"no timing is called {text[:40]!r}", cure=f"Known: {', '.join(Timing)}.") from None
