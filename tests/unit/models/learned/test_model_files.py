"""Model files: there and back, the same bytes again, and nothing but an error from what is damaged or hostile."""

import io
import json
import math
import pickle
import random
import re
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kerncast.errors import InputError
from kerncast.models.learned import model_files
from kerncast.models.learned.model_files import ModelFile, read_model, write_model
from kerncast.read.features import DataFile
from kerncast.studies.average_case import StudyPlan, study_of
from kerncast.studies.correlation import FeatureChoice
from kerncast.studies.learning.kept_models import Origin, model_file
from kerncast.studies.recipes import ModelRecipe, load_recipe
from kerncast.studies.splits import Split
from tests.helpers.learned_tables import linear_table

TABLE = linear_table(60, noise=0.05)
BOOSTED = ModelRecipe("boosted", "Boosted", "HistGradientBoostingRegressor", False, False, (("max_iter", 20),), None)
NAMES = ("linear", "mlp", "forest", "linear-svr", "rbf-svr")
FIELDS = (
    "format format_version recipe model form features data gpus kernels rows learned_from split seed scores caveats"
    " command versions check reach tuning base"
)


def made(*names: str) -> tuple[ModelFile, ...]:
    recipe = load_recipe("acet")
    plan = StudyPlan(recipe, tuple(recipe.model(name) for name in names), Split.ROWS, FeatureChoice.of("all"))
    study = study_of(TABLE, plan)
    origin = Origin((DataFile("launches.csv", "ab" * 32),), ("--gpu", "GTX 980"))
    return tuple(model_file(study, model, origin) for model in study.models)


@cache
def model_of(name: str) -> ModelFile:
    """Return a model that is trained for all tests, not while these are collected."""
    return made(name)[0]


@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(tmp_path: Path, name: str) -> None:
    first, second = tmp_path / "a.kcm", tmp_path / "b.kcm"
    write_model(first, model_of(name))
    model = read_model(first)
    assert model.header == model_of(name).header
    assert model.seconds(TABLE.values).tolist() == model_of(name).seconds(TABLE.values).tolist()
    write_model(second, model)
    assert second.read_bytes() == first.read_bytes()


@pytest.mark.parametrize("name", ["mlp", "forest"])
def test_the_same_data_and_recipe_give_the_same_bytes(tmp_path: Path, name: str) -> None:
    write_model(tmp_path / "a.kcm", model_of(name))
    write_model(tmp_path / "b.kcm", made(name)[0])
    assert (tmp_path / "a.kcm").read_bytes() == (tmp_path / "b.kcm").read_bytes()


