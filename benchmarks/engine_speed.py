"""Speed of the reference engine: thread-instructions per second, and its time against NumPy's for the same result.

The baseline is NumPy computing the kernel's output from the same buffers in the same run, so that the ratio does not
depend on the machine.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncast.compile import compile_source
from kerncast.execute import WholeGrid, execute
from kerncast.launch import load_launches

KERNELS = Path(__file__).parent.parent / "examples" / "kernels"
Arrays = dict[str, npt.NDArray[np.float32]]

BASELINES: dict[str, Callable[[Arrays], object]] = {
    "saxpy": lambda m: np.float32(2) * m["x"] + m["y"],
    "matmul_tiled": lambda m: m["A"] @ m["B"],
}


def main() -> None:
    """Print one row per kernel."""
    print("| kernel | thread-instructions | per second | engine / NumPy |")
    print("|---|---|---|---|")
    for name, baseline in BASELINES.items():
        (launch,) = load_launches(KERNELS / f"{name}.toml")
        kernel = compile_source(
            launch.source, architectures=["sm_70"], kernel=launch.kernel, defines=launch.defines
        ).kernels[0]
        begun = time.perf_counter()
        budget = WholeGrid() if name == "saxpy" else None  # the whole matrix product would take minutes
        trace, _ = execute(kernel, launch, budget)
        engine_s = time.perf_counter() - begun
        share = len(trace.block_ids) / launch.blocks
        begun = time.perf_counter()
        baseline(trace.memory)
        numpy_s = (time.perf_counter() - begun) * share
        count = int(trace.thread_executions.sum())
        print(f"| {name} | {count / 1e6:.1f} M | {count / engine_s / 1e6:.0f} M | {engine_s / numpy_s:.0f} |")


if __name__ == "__main__":
    main()
