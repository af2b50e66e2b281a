"""GPU and Architecture as values, and their names."""

import subprocess
import sys
from dataclasses import replace

import pytest

from kerncast.caveats import CaveatKind
from kerncast.errors import GPUError
from kerncast.gpu import (
    GPU,
    Rate,
    Status,
    files,
    launch_overhead_s,
    list_gpus,
    list_incomplete,
    load_architecture,
    load_gpu,
    resolve_gpu,
)
from kerncast.prediction import Timing


def refusal(name: str) -> str:
    with pytest.raises(GPUError) as caught:
        load_gpu(name)
    return str(caught.value)


# --- values ---------------------------------------------------------------------------------------


def test_titan_v_in_si_units() -> None:
    gpu = load_gpu("titan-v")
    assert gpu.name == "TITAN V"
    assert gpu.compute_capability == "7.0"
    assert gpu.sm_count == 80
    assert gpu.tpc_count == 40
    assert (gpu.clock_hz, gpu.clock_boost_hz) == (1.335e9, 1.455e9)
    assert gpu.clock_base_hz == 1.2e9
    assert gpu.dram_bytes_per_s == pytest.approx(652.8e9)
    assert gpu.sustained_dram_bytes_per_s == pytest.approx(609.9e9)
    assert gpu.l2_bytes == 4608 * 1024
    assert gpu.memory_bytes == 12 * 2**30
    assert gpu.tdp_w == 250


def test_peak_rates_of_titan_v() -> None:
    gpu = load_gpu("titan-v").at_clock("boost")
    lanes_hz = 64 * 80 * 1.455e9
    assert gpu.peak_fp32_flops_per_s == pytest.approx(2 * lanes_hz)
    assert gpu.peak_fp64_flops_per_s == pytest.approx(lanes_hz)
    assert gpu.peak_fp16_flops_per_s == pytest.approx(4 * lanes_hz)
    assert gpu.peak_int32_ops_per_s == pytest.approx(lanes_hz)
    assert gpu.peak_special_ops_per_s == pytest.approx(lanes_hz / 4)
    assert gpu.peak_warp_instructions_per_s == pytest.approx(4 * 80 * 1.455e9)


def test_an_sm_of_kepler_and_maxwell_is_a_tpc() -> None:
    assert [load_gpu(name).tpc_count for name in ("gtx-680", "k40", "k80", "gtx-750", "gtx-970")] == [8, 15, 13, 4, 13]


def test_unknown_is_none() -> None:
    kepler = load_gpu("gtx-680")
    assert kepler.peak_fp16_flops_per_s is None
    assert replace(kepler, architecture=replace(kepler.architecture, sms_per_tpc=None)).tpc_count is None
    assert kepler.sustained_dram_bytes_per_s is None
    assert replace(load_gpu("titan-v"), dram_bus_bits=None).l2_rate is None
    assert replace(load_gpu("titan-v"), dram_bus_bits=None).l2_slices is None


def test_sustained_rates_say_whether_they_were_measured() -> None:
    assert load_gpu("titan-v").dram_rate == Rate(609.9e9, is_measured=True)
    turing = load_gpu("t4").dram_rate
    assert turing is not None
    assert turing.bytes_per_s == pytest.approx(0.88 * 320e9)
    assert not turing.is_measured


def test_ecc_lowers_the_fraction_of_tesla_kepler_boards() -> None:
    with_ecc, without = load_gpu("k40").dram_rate, load_gpu("gtx-titan-black").dram_rate
    assert with_ecc is not None
    assert without is not None
    assert with_ecc.bytes_per_s == pytest.approx(0.78 * 0.8 * 288.4e9)
    assert without.bytes_per_s == pytest.approx(0.78 * 336e9)


def test_l2_estimate_follows_the_bus_and_a_clock_of_its_own() -> None:
    gpu = load_gpu("gtx-titan-x")
    rate, slower = gpu.l2_rate, gpu.at_clock("base").l2_rate
    assert rate is not None
    assert slower is not None
    assert rate.bytes_per_s == pytest.approx(0.67 * 64 * 12 * 1.075e9)
    assert slower == rate


def test_at_clock() -> None:
    gpu = load_gpu("gtx-titan-x")
    base = gpu.at_clock("base")
    assert base.clock_hz == 1.0e9
    assert base.peak_fp32_flops_per_s == pytest.approx(6.144e12)
    assert base.at_clock("boost") == gpu.at_clock("boost")
    assert gpu.at_clock(1.2e9).clock_hz == 1.2e9
    assert gpu.clock_hz == 1.075e9


