"""VERB models: a KernelProfile and a GPU become a Prediction. One published method is one file."""

from functools import cache
from importlib import import_module

from kerncast.errors import InputError
from kerncast.models.base import Case, Estimate, Model, Needs, Question, TimedCase
from kerncast.models.calibration import Calibration, calibration_of, coverage_of, coverage_text, read_calibration

#: Where each model is; a forecast loads those that it uses.
_CLASSES = {
    "simulation": "sm.simulation.Simulation",
    "roofline": "roofline.Roofline",
    "algorithm1": "transfer.algorithm1.Algorithm1",
    "ceilings": "transfer.ceilings.Ceilings",
    "pipes": "transfer.pipes.Pipes",
    "times": "transfer.times.Times",
    "template": "published.template.Template",
    "convolution": "published.convolution.Convolution",
    "convolution-latency": "published.convolution.ConvolutionLatency",
}

#: What ``predict`` uses when no model is named.
DEFAULT_MODEL = "simulation"
#: The same where a kernel's source is not known, only its counts.
DEFAULT_MODEL_OF_COUNTS = "roofline"
#: The same for a profile without its source (docs/projection-validation.md). With the source, measured times move the
#: simulation.
DEFAULT_MODEL_OF_PROFILES = "pipes"
#: The same where nothing but times is known, or nothing else can be used.
MODEL_OF_TIMES_ALONE = "times"


def model_named(name: str) -> Model:
    """Return the model of this name; raises InputError listing the known ones."""
    if name not in _CLASSES:
        raise InputError(f"no model is called {name[:60]!r}", cure=f"Known models: {', '.join(_CLASSES)}.")
    return _loaded(name)


@cache
def _loaded(name: str) -> Model:
    module, _, kind = _CLASSES[name].rpartition(".")
    model: Model = getattr(import_module(f"{__name__}.{module}"), kind)()
    return model


__all__ = [
    "DEFAULT_MODEL", "DEFAULT_MODEL_OF_COUNTS", "DEFAULT_MODEL_OF_PROFILES", "MODEL_OF_TIMES_ALONE",
    "Calibration", "Case", "Estimate", "Model", "Needs", "Question", "TimedCase",
    "calibration_of", "coverage_of", "coverage_text", "model_named", "read_calibration",
]  # fmt: skip
