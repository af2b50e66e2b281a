"""Score the intervals of trained models on Rodinia: each kernel, then each GPU, is kept from a model that forecasts it.

The model knows nothing of what is kept from it: its errors are measured on what it has, as ``kerncast train`` does.
Prints Markdown: the share of measured times inside the interval, and its median factor (``docs/average-case.md``).
"""

import argparse
import math
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kerncast.gpu import load_gpu
from kerncast.measurements.feature_table import FeatureTable
from kerncast.models import Question
from kerncast.models.learned.forecasts import FeatureRow, LearnedModel
from kerncast.prediction import Prediction
from kerncast.read.features.table_files import read_feature_table
from kerncast.studies.average_case import StudyPlan, study_of
from kerncast.studies.correlation import FeatureChoice
from kerncast.studies.learning.kept_models import Origin, model_file
from kerncast.studies.recipes import load_recipe
from kerncast.studies.splits import Split, drawn_evenly

RODINIA = Path("../shared/data/gpuperfpredict/rodinia.parquet")
RECIPE = load_recipe("acet")
#: Stand-ins for the five GPUs of the data: only their names count.
GPUS = {"GTX-680": "gtx-680", "GTX-980": "gtx-980", "Tesla-K20": "k20", "Tesla-K40": "k40", "Titan": "gtx-titan"}
LEVELS = (0.5, 0.8, 0.9)


def main() -> None:
    """Read, train without each kernel and each GPU, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=RODINIA)
    parser.add_argument("--launches", type=int, default=1500)
    parser.add_argument("--features", default="published")
    asked = parser.parse_args()
    if not asked.data.exists():
        print(f"rodinia: skipped, its measurements are not in {asked.data.parent}.")
        return
    whole = read_feature_table([asked.data]).table
    table = whole.rows(drawn_evenly(whole, asked.launches, 0))
    heading = " | ".join(f"within {level:.0%}" for level in LEVELS)
    print(f"{len(table)} launches, {asked.features} features.\n")
    print(f"| model | kept from it | launches | refused | {heading} | median factor at 90% |\n|{'---|' * 8}")
    for model in RECIPE.models:
        for split, names in ((Split.KERNELS, table.kernels), (Split.GPUS, table.gpus)):
            print(_row(model.name, split, names, table, asked.features), flush=True)


def _row(name: str, split: Split, names: tuple[str, ...], table: FeatureTable, features: str) -> str:
    logs = list(_errors(name, names, table, features))
    known = [each for each in logs if each is not None]
    held = [f"{np.mean([error <= widths[level] for error, widths in known]):.0%}" for level in LEVELS]
    factor = math.exp(float(np.median([widths[0.9] for _, widths in known])))
    refused = len(logs) - len(known)
    return f"| {name} | {split.value} | {len(logs)} | {refused} | {' | '.join(held)} | {factor:.3g} |"


def _errors(
    name: str, names: tuple[str, ...], table: FeatureTable, features: str
) -> Iterator[tuple[float, dict[float, float]] | None]:
    """Yield of each launch |ln(measured / forecast)| and the half width of its interval at each level."""
    for kept in sorted(set(names)):
        is_kept = np.array([each == kept for each in names])
        plan = StudyPlan(RECIPE, (RECIPE.model(name),), Split.ROWS, FeatureChoice.of(features))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            study = study_of(table.rows(~is_kept), plan)
        file = model_file(study, study.models[0], Origin((), ()))
        test = table.rows(is_kept).features(file.header.features)
        rows = [
            FeatureRow(kernel, row, load_gpu(GPUS[gpu]), tuple(test.values[row].tolist()))
            for row, (kernel, gpu) in enumerate(zip(test.kernels, test.gpus, strict=True))
        ]
        found = {level: list(LearnedModel(file, name, Question(level=level)).forecasts(rows)) for level in LEVELS}
        for row, seconds in enumerate(test.seconds.tolist()):
            each = {level: found[level][row] for level in LEVELS}
            widths = {level: math.log(p.high / p.seconds) for level, p in each.items() if isinstance(p, Prediction)}
            first = each[LEVELS[0]]
            yield (abs(math.log(seconds / first.seconds)), widths) if isinstance(first, Prediction) else None


if __name__ == "__main__":
    main()
