"""The worst path of a launch as a bound: no two resources work at the same time, and no cache helps.

What it assumes stands with the model (models/sm/worst_path.py). Measured times do not move it; one that is above it
refutes an assumption, and raises the bound of that count and of fewer TPCs.
"""

from dataclasses import dataclass, replace

import numpy as np

from kerncast.errors import InputError
from kerncast.studies.bounds.base import (
    ROUNDING,
    BoundAnswer,
    BoundQuestion,
    Contradiction,
    Kind,
    answer_on,
    at_least_measured,
    largest_of,
)
from kerncast.studies.bounds.simulation import corrected


@dataclass(frozen=True, slots=True)
class WorstPathBound:
    """Bound by the executed blocks' longest path, with every wait for a resource added to it."""

    name: str = "worst-path"
    kind: Kind = Kind.ANALYTICAL
    has_base_model: bool = False

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the worst path of each count, and what the simulation expects."""
        if question.worst is None:
            raise InputError("worst-path needs a launch", cure="Give a launch file, or --method list-scheduling.")
        worst, expected = question.worst, corrected(question.curve, question.runs)
        counts, simulated = worst.counts, question.curve.seconds
        bounds = np.maximum(worst.seconds, simulated.at(counts))
        above: tuple[Contradiction, ...] = ()
        if (bounds > np.array(worst.seconds) * (1 + ROUNDING)).any():
            above = (Contradiction.SIMULATION_ABOVE_WORST_PATH,)
        if question.runs is not None:
            longest = largest_of(question.runs)
            if (np.array(longest.seconds) > worst.at(longest.counts) * (1 + ROUNDING)).any():
                above = (*above, Contradiction.ABOVE_WORST_PATH)
            bounds = at_least_measured(bounds, question.runs, counts)
        return replace(answer_on(question, counts, bounds, expected), contradictions=above)
