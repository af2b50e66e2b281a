"""Score a model's forecasts of kernel times that others have measured, beside baselines. Nothing is fitted.

Prints Markdown: per set, per kernel and per GPU the errors, the order and the coverage of the intervals; which GPU is
faster; the worst forecasts one by one; what was refused. The sets are described in ``docs/timing-validation.md``.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from counter_cases import DATA
from timing_cases import read_clocks
from timing_convolutions import SETS, read_cases
from timing_runs import BASELINES, Plan, Scored, known_gpus, run, units
from timing_scores import CLOSE_RATIO, LEAST_RATIO, Row, by, pairs, score

from kerncast.gpu import GPU
from kerncast.models import DEFAULT_MODEL
from kerncast.report.words import describe_caveats
from kerncast.units import MEGA, MICROSECOND

WORST = 10
#: Both are gpuperfpredict's: one development set.
_POOLED = {"vecmat": "gpuperfpredict", "rodinia": "gpuperfpredict"}
_HEADER = "n | MAPE | median APE | p90 APE | forecast / measured | Spearman | in interval |"


def main() -> None:
    """Read, forecast, print."""
    asked = _arguments()
    names = asked.only or list(SETS)
    cases = read_cases(names, asked.sample, full=asked.full)
    gpus, missing = known_gpus(cases)
    absent = [name for name in names if not any(case.set == name for case in cases)]
    for name in absent:
        print(f"{name}: skipped, its measurements are not in ../shared/{DATA.name}.")
    if missing:
        left_out = sum(case.gpu in missing for case in cases)
        print(f"{left_out} cases are left out: no data file for {', '.join(sorted(missing))}.")
    clocks = read_clocks()
    if asked.clock:
        clocks = dict.fromkeys(clocks, asked.clock)
    work = units(cases, gpus, clocks)
    if not work:
        sys.exit("Nothing is left to score.")
    scored = list(run(work, Plan(asked.model, asked.level, asked.sample_seconds), asked.jobs))
    if asked.json:
        asked.json.write_text(json.dumps([record_of(each) for each in scored], indent=1), encoding="utf-8")
    print(report(scored, asked.model, gpus))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=list(SETS), metavar="SET", help=", ".join(SETS))
    parser.add_argument("--sample", type=int, metavar="N", help="launches of each set, instead of its own number")
    parser.add_argument("--full", action="store_true", help="every launch, not samples")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="simulation, roofline or template")
    parser.add_argument(
        "--clock", choices=["base", "boost", "default"], help="of all GPUs, instead of timing_clocks.csv"
    )
    parser.add_argument("--level", type=float, default=0.9, help="share of truths that an interval is to hold")
    parser.add_argument("--sample-seconds", type=float, default=0.5, help="what executing blocks of a launch may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="one record per case")
    return parser.parse_args()


def report(scored: Sequence[Scored], model: str, gpus: dict[str, GPU]) -> str:
    """Return all tables."""
    names = [model, *(name for name in BASELINES if name != model)]
    rows = {name: rows_of(scored, name) for name in names}
    parts = [
        "## Per set\n" + _table(rows, "set | model", lambda row: (row.set,), pooled=True),
        "## Per kernel\n" + _table(rows, "set | kernel | model", lambda row: (row.set, row.kernel)),
        "## Per GPU\n" + _table(rows, "set | GPU | model", lambda row: (row.set, row.gpu)),
        "## Per kernel and GPU\n"
        + _table({model: rows[model]}, "set | kernel | GPU | model", lambda row: (row.set, row.kernel, row.gpu)),
        "## Which GPU is faster\n" + _pairs_table(rows, scored, gpus),
        f"## The worst of {model}\n" + _worst(scored, model),
        "## Refused\n" + _refused(scored),
    ]
    return "\n\n".join(parts)


def rows_of(scored: Iterable[Scored], model: str) -> list[Row]:
    """Return a row for each case that a model has forecast."""
    return [
        Row(each.case.set, each.case.kernel, each.case.size, each.case.gpu, each.case.seconds, p.seconds, p.low, p.high)
        for each in scored
        for p in each.predictions
        if p.model == model
    ]


def _table(
    rows: dict[str, list[Row]], names: str, key: Callable[[Row], tuple[str, ...]], *, pooled: bool = False
) -> str:
    lines = [f"| {names} | {_HEADER}", "|---" * (names.count("|") + 1) + "|---" * 7 + "|"]
    groups = {model: by(of_model, key) for model, of_model in rows.items()}
    if pooled:
        for model, of_model in rows.items():
            groups[model] |= by((row for row in of_model if row.set in _POOLED), lambda row: (_POOLED[row.set],))
            groups[model]["all",] = of_model
    for group in dict.fromkeys(group for of_model in groups.values() for group in of_model):
        lines += [
            f"| {' | '.join(group)} | {model} | {_cells(of_model[group])} |"
            for model, of_model in groups.items()
            if of_model.get(group)
        ]
    return "\n".join(lines)


def _cells(rows: Sequence[Row]) -> str:
    found = score(rows)
    shares = f"{found.mape:.1%} | {found.median:.1%} | {found.p90:.1%}"
    order = "" if math.isnan(found.spearman) else f"{found.spearman:.3f}"
    return f"{found.n} | {shares} | {found.bias:.2f} | {order} | {found.coverage:.0%}"


def _pairs_table(rows: dict[str, list[Row]], scored: Sequence[Scored], gpus: dict[str, GPU]) -> str:
    """Return how often the faster of two GPUs was named, by each model and by two rules of thumb."""
    clock = {(each.case.set, each.case.gpu): each.clock_hz for each in scored}
    rules: dict[str, Callable[[Row], float]] = {
        "SMs x clock": lambda row: 1 / (gpus[row.gpu].sm_count * clock[row.set, row.gpu]),
        "DRAM bandwidth": lambda row: 1 / gpus[row.gpu].dram_bytes_per_s,
    }
    first = next(iter(rows.values()))
    contenders = [(name, of_model, lambda row: row.forecast) for name, of_model in rows.items()]
    contenders += [(name, first, rule) for name, rule in rules.items()]
    bands = ((LEAST_RATIO, math.inf), (LEAST_RATIO, CLOSE_RATIO))
    lines = [
        "| set | by | pairs over 10 % apart | right | of these 1.1x to 2x apart | right |",
        "|---|---|---|---|---|---|",
    ]
    for of in [*dict.fromkeys(row.set for row in first), "all"]:
        for name, of_model, time in contenders:
            chosen = [row for row in of_model if of in {row.set, "all"}]
            every, close = (pairs(chosen, time, *band) for band in bands)
            if every.n:
                lines.append(f"| {of} | {name} | {every.n} | {every.right:.1%} | {close.n} | {close.right:.1%} |")
    return "\n".join(lines)


def _worst(scored: Sequence[Scored], model: str) -> str:
    found = [(each, p) for each in scored for p in each.predictions if p.model == model]
    found.sort(key=lambda item: -abs(math.log(item[1].seconds / item[0].case.seconds)))
    lines = [
        "| set | kernel | GPU | launch | measured, µs | forecast, µs | ratio | limiter |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each, p in found[:WORST]:
        case = each.case
        times = f"{case.seconds / MICROSECOND:.1f} | {p.seconds / MICROSECOND:.1f} | {p.seconds / case.seconds:.2f}"
        lines.append(f"| {case.set} | {case.kernel} | {case.gpu} | {case.size} | {times} | {p.limiter} |")
    return "\n".join(lines)


def _refused(scored: Sequence[Scored]) -> str:
    refused = [each for each in scored if each.refused]
    reasons = by_reason(refused)
    lines = [f"{len(refused)} of {len(scored)} cases ({len(refused) / len(scored):.1%})."]
    lines += [f"- {count} x {reason}" for reason, count in reasons.items()]
    return "\n".join(lines)


def by_reason(refused: Iterable[Scored]) -> dict[str, int]:
    """Count refusals by kernel and reason."""
    counts: dict[str, int] = {}
    for each in refused:
        reason = f"{each.case.kernel}: {each.refused}"
        counts[reason] = counts.get(reason, 0) + 1
    return counts


def record_of(each: Scored) -> dict[str, object]:
    """Return all about one case."""
    case, launch = each.case, each.case.launch
    return {
        "set": case.set, "kernel": case.kernel, "size": case.size, "gpu": case.gpu, "timing": case.timing,
        "clock_mhz": each.clock_hz / MEGA, "grid": launch.grid, "block": launch.block, "defines": dict(launch.defines),
        "registers": each.resources.registers_per_thread if each.resources else None,
        "spills": bool(each.resources and each.resources.spills), "measured_seconds": case.seconds,
        "launches": len(case.launches), "unit_seconds": each.unit_seconds, "refused": each.refused,
        "forecasts": {
            p.model: {
                "seconds": p.seconds, "low": p.low, "high": p.high, "limiter": p.limiter,
                "ratio": p.seconds / case.seconds, "terms": {t.name: t.seconds for t in p.terms},
                "caveats": describe_caveats(p.caveats),
            }
            for p in each.predictions
        },
    }  # fmt: skip


if __name__ == "__main__":
    main()
