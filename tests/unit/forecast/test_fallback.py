"""What cannot be simulated is forecast by the roofline, with the reason; only who asks for a simulation is refused."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kerncast
from kerncast.caveats import CaveatKind
from kerncast.errors import (
    BudgetExceededError,
    KernelFault,
    LaunchError,
    MissingEvidenceError,
    Refusal,
    UnsupportedError,
)
from kerncast.execute import recording, run_launch
from kerncast.execute.native import TooLargeError
from kerncast.forecast import Options, forecast, forecast_all, profile_launch, profiling, resolve_gpus
from kerncast.models.sm import simulate as simulator
from kerncast.models.sm.simulate import prepare
from kerncast.prediction import Prediction
from tests.helpers.caches import new_cache
from tests.helpers.caveats import kinds, only
from tests.helpers.places import ROOT

EXAMPLES = ROOT / "examples"
SAXPY = EXAMPLES / "saxpy.toml"

#: Every block waits for the first one, which is not among those that the busiest SM gets from the middle of the grid.
WAITING = """
__global__ void waiting(volatile int *go, int *x) {
    if (blockIdx.x == 0) *go = 1;
    else while (*go == 0) {}
    x[blockIdx.x * blockDim.x + threadIdx.x] = *go;
}
"""
WAITING_LAUNCH = """
source = "waiting.cu"
[[launch]]
kernel = "waiting"
grid = [2048]
block = [32]
args = { go = "i32[1] zeros", x = "i32[65536] zeros" }
"""


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was simulated before would hide what a test breaks."""
    prepare()  # here, where its machine code is kept
    new_cache(tmp_path / "of a child")
    monkeypatch.setenv("KERNCAST_CACHE", "off")


def refusing(error: Exception) -> object:
    def record(*_: object) -> None:
        raise error

    return record


def reason(found: Prediction) -> str:
    """Return why a launch is not simulated."""
    return str(only(found.caveats, CaveatKind.NOT_SIMULATED).details["reason"])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TooLargeError(), "too large to be compiled"),
        (MemoryError(), "more memory than is free"),
        (KernelFault("reads outside of x"), "reads outside of x"),
        (BudgetExceededError("the kernel did not end"), "did not end"),
        (UnsupportedError("the kernel has 40000 PTX instructions"), "40000 PTX instructions"),
    ],
)
def test_a_launch_that_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
    monkeypatch.setattr(recording, "record_sm", refusing(error))
    (found,) = kerncast.predict(SAXPY, "TITAN V")
    assert found.model == "roofline"
    assert words in reason(found)
    with pytest.raises(Refusal, match=words) as refused:
        kerncast.predict(SAXPY, "TITAN V", model="simulation")
    assert refused.value.cure == "Use --model roofline."


def test_more_warps_than_an_sm_is_simulated_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        simulator, "simulate_together", refusing(LaunchError("9 resident blocks are more than one SM takes"))
    )
    (found,) = kerncast.predict(SAXPY, "TITAN V")
    assert "9 resident blocks" in reason(found)
    with pytest.raises(Refusal, match="--model roofline"):
        kerncast.predict(SAXPY, "TITAN V", model="simulation")


def test_a_gpu_of_which_too_little_is_known() -> None:
    gpu = replace(kerncast.load_gpu("TITAN V"), dram_bus_bits=None, l2_bytes_per_s=None)
    (found,) = kerncast.predict(SAXPY, gpu)
    assert found.model == "roofline"
    assert "L2 bandwidth is unknown" in reason(found)
    with pytest.raises(MissingEvidenceError, match="L2 bandwidth is unknown"):
        kerncast.predict(SAXPY, gpu, model="simulation")


def test_counts_have_no_simulation() -> None:
    profile = profile_launch(SAXPY)
    with pytest.raises(MissingEvidenceError, match="comes without its source"):
        kerncast.predict(profile, "TITAN V", model="simulation")


