"""kerncast train and evaluate from the command line: tables, JSON, model files, pictures, and every mistake."""

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncast.cli import main
from kerncast.models.learned.model_files import read_model
from tests.helpers.learned_tables import as_csv, linear_table

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in an empty folder, in this process: a start costs a second."""
    monkeypatch.chdir(tmp_path)

    def run_here(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [str(argument) for argument in arguments]
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(words, ended.value.code, *capsys.readouterr())

    return run_here


TABLE = as_csv(linear_table(60))


def check(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Assert bad input: status 2 and one paragraph with these words."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert "\n\n" not in done.stderr.strip()
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "launches.csv"
    path.write_text(TABLE)
    return path


def test_a_model_is_trained_kept_and_evaluated(kerncast: Run, table: Path, tmp_path: Path) -> None:
    done = kerncast("train", "--recipe", "acet", table, "--model", "linear", "--out", "time.kcm", "--pictures", "p")
    assert done.returncode == 0, done.stderr
    assert "Linear Regression" in done.stdout
    assert "elapsed_cycles_sm follow from the time" in done.stdout
    names = {path.name for path in (tmp_path / "p").iterdir()}
    assert names == {"correlation.png", "correlation.csv", "forecast.png"}

    found = kerncast("evaluate", "time.kcm", table, "--json", "--csv", "forecasts.csv", "--picture", "fit.svg")
    assert found.returncode == 0, found.stderr
    printed = json.loads(found.stdout)
    assert list(printed) == ["schema_version", "model", "launches", "cleaning", "scores", "caveats"]
    assert [(part["part"], part["n"]) for part in printed["scores"]] == [
        ("all", 60),
        ("held out", 12),
        ("learned from", 48),
    ]
    assert printed["model"]["model"] == "linear"
    with (tmp_path / "forecasts.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    errors = [abs(float(row["seconds"]) / float(row["measured_seconds"]) - 1) for row in rows]
    assert sum(errors) / 60 == pytest.approx(printed["scores"][0]["mape"], rel=1e-5)
    assert (tmp_path / "fit.svg").exists()


def test_json_of_training_has_scores_of_models_and_rules(run: Run, table: Path) -> None:
    done = run("train", table, "--split", "gpus", "--features", "inst,sectors", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    fields = "schema_version recipe split features_rule features launches kernels gpus cleaning scores files caveats"
    assert list(printed) == fields.split()
    assert printed["features"] == [["inst", "sectors"]]
    assert [each["model"] for each in printed["scores"]] == [
        *("linear", "mlp", "forest", "linear-svr", "rbf-svr"),
        *("constant", "SMs x clock"),
    ]
    linear = printed["scores"][0]
    assert set(linear) == {
        *("model", "is_baseline", "n", "mae_seconds", "max_ae_seconds", "mse_seconds_squared", "rmse_seconds", "r2"),
        *("mape", "folds", "caveats"),
    }
    assert linear["mape"] == pytest.approx(0, abs=1e-9)
    assert [fold["held_out"] for fold in linear["folds"]] == ["GTX-980", "Tesla-K20"]


def test_all_models_get_a_file_each_and_the_command_makes_them_again(run: Run, table: Path, tmp_path: Path) -> None:
    assert run("train", table, "--out", "m.kcm", "--quiet").returncode == 0
    names = sorted(path.name for path in tmp_path.glob("*.kcm"))
    assert names == ["m-forest.kcm", "m-linear-svr.kcm", "m-linear.kcm", "m-mlp.kcm", "m-rbf-svr.kcm"]
    command = read_model(tmp_path / "m-forest.kcm").header.command.split()
    assert run(*command[1:]).returncode == 0
    assert (tmp_path / "forest.kcm").read_bytes() == (tmp_path / "m-forest.kcm").read_bytes()


def test_a_model_says_what_it_never_saw(run: Run, table: Path, tmp_path: Path) -> None:
    assert run("train", table, "--model", "linear", "--gpu", "GTX 980", "--out", "m.kcm").returncode == 0
    learned = "launches that it learned from may be among these"
    assert learned in run("evaluate", "m.kcm", table).stdout
    assert learned not in run("evaluate", "m.kcm", table, "--gpu", "Tesla K20").stdout
    other = tmp_path / "other.csv"
    other.write_text(TABLE.replace(",add,", ",scan,"))
    done = run("evaluate", "m.kcm", other)
    assert done.returncode == 0, done.stderr
    assert "no launch of these GPUs: Tesla-K20" in done.stdout
    assert "no launch of these kernels: scan" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "absent.csv"], ["cannot be read"]),
        (["train", "launches.csv", "--recipe", "wcet"], ["no recipe is called 'wcet'", "Known are acet"]),
        (["train", "launches.csv", "--model", "boost"], ["no model of acet is called 'boost'"]),
        (["train", "launches.csv", "--split", "time"], ["--split 'time'", "rows, configurations, kernels, gpus"]),
        (["train", "launches.csv", "--features", "a"], ["has no feature a", "inst, sectors"]),
        (["train", "launches.csv", "--features", "published"], ["lacks the published features"]),
        (["train", "launches.csv", "--gpu", "H100"], ["no launch ran on 'H100'", "GTX-980, Tesla-K20"]),
        (["train", "launches.csv", "--time", "inst"], ["no column 'inst'"]),
        (["train", "launches.csv", "--out", "m.pkl"], ["End it in .kcm"]),
        (["train", "launches.csv", "--out", "absent/m.kcm"], ["does not exist"]),
        (["train", "launches.csv", "--model", "linear", "--out", "folder.kcm"], ["--out: folder.kcm is a folder"]),
        (["train", "launches.csv", "--pictures", "launches.csv"], ["is not a folder"]),
        (["train"], ["'data'"]),
        (["evaluate", "launches.csv", "launches.csv"], ["not a model of kerncast"]),
        (["evaluate", "absent.kcm", "launches.csv"], ["cannot be read"]),
        (["evaluate", "m.kcm"], ["'data'"]),
    ],
)
def test_every_mistake_is_told(run: Run, table: Path, arguments: list[str], words: list[str]) -> None:
    assert table.exists()
    (table.parent / "folder.kcm").mkdir()
    check(run(*arguments), *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TABLE[: TABLE.rindex(",")], ["line 61", "cut off"]),
        (TABLE.replace("GTX-980,add,0,", "GTX-980,add,0,x", 1), ["row 1", "where other rows hold numbers"]),
        ("kernel,gpu\nk,g\n", ["no column is a time with its unit"]),
        ("\0\0", ["binary"]),
        ("PAR1" + "x" * 50, ["not a Parquet table"]),
        ("a,seconds\n" + "1,-2\n" * 20, ["no launch has a time above 0"]),
        ("a,seconds\n1,1\n2,2\n", ["2 launches are left"]),
    ],
)
def test_every_bad_table_is_told(run: Run, tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "bad.csv").write_text(text)
    check(run("train", "bad.csv", "--model", "linear"), "bad.csv", *words)


def test_tuning_is_told_kept_and_made_again(run: Run, table: Path, tmp_path: Path) -> None:
    assert table.exists()
    done = run("train", table, "--model", "rbf-svr", "--tune", "--json", "--quiet", "--out", "m.kcm")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    (tuning,) = printed["scores"][0]["tuning"]
    assert (tuning["grouped_by"], len(tuning["held_out"]), len(tuning["tried"])) == ("kernels", 3, 6)
    assert any("--tune chose by cross-validation with kernels held out" in each for each in printed["caveats"])
    header = read_model(tmp_path / "m.kcm").header
    assert header.tuning is not None
    assert dict(header.tuning.chosen) == tuning["chosen"]
    assert run(*header.command.split()[1:], "--quiet").returncode == 0
    assert (tmp_path / "rbf-svr.kcm").read_bytes() == (tmp_path / "m.kcm").read_bytes()
    shown = run("train", table, "--model", "rbf-svr", "--tune", "--quiet")
    assert "error in cross-validation" in shown.stdout
    assert "published" in shown.stdout


def test_launches_of_one_kernel_are_tuned_by_configuration_and_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(TABLE.replace(",mul,", ",add,").replace(",sum,", ",add,"))
    done = run("train", "one.csv", "--model", "linear", "--tune", "--quiet")
    assert "of one kernel only, so that --tune held out configurations" in " ".join(done.stdout.split())


def test_launches_alone_have_no_times(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text('source = "k.cu"\n')
    check(run("train", "k.toml", "--model", "linear"), "k.toml", "launches alone have no times")
