"""kerncast collect prints a command that a shell runs as meant."""

import json
import shlex
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

AWKWARD = ["./my app", "--size=3", "it's", '"quoted"', "$HOME", "a;b", "--json", "-k", "*"]


def options_of(line: str) -> dict[str, str]:
    return dict(pairwise(shlex.split(line)))


def test_the_shell_gets_every_argument_as_given(kerncast: Run, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "ncu"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nfor one in "$@"; do printf "%s\\n" "$one"; done\n')
    fake.chmod(0o755)
    done = kerncast("collect", "--kernel", "a|b $x", "--launch-skip", 2, "--launch-count", 3, "--", *AWKWARD)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    shell = subprocess.run(
        ["/bin/sh", "-c", done.stdout],
        env={"PATH": f"{fake.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    words = shell.stdout.splitlines()
    assert words[-len(AWKWARD) :] == AWKWARD
    assert words[words.index("--kernel-name") + 1] == "regex:a|b $x"
    assert words[words.index("--launch-skip") + 1] == "2"
    assert words[words.index("--launch-count") + 1] == "3"
    assert "ERR_NVGPUCTRPERM" in done.stderr
    assert "7.0" in done.stderr


def test_clocks_and_caches_are_left_alone_unless_asked(kerncast: Run) -> None:
    warm = options_of(kerncast("collect", "--", "./app").stdout)
    assert (warm["--clock-control"], warm["--cache-control"]) == ("none", "none")
    assert (warm["--page"], warm["--print-units"], warm["--log-file"]) == ("raw", "base", "profile.csv")
    cold = options_of(kerncast("collect", "--cold", "--out", "r.ncu-rep", "./app", "--", "-x").stdout)
    assert (cold["--cache-control"], cold["--export"]) == ("all", "r.ncu-rep")
    assert "--log-file" not in cold


def test_a_model_asks_for_less(kerncast: Run) -> None:
    def count(*models: str) -> int:
        asked = [word for model in models for word in ("--for", model)]
        return options_of(kerncast("collect", *asked, "--", "./app").stdout)["--metrics"].count(",") + 1

    roofline, both, everything = count("roofline"), count("roofline", "pipes"), count()
    assert roofline < both < everything


def test_json(kerncast: Run) -> None:
    done = kerncast("collect", "--json", "--for", "algorithm1", "--", "./app", "1")
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert found["commands"] == [shlex.split(found["shell"])]
    assert found["commands"][0][-2:] == ["./app", "1"]
    names = found["commands"][0][found["commands"][0].index("--metrics") + 1]
    assert [metric["name"] for metric in found["metrics"]] == names.split(",")


def test_nvprof_for_older_gpus(kerncast: Run) -> None:
    done = kerncast("collect", "--nvprof", "--kernel", "saxpy", "--", "./app", "a b")
    times, metrics = done.stdout.split(" && ")
    assert shlex.split(times)[-2:] == shlex.split(metrics)[-2:] == ["./app", "a b"]
    assert "--metrics" not in shlex.split(times)
    words = shlex.split(metrics)
    # nvprof applies --kernels to the metrics after it.
    assert words.index("--kernels") < words.index("--metrics")
    assert "flop_count_sp_fma" in options_of(metrics)["--metrics"].split(",")
    assert "smsp__" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no application is given. Name it after two dashes"),
        (("--",), "no application is given"),
        (("--", "--cold"), "'--cold' is not an application"),
        (("--for", "rooflin", "--", "./app"), "Did you mean roofline?"),
        (("--kernel", "", "--", "./app"), "regular expression is empty"),
        (("--launch-count", "0", "--", "./app"), "launch-count"),
        (("--nvprof", "--cold", "--", "./app"), "nvprof has nothing like --cold"),
        (("--nvprof", "--out", "p.ncu-rep", "--", "./app"), "Name a .csv file"),
    ],
)
def test_bad_usage(kerncast: Run, arguments: tuple[str, ...], message: str) -> None:
    done = kerncast("collect", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pattern_that_is_none_is_refused(kerncast: Run) -> None:
    done = kerncast("collect", "-k", "(", "--", "./app")
    assert done.returncode == 2
    assert "--kernel: the regular expression is none" in done.stderr
