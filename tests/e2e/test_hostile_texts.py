"""What a source, a launch file or a Makefile calls things steers no terminal, log, page or table."""

import csv
import io
import time
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kerncast.cli.shared.output import progress_on_stderr
from kerncast.prediction import Prediction, Term, Timing
from kerncast.report.page.pages import Document, Section, render_html, render_markdown
from kerncast.report.pictures.projection import projection_csv
from kerncast.report.training.scores_table import evaluation_csv
from tests.conftest import Run

#: Sets the title of a terminal's window, with a bell.
TITLE = "\x1b]0;PWN\x07"
SHOWN = r"\x1b]0;PWN\x07"
ONE_BLOCK = ("--kernel", "k", "--grid", "1", "--block", "32", "--gpu", "t4")
STORE = "__global__ void k(float *x) { x[threadIdx.x] = 1; }\n"
FORMULA = "=cmd|' /C calc'!A0"


def assert_plain(text: str) -> None:
    found = {sign for sign in text if unicodedata.category(sign) in {"Cc", "Cf", "Cs"}} - {"\n", "\t"}
    assert found == set()


@pytest.mark.parametrize(
    "source", [f"#error {TITLE} hi\n{STORE}", f'#include "no{TITLE}.h"\n{STORE}'], ids=["error", "header"]
)
def test_an_error_of_the_compiler_is_plain(kerncast: Run, tmp_path: Path, source: str) -> None:
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    done = kerncast("predict", "k.cu", *ONE_BLOCK)
    assert done.returncode == 2
    assert SHOWN in done.stderr
    assert_plain(done.stderr)
    done = kerncast("predict", "k.cu", *ONE_BLOCK, "--json")
    assert_plain(done.stdout)


def test_names_in_a_launch_file_are_plain(kerncast: Run, tmp_path: Path) -> None:
    rest = "grid = [1]\nblock = [32]\nargs = {}\n"
    escaped = r"\u001b]0;PWN\u0007"
    (tmp_path / "source.toml").write_text(f'source = "{escaped}.cu"\n[[launch]]\nkernel = "k"\n{rest}')
    (tmp_path / "kernel.toml").write_text(f'source = "k.cu"\n[[launch]]\nkernel = "k\\nkerncast: {escaped}"\n{rest}')
    (tmp_path / "k.cu").write_text(STORE, encoding="utf-8")
    for name, says in (("source.toml", SHOWN), ("kernel.toml", "kernel is not a printable text")):
        done = kerncast("predict", name, "--gpu", "t4")
        assert done.returncode == 2
        assert says in done.stderr
        assert_plain(done.stderr)


