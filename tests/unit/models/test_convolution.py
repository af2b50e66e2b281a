"""The published model of a convolution layer against every number that its paper prints for it."""

import csv
import doctest
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import kerncast
from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, LaunchError, MissingEvidenceError, UnsupportedError
from kerncast.forecast import Choices, LaunchCases, ProfileCases, profile_launch
from kerncast.gpu import GPU, load_architecture, load_gpu
from kerncast.launch import Argument, Launch, load_launches
from kerncast.models import Case, Question, model_named
from kerncast.models.published.convolution import (
    ComputeTime,
    Convolution,
    ConvolutionLatency,
    ConvolutionLayer,
    MemoryTime,
    bandwidth_time,
    blocks_at_a_time,
    compute_time,
    execution_seconds,
    latency_time,
    layer_of,
    machine_of,
    operational_intensity,
    ops_per_second,
    published_titan_v,
)
from kerncast.occupancy import BlockRequest, occupancy
from kerncast.prediction import Timing
from kerncast.profiles.counts import FP32_FLOPS
from kerncast.read.declared import declared_profile
from tests.helpers.caveats import kinds, only
from tests.helpers.places import PACKAGE, ROOT
from tests.helpers.transfers import profiled

EXAMPLE = ROOT / "examples" / "convolution_layer.toml"
TITAN_V = published_titan_v()

Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


PRINTED = rows_of(ROOT / "tests" / "golden" / "layer_convolution_printed.csv")
ACTUAL = rows_of(PACKAGE / "data" / "convolution-layer-2025-measured.csv")


def layer(channels: int = 32, block: int = 32, **sizes: int) -> ConvolutionLayer:
    """Return a layer of the sweeps, with other sizes where they are given."""
    default = {"nx": 32, "ny": 32, "kx": 3, "ky": 3, "ni": channels, "nn": channels, "block_x": block, "block_y": block}
    return ConvolutionLayer(**(default | sizes))


def launch(**sizes: int) -> Launch:
    """Return a launch of the layer with its sizes as macros."""
    found = {"Nx": 32, "Ny": 32, "Kx": 3, "Ky": 3, "Ni": 32, "Nn": 32} | sizes
    defines = tuple((name, str(size)) for name, size in found.items())
    return Launch(Path("layer.cu"), "convolution_layer", (1, 1, 32), (32, 32, 1), defines=defines)


def case(of: Launch | None, gpu: str | GPU = "titan-v") -> Case:
    """Return a case of a launch."""
    shape = ((1, 1, 32), (32, 32, 1)) if of is None else (of.grid, of.block)
    target = load_gpu(gpu) if isinstance(gpu, str) else gpu
    return Case(declared_profile("layer", *shape, fp32_flops=0), target, launch=of)


def times_of(row: Row) -> tuple[ConvolutionLayer, ComputeTime, MemoryTime]:
    """Return a row's layer and its times by the published replacement of the memory time."""
    found = layer(int(row["channels"]), int(row["block"]))
    return found, compute_time(found, TITAN_V), bandwidth_time(found, TITAN_V)


def together() -> Iterator[tuple[Row, Row]]:
    """Return what was printed of each prediction beside what was measured."""
    return zip(PRINTED, ACTUAL, strict=True)


def name_of(row: Row) -> str:
    return f"{row['sweep']}-{row['block']}-{row['channels']}"


@pytest.mark.parametrize("row", PRINTED, ids=name_of)
def test_every_printed_prediction(row: Row) -> None:
    """All ten rows Predicted of both tables, digit by digit."""
    found, compute, memory = times_of(row)
    intensity = operational_intensity(found)
    computed = {
        "flops": str(found.flops),
        "int_ops": str(found.int_ops),
        "ops": str(found.ops),
        "compute_ms": f"{compute.seconds * 1e3:.3f}",
        "memory_ms": f"{memory.seconds * 1e3:.3f}",
        "execution_ms": f"{execution_seconds(compute, memory) * 1e3:.3f}",
        "tops": f"{ops_per_second(found, compute, memory) / 1e12:.6g}",
        "l1_intensity": str(int(intensity.l1)),
        "l2_intensity": str(int(intensity.l2)),
        "dram_intensity": str(int(intensity.dram)),
    }
    assert computed == {name: row[name] for name in computed}


