"""NOUN Tuning: the settings of a model that cross-validation chose, and how all that were tried did."""

from dataclasses import dataclass

Setting = str | int | float | tuple[int, ...]
Settings = tuple[tuple[str, Setting], ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """The errors of one choice of settings."""

    settings: Settings
    """settings that differ between the choices, by scikit-learn's names"""
    log_error: float
    """mean of |ln(measured / forecast)| over the launches of a fold, then over the folds"""
    by_fold: tuple[float, ...]
    """the same of each fold"""


@dataclass(frozen=True, slots=True)
class Tuning:
    """A grid of settings, scored by cross-validation on the launches that the model learned from."""

    grouped_by: str
    """what launches of a fold share with none outside it: kernels, configurations or rows"""
    held_out: tuple[str, ...]
    """kernels of each fold, or another name for its group"""
    launches: int
    """launches that were cross-validated"""
    tried: tuple[Tried, ...]
    """every choice of the grid, the published settings first"""
    chosen: Settings

    @property
    def best(self) -> Tried:
        """The choice with the least error."""
        return min(self.tried, key=lambda each: each.log_error)
