"""Sources near one that call its functions, or hold kernels: what the user is told to name."""

import os
from pathlib import Path

import pytest

from kerncast.hostcode import callers_elsewhere, kernels_elsewhere

KERNEL = "__global__ void k(float *x) { x[0] = 1; }\n"


def test_a_call_is_told_from_a_declaration(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(KERNEL, encoding="utf-8")
    (tmp_path / "declares.c").write_text("void run(int n);\nextern int run2(int);\n", encoding="utf-8")
    (tmp_path / "main.c").write_text("void run(int n);\nint main() { run(5); return 0; }\n", encoding="utf-8")
    said = callers_elsewhere(source, (), ("run", "run2"))
    assert len(said) == 1
    assert "main.c seems to call run: what it passes is read with --host" in said[0]
    assert "declares" not in said[0]
    assert callers_elsewhere(source, (tmp_path / "main.c",), ("run",)) == ()
    assert callers_elsewhere(source, (), ()) == ()


@pytest.mark.parametrize("call", ["x = run(1);", "if (a) run(1);", "f(run(1));", "return run(1);", "a, run(1);"])
def test_calls_in_each_place(tmp_path: Path, call: str) -> None:
    source = tmp_path / "k.cu"
    source.write_text(KERNEL, encoding="utf-8")
    (tmp_path / "main.cpp").write_text(f"int main() {{\n  {call}\n}}\n", encoding="utf-8")
    assert callers_elsewhere(source, (), ("run",))


def test_kernels_are_looked_for_below_the_makefile(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n", encoding="utf-8")
    folder = tmp_path / "src"
    folder.mkdir()
    source = folder / "main.cu"
    source.write_text("// a __global__ function is elsewhere\nint main() {}\n", encoding="utf-8")
    other = tmp_path / "gpu" / "k.cu"
    other.parent.mkdir()
    other.write_text(KERNEL, encoding="utf-8")
    assert [each.resolve() for each in kernels_elsewhere(source, ())] == [other.resolve()]


def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(KERNEL, encoding="utf-8")
    (tmp_path / "folder.c").mkdir()
    os.mkfifo(tmp_path / "pipe.c")
    (tmp_path / "binary.c").write_bytes(bytes(range(256)) * 9)
    assert callers_elsewhere(source, (), ("run",)) == ()
