"""VERB models: a KernelProfile and a GPU become a Prediction. One published method is one file."""

from kerncast.errors import InputError
from kerncast.models.base import Case, Estimate, Model, Needs, Question
from kerncast.models.calibration import Calibration, calibration_of, coverage_of, coverage_text, read_calibration
from kerncast.models.missing_facts import MissingFacts
from kerncast.models.published.convolution import Convolution, ConvolutionLatency
from kerncast.models.published.template import Template
from kerncast.models.roofline import Roofline
from kerncast.models.sm.simulation import Simulation
from kerncast.models.transfer.algorithm1 import Algorithm1
from kerncast.models.transfer.ceilings import Ceilings

_MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Simulation(), Roofline(), Algorithm1(), Ceilings(), Template(), Convolution(), ConvolutionLatency(),
    )
}  # fmt: skip

#: What ``predict`` uses when no model is named.
DEFAULT_MODEL = Simulation.name
#: The same where a kernel's source is not known, only its counts.
DEFAULT_MODEL_OF_COUNTS = Roofline.name
#: The same where a time was measured on another GPU, and the next one where a profiler counted there, too: its
#: published interval held far fewer of the measured times (docs/projection-validation.md).
DEFAULT_MODEL_OF_TIMES, NEXT_MODEL_OF_PROFILES = Algorithm1.name, Ceilings.name


def model_named(name: str) -> Model:
    """Return the model of this name; raises InputError listing the known ones."""
    chosen = _MODELS.get(name)
    if chosen is None:
        raise InputError(f"no model is called {name[:60]!r}", cure=f"Known models: {', '.join(_MODELS)}.")
    return chosen


__all__ = [
    "DEFAULT_MODEL",
    "DEFAULT_MODEL_OF_COUNTS",
    "DEFAULT_MODEL_OF_TIMES",
    "NEXT_MODEL_OF_PROFILES",
    "Calibration",
    "Case",
    "Estimate",
    "MissingFacts",
    "Model",
    "Needs",
    "Question",
    "calibration_of",
    "coverage_of",
    "coverage_text",
    "model_named",
    "read_calibration",
]
