"""VERB models: a KernelProfile and a GPU become a Prediction. One published method is one file."""

from functools import cache
from importlib import import_module

from kerncast.errors import InputError
from kerncast.models.base import Case, Estimate, FeatureCase, Model, Needs, Question, TimedCase
from kerncast.models.calibration import Calibration, calibration_of, coverage_of, coverage_text, read_calibration

#: Where each model is; a forecast loads those that it uses.
_CLASSES = {
    "simulation": "sm.simulation.Simulation",
    "roofline": "roofline.Roofline",
    "static-roofline": "roofline.StaticRoofline",
    "algorithm1": "transfer.algorithm1.Algorithm1",
    "ceilings": "transfer.ceilings.Ceilings",
    "pipes": "transfer.pipes.Pipes",
    "times": "transfer.times.Times",
    "template": "published.template.Template",
    "convolution": "published.convolution.Convolution",
    "convolution-latency": "published.convolution.ConvolutionLatency",
}

#: The end of a trained model's name.
MODEL_SUFFIX = ".kcm"
#: What ``predict`` uses when no model is named.
DEFAULT_MODEL = "simulation"
#: The same where a kernel's source is not known, only its counts.
DEFAULT_MODEL_OF_COUNTS = "roofline"
#: The same where a kernel cannot be executed, and was counted by its text; this model is of no use elsewhere.
MODEL_OF_TEXT = "static-roofline"
#: The same for a profile without its source (docs/projection-validation.md). With the source, measured times move the
#: simulation.
DEFAULT_MODEL_OF_PROFILES = "pipes"
#: The same where nothing but times is known, or nothing else can be used.
MODEL_OF_TIMES_ALONE = "times"


def is_model_file(name: str) -> bool:
    """Whether a model is named by the file that ``kerncast train`` wrote.

    >>> is_model_file("k40-forest.kcm"), is_model_file("roofline")
    (True, False)
    """
    return name.lower().endswith(MODEL_SUFFIX)


def model_named(name: str) -> Model:
    """Return the model of this name; raises InputError listing the known ones."""
    if name not in _CLASSES:
        raise InputError(
            f"no model is called {name[:60]!r}",
            cure=f"Known models: {', '.join(_CLASSES)}, or a trained one's file (.kcm).",
        )
    return _loaded(name)


@cache
def _loaded(name: str) -> Model:
    module, _, kind = _CLASSES[name].rpartition(".")
    model: Model = getattr(import_module(f"{__name__}.{module}"), kind)()
    return model


__all__ = [
    "DEFAULT_MODEL", "DEFAULT_MODEL_OF_COUNTS", "DEFAULT_MODEL_OF_PROFILES", "MODEL_OF_TEXT", "MODEL_OF_TIMES_ALONE",
    "MODEL_SUFFIX", "Calibration", "Case", "Estimate", "FeatureCase", "Model", "Needs", "Question", "TimedCase",
    "calibration_of", "coverage_of", "coverage_text", "is_model_file", "model_named", "read_calibration",
]  # fmt: skip
