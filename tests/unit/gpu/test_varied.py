"""A GPU varied in memory is the one that a file with the same changes makes."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import GPUError
from kerncast.gpu import GPU, load_gpu, varied

NAMES = ["titan-v", "rtx-3090", "h100-sxm", "p100-pcie-16gb", "k40"]
CHANGES = [
    ("peak", "sm_count"), ("peak", "clock_boost_mhz"), ("peak", "dram_gb_per_s"), ("peak", "l2_kib"),
    ("lanes", "fp32_per_sm"), ("registers", "per_sm"), ("cycles", "l2_latency"),
]  # fmt: skip


def nameless(gpu: GPU) -> GPU:
    return replace(gpu, id="", name="", facts=(), architecture=replace(gpu.architecture, facts=()))


@pytest.mark.parametrize("name", NAMES)
def test_no_change_is_the_same_gpu(name: str) -> None:
    assert nameless(varied(load_gpu(name), {})) == nameless(load_gpu(name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("section", "key"), CHANGES)
def test_a_change_is_that_of_a_file(name: str, section: str, key: str, tmp_path: Path) -> None:
    gpu = load_gpu(name)
    fact = gpu.fact(f"{section}.{key}")
    assert fact is not None
    assert isinstance(fact.value, int | float)
    file = tmp_path / "mine.toml"
    file.write_text(f'from = "{name}"\n[{section}]\n{key} = {2 * fact.value}\n')
    assert nameless(varied(gpu, {fact.key: 2 * fact.value})) == nameless(load_gpu(file))


@given(st.floats(0.5, 2.0))
def test_a_clock_that_was_chosen_keeps_its_part(part: float) -> None:
    gpu = load_gpu("titan-v").at_clock(1e9 * part)
    faster = varied(gpu, {"peak.clock_boost_mhz": 2 * 1455})
    assert faster.clock_hz == pytest.approx(2 * gpu.clock_hz)
    assert faster.clock_range_hz is None


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(GPUError, match="clock_base"):
        varied(load_gpu("titan-v"), {"peak.clock_base_mhz": 5000})