def test_every_printed_error() -> None:
    """All five rows Error, from times of six decimals in ms and rates of six digits, as C++ prints them."""
    for row, actual in together():
        found, compute, memory = times_of(row)
        milliseconds = sum(float(f"{part.seconds * 1e3:.6f}") for part in (compute, memory))
        rate = float(f"{ops_per_second(found, compute, memory) / 1e12:.6g}")
        measured = float(actual["milliseconds"])
        pairs = {
            "flops_error": (found.flops, int(actual["flops"])),
            "int_ops_error": (found.int_ops, int(actual["int_ops"])),
            "ops_error": (found.ops, int(actual["ops"])),
            "execution_error": (milliseconds, measured),
            "tops_error": (rate, int(actual["ops"]) / measured / 1e9),
        }
        errors = {name: f"{abs(ours - truth) / truth:.2%}" for name, (ours, truth) in pairs.items()}
        assert errors == {name: row[name] for name in errors}, name_of(row)


def test_the_measured_numbers_are_copied_right() -> None:
    """The paper prints sums and quotients of them, too."""
    for row, actual in together():
        assert all(row[name] == actual[name] for name in ("sweep", "block", "channels"))
        assert int(actual["flops"]) + int(actual["int_ops"]) == int(actual["ops"])
        assert f"{int(actual['ops']) / float(actual['milliseconds']) / 1e9:.3f}" == actual["tops"]


def test_the_measured_operations_hold_the_leaky_rectifier_too() -> None:
    """One multiplication per output, which the formula leaves out; half of them with two channels."""
    for row, actual in together():
        found = layer(int(row["channels"]))
        extra = int(actual["flops"]) - found.flops
        assert extra == (1025 if found.nn == 2 else found.outputs)


def test_printed_constants_do_not_give_the_printed_tables() -> None:
    """Rates ten times as large, 1.2 GHz, and the sum of both times: everything else misses printed cells."""
    found = layer()
    slow = replace(TITAN_V, flops_per_s=1.38e12, int_ops_per_s=5.52e12)
    assert f"{compute_time(found, slow).seconds * 1e3:.3f}" == "0.034"
    for clock in (1.38e9, 1.455e9):
        assert f"{bandwidth_time(found, replace(TITAN_V, clock_hz=clock)).seconds * 1e3:.3f}" == "0.057"
    compute, memory = compute_time(found, TITAN_V), bandwidth_time(found, TITAN_V)
    assert f"{max(compute.seconds, memory.seconds) * 1e3:.3f}" == "0.058"
    assert f"{found.ops / execution_seconds(compute, memory) / 1e12:.3f}" == "1.500"
    bus = 3072 / 8 * 2 * 850e6
    assert TITAN_V.dram_bytes_per_s == 750e9 > bus


def test_memory_time_by_latencies_worked_by_hand() -> None:
    """34 x 34 floats are 36 reads of 128 bytes; 160 blocks run at a time; 193 + 375 cycles bring a line of weights."""
    found = latency_time(layer(), TITAN_V)
    assert found.input_seconds == pytest.approx(375 * 36 * 32 * 32 / 160 / 1.2e9)
    assert found.shared_seconds == pytest.approx(9 * 32 * 19 * 32768 / (160 * 1024) / 1.2e9)
    fetches, reuses = 568 * 1024 / 160, (32 * 32 * 1024 - 1024) * 193 / (160 * 1024)
    assert found.weight_seconds == pytest.approx((fetches + reuses) / 1.2e9)


def test_memory_time_by_bandwidth_worked_by_hand() -> None:
    """64 blocks of 6 x 6 floats in each of 32 x 32 channels, and 9 x 32 weights of each of 32768 threads."""
    found = bandwidth_time(layer(block=4), TITAN_V)
    assert found.input_seconds == pytest.approx(64 * 36 * 4 * 1024 / 750e9)
    assert found.weight_seconds == pytest.approx(9 * 32 * 4 * 32768 / 750e9)


