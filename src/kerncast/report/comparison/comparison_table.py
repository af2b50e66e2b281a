"""A comparison of GPUs as sentences and tables for a terminal, and as JSON and CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kerncast.caveats import Caveat, CaveatKind
from kerncast.models import DEFAULT_MODEL
from kerncast.report.as_json import SCHEMA_VERSION, fields_of
from kerncast.report.tables import Table, TextColumn, csv_text
from kerncast.report.words import describe_caveat, describe_probability, describe_range, sentence_fields, with_gpus
from kerncast.studies.comparing.contenders import Contender, Field, SetApart
from kerncast.studies.comparing.ranking import Key, Ranked, Ranking
from kerncast.units import MEGA, format_joules, format_seconds

CSV_COLUMNS = (
    "gpu", "gpu_id", "models", "seconds", "low", "high", "clock_hz", "probability_fastest", "probability_cheapest",
    "joules", "joules_low", "joules_high", "watts", "limit_watts", "usd_per_run", "runs_per_s_per_usd", "on_front",
)  # fmt: skip
#: Runs that a cost is told for: one run of a kernel costs too little to read.
_RUNS = MEGA
_BEST = {Key.TIME: "the fastest", Key.COST: "the cheapest", Key.ENERGY: "the one that needs the least energy"}
#: GPUs that a sentence names on a terminal.
MOST_NAMES = 8
#: Caveats of single forecasts that a comparison repeats.
_REPEATED = {
    CaveatKind.GPU_NAME_AMBIGUOUS, CaveatKind.GPU_IS_HYPOTHETICAL, CaveatKind.MIG_BANDWIDTH_ASSUMED,
    CaveatKind.NOT_SIMULATED, CaveatKind.SCALED_FROM_SAMPLE, CaveatKind.MICROARCHITECTURE_NOT_MEASURED,
    CaveatKind.POWER_LIMITED, CaveatKind.ENERGY_UNKNOWN,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """All that a comparison found: a ranking for each group of the field."""

    field: Field
    rankings: tuple[Ranking, ...]
    has_prices: bool


def verdict(ranking: Ranking) -> str:
    """Return who is the best, and how sure that is."""
    first = ranking.rows[0]
    name, key = first.contender.gpu.name, ranking.key
    if len(ranking.rows) == 1:
        return f"{name} is the only GPU to compare: {_told(first, key)}."
    of = f"{name} is {_BEST[key]} of {len(ranking.rows)} GPUs"
    if key is Key.ENERGY:
        return f"{of}, by an estimate: {_told(first, key)}."
    best = first.fastest if key is Key.TIME else first.cheapest
    if best is None or ranking.lead is None:
        return f"{of}: {_told(first, key)}."
    second = ranking.rows[1].contender.gpu.name
    better = "faster" if key is Key.TIME else "cheaper"
    return (
        f"{of} with probability {describe_probability(best)}: {_told(first, key)}. It is {better} than the next,"
        f" {second}, with probability {describe_probability(ranking.lead)}."
    )


def _told(row: Ranked, key: Key) -> str:
    time = format_seconds(row.contender.total.seconds)
    if key is Key.ENERGY and row.contender.energy is not None:
        return f"{format_joules(row.contender.energy.joules)} in {time}"
    if key is Key.COST and row.usd_per_run is not None:
        return f"${_usd(row.usd_per_run * _RUNS)} for a million runs of {time}"
    return time


def time_table(ranking: Ranking) -> Table:
    """Return one row per GPU of a group, in its order: the time, and who is faster."""
    against = (f"beats {ranking.against}",) if ranking.against else ()
    columns = (TextColumn("GPU", is_whole=True), "time", "90% interval", "fastest of all", *against, "clock")
    return Table(columns, tuple(tuple(_time_cells(row, ranking)) for row in ranking.rows))


def _time_cells(row: Ranked, ranking: Ranking) -> Iterator[str]:
    total, gpu = row.contender.total, row.contender.gpu
    yield gpu.name
    yield format_seconds(total.seconds)
    yield describe_range(total.low, total.high)
    yield describe_probability(row.fastest)
    if ranking.against:
        yield "" if row.over is None else describe_probability(row.over)
    yield f"{gpu.clock_hz / MEGA:.0f} MHz" + (" (power)" if row.contender.is_capped else "")


def energy_table(compared: Compared, ranking: Ranking) -> Table:
    """Return one row per GPU of a group, in its order: energy, and cost where there are prices."""
    bought = any(row.runs_per_s_per_usd is not None for row in ranking.rows)
    columns = ["energy, estimated", "90% interval", "power"]
    columns += ["$ per 1M runs", "90% interval", "cheapest of all"] if compared.has_prices else []
    columns += ["runs/s per $"] if bought else []
    rows = tuple(
        (_marked(row), *_energy_cells(row.contender), *(_cost_cells(row) if compared.has_prices else ()))
        + ((_bought(row),) if bought else ())
        for row in ranking.rows
    )
    return Table((TextColumn("GPU", is_whole=True), *columns), rows)


def _marked(row: Ranked) -> str:
    return ("* " if row.is_on_front else "  ") + row.contender.gpu.name


def _energy_cells(contender: Contender) -> Iterator[str]:
    energy = contender.energy
    if energy is None:
        yield from ("unknown", "", "")
        return
    yield format_joules(energy.joules)
    yield f"{format_joules(energy.low, 2)} to {format_joules(energy.high, 2)}"
    yield f"{energy.watts:.0f} of {energy.limit_w:.0f} W"


def _cost_cells(row: Ranked) -> Iterator[str]:
    if row.usd_per_run is None or row.cheapest is None:
        yield from ("no price", "", "")
        return
    total, million = row.contender.total, row.usd_per_run * _RUNS
    yield _usd(million)
    yield f"{million * total.low / total.seconds:.2g} to {million * total.high / total.seconds:.2g}"
    yield describe_probability(row.cheapest)


def _bought(row: Ranked) -> str:
    return "" if row.runs_per_s_per_usd is None else f"{row.runs_per_s_per_usd:.3g}"


def _usd(value: float) -> str:
    """Return US dollars with cents, or three digits below one.

    >>> _usd(12.345), _usd(0.01234)
    ('12.35', '0.0123')
    """
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def heading(ranking: Ranking, *, is_first: bool) -> str:
    """Return what the GPUs of a further group are: they are not compared with those above."""
    if is_first and ranking.models == (DEFAULT_MODEL,):
        return ""
    return f"Forecast by {', '.join(ranking.models)}, and compared among themselves only"


def front_note(compared: Compared) -> str:
    """Return what the mark of a row means."""
    group = " of its group" if len(compared.rankings) > 1 else ""
    what = "money" if compared.has_prices else "energy"
    return f"marked *: no other GPU{group} needs less of both, time and {what}"


def sentences_of(compared: Compared, most_names: int | None = None) -> list[tuple[Caveat, str]]:
    """Return what is to know of the forecasts, each sentence once, after the names of its GPUs, or their number."""
    said: dict[str, tuple[Caveat, list[str]]] = {}
    rows = [row.contender for ranking in compared.rankings for row in ranking.rows]
    for contender in rows:
        for caveat in _caveats(contender):
            _, names = said.setdefault(describe_caveat(caveat), (caveat, []))
            if contender.gpu.name not in names:
                names.append(contender.gpu.name)
    return [
        (caveat, _with_names(text, caveat, names, (len(rows), most_names))) for text, (caveat, names) in said.items()
    ]


def _caveats(contender: Contender) -> Iterator[Caveat]:
    yield from contender.caveats
    for prediction in contender.predictions:
        yield from (caveat for caveat in prediction.caveats if caveat.kind in _REPEATED)


def _with_names(text: str, caveat: Caveat, names: Sequence[str], limits: tuple[int, int | None]) -> str:
    """Return a sentence after the names of its GPUs, but for one that is true of all, or is about its only GPU."""
    everyone, most = limits
    if len(names) == everyone or [caveat.subject] == list(names):
        return text
    return with_gpus(text, names if most is None or len(names) <= most else (f"{len(names)} GPUs",))


def apart_note(apart: SetApart) -> str:
    """Return why a GPU is not compared."""
    return f"{apart.gpu} is set apart: {apart.reason}"


def comparison_object(compared: Compared) -> dict[str, Any]:
    """Return the object that ``kerncast compare --json`` prints; times in seconds, energies in joules."""
    return {
        "schema_version": SCHEMA_VERSION,
        "level": 0.9,
        "launches": [{"launch": n, "kernel": kernel} for n, kernel in enumerate(compared.field.launches)],
        "sort": compared.rankings[0].key.value if compared.rankings else None,
        "groups": [_group(ranking) for ranking in compared.rankings],
        "set_apart": [fields_of(each, "gpu", "gpu_id", "reason") for each in compared.field.set_apart],
        **sentence_fields(sentences_of(compared)),
    }


def _group(ranking: Ranking) -> dict[str, Any]:
    return {
        "models": list(ranking.models),
        "verdict": verdict(ranking),
        "against": ranking.against,
        "probability_first_over_second": ranking.lead,
        "gpus": [_row(row) for row in ranking.rows],
    }


def _row(row: Ranked) -> dict[str, Any]:
    contender = row.contender
    names = ("joules", "low", "high", "watts")
    energy = contender.energy and {**fields_of(contender.energy, *names), "limit_watts": contender.energy.limit_w}
    return {
        "gpu": contender.gpu.name,
        "gpu_id": contender.gpu.id,
        **fields_of(contender.total, "seconds", "low", "high"),
        "clock_hz": contender.gpu.clock_hz,
        "clock_without_power_limit_hz": contender.own_clock_hz,
        "probability_fastest": row.fastest,
        "probability_cheapest": row.cheapest,
        "probability_over_against": row.over,
        "probability_faster_than": dict(row.faster_than),
        "energy": energy,
        **fields_of(row, "usd_per_run", "runs_per_s_per_usd"),
        "on_front": row.is_on_front,
        "launches": [fields_of(p, "launch", "kernel", "seconds", "low", "high") for p in contender.predictions],
    }


def comparison_csv(compared: Compared) -> str:
    """Return a row per GPU."""
    return csv_text(CSV_COLUMNS, csv_rows(compared))


def csv_rows(compared: Compared) -> Iterator[tuple[object, ...]]:
    """Yield the cells of each GPU, in the order of CSV_COLUMNS."""
    yield from (_csv_row(ranking, row) for ranking in compared.rankings for row in ranking.rows)


def _csv_row(ranking: Ranking, row: Ranked) -> tuple[object, ...]:
    contender, energy = row.contender, row.contender.energy
    total = contender.total
    joules = (energy.joules, energy.low, energy.high, energy.watts, energy.limit_w) if energy else (None,) * 5
    return (
        contender.gpu.name, contender.gpu.id, " ".join(ranking.models), total.seconds, total.low, total.high,
        contender.gpu.clock_hz, row.fastest, row.cheapest, *joules, row.usd_per_run, row.runs_per_s_per_usd,
        int(row.is_on_front),
    )  # fmt: skip
