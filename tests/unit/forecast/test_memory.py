"""What a launch takes of memory ends with it, and what it cannot get ends no other launch."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncast.errors import IllegalAddress, MachineLimitError
from kerncast.execute import recording
from kerncast.execute.setup.arena import Arena
from kerncast.forecast import Options, cases, forecast, forecast_all, resolve_gpus
from tests.helpers.caches import new_cache

SOURCE = "__global__ void k(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2.f; }"
LAUNCH = """
[[launch]]
kernel = "k"
grid = [{grid}]
block = [256]
args = {{ x = "f32[65536] random", n = 65536 }}
"""


@pytest.fixture
def three_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNCAST_CACHE", str(new_cache(tmp_path / "cache")))
    (tmp_path / "k.cu").write_text(SOURCE)
    launches = "".join(LAUNCH.format(grid=256 + number) for number in range(3))
    (tmp_path / "three.toml").write_text(f'source = "k.cu"\n{launches}')
    return tmp_path / "three.toml"


@pytest.fixture
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def arenas() -> set[int]:
    return {id(each) for each in gc.get_objects() if type(each) is Arena}


@pytest.mark.usefixtures("_no_collection")
def test_memory_of_a_launch_ends_with_it_without_a_collection(three_launches: Path) -> None:
    before = arenas()
    found = forecast_all(three_launches, resolve_gpus(["titan-v"]), Options())
    assert [each.model for each in found.predictions] == ["simulation"] * 3
    assert arenas() <= before


@pytest.mark.usefixtures("_no_collection")
def test_memory_ends_with_a_launch_that_is_not_simulated(three_launches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_EVENTS", 1)
    before = arenas()
    found = forecast_all(three_launches, resolve_gpus(["titan-v"]), Options())
    assert [each.model for each in found.predictions] == ["roofline"] * 3
    assert arenas() <= before


@pytest.mark.usefixtures("_no_collection")
def test_memory_ends_with_a_launch_that_faults(three_launches: Path) -> None:
    three_launches.write_text(three_launches.read_text().replace("n = 65536", "n = 70000"))
    before = arenas()
    found = forecast_all(three_launches, resolve_gpus(["titan-v"]), Options())
    assert [each.refusal for each in found.refused] == [IllegalAddress] * 2
    assert arenas() <= before


def test_a_launch_without_memory_is_refused_alone(three_launches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cases.cases_of

    def starved(subject: Any, *others: Any) -> Any:
        if subject.index == 1:
            raise MemoryError
        return whole(subject, *others)

    monkeypatch.setattr(forecast, "cases_of", starved)
    found = forecast_all(three_launches, resolve_gpus(["titan-v"]), Options())
    assert [each.launch for each in found.predictions] == [0, 2]
    assert [(each.launch, each.refusal) for each in found.refused] == [(1, MachineLimitError)]
    assert "a machine with more memory" in found.refused[0].reason