def test_an_option_forges_no_line_of_a_log(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(STORE, encoding="utf-8")
    done = kerncast("predict", "k.cu", "--kernel", "k\nkerncast: all is well", *ONE_BLOCK[2:])
    assert done.returncode == 2
    assert [line[:9] for line in done.stderr.splitlines() if not line.startswith("  ")] == ["kerncast:"]


def test_progress_is_one_plain_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerncast.cli.shared.output._PATIENCE_SECONDS", 0.0)
    with progress_on_stderr(quiet=False) as progress:
        assert progress is not None
        time.sleep(0.001)
        progress(f"executing [red]:x:{TITLE}\nkerncast: forged", 1, 2)
    assert capsys.readouterr().err == f"executing [red]:x:{SHOWN}\\nkerncast: forged\n"


def test_progress_leaves_out_the_middle_of_a_long_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kerncast.cli.shared.output._PATIENCE_SECONDS", 0.0)
    with progress_on_stderr(quiet=False) as progress:
        assert progress is not None
        time.sleep(0.001)
        progress(f"timing _ZN7cutlass{'IJiiE' * 400}vNT_6ParamsE on H100 SXM", 1, 2)
    shown = capsys.readouterr().err
    assert len(shown) < 200
    assert shown.startswith("timing _ZN7cutlassIJ")
    assert shown.endswith("ParamsE on H100 SXM\n")


def test_caveats_of_a_forecast_are_plain_in_every_form(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(f"#include <x{TITLE}.h>\n{STORE}", encoding="utf-8")
    asked = ("predict", "k.cu", *ONE_BLOCK, "--arg", "x=f32[32] zeros")
    texts = [kerncast(*asked, "--report", name).stdout for name in ("r.html", "r.md")]
    texts += [(tmp_path / name).read_text(encoding="utf-8") for name in ("r.html", "r.md")]
    for text in texts:
        assert "PWN" in text
        assert_plain(text)
    assert SHOWN in texts[0]
    assert_plain(kerncast(*asked, "--json").stdout)


def test_macros_of_a_makefile_are_plain(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(f"#if TILE != 16\n#error no\n#endif\n{STORE}", encoding="utf-8")
    rule = "all:\n\tnvcc $(NVCCFLAGS) k.cu -o k\n"
    (tmp_path / "Makefile").write_text(f"NVCCFLAGS = -DTILE=16 -DTITLE={TITLE}\n{rule}", encoding="utf-8")
    done = kerncast("predict", "k.cu", *ONE_BLOCK, "--arg", "x=f32[32] zeros")
    assert done.returncode == 0
    assert f"TITLE = {SHOWN}" in done.stdout
    assert_plain(done.stdout)


def test_source_lines_hold_no_emoji(kerncast: Run, tmp_path: Path) -> None:
    source = (
        "__global__ void k(float *x, int y) {\n switch (y) {\n default:x:y=3; x[y] = y; if (y == 4) goto x;\n }\n}\n"
    )
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    launch = ("--kernel", "k", "--grid", "1", "--block", "32", "--arg", "x=f32[32] zeros", "--arg", "y=0")
    assert "default:x:y=3; x[y] = y;" in kerncast("profile", "k.cu", *launch, "--lines").stdout


def test_settings_of_a_sweep_are_no_formulas(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(STORE.replace("1;", "TILE 1;").replace("= TILE", "TILE"), encoding="utf-8")
    launch = '[[launch]]\nkernel = "k"\ngrid = [1]\nblock = [32]\nargs = { x = "f32[32] zeros" }\n'
    (tmp_path / "k.toml").write_text(f'source = "k.cu"\ndefines = {{ TILE = "=" }}\n{launch}', encoding="utf-8")
    done = kerncast("sweep", "k.toml", "--gpu", "t4", "--set", "TILE==,+=", "--csv", "--jobs", 0)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["TILE"] for row in rows] == ["'=", "'+="]


def hostile_forecast() -> Prediction:
    return Prediction(
        FORMULA, 0, "T4", "t4", 1e-3, 5e-4, 2e-3, 0.9, Timing.SERIES, "dram", (Term("dram", 1e-3),), (), "simulation",
    )  # fmt: skip


def test_kernels_in_tables_are_no_formulas() -> None:
    table: Any = SimpleNamespace(kernels=[FORMULA], gpus=["T4"], configurations=["-"], seconds=[1e-3])
    evaluated: Any = SimpleNamespace(table=table, seconds=[2e-3])
    for text in (projection_csv([hostile_forecast()]), evaluation_csv(evaluated)):
        (row,) = csv.DictReader(io.StringIO(text))
        assert row["kernel"] == "'" + FORMULA


def test_a_kernel_s_name_is_no_picture_and_no_tag_on_a_page() -> None:
    name = f"![x](https://a.b/c.png)<img src=//a.b>{TITLE}"
    page = Document(name, (Section(name, (name,), ()),))
    marked = render_markdown(page)
    assert marked.count(r"!\[x\](https:\//a.b/c.png)&lt;img") == 3
    assert_plain(marked)
    html = render_html(page)
    assert "<img" not in html
    assert_plain(html)
