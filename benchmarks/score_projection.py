"""Score the published models that carry a measured run over to another GPU, beside rules of thumb.

Nothing is fitted but the width of algorithm1's interval, by pairs within a generation (tools/calibrate_interval.py).

Prints Markdown: per set, class of GPU pairs, kernel and pair the errors and how often the truth lies in the interval;
the worst projections one by one; what was refused. ``docs/projection-validation.md`` describes the sets.
"""

import argparse
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from counter_cases import DATA
from projection_cases import SETS, Launched, read_cases
from projection_runs import MODELS, Outcome, Plan, run
from projection_scores import Projected, in_common, pair_class, score, with_constants
from timing_cases import read_clocks
from timing_runs import at, load_known

from kerncast.gpu import GPU
from kerncast.units import MICROSECOND, PERCENT

WORST = 12
_LEGEND = "MAPE/median APE in %; how many measured times lie in the interval."
_HEADER = "n | MAPE | median APE | p90 APE | forecast / measured | in interval | high / low |"

Key = Callable[[Projected], tuple[str, ...]]


def main() -> None:
    """Read, project, print."""
    asked = _arguments()
    names = asked.only or list(SETS)
    cases = read_cases(names, asked.sample, full=asked.full)
    for name in names:
        if not any(case.set == name for case in cases):
            print(f"{name}: skipped, its measurements are not in ../shared/{DATA.name}.")
    if not cases:
        sys.exit("Nothing is left to score.")
    gpus = gpus_of(cases, asked.clock)
    outcomes = list(run(cases, gpus, Plan(asked.level, asked.sample_seconds), asked.jobs))
    if asked.json:
        records = [_record(each) for outcome in outcomes for each in outcome.projected]
        asked.json.write_text(json.dumps(records, indent=1), encoding="utf-8")
    print(report(outcomes, gpus))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=list(SETS), metavar="SET", help=", ".join(SETS))
    parser.add_argument("--sample", type=int, metavar="N", help="launches of each set, instead of its own number")
    parser.add_argument("--full", action="store_true", help="every launch, not samples")
    parser.add_argument(
        "--clock", choices=["base", "boost", "default"], help="of all GPUs, instead of timing_clocks.csv"
    )
    parser.add_argument("--level", type=float, default=0.9, help="share of truths that an interval is to hold")
    parser.add_argument("--sample-seconds", type=float, default=0.1, help="what executing blocks of a launch may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="one record per projection")
    return parser.parse_args()


def gpus_of(cases: Sequence[Launched], clock: str | None) -> dict[tuple[str, str], GPU]:
    """Return the GPUs of each set at the clock that they ran at, or at one that was asked for."""
    clocks = read_clocks()
    wanted = dict.fromkeys((case.set, each.gpu) for case in cases for each in case.runs)
    return {(of, name): at(load_known(name), clock or clocks[of, name]) for of, name in wanted}


def report(outcomes: Sequence[Outcome], gpus: Mapping[tuple[str, str], GPU]) -> str:
    """Return all tables."""
    every = [each for outcome in outcomes for each in outcome.projected]
    scored = with_constants(in_common(every))
    models = [each for each in scored if each.model in MODELS]

    def class_of(each: Projected) -> tuple[str, ...]:
        pair = each.pair
        return pair.set, pair_class(gpus[pair.set, pair.source], gpus[pair.set, pair.target])

    parts = [
        "## Per set\n" + table(scored, "set", lambda each: (each.pair.set,)),
        f"## Per class of GPU pairs\n{_LEGEND}\n\n" + comparison(scored, "set | pairs", class_of),
        f"## Per kernel\n{_LEGEND}\n\n" + comparison(scored, "set | kernel", _kernel_of),
        f"## Per pair\n{_LEGEND}\n\n" + comparison(scored, "set | from | to", _pair_of),
        "## The models per class\n" + table(models, "set | pairs", class_of),
        *(f"## The worst of {name}\n{_worst(models, name)}" for name in MODELS),
        "## Refused\n" + refused(outcomes),
    ]
    return "\n\n".join(parts)


def _kernel_of(each: Projected) -> tuple[str, ...]:
    return each.pair.set, each.pair.kernel


def _pair_of(each: Projected) -> tuple[str, ...]:
    return each.pair.set, each.pair.source, each.pair.target


def comparison(projected: Sequence[Projected], names: str, key: Key) -> str:
    """Return a line per group with the errors of all models and rules side by side."""
    groups: dict[tuple[str, ...], dict[str, list[Projected]]] = {}
    for each in projected:
        groups.setdefault(key(each), {}).setdefault(each.model, []).append(each)
    models = list(dict.fromkeys((*MODELS, *(each.model for each in projected))))
    lines = [f"| {names} | n | {' | '.join(models)} |", "|---" * (names.count("|") + 2 + len(models)) + "|"]
    for group, by_model in groups.items():
        cells = [_short(by_model[name]) if name in by_model else "" for name in models]
        number = max(len(found) for found in by_model.values())
        lines.append(f"| {' | '.join(group)} | {number} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(projected: Sequence[Projected]) -> str:
    found = score(projected)
    inside = "" if found.coverage is None else f"; {found.coverage:.0%}"
    return f"{found.mape / PERCENT:.1f}/{found.median / PERCENT:.1f}{inside}"


def table(projected: Sequence[Projected], names: str, key: Key) -> str:
    """Return the scores of groups, each model under the other."""
    groups: dict[tuple[str, ...], dict[str, list[Projected]]] = {}
    for each in projected:
        groups.setdefault(key(each), {}).setdefault(each.model, []).append(each)
    models = [*MODELS, *dict.fromkeys(each.model for each in projected if each.model not in MODELS)]
    lines = [f"| {names} | model | {_HEADER}", "|---" * (names.count("|") + 2) + "|---" * _HEADER.count("|") + "|"]
    for group, by_model in groups.items():
        lines += [f"| {' | '.join(group)} | {name} | {_cells(by_model[name])} |" for name in models if name in by_model]
    return "\n".join(lines)


def _cells(projected: Sequence[Projected]) -> str:
    found = score(projected)
    shares = f"{found.mape:.1%} | {found.median:.1%} | {found.p90:.1%} | {found.bias:.2f}"
    if found.coverage is None or found.width is None:
        return f"{found.n} | {shares} | | "
    return f"{found.n} | {shares} | {found.coverage:.0%} | {found.width:.2f}"


def _worst(projected: Sequence[Projected], model: str) -> str:
    """Return the projections that are furthest off, one per kernel and pair of GPUs."""
    found: dict[tuple[str, ...], Projected] = {}
    for each in sorted(projected, key=lambda each: -abs(math.log(each.ratio))):
        pair = each.pair
        if each.model == model:
            found.setdefault((pair.set, pair.kernel, pair.source, pair.target), each)
    lines = ["| set | kernel | launch | from | to | source, µs | measured, µs | forecast, µs | ratio | limiter |"]
    lines.append("|---" * lines[0].count(" | ") + "|---|")
    for each in list(found.values())[:WORST]:
        pair = each.pair
        times = (pair.source_seconds, pair.seconds, each.seconds)
        shown = " | ".join(f"{time / MICROSECOND:.1f}" for time in times)
        place = f"{pair.set} | {pair.kernel} | {pair.size} | {pair.source} | {pair.target}"
        lines.append(f"| {place} | {shown} | {each.ratio:.2f} | {each.limiter} |")
    return "\n".join(lines)


def refused(outcomes: Sequence[Outcome]) -> str:
    """Say of how many pairs there is no projection, and why."""
    asked = sum(outcome.asked for outcome in outcomes)
    counts = Counter(
        (each.set, each.model, each.kernel, each.reason) for outcome in outcomes for each in outcome.refused
    )
    lines = [f"{asked} ordered pairs were asked of each model."]
    for name in MODELS:
        number = sum(count for key, count in counts.items() if key[1] == name)
        lines.append(f"- {name}: {number} refused ({number / max(1, asked):.1%})")
    lines += [f"- {count} x {of}, {kernel}, {name}: {why}" for (of, name, kernel, why), count in counts.most_common()]
    return "\n".join(lines)


def _record(each: Projected) -> dict[str, object]:
    pair = each.pair
    return {
        "set": pair.set, "kernel": pair.kernel, "size": pair.size, "source": pair.source, "target": pair.target,
        "source_seconds": pair.source_seconds, "measured_seconds": pair.seconds, "model": each.model,
        "seconds": each.seconds, "low": each.low, "high": each.high, "ratio": each.ratio, "limiter": each.limiter,
    }  # fmt: skip


if __name__ == "__main__":
    main()
