"""What a profiler's file says of one kernel: the mean of each metric over its launches."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kerncast.errors import InputError
from kerncast.read.bounded_text import read_text, starts_with
from kerncast.read.launch_columns import Columns, csv_columns
from kerncast.read.ncu_report import SIGNATURE
from kerncast.read.profiled_columns import profiled_columns, report_columns

_KERNEL = "kernel"
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ProfiledMeans:
    """Metrics of one kernel in base units, by their profiler's names."""

    names: tuple[str, ...]
    values: tuple[float, ...]

    def of(self, names: tuple[str, ...]) -> tuple[float, ...]:
        """Return the values of these metrics; raises ValueError for one that is not there."""
        return tuple(self.values[self.names.index(name)] for name in names)


def read_profiled_means(path: Path) -> ProfiledMeans:
    """Return the metrics that every launch of a file has; raises InputError where it holds several kernels."""
    table = _columns(path)
    kernels = tuple(dict.fromkeys(table.texts(_KERNEL))) if _KERNEL in table.names else ()
    if len(kernels) > 1:
        shown = ", ".join(name[:40] for name in kernels[:_MOST_SHOWN])
        raise InputError(
            f"it has {len(kernels)} kernels ({shown}…)", where=str(path), cure="Profile one: ncu -k regex:NAME."
        )
    numbers = {name: table.numbers(name) for name in table.names if not table.is_text(name)}
    means = {name: float(cells.mean()) for name, cells in numbers.items() if cells.size and np.isfinite(cells).all()}
    return ProfiledMeans(tuple(means), tuple(means.values()))


def _columns(path: Path) -> Columns:
    if starts_with(path, SIGNATURE):
        return report_columns(path)
    text = read_text(path)
    return profiled_columns(text, str(path)) or csv_columns(text, str(path))
