"""Damaged launch files: whatever is wrong with one, the answer is an error of ours, or a run."""

import random
import re
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncast.compile import CompiledKernel, compile_source
from kerncast.errors import KerncastError
from kerncast.execute import Budget, execute
from kerncast.launch import load_launches
from tests.helpers.places import ROOT
from tests.helpers.thorough import examples

FOLDER = ROOT / "examples" / "kernels"
TEXTS = [(FOLDER / f"{name}.toml").read_text(encoding="utf-8") for name in ("saxpy", "spmv_csr", "bfs", "docking")]
WORDS = [
    "0", "-1", "1", "2147483648", "1e400", "nan", "inf", "true", '""', '"f32[4] random"', '"f64[] ones"', "[[launch]]",
    '"u8[9999999999999] zeros"', '"i32[4] randint(5, 5)"', '"bytes(00)"', '"f16[2, 2] iota"', "{}", "[]", "=", ",", "x",
    '"f32[1] file(missing.npy)"', "[launch]", "seed = 1", "defines = { N = 1 }", "\0", '"""', "#", "\u00e9",
    "1979-05-27",
]  # fmt: skip
SMALL = Budget(sample_seconds=0.0005, block_steps=3000, seconds=5, memory_bytes=1 << 24)


def damage(text: str, choose: random.Random) -> str:
    """Delete, double, swap or replace some words."""
    for _ in range(choose.choice([1, 1, 2, 4])):
        parts = re.split(r"(\s+|[\[\]{},=\"()])", text)
        at, other = choose.randrange(len(parts)), choose.randrange(len(parts))
        match choose.randrange(5):
            case 0:
                del parts[at]
            case 1:
                parts.insert(at, parts[other])
            case 2:
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at] = choose.choice(WORDS)
            case _:  # a number of about the same size: most of these are read, and run
                parts[at] = str(int(parts[at]) + choose.choice([-1, 1, 7])) if parts[at].isdigit() else parts[at]
        text = "".join(parts)
    return text


@cache
def compiled(source: Path, kernel: str | None) -> CompiledKernel | None:
    """Compile a kernel of the suite, or return None for what is not one of them."""
    try:
        return compile_source(source, architectures=["sm_70"], kernel=kernel).kernels[0]
    except KerncastError:
        return None


def attempt(text: str, folder: Path) -> str:
    """Read a launch file and run its first launches; returns what came of it."""
    path = folder / "damaged.toml"
    path.write_text(text.replace('source = "', f'source = "{FOLDER.as_posix()}/'), encoding="utf-8", errors="replace")
    try:
        launches = load_launches(path)
        for launch in launches[:2]:
            kernel = None if launch.defines else compiled(launch.source, launch.kernel)
            if kernel is not None:
                execute(kernel, launch, SMALL, engine="reference")
    except KerncastError as error:
        return type(error).__name__ if str(error) else "an error without words"
    return "ran"


def test_the_undamaged_texts_run(tmp_path: Path) -> None:
    assert {attempt(text, tmp_path) for text in TEXTS} <= {"ran", "BudgetExceededError"}


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False))
def test_damaged_text(tmp_path: Path, text: str, choose: random.Random) -> None:
    outcomes = {"ran", "LaunchError", "KernelFault", "BudgetExceededError", "UnsupportedError", "NotExecutedError"}
    assert attempt(damage(text, choose), tmp_path) in outcomes
