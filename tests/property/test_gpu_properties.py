"""What has to hold for any name, any clock and any user's file."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import GPUError
from kerncast.gpu import GPU, list_gpus, load_gpu
from kerncast.gpu_files import rules
from kerncast.gpu_names import normalise

gpus = st.sampled_from(list_gpus())
prefixes = st.sampled_from(["", "NVIDIA ", "GeForce ", "Tesla ", "nvidia geforce "])
texts = st.sampled_from(["x", "", "80", "sm_86"])
values = st.one_of(st.integers(), st.floats(), st.booleans(), texts, st.lists(st.integers(), max_size=3))
peak_keys = [key.removeprefix("peak.") for key in rules("gpu")]
keys = st.sampled_from([*peak_keys, "from", "name", "sources", "colour"])


def answer(name: str | Path) -> GPU | str:
    """Return the GPU, or the text of the error that a user would read."""
    try:
        return load_gpu(name)
    except GPUError as error:
        return str(error)


@given(st.text())
def test_any_name_is_a_gpu_or_a_readable_error(name: str) -> None:
    found = answer(name)
    assert isinstance(found, GPU) or len(found.encode()) < 2000


@given(gpus, prefixes, st.sampled_from("-_ ./"))
def test_spelling_does_not_matter(gpu: GPU, prefix: str, mark: str) -> None:
    spelt = prefix + gpu.id.upper().replace("-", mark)
    assert normalise(spelt) == normalise(gpu.id)
    if mark != "/":
        assert load_gpu(spelt) == gpu


@given(gpus, st.floats(1e8, 5e9))
def test_rates_are_proportional_to_the_clock(gpu: GPU, clock_hz: float) -> None:
    factor = clock_hz / gpu.clock_hz
    moved = gpu.at_clock(clock_hz)
    assert moved.peak_fp32_flops_per_s == pytest.approx(factor * gpu.peak_fp32_flops_per_s)
    assert moved.peak_warp_instructions_per_s == pytest.approx(factor * gpu.peak_warp_instructions_per_s)
    assert moved.dram_rate == gpu.dram_rate
    assert moved.at_clock("boost") == gpu


@given(st.dictionaries(keys, values, max_size=6))
def test_any_file_is_a_gpu_or_a_readable_error(table: dict[str, object]) -> None:
    text = "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.toml"
        path.write_text(text, encoding="utf-8")
        found = answer(path)
    assert isinstance(found, GPU) or "mine.toml" in found


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
