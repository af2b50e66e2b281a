"""ENTRY forecast: evidence and GPUs become forecasts."""

from kerncast.forecast.asked import Forecast, Options, timing_named
from kerncast.forecast.cases import (
    Choices,
    LaunchCases,
    ProfileCases,
    filled,
    launch_of,
    with_missing_counts,
    without_launch,
)
from kerncast.forecast.compiled_launch import Means, Progress, compile_launch
from kerncast.forecast.evidence import (
    Reading,
    matched,
    measured_of,
    observations,
    read_evidence,
    resolve_gpus,
)
from kerncast.forecast.forecast import forecast_all
from kerncast.forecast.gathered import Job, each_in_limits, in_limits, room_of
from kerncast.forecast.profiling import profile_launch

__all__ = [
    "Choices", "Forecast", "Job", "LaunchCases", "Means", "Options", "ProfileCases", "Progress", "Reading",
    "compile_launch", "each_in_limits", "filled", "forecast_all", "in_limits", "launch_of", "matched", "measured_of",
    "observations", "profile_launch", "read_evidence", "resolve_gpus", "room_of", "timing_named",
    "with_missing_counts", "without_launch",
]  # fmt: skip
