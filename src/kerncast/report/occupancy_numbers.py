"""Occupancy as JSON and as CSV."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from kerncast.occupancy_advice import BlockSize, Carveout, OneMore
from kerncast.occupancy_case import OccupancyCase
from kerncast.occupancy_curves import Curve, Step

CURVE_COLUMNS = (
    "kernel", "launch", "gpu", "gpu_id", "parameter", "first", "last", "blocks_per_sm", "warps_per_sm", "occupancy",
    "limiter", "is_own",
)  # fmt: skip


def occupancy_object(case: OccupancyCase, *, with_curves: bool = False) -> dict[str, Any]:
    """Return the occupancy of one kernel on one GPU."""
    r, found = case.request, case.found
    smaller, larger = case.next_sizes
    table = {
        "kernel": case.kernel,
        "launch": case.launch,
        "gpu": case.name,
        "gpu_id": _id(case),
        "compute_capability": case.architecture.compute_capability,
        "threads_per_block": r.threads,
        "registers_per_thread": r.registers_per_thread,
        "shared_bytes_per_block": r.shared_bytes,
        "static_shared_bytes_per_block": r.static_shared_bytes,
        "dynamic_shared_bytes_per_block": r.dynamic_shared_bytes,
        "barriers_per_block": r.barriers,
        "max_threads_per_block": case.most_threads,
        "blocks_per_sm": found.blocks_per_sm,
        "warps_per_sm": found.warps_per_sm,
        "occupancy": found.fraction,
        "limiter": found.limiter.value,
        "limits": {limit.limiter.value: limit.blocks for limit in found.limits},
        "resources": {
            use.limiter.value: {"per_block": use.per_block, "per_sm": use.per_sm, "used": use.used} for use in case.uses
        },
        "reason": case.reason,
        "carveout": _carveout(case.carveout, case.preferred_bytes),
        "one_more_block": _one_more_json(case.one_more),
        "best_block_size": _best(case),
        "smaller_block_size": _block_size(smaller),
        "larger_block_size": _block_size(larger),
    }
    return {**table, "curves": [_curve(curve) for curve in case.curves]} if with_curves else table


def curves_csv(cases: Sequence[OccupancyCase]) -> str:
    """Return a row per step of each curve: from ``first`` to ``last`` of its parameter nothing changes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CURVE_COLUMNS)
    for case in cases:
        launch = "" if case.launch is None else case.launch
        for curve in case.curves:
            for step in curve.steps:
                found = step.found
                writer.writerow(
                    (
                        case.kernel or "", launch, case.name, _id(case), curve.parameter.value, step.first, step.last,
                        found.blocks_per_sm, found.warps_per_sm, found.fraction, found.limiter.value,
                        int(is_own(curve, step)),
                    )
                )  # fmt: skip
    return text.getvalue()


def is_own(curve: Curve, step: Step) -> bool:
    """Whether the block itself lies on a step."""
    return step.first <= curve.own <= step.last


def _id(case: OccupancyCase) -> str:
    return case.architecture.id if case.gpu is None else case.gpu.id


def _carveout(found: Carveout | None, preferred_bytes: int | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "shared_bytes": found.shared_bytes,
        "l1_bytes": found.l1_bytes,
        "preferred_bytes": preferred_bytes,
    }


def _one_more_json(found: OneMore | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "blocks_per_sm": found.blocks_per_sm,
        "changes": [
            {"resource": change.limiter.value, "now": change.now, "at_most": change.at_most} for change in found.changes
        ],
        "carveout_bytes": found.carveout_bytes,
    }


def _best(case: OccupancyCase) -> dict[str, Any] | None:
    best = case.best
    if best is None:
        return None
    sms = None if case.gpu is None else case.gpu.sm_count
    return {**_size(best), "min_grid_blocks": None if sms is None else best.blocks_per_sm * sms}


def _block_size(size: BlockSize | None) -> dict[str, int] | None:
    return None if size is None else _size(size)


def _size(size: BlockSize) -> dict[str, int]:
    return {
        "threads_per_block": size.threads,
        "blocks_per_sm": size.blocks_per_sm,
        "warps_per_sm": size.warps_per_sm,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "parameter": curve.parameter.value,
        "own": curve.own,
        "steps": [
            {
                "first": step.first,
                "last": step.last,
                "blocks_per_sm": step.found.blocks_per_sm,
                "warps_per_sm": step.found.warps_per_sm,
                "occupancy": step.found.fraction,
                "limiter": step.found.limiter.value,
            }
            for step in curve.steps
        ],
    }
