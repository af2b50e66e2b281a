"""How long will this CUDA kernel take on a GPU that I don't have, how sure is that, and why?

>>> import kerncast
>>> kerncast.load_gpu("RTX 2080 Ti").compute_capability
'7.5'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kerncast.version import __version__

if TYPE_CHECKING:
    from kerncast.errors import KerncastError
    from kerncast.execute import Budget
    from kerncast.forecast.forecast import predict
    from kerncast.forecast.profiling import profile
    from kerncast.gpu.gpu import GPU, list_gpus, load_gpu
    from kerncast.launch.launch import Launch
    from kerncast.prediction import Prediction, Timing
    from kerncast.profiles.kernel_profile import KernelProfile
    from kerncast.scripts.here import record

# Where each public name lives: it is imported when it is first used, so that `import kerncast` costs nothing.
_HOME = {
    "Budget": "kerncast.execute",
    "GPU": "kerncast.gpu",
    "KernelProfile": "kerncast.profiles",
    "KerncastError": "kerncast.errors",
    "Launch": "kerncast.launch",
    "Prediction": "kerncast.prediction",
    "Timing": "kerncast.prediction",
    "list_gpus": "kerncast.gpu",
    "load_gpu": "kerncast.gpu",
    "load_launches": "kerncast.read.launches",
    "predict": "kerncast.forecast",
    "profile": "kerncast.forecast",
    "record": "kerncast.scripts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kerncast' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "GPU", "Budget", "KerncastError", "KernelProfile", "Launch", "Prediction", "Timing", "__version__",
    "list_gpus", "load_gpu", "load_launches", "predict", "profile", "record",
]  # fmt: skip
