"""The file that init writes is TOML with what the source says, and the file's reader finds every mark in it."""

import tomllib
from pathlib import Path

import pytest

from kerncast.compile.nouns import CompileRequest, Geometry, KernelSignature, Parameter, SourceListing, WrittenLaunch
from kerncast.errors import LaunchError
from kerncast.read.launches import load_launches
from kerncast.report.files.launch_skeleton import skeleton_object, skeleton_text, unknown_notes

N = Parameter("n", "int", "integer", 4, False, False, True, "i32", None, None)
X = Parameter("x", "float *", "pointer", 8, True, False, False, "f32", "float", 4)
S = Parameter("", "struct size", "struct", 12, False, False, False, None, None, None)


def kernel(name: str, *parameters: Parameter, template: tuple[str, ...] = ()) -> KernelSignature:
    return KernelSignature(name, parameters, bool(template), template, 1)


def launch(written: str, *arguments: str, template: str = "", is_instance: bool = False) -> WrittenLaunch:
    grid, block = Geometry("grid", (4, None)), Geometry("256", (256,))
    return WrittenLaunch(written, template, is_instance, "k.cu:9", grid, block, Geometry("", (0,)), arguments)


def rows(*found: KernelSignature | WrittenLaunch, source: str = "k.cu") -> list[dict[str, object]]:
    """Return the launches of the file as a reader of TOML finds them."""
    text = skeleton_text(listing(*found), CompileRequest(Path(source), ()), Path())
    table = tomllib.loads(text)
    assert table["source"] == source
    return list(table["launch"])


def listing(*found: KernelSignature | WrittenLaunch) -> SourceListing:
    return SourceListing(
        tuple(each for each in found if isinstance(each, KernelSignature)),
        tuple(each for each in found if isinstance(each, WrittenLaunch)),
    )


def test_what_is_known_and_what_is_not() -> None:
    (row,) = rows(kernel("k", X, N, S), launch("k", "p", "m", "s"))
    assert row == {
        "kernel": "k", "grid": [4, "?"], "block": [256], "shared_bytes": 0,
        "args": {"x": "f32[?] random", "n": "?", "argument_2": "bytes(?)"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ((kernel("a::k", N), launch("k", "1")), ["a::k"]),
        ((kernel("a::k", N), launch("::a::k", "1")), ["a::k"]),
        ((kernel("k", N, template=("T",)), launch("k", "1", template="float", is_instance=True)), ["k<float>"]),
        ((kernel("k", N, template=("T",)), launch("k", "1", template="T")), ["k<?>"]),
        ((kernel("k", N, template=("T",)), launch("k", "1")), ["k<?>"]),
        ((kernel("k", N), kernel("k", X, N), launch("k", "1", "2")), ["k(float *, int)", "k(int)"]),
        ((kernel("k", N), kernel("k", X), launch("k", "p")), ["?"]),
        ((kernel("k", N), kernel("other"), launch("k", "1"), launch("k", "2")), ["k", "k", "other"]),
        ((kernel("k", N), launch("pointer", "1")), ["k"]),
        ((kernel("k", N),), ["k"]),
    ],
)
def test_which_kernel_is_meant(found: tuple[KernelSignature | WrittenLaunch, ...], names: list[str]) -> None:
    assert [row["kernel"] for row in rows(*found)] == names


def test_a_launch_of_no_kernel_is_told() -> None:
    found = listing(kernel("k", N), launch("pointer", "1"))
    assert skeleton_object(found)["caveats"] == [
        "pointer, launched at k.cu:9, is no kernel of this source: the launch is left out"
    ]
    assert "# pointer, launched at k.cu:9" in skeleton_text(found, CompileRequest(Path("k.cu"), ()), Path())


def test_every_mark_is_found_when_the_file_is_read(tmp_path: Path) -> None:
    found = listing(kernel("k", X, N), kernel("t", N, template=("T",)), launch("k", "p", '"a"'))
    file = tmp_path / "launch.toml"
    file.write_text(skeleton_text(found, CompileRequest(tmp_path / "k.cu", ()), tmp_path), encoding="utf-8")
    (tmp_path / "k.cu").touch()
    undecided = skeleton_object(found)["undecided"]
    assert [(each["launch"], each["key"]) for each in undecided] == [
        (0, "grid"), (0, "args.x"), (0, "args.n"), (1, "kernel"), (1, "grid"), (1, "block"), (1, "args.n"),
    ]  # fmt: skip
    with pytest.raises(LaunchError, match=r"7 values are not decided: launch 0 \(k\) grid, line \d+ \(grid\)"):
        load_launches(file)
    assert unknown_notes(found) == [
        "launch 0 (k, k.cu:9): grid, args.x, args.n",
        "launch 1 (t<?>): kernel, grid, block, args.n",
    ]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\x1bb", "a]b = 1 #", "ü", "\u202e"])
def test_hostile_names(name: str) -> None:
    parameter = Parameter(name, f"struct {name}", "integer", 4, False, False, True, "i32", None, None)
    (row,) = rows(kernel("k", parameter), launch("k", f"{name}\n[[launch]]"), source=f"{name}.cu")
    assert row["args"] == {name: "?"}


def test_options_are_kept() -> None:
    request = CompileRequest(Path("s/k.cu"), (), None, (("W", '"8"'),), (Path("inc"),), "c++14")
    found = SourceListing((kernel("k"),), (), (("D", "3"),))
    text = skeleton_text(found, request, Path("s"))
    table = tomllib.loads(text)
    assert (table["source"], table["include"], table["std"]) == ("k.cu", ["../inc"], "c++14")
    assert table["defines"] == {"W": '"8"', "D": "3"}
    assert "# D as in the Makefile" in text
    assert "kerncast run PROGRAM --export launches.toml" in text
