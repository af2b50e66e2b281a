"""What accepted files are used for: forecasts have to be finite and in order, whatever the file said."""

import math
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from kerncast.errors import Refusal
from kerncast.gpu import GPU, load_gpu
from kerncast.models import Case, Question, model_named
from kerncast.prediction import Prediction
from kerncast.profiles import KernelProfile
from kerncast.read.declared import declared_profile

#: A file holds more kernels than one input has time for.
_MOST_USED = 2


@cache
def gpu_named(name: str) -> GPU:
    """Return a GPU of the catalogue, once."""
    return load_gpu(name)


@cache
def _profile() -> KernelProfile:
    return declared_profile("declared", (5, 5, 1), (32, 32, 1), fp32_flops=20900, dram_bytes=20500)


def forecast_profiles(profiles: Iterable[KernelProfile]) -> None:
    """Forecast some profiles on a GPU, those with a measured time by what carries it over too."""
    for profile in list(profiles)[:_MOST_USED]:
        source = profile if profile.run is not None else None
        case = Case(profile, gpu_named("t4"), source=source)
        for name in ("roofline",) if source is None else ("roofline", "pipes"):
            _forecast(name, case)


def forecast_on(gpu: GPU) -> None:
    """Forecast a declared kernel on a GPU."""
    _forecast("roofline", Case(_profile(), gpu))


def _forecast(model: str, case: Case) -> None:
    with suppress(Refusal):  # it lacks what the model needs
        check(model_named(model).predict(case, Question()))


def check(found: Prediction) -> None:
    """Raise ValueError for a forecast that is not finite, or whose ends are out of order."""
    numbers = (found.low, found.seconds, found.high, *(term.seconds for term in found.terms))
    if not all(map(math.isfinite, numbers)) or not 0 <= found.low <= found.seconds <= found.high:
        raise ValueError(f"a forecast of {numbers}")