def test_the_header_tells_how_it_was_made(tmp_path: Path) -> None:
    write_model(tmp_path / "a.kcm", model_of("forest"))
    with zipfile.ZipFile(tmp_path / "a.kcm") as archive:
        header = json.loads(archive.read("header.json"))
        assert set(archive.namelist()) == {
            *("header.json", "roots.npy", "right.npy", "feature.npy", "threshold.npy"),
        }
    assert list(header) == FIELDS.split()
    assert (header["format"], header["format_version"], header["form"]) == ("kerncast model", "1.2", "Forest")
    assert header["data"] == [{"name": "launches.csv", "sha256": "ab" * 32}]
    assert header["command"] == (
        "kerncast train --recipe acet launches.csv --model forest --split rows --features all --gpu 'GTX 980'"
        " --out forest.kcm"
    )
    assert set(header["versions"]) == {"kerncast", "python", "sklearn", "numpy"}
    assert header["scores"]["rmse"] == pytest.approx(math.sqrt(header["scores"]["mse"]))
    assert len(header["check"]["seconds"]) == 8


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None], name: str = "linear") -> Path:
    """Write a model whose entries were changed."""
    write_model(path, model_of(name))
    with zipfile.ZipFile(path) as archive:
        entries = {each: archive.read(each) for each in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, content in entries.items():
            archive.writestr(each, content)
    return path


def array(values: object, kind: str = "<f8") -> bytes:
    raw = io.BytesIO()
    np.save(raw, np.array(values, kind), allow_pickle=True)
    return raw.getvalue()


def header_with(**fields: object) -> Callable[[dict[str, bytes]], None]:
    def change(entries: dict[str, bytes]) -> None:
        header = json.loads(entries["header.json"]) | fields
        entries["header.json"] = json.dumps(header).encode()

    return change


def entry(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda entries: entries.update({name: content})


HEADER = "header.json"
SCORES = {"n": 1, "mae": 1, "max_ae": 1, "mse": 1, "r2": None, "mape": 1}
HOSTILE = [
    (entry("coefficients.npy", array([1, 2, 3])), "does not give the forecasts"),
    (entry("coefficients.npy", array([1, 2])), "takes another number of features"),
    (entry("coefficients.npy", array([1, math.nan, 3])), "a number that is not finite"),
    (entry("coefficients.npy", array([None], "O")), "holds no numbers of a model"),
    (entry("coefficients.npy", array([1, 2, 3])[:-4]), "is cut off"),
    (
        entry(
            "coefficients.npy",
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (9" + b"9" * 90,
        ),
        "holds no numbers of a model",
    ),
    (entry("features.deviation.npy", array([0, 0, 0])), "scaling is not valid"),
    (entry("intercept.npy", array([[1, 2]])), "arrays do not fit"),
    (entry("code.pkl", pickle.dumps(print)), "not a model of kerncast"),
    (lambda entries: entries.pop("header.json"), "not a model of kerncast"),
    (lambda entries: entries.pop("coefficients.npy"), "arrays do not fit"),
    (entry("header.json", b"[1"), "header is not JSON"),
    (entry("header.json", b"\xff\xfe"), "arrays do not fit"),
    (entry("header.json", b"[" * 100_000), "header is not JSON"),
    (entry("header.json", b'{"format": "kerncast model", "format_version": NaN}'), "header is not JSON"),
    (entry("header.json", b"{}"), "not a model of kerncast"),
    (header_with(format_version="2.0"), "its format is 2.0, this kerncast reads 1.2"),
    (header_with(form="os.system"), "form 'os.system', which is not known"),
    (header_with(features="abc"), "header lacks"),
    (header_with(scores={}), "header lacks"),
    (header_with(check={"values": [], "seconds": []}), "does not record its forecasts"),
    (header_with(check={"values": [[1, 2]], "seconds": [1]}), "arrays do not fit"),
    (header_with(seed=-1), "header lacks"),
    (header_with(learned_from=-5), "header lacks"),
    (header_with(scores={**SCORES, "mse": -1}), "header lacks"),
    (
        lambda entries: entries.update({"header.json": re.sub(rb'"mape": [^,]*', b'"mape": 1e999', entries[HEADER])}),
        "header lacks",
    ),
    (
        lambda entries: entries.update(dict.fromkeys(("times.mean.npy", "times.deviation.npy"), array([1.0] * 8))),
        "scaling of times is not a number",
    ),
]


@pytest.mark.parametrize(("change", "message"), HOSTILE)
def test_what_was_changed_is_refused(tmp_path: Path, change: Callable[[dict[str, bytes]], None], message: str) -> None:
    path = rewritten(tmp_path / "a.kcm", change)
    with pytest.raises(InputError, match=message) as caught:
        read_model(path)
    assert caught.value.where == str(path)


def test_biases_that_fit_the_eight_checked_launches_only_are_refused(tmp_path: Path) -> None:
    path = rewritten(tmp_path / "a.kcm", entry("biases.1.npy", array([[0.0]])), "mlp")
    with pytest.raises(InputError, match="layers of the network do not fit"):
        read_model(path)


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_whose_size_cannot_be_bounded_is_refused(tmp_path: Path, packing: int) -> None:
    path = tmp_path / "a.kcm"
    write_model(path, model_of("linear"))
    with zipfile.ZipFile(path) as archive:
        entries = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w", packing) as archive:
        for each, content in entries.items():
            archive.writestr(each, content)
    with pytest.raises(InputError, match="not packed as kerncast packs"):
        read_model(path)


def test_a_header_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = rewritten(tmp_path / "a.kcm", header_with(command="a\x1b[2Jb\ud800c", kernels=["k\x07"]))
    header = read_model(path).header
    assert (header.command, header.kernels) == ("a\\x1b[2Jb\\ud800c", ("k\\x07",))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = rewritten(tmp_path / "a.kcm", entry("coefficients.npy", array(np.zeros(4_000_000))))
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(InputError, match="it would unpack to more than"):
        read_model(path)


def test_an_entry_that_declares_less_than_it_holds_gives_no_more(tmp_path: Path) -> None:
    path = rewritten(tmp_path / "a.kcm", lambda _: None)
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("coefficients.npy").file_size
    path.write_bytes(raw.replace(size.to_bytes(4, "little"), (size // 2).to_bytes(4, "little")))
    with pytest.raises(InputError):
        read_model(path)


def test_trees_as_deep_as_a_chain_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "a.kcm", model_of("forest"))
    monkeypatch.setattr("kerncast.models.learned.trees.MOST_LEVELS", 3)
    with pytest.raises(InputError, match="levels"):
        read_model(tmp_path / "a.kcm")


def test_every_cut_and_many_flipped_bits_are_an_error_or_the_same_model(tmp_path: Path) -> None:
    path = tmp_path / "a.kcm"
    write_model(path, model_of("linear"))
    whole = path.read_bytes()
    chance = random.Random(0)  # noqa: S311  not a secret
    for number in range(120):
        raw = bytearray(whole)
        if number % 3:
            raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        else:
            raw = raw[: chance.randrange(len(raw))]
        path.write_bytes(raw)
        try:
            model = read_model(path)
        except InputError:
            continue
        assert np.allclose(model.seconds(TABLE.values), model_of("linear").seconds(TABLE.values), rtol=1e-6)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for name, message in (("pipe", "is not a file"), (".", "is not a file"), ("absent", "cannot be read")):
        with pytest.raises(InputError, match=message):
            read_model(tmp_path / name)
    (tmp_path / "text").write_text("gpu,kernel\n")
    with pytest.raises(InputError, match="not a model of kerncast"):
        read_model(tmp_path / "text")
    with pytest.raises(InputError, match="cannot be written"):
        write_model(tmp_path / "absent" / "a.kcm", model_of("linear"))


def test_reading_needs_no_library_that_trained(tmp_path: Path) -> None:
    import subprocess

    write_model(tmp_path / "a.kcm", model_of("forest"))
    code = (
        "import sys; from pathlib import Path; from kerncast.models.learned.model_files import read_model;"
        f"read_model(Path({str(tmp_path / 'a.kcm')!r}));"
        "sys.exit(bool({'sklearn', 'scipy', 'pandas', 'pickle5', 'joblib', 'skops'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_self_check_covers_every_number(tmp_path: Path) -> None:
    model = model_of("linear")
    wrong = replace(model, header=replace(model.header, check=replace(model.header.check, seconds=(1.0,) * 8)))
    write_model(tmp_path / "a.kcm", wrong)
    with pytest.raises(InputError, match="does not give the forecasts"):
        read_model(tmp_path / "a.kcm")
    assert model_files.MOST_CHECKED == 8


def test_boosted_trees_are_kept_like_the_others(tmp_path: Path) -> None:
    recipe = replace(load_recipe("acet"), models=(BOOSTED,))
    study = study_of(TABLE, StudyPlan(recipe, recipe.models, Split.ROWS, FeatureChoice.of("all")))
    model = model_file(study, study.models[0], Origin((DataFile("launches.csv", "ab" * 32),), ()))
    write_model(tmp_path / "a.kcm", model)
    found = read_model(tmp_path / "a.kcm")
    assert found.header.form == "BoostedTrees"
    assert found.seconds(TABLE.values).tolist() == model.seconds(TABLE.values).tolist()


def reach_with(**fields: object) -> Callable[[dict[str, bytes]], None]:
    def change(entries: dict[str, bytes]) -> None:
        header = json.loads(entries["header.json"])
        header["reach"] |= fields
        entries["header.json"] = json.dumps(header).encode()

    return change


ERRORS = {"split": "rows", "levels": [0.5, 0.9], "quantiles": [0.1, 0.2], "launches": 9, "groups": 9}


@pytest.mark.parametrize(
    "change",
    [
        reach_with(low=[0, 0]),
        reach_with(low=["x", 0, 0]),
        reach_with(low=[1e300, 0, 0]),
        reach_with(spread=[0, 1, 1]),
        reach_with(sample=[]),
        reach_with(sample=[[1, 2]]),
        reach_with(distance=-1),
        reach_with(errors=[ERRORS | {"quantiles": [0.2, 0.1]}]),
        reach_with(errors=[ERRORS | {"quantiles": [0.1, 1e9]}]),
        reach_with(errors=[ERRORS | {"quantiles": [0.1]}]),
        reach_with(errors=[ERRORS | {"levels": [0.5, 1.5]}]),
        reach_with(errors=[ERRORS | {"groups": 10}]),
        header_with(reach=[1]),
        header_with(tuning={"tried": []}),
        header_with(tuning={"grouped_by": "k", "held_out": [], "launches": 1, "tried": [], "chosen": {}}),
    ],
)
def test_a_reach_or_tuning_that_no_training_gives_is_refused(
    tmp_path: Path, change: Callable[[dict[str, bytes]], None]
) -> None:
    with pytest.raises(InputError, match="header lacks"):
        read_model(rewritten(tmp_path / "a.kcm", change))
