"""The tables and pictures of the published convolution model, beside the numbers that its paper prints."""

import csv
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.places import ROOT

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a script of the folder as its siblings do."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


def test_the_sweeps_are_the_given_ones(load: Load) -> None:
    blocks, channels = load("score_convolution").sweeps()
    assert blocks.values == (4, 8, 16, 32)
    assert channels.values == (2, 4, 8, 16, 32, 64, 128, 256, 512)
    assert channels.points[-1].seconds == pytest.approx(9.9316e-3)
    assert {point.channels for point in blocks.points} == {32}


def test_errors_are_those_that_the_paper_prints(load: Load) -> None:
    module = load("score_convolution")
    with (ROOT / "tests" / "golden" / "layer_convolution_printed.csv").open(encoding="utf-8", newline="") as text:
        printed = list(csv.DictReader(text))
    columns = ("flops_error", "int_ops_error", "ops_error", "execution_error", "tops_error")
    for sweep in module.sweeps():
        rows = [row for row in printed if row["sweep"] == sweep.parameter]
        for column, errors in zip(columns, module.errors_of(sweep).values(), strict=True):
            expected = [float(row[column].rstrip("%")) for row in rows]
            assert [100 * error for error in errors] == pytest.approx(expected, abs=0.021), column


def test_the_report_scores_each_model(load: Load) -> None:
    module = load("score_convolution")
    for sweep, mape in zip(module.sweeps(), ("20.1%", "108.2%"), strict=True):
        simulated = {(point.block, point.channels): 2 * point.seconds for point in sweep.points}
        text = module.report(sweep, simulated)
        assert f"| convolution | {len(sweep.points)} | {mape} |" in text
        assert f"| simulation | {len(sweep.points)} | 100.0% |" in text
        values, _, _ = text.partition("| model |")
        assert {line.count("|") for line in values.splitlines() if line.startswith("|")} == {len(sweep.points) + 3}
        assert "simulation" not in module.report(sweep, {})


def test_the_document_has_the_numbers_of_the_script(load: Load) -> None:
    """Every row of times in the document is one that the script prints."""
    module = load("score_convolution")
    document = (ROOT / "docs" / "convolution.md").read_text(encoding="utf-8")
    for sweep in module.sweeps():
        printed = {re.sub(r"^\|[^|]*\|[^|]*\|", "", row) for row in module.report(sweep, {}).splitlines()}
        heading = document.index(f"| | {sweep.parameter} |")
        table = document[heading : document.index("\n\n", heading)].splitlines()[2:]
        rows = [re.sub(r"^\|[^|]*\|[^|]*\|", "", row) for row in table if not row.startswith("| simulation")]
        assert len(rows) >= 10
        assert set(rows) <= printed


def test_pictures_are_drawn(load: Load, tmp_path: Path) -> None:
    module = load("score_convolution")
    for sweep in module.sweeps():
        path = tmp_path / f"{sweep.parameter}.svg"
        module.draw(sweep, {}, path)
        text = path.read_text(encoding="utf-8")
        assert "convolution-latency" in text
        assert "simulation" not in text
