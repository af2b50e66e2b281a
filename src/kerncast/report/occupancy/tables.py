"""Occupancy as tables and sentences for a terminal, and as JSON and CSV."""

from collections.abc import Iterator, Sequence
from typing import Any

from kerncast.caveats import Caveat, CaveatKind
from kerncast.occupancy import Limiter, Occupancy, ResidentClusters
from kerncast.occupancy.advice import (
    BlockSize,
    Carveout,
    Change,
    Curve,
    OccupancyCase,
    OneMore,
    Parameter,
    ResourceUse,
    Step,
)
from kerncast.read.bounded_text import listed
from kerncast.report.as_json import SCHEMA_VERSION, fields_of
from kerncast.report.tables import Table, TextColumn, csv_text
from kerncast.report.words import describe_caveat, sentence_fields
from kerncast.units import KIB, PERCENT

CURVE_COLUMNS = (
    "kernel", "launch", "gpu", "gpu_id", "parameter", "first", "last", "blocks_per_sm", "warps_per_sm", "occupancy",
    "limiter", "is_own",
)  # fmt: skip
#: GPUs that a sentence names.
_MOST_GPUS = 3


def occupancy_object(case: OccupancyCase, *, with_curves: bool = False) -> dict[str, Any]:
    """Return the occupancy of one kernel on one GPU."""
    r, found = case.request, case.found
    smaller, larger = case.next_sizes
    table = {
        **fields_of(case, "kernel", "launch"),
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
        **_found(found),
        "limits": {limit.limiter.value: limit.blocks for limit in found.limits},
        "resources": {use.limiter.value: fields_of(use, "per_block", "per_sm", "used") for use in case.uses},
        "reason": case.reason,
        "clusters": _clusters(case),
        "carveout": _carveout(case.carveout, case.preferred_bytes),
        "one_more_block": _one_more_json(case.one_more),
        "best_block_size": _best(case),
        "smaller_block_size": None if smaller is None else _size(smaller),
        "larger_block_size": None if larger is None else _size(larger),
    }
    return {**table, "curves": [_curve(curve) for curve in case.curves]} if with_curves else table


