"""Each mistake a user can make ends with one clear paragraph and the right exit status, never a traceback."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SAXPY = """
__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
LAUNCH = """
source = "k.cu"
[[launch]]
grid = [4]
block = [32]
args = { ARGS }
"""
GOOD_ARGS = 'n = 128, a = 2.0, x = "f32[128] random", y = "f32[128] zeros"'

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str, str], Path]


def check(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """Assert the status and that stderr is one paragraph that holds these words."""
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stderr.startswith("kerncast: ")
    assert "\n\n" not in done.stderr.strip()
    for word in words:
        assert word in done.stderr, done.stderr


def predict_source(
    kerncast: Run, write: Write, source: str, args: str = GOOD_ARGS, *options: str
) -> subprocess.CompletedProcess[str]:
    """Forecast a source with a small launch on one GPU."""
    write("k.cu", source)
    file = write("launch.toml", LAUNCH.replace("ARGS", args))
    return kerncast("predict", file, "--gpu", "TITAN V", *options)


def test_a_good_launch_is_forecast(kerncast: Run, write: Write) -> None:
    done = predict_source(kerncast, write, SAXPY)
    assert done.returncode == 0, done.stderr
    assert "TITAN V" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("predict", "missing.toml", "--gpu", "t4"), ("missing.toml", "no such file")),
        (("predict", "missing.cu", "--grid", "1", "--block", "1", "--gpu", "t4"), ("missing.cu", "no such file")),
        (("predict", "notes.txt", "--gpu", "t4"), ("notes.txt",)),
        (("predict", "report.ncu-rep", "--gpu", "t4"), ("report.ncu-rep", "cannot be read")),
        (("predict", "times.csv", "--gpu", "t4"), ("times.csv", "cannot be read")),
        (("gpus", "GeForce RTX 2080 Tie"), ("2080",)),
        (("gpus", "GTX TITANIC"), ("GTX TITANIC", "TITAN")),
        (("gpus", "nowhere.toml"), ("nowhere.toml",)),
        (("predict",), ("evidence",)),
        (("frobnicate",), ("frobnicate",)),
        (("gpus", "--frobnicate"), ("--frobnicate",)),
        (("occupancy", "--gpu", "t4"), ("--block",)),
        (("occupancy", "--gpu", "t4", "--block", "-5", "--registers", "32"), ("--block", "greater than or equal to 1")),
    ],
)
def test_wrong_usage(kerncast: Run, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    check(kerncast(*arguments), 2, *words)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("times.csv", "a,b\n1,2\n", ("it holds no profile", "ncu --csv")),
        ("empty.csv", "", ("it holds no profile",)),
        ("report.ncu-rep", "NVR\0\1\2", ()),
        ("cache.json", "{}", ("no known tool",)),
    ],
)
def test_a_file_that_is_no_profile(
    kerncast: Run, write: Write, name: str, content: str, words: tuple[str, ...]
) -> None:
    check(kerncast("predict", write(name, content), "--gpu", "t4"), 2, name, *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "magic"), ("magic", "roofline")),
        (("--level", "1.5"), ("level",)),
        (("--level", "nan"), ("level",)),
        (("--level", "0.9999999999999999"), ("level",)),
        (("--clock", "1e300"), ("clock",)),
        (("--clock", "fast"), ("fast",)),
        (("--clock", "-100"), ("clock",)),
        (("--clock", "nan"), ("clock",)),
        (("--timing", "sundial"), ("sundial",)),
        (("--max", "2"), ("--max",)),
        (("--max", "-2ms"), ("--max",)),
        (("--compare-to", "none.json"), ("none.json",)),
        (("--report", "x.docx"), ("x.docx",)),
        (("--out", "/nonexistent/x.json"), ("/nonexistent/x.json",)),
        (("--gpu", "no such gpu"), ("no such gpu",)),
        (("--kernel", "saxpy"), ("--kernel",)),
    ],
)
def test_wrong_options(kerncast: Run, write: Write, options: tuple[str, ...], words: tuple[str, ...]) -> None:
    check(predict_source(kerncast, write, SAXPY, GOOD_ARGS, *options), 2, *words)


def test_no_gpu_is_named(kerncast: Run, write: Write) -> None:
    write("k.cu", SAXPY)
    check(kerncast("predict", write("launch.toml", LAUNCH.replace("ARGS", GOOD_ARGS))), 2, "--gpu")


