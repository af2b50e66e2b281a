"""curve_fit, calibrated on the TPC counts that need the least offset: the minimal-measurement selection."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kerncast.studies.bounds.base import (
    BoundAnswer,
    BoundQuestion,
    Curve,
    Kind,
    judged_times,
    largest_of,
    regressors_of,
)
from kerncast.studies.bounds.published.calibration import Affine, affine_through
from kerncast.studies.bounds.published.curve_fit import fitted_curve

#: Of more counts, only choices of one and two are tried: the fewest come first in any case.
_MOST_COUNTS = 12
#: What rounding leaves of a residual, as a share of the longest time.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Choice:
    """TPC counts to measure, and how the forecasts calibrated on them compare with the actual times."""

    counts: tuple[int, ...]
    calibration: Affine
    offset_seconds: float
    """seconds that raise all forecasts to the actual times or above"""
    mape: float
    """mean absolute percentage error after raising, as a share"""
    largest_error_seconds: float


@dataclass(frozen=True, slots=True)
class CurveFitOffset:
    """The affine calibration over some TPC counts, raised by ``max(0, -min(forecast - actual))``.

    Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, sections 3.6 and 3.8. As published it
    compares all choices with all actual times: that is the oracle. Without it, only the anchors are known, and the
    offset covers no other count. With fewest measurements as the first preference, one count always wins.
    """

    is_oracle: bool = False
    kind: Kind = Kind.MARGIN
    has_base_model: bool = True

    @property
    def name(self) -> str:
        """Name for ``--method``."""
        return "curve-fit-offset-oracle" if self.is_oracle else "curve-fit-offset"

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the fit, calibrated on the preferred counts and raised by their offset; exact on those counts."""
        raw = fitted_curve(regressors_of(question))
        known = judged_times(question, self.name) if self.is_oracle else largest_of(question.measured)
        chosen = measurement_choices(raw, known)[0]
        exact = largest_of(question.all_runs.only(chosen.counts))
        times = chosen.calibration.applied_to(raw).at(question.tpcs)
        return BoundAnswer(
            expected=tuple(exact.instead_of(times, question.tpcs).tolist()),
            bound=tuple(exact.instead_of(times + chosen.offset_seconds, question.tpcs).tolist()),
            calibrated_on=chosen.counts,
            known_beside=tuple(count for count in known.counts if count not in chosen.counts),
            offset_seconds=chosen.offset_seconds,
        )


def measurement_choices(raw: Curve, measured: Curve) -> tuple[Choice, ...]:
    """Return all choices of TPC counts to calibrate on, the preferred one first.

    The order of section 3.8: fewest counts, then no offset, then the least mean percentage error, then the least
    largest error. Choices hold from one count to nearly all.

    >>> choices = measurement_choices(Curve((1, 2, 4), (4.0, 2.0, 1.0)), Curve((1, 2, 4), (8.0, 4.0, 2.4)))
    >>> choices[0].counts, choices[0].offset_seconds, next(each.counts for each in choices if len(each.counts) == 2)
    ((4,), 0.0, (1, 4))
    """
    found = [_choice(counts, raw, measured) for counts in _subsets(measured.counts)]
    return tuple(sorted(found, key=_preference))


def _preference(choice: Choice) -> tuple[int, bool, float, float]:
    return len(choice.counts), choice.offset_seconds > 0, choice.mape, choice.largest_error_seconds


def _subsets(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    most = 2 if len(counts) > _MOST_COUNTS else max(1, len(counts) - 1)
    for size in range(1, most + 1):
        yield from combinations(counts, size)


def _choice(counts: tuple[int, ...], raw: Curve, measured: Curve) -> Choice:
    calibration = affine_through(raw, Curve(counts, tuple(measured.at(counts).tolist())))
    forecast, actual = calibration.applied_to(raw).at(measured.counts), np.array(measured.seconds)
    offset = max(0.0, float((actual - forecast).max()))
    if offset <= _ROUNDING * float(actual.max()):
        offset = 0.0
    errors = np.abs(forecast + offset - actual)
    return Choice(counts, calibration, offset, float((errors / actual).mean()), float(errors.max()))
