"""The split of launches for training and testing, and the scores of forecasts on the tested."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable

Rows = npt.NDArray[np.intp]
#: More groups than these are held out several at a time.
MOST_FOLDS = 10
_LEAST_ROWS = 2
_LEAST_GROUPS = 2


class Split(Enum):
    """The property that the launches of the test part do not share with those of the training part."""

    ROWS = "rows"
    """nothing is kept apart: both parts have launches of the same kernel, configuration and GPU"""
    CONFIGURATIONS = "configurations"
    """each pair of kernel and configuration is in one part, on all GPUs"""
    KERNELS = "kernels"
    GPUS = "gpus"


@dataclass(frozen=True, slots=True)
class Fold:
    """One training part and one test part, by row number."""

    held_out: str
    """launches of the test part in words, such as the name of a kernel"""
    train: Rows
    test: Rows


def folds_of(table: FeatureTable, split: Split, test_share: float = 0.2, seed: int = 0) -> tuple[Fold, ...]:
    """Return the folds: one for rows and configurations, one per kernel or GPU (ten at most) for the others.

    The same table and seed give the same folds; raises InputError where there is nothing to hold out.
    """
    chance = np.random.default_rng(seed)
    if split is Split.ROWS:
        return (_drawn(table, np.arange(len(table)), test_share, chance),)
    groups = _groups(table, split)
    if groups.max(initial=0) == 0:
        raise _of_one_group(table, split)
    if split is Split.CONFIGURATIONS:
        return (_drawn(table, groups, test_share, chance),)
    names = table.kernels if split is Split.KERNELS else table.gpus
    parts = _parts(groups, chance)
    return tuple(_fold(table, np.isin(groups, part), _named(names, groups, part)) for part in parts)


def group_folds(table: FeatureTable, split: Split, count: int, seed: int) -> tuple[Fold, ...]:
    """Return folds that hold out each group once, several at a time where there are more groups than folds.

    The same table and seed give the same folds; raises InputError where all launches are of one group.
    """
    groups = np.arange(len(table)) if split is Split.ROWS else _groups(table, split)
    found = int(groups.max(initial=0)) + 1
    if found < _LEAST_GROUPS:
        raise _of_one_group(table, split)
    drawn = np.random.default_rng(seed).permutation(found)
    parts = [np.sort(part) for part in np.array_split(drawn, min(count, found))]
    names = names_of_groups(table, split)
    is_named = split in {Split.KERNELS, Split.GPUS}
    return tuple(
        _fold(table, np.isin(groups, part), _named(names, groups, part) if is_named else f"part {number}")
        for number, part in enumerate(parts, 1)
    )


def names_of_groups(table: FeatureTable, split: Split) -> tuple[str, ...]:
    """Return the name of each launch's group: its kernel, GPU or configuration, or its number."""
    if split is Split.KERNELS:
        return table.kernels
    if split is Split.GPUS:
        return table.gpus
    if split is Split.CONFIGURATIONS:
        return tuple(f"{a} {b}" for a, b in zip(table.kernels, table.configurations, strict=True))
    return tuple(map(str, range(len(table))))


def drawn_evenly(table: FeatureTable, most: int, seed: int) -> Rows:
    """Return so many rows at most, in order, with as many of each kernel on each GPU as there are."""
    if len(table) <= most:
        return np.arange(len(table))
    order = np.random.default_rng(seed).permutation(len(table))
    seen: Counter[tuple[str, str]] = Counter()
    place = np.empty(len(table), np.intp)
    for row in order:
        pair = (table.kernels[row], table.gpus[row])
        place[row], seen[pair] = seen[pair], seen[pair] + 1
    return np.sort(order[np.argsort(place[order], kind="stable")][:most])


def _of_one_group(table: FeatureTable, split: Split) -> InputError:
    return InputError(
        f"all launches share one of the {split.value}: none can be held out",
        where=table.source,
        cure=f"Give launches of several {split.value}, or take --split rows.",
    )


def _groups(table: FeatureTable, split: Split) -> Rows:
    """Return the number of each launch's group, in the order in which the groups appear."""
    pairs = zip(table.kernels, table.configurations, strict=True)
    keys: Sequence[object] = {
        Split.CONFIGURATIONS: list(pairs),
        Split.KERNELS: table.kernels,
        Split.GPUS: table.gpus,
    }[split]  # fmt: skip
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.intp)


def _drawn(table: FeatureTable, groups: Rows, share: float, chance: np.random.Generator) -> Fold:
    """Hold out a share of the groups, drawn at random."""
    count = int(groups.max()) + 1
    held = chance.permutation(count)[: max(1, math.ceil(share * count))]
    return _fold(table, np.isin(groups, held), f"{share:.0%} at random")


def _parts(groups: Rows, chance: np.random.Generator) -> list[Rows]:
    count = int(groups.max()) + 1
    if count <= MOST_FOLDS:
        return [np.array([number]) for number in range(count)]
    return [np.sort(part) for part in np.array_split(chance.permutation(count), MOST_FOLDS)]


def _fold(table: FeatureTable, is_test: npt.NDArray[np.bool_], name: str) -> Fold:
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    if len(train) < _LEAST_ROWS or len(test) < 1:
        raise InputError(
            f"{len(train)} launches are left to learn from with {name} held out", where=table.source,
            cure="Give more launches.",
        )  # fmt: skip
    return Fold(name, train, test)


def _named(names: Sequence[str], groups: Rows, part: Rows) -> str:
    firsts = [int(np.flatnonzero(groups == group)[0]) for group in part]
    return ", ".join(names[row] for row in firsts)
