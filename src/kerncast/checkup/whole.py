"""One forecast as a user would ask for it, from source to time, in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kerncast
from kerncast.compile import ToolStatus
from kerncast.compile.cache.place import FOLDER_VARIABLE
from kerncast.units import format_seconds

_GPU = "TITAN V"
_SOURCE = """__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
_ARGUMENTS = (
    "--kernel", "saxpy", "--grid", "4096", "--block", "256", "--arg", "n=1048576", "--arg", "a=2.0",
    "--arg", "x=f32[1048576] random", "--arg", "y=f32[1048576] zeros", "--gpu", _GPU, "--json", "--quiet",
)  # fmt: skip
#: On a slow machine that compiles the simulator, too.
_MOST_SECONDS = 300.0


def forecast_status() -> ToolStatus:
    """Forecast saxpy on one GPU and say how long that took; the compiler works, whatever the cache holds."""
    name = f"forecast of saxpy on {_GPU}"
    begun = time.monotonic()
    try:
        done = _run()
    except subprocess.TimeoutExpired:
        trouble = f"it did not end within {_MOST_SECONDS:.0f} s"
        return ToolStatus(name, None, False, "every source", None, trouble=trouble)
    took = format_seconds(time.monotonic() - begun, 2)
    try:
        seconds = json.loads(done.stdout)["predictions"][0]["seconds"]
    except (ValueError, LookupError, TypeError):
        said = done.stderr.strip() or f"it ended with status {done.returncode}"
        trouble = said.splitlines()[-1].removeprefix("kerncast: ")
        return ToolStatus(name, None, False, "every source", None, trouble=trouble)
    return ToolStatus(name, f"{format_seconds(seconds)}, made in {took}", True, "every source", None)


def _run() -> subprocess.CompletedProcess[str]:
    root = str(Path(kerncast.__path__[0]).parent)
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "saxpy.cu"
        source.write_text(_SOURCE, encoding="utf-8")
        return subprocess.run(  # noqa: S603  our own command line
            [sys.executable, "-m", "kerncast", "predict", str(source), *_ARGUMENTS],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, FOLDER_VARIABLE: "off"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=_MOST_SECONDS,
            check=False,
        )
