"""The errors of a model on launches that are new to it in each way: other configurations, kernels and GPUs."""

from collections.abc import Callable, Iterator

import numpy as np

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable
from kerncast.models.learned.reach import SplitErrors, split_errors
from kerncast.studies.learning.training import train
from kerncast.studies.recipes import ModelRecipe, Recipe
from kerncast.studies.splits import Split, drawn_evenly, folds_of, group_folds, names_of_groups

#: Launches that the errors are measured on beside those of the study's own split, and folds: as many trainings.
MOST_LAUNCHES = 1_000
FOLDS = 5


def errors_of_others(
    recipe: ModelRecipe, table: FeatureTable, but: Split, of: Recipe, say: Callable[[str], None]
) -> Iterator[SplitErrors]:
    """Yield the errors of a model by each split but one; those of which nothing can be held out are left out.

    The launches are drawn evenly, so that each kernel and GPU counts alike, however often it was launched.
    """
    drawn = table.rows(drawn_evenly(table, MOST_LAUNCHES, of.seed))
    for split in Split:
        if split is but:
            continue
        is_of_names = split in {Split.KERNELS, Split.GPUS}
        try:
            folds = (
                group_folds(drawn, split, FOLDS, of.seed)
                if is_of_names
                else folds_of(drawn, split, of.test_share, of.seed)
            )
        except InputError:  # all launches share it
            continue
        say(f"errors of {recipe.name} on {split.value} held out")
        found = [
            train(recipe, drawn.rows(fold.train), of.seed).trained.seconds(drawn.values[fold.test]) for fold in folds
        ]
        tested = drawn.rows(np.concatenate([fold.test for fold in folds]))
        yield split_errors(split.value, tested.seconds, np.concatenate(found), names_of_groups(tested, split))
