"""What the simulation of an SM needs: there for every architecture, plausible, and equal to what others measured."""

import csv
from dataclasses import replace

import pytest

from kerncast.gpu import DATA, GPU, Architecture, list_gpus, load_architecture, load_gpu
from tests.helpers.places import ROOT

SHARED = ROOT.parent / "shared" / "data"
ARCHITECTURES = [load_architecture(path.stem) for path in sorted((DATA / "architectures").glob("*.toml"))]
#: Chips that share the CPU's memory: what follows of them was not found, so that they are not simulated.
INTEGRATED = {"sm_32", "sm_53", "sm_62", "sm_72", "sm_110"}
#: Those of which enough was found; nothing of their slices of L2.
WITHOUT_SLICES = {"sm_87", "sm_121"}
NOT_FOUND = {
    "l2_latency", "dram_latency", "sustained_dram_fraction", "l2_bytes_per_clock_per_channel", "l2_slices_per_channel",
}  # fmt: skip
MEASURED = [each for each in ARCHITECTURES if each.id not in INTEGRATED]

#: Fields of Cycles without which no kernel can be simulated.
CYCLES = [
    "fma", "alu", "imad", "imad_on_fma", "alu_on_fma", "special", "load_store", "fp64", "branch",
    "load_store_sm", "shared_wavefront", "l1_tag", "store_line", "shared_atomic",
    "alu_latency", "special_latency", "fp64_latency", "shared_latency", "l1_latency", "l2_latency", "dram_latency",
    "barrier_latency", "branch_latency", "block_launch", "grid_launch",
]  # fmt: skip
#: Fields of Architecture, likewise.
FIELDS = [
    "sustained_dram_fraction", "l2_bytes_per_clock_per_channel", "l2_bytes_per_clock_per_sm", "l1_bytes_per_clock",
    "l2_slices_per_channel", "atomics_per_clock_per_slice", "same_address_atomics_per_clock",
]  # fmt: skip


def measured() -> dict[tuple[str, str], float]:
    path = SHARED / "microbench.csv"
    if not path.is_file():
        pytest.skip("the source table microbench.csv is not beside this checkout, only in the project's workplace")
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["gpu"], row["metric"]): float(row["value"]) for row in csv.DictReader(file)}


def l1_read_bytes_per_clock(a: Architecture) -> float:
    """Bytes that an SM reads from L1 by loads of 4 bytes per lane: its width, or one instruction after the other."""
    assert a.l1_bytes_per_clock is not None
    assert a.cycles.load_store_sm is not None
    return min(a.l1_bytes_per_clock, 32 * 4 / a.cycles.load_store_sm)


# --- complete and plausible -----------------------------------------------------------------------


@pytest.mark.parametrize("a", ARCHITECTURES, ids=lambda a: a.id)
def test_every_architecture_can_be_simulated(a: Architecture) -> None:
    missing = [name for name in CYCLES if getattr(a.cycles, name) is None]
    missing += [name for name in FIELDS if getattr(a, name) is None]
    unknown = {"l2_slices_per_channel"} | (
        {"sustained_dram_fraction"} if a.id == "sm_121" else set()
    )  # GB10 has its own
    allowed = NOT_FOUND if a.id in INTEGRATED else unknown if a.id in WITHOUT_SLICES else set()
    assert set(missing) == allowed


@pytest.mark.parametrize("a", ARCHITECTURES, ids=lambda a: a.id)
def test_what_newer_chips_have(a: Architecture) -> None:
    """Packed FP16 since Pascal and in the last Maxwell, the uniform datapath since Turing."""
    assert (a.cycles.fp16 is not None) == (a.number >= 53)
    assert (a.cycles.uniform is not None) == (a.number >= 75)


@pytest.mark.parametrize("a", MEASURED, ids=lambda a: a.id)
def test_latencies_are_in_order(a: Architecture) -> None:
    c = a.cycles
    assert c.l1_latency is not None
    assert c.l2_latency is not None
    assert c.dram_latency is not None
    assert c.shared_latency is not None
    assert c.alu_latency is not None
    assert c.alu_latency < c.shared_latency < c.l2_latency
    assert c.l1_latency < c.l2_latency < c.dram_latency


@pytest.mark.parametrize("a", ARCHITECTURES, ids=lambda a: a.id)
def test_a_pipe_is_not_slower_than_it_is_long(a: Architecture) -> None:
    """Issue intervals are at most latencies, but for FP64 where it has hardly any lanes."""
    c = a.cycles
    assert c.alu_latency is not None
    for interval, latency in (
        (c.fma, c.fma_latency or c.alu_latency),
        (c.alu, c.alu_latency),
        (c.imad, c.imad_latency or c.alu_latency),
        (c.special, c.special_latency),
    ):
        assert interval is not None
        assert latency is not None
        assert interval <= latency


@pytest.mark.parametrize("a", [each for each in MEASURED if each.id not in WITHOUT_SLICES], ids=lambda a: a.id)
def test_no_more_from_l2_than_its_slices_give(a: Architecture) -> None:
    """A slice delivers at most 64 bytes per clock (white paper of the A100: 5,120 from 80)."""
    assert a.l2_bytes_per_clock_per_channel is not None
    assert a.l2_slices_per_channel is not None
    assert a.l2_bytes_per_clock_per_channel <= 64 * a.l2_slices_per_channel


