"""Whether a forecast falls where the GPU gets faster: the residual's answer to more bandwidth and a higher clock.

The simulation never takes longer with more bandwidth or a higher clock. The residual depends on shares that move with
both, so that the product could. Here each case is given a tenth more of one, and its simulated time falls by the share
that the resource has in the blame for it (first order); the forecast may not rise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kerncast.measurements.feature_table import Floats
from kerncast.models.clock import OWN_CLOCK, clock_share
from kerncast.models.learned.residual import SimulatedLaunch, residual_features
from kerncast.prediction import Term
from kerncast.studies.zero_shot.cases import Cases, StudyCase
from kerncast.studies.zero_shot.process import Belief, input_scaling, learned_regressor

MORE = 1.1
#: A rise by less is rounding of the forecast that a user reads.
_TOLD = 1e-3


@dataclass(frozen=True, slots=True)
class Rises:
    """Forecasts that rise where the GPU gets faster."""

    what: str
    cases: int
    rising: int
    """cases whose forecast rises by more than 0.1 %"""
    largest: float
    """largest rise, as a share"""


def rises_of(cases: Cases, belief: Belief) -> tuple[Rises, ...]:
    """Return how often forecasts rise with a tenth more of DRAM bandwidth, and of the SMs' clock."""
    trained = cases.features[cases.trained]
    scaling = input_scaling(trained)
    subjects = [cases.every[row].subject for row in cases.trained]
    regressor = learned_regressor(scaling.forward(trained), subjects, cases.residuals[cases.trained], belief)
    before = regressor.predict(scaling.forward(cases.features))

    def answer(what: str, faster: Sequence[tuple[float, tuple[float, ...]]]) -> Rises:
        after: Floats = regressor.predict(scaling.forward(np.array([features for _, features in faster])))
        rise = np.array([log for log, _ in faster]) + after - before
        return Rises(what, len(rise), int((rise > _TOLD).sum()), float(np.expm1(max(0.0, float(rise.max())))))

    return (
        answer("DRAM bandwidth", [_with_bandwidth(each) for each in cases.every]),
        answer("clock of the SMs", [_with_clock(each) for each in cases.every]),
    )


def _with_bandwidth(each: StudyCase) -> tuple[float, tuple[float, ...]]:
    """Return what a tenth more of bandwidth does to ln(simulated time), and the features then."""
    share = dict(each.subject.shares).get("dram", 0.0)
    gpu = replace(each.gpu, dram_bytes_per_s=each.gpu.dram_bytes_per_s * MORE)
    terms = tuple((name, s / MORE if name == "dram" else s) for name, s in each.simulated.terms)
    log = -share * math.log(MORE)
    return log, residual_features(_moved(each, log, terms), gpu)


def _with_clock(each: StudyCase) -> tuple[float, tuple[float, ...]]:
    share = clock_share(each.simulated.seconds, [Term(name, s) for name, s in each.simulated.terms])
    terms = tuple((name, s if name in OWN_CLOCK else s / MORE) for name, s in each.simulated.terms)
    log = -share * math.log(MORE)
    return log, residual_features(_moved(each, log, terms), each.gpu.at_clock(each.gpu.clock_hz * MORE))


def _moved(each: StudyCase, log: float, terms: tuple[tuple[str, float], ...]) -> SimulatedLaunch:
    case = each.case
    seconds = max(each.simulated.seconds * math.exp(log), *(term for _, term in terms))
    return SimulatedLaunch(seconds, terms, case.blocks, case.threads_per_block, case.registers)
