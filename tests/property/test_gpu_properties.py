"""What has to hold for any name, any clock and any user's file."""

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import GPUError
from kerncast.gpu import GPU, Rule, list_gpus, load_gpu, normalise, rules
from kerncast.gpu.confidence import doubts
from kerncast.models.sm.multiprocessor import MemoryShares, sm_of
from kerncast.occupancy import cache_geometry

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
    assert moved.at_clock("boost") == gpu.at_clock("boost")
    assert moved.clock_range_hz is None


@given(st.dictionaries(keys, values, max_size=6))
def test_any_file_is_a_gpu_or_a_readable_error(table: dict[str, object]) -> None:
    text = "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.toml"
        path.write_text(text, encoding="utf-8")
        found = answer(path)
    assert isinstance(found, GPU) or "mine.toml" in found


NUMBERS = [rule for rule in rules("gpu").values() if rule.kind in {"whole", "number", "fraction"}]
SHARES = MemoryShares(active_sms=1, dram_read=1, dram_write=1, dram_local=1, dram_atomic=1, atomic_pieces=0)


@given(st.sampled_from(NUMBERS), st.floats() | st.integers(), st.booleans())
def test_a_number_that_is_taken_lies_within_its_bounds_and_makes_finite_rates(
    rule: Rule, value: float, is_scaled: bool
) -> None:
    """Of half of the numbers only the digits are used, so that they often lie within."""
    if is_scaled and math.isfinite(value):
        value = rule.minimum + abs(value) % 1 * (rule.maximum - rule.minimum)
        value = round(value) if rule.kind == "whole" else value
    card: dict[str, float] = {
        "peak.sm_count": 46,
        "peak.clock_boost_mhz": 1725,
        "peak.dram_gb_per_s": 448,
        "peak.l2_kib": 4096,
    }
    card |= {"peak.dram_bus_bits": 256, rule.key: value}
    sections: dict[str, str] = {}
    for key, number in card.items():
        section, _, name = key.partition(".")
        sections[section] = sections.get(section, f"[{section}]\n") + f"{name} = {_toml(number)}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.toml"
        path.write_text('from = "sm_86"\n' + "".join(sections.values()), encoding="utf-8")
        gpu = answer(path)
    if isinstance(gpu, GPU):
        assert rule.minimum <= value <= rule.maximum
        rates = (gpu.peak_fp32_flops_per_s, gpu.dram_bytes_per_s, gpu.l2_rate and gpu.l2_rate.bytes_per_s)
        assert all(rate and 0 < rate < math.inf for rate in rates)
        assert 0 < (gpu.dram_latency or 0) < math.inf
        sm_of(gpu, cache_geometry(gpu, 1, 0), SHARES)
        assert all(math.isfinite(doubt.value) for doubt in doubts(gpu))


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
