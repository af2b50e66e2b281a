"""Score the simulation without one effect at a time. Nothing is fitted.

Prints Markdown: per effect and set, the errors of all forecasts without it, beside those of the whole model. An effect
is left out by leaving out its fact, or by reading no machine code.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from unittest.mock import patch

from score_timing import rows_of
from timing_cases import Case, read_clocks
from timing_convolutions import SETS, read_cases
from timing_runs import Plan, Scored, Unit, forecast_unit, known_gpus, run, units
from timing_scores import by, score

from kerncast.compile.cache.store import FOLDER_VARIABLE
from kerncast.execute.recording import LaunchRecorder
from kerncast.gpu import GPU
from kerncast.models import DEFAULT_MODEL
from kerncast.models.sm.simulate import prepare
from kerncast.traces import NO_MACHINE_CODE

#: Sets of many kernels on GPUs of several generations, and launches of each.
_SETS = {"streams": 56, "hecbench": 100, "rajaperf": 44, "vecmat": 21, "rodinia": 21}
Change = Callable[[GPU], GPU]


@dataclass(frozen=True, slots=True)
class Effect:
    """One part of the physics, and how a GPU looks without it."""

    name: str
    without: Change


def _cycles(**facts: float | None) -> Change:
    """Return what replaces cycles of an architecture."""

    def change(gpu: GPU) -> GPU:
        architecture = gpu.architecture
        return replace(gpu, architecture=replace(architecture, cycles=replace(architecture.cycles, **facts)))

    return change


def _without_rows(gpu: GPU) -> GPU:
    return replace(gpu, architecture=replace(gpu.architecture, dram_activate_s=None))


def _without_filling(gpu: GPU) -> GPU:
    return replace(gpu, architecture=replace(gpu.architecture, l2_fills_sectors=None))


EFFECTS = (
    Effect("own machine code", lambda gpu: gpu),
    Effect("bursts to DRAM ahead of an SM's share", _cycles(dram_burst=None)),
    Effect("a store keeps its block's place", _cycles(store_round_trips=None)),
    Effect("cycles to launch a block", _cycles(block_launch=0.0)),
    Effect("blocks that the GPU launches per cycle", _cycles(grid_launch=None)),
    Effect("passes of a load through L1", _cycles(l1_pass=None)),
    Effect("a tag of L1 for each line", _cycles(l1_tag=0.0)),
    Effect("cycles to ask L2 for a line", _cycles(l2_request=None)),
    Effect("sectors stored in part", _cycles(l2_merge=None)),
    Effect("sectors read before they are stored in part", _without_filling),
    Effect("rows of DRAM", _without_rows),
    Effect("barriers' latency", _cycles(barrier_latency=0.0)),
    Effect("branches' latency", _cycles(branch_latency=0.0)),
)


def main() -> None:
    """Forecast everything once for each effect, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=list(SETS), metavar="SET", help=f"instead of {[*_SETS]}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = options.only or list(_SETS)
    cases = [case for name in names for case in read_cases([name], _SETS.get(name), full=False)]
    print("| set | without | n | MAPE | median APE | forecast / measured |\n|---|---|---|---|---|---|")
    whole = Effect("nothing", lambda gpu: gpu)
    for effect in (whole, *EFFECTS):
        for line in _lines(effect, cases, options.jobs):
            print(line, flush=True)


def _lines(effect: Effect, cases: list[Case], jobs: int) -> Iterator[str]:
    gpus, _ = known_gpus(cases)
    work = units(cases, gpus, read_clocks())
    changed = [replace(unit, gpus=tuple(map(effect.without, unit.gpus))) for unit in work]
    does = _without_machine_code if effect is EFFECTS[0] else forecast_unit
    scored = list(run(changed, Plan(DEFAULT_MODEL), jobs, does))
    for (of,), rows in by(rows_of(scored, DEFAULT_MODEL), lambda row: (row.set,)).items():
        found = score(rows)
        yield f"| {of} | {effect.name} | {found.n} | {found.mape:.1%} | {found.median:.1%} | {found.bias:.2f} |"


def _without_machine_code(unit: Unit, plan: Plan) -> list[Scored]:
    """Forecast as ``forecast_unit`` does, by the table of averages; what is remembered is of the whole model."""
    prepare()  # here, where its machine code is kept
    with (
        patch.object(LaunchRecorder, "machine_code", lambda _self: NO_MACHINE_CODE),
        patch.dict(os.environ, {FOLDER_VARIABLE: "off"}),
    ):
        return forecast_unit(unit, plan)


if __name__ == "__main__":
    main()