def test_what_takes_too_long_on_one_gpu_is_tried_on_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which GPUs are asked together, and in which order, changes no forecast."""
    original = recording.record_sm

    def record(executed: Any, sms: int, *rest: Any) -> Any:
        if sms == 80:
            raise BudgetExceededError("one SM has too much to do")
        return original(executed, sms, *rest)

    monkeypatch.setattr(recording, "record_sm", record)
    asked = ["TITAN V", "T4", "RTX 4070"]
    found = forecast_all(SAXPY, resolve_gpus(asked), Options()).predictions
    turned = forecast_all(SAXPY, resolve_gpus(asked[::-1]), Options()).predictions
    assert [p.model for p in found] == ["roofline", "simulation", "simulation"]
    assert found == turned[::-1]


def test_what_takes_too_long_again_and_again_is_given_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def record(*_: object) -> None:
        tried.append(1)
        raise BudgetExceededError("the kernel did not end")

    monkeypatch.setattr(recording, "record_sm", record)
    monkeypatch.setattr(forecast, "_MOST_LOST", 1)
    found = forecast_all(SAXPY, resolve_gpus(["TITAN V", "T4", "RTX 4070"]), Options()).predictions
    assert [p.model for p in found] == ["roofline"] * 3
    assert "did not end" in reason(found[0])
    assert all("naming this GPU alone may give another forecast" in reason(each) for each in found[1:])
    assert len(tried) == 1


def test_blocks_that_wait_for_others_end_soon(tmp_path: Path) -> None:
    (tmp_path / "waiting.cu").write_text(WAITING)
    path = tmp_path / "launch.toml"
    path.write_text(WAITING_LAUNCH)
    (found,) = kerncast.predict(path, "TITAN V")
    assert found.model == "roofline"
    assert "did not end within" in reason(found)
    profile = profile_launch(path, gpu="TITAN V")
    assert profile.warp_states is None
    assert CaveatKind.WARP_STATES_NOT_SIMULATED in kinds(profile.caveats)


def test_progress_says_that_the_simulator_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "is_prepared", lambda: False)
    said: list[str] = []
    forecast_all(SAXPY, resolve_gpus(["t4"]), Options(), lambda what, _done, _total: said.append(what))
    assert "compiling the simulator (once)" in said
    said.clear()
    forecast_all(SAXPY, resolve_gpus(["t4"]), Options(model="roofline"), lambda what, _done, _total: said.append(what))
    assert "compiling the simulator (once)" not in said


def test_a_simulated_forecast_imports_no_library_of_other_tasks(tmp_path: Path) -> None:
    code = (
        f"import sys, kerncast; (found,) = kerncast.predict({str(SAXPY)!r}, 'TITAN V');"
        "assert found.model == 'simulation', found;"
        "print(sorted({'sklearn', 'pandas', 'matplotlib', 'pyarrow'} & set(sys.modules)))"
    )
    environment = {**os.environ, "KERNCAST_CACHE": str(tmp_path / "of a child")}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout == "[]\n"


def test_the_duration_of_a_profile_is_the_forecast_of_what_a_profiler_times() -> None:
    (found,) = kerncast.predict(SAXPY, "TITAN V", timing="profiler")
    states = profile_launch(SAXPY, gpu="TITAN V").warp_states
    assert states is not None
    assert states.seconds == pytest.approx(found.seconds, rel=1e-12)
    # A scheduler issues for one warp at a time, and what its warps do adds up to the time that they are there.
    selected = next(each.warp_cycles for each in states.states if each.state == "selected")
    assert selected == states.issued
    assert sum(line.warp_cycles for line in states.lines) == pytest.approx(states.warp_cycles)
    assert states.warp_cycles <= 64 * states.simulated_cycles
    assert {line.line for line in states.lines} <= {line.line for line in profile_launch(SAXPY).lines}


def test_a_profile_executes_its_sample_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def counted(*each: Any) -> Any:
        runs.append(each)
        return run_launch(*each)

    monkeypatch.setattr(profiling, "run_launch", counted)
    profile = profile_launch(SAXPY, gpu="TITAN V")
    assert profile.warp_states is not None
    assert profile.caches is not None
    assert len(runs) == 1
