"""ENTRY api: the verbs of `import kerncast`, and what they return."""

from kerncast.api.answers import Comparison, Forecasts, Occupancies, Profile, Sensitivities
from kerncast.api.study_answers import Bound, Bounds, ProgramRun, SweepResults
from kerncast.api.verbs import bound, compare, occupancy, predict, profile, run, sensitivity, sweep

__all__ = [
    "Bound", "Bounds", "Comparison", "Forecasts", "Occupancies", "Profile", "ProgramRun", "Sensitivities",
    "SweepResults", "bound", "compare", "occupancy", "predict", "profile", "run", "sensitivity", "sweep",
]  # fmt: skip
