"""Scripts that launch kernels, against what NumPy computes, and what becomes of bad ones."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.child_process import is_possible
from kerncast.cli.application import run
from kerncast.compile.assembler import library_path
from kerncast.compile.cache import cache_place
from kerncast.errors import InputError, MachineLimitError
from kerncast.forecast import Options, resolve_gpus
from kerncast.gpu import load_gpu
from kerncast.launch import Launch
from kerncast.prediction import Prediction, Term, Timing
from kerncast.read.launches import load_launches
from kerncast.recording import read_recording
from kerncast.scripts.benchmarks import measured_by_do_bench
from kerncast.scripts.script_forecasts import forecast_script
from kerncast.scripts.session import Recorded, Script, record_script
from tests.helpers.fake_triton import make_triton

pytestmark = pytest.mark.skipif(not is_possible(), reason="scripts run on Linux only")

SIGNATURE = '{"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}'
HEAD = f"""
import numpy as np, triton
from pathlib import Path
from triton.runtime.autotuner import Autotuner, Config
ptx = Path(__file__).with_name("add_kernel.ptx").read_text()
add = triton.Kernel("add_kernel", ptx, {SIGNATURE})
n = 98432
x, y = np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32)
out = np.zeros(n, np.float32)
"""
ADD = "add[(97,)](x, y, out, n, BLOCK=1024)\n"


@pytest.fixture(autouse=True)
def triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_triton(tmp_path / "site")
    shutil.copyfile(Path(__file__).with_name("add_kernel.ptx"), tmp_path / "add_kernel.ptx")
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)


def script(folder: Path, text: str, **told: float) -> Script:
    path = folder / "script.py"
    path.write_text(HEAD + text, encoding="utf-8")
    return Script(path, **told)  # type: ignore[arg-type]


def recorded(folder: Path, text: str, **told: float) -> Recorded:
    return record_script(script(folder, text, **told), load_gpu("a100-sxm-80gb"), folder / "out.kc")


def test_a_kernel_writes_what_numpy_computes_and_its_launch_is_kept(tmp_path: Path) -> None:
    found = recorded(tmp_path, f"{ADD}assert (out == x + y).all()\n")
    assert found.failed is None
    (launch,) = load_launches(found.recording)
    assert (launch.kernel, launch.grid, launch.block) == ("add_kernel", (97, 1, 1), (128, 1, 1))
    assert launch.memory is not None
    assert [each.nbytes for each in launch.memory.regions] == [4 * 98432] * 3
    assert int.from_bytes(launch.memory.parameters[24:28], "little") == 98432


def test_a_view_is_a_pointer_into_its_array(tmp_path: Path) -> None:
    text = "add[(1,)](x[64:], y, out[128:], 1000, BLOCK=1024)\n"
    text += "assert (out[128:1128] == x[64:1064] + y[:1000]).all() and not out[1128:].any() and not out[:128].any()\n"
    assert recorded(tmp_path, text).failed is None


def test_a_launch_that_repeats_another_one_stands_for_it(tmp_path: Path) -> None:
    text = f"for _ in range(50):\n    {ADD}x[0] = 3\n{ADD}assert out[0] == 3.5\n"
    found = recorded(tmp_path, text)
    assert found.failed is None
    assert (found.launches, len(load_launches(found.recording))) == (51, 1)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f"{ADD}assert out[1] == 7, 'not seven'\n", 11, "AssertionError: not seven"),
        (f"{ADD}add[(98,)](x, y, out, n + 64, BLOCK=1024)\n", 11, "out of bounds"),
        (f"{ADD}add[(97,)](x, y, 'a', n, BLOCK=1024)\n", 11, "out is no array"),
        (f"{ADD}add[(97,)](x, y, out, None, BLOCK=1024)\n", 11, "cannot be passed as i32"),
        (f"{ADD}while True: pass\n", 11, "stopped after"),
        (f"{ADD}open('/etc/passwd').read()\n", 11, "PermissionError"),
        (f"{ADD}import socket; socket.socket()\n", 11, "PermissionError"),
    ],
)  # fmt: skip
def test_what_ends_a_script_is_told_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    found = recorded(tmp_path, text, seconds=6.0 if "while True" in text else 600.0)
    assert found.failed is not None
    assert found.failed.where == f"{tmp_path}/script.py:{line}"
    assert words in found.failed.what
    assert len(load_launches(found.recording)) == 1


def test_what_other_commands_rely_on_is_not_written(tmp_path: Path) -> None:
    cached = cache_place().folder
    if cached is None:
        pytest.skip("there is no cache here")
    cached.mkdir(parents=True, exist_ok=True)
    found = recorded(tmp_path, f"{ADD}open({str(cached / 'forged')!r}, 'w')\n")
    assert found.failed is not None
    assert "PermissionError" in found.failed.what
    assert not (cached / "forged").exists()


def test_triton_keeps_what_it_compiles_in_the_cache_that_the_user_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script's process knew only the default folder, in which it may write nothing then."""
    monkeypatch.delenv("KERNCAST_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "named"))
    save = (
        "import os, pathlib\nplace = pathlib.Path(os.environ['TRITON_CACHE_DIR'])\n(place / 'kept').write_text('x')\n"
    )
    assert recorded(tmp_path, ADD + save).failed is None
    assert [each.name for each in (tmp_path / "named" / "kerncast" / "scripts").glob("*/*")] == ["kept"]


def test_a_script_that_launches_nothing_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="launches no kernel"):
        recorded(tmp_path, "")
    with pytest.raises(InputError, match="SyntaxError"):
        recorded(tmp_path, "1 +\n")


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    with pytest.raises(MachineLimitError, match="SIGSEGV"):
        recorded(tmp_path, "import ctypes; ctypes.string_at(8)\n")