@pytest.mark.parametrize(
    ("name", "default_mhz", "range_mhz"),
    [
        ("k40", 745, (745, 875)),
        ("k20", 706, (706, 718)),
        ("k80", 875, (560, 875)),
        ("p100-pcie", 1189, (1189, 1328)),
        ("rtx-2080-ti", 1545, (1350, 1830)),
        ("t4", 1590, (900, 1590)),
        ("v100-sxm2-16gb", 1530, (1423, 1530)),
        ("gtx-1070", 1683, (1506, 2053)),
    ],
)
def test_the_clock_under_load(name: str, default_mhz: float, range_mhz: tuple[float, float]) -> None:
    gpu = load_gpu(name)
    assert gpu.clock_hz == gpu.default_clock_hz == default_mhz * 1e6
    assert gpu.clock_range_hz == pytest.approx([each * 1e6 for each in range_mhz])


def test_a_given_clock_has_no_range() -> None:
    k40 = load_gpu("k40")
    assert [k40.at_clock(each).clock_hz for each in ("base", "boost", "default")] == [745e6, 875e6, 745e6]
    assert {k40.at_clock(each).clock_range_hz for each in ("base", "boost", "default", 8e8)} == {None}
    assert k40.at_clock("boost").peak_fp32_flops_per_s == pytest.approx(5.04e12)


@pytest.mark.parametrize("gpu", [each for each in list_gpus() if each.clock_range_hz], ids=lambda gpu: gpu.id)
def test_clocks_are_in_order(gpu: GPU) -> None:
    assert gpu.clock_range_hz is not None
    low, high = gpu.clock_range_hz
    assert (gpu.clock_base_hz or 0) <= low <= gpu.clock_hz <= high
    for end in ("low", "high"):
        fact = gpu.fact(f"clocks.{end}_mhz")
        assert fact is not None
        assert fact.sources


def test_only_boards_without_any_evidence_have_no_range() -> None:
    unknown = {gpu.id for gpu in list_gpus() if gpu.clock_range_hz is None}
    assert unknown == {"gb10", "jetson-agx-orin-64gb", "jetson-agx-xavier", "rtx-3060-laptop"}


@pytest.mark.parametrize("spec", ["turbo", "", 0, -1.0, float("nan"), float("inf"), 1455, True])
def test_no_clock(spec: str | float) -> None:
    with pytest.raises(GPUError, match="is not a clock"):
        load_gpu("titan-v").at_clock(spec)


def test_facts_keep_the_unit_of_the_file() -> None:
    fact = load_gpu("titan-v").fact("peak.dram_gb_per_s")
    assert fact is not None
    assert (fact.value, fact.unit, fact.status) == (652.8, "GB/s", Status.CONFIRMED)
    assert len(fact.sources) >= 2
    inherited = load_gpu("t4").fact("lanes.special_per_sm")
    assert inherited is not None
    assert inherited.value == 16
    assert load_gpu("t4").fact("peak.nothing") is None


def test_gpus_are_immutable_and_equal_by_value() -> None:
    gpu = load_gpu("h200")
    assert hash(gpu) == hash(load_gpu("NVIDIA H200"))
    with pytest.raises(AttributeError):
        gpu.sm_count = 1  # type: ignore[misc]


def test_list_is_sorted_and_complete() -> None:
    ids = [gpu.id for gpu in list_gpus()]
    assert ids == sorted(ids)
    assert len(ids) == len(list(files.DATA.glob("gpus/*.toml")))


def test_architectures_inherit_by_field() -> None:
    turing, volta = load_architecture("sm_75"), load_architecture("sm_70")
    assert turing.number == 75
    assert turing.max_warps_per_sm == 32
    assert turing.fp32_lanes_per_sm == volta.fp32_lanes_per_sm
    assert turing.cycles.fma == volta.cycles.fma
    assert turing.cycles.shared_latency != volta.cycles.shared_latency
    with pytest.raises(GPUError, match="nearest is sm_8"):
        load_architecture("sm_85")


def test_launch_overhead_knows_every_timing() -> None:
    assert [launch_overhead_s(timing) for timing in Timing] == pytest.approx([1.6e-6, 2.75e-6, 2.75e-6, 1.2e-6])
    assert launch_overhead_s("template") == pytest.approx(5e-6)
    with pytest.raises(GPUError, match="Known are series"):
        launch_overhead_s("warm")


# --- speed and imports ----------------------------------------------------------------------------


