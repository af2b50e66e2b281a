"""NOUN FeatureTable: launches with what a profiler or the executor told of each, and the time measured."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Features and times of some launches, a row each; raises InputError for what is no number, or no time."""

    names: tuple[str, ...]
    """names of the features"""
    values: Floats
    """[launches, features]"""
    seconds: Floats
    """[launches] measured times"""
    kernels: tuple[str, ...]
    gpus: tuple[str, ...]
    configurations: tuple[str, ...]
    """[launches] grid, block, sizes and the like: labels that tell launches of a kernel apart, the same on all GPUs"""
    source: str
    """file that the table was read from"""
    sha256: str
    """digest of that file"""

    def __post_init__(self) -> None:
        rows = len(self.seconds)
        if self.values.shape != (rows, len(self.names)) or self.seconds.ndim != 1:
            raise InputError(
                f"{self.source}: {self.values.shape} values for {rows} times and {len(self.names)} features",
                cure="Give each launch all features and one time.",
            )
        if {len(self.kernels), len(self.gpus), len(self.configurations)} != {rows}:
            raise InputError(f"{self.source}: not every launch has kernel, GPU and configuration", cure="Name them.")
        self._check_numbers()

    def _check_numbers(self) -> None:
        wrong = np.argwhere(~np.isfinite(self.values))
        if len(wrong):
            row, column = (int(index) for index in wrong[0])
            raise InputError(
                f"{self.source}: {self.names[column]} of row {row} is not a finite number",
                cure="Leave out the row, or the feature.",
            )
        late = np.flatnonzero(~(np.isfinite(self.seconds) & (self.seconds > 0)))
        if late.size:
            raise InputError(
                f"{self.source}: the time of row {int(late[0])} is {self.seconds[late[0]]}", cure="Times are above 0."
            )

    def __len__(self) -> int:
        """Return the number of launches."""
        return len(self.seconds)

    def rows(self, which: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "FeatureTable":
        """Return some of the launches, by index or by mask."""
        index = np.arange(len(self))[which]
        return replace(
            self,
            values=self.values[index],
            seconds=self.seconds[index],
            kernels=tuple(self.kernels[i] for i in index),
            gpus=tuple(self.gpus[i] for i in index),
            configurations=tuple(self.configurations[i] for i in index),
        )

    def features(self, names: tuple[str, ...]) -> "FeatureTable":
        """Return the same launches with these features, in this order; raises InputError for one that is not there."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise InputError(
                f"{self.source} has no feature {', '.join(missing)[:200]}",
                cure=f"It has {', '.join(self.names)[:400]}.",
            )
        return replace(self, names=names, values=self.values[:, [self.names.index(name) for name in names]])