def test_what_cannot_be_executed_is_kept_and_said(tmp_path: Path) -> None:
    text = "ptx = ptx.replace('mov.u32 \\t%r25, %ctaid.x', 'tex.1d.v4.s32.s32 {%r1,%r2,%r3,%r4}, [t, {%r5}]')\n"
    text += f"add = triton.Kernel('add_kernel', ptx, {SIGNATURE})\nadd[(97,)](x, y, out, n, BLOCK=1024)\n"
    found = recorded(tmp_path, text)
    assert found.failed is None
    assert any("was not executed" in each for each in read_recording(found.recording).remarks)
    (launch,) = load_launches(found.recording)
    assert isinstance(launch, Launch)
    assert launch.grid == (97, 1, 1)


@pytest.mark.skipif(library_path() is None, reason="nvJitLink is not installed (extra ptx)")
def test_an_autotuner_chooses_by_forecast(tmp_path: Path) -> None:
    text = "tuned = Autotuner(add, [Config(BLOCK=1024), Config(BLOCK=64)])\n"
    text += (
        "tuned[lambda meta: (97 if meta['BLOCK'] == 1024 else 97 * 64,)](x, y, out, n)\nassert (out == x + y).all()\n"
    )
    text += "assert triton.testing.do_bench(lambda: add[(97,)](x, y, out, n, BLOCK=1024)) < 0.1\n"
    text += "assert np.isnan(triton.testing.do_bench(lambda: None))\n"
    text += "def checked():\n    out[:] = 0\n    add[(97,)](x, y, out, n, BLOCK=1024)\n    assert out[1] == 1.5\n"
    text += "assert triton.testing.do_bench(checked) < 0.1\n"
    found = forecast_script(script(tmp_path, text), resolve_gpus("a100-sxm-80gb"), Options())
    assert found.forecast.failed is None
    (tuning,) = found.tunings
    assert tuning.chosen is not None
    assert (tuning.kernel, tuning.chosen.config, len(tuning.tried)) == ("add_kernel", "BLOCK: 1024", 2)
    (launch,) = found.forecast.predictions  # benchmarks launch it, too: not counted
    assert 1e-6 < launch.seconds < 1e-5


@pytest.mark.skipif(library_path() is None, reason="nvJitLink is not installed (extra ptx)")
def test_the_command_line_takes_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, kept = str(script(tmp_path, f"{ADD}assert out[1] == 7\n").path), str(tmp_path / "kept.kc")
    with pytest.raises(InputError, match="AssertionError"):
        run(["predict", path, "--gpu", "a100-sxm-80gb", "--gpu", "a30", "-q", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [each["gpu_id"] for each in found["predictions"]] == ["a100-sxm-80gb", "a30"]
    assert run(["run", path, "--gpu", "a30", "-q", "--out", kept, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["launches"] == 1
    with pytest.raises(InputError, match="several"):
        run(["compare", path, "--gpu", "a30", "--gpu", "h100-sxm", "-q"])
    with pytest.raises(InputError, match="none is named"):
        run(["profile", path, "-q"])


@pytest.mark.parametrize(("dram_us", "more_us"), [(100.0, 3.25 + 0.2 * 40 * 2**20 / 1.6e6), (0.0, 3.25), (1.0, 4.25)])
def test_what_a_flush_leaves_dirty_is_written_back_as_far_as_dram_limits(dram_us: float, more_us: float) -> None:
    gpu = replace(load_gpu("a100-sxm-80gb"), l2_bytes=40 * 2**20, sustained_dram_bytes_per_s=1.6e12)
    seconds = max(dram_us, 10.0) * 1e-6 if dram_us != 1.0 else 1e-6
    terms = (Term("dram", dram_us * 1e-6), Term("fma", 0.0 if dram_us else 1e-5))
    cold = Prediction("k", 0, gpu.name, gpu.id, seconds, seconds, seconds, 0.9, Timing.COLD, "dram", terms, (), "m")
    middle, low, high = measured_by_do_bench(cold, gpu)
    assert (middle - seconds) * 1e6 == pytest.approx(more_us)
    assert low <= middle <= high
