"""A launch file with values that are still to be decided says which, all of them."""

from pathlib import Path

import pytest

from kerncast.errors import LaunchError
from kerncast.launch import load_launches

FILE = """source = "k.cu"
[[launch]]
kernel = "k"
grid = [4, "?"]        # decide: g, k.cu:7: it is read from a stream
block = [32]
[launch.args]
n = "?"                # decide: n, k.cu:7: scanf(…) sets it
"my x" = "f32[?] random"
ok = "f32[4] random"
[[launch]]
kernel = "red<?>"
grid = [1]
block = [1]
args = { s = "bytes(?)" }
[launch.globals]
table = "?"
"""


def test_all_are_named_with_their_lines_and_reasons(tmp_path: Path) -> None:
    file = tmp_path / "launch.toml"
    file.write_text(FILE, encoding="utf-8")
    with pytest.raises(LaunchError) as raised:
        load_launches(file)
    text = str(raised.value)
    assert raised.value.exit_status == 2
    assert "6 values are not decided" in text
    for part in (
        "launch 0 (k) grid, line 4 (g, k.cu:7: it is read from a stream)",
        "launch 0 (k) n, line 7 (n, k.cu:7: scanf(…) sets it)",
        "launch 0 (k) my x, line 8;",
        "launch 1 (red<?>) kernel, line 11;",
        "launch 1 (red<?>) s, line 14;",
        "launch 1 (red<?>) table, line 16.",
    ):
        assert part in text
    assert "\n" not in text


def test_other_texts_are_decided(tmp_path: Path) -> None:
    file = tmp_path / "launch.toml"
    kernel = "k<(1 > 2 ? 3 : 4)>"
    lines = ['source = "k.cu"', "[[launch]]", f'kernel = "{kernel}"', "grid = [1]", "block = [1]"]
    file.write_text("\n".join([*lines, 'args = { x = "f32[4] file(a?.npy)" }']), encoding="utf-8")
    (launch,) = load_launches(file)
    assert launch.kernel == kernel