def occupancies_object(
    cases: Sequence[OccupancyCase], assumed: Sequence[Caveat], *, with_curves: bool = False
) -> dict[str, Any]:
    """Return the object that ``kerncast occupancy --json`` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "occupancies": [occupancy_object(case, with_curves=with_curves) for case in cases],
        **sentence_fields(occupancy_sentences(assumed, cases)),
    }


def curves_csv(cases: Sequence[OccupancyCase]) -> str:
    """Return a row per step of each curve: from ``first`` to ``last`` of its parameter nothing changes."""
    rows = (
        (
            case.kernel, case.launch, case.name, _id(case), curve.parameter.value, step.first, step.last,
            *_found(step.found).values(), int(is_own(curve, step)),
        )
        for case in cases for curve in case.curves for step in curve.steps
    )  # fmt: skip
    return csv_text(CURVE_COLUMNS, rows)


def is_own(curve: Curve, step: Step) -> bool:
    """Whether the block itself lies on a step."""
    return step.first <= curve.own <= step.last


def _id(case: OccupancyCase) -> str:
    return case.architecture.id if case.gpu is None else case.gpu.id


def _carveout(found: Carveout | None, preferred_bytes: int | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {**fields_of(found, "shared_bytes", "l1_bytes"), "preferred_bytes": preferred_bytes}


def _clusters(case: OccupancyCase) -> dict[str, Any] | None:
    found = case.clusters
    if found is None:
        return None
    return {"blocks_per_cluster": case.cluster_blocks, "resident_at_least": found.least, "resident_at_most": found.most}


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


def _size(size: BlockSize) -> dict[str, int]:
    return {"threads_per_block": size.threads, **fields_of(size, "blocks_per_sm", "warps_per_sm")}


def _found(found: Occupancy) -> dict[str, Any]:
    sizes = fields_of(found, "blocks_per_sm", "warps_per_sm")
    return {**sizes, "occupancy": found.fraction, "limiter": found.limiter.value}


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "parameter": curve.parameter.value,
        "own": curve.own,
        "steps": [{**fields_of(step, "first", "last"), **_found(step.found)} for step in curve.steps],
    }


_BAR_CELLS = 16
LIMITER_WORDS = {
    Limiter.WARPS: "warps",
    Limiter.REGISTERS: "registers",
    Limiter.SHARED_MEMORY: "shared memory",
    Limiter.BLOCKS: "block slots",
    Limiter.BARRIERS: "barriers",
    Limiter.NONE_FITS: "none fits",
}
PARAMETER_WORDS = {
    Parameter.THREADS: "threads per block",
    Parameter.REGISTERS: "registers per thread",
    Parameter.SHARED: "shared memory per block",
}


def occupancy_table(cases: Sequence[OccupancyCase]) -> Table:
    """Return one row per kernel and GPU."""
    named = any(case.kernel for case in cases)
    rows = tuple(
        (
            *((label(case),) if named else ()), case.name, str(case.request.threads),
            str(case.request.registers_per_thread), describe_shared(case.request.shared_bytes),
            str(case.found.blocks_per_sm), str(case.found.warps_per_sm), describe_occupancy(case.found.fraction),
            LIMITER_WORDS[case.found.limiter], _one_more(case),
        )
        for case in cases
    )  # fmt: skip
    columns = (
        TextColumn("GPU"), "threads", "registers", "shared", "blocks per SM", "warps per SM", "occupancy",
        TextColumn("limited by"), "for one more",
    )  # fmt: skip
    return Table(("kernel", *columns) if named else columns, rows)


def resource_table(case: OccupancyCase) -> Table:
    """Return what the resident blocks use of each resource of an SM."""
    blocks = case.found.blocks_per_sm
    rows = tuple(
        (
            LIMITER_WORDS[use.limiter] + (" (limits)" if case.found.limit(use.limiter) == blocks else ""),
            _quantity(use, use.per_block), _quantity(use, use.per_sm), _quantity(use, use.per_sm - use.used),
            "any number" if (limit := case.found.limit(use.limiter)) is None else _blocks(limit),
        )
        for use in case.uses
    )  # fmt: skip
    return Table((f"{label(case)} on {case.name}", "a block takes", "an SM has", "left over", "enough for"), rows)


def curve_table(case: OccupancyCase, curve: Curve) -> Table:
    """Return a row per step of a curve, with a bar for the resident warps; the block's own step is marked."""
    most = case.architecture.max_warps_per_sm
    shared = curve.parameter is Parameter.SHARED
    rows = tuple(
        (
            ("> " if is_own(curve, step) else "") + (describe_shared(step.last) if shared else str(step.last)),
            str(step.found.blocks_per_sm), str(step.found.warps_per_sm), describe_occupancy(step.found.fraction),
            "█" * round(_BAR_CELLS * step.found.warps_per_sm / most), LIMITER_WORDS[step.found.limiter],
        )
        for step in curve.steps
    )  # fmt: skip
    heading = f"{case.name}: {PARAMETER_WORDS[curve.parameter]} up to"
    own = ("blocks per SM", "warps per SM", "occupancy", TextColumn("resident"), TextColumn("limited by"))
    return Table((heading, *own), rows)


def occupancy_sentences(assumed: Sequence[Caveat], cases: Sequence[OccupancyCase]) -> list[tuple[Caveat, str]]:
    """Return what was assumed, why nothing fits, and what else a launch needs; each once, with its GPUs."""
    said: dict[Caveat, list[str]] = {}
    for case in cases:
        for caveat in _caveats(case):
            said.setdefault(caveat, []).append(case.name)
    sentences = [(caveat, describe_caveat(caveat)) for caveat in assumed]
    gpus = {caveat: listed(list(dict.fromkeys(names)), _MOST_GPUS) for caveat, names in said.items()}
    return sentences + [(caveat, f"{names}: {describe_caveat(caveat)}") for caveat, names in gpus.items()]


def label(case: OccupancyCase) -> str:
    """Return what a case is called in tables and pictures; launches after the first by their number, too."""
    if case.kernel is None:
        return "1 thread" if case.request.threads == 1 else f"{case.request.threads} threads"
    return f"{case.kernel} (launch {case.launch})" if case.launch else case.kernel


def describe_shared(size: int) -> str:
    """Return bytes of shared memory exactly, in KiB where they are whole.

    >>> describe_shared(20_000), describe_shared(49_152)
    ('20000 B', '48 KiB')
    """
    return f"{size // KIB} KiB" if size and size % KIB == 0 else f"{size} B"


def describe_occupancy(fraction: float) -> str:
    """Return a share of the warps that an SM holds.

    >>> describe_occupancy(0.125), describe_occupancy(0.75)
    ('12.5 %', '75 %')
    """
    return f"{fraction / PERCENT:.3g} %"