def test_whole_numbers_are_divided_as_in_the_figures() -> None:
    """A tile of 2 x 2 + border, 64 bytes, is no read of 128; 11 x 11 weights are 7 lines of 64 bytes, not 8."""
    assert latency_time(layer(block=2), TITAN_V).input_seconds == 0
    wide = layer(kx=11, ky=11)
    active = blocks_at_a_time(wide, TITAN_V)
    fetches = 7 * 568 * 1024 / active
    reuses = (32 * 32 * 1024 - 7 * 1024) * 193 / (active * 1024)
    assert latency_time(wide, TITAN_V).weight_seconds == pytest.approx((fetches + reuses) / 1.2e9)


@pytest.mark.parametrize("block", [4, 8, 16, 32])
def test_blocks_at_a_time_are_those_of_the_occupancy_calculator(block: int) -> None:
    found = layer(block=block)
    request = BlockRequest(found.threads_per_block, registers_per_thread=16, static_shared_bytes=found.tile_bytes)
    expected = occupancy(request, load_architecture("sm_70")).blocks_per_sm
    assert blocks_at_a_time(found, TITAN_V) == 80 * expected


def test_our_kernel_executes_the_measured_operations() -> None:
    """What the executor counts is what the paper's profiler counted: the formula, and one rectifier per output."""
    counted = profile_launch(EXAMPLE).counts.get(FP32_FLOPS)
    assert counted is not None
    assert counted.value == layer().flops + layer().outputs == int(ACTUAL[3]["flops"])


def test_waves_of_blocks() -> None:
    """Figures 12 and 13: 2048 blocks of 16 threads are 26 on an SM, one turn; 512 of 1024 are 7, four turns."""
    small, large = compute_time(layer(block=4), TITAN_V), compute_time(layer(512), TITAN_V)
    assert (small.active_sms, small.blocks_per_sm, small.sm_iterations) == (80, 26, 1)
    assert (large.active_sms, large.blocks_per_sm, large.sm_iterations) == (80, 7, 4)
    few = compute_time(layer(2), TITAN_V)
    assert few.active_sms == 2
    assert few.flop_seconds == pytest.approx(73728 / (13.8e12 * 2 / 80))


@pytest.mark.parametrize("name", ["nx", "ny", "kx", "ky", "ni", "nn", "block_x", "block_y"])
@pytest.mark.parametrize("size", [0, -1, 2**31])
def test_sizes_that_no_layer_has(name: str, size: int) -> None:
    with pytest.raises(InputError, match=f"{name} of the convolution layer is {size}"):
        layer(**{name: size})


def test_blocks_that_are_too_large_or_too_wide() -> None:
    with pytest.raises(InputError, match="33 x 32 has 1056 threads"):
        layer(block_x=33)
    with pytest.raises(UnsupportedError, match="blocks 64 wide"):
        _ = layer(block_x=64, block_y=1).int_ops
    with pytest.raises(UnsupportedError, match="blocks at a time is 0"):
        blocks_at_a_time(layer(kx=129, ky=129), TITAN_V)


def test_the_sizes_come_from_macros_or_arguments() -> None:
    assert layer_of(launch(Ni=8), "k") == layer(ni=8)
    some = tuple(each for each in launch().defines if each[0] not in {"Nx", "Nn"})
    mixed = replace(launch(), defines=some, arguments=(Argument("Nx", 32), Argument("Nn", 32), Argument("Ni", 32)))
    assert layer_of(mixed, "k") == layer()


def test_what_is_missing_is_named() -> None:
    less = replace(launch(), defines=(("Nx", "32"), ("Ny", "2*16"), ("Kx", "3"), ("Ky", "3"), ("Ni", "1e2")))
    unusable = replace(less, arguments=(Argument("Nn", 3.0), Argument("Ni", True)))
    with pytest.raises(MissingEvidenceError, match=r"not whole numbers: Ny, Ni, Nn\."):
        layer_of(unusable, "k")
    with pytest.raises(MissingEvidenceError, match="of layer only counts are given"):
        Convolution().estimate(case(None), Timing.PROFILER)


