"""Score the five models of average-case execution times on Rodinia's kernels, beside the numbers of their report.

Nothing is tuned: the settings are the recipe's. Prints Markdown: each GPU alone with rows held out, as published; then
all GPUs together with rows, configurations, kernels and GPUs held out. ``docs/average-case.md`` describes it.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kerncast.measurements.feature_table import FeatureTable
from kerncast.read.features.cleaning import CleaningRules
from kerncast.read.features.table_files import read_feature_table
from kerncast.report.pictures.picture_files import save_picture
from kerncast.report.training.pictures import draw_correlation, draw_fit, panels_of
from kerncast.report.training.scores_table import percent, title_of
from kerncast.studies.average_case import Outcome, Study, StudyPlan, study_of
from kerncast.studies.correlation import FeatureChoice, correlation, selection
from kerncast.studies.recipes import load_recipe
from kerncast.studies.splits import Split
from kerncast.units import MICROSECOND

RODINIA = Path(__file__).resolve().parent.parent.parent / "shared/data/gpuperfpredict/rodinia.parquet"
RULES = ("all", "selected", "published", "timeless")
#: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, Table 2: MAPE in % on one GPU, 767,655 records.
REPORT = {"linear": 2.79, "mlp": 13.29, "forest": 0.15, "linear-svr": 0.92, "rbf-svr": 1010.0}
RECIPE = load_recipe("acet")
_SEED = 0


def main() -> None:
    """Read, train, print, draw."""
    asked = _arguments()
    if not RODINIA.exists():
        print(f"rodinia: skipped, its measurements are not in {RODINIA.parent}.")
        return
    if asked.only_pictures:
        draw(asked.pictures)
        return
    whole = read_feature_table([RODINIA]).table
    table = whole if asked.full else sampled(whole, asked.share)
    print(f"Rodinia: {len(whole)} launches; {len(table)} of them where all GPUs are together.\n")
    print("\n".join(alone(whole.gpus, asked.features)))
    print("\n".join(together(table, asked.features)))
    if asked.pictures:
        draw(asked.pictures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--full", action="store_true", help="all launches where all GPUs are together: 20 minutes")
    parser.add_argument("--share", type=float, default=0.1, help="of the configurations, where not --full")
    parser.add_argument("--features", action="append", choices=RULES, help="all and timeless, where none is named")
    parser.add_argument("--pictures", type=Path, default=Path("out"), help="folder")
    parser.add_argument("--only-pictures", action="store_true", help="draw, and print no table")
    asked = parser.parse_args()
    asked.features = asked.features or ["all", "timeless"]
    return asked


def sampled(table: FeatureTable, share: float) -> FeatureTable:
    """Return the launches of some configurations, on all GPUs."""
    pairs = list(zip(table.kernels, table.configurations, strict=True))
    known = list(dict.fromkeys(pairs))
    drawn = np.random.default_rng(_SEED).permutation(len(known))[: round(share * len(known))]
    kept = {known[number] for number in drawn}
    return table.rows(np.array([pair in kept for pair in pairs]))


def alone(gpus: Sequence[str], rules: Sequence[str]) -> Iterator[str]:
    """Yield a table: rows held out on each GPU alone."""
    names = sorted(set(gpus))
    yield f"| each GPU alone, rows held out: MAPE | features | {' | '.join(names)} | report, one GPU |"
    yield f"|{'---|' * (len(names) + 3)}"
    for rule in rules:
        tables = [read_feature_table([RODINIA], CleaningRules(gpu=name)).table for name in names]
        studies = [
            _study(table, Split.ROWS, rule, f"{name}, {rule}") for table, name in zip(tables, names, strict=True)
        ]
        for outcomes in zip(*(study.outcomes for study in studies), strict=True):
            cells = " | ".join(percent(each.scores.mape) for each in outcomes)
            report = f"{REPORT[outcomes[0].name]:g} %" if outcomes[0].name in REPORT else ""
            yield f"| {title_of(outcomes[0])} | {rule} | {cells} | {report} |"
    yield f"\nn = {studies[0].outcomes[0].scores.n} launches held out of {len(tables[0])} on each GPU.\n"


def together(table: FeatureTable, rules: Sequence[str]) -> Iterator[str]:
    """Yield a table per set of features: all GPUs together, by what is held out."""
    for rule in rules:
        measures = "n | MAE µs | Max AE µs | RMSE µs | R2 | MAPE"
        yield f"| all GPUs together, features: {rule} | held out | {measures} | MAPE by fold |"
        yield f"|{'---|' * 9}"
        caveats: dict[str, None] = {}
        for split in Split:
            study = _study(table, split, rule, f"{split.value}, {rule}")
            yield from (_row(each, split) for each in study.outcomes)
            caveats |= dict.fromkeys(f"{split.value}: {said}" for each in study.outcomes for said in each.caveats)
        yield f"\n{'; '.join(caveats)}.\n"


def draw(folder: Path) -> None:
    """Draw the matrix and the fits of one GPU, as the report does, and the fits with GPUs held out."""
    folder.mkdir(exist_ok=True)
    table = read_feature_table([RODINIA], CleaningRules(gpu="Tesla-K40")).table
    strongest = tuple(each.name for each in selection(table, RECIPE))
    save_picture(draw_correlation(correlation(table), strongest), folder / "average-case-correlation.svg")
    study = _study(table, Split.ROWS, "all", "for the pictures")
    save_picture(draw_fit(panels_of(study)), folder / "average-case-rows.png")
    whole = sampled(read_feature_table([RODINIA]).table, 0.1)
    study = _study(whole, Split.GPUS, "all", "for the pictures")
    save_picture(draw_fit(panels_of(study)), folder / "average-case-gpus.png")


def _study(table: FeatureTable, split: Split, rule: str, what: str) -> Study:
    plan = StudyPlan(RECIPE, RECIPE.models, split, FeatureChoice.of(rule))
    return study_of(table, plan, keeps_models=False, progress=lambda text: print(f"{what}: {text}", file=sys.stderr))


def _row(outcome: Outcome, split: Split) -> str:
    scores = outcome.scores
    times = (f"{each / MICROSECOND:.3g}" for each in (scores.mae, scores.max_ae, scores.rmse))
    folds = [f"{fold.held_out} {percent(fold.scores.mape)}" for fold in outcome.folds]
    by_fold = ", ".join(folds) if len(folds) > 1 else ""
    numbers = " | ".join((str(scores.n), *times, f"{scores.r2:.4g}", percent(scores.mape), by_fold))
    return f"| {title_of(outcome)} | {split.value} | {numbers} |"


if __name__ == "__main__":
    main()
