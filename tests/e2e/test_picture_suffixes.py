"""Every option that draws takes .png, .svg and .pdf, and refuses other names before any work."""

from pathlib import Path

import pytest

from kerncast.cli.application import run
from kerncast.cli.shared.output import check_place
from kerncast.errors import InputError
from kerncast.report.pictures.picture_files import FORMATS
from tests.helpers.places import ROOT

SAXPY = str(ROOT / "examples" / "saxpy.toml")
OPTIONS = {
    "roofline": ("predict", SAXPY, "--gpu", "t4", "--roofline"),
    "bars": ("predict", SAXPY, "--gpu", "t4", "--bars"),
    "pareto": ("compare", SAXPY, "--gpu", "t4", "--gpu", "l4", "--pareto"),
    "tornado": ("sensitivity", SAXPY, "--gpu", "t4", "--tornado"),
    "line": ("sweep", SAXPY, "--set", "a=1.0,2.0", "--gpu", "t4", "--line"),
    "heat": ("sweep", SAXPY, "--set", "a=1.0,2.0", "--set", "block=128,256", "--gpu", "t4", "--heat"),
    "curves": ("occupancy", "--block", "256", "--registers", "32", "--gpu", "t4", "--curves"),
    "picture": ("bound", SAXPY, "--gpu", "t4", "--tpcs", "1-4", "--picture"),
    "out": ("study", "convolution", "--sweep", "block=4", "--out"),
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", ["picture.jpg", "picture", "picture.svg.gz"])
def test_another_suffix_is_refused_with_the_three_that_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        run([*OPTIONS[option], name])
    assert name in str(caught.value)
    assert all(suffix in str(caught.value) for suffix in (".png", ".svg", ".pdf"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG", ".Svg"])
def test_capitals_do_not_matter(tmp_path: Path, suffix: str) -> None:
    check_place(tmp_path / f"picture{suffix}", FORMATS)


@pytest.mark.parametrize("suffix", FORMATS)
def test_curves_are_written_in_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*OPTIONS["curves"], f"picture{suffix}"]) == 0
    heads = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert (tmp_path / f"picture{suffix}").read_bytes().startswith(heads[suffix])
