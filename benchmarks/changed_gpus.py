"""Does a GPU with one changed value move the forecast as the real GPU with that value moved the measured times?

For pairs of real GPUs of which the development data has the same launches: the first GPU with the other's value of the
changed key (docs/adding.md, "A GPU that does not exist") is forecast beside the first GPU itself.
"""

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from timing_cases import Case, read_clocks
from timing_convolutions import read_cases
from timing_runs import at, compile_kept, load_known

from kerncast.errors import KerncastError
from kerncast.execute import Budget
from kerncast.forecast import Options, compiled_launch, forecast_all
from kerncast.gpu import GPU, load_gpu

_TARGET = 0.08


@dataclass(frozen=True, slots=True)
class Change:
    """A GPU that becomes like another one by one value."""

    base: str
    like: str
    keys: str
    """lines of the file, below ``from``"""
    sets: tuple[str, ...]


CHANGES = (
    Change("a100-sxm-40gb", "a100-sxm-80gb", "[peak]\ndram_gb_per_s = 2039.0", ("streams",)),
    Change("titan-rtx", "rtx-2080-ti", "[peak]\nsm_count = 68", ("convolution-2023", "gemm")),
)
_NO_DATA = "RTX 3080 to RTX 3090: no launch was measured on both (HeCBench on the 3080, convolutions on the 3090)."


@dataclass(frozen=True, slots=True)
class Moved:
    """By what factor a change moves one launch."""

    measured: float
    forecast: float

    @property
    def error(self) -> float:
        """How far the forecast's factor is off the measured one."""
        return abs(self.forecast / self.measured - 1)


def main() -> None:
    """Print a row per pair and set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sample", type=int, metavar="N", help="launches of each set, instead of its own number")
    asked = parser.parse_args()
    print("| from | to | changed | set | n | measured x | forecast x | median off | largest | within 8 % |")
    print("|---" * 10 + "|")
    for change in CHANGES:
        for of in change.sets:
            found = list(moved(change, read_cases([of], asked.sample, full=False), of))
            print(_row(change, of, found) if found else f"{of}: skipped, its measurements are not at hand.")
    print(f"\n{_NO_DATA}")


def _row(change: Change, of: str, found: Sequence[Moved]) -> str:
    measured, forecast = (
        math.exp(float(np.mean([math.log(getattr(each, name)) for each in found]))) for name in ("measured", "forecast")
    )
    errors = [each.error for each in found]
    within = sum(error <= _TARGET for error in errors)
    changed = change.keys.splitlines()[-1]
    numbers = f"{measured:.3f} | {forecast:.3f} | {np.median(errors):.1%} | {max(errors):.1%} | {within}"
    return f"| {change.base} | {change.like} | {changed} | {of} | {len(found)} | {numbers} |"


def moved(change: Change, cases: Sequence[Case], of: str) -> Iterator[Moved]:
    """Yield a launch each that was measured on both GPUs; the clock is that of the first GPU in both forecasts."""
    clock = read_clocks().get((of, change.base), "default")
    base, changed = (at(gpu, clock) for gpu in (load_known(change.base), _changed(change)))
    by_launch: dict[tuple[str, str], dict[str, Case]] = {}
    for case in cases:
        by_launch.setdefault((case.kernel, case.size), {})[case.gpu] = case
    for pair in by_launch.values():
        if change.base in pair and change.like in pair:
            forecasts = _forecast(pair[change.base], base, changed)
            if forecasts:
                yield Moved(pair[change.like].seconds / pair[change.base].seconds, forecasts[1] / forecasts[0])


def _changed(change: Change) -> GPU:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "changed.toml"
        path.write_text(f'from = "{change.base}"\n{change.keys}\n', encoding="utf-8")
        return load_gpu(path)


def _forecast(case: Case, base: GPU, changed: GPU) -> tuple[float, ...]:
    """Return the times on both GPUs; empty where the launch is refused."""
    options = Options(timing=case.timing, budget=Budget.for_sample(0.5))
    with patch.object(compiled_launch, "compile_launch", compile_kept):
        try:
            found = forecast_all(case.launch, [(base, ()), (changed, ())], options)
        except KerncastError:
            return ()
    times = {each.gpu_id: each.seconds for each in found.predictions if each.model == "simulation"}
    return (times[base.id], times[changed.id]) if len(times) == 2 else ()


if __name__ == "__main__":
    main()