@pytest.mark.parametrize(
    "text",
    [
        '{"predictions": [{"kernel": "k", "launch": 1e999, "gpu_id": "g", "low": 1, "high": 1}]}',
        '{"predictions": []}',
        "not json",
        "[]",
        '{"predictions": 3}',
        '{"predictions": [{"kernel": "k"}]}',
        "[" * 100_000,
    ],
)
def test_compare_to_a_broken_file(kerncast: Run, write: Write, text: str) -> None:
    old = write("old.json", text)
    check(predict_source(kerncast, write, SAXPY, GOOD_ARGS, "--compare-to", str(old)), 2, "old.json")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ('n = 128, a = 2.0, x = "f32[128] random"', ("3 arguments for 4 parameters",)),
        (GOOD_ARGS + ", z = 1", ("5 arguments for 4 parameters",)),
        ('n = 128, a = 2.0, y = "f32[128]", x = 5', ("pointer",)),
        ('a = 2.0, n = 128, x = "f32[128]", w = "f32[128]"', ("stands where parameter",)),
        ('n = 1.5, a = 2.0, x = "f32[128]", y = "f32[128]"', ("1.5", "integer")),
        ('n = 5000000000, a = 2.0, x = "f32[128]", y = "f32[128]"', ("5000000000", "fit")),
        ('n = "f32[4]", a = 2.0, x = "f32[128]", y = "f32[128]"', ("not a pointer",)),
        ('n = 128, a = 2.0, x = "f31[128]", y = "f32[128]"', ("f31",)),
        ('n = 128, a = 2.0, x = "f32[-1]", y = "f32[128]"', ("-1",)),
        ('n = 128, a = 2.0, x = "f32[128] frandom", y = "f32[128]"', ("frandom",)),
        ('n = 128, a = 2.0, x = "f32[128] randint(5, 5)", y = "f32[128]"', ("randint",)),
        ('n = 128, a = 2.0, x = "f32[128] file(no.npy)", y = "f32[128]"', ("no.npy",)),
        ('n = 128, a = 2.0, x = "i32[128] random", y = "f32[128]"', ("randint",)),
        ("n = 128, a = [1]", ("number",)),
    ],
)
def test_wrong_arguments(kerncast: Run, write: Write, args: str, words: tuple[str, ...]) -> None:
    check(predict_source(kerncast, write, SAXPY, args), 2, *words)


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        ("", ("source",)),
        ("source = ", ("TOML",)),
        ('source = "k.cu"', ("[[launch]]",)),
        ('source = "k.cu"\nlaunch = 3', ("[[launch]]",)),
        ('source = "k.cu"\n[[launch]]\nblock = [32]', ("grid",)),
        ('source = "k.cu"\n[[launch]]\ngrid = [1, 2, 3, 4]\nblock = [32]', ("grid",)),
        ('source = "k.cu"\n[[launch]]\ngrid = [0]\nblock = [32]', ("grid",)),
        ('source = "k.cu"\n[[launch]]\ngrid = ["a"]\nblock = [32]', ("grid",)),
        ('source = "k.cu"\n[[launch]]\ngrid = [1]\nblock = [1025]', ("1024",)),
        ('source = "k.cu"\n[[launch]]\ngrid = [1]\nblock = [64, 64]', ("4096 threads",)),
        ('source = "k.cu"\n[[launch]]\ngrid = [1, 70000]\nblock = [64]', ("65535",)),
        ('source = "k.cu"\n[[launch]]\ngrid = [1]\nblock = [64]\nblok = 3', ("blok",)),
        ('source = "k.cu"\n[[launch]]\ngrid = [1]\nblock = [64]\nshared_bytes = -1', ("shared_bytes",)),
        ('source = "${KERNCAST_UNSET_VARIABLE}/k.cu"\n[[launch]]\ngrid = [1]\nblock = [64]', ("KERNCAST_UNSET",)),
        ('source = "other.cu"\n[[launch]]\ngrid = [1]\nblock = [64]', ("other.cu", "no such file")),
        ('source = "k.cu"\n[[launch]]\nkernel = "saxpi"\ngrid = [1]\nblock = [64]', ("saxpi", "saxpy")),
        ("a = " + "[" * 5000, ("TOML",)),
        ("\x00", ("TOML",)),
        ('[[declared]]\nkernel = "k"\ngrid = [1]\nblock = [1]\nfp32_flops = nan', ("fp32_flops",)),
        ('[[declared]]\nkernel = "k"\ngrid = [1]\nblock = [1]\nfp32_flops = -1', ("fp32_flops",)),
        ('[[declared]]\nkernel = "k"\ngrid = [1]\nblock = [1]\nflops = 1', ("flops",)),
        ('source = "k.cu"\nseed = -1\n[[launch]]\ngrid = [1]\nblock = [64]', ("seed",)),
        ('[[declared]]\nkernel = "k"\ngrid = [1]\nblock = [1]\nfp32_flops = ' + "9" * 400, ("fp32_flops",)),
        ('[[declared]]\nkernel = "k"\ngrid = [1]\nblock = [1]\ndram_bytes = 1e308', ("dram_bytes",)),
        ('[[declared]]\nkernel = "k"\ngrid = [1]\nblock = [99999]\ndram_bytes = 1', ("block",)),
        ('[[declared]]\nkernel = "\\u001b[31m"\ngrid = [1]\nblock = [9]\ndram_bytes = 1', ("printable",)),
        ('[[declared]]\nkernel = "k"\ngrid = [0]\nblock = [1]\nfp32_flops = 1', ("grid",)),
    ],
)
def test_wrong_launch_files(kerncast: Run, write: Write, launch: str, words: tuple[str, ...]) -> None:
    write("k.cu", SAXPY)
    check(kerncast("predict", write("launch.toml", launch), "--gpu", "TITAN V"), 2, *words)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("__global__ void k(int n) { int x = ; }", ("k.cu(1): error",)),
        ("int main() { return 0; }", ("k.cu",)),
        (SAXPY + "__global__ void other(int *p) { *p = 1; }", ("saxpy", "other")),
        ('#include "nowhere.h"\n' + SAXPY, ("nowhere.h",)),
        ("", ("k.cu",)),
    ],
)
def test_wrong_sources(kerncast: Run, write: Write, source: str, words: tuple[str, ...]) -> None:
    check(predict_source(kerncast, write, source), 2, *words)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("y[i + 128] = x[i];", ("out of bounds", "k.cu:4", "y", "thread")),
        ("y[i - 1000] = x[i];", ("out of bounds", "k.cu:4")),
        ("*(float *)(size_t)(n - 128) = a;", ("null pointer", "k.cu:4")),
        ("__trap();", ("trap", "k.cu:4")),
        ('while (true) asm volatile("");', ("endless", "k.cu:4")),
        ("*(double *)(&y[1]) = 1.0;", ("misaligned", "k.cu:4")),
    ],
)
def test_misbehaving_kernels(kerncast: Run, write: Write, body: str, words: tuple[str, ...]) -> None:
    source = (
        "__global__ void k(int n, float a, const float *x, volatile float *y) {\n"
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n)\n" + body + "\n}\n"
    )
    check(predict_source(kerncast, write, source.replace("*)(&y", "*)((float *)&y")), 3, *words)


