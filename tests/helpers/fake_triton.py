"""A package that launches as Triton 3.9 does, with PTX from a file: Triton itself is 1 GB."""

from pathlib import Path

_INIT = '''
from types import SimpleNamespace
from triton import testing
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner, Config

__version__ = "3.9.0"
runtime = SimpleNamespace(driver=driver, autotuner=SimpleNamespace(Autotuner=Autotuner))


class _Source:
    def __init__(self, signature):
        self.signature = signature


class Kernel:
    """Compiled already: its arguments are those of a signature."""

    def __init__(self, name, ptx, signature, **metadata):
        self.name, self.ptx, self.source = name, ptx, _Source(signature)
        self.metadata = SimpleNamespace(shared=0, num_ctas=1, **metadata)
        self.__name__ = name

    def run(self, *args, grid, **constants):
        active = driver.active
        from triton.backends.nvidia.compiler import CUDABackend
        kernel = CUDABackend.make_cubin(None, self.ptx, {}, None, 80)
        _, function, _, _, most = active.utils.load_binary(self.name, kernel, 0, 0)
        grid = grid(constants) if callable(grid) else grid
        launcher = active.launcher_cls(self.source, self.metadata)
        launcher(*(*grid, 1, 1)[:3], 0, function, None, None, None, None, *args, *constants.values())

    def __getitem__(self, grid):
        return lambda *args, **constants: self.run(*args, grid=grid, **constants)
'''
_DRIVER = """
_active = active = None


def set_active(new):
    global _active, active
    _active = active = new
"""
_AUTOTUNER = """
from triton.runtime import driver


class Config:
    def __init__(self, **kwargs):
        self.kwargs = kwargs

    def __str__(self):
        return ", ".join(f"{name}: {value}" for name, value in self.kwargs.items())


class Autotuner:
    def __init__(self, fn, configs):
        self.fn, self.base_fn, self.configs = fn, fn, configs
        self.cache_results = False

    def _bench(self, *args, config, **meta):
        call = lambda: self.fn.run(*args, **{**meta, **config.kwargs})
        return driver.active.get_benchmarker()(call, quantiles=(0.5, 0.2, 0.8))

    def run(self, *args, **meta):
        times = {config: self._bench(*args, config=config, **meta) for config in self.configs}
        self.best_config = min(times, key=times.get)
        self.fn.run(*args, **{**meta, **self.best_config.kwargs})

    def __getitem__(self, grid):
        return lambda *args, **meta: self.run(*args, grid=grid, **meta)
"""
_FILES = {
    "__init__.py": _INIT,
    "testing.py": "def do_bench(fn, warmup=25, rep=100):\n    raise RuntimeError('there is no GPU')\n",
    "runtime/__init__.py": "",
    "runtime/driver.py": _DRIVER,
    "runtime/autotuner.py": _AUTOTUNER,
    "backends/__init__.py": "",
    "backends/compiler.py": "class GPUTarget:\n    def __init__(self, kind, arch, warp):\n        self.arch = arch\n",
    "backends/nvidia/__init__.py": "",
    "backends/nvidia/compiler.py": "class CUDABackend:\n    make_cubin = hash = None\n",
}


def make_triton(folder: Path) -> None:
    """Write the package below a folder."""
    for name, text in _FILES.items():
        place = folder / "triton" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
