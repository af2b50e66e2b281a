"""ENTRY api: the verbs of `import kerncast`, and what they return."""

from kerncast.api.answers import Comparison, Forecasts, Occupancies, Profile, Sensitivities
from kerncast.api.verbs import compare, occupancy, predict, profile, sensitivity

__all__ = [
    "Comparison", "Forecasts", "Occupancies", "Profile", "Sensitivities", "compare", "occupancy", "predict", "profile",
    "sensitivity",
]  # fmt: skip
