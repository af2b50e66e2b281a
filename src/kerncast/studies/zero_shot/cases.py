"""The cases of the study: measured launches beside their simulation, with features and with what they share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from kerncast.bounded_file import our_table
from kerncast.errors import InputError
from kerncast.gpu import DATA, GPU, resolve_gpu
from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.models import DEFAULT_MODEL, calibration_of
from kerncast.models.base import FOREIGN_CODE_LOG_SIGMA, Estimate, widened
from kerncast.models.learned.residual import NAMES, SimulatedLaunch, residual_features
from kerncast.models.transfer.posterior import Subject, shares_of
from kerncast.prediction import Term
from kerncast.read.measured_cases import MeasuredCase, ModelTime

ROOFLINE, TEMPLATE = "roofline", "template"
_MEMORY = {"dram", "l2"}
_LEAST_CASES = 4


@dataclass(frozen=True, slots=True)
class KernelClass:
    """Kernels of one kind, by words in their names."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetFacts:
    """What is known of measured sets beside their rows."""

    unlicensed: frozenset[str]
    """sets that are no part of the study"""
    score_only: frozenset[str]
    """sets that nothing is learned from, and of which no row is shown"""
    families: tuple[tuple[str, str], ...]
    """family of the sets that time one kernel in different builds"""
    classes: tuple[KernelClass, ...]

    def family(self, of: str, kernel: str) -> str:
        """Return the name under which a kernel is left out."""
        return dict(self.families).get(of, f"{of} {kernel}")

    def class_of(self, kernel: str, roofline: ModelTime | None) -> str:
        """Return the class of a kernel by its name, else by what the roofline says limits it."""
        plain = kernel.lower()
        named = next((each.name for each in self.classes if any(word in plain for word in each.words)), None)
        if named or roofline is None:
            return named or "unknown"
        limiter = max((term for term in roofline.terms if term[0] != "launch"), key=lambda term: term[1])[0]
        return "memory-bound" if limiter in _MEMORY else "compute-bound"


@cache
def set_facts() -> SetFacts:
    """Return the facts of the sets, from their data file."""
    table = our_table(DATA / "zero_shot.toml")
    return SetFacts(
        frozenset(table["unlicensed"]),
        frozenset(table["score_only"]),
        tuple(table["family"].items()),
        tuple(KernelClass(each["name"], tuple(each["words"])) for each in table["class"]),
    )


@dataclass(frozen=True, slots=True)
class StudyCase:
    """One measured case on a known GPU, that the simulation has forecast."""

    case: MeasuredCase
    gpu: GPU
    """GPU at the clock of the run"""
    family: str
    kind: str
    """class of the kernel"""
    is_trained: bool
    """whether models may learn from it"""
    subject: Subject
    features: tuple[float, ...]
    log_factor: float
    """logarithm of the factor of the simulation's own 90 % interval"""

    @property
    def simulated(self) -> ModelTime:
        """The forecast of the simulation."""
        found = self.case.by(DEFAULT_MODEL)
        assert found is not None
        return found

    @property
    def launch(self) -> str:
        """Identity of the launch on any GPU."""
        return self.subject.launch


@dataclass(frozen=True)
class Cases:
    """All cases of a study, in order."""

    every: tuple[StudyCase, ...]

    @cached_property
    def residuals(self) -> Floats:
        """ln(measured / simulated) of each case."""
        return np.array([math.log(each.case.seconds / each.simulated.seconds) for each in self.every])

    @cached_property
    def features(self) -> Floats:
        """[cases, features]"""
        return np.array([each.features for each in self.every])

    @cached_property
    def log_factors(self) -> Floats:
        """Logarithm of the factor of each simulation's interval."""
        return np.array([each.log_factor for each in self.every])

    @cached_property
    def trained(self) -> npt.NDArray[np.intp]:
        """Rows that models may learn from."""
        return np.flatnonzero([each.is_trained for each in self.every])

    def labels(self, name: str) -> tuple[str, ...]:
        """Return what each case is called: its kernel family, gpu or set (of one family where sets share a kernel)."""
        families = dict(set_facts().families)
        return tuple(
            {"kernel": each.family, "gpu": each.gpu.id, "set": families.get(each.case.set, each.case.set)}[name]
            for each in self.every
        )

    def table(self) -> FeatureTable:
        """Return the cases that models may learn from as a table, which ``train --recipe residual`` reads."""
        chosen = [self.every[row] for row in self.trained]
        return FeatureTable(
            NAMES,
            np.array([each.features for each in chosen]),
            np.array([each.case.seconds for each in chosen]),
            tuple(each.family for each in chosen),
            tuple(each.gpu.id for each in chosen),
            tuple(f"{each.subject.kernel} {each.launch}" for each in chosen),
            "study",
            "",
        )


def study_cases(found: Sequence[MeasuredCase]) -> Cases:
    """Return the licensed cases that the simulation has forecast; raises InputError where too few or GPUs unknown."""
    gpus: dict[tuple[str, float], GPU] = {}
    chosen = []
    for case in found:
        simulated = case.by(DEFAULT_MODEL)
        if simulated is None or case.set in set_facts().unlicensed:
            continue
        key = case.gpu, case.clock_hz
        if key not in gpus:
            gpus[key] = resolve_gpu(case.gpu)[0].at_clock(case.clock_hz)
        chosen.append(_study_case(case, simulated, gpus[key]))
    cases = Cases(tuple(chosen))
    if len(cases.trained) < _LEAST_CASES or len({each.family for each in chosen if each.is_trained}) < 2:
        raise InputError(
            f"{len(cases.trained)} cases are left to learn from",
            cure=f"Give {_LEAST_CASES} at least, of two kernels, with forecasts of the simulation.",
        )
    return cases


def _study_case(case: MeasuredCase, simulated: ModelTime, gpu: GPU) -> StudyCase:
    facts = set_facts()
    family = facts.family(case.set, case.kernel)
    launch = SimulatedLaunch(
        simulated.seconds, simulated.terms, case.blocks, case.threads_per_block, case.registers
    )  # fmt: skip
    subject = _subject(case, simulated, gpu, family)
    return StudyCase(
        case, gpu, family, facts.class_of(case.kernel, case.by(ROOFLINE)), case.set not in facts.score_only, subject,
        residual_features(launch, gpu), _log_factor(subject),
    )  # fmt: skip


def _subject(case: MeasuredCase, simulated: ModelTime, gpu: GPU, family: str) -> Subject:
    """Return a case as the posterior asks for it: another build is another kernel, another set's GPU another board."""
    terms = tuple(Term(name, seconds) for name, seconds in simulated.terms)
    estimate = Estimate(simulated.seconds, simulated.limiter, terms, simulated.seconds, simulated.seconds)
    calibration = calibration_of(DEFAULT_MODEL)
    build = f"{family} {case.build}" + f" spills on {gpu.architecture.id}" * case.spills
    return Subject(
        kernel=build,
        launch=f"{case.set} {case.kernel} {case.size}",
        gpu_id=f"{gpu.id} {case.set}",
        capability=gpu.architecture.number,
        microarchitecture=gpu.architecture.microarchitecture,
        threads=case.blocks * case.threads_per_block,
        shares=shares_of(estimate),
        is_unseen=calibration is not None and not calibration.has_seen(gpu),
    )


def _log_factor(subject: Subject, level: float = 0.9) -> float:
    calibration = calibration_of(DEFAULT_MODEL)
    assert calibration is not None
    own = calibration.factor(level, calibration.width(dict(subject.shares)))
    return math.log(widened(own, FOREIGN_CODE_LOG_SIGMA, level) if subject.is_unseen else own)
