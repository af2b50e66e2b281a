"""GPUs that do not exist: what a file changes, what follows from it, and what it refuses."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from kerncast.caveats import CaveatKind
from kerncast.errors import GPUError
from kerncast.gpu import GPU, Architecture, Cycles, load_gpu, resolve_gpu
from kerncast.gpu.files import known_ids


def changed(folder: Path, of: str, text: str = "", name: str = "mine.toml") -> GPU:
    path = folder / name
    path.write_text(f'from = "{of}"\n{text}', encoding="utf-8")
    return load_gpu(path)


def nameless(gpu: GPU) -> GPU:
    """Return a GPU without what only says who it is and where its values come from."""
    return replace(gpu, id="", name="", facts=(), architecture=replace(gpu.architecture, facts=()))


@pytest.mark.parametrize("name", known_ids())
def test_a_gpu_without_changes_is_the_one_that_it_is_from(name: str, tmp_path: Path) -> None:
    assert nameless(changed(tmp_path, name)) == nameless(load_gpu(name))


CHANGES = {
    "sm_count": ("peak", 2), "clock_boost_mhz": ("peak", 2), "dram_gb_per_s": ("peak", 2), "l2_kib": ("peak", 2),
    "fp32_per_sm": ("lanes", 2), "per_sm_kib": ("shared", 2), "per_sm": ("registers", 2), "l2_latency": ("cycles", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "rtx-3090", "h100-sxm", "p100-pcie-16gb", "titan-v"])
@pytest.mark.parametrize("key", CHANGES)
def test_a_change_and_its_reverse_give_the_gpu_again(name: str, key: str, tmp_path: Path) -> None:
    gpu, (section, factor) = load_gpu(name), CHANGES[key]
    fact = gpu.fact(f"{section}.{key}")
    assert fact is not None
    assert isinstance(fact.value, int | float)
    there = changed(tmp_path, name, f"[{section}]\n{key} = {fact.value * factor}\n", "there.toml")
    # The latency of L2 that was measured gives way to the one that the file gives.
    if gpu.l2_latency_cycles is not None and key == "l2_latency":
        assert there.l2_latency == 2 * fact.value
        return
    assert nameless(there) != nameless(gpu)
    back = changed(tmp_path, "there.toml", f"[{section}]\n{key} = {fact.value}\n")
    if key == "per_sm_kib":  # carve-outs between the two sizes are none of either
        same = replace(back.architecture, shared_carveouts_bytes=gpu.architecture.shared_carveouts_bytes)
        back = replace(back, architecture=same)
    assert rounded(back) == rounded(gpu)


def rounded(gpu: GPU) -> list[object]:
    """Return all values to five digits: derived ones are told to six."""
    bare = nameless(gpu)
    parts = (bare, bare.architecture, bare.architecture.cycles)
    values = [getattr(part, field.name) for part in parts for field in fields(part)]
    plain = [value for value in values if not isinstance(value, Architecture | Cycles)]
    return [float(f"{value:.5g}") if isinstance(value, float | int) else value for value in plain]


def test_twice_the_sms_have_twice_the_rates_and_the_same_memory(tmp_path: Path) -> None:
    gpu, twice = load_gpu("a100-sxm-80gb"), changed(tmp_path, "a100-sxm-80gb", "sm_count = 216\n")
    assert twice.peak_fp32_flops_per_s == 2 * gpu.peak_fp32_flops_per_s
    assert twice.l1_bytes_per_s == pytest.approx(2 * 19299.3e9, rel=1e-5)
    assert (twice.dram_bytes_per_s, twice.dram_rate, twice.l2_rate) == (
        gpu.dram_bytes_per_s,
        gpu.dram_rate,
        gpu.l2_rate,
    )


def test_measured_bandwidth_keeps_its_share_of_the_peak(tmp_path: Path) -> None:
    # The A100's 40 GB model with the DRAM of the 80 GB one: 2,039 over 1,555.2 GB/s.
    old, new = load_gpu("a100-sxm-40gb"), changed(tmp_path, "a100-sxm-40gb", "dram_gb_per_s = 2039\n")
    assert old.dram_rate is not None
    assert new.dram_rate is not None
    assert new.dram_rate.bytes_per_s / old.dram_rate.bytes_per_s == pytest.approx(2039 / 1555.2, rel=1e-4)
    assert "peak.dram_gbit_per_s_per_pin" not in {fact.key for fact in new.facts}


def test_more_lanes_shorten_the_time_in_their_pipe(tmp_path: Path) -> None:
    assert changed(tmp_path, "titan-v", "[lanes]\nfp32_per_sm = 128\n").architecture.cycles.fma == 1  # 2 of 64 lanes
    own = changed(tmp_path, "titan-v", "[lanes]\nfp32_per_sm = 128\n[cycles]\nfma = 1.5\n")
    assert own.architecture.cycles.fma == 1.5


def test_the_clock_takes_its_range_along_and_leaves_dram_its_time(tmp_path: Path) -> None:
    gpu, fast = load_gpu("a100-sxm-80gb"), changed(tmp_path, "a100-sxm-80gb", "clock_boost_mhz = 2820\n")
    assert fast.clock_base_hz == 2 * 1275e6
    assert fast.l2_latency == gpu.l2_latency == 211
    # 405.5 ns of which L2 takes 211 cycles at 1,410 MHz: 149.6 ns, and half of that at twice the clock.
    assert fast.dram_latency_s == pytest.approx((405.5319 - 149.6454 / 2) * 1e-9, rel=1e-5)


def test_limits_of_shared_memory_and_registers_follow_its_size(tmp_path: Path) -> None:
    a = changed(tmp_path, "titan-v", "[shared]\nper_sm_kib = 48\n[registers]\nper_sm = 32768\n").architecture
    assert (a.shared_bytes_per_sm, a.shared_bytes_per_block_optin, a.l1_and_shared_bytes) == (49152, 49152, 81920)
    assert a.shared_carveouts_bytes == tuple(1024 * kib for kib in (0, 8, 16, 32, 48))
    assert (a.registers_per_sm, a.max_registers_per_block) == (32768, 32768)


def test_it_says_what_it_is_made_of(tmp_path: Path) -> None:
    path = tmp_path / "wide.toml"
    path.write_text('from = "titan-v"\nsm_count = 160\n', encoding="utf-8")
    gpu, (caveat,) = resolve_gpu(path)
    assert caveat.kind is CaveatKind.GPU_IS_HYPOTHETICAL
    assert (caveat.subject, dict(caveat.texts)) == ("TITAN V", {"changed": "peak.sm_count"})
    sgemm = gpu.fact("sustained.sgemm_gflops")
    assert sgemm is not None
    assert sgemm.sources == ("13480.1 of TITAN V, changed with peak.sm_count (data/hypothetical.toml)",)


def test_it_is_not_taken_for_the_gpu_whose_name_its_file_has(tmp_path: Path) -> None:
    assert changed(tmp_path, "titan-v", "sm_count = 40\n", "titan-v.toml").id == "titan-v-changed"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('from = "A100"\nsm_count = 80\n', "from: 'A100' means several GPUs (name one of them, such as a100-sxm-80gb)"),
        ('from = "titan-w"\nsm_count = 80\n', "no GPU or architecture is called 'titan-w'; the nearest are titan-v"),
        ('from = "mine.toml"\nsm_count = 80\n', "from leads back to mine.toml"),
        ('from = "titan-v"\nsm_count = -1\n', "peak.sm_count is -1 (give a whole number above 0"),
        ('from = "titan-v"\n[peak]\nsm_cuont = 80\n', "peak.sm_cuont is not a known key (did you mean peak.sm_count?"),
        ('from = "titan-v"\nclock_base_mhz = 1800\n', "peak.clock_base_mhz is above peak.clock_boost_mhz"),
        ('from = "titan-v"\n[sustained]\ndram_gb_per_s = 900\n', "sustained.dram_gb_per_s is above peak.dram_gb_per_s"),
        ('from = "titan-v"\nfp32_gflops = 1000\n', "peak.fp32_gflops is 1000, but 2 x lanes x SMs x boost clock is"),
        ('from = "titan-v"\n[registers]\nmax_per_block = 99999\n', "registers.max_per_block is above registers.per_sm"),
        ('from = "titan-v"\nsm_count = { status = "unknown" }\n', "peak.sm_count is missing"),
        ('from = "gone.toml"\nsm_count = 80\n', "gone.toml"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GPUError) as refused:
        load_gpu(path)
    assert fault in str(refused.value)
