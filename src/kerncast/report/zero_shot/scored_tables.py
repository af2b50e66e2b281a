"""The tables of the zero-shot study: methods under each protocol, sets, classes, GPUs, features, worst cases.

Of sets that are scored only, no row is shown: they are part of sums alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kerncast.report.tables import Table, TextColumn
from kerncast.studies.zero_shot.outcomes import Forecast, Outcome, TransferScore, order_of, score_of
from kerncast.studies.zero_shot.study import POSTERIOR, RESIDUAL, SIMULATION, Protocol, ZeroShotStudy
from kerncast.units import format_seconds

WORST, MOST_PAIRS = 10, 40
NONE = "–"
_SCALED, _ALGORITHM, _SM_CLOCK, _BANDWIDTH = (
    "simulation x time / simulation",
    "Algorithm 1",
    "SMs x clock",
    "DRAM bandwidth",
)


@dataclass(frozen=True, slots=True)
class TitledTable:
    """A table with its title and a sentence on it."""

    title: str
    note: str
    table: Table


def tables_of(study: ZeroShotStudy) -> tuple[TitledTable, ...]:
    """Return all tables of a study, in the order of its page."""
    return tuple(each for each in _tables(study) if each.table.rows)


def _tables(study: ZeroShotStudy) -> Iterator[TitledTable]:
    for protocol in study.protocols:
        yield TitledTable(
            protocol.title[0].upper() + protocol.title[1:], _NOTES[protocol.name], _methods(study, protocol)
        )
    sets = _by(study, lambda row: study.cases.every[row].case.set)
    yield TitledTable("Per set", _GROUPED, _grouped(study, "set", sets))
    classes = _by(study, lambda row: study.cases.every[row].kind)
    yield TitledTable("Per class of kernels", _CLASSES, _grouped(study, "class", classes))
    gpus = _by(study, lambda row: study.cases.every[row].gpu.name)
    yield TitledTable("Per GPU", "The GPU that is forecast.", _grouped(study, "GPU", gpus))
    if any(each.name == "one time" for each in study.protocols):
        yield TitledTable("Per pair of GPUs", _PAIRS, _pairs(study))
    yield TitledTable("Groups of features", _ABLATION, _ablation(study))
    yield TitledTable("A faster GPU", _MONOTONE, _rises(study))
    yield TitledTable("The worst errors", "One kernel left out; of sets whose rows may be shown.", _worst(study))


_NOTES = {
    "gpu": "Nothing of the GPU that is forecast was learned from; other GPUs may have run the kernel.",
    "kernel": "Nothing of the kernel was learned from: neither another size or build nor another GPU's run.",
    "set": "Nothing of the suite was learned from; sets that time one kernel count as one.",
    "one time": "Each ordered pair of GPUs of a launch. Neither the target GPU nor the launch was learned from, but"
    " other launches of the kernel on other GPUs; the launch's one time is given. Algorithm 1 has the roofline's DRAM"
    " bytes: where they stay in the L2 of one GPU only, it is off by a multiple, and its median tells more than its"
    " mean.",
    "one time, new kernel": "The same, and nothing of the kernel was learned from: the one time is all that is known.",
}  # fmt: skip
_GROUPED = "Mean absolute percentage error (MAPE); n without a time, and pairs with one time elsewhere."
_CLASSES = (
    "Atomics, reductions and special cases by the kernel's name; memory-bound and compute-bound by what the roofline"
    " says."
)
_PAIRS = f"One time elsewhere; the {MOST_PAIRS} pairs with the most launches. MAPE."
_ABLATION = "One kernel left out, all with the same belief in features. MAPE."
_MONOTONE = (
    "Of each case, with a tenth more: the simulation is taken to fall by the resource's share in the blame for its"
    " time, and the residual answers by its features. A forecast that rises by more than 0.1 % is counted."
)


def percent(share: float) -> str:
    """Return a share in percent with one decimal."""
    return f"{share:.1%}"


def _methods(study: ZeroShotStudy, protocol: Protocol) -> Table:
    heads = (
        TextColumn("method"), "n", "MAPE", "median APE", "within 10 %", "20 %", "50 %", "in 90 % interval",
        "high / low", "faster GPU named", TextColumn("source"),
    )  # fmt: skip
    return Table(heads, tuple(_method_row(study, outcome) for outcome in protocol.outcomes))


def _method_row(study: ZeroShotStudy, outcome: Outcome) -> tuple[str, ...]:
    found = score_of(outcome.forecasts)
    order = None
    if all(each.source is None for each in outcome.forecasts):
        every = study.cases.every
        order = order_of(outcome.forecasts, [each.launch for each in every], [each.case.seconds for each in every])
    return (
        outcome.method, str(found.n), percent(found.mape), percent(found.median),
        *(f"{share:.0%}" for share in found.within),
        NONE if found.coverage is None else f"{found.coverage:.0%}",
        NONE if found.width is None else f"{found.width:.2f}",
        NONE if order is None else f"{order.right:.1%} of {order.pairs}", outcome.source,
    )  # fmt: skip


Group = tuple[str, frozenset[int]]


def _by(study: ZeroShotStudy, key: Callable[[int], str]) -> list[Group]:
    groups: dict[str, set[int]] = {}
    for row in range(len(study.cases.every)):
        groups.setdefault(key(row), set()).add(row)
    return [(name, frozenset(rows)) for name, rows in sorted(groups.items(), key=lambda item: -len(item[1]))]


def _grouped(study: ZeroShotStudy, name: str, groups: Sequence[Group]) -> Table:
    by_name = {each.name: each for each in study.protocols}
    columns: list[tuple[str, Outcome]] = [("simulation", by_name["kernel"].of(SIMULATION))]
    columns += [(f"{what} out", by_name[what].of(RESIDUAL)) for what in ("kernel", "set", "gpu")]
    if "one time" in by_name:
        carried = by_name["one time"]
        columns += [("one time", carried.of(RESIDUAL)), ("new kernel", by_name["one time, new kernel"].of(RESIDUAL))]
        columns += [("posterior alone", carried.of(POSTERIOR)), ("simulation there", carried.of(SIMULATION))]
    rows = []
    for group, members in [*groups, ("all", frozenset(range(len(study.cases.every))))]:
        scores = [_score_in(outcome, members) for _, outcome in columns]
        pairs = scores[4].n if len(scores) > 4 and scores[4] else 0
        cells = (NONE if each is None else percent(each.mape) for each in scores)
        rows.append((group, str(len(members)), *cells, str(pairs)))
    return Table((TextColumn(name), "n", *(head for head, _ in columns), "pairs"), tuple(rows))


def _score_in(outcome: Outcome, rows: frozenset[int]) -> TransferScore | None:
    chosen = [each for each in outcome.forecasts if each.row in rows]
    return score_of(chosen) if chosen else None


def _pairs(study: ZeroShotStudy) -> Table:
    protocol = study.protocol("one time")
    methods = (RESIDUAL, POSTERIOR, SIMULATION, _SCALED, _ALGORITHM, _SM_CLOCK, _BANDWIDTH)
    known = [each for name in methods for each in protocol.outcomes if each.method == name]
    by_pair = [_of_pairs(study, outcome) for outcome in known]
    order = sorted(by_pair[0], key=lambda pair: (-len(by_pair[0][pair]), pair))[:MOST_PAIRS]
    rows = tuple(
        (
            source, target, str(len(by_pair[0][source, target])),
            *(
                percent(score_of(found[source, target]).mape) if (source, target) in found else NONE
                for found in by_pair
            ),
        )
        for source, target in order
    )  # fmt: skip
    heads = tuple(each.method for each in known)
    return Table((TextColumn("measured on"), TextColumn("forecast on"), "n", *heads), rows)


def _of_pairs(study: ZeroShotStudy, outcome: Outcome) -> dict[tuple[str, str], list[Forecast]]:
    found: dict[tuple[str, str], list[Forecast]] = {}
    for each in outcome.forecasts:
        assert each.source is not None
        names = study.cases.every[each.source].gpu.name, study.cases.every[each.row].gpu.name
        found.setdefault(names, []).append(each)
    return found


def _ablation(study: ZeroShotStudy) -> Table:
    rows = [("all", percent(study.whole.mape), percent(study.whole.mape))]
    rows += [(each.group, percent(each.without.mape), percent(each.alone.mape)) for each in study.ablation]
    return Table((TextColumn("features"), "without them", "with them alone"), tuple(rows))


def _rises(study: ZeroShotStudy) -> Table:
    rows = tuple((each.what, str(each.cases), str(each.rising), percent(each.largest)) for each in study.rises)
    return Table((TextColumn("a tenth more of"), "cases", "forecasts that rise", "largest rise"), rows)


def _worst(study: ZeroShotStudy) -> Table:
    found = study.protocol("kernel").of(RESIDUAL).forecasts
    alone = {each.row: each for each in study.protocol("kernel").of(SIMULATION).forecasts}
    shown = [each for each in found if study.cases.every[each.row].is_trained]
    rows = []
    for each in sorted(shown, key=lambda each: -abs(each.log_ratio))[:WORST]:
        case = study.cases.every[each.row]
        errors = (percent(each.error), percent(alone[each.row].error))
        rows.append((
            case.case.set, case.case.kernel, case.gpu.name, case.case.size, format_seconds(case.case.seconds), *errors,
            case.simulated.limiter,
        ))  # fmt: skip
    heads = (
        TextColumn("set"), TextColumn("kernel"), TextColumn("GPU"), TextColumn("launch"), "measured", "residual",
        "simulation", TextColumn("limited by"),
    )  # fmt: skip
    return Table(heads, tuple(rows))
