"""How long will this CUDA kernel take on a GPU that I don't have, how sure is that, and why?

>>> import kerncast
>>> kerncast.load_gpu("RTX 2080 Ti").compute_capability
'7.5'
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kerncast.version import __version__

if TYPE_CHECKING:
    from kerncast.api import (
        Bound,
        Bounds,
        Comparison,
        Forecasts,
        Occupancies,
        Profile,
        ProgramRun,
        Sensitivities,
        SweepResults,
        bound,
        compare,
        occupancy,
        predict,
        profile,
        run,
        sensitivity,
        sweep,
    )
    from kerncast.errors import KerncastError
    from kerncast.execute import Budget
    from kerncast.gpu.gpu import GPU, list_gpus, load_gpu
    from kerncast.launch.launch import Argument, Launch
    from kerncast.prediction import Prediction, Timing
    from kerncast.profiles.kernel_profile import KernelProfile
    from kerncast.read.launches import load_launches
    from kerncast.scripts.here import record

# Where each public name lives: it is imported when it is first used, so that `import kerncast` costs nothing.
_HOME = {
    "Argument": "kerncast.launch",
    "Bound": "kerncast.api",
    "Bounds": "kerncast.api",
    "Budget": "kerncast.execute",
    "Comparison": "kerncast.api",
    "Forecasts": "kerncast.api",
    "GPU": "kerncast.gpu",
    "KernelProfile": "kerncast.profiles",
    "KerncastError": "kerncast.errors",
    "Launch": "kerncast.launch",
    "Occupancies": "kerncast.api",
    "Prediction": "kerncast.prediction",
    "Profile": "kerncast.api",
    "ProgramRun": "kerncast.api",
    "Sensitivities": "kerncast.api",
    "SweepResults": "kerncast.api",
    "Timing": "kerncast.prediction",
    "bound": "kerncast.api",
    "compare": "kerncast.api",
    "list_gpus": "kerncast.gpu",
    "load_gpu": "kerncast.gpu",
    "load_launches": "kerncast.read.launches",
    "occupancy": "kerncast.api",
    "predict": "kerncast.api",
    "profile": "kerncast.api",
    "record": "kerncast.scripts",
    "run": "kerncast.api",
    "sensitivity": "kerncast.api",
    "sweep": "kerncast.api",
}


class _Package(ModuleType):
    """The package, whose names stay what they are when a room of the same name is imported: occupancy is a verb."""

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds each room to its package; `from kerncast.occupancy import …` does without.
        if not (isinstance(value, ModuleType) and name in _HOME):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kerncast' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "GPU", "Argument", "Bound", "Bounds", "Budget", "Comparison", "Forecasts", "KerncastError", "KernelProfile",
    "Launch", "Occupancies", "Prediction", "Profile", "ProgramRun", "Sensitivities", "SweepResults", "Timing",
    "__version__", "bound", "compare", "list_gpus", "load_gpu", "load_launches", "occupancy", "predict", "profile",
    "record", "run", "sensitivity", "sweep",
]  # fmt: skip