def test_contradictory_and_impossible_sizes() -> None:
    with pytest.raises(LaunchError, match="Nx is 32 and 33"):
        layer_of(replace(launch(), arguments=(Argument("Nx", 33),)), "k")
    for size in (0, -3, 10**25):
        with pytest.raises(LaunchError, match=r"layer\.cu launch 0.*nn of the convolution layer"):
            layer_of(launch(Nn=size), "k")
    with pytest.raises(UnsupportedError, match="threads along z"):
        layer_of(replace(launch(), block=(8, 8, 2)), "k")


def test_the_forecast_of_the_default_layer() -> None:
    found = model_named("convolution").predict(case(launch()), Question(Timing.PROFILER))
    assert f"{found.seconds * 1e3:.3f}" == "0.061"
    assert found.limiter == "dram"
    assert [term.name for term in found.terms] == ["compute", "dram", "shared"]
    assert math.fsum(term.seconds for term in found.terms) == pytest.approx(found.seconds)
    bandwidths = only(found.caveats, CaveatKind.BANDWIDTH_OF_V100).details
    assert (bandwidths["published"], bandwidths["data_sheet"]) == (750e9, 652.8e9)
    assert found.caveats[-1].kind is CaveatKind.INTERVAL_UNCALIBRATED
    assert CaveatKind.NO_LAUNCH_OVERHEAD not in kinds(found.caveats)
    series = model_named("convolution").predict(case(launch()), Question(Timing.SERIES))
    assert series.seconds == found.seconds
    assert CaveatKind.NO_LAUNCH_OVERHEAD in kinds(series.caveats)


def test_the_forecast_by_latencies() -> None:
    found = model_named("convolution-latency").predict(case(launch()), Question(Timing.PROFILER))
    by_hand = compute_time(layer(), TITAN_V).seconds + latency_time(layer(), TITAN_V).seconds
    assert found.seconds == by_hand
    assert [term.name for term in found.terms] == ["compute", "latency"]
    assert found.limiter == "latency"
    assert CaveatKind.LATENCY_METHOD_REPLACED in kinds(found.caveats)
    tiny = ConvolutionLatency().of_layer(layer(block=2), load_gpu("titan-v"))
    assert Caveat.of(CaveatKind.TILE_BELOW_ONE_READ, tile=64, read=128) in tiny.caveats


def test_the_compute_time_can_limit() -> None:
    fast = replace(load_gpu("h200"), sustained_dram_bytes_per_s=1e18)
    assert Convolution().of_layer(layer(512), fast).limiter == "compute"


def test_the_clock_changes_nothing_on_the_titan_v() -> None:
    base, boost = (Convolution().of_layer(layer(), load_gpu("titan-v").at_clock(each)) for each in ("base", "boost"))
    assert base == boost
    assert base.caveats[0] == Caveat.of(CaveatKind.CONSTANTS_PUBLISHED, "TITAN V", clock_hz=1.2e9)


def test_another_gpu_has_the_constants_of_its_file() -> None:
    gpu = load_gpu("v100-pcie-16gb")
    machine = machine_of(gpu)
    assert (machine.sm_count, machine.dram_bytes_per_s, machine.clock_hz) == (80, 804e9, 1380e6)
    assert machine.flops_per_s == gpu.peak_fp32_flops_per_s
    assert machine.int_ops_per_s == pytest.approx(4 * gpu.peak_fp32_flops_per_s)
    assert (machine.shared_latency_cycles, machine.l2_latency_cycles) == (19, 215)
    assert machine.dram_latency_cycles == pytest.approx(437)
    found = Convolution().of_layer(layer(), gpu)
    assert (found.caveats[0].kind, found.caveats[0].subject) == (CaveatKind.CONSTANTS_OF_GPU_FILE, "TITAN V")
    assert len(found.caveats) == 1
    expected = (4734976 + 37748736) / 804e9
    assert next(term.seconds for term in found.terms if term.name == "dram") == pytest.approx(expected)


def test_unknown_constants_are_refused_by_name() -> None:
    gpu = load_gpu("t4")
    unknown = replace(gpu.architecture, sustained_dram_fraction=None)
    with pytest.raises(MissingEvidenceError, match=r"DRAM bandwidth that T4 sustains.*sustained\.dram_gb_per_s"):
        Convolution().of_layer(layer(), replace(gpu, architecture=unknown))
    for level in ("shared", "l2", "dram"):
        machine = replace(TITAN_V, **{f"{level}_latency_cycles": None})  # type: ignore[arg-type]
        with pytest.raises(MissingEvidenceError, match=f"latency of {level} of TITAN V.*{level}_latency"):
            latency_time(layer(), machine)
    assert bandwidth_time(layer(), replace(TITAN_V, dram_latency_cycles=None)) == bandwidth_time(layer(), TITAN_V)


