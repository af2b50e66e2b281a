"""Run random PTX programs on both engines, in child processes, and reduce what they disagree about.

    python tools/fuzz_engines.py --minutes 60 --seed 0 --out found

A crash of the interpreter is seen here, and the seed that it happened with is known. Every disagreement is reduced to
few lines and written to ``--out``, with its seed.
"""

import argparse
import dataclasses
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.helpers.random_ptx import RandomProgram, compare, random_program  # noqa: E402  its folder is known only now

_PROGRAMS_PER_CHILD = 100
_SECONDS_PER_PROGRAM = 120
_SECONDS_TO_REDUCE = 300


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the others follow")
    parser.add_argument("--out", type=Path, default=Path("found"), help="folder for what is found")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.child is None:
        watch(arguments.seed, time.monotonic() + 60 * arguments.minutes, arguments.out)
    else:
        run_programs(range(arguments.seed, arguments.seed + arguments.child), arguments.out)


def watch(seed: int, deadline: float, out: Path) -> None:
    """Start one child after the other until the time is over; each says which program it is at."""
    totals: Counter[str] = Counter()
    while time.monotonic() < deadline:
        command = [
            sys.executable,
            __file__,
            "--seed",
            str(seed),
            "--child",
            str(_PROGRAMS_PER_CHILD),
            "--out",
            str(out),
        ]
        last = seed
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout
            for line in child.stdout:
                word, _, rest = line.strip().partition(" ")
                if word == "at":
                    last = int(rest)
                elif word == "end":
                    totals[rest] += 1
                else:
                    print(line.rstrip(), flush=True)
                if time.monotonic() > deadline:
                    child.kill()
                    break
        if child.returncode and time.monotonic() < deadline:
            totals["crash"] += 1
            print(f"crash: seed {last}, exit status {child.returncode}", flush=True)
            (out / f"crash_{last}.ptx").write_text(random_program(last).text, encoding="utf-8")
        seed = last + 1
        print(f"up to seed {seed}: {dict(totals)}", flush=True)


def run_programs(seeds: range, out: Path) -> None:
    """Compare the engines on these programs."""
    for seed in seeds:
        print(f"at {seed}", flush=True)
        program = random_program(seed)
        start = time.monotonic()
        kind, difference = compare(program)
        seconds = time.monotonic() - start
        print(f"end {kind}{' SLOW' if seconds > _SECONDS_PER_PROGRAM else ''}", flush=True)
        if difference:
            print(f"seed {seed}: {difference[:200]}", flush=True)
            (out / f"seed_{seed}.ptx").write_text(reduced(program, difference), encoding="utf-8")


def reduced(program: RandomProgram, difference: str) -> str:
    """Take lines out for as long as the engines go on to disagree about the same thing, and the time allows."""
    deadline = time.monotonic() + _SECONDS_TO_REDUCE
    wanted = difference.split(":", maxsplit=1)[0]
    lines = program.text.splitlines()

    def still_differs(rest: list[str]) -> bool:
        found = compare(dataclasses.replace(program, text="\n".join(rest) + "\n"))[1]
        return found is not None and found.split(":")[0] == wanted

    size = len(lines) // 2
    while size:
        start = 0
        while start < len(lines) and time.monotonic() < deadline:
            rest = lines[:start] + lines[start + size :]
            if still_differs(rest):
                lines = rest
            else:
                start += size
        size //= 2
    head = f"// {difference}\n// grid {program.grid}, block {program.block}, {program.hazard or 'no hazard'}\n"
    return head + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