# --- of a GPU -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_every_gpu_can_be_simulated(gpu: GPU) -> None:
    if gpu.architecture.id in INTEGRATED:
        assert gpu.l2_rate is None, "then the simulation refuses, and the roofline says what it leaves out"
        return
    assert gpu.dram_rate is not None
    assert gpu.l2_rate is not None
    assert (gpu.l2_slices is None) == (gpu.architecture.id in WITHOUT_SLICES)
    assert gpu.l1_latency is not None
    assert gpu.l2_latency is not None
    assert gpu.dram_latency is not None
    assert gpu.l1_latency < gpu.l2_latency < gpu.dram_latency


@pytest.mark.parametrize(
    ("gpu_id", "slices"),
    [("a100-sxm-80gb", 80), ("v100-pcie-16gb", 64), ("rtx-2080-ti", 44), ("rtx-3090", 48), ("gtx-titan", 24)],
)
def test_slices_of_l2(gpu_id: str, slices: int) -> None:
    """The white paper of the A100; for the others the slices that Accel-Sim and Nsight Compute show."""
    assert load_gpu(gpu_id).l2_slices == slices


def test_nanoseconds_beyond_l2_do_not_depend_on_the_clock() -> None:
    gpu = load_gpu("v100-pcie-16gb")
    assert gpu.dram_latency == pytest.approx(437, abs=0.1)  # as gpu-latency has it at the boost clock
    slow = gpu.at_clock(gpu.clock_boost_hz / 2)
    assert slow.dram_latency == pytest.approx(215 + (437 - 215) / 2, abs=0.1)


def test_a_measured_latency_wins() -> None:
    gpu = replace(load_gpu("gtx-980"), l2_latency_cycles=200.0, dram_latency_s=300e-9)
    assert gpu.l2_latency == 200
    assert gpu.dram_latency == pytest.approx(300e-9 * gpu.clock_hz)
    assert load_gpu("gtx-980").dram_latency == 368, "as the file has it: the clock is not known"


# --- equal to measurements ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "architecture", "sms", "clock_hz"),
    [
        ("V100-PCIe-16GB", "sm_70", 80, 1380e6),
        ("A100-SXM4-80GB", "sm_80", 108, 1410e6),
        ("H100-PCIe", "sm_90", 114, 1755e6),
        ("A40", "sm_86", 84, 1740e6),
        ("L40", "sm_89", 142, 2490e6),
    ],
)
def test_reads_from_l1_by_all_sms(name: str, architecture: str, sms: int, clock_hz: float) -> None:
    """gpu-cache loads 4 bytes per lane: half an instruction per clock and SM on GA10x and Ada, one on the others."""
    per_clock = measured()[name, "l1_read_GBps"] * 1e9 / (sms * clock_hz)
    assert l1_read_bytes_per_clock(load_architecture(architecture)) == pytest.approx(per_clock, rel=0.02)


@pytest.mark.parametrize(
    ("name", "architecture"),
    [("A100-SXM4-40GB", "sm_80"), ("A100-SXM4-80GB", "sm_80"), ("H100-PCIe", "sm_90"), ("V100-PCIe-16GB", "sm_70"),
     ("L40", "sm_89")],
)  # fmt: skip
def test_latencies_of_pointer_chases(name: str, architecture: str) -> None:
    """gpu-latency; the study's L1 of Volta, 28, is Jia et al.'s."""
    found, cycles = measured(), load_architecture(architecture).cycles
    assert cycles.l1_latency == pytest.approx(found[name, "l1_latency_cycles"], rel=0.07)
    assert cycles.l2_latency == pytest.approx(found[name, "l2_latency_cycles"], rel=0.02)
    assert cycles.dram_latency == pytest.approx(found[name, "dram_latency_cycles"], rel=0.01)


@pytest.mark.parametrize(
    ("name", "architecture", "channels", "clock_hz"),
    [
        ("A100-SXM4-80GB", "sm_80", 160, 1410e6),
        ("H100-PCIe", "sm_90", 160, 1755e6),
        ("H200", "sm_90", 192, 1980e6),
        ("L40", "sm_89", 12, 2490e6),
    ],
)
def test_reads_from_l2_by_all_sms(name: str, architecture: str, channels: int, clock_hz: float) -> None:
    per_channel = measured()[name, "l2_read_GBps"] * 1e9 / (channels * clock_hz)
    assert load_architecture(architecture).l2_bytes_per_clock_per_channel == pytest.approx(per_channel, rel=0.05)


@pytest.mark.parametrize(
    ("name", "architecture", "peak_gb_per_s"),
    [
        ("V100-PCIe-16GB", "sm_70", 898.0),
        ("A100-SXM4-40GB", "sm_80", 1555.2),
        ("A100-SXM4-80GB", "sm_80", 2039.0),
        ("H100-PCIe", "sm_90", 2039.0),
        ("A40", "sm_86", 695.8),
        ("L40", "sm_89", 864.0),
    ],
)
def test_fractions_of_dram_bandwidth(name: str, architecture: str, peak_gb_per_s: float) -> None:
    """gpu-stream's copy; the H200 is left out, where bytes in flight limit it (data/README.md)."""
    fraction = measured()[name, "dram_stream_scale_GBps"] / peak_gb_per_s
    assert load_architecture(architecture).sustained_dram_fraction == pytest.approx(fraction, abs=0.06)
