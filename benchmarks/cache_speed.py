"""Time the command line and the compiler without the cache of compiled kernels, and with what it remembers.

python benchmarks/cache_speed.py [--runs N]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kerncast.compile import CompileRequest, compile_request

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
COMMANDS = (
    ("saxpy.toml", "TITAN V"),
    ("saxpy.toml", "all"),
    ("kernels/gpusd.toml", "TITAN V"),
)
ARCHITECTURES = ("sm_50", "sm_70", "sm_90")
#: Sources made here: what is included decides what compiling costs.
SOURCES = {
    "no header": "",
    "cuda_fp16.h": "#include <cuda_fp16.h>\n",
    "cooperative_groups.h": "#include <cooperative_groups.h>\n",
    "cub/cub.cuh": "#include <cub/cub.cuh>\n",
}
KERNEL = "__global__ void k(float *x) { x[threadIdx.x] += 1.0f; }\n"


def command(launches: Path, gpu: str) -> None:
    """Forecast from the command line, as a user does."""
    arguments = [sys.executable, "-m", "kerncast", "predict", str(launches), "--gpu", gpu, "--json", "--quiet"]
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  our own command line


def seconds_of(action: Callable[[], object], runs: int) -> float:
    """Return the shortest of some runs: the others waited for something else."""
    return min(_timed(action) for _ in range(runs))


def _timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def compare(name: str, action: Callable[[], object], runs: int, folder: Path) -> None:
    """Print what an action takes without the cache and with it."""
    os.environ["KERNCAST_CACHE"] = "off"
    action()
    cold = seconds_of(action, runs)
    os.environ["KERNCAST_CACHE"] = str(folder)
    action()
    warm = seconds_of(action, runs)
    print(f"{name:<44} {cold * 1e3:8.0f} ms {warm * 1e3:8.1f} ms {cold / warm:8.1f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    print(f"{'shortest of ' + str(runs):<44} {'without':>11} {'with':>11} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        for launches, gpu in COMMANDS:
            path = EXAMPLES / launches
            compare(f"predict {launches} --gpu {gpu!r}", partial(command, path, gpu), runs, cache)
        for what, text in SOURCES.items():
            source = Path(folder) / "k.cu"
            source.write_text(text + KERNEL, encoding="utf-8")
            for architectures in (ARCHITECTURES[1:2], ARCHITECTURES):
                request = CompileRequest(source, architectures)
                name = f"compile for {len(architectures)}, {what}"
                compare(name, partial(compile_request, request), runs, cache)


if __name__ == "__main__":
    main()