def test_too_much_memory(kerncast: Run, write: Write) -> None:
    args = 'n = 128, a = 2.0, x = "f32[999999999999]", y = "f32[128]"'
    check(predict_source(kerncast, write, SAXPY, args), 3, "can be addressed here")


def test_a_launch_that_no_chosen_gpu_can_run(kerncast: Run, write: Write) -> None:
    write("k.cu", SAXPY)
    launch = LAUNCH.replace("ARGS", GOOD_ARGS).replace("block = [32]", "block = [32]\nshared_bytes = 90000")
    path = write("launch.toml", launch)
    check(kerncast("predict", path, "--gpu", "T4"), 3, "65536", "90000")
    assert kerncast("predict", path, "--gpu", "T4", "--force").returncode == 0
    both = kerncast("predict", path, "--gpu", "T4", "--gpu", "TITAN V")
    assert both.returncode == 0
    assert "Refused" in both.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("from = 'sm_70'", ("sm_count",)),
        ("from = 'sm_99'\nsm_count = 4\nclock_boost_mhz = 1000\ndram_gb_per_s = 100", ("sm_99",)),
        ("sm_count = ", ("TOML",)),
        ("from = 'sm_70'\nsm_count = -4\nclock_boost_mhz = 1000\ndram_gb_per_s = 100", ("sm_count",)),
        ("from = 'sm_70'\nsm_count = 4\nclock_boost_mhz = nan\ndram_gb_per_s = 100", ("clock_boost_mhz",)),
        ("from = 'sm_70'\nsm_count = 4\nclock_boost_mhz = 1000\ndram_gb_per_s = 100\nspeed = 3", ("speed",)),
        ("from = 'sm_70'\nsm_count = 4\nclock_boost_mhz = 1.7\ndram_gb_per_s = 100", ("10 to 20,000 (unit MHz)",)),
        ("from = 'sm_70'\n" + "a." * 50_000 + "b = 1", ("twenty dots",)),
    ],
)
def test_wrong_gpu_files(kerncast: Run, write: Write, text: str, words: tuple[str, ...]) -> None:
    check(kerncast("gpus", write("mine.toml", text)), 2, *words)


def test_a_source_that_compiles_for_some_gpus_only(kerncast: Run, write: Write) -> None:
    source = "#if __CUDA_ARCH__ < 700\n#error only for Volta and newer\n#endif\n" + SAXPY
    done = predict_source(kerncast, write, source, GOOD_ARGS, "--gpu", "GTX 980", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [p["gpu"] for p in found["predictions"]] == ["TITAN V"]
    (refused,) = found["refused"]
    assert refused["gpu"] == "GTX 980"
    assert "sm_52" in refused["reason"]
    assert "only for Volta" in refused["reason"]
    assert found["totals"][0]["launches_refused"] == 0


def test_output_that_cannot_be_written() -> None:
    command = f"{sys.executable} -m kerncast gpus --json"
    full = subprocess.run(["bash", "-c", f"{command} > /dev/full"], capture_output=True, text=True, check=False)  # noqa: S607
    check(full, 2, "cannot be written")
    closed = subprocess.run(["bash", "-c", f"{command} >&-"], capture_output=True, text=True, check=False)  # noqa: S607
    check(closed, 2, "closed")


def test_a_terminal_without_unicode(kerncast_process: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert kerncast_process("gpus").returncode == 0