def _caveats(case: OccupancyCase) -> Iterator[Caveat]:
    a, r = case.architecture, case.request
    yield from case.caveats
    if (reason := case.reason) is not None:
        yield Caveat.of(CaveatKind.NO_BLOCK_FITS, reason=reason.partition(": ")[2])
    if case.most_threads is not None and r.threads > case.most_threads:
        yield Caveat.of(CaveatKind.OVER_LAUNCH_BOUNDS, threads=r.threads, most=case.most_threads)
    if case.reason is None and r.shared_bytes > a.shared_bytes_per_block:
        yield Caveat.of(CaveatKind.SHARED_MEMORY_OPT_IN, limit=a.shared_bytes_per_block)
    if case.wish is not None and case.preferred_bytes is None:
        is_split = a.shared_carveouts_bytes is None
        yield Caveat(CaveatKind.CARVEOUT_HAS_NO_EFFECT if is_split else CaveatKind.CARVEOUT_PERCENTAGE_IGNORED)


def advice_notes(case: OccupancyCase) -> Iterator[str]:
    """Yield the sentences about one case: block sizes and the carve-out."""
    more = _useful(case)
    if more is not None:
        changes = " and ".join(_at_most(change) for change in more.changes)
        wider = ", or a carve-out of " + describe_shared(more.carveout_bytes) if more.carveout_bytes else ""
        yield f"{_blocks(more.blocks_per_sm)} per SM with at most {changes}{wider}"
    for size, word in zip(case.next_sizes, ("smaller", "larger"), strict=True):
        if size is not None:
            yield (
                f"the next {word} block size with more warps has {size.threads} threads:"
                f" {_blocks(size.blocks_per_sm)}, {size.warps_per_sm} warps per SM"
            )
    if (best := case.best) is not None:
        grid = "" if case.gpu is None else f"; {best.blocks_per_sm * case.gpu.sm_count} blocks fill the GPU"
        yield (
            f"most threads are resident in blocks of {best.threads}: {_blocks(best.blocks_per_sm)},"
            f" {best.warps_per_sm} warps per SM{grid}"
        )
    if (clusters := case.clusters) is not None:
        yield _cluster_note(case, clusters)
    if (carveout := case.carveout) is not None:
        chosen = "beyond the wish, since one block needs more"
        if case.preferred_bytes is None:
            chosen = "as the driver is taken to choose"
        elif carveout.is_preferred:
            chosen = "as the program wishes"
        l1 = "" if carveout.l1_bytes is None else f", {describe_shared(carveout.l1_bytes)} for L1"
        yield f"carve-out, {chosen}: {describe_shared(carveout.shared_bytes)} of shared memory per SM{l1}"


def _cluster_note(case: OccupancyCase, found: ResidentClusters) -> str:
    """Return how many clusters are resident, and what limits them."""
    held = f"clusters of {case.cluster_blocks} blocks: "
    blocks = case.found.blocks_per_sm
    limit = LIMITER_WORDS[case.found.limiter]
    if found.least is None:
        return (
            f"{held}at most {found.most} at once, of {_blocks(blocks)} per SM ({limit}); the SMs of a GPC are unknown"
        )
    number = str(found.most) if found.least == found.most else f"{found.least} to {found.most}, by the board,"
    idle = case.gpu.sm_count * blocks - found.most * case.cluster_blocks if case.gpu else 0
    limit += f", and a cluster lies in one GPC: {_blocks(idle)} fewer than without" if idle else ""
    return f"{held}{number} at once; limited by {limit}"


def _one_more(case: OccupancyCase) -> str:
    more = _useful(case)
    if more is None:
        return "–"
    return ", ".join(_short(change) for change in more.changes) or "–"


def _useful(case: OccupancyCase) -> OneMore | None:
    """Return what to change for one more block; None where all warps are resident already."""
    return None if case.found.warps_per_sm == case.architecture.max_warps_per_sm else case.one_more


def _short(change: Change) -> str:
    if change.limiter is Limiter.SHARED_MEMORY:
        return f"≤ {describe_shared(change.at_most)} shared"
    return f"≤ {change.at_most} {_UNITS[change.limiter]}"


def _at_most(change: Change) -> str:
    if change.limiter is Limiter.SHARED_MEMORY:
        return (
            f"{describe_shared(change.at_most)} of shared memory per block"
            f" ({change.now - change.at_most} B fewer than {change.now} B)"
        )
    whose = "thread" if change.limiter is Limiter.REGISTERS else "block"
    return (
        f"{change.at_most} {_UNITS[change.limiter]} per {whose} ({change.now - change.at_most} fewer than {change.now})"
    )


_UNITS = {Limiter.WARPS: "threads", Limiter.REGISTERS: "registers", Limiter.BARRIERS: "barriers"}


def _quantity(use: ResourceUse, number: int) -> str:
    return describe_shared(number) if use.limiter is Limiter.SHARED_MEMORY else str(number)


def _blocks(number: int) -> str:
    return "1 block" if number == 1 else f"{number} blocks"