def test_more_than_48_kib_of_shared_memory_is_a_warning() -> None:
    """(32 + 96 - 1) ** 2 floats are 64516 bytes: over what a block gets, within what an SM has."""
    found = Convolution().of_layer(layer(kx=96, ky=96), load_gpu("titan-v"))
    assert Caveat.of(CaveatKind.TILE_ABOVE_SHARED_MEMORY, tile=64516, limit=49152) in found.caveats
    least = Convolution().of_layer(layer(kx=79, ky=79), load_gpu("titan-v"))  # 110 x 110 floats: 48400 bytes
    assert CaveatKind.TILE_ABOVE_SHARED_MEMORY not in kinds(least.caveats)


def test_another_grid_is_told() -> None:
    found = Convolution().estimate(case(replace(launch(), grid=(2, 1, 32))), Timing.PROFILER)
    grids = only(found.caveats, CaveatKind.CONVOLUTION_GRID_DIFFERS).details
    assert grids == {"published": "(1, 1, 32)", "launched": "(2, 1, 32)"}


def test_a_launch_file_is_forecast() -> None:
    (found,) = kerncast.predict(EXAMPLE, "TITAN V", "convolution", timing="profiler")
    assert found.seconds == Convolution().of_layer(layer(), load_gpu("titan-v")).seconds
    (by_latency,) = kerncast.predict(EXAMPLE, "TITAN V", "convolution-latency", timing="profiler")
    assert by_latency.seconds == ConvolutionLatency().of_layer(layer(), load_gpu("titan-v")).seconds


def test_refusals_and_bad_sizes_have_their_exit_status() -> None:
    with pytest.raises(MissingEvidenceError, match="Nx, Ny, Kx, Ky, Ni, Nn") as refused:
        kerncast.predict(EXAMPLE.with_name("saxpy.toml"), "TITAN V", "convolution")
    assert refused.value.exit_status == 3
    (of_file,) = load_launches(EXAMPLE)
    without = tuple(each for each in of_file.defines if each[0] != "Ky")
    with pytest.raises(LaunchError, match="ky of the convolution layer is 0") as wrong:
        kerncast.predict(replace(of_file, defines=(*without, ("Ky", "0"))), "TITAN V", "convolution")
    assert wrong.value.exit_status == 2


def test_the_document_computes_what_it_says() -> None:
    assert doctest.testfile(str(ROOT / "docs" / "convolution.md"), module_relative=False).failed == 0


def test_a_case_holds_its_launch() -> None:
    choices = Choices(Timing.SERIES, with_caches=False)
    (of_file,) = load_launches(EXAMPLE)
    known = LaunchCases(of_file, [load_gpu("titan-v")], (), choices).on(load_gpu("titan-v"))
    assert known is not None
    assert known.launch is of_file
    profile = replace(profiled(), kernel="convolution_layer", grid=of_file.grid, block=of_file.block, run=None)
    for sources, expected in (((of_file,), of_file), ((), None)):
        beside = ProfileCases(profile, sources, (), choices).on(load_gpu("titan-v"))
        assert beside is not None
        assert beside.launch is expected


def test_the_measured_integer_operations_are_whole_numbers_of_each_loop() -> None:
    """12 of a thread, 8 of each channel, 7 of each row of a tile, 9 of each element that it loads: all but 2 channels.

    With two channels the loop over channels may be unrolled as a whole, which leaves fewer.
    """
    for row in ACTUAL:
        block, channels = int(row["block"]), int(row["channels"])
        held, threads, blocks = block + 2, block**2, (32 // block) ** 2 * channels
        per_channel = 8 * threads + 7 * held * block + 9 * held**2
        counted = blocks * (12 * threads + channels * per_channel)
        assert (int(row["int_ops"]) == counted) == (channels > 2)
