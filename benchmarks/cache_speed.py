"""Time the command line and the compiler with nothing remembered but the compiled simulator, and with results.

python benchmarks/cache_speed.py [--runs N]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kerncast.compile import CompileRequest, compile_request
from kerncast.compile.cache.store import store_in
from kerncast.models.sm.simulate import hand_on_machine_code, prepare

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


def _timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def compare(name: str, action: Callable[[], object], runs: int, simulator: Path) -> None:
    """Print the shortest of some runs of an action, with the simulator's machine code alone and with its own results.

    The other runs waited for something else.
    """
    cold, warm = [], []
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            cache = Path(folder) / str(run)
            shutil.copytree(simulator, cache)
            os.environ["KERNCAST_CACHE"] = str(cache)
            cold.append(_timed(action))
            warm.append(_timed(action))
    print(f"{name:<44} {min(cold) * 1e3:8.0f} ms {min(warm) * 1e3:8.1f} ms {min(cold) / min(warm):8.1f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    print(f"{'shortest of ' + str(runs):<44} {'without':>11} {'with':>11} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "simulator"
        prepare()
        hand_on_machine_code(store_in(cache))
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
