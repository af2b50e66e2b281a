"""kerncast occupancy as a user runs it."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from kerncast.cli.application import run
from kerncast.errors import InputError
from tests.conftest import Run
from tests.helpers.places import ROOT

EXAMPLES = ROOT / "examples"
BY_HAND = ("occupancy", "--block", 256, "--registers", 40)


def test_options_replace_what_the_compiler_says(kerncast: Run) -> None:
    options = ("--gpu", "a100-sxm-80gb", "--registers", 64, "--shared", 30_000, "--block", 128, "--json")
    done = kerncast("occupancy", EXAMPLES / "matmul_tiled.toml", *options)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["occupancies"]
    assert (row["kernel"], row["launch"]) == ("matmul_tiled<16>", 0)
    assert (row["threads_per_block"], row["registers_per_thread"]) == (128, 64)
    assert row["static_shared_bytes_per_block"] == 2 * 16 * 16 * 4, "the compiler's"
    assert row["dynamic_shared_bytes_per_block"] == 30_000
    assert (row["blocks_per_sm"], row["limiter"]) == (5, "shared_memory"), "164 KiB / (30000 + 2048 + 1024 bytes)"


def test_the_page_shows_what_the_command_prints(kerncast: Run) -> None:
    page = (EXAMPLES.parent / "docs" / "occupancy.md").read_text(encoding="utf-8")
    block = re.search(r"```console\n\$ kerncast (.*)\n((?:.*\n)*?)```", page)
    assert block
    done = kerncast(*shlex.split(block[1]))
    assert [line.rstrip() for line in done.stdout.rstrip().splitlines()] == block[2].rstrip().splitlines()


def test_text_says_what_one_more_block_needs(kerncast: Run) -> None:
    done = kerncast(*BY_HAND, "--gpu", "TITAN V", "--gpu", "6.2", "--curves", "-")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "≤ 32 registers" in done.stdout
    assert "7 blocks per SM with at most 32 registers per thread (8 fewer than 40)" in done.stdout
    assert "capability 6.2: registers per thread up to" in done.stdout


def test_carveouts(kerncast: Run) -> None:
    asked = ("occupancy", "--block", 128, "--registers", 16, "--shared", 10_000, "--gpu", "8.6", "--json", "--carveout")
    found = {
        wish: json.loads(kerncast(*asked, wish).stdout)["occupancies"][0]["blocks_per_sm"] for wish in ("0%", "shared")
    }
    assert found == {"0%": 1, "shared": 9}, "16 KiB hold one block of 11,136 bytes, 100 KiB hold nine"


def test_curves_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*map(str, BY_HAND), "--gpu", "all", "--curves", "c.csv"]) == 0
    rows = list(csv.DictReader((tmp_path / "c.csv").read_text(encoding="utf-8").splitlines()))
    assert len({row["gpu_id"] for row in rows}) > 70
    assert run([*map(str, BY_HAND), "--gpu", "h100-sxm", "--curves", "c.svg"]) == 0
    assert "limited by registers" in (tmp_path / "c.svg").read_text(encoding="utf-8")


def test_what_no_gpu_can_hold_says_why(kerncast: Run) -> None:
    done = kerncast("occupancy", "--block", 2048, "--registers", 16, "--gpu", "all", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {row["limiter"] for row in found["occupancies"]} == {"none-fits"}
    assert all("2048 threads, over the 1024 allowed" in row["reason"] for row in found["occupancies"])
    assert len(found["caveats"]) == 1
    assert [each["kind"] for each in found["caveat_details"]] == ["no-block-fits"]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--block", 0, "--registers", 3), "greater than or equal to 1"),
        (("--block", 32, "--registers", -1), "greater than or equal to 0"),
        (("--block", 32, "--registers", 2**31), "less than or equal to 2147483647"),
        (("--block", 32, "--registers", 8, "--static-shared", 49_153), "over the 49152 that a kernel can declare"),
        (("--block", 32, "--registers", 8, "--carveout", "3"), "is not a carve-out of shared memory"),
        (("--block", 32, "--registers", 8, "--carveout", "300KiB"), "300 KiB is over the 100 KiB of an SM"),
        (("--block", 32, "--registers", 8, "--curves", "c.jpg"), "c.jpg is not a name for curves"),
        (("--block", 32, "--registers", 8, "--curves", "no/c.png"), "cannot be written"),
        (("--block", 32, "--registers", 8, "--gpu", "sm_9"), "no GPU"),
        (("--block", 32, "--registers", 8, "--gpu", "980"), "no GPU is called '980'"),
        (("--block", 32, "--registers", 8, "--gpu", "9.9"), "no architecture is called 'sm_99'"),
        (("--block", 32), "neither a launch file nor --block and --registers"),
    ],
)
def test_bad_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[object, ...], fault: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        run(["occupancy", "--gpu", "8.6", *map(str, options)])
    assert fault in str(caught.value)


def test_a_source_is_no_launch_file(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k() {}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"k\.cu is a source without a launch.*kerncast init .*k\.cu"):
        run(["occupancy", str(tmp_path / "k.cu"), "--gpu", "8.6"])


def test_bad_usage_is_one_paragraph(kerncast: Run) -> None:
    done = kerncast("occupancy", "--gpu", "8.6", "--block", 0, "--registers", 3)
    assert (done.returncode, done.stdout) == (2, "")
    assert "greater than or equal to 1" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_gpus_and_compute_capabilities_are_named_alike(kerncast: Run) -> None:
    named = ("GTX 980", "sm_52", "5.2", "12.0", "SM_90", "sm_90a", "sm_120f")
    done = kerncast(*BY_HAND, *(word for name in named for word in ("--gpu", name)), "--json")
    found = [row["gpu_id"] for row in json.loads(done.stdout)["occupancies"]]
    assert found == ["gtx-980", "sm_52", "sm_120", "sm_90"]


def test_fields_of_the_json(kerncast: Run) -> None:
    asked = ("occupancy", "--block", 32, "--registers", 40, "--gpu", "9.0", "--json")
    plain, with_curves = (json.loads(kerncast(*asked, *more).stdout) for more in ((), ("--curves", "-")))
    assert list(plain) == list(with_curves) == ["schema_version", "occupancies", "caveats", "caveat_details"]
    assert plain["caveats"] == plain["caveat_details"] == []
    (row,), (drawn,) = plain["occupancies"], with_curves["occupancies"]
    assert {name: value for name, value in drawn.items() if name != "curves"} == row
    assert [list(curve) for curve in drawn["curves"]] == [["parameter", "own", "steps"]] * 3
    assert list(row["limits"]) == list(row["resources"]) == [
        "warps", "registers", "shared_memory", "blocks", "barriers",
    ]  # fmt: skip
    assert row["larger_block_size"] == {"threads_per_block": 64, "blocks_per_sm": 24, "warps_per_sm": 48}


def test_drawing_shows_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kerncast.cli.shared.output._PATIENCE_SECONDS", 0)
    asked = (*map(str, BY_HAND), "--gpu", "9.0", "--curves", "c.svg")
    assert run([*asked, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert run([*asked]) == 0
    assert capsys.readouterr().err == "drawing c.svg\n"
