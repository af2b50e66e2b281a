"""Time sweeps of a thousand points of kernels of the suite on one GPU, in two processes and with nothing remembered.

    python benchmarks/sweep_speed.py [--share 0.1] [--jobs 2] [NAME…]

``--share`` takes every so many-th point of each group of points that compile alike, in order, and tells the time of
all by proportion. The processor's time is that of all processes: a busy machine does not change it much.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from kerncast.compile.cache.store import store_in
from kerncast.forecast import Options, resolve_gpus
from kerncast.models.sm.simulate import hand_on_machine_code, prepare
from kerncast.studies.sweeps.executors import LocalProcesses
from kerncast.studies.sweeps.point_results import Job, Task
from kerncast.studies.sweeps.space import Point, Space, launch_space

SUITE = Path(__file__).parents[1] / "src" / "kerncast" / "kernels" / "suite"
GPU = "RTX 2080 Ti"


@dataclass(frozen=True, slots=True)
class Case:
    """One sweep of a launch of the suite."""

    file: str
    launch: int
    settings: tuple[str, ...]
    conditions: tuple[str, ...] = ()

    def space(self) -> Space:
        """Return its space."""
        return launch_space(SUITE / self.file, self.settings, self.conditions, self.launch)


CASES = {
    "saxpy: blocks and sizes": Case(
        "saxpy.toml", 0,
        ("block.x=32..1024+32", "n=65536..2031616+65536", "grid.x=ceil(n/block.x)", "x=f32[n] random",
         "y=f32[n] random"),
    ),
    "reduce_sum: blocks and sizes": Case(
        "reduce_sum.toml", 0,
        ("block.x=32..1024*2", "n=16384..2752512+16384", "grid.x=ceil(n/(2*block.x))", "values=f32[n] random",
         "partial=f32[ceil(n/(2*block.x))] zeros", "shared_bytes=4*block.x"),
    ),
    "convolution layer: tiles and channels": Case(
        "conv2d_variants.toml", 0,
        ("B=4,8,16,32", "Ni=2..512*2", "Nn=2..512*2", "K=3,5,7", "kernel=convolution_layer<32, {K}, {Ni}, {Nn}, {B}>",
         "block={B}x{B}", "grid.x=32//B", "grid.y=32//B", "grid.z=Nn", "synapse=f32[Nn, Ni, K, K] random",
         "neuron_i=f32[Ni, 32+K, 32+K] random", "neuron_n=f32[Nn, 32, 32] zeros"),
    ),
}  # fmt: skip


def main() -> None:
    """Print a row per sweep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="beginnings of names; all where none is given")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    prepare()
    print("| sweep | points | timed | wall, s | processor, s | all: wall, s | all: processor / 2, s |")
    print("|---|---|---|---|---|---|---|")
    for name, case in CASES.items():
        if not asked.names or any(name.startswith(each) for each in asked.names):
            print(row(name, case.space(), asked.share, asked.jobs), flush=True)


def row(name: str, space: Space, share: float, jobs: int) -> str:
    """Return the times of one sweep as a row."""
    job = Job(tuple(resolve_gpus([GPU])), Options())
    points = list(space.points())
    taken = points[:: max(1, round(1 / share))]
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ):
        hand_on_machine_code(store_in(Path(folder)))
        os.environ["KERNCAST_CACHE"] = folder  # processes share what they compile, as a user's do
        processor, begun = _processor_seconds(), time.perf_counter()
        results = list(LocalProcesses(job, jobs).run(_tasks(space, taken)))
        wall, spent = time.perf_counter() - begun, _processor_seconds() - processor
    assert len(results) == len(taken)
    lost = sum(each.outcomes[0].seconds is None for each in results)
    times = len(points) / len(taken)
    note = f" ({lost} infeasible)" if lost else ""
    cells = f"{wall:.0f} | {spent:.0f} | {wall * times:.0f} | {spent * times / 2:.0f}"
    return f"| {name} | {len(points)} | {len(taken)}{note} | {cells} |"


def _tasks(space: Space, points: Sequence[Point]) -> Iterator[Task]:
    return (Task(point, space.launch(point)) for point in points)


def _processor_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


if __name__ == "__main__":
    main()