def test_loading_one_gpu_reads_only_its_chain_and_no_heavy_module() -> None:
    program = (
        "import sys; from kerncast.gpu import files as gpu_files; read = gpu_files.read_toml; seen = []\n"
        "gpu_files.read_toml = lambda path: (seen.append(path.name), read(path))[1]\n"
        "from kerncast.gpu.gpu import load_gpu; load_gpu('NVIDIA GeForce RTX 4070')\n"
        "print(*seen); print('numpy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    files, numpy_loaded = run.stdout.splitlines()
    chain = ["sm_80.toml", "sm_86.toml", "sm_89.toml"]
    assert sorted(files.split()) == ["clock_ranges.toml", "rtx-4070.toml", "schema.toml", *chain]
    assert numpy_loaded == "False"


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("titan-v", "titan-v"),
        ("TITAN V", "titan-v"),
        ("NVIDIA TITAN V", "titan-v"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"),
        ("rtx2080ti", "rtx-2080-ti"),
        ("GeForce GTX TITAN X", "gtx-titan-x"),
        ("GeForce GTX TITAN Black", "gtx-titan-black"),
        ("Tesla K20c", "k20"),
        ("Tesla K40m", "k40"),
        ("Tesla P100-PCIE-16GB", "p100-pcie"),
        ("Tesla V100-PCIE-16GB", "v100-pcie-16gb"),
        ("Tesla V100-PCIE-32GB", "v100-pcie-32gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("h100_sxm", "h100-sxm"),
        ("RTX ４０７０", "rtx-4070"),
        ("Quadro GP100", "gp100"),
        ("NVIDIA TITAN Xp", "titan-xp"),
        ("Tesla K80", "k80"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("NVIDIA A30", "a30"),
        ("NVIDIA A2", "a2"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "rtx-3060-laptop"),
        ("NVIDIA GeForce RTX 4060 Ti", "rtx-4060-ti"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super"),
        ("NVIDIA GeForce RTX 4080 SUPER", "rtx-4080-super"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA B200", "b200"),
        ("HGX B100", "b100"),
        ("NVIDIA GB10", "gb10"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
    ],
)
def test_exact_names(name: str, gpu_id: str) -> None:
    gpu, caveats = resolve_gpu(name)
    assert gpu.id == gpu_id
    assert caveats == ()


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("H100", "h100-sxm"),
        ("A100", "a100-sxm-80gb"),
        ("NVIDIA A100 40GB", "a100-sxm-40gb"),
        ("Tesla V100", "v100-pcie-16gb"),
        ("P100", "p100-pcie"),
        ("TITAN X", "gtx-titan-x"),
        ("4090", "rtx-4090"),
        ("4070", "rtx-4070"),
        ("GH200", "gh200-96gb"),
        ("Jetson AGX Orin", "jetson-agx-orin-64gb"),
        ("Orin", "jetson-agx-orin-64gb"),
        ("Xavier", "jetson-agx-xavier"),
        ("Tesla V100-SXM2", "v100-sxm2-16gb"),
    ],
)
def test_family_names_say_which_was_taken(name: str, gpu_id: str) -> None:
    gpu, (caveat,) = resolve_gpu(name)
    assert gpu.id == gpu_id
    assert (caveat.kind, caveat.details["taken"]) == (CaveatKind.GPU_NAME_AMBIGUOUS, gpu_id)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("GTX TITAN Z", "gtx-titan"),
        ("RTX 3090 Ti", "rtx-3090"),
        ("RTX 4090 D", "rtx-4090"),
        ("RTX 3050 Laptop GPU", "rtx-3060"),
        ("H200 NVL", "h200"),
        ("Tesla K20X", "k20"),
        ("TITAN X (Pascal)", "gtx-titan-x"),
    ],
)
def test_relatives_are_not_taken_for_the_same(name: str, nearest: str) -> None:
    message = refusal(name)
    assert "no GPU is called" in message
    assert nearest in message


@pytest.mark.parametrize("name", ["NVIDIA H20", "h20", "HGX H20"])
def test_a_gpu_of_which_too_little_is_known_is_refused_with_what_is_unknown(name: str) -> None:
    message = refusal(name)
    assert "the H20 cannot be forecast: no source gives its peak.clock_boost_mhz (SM clock" in message
    assert "kerncast gpus --add h20" in message


def test_what_is_known_of_it_is_in_the_catalogue() -> None:
    (h20,) = list_incomplete()
    facts = {fact.key: fact.value for fact in h20.all_facts}
    assert (h20.id, h20.name, h20.architecture.id) == ("h20", "H20", "sm_90")
    assert h20.lacks == ("peak.clock_boost_mhz", "lanes.fp64_per_sm")
    assert (facts["peak.sm_count"], facts["peak.clock_boost_mhz"], facts["lanes.fp32_per_sm"]) == (78, None, 128)
    assert len(facts) == len(h20.all_facts)
    assert h20.id not in {gpu.id for gpu in list_gpus()}


HOSTILE = [
    "",
    " ",
    "GPU",
    "NVIDIA GeForce",
    "\u00e9" * 5000,
    "x" * 10_000,
    "\0",
    "\U0001f600",
    "\u0661\u0660",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name: str) -> None:
    message = refusal(name)
    assert "titan-v" in message
    assert len(message) < 1000
    assert message.isascii()
