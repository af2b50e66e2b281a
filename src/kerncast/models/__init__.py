"""VERB models: a KernelProfile and a GPU become a Prediction. One published method is one file."""

from kerncast.errors import InputError
from kerncast.models.base import Model, Question
from kerncast.models.roofline import Roofline
from kerncast.models.template import Template

_MODELS: dict[str, Model] = {model.name: model for model in (Roofline(), Template())}

#: What ``predict`` uses when no model is named.
DEFAULT_MODEL = Roofline.name


def model_named(name: str | None) -> Model:
    """Return the model of this name, or the default one; raises InputError listing the known ones."""
    chosen = _MODELS.get(name or DEFAULT_MODEL)
    if chosen is None:
        raise InputError(f"no model is called {str(name)[:60]!r}", cure=f"Known models: {', '.join(_MODELS)}.")
    return chosen


__all__ = ["DEFAULT_MODEL", "Model", "Question", "model_named"]
