"""``python -m tests.fuzz --seconds 600 --jobs 2``: fuzz all readers; status 1 where one fails."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.campaign import Finding, Plan, Row, run
from tests.fuzz.target import strictly, tried
from tests.fuzz.worker import targets

_COLUMNS = "{:20} {:>10} {:>10} {:>10} {:>8} {:>6} {:>8} {:>9}"


def main() -> int:
    """Return the exit status."""
    asked = _arguments()
    every = targets()
    unknown = set(asked.target) - set(every)
    if unknown:
        sys.exit(f"no target {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    names = asked.target or list(every)
    if asked.index is not None:
        return _again(names[0], asked.seed, asked.index, asked.keep)
    plan = Plan(asked.seed, seconds=asked.seconds * asked.jobs / len(names))
    sys.stdout.write(_line(("target", "inputs", "refused", "accepted", "defects", "hangs", "crashes", "inputs/s")))
    rows = []
    for row in run(names, plan, asked.jobs):
        rows.append(row)
        sys.stdout.write(_text(row))
        sys.stdout.flush()
    sys.stdout.write(_line(_sums(rows)))
    for each in (finding for row in rows for finding in row.findings):
        sys.stdout.write(_told(each, asked.seed))
    return 0 if all(row.is_clean for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument(
        "--seconds",
        type=float,
        default=600,
        help="time of all targets together; that of starting processes comes on top",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--target", action="append", default=[], metavar="NAME", help="this target only; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other inputs")
    parser.add_argument("--index", type=int, help="read this input of the target only, and show what happens")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the input of --index to a file")
    return parser.parse_args()


def _again(name: str, seed: int, index: int, keep: Path | None) -> int:
    target = targets()[name]
    data = target.input(seed, index)
    if keep is not None:
        keep.write_bytes(data)
    strictly()
    found = tried(target, data)
    sys.stdout.write(f"{name}, {len(data)} bytes: {found.verdict.value} in {found.seconds:.3f} s\n{found.trace}")
    return 1 if found.trace else 0


def _line(cells: Sequence[object]) -> str:
    return _COLUMNS.format(*(f"{each:,}" if isinstance(each, int) else each for each in cells)) + "\n"


def _text(row: Row) -> str:
    counts = row.counts
    cells = (row.target, row.inputs, counts.refused, counts.accepted, counts.defects, counts.hangs, row.crashes)
    return _line((*cells, round(row.inputs / row.seconds)))


def _sums(rows: Sequence[Row]) -> tuple[object, ...]:
    counts = [row.counts for row in rows]
    inputs, seconds = sum(row.inputs for row in rows), sum(row.seconds for row in rows)
    return (
        "all",
        inputs,
        sum(each.refused for each in counts),
        sum(each.accepted for each in counts),
        sum(each.defects for each in counts),
        sum(each.hangs for each in counts),
        sum(row.crashes for row in rows),
        round(inputs / seconds),
    )


def _told(found: Finding, seed: int) -> str:
    command = f"python -m tests.fuzz --target {found.target} --seed {seed} --index {found.index}"
    return f"\n{found.target} {found.verdict}: {command}\n{found.trace}"


if __name__ == "__main__":
    sys.exit(main())
