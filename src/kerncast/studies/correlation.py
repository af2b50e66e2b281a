"""The correlation of features with the time, and the choice of those that a model learns from."""

from dataclasses import dataclass

import numpy as np

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.models.learned.launch_features import can_execute
from kerncast.models.learned.residual import NAMES
from kerncast.read.features.columns import derived
from kerncast.studies.recipes import Recipe

# How features go with one another and with the time, by Pearson and Spearman, and which are chosen for it.
#
# Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, sections 3.1 and 3.2: five of 32 features,
# chosen by a correlation matrix; the rule is ours, as the report gives none.


TIME = "time"


@dataclass(frozen=True, slots=True)
class Correlation:
    """Both correlations of all features and the time with one another; 0 for what is constant."""

    names: tuple[str, ...]
    """features in the order of the table, then the time"""
    pearson: Floats
    """[names, names] Pearson's correlation: closeness to a line"""
    spearman: Floats
    """[names, names] Spearman's correlation: Pearson's of the ranks"""

    @property
    def strength(self) -> Floats:
        """The larger of both, without sign."""
        return np.maximum(np.abs(self.pearson), np.abs(self.spearman))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A feature and why it was taken, or left out."""

    name: str
    with_time: float
    """strength of the correlation with the time"""
    because_of: str | None
    """stronger feature that this one repeats; None where it was taken, or goes too little with the time"""
    is_taken: bool


def correlation(table: FeatureTable) -> Correlation:
    """Return the correlations of a table.

    >>> values, names = np.array([[1.0, 9], [2, 4], [3, 1]]), [("",) * 3] * 3
    >>> found = correlation(FeatureTable(("a", "b"), values, np.array([1.0, 8, 27]), *names, "", ""))
    >>> found.pearson[0].round(3).tolist(), found.spearman[2].round(3).tolist()
    ([1.0, -0.99, 0.966], [1.0, -1.0, 1.0])
    """
    columns = np.column_stack([table.values, table.seconds])
    ranks = np.column_stack([_ranks(column) for column in columns.T])
    return Correlation((*table.names, TIME), _pearson(columns), _pearson(ranks))


def select(found: Correlation, least_with_time: float, most_between: float) -> tuple[Chosen, ...]:
    """Return all features, the strongest with the time first, and which are taken.

    One is taken if it goes with the time by ``least_with_time`` at least, and with each taken before it by
    ``most_between`` at most.
    """
    strength = found.strength
    time = len(found.names) - 1
    taken: list[int] = []
    chosen = []
    for column in np.argsort(-strength[:time, time], kind="stable"):
        with_time = float(strength[column, time])
        repeated = next((other for other in taken if strength[column, other] > most_between), None)
        is_taken = with_time >= least_with_time and repeated is None
        if is_taken:
            taken.append(int(column))
        because = found.names[repeated] if repeated is not None else None
        chosen.append(Chosen(found.names[column], with_time, because, is_taken))
    return tuple(chosen)


def _pearson(columns: Floats) -> Floats:
    """Return the correlation of columns [rows, columns] with one another."""
    centred = columns - columns.mean(axis=0)
    largest = np.abs(centred).max(axis=0)
    scaled = centred / np.where(largest > 0, largest, 1)
    norms = np.sqrt((scaled**2).sum(axis=0))
    unit = scaled / np.where(norms > 0, norms, 1)
    matrix: Floats = np.clip(unit.T @ unit, -1, 1)
    np.fill_diagonal(matrix, 1)
    return matrix


def _ranks(values: Floats) -> Floats:
    """Return ranks from 1, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = ((last - counts + 1 + last) / 2)[inverse]
    return ranks


ALL, SELECTED, PUBLISHED, TIMELESS, EXECUTED = "all", "selected", "published", "timeless", "executed"
#: Rules by name; what is none of them is a list of features.
RULES = (ALL, SELECTED, PUBLISHED, TIMELESS, EXECUTED)


@dataclass(frozen=True, slots=True)
class FeatureChoice:
    """A rule by name, or features by name."""

    rule: str
    """all, selected, published, timeless (without what follows from the time or from cycles), executed (what the
    execution of a launch tells), or named"""
    names: tuple[str, ...] = ()
    """names of the features; empty unless the rule is named"""

    @classmethod
    def of(cls, text: str) -> "FeatureChoice":
        """Return the choice that a text means: a rule, or names with commas between them.

        >>> FeatureChoice.of("selected").rule, FeatureChoice.of("a, b").names
        ('selected', ('a', 'b'))
        """
        if text in RULES:
            return cls(text)
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        if not names or len(set(names)) < len(names):
            what = "names one twice" if names else "is empty"
            raise InputError(f"--features {what}", cure=f"Give {', '.join(RULES)}, or names with commas between them.")
        return cls("named", names)

    def __str__(self) -> str:
        return ",".join(self.names) if self.names else self.rule


def chosen_features(table: FeatureTable, choice: FeatureChoice, recipe: Recipe) -> tuple[str, ...]:
    """Return the features by name; raises InputError where a rule leaves none."""
    if recipe.base is not None:
        return _of_residuals(table, choice, recipe.base)
    if choice.rule == PUBLISHED:
        return recipe.published_among(table.names, table.source)
    found = {
        ALL: lambda: table.names,
        TIMELESS: lambda: tuple(name for name in table.names if derived(name) is None),
        EXECUTED: lambda: tuple(name for name in table.names if can_execute(name)),
        SELECTED: lambda: tuple(each.name for each in selection(table, recipe) if each.is_taken),
    }.get(choice.rule, lambda: choice.names)()
    if not found:
        what = f"--features {choice.rule} leaves none of {len(table.names)} features"
        raise InputError(what, where=table.source, cure="Take --features all, or name some.")
    return found


def _of_residuals(table: FeatureTable, choice: FeatureChoice, base: str) -> tuple[str, ...]:
    """Return the features of a residual that a table has, or those that are named, with the simulated time."""
    if base not in table.names or choice.rule not in {ALL, "named"}:
        what = f"it lacks {base}, the simulated time" if base not in table.names else f"--features is {choice.rule}"
        cure = "Take a table that kerncast study zero-shot --rows wrote, and --features all or names."
        raise InputError(what, where=table.source, cure=cure)
    names = choice.names or NAMES
    return tuple(name for name in NAMES if name in table.names and (name in names or name == base))


def selection(table: FeatureTable, recipe: Recipe) -> tuple[Chosen, ...]:
    """Return all features by the recipe's rule of selection, the strongest first."""
    return select(correlation(table), recipe.least_with_time, recipe.most_between)
