"""Score forecasts of kernels that are counted by their text, as if they could not be executed, beside measured times.

Each launch of the sets of ``docs/timing-validation.md`` is forecast twice: with its counts by text, and simulated.
``--json`` writes records for ``tools/calibrate_interval.py --model static-roofline``. Nothing is fitted here.
"""

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from score_timing import record_of
from timing_cases import read_clocks
from timing_convolutions import SETS, read_cases
from timing_runs import Plan, Scored, Unit, forecast_unit, known_gpus, run, units

from kerncast.errors import NotExecutedError
from kerncast.forecast import compiled_launch
from kerncast.models import DEFAULT_MODEL, MODEL_OF_TEXT

#: Sets of which a table by their names may be printed and kept: NOT_FITTED of the calibration is left out.
_SETS = [name for name in SETS if name not in {"sixteen", "streams"}]


def main() -> None:
    """Read, forecast, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=_SETS, metavar="SET", help=", ".join(_SETS))
    parser.add_argument("--sample", type=int, default=12, metavar="N", help="launches of each set")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="one record per case")
    asked = parser.parse_args()
    cases = read_cases(asked.only or _SETS, asked.sample, full=False)
    gpus, _ = known_gpus(cases)
    work = units(cases, gpus, read_clocks())
    if not work:
        sys.exit("Nothing is left to score.")
    scored = list(run(work, Plan(DEFAULT_MODEL), asked.jobs, by_text))
    if asked.json:
        asked.json.write_text(json.dumps([record_of(each) for each in scored], indent=1), encoding="utf-8")
    print(report(scored))


def by_text(unit: Unit, plan: Plan) -> list[Scored]:
    """Forecast one launch by the counts of its text, and by the simulation."""
    simulated = forecast_unit(unit, plan)
    refusal = NotExecutedError("taken as not executed")
    os.environ["KERNCAST_CACHE"] = "off"  # what was executed before would be remembered
    with patch.object(compiled_launch, "run_launch", side_effect=refusal):
        counted = forecast_unit(unit, replace(plan, model=MODEL_OF_TEXT))
    del os.environ["KERNCAST_CACHE"]
    return [
        replace(one, predictions=(*(p for p in one.predictions if p.model == MODEL_OF_TEXT), *other.predictions))
        for one, other in zip(counted, simulated, strict=True)
    ]


def report(scored: Sequence[Scored]) -> str:
    """Return a table: by set, how far the counts by text are from measured and from simulated times."""
    heading = "| set | n | refused | median error | median of ratios | in interval | simulation's median error |"
    lines = [heading, "|---" * 7 + "|"]
    for of in [*dict.fromkeys(each.case.set for each in scored), "all"]:
        rows = [each for each in scored if of in {each.case.set, "all"}]
        pairs = [({p.model: p for p in each.predictions}, each.case.seconds) for each in rows]
        known = [(found[MODEL_OF_TEXT], t, found.get(DEFAULT_MODEL)) for found, t in pairs if MODEL_OF_TEXT in found]
        if not known:
            lines.append(f"| {of} | 0 | {len(rows)} | | | | |")
            continue
        ratios = [p.seconds / t for p, t, _ in known]
        held = statistics.mean(p.low <= t <= p.high for p, t, _ in known)
        other = [abs(s.seconds / t - 1) for _, t, s in known if s] or [math.nan]
        error = statistics.median(abs(r - 1) for r in ratios)
        lines.append(
            f"| {of} | {len(known)} | {len(rows) - len(known)} | {error:.0%} | {statistics.median(ratios):.2f}"
            f" | {held:.0%} | {statistics.median(other):.0%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
