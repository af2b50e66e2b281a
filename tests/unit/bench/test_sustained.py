"""What the ceilings' times become: values of [sustained], and GPU files that load."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kerncast
from kerncast.bench.ceilings import ceilings_for
from kerncast.bench.ceilings.gpu_file import GPUFileText, Line, quoted
from kerncast.bench.ceilings.sustained import SustainedValue, sustained_block, write_gpu_file
from kerncast.errors import GPUError, InputError
from kerncast.gpu import load_gpu, rules
from kerncast.launch import load_launches
from kerncast.measurements import ClockState, Configuration, Machine, Measurement, Reading, Trial
from tests.helpers.machines import GTX_1060, H100, RTX_5090

HAND_WRITTEN = """\
# My GPU, written by hand.  "quotes" and [brackets] in a comment
from = "sm_90"
sm_count = 132  # counted
clock_boost_mhz = 1980
dram_gb_per_s = 3352  # data sheet

# what I measured
[sustained]
l2_gb_per_s = 5500  # by gpu-benches # twice
# between the lines
dram_gb_per_s = 2500
sgemm_gflops = 50000  # cuBLAS
"""


def measured(machine: Machine, rates: Mapping[str, float] | None = None, **overrides: float) -> Measurement:
    """Return a measurement in which each ceiling takes a millisecond, or the time for a rate per second."""
    configurations, trials, readings = [], [], []
    for ceiling in ceilings_for(machine):
        name = ceiling.name.partition("#")[0]
        launch = ceiling.launch
        configurations.append(
            Configuration(ceiling.key, str(launch.kernel), "0", "0", launch.grid, launch.block, 0, (), 0, 32,
                          amount=ceiling.amount, amount_unit=ceiling.unit)
        )  # fmt: skip
        rate = {**(rates or {}), **overrides}.get(name)
        seconds = (ceiling.amount or 1.0) / rate if rate else 1e-3
        trials += [
            Trial(ceiling.key, method, number, (seconds,), (seconds,), 1, ClockState(), ClockState(),
                  "2026-11-21T12:00:00+00:00")
            for method in ceiling.methods
            for number in range(3)
        ]  # fmt: skip
        if ceiling.reading is not None:
            values = (1.755e9, 1.7e9, 1.76e9) if name == "clock" else (33.5,)
            readings.append(Reading(ceiling.key, ceiling.reading[1], values, ceiling.reading[2]))
    return Measurement(machine, tuple(configurations), tuple(trials), tuple(readings))


def plausible(machine: Machine) -> Measurement:
    """Return a measurement whose DRAM values are below the peak of every machine here."""
    peak = 2 * (machine.memory_clock_hz or 1e9) * (machine.memory_bus_bits or 64) / 8
    streams = dict.fromkeys(("dram_copy", "dram_read", "dram_init", "dram_triad"), 0.9 * peak)
    return measured(machine, {**streams, "fma_f32": 3e12})


def by_key(values: tuple[SustainedValue, ...]) -> dict[str, SustainedValue]:
    return {each.key: each for each in values}


# --- values --------------------------------------------------------------------------------------------------------


def test_every_key_is_in_the_schema_and_every_measured_key_is_filled() -> None:
    found = by_key(sustained_block(measured(H100)))
    assert {f"sustained.{key}" for key in found} <= set(rules("gpu"))
    own = {key.removeprefix("sustained.") for key in rules("gpu") if key.startswith("sustained.")}
    assert own - set(found) == {"dram_fraction", "sgemm_gflops"}


def test_every_ceiling_is_used() -> None:
    used = {each.configuration.partition("#")[0] for each in sustained_block(measured(H100))}
    ceilings = {each.key.partition("#")[0] for each in ceilings_for(H100)}
    assert ceilings - used == {"ceilings/barrier_latency_32", "ceilings/barrier_latency_1024"}


def test_values_by_hand() -> None:
    measurement = measured(H100, fma_f32=61.23456e12, dram_latency=1 / 651.5e-9, dram_copy=2.5e12)
    found = by_key(sustained_block(measurement))
    assert found["fp32_gflops"].value == 61230
    assert found["dram_latency_ns"].value == 651.5
    assert found["dram_gb_per_s"].value == 2500
    assert found["clock_mhz"].value == 1755
    assert found["launch_interval_us"].value == 1000
    assert found["l1_latency_cycles"].value == 33.5
    assert found["fp32_gflops"].trials == 3


def test_the_best_shape_is_the_ceiling() -> None:
    measurement = measured(H100, dram_copy=2e12)
    quick = [
        replace(trial, seconds=(trial.seconds[0] / 1.2,)) if trial.configuration == "ceilings/dram_copy#2" else trial
        for trial in measurement.trials
    ]
    best = by_key(sustained_block(replace(measurement, trials=tuple(quick))))["dram_gb_per_s"]
    assert best.value == 2400
    assert best.configuration == "ceilings/dram_copy#2"


def test_an_outlier_counts_little() -> None:
    measurement = measured(H100, fma_f64=30e12)
    slow = [
        replace(trial, seconds=(trial.seconds[0] * 10,)) if trial.number == 2 else trial for trial in measurement.trials
    ]
    assert by_key(sustained_block(replace(measurement, trials=tuple(slow))))["fp64_gflops"].value == 30000


def test_partitions_and_other_launches_are_left_out() -> None:
    measurement = measured(H100)
    parts = tuple(replace(each, sm_count=2) for each in measurement.configurations)
    assert sustained_block(replace(measurement, configurations=parts)) == ()
    suite = tuple(replace(each, key=each.key.replace("ceilings", "seed")) for each in measurement.configurations)
    assert sustained_block(replace(measurement, configurations=suite)) == ()


# --- a new file ----------------------------------------------------------------------------------------------------


def test_a_new_file_of_an_unknown_gpu_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "rtx-5090.toml"
    write_gpu_file(plausible(replace(RTX_5090, compute_capability="8.8")), path)
    gpu = load_gpu(path)
    assert (gpu.id, gpu.name, gpu.sm_count) == ("rtx-5090", "NVIDIA GeForce RTX 5090", 170)
    assert gpu.clock_boost_hz == 3.09e9
    assert gpu.dram_bytes_per_s == pytest.approx(1792.128e9)
    assert gpu.l2_bytes == 96 * 2**20
    assert gpu.dram_bus_bits == 512
    assert gpu.tdp_w == 575
    assert gpu.sustained_dram_bytes_per_s == pytest.approx(0.9 * 1792.128e9, rel=1e-3)
    text = path.read_text(encoding="utf-8")
    assert "no file describes compute capability 8.8: this is the nearest" in text
    assert 'from = "sm_86"' in text
    fact = gpu.fact("sustained.fp32_gflops")
    assert fact is not None
    assert "RTX 5090" in fact.sources[0]
    assert "2026-11-21" in fact.sources[0]
    assert "580.65.06" in fact.sources[0]


def test_a_forecast_accepts_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    write_gpu_file(plausible(GTX_1060), path)
    (tmp_path / "k.cu").write_text("__global__ void k(float *x) { x[blockIdx.x * 128 + threadIdx.x] += 1; }\n")
    (tmp_path / "k.toml").write_text(
        'source = "k.cu"\n[[launch]]\ngrid = [1024]\nblock = [128]\nargs = { x = "f32[131072] zeros" }\n'
    )
    (forecast,) = kerncast.predict(load_launches(tmp_path / "k.toml")[0], str(path))
    assert forecast.seconds > 0


def test_a_new_file_of_a_known_gpu_takes_its_data_sheet(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    write_gpu_file(plausible(H100), path)
    own, shipped = load_gpu(path), load_gpu("h100-sxm")
    assert own.dram_bytes_per_s == shipped.dram_bytes_per_s
    assert own.clock_boost_hz == shipped.clock_boost_hz
    assert own.fact("peak.fp32_gflops") == shipped.fact("peak.fp32_gflops")
    assert "[peak] is that of the shipped file h100-sxm.toml" in path.read_text(encoding="utf-8")


def test_a_new_file_of_a_known_gpu_keeps_what_differs_from_its_architecture(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    machine = replace(H100, gpu_name="Quadro K5200", sm_count=12, compute_capability="3.5")
    write_gpu_file(plausible(replace(machine, memory_clock_hz=3.004e9, memory_bus_bits=256)), path)
    own, shipped = load_gpu(path), load_gpu("k5200")
    assert own.architecture.fp64_lanes_per_sm == shipped.architecture.fp64_lanes_per_sm == 8
    assert own.peak_fp64_flops_per_s == shipped.peak_fp64_flops_per_s


def test_a_gpu_with_other_sms_than_its_namesake_is_described_by_its_driver(tmp_path: Path) -> None:
    path = tmp_path / "slice.toml"
    write_gpu_file(plausible(replace(H100, sm_count=16)), path)
    assert load_gpu(path).sm_count == 16
    assert "shipped file" not in path.read_text(encoding="utf-8")


def test_a_copy_above_what_the_driver_names_makes_the_peak_an_estimate(tmp_path: Path) -> None:
    for number, machine in enumerate((RTX_5090, replace(RTX_5090, memory_clock_hz=None))):
        path = tmp_path / f"{number}.toml"
        write_gpu_file(measured(machine, dram_copy=1.9e12), path)
        gpu = load_gpu(path)
        assert gpu.sustained_dram_bytes_per_s == 1.9e12
        fact = gpu.fact("peak.dram_gb_per_s")
        assert fact is not None
        assert "the copy measured here" in fact.sources[0]
        assert gpu.dram_bytes_per_s > 1.9e12


def test_without_memory_clock_and_copy_there_is_no_file(tmp_path: Path) -> None:
    machine = replace(RTX_5090, gpu_name="NVIDIA GeForce RTX 5090 D", memory_clock_hz=None)
    whole = measured(machine)
    rest = tuple(each for each in whole.configurations if "dram_copy" not in each.key)
    with pytest.raises(InputError, match="no copy was measured"):
        write_gpu_file(replace(whole, configurations=rest), tmp_path / "x.toml")
    assert not list(tmp_path.iterdir())


def test_unknown_facts_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    write_gpu_file(plausible(replace(RTX_5090, power_limit_w=None, gpu_name="  ")), path)
    gpu = load_gpu(path)
    assert gpu.tdp_w is None
    assert gpu.name == "unnamed GPU"


# --- an existing file ----------------------------------------------------------------------------------------------


def test_an_existing_file_keeps_everything_else(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HAND_WRITTEN, encoding="utf-8")
    write_gpu_file(plausible(H100), path)
    text = path.read_text(encoding="utf-8")
    for kept in HAND_WRITTEN.splitlines():
        if "l2_gb_per_s" not in kept and not kept.startswith("dram_gb_per_s = 2500"):
            assert kept in text
    assert "# by gpu-benches # twice" in text
    assert text.index("# between the lines") < text.index("dram_gb_per_s = {")
    gpu = load_gpu(path)
    assert gpu.sgemm_flops_per_s == 5e13
    assert gpu.sustained_dram_bytes_per_s == pytest.approx(0.9 * 3.35232e12, rel=1e-3)


@pytest.mark.parametrize("start", [None, HAND_WRITTEN, HAND_WRITTEN.replace("\n", "\r\n"), HAND_WRITTEN.rstrip()])
def test_writing_twice_gives_the_same_file(tmp_path: Path, start: str | None) -> None:
    path = tmp_path / "mine.toml"
    if start is not None:
        path.write_bytes(start.encode())
    write_gpu_file(plausible(H100), path)
    once = path.read_bytes()
    write_gpu_file(plausible(H100), path)
    assert path.read_bytes() == once
    assert [file.name for file in tmp_path.iterdir()] == ["mine.toml"]
    assert start is None or (b"\r\n" in once) == ("\r\n" in start)


def test_values_of_an_earlier_measurement_keep_their_source(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    write_gpu_file(plausible(H100), path)
    later = plausible(replace(H100, driver="600.1"))
    rates = tuple(each for each in later.configurations if "tensor" not in each.key)
    write_gpu_file(replace(later, configurations=rates), path)
    gpu = load_gpu(path)
    tensor, fp32 = gpu.fact("sustained.tensor_fp16_gflops"), gpu.fact("sustained.fp32_gflops")
    assert tensor is not None
    assert fp32 is not None
    assert "580.65.06" in tensor.sources[0]
    assert "600.1" in fp32.sources[0]


def test_a_value_above_its_peak_is_remarked_on_and_the_remark_goes_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    write_gpu_file(measured(H100, dram_copy=2.5e12, fma_f32=90e12), path)
    line = next(
        each for each in path.read_text(encoding="utf-8").splitlines() if each.startswith("fp32_gflops = { value = 9")
    )
    assert "kerncast: above the peak of" in line
    write_gpu_file(plausible(H100), path)
    line = [each for each in path.read_text(encoding="utf-8").splitlines() if each.startswith("fp32_gflops")][-1]
    assert "#" not in line


@given(
    st.sampled_from(["fma_f32", "fma_f64", "matrix_product", "dram_read", "add_i32"]),
    st.floats(1e9, 1e15),
)
def test_nothing_is_above_its_peak_by_two_percent_without_a_remark(name: str, rate: float) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.toml"
        write_gpu_file(measured(RTX_5090, {"dram_copy": 1e12, "dram_init": 1e12, "dram_triad": 1e12, name: rate}), path)
        gpu = load_gpu(path)
        peaks = {
            "fp32_gflops": gpu.peak_fp32_flops_per_s,
            "fp64_gflops": gpu.peak_fp64_flops_per_s,
            "matrix_product_gflops": gpu.peak_fp32_flops_per_s,
            "dram_read_gb_per_s": gpu.dram_bytes_per_s,
            "int32_add_gops": gpu.peak_int32_ops_per_s,
        }
        text = path.read_text(encoding="utf-8").partition("[sustained]")[2]
        for key, value in tomllib.loads(text.partition("\n[")[0]).items():
            if value["value"] * 1e9 > 1.02 * peaks.get(key, float("inf")):
                assert "# kerncast: above" in next(x for x in text.splitlines() if x.startswith(f"{key} ="))


# --- refusals ------------------------------------------------------------------------------------------------------


def test_a_file_of_another_gpu_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HAND_WRITTEN.replace("132", "16"), encoding="utf-8")
    with pytest.raises(InputError, match="16 SMs"):
        write_gpu_file(plausible(H100), path)


def test_a_peak_below_the_copy_is_refused_and_the_file_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HAND_WRITTEN, encoding="utf-8")
    with pytest.raises(InputError, match="above peak"):
        write_gpu_file(measured(H100, dram_copy=3.4e12), path)
    assert path.read_text(encoding="utf-8") == HAND_WRITTEN
    assert [file.name for file in tmp_path.iterdir()] == ["mine.toml"]


def test_an_empty_measurement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no ceilings"):
        write_gpu_file(Measurement(H100), tmp_path / "x.toml")


@pytest.mark.parametrize("text", ["", "from = 'sm_90'", "[sustained", 'from = "sm_90"\nsm_count = "x"\n', "\0"])
def test_a_faulty_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GPUError):
        write_gpu_file(plausible(H100), path)
    assert path.read_text(encoding="utf-8") == text


def test_paths_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_gpu_file(plausible(H100), tmp_path / "none" / "x.toml")
    with pytest.raises(GPUError):
        write_gpu_file(plausible(H100), tmp_path)


@pytest.mark.parametrize(
    "form",
    [
        "sustained = { dram_gb_per_s = 5 }\n",
        "sustained.dram_gb_per_s = 5\n",
        '[sustained]\ndram_gb_per_s = { value = 5, source = [\n"a"], status = "single-source" }\n[sources]\na = "x"\n',
        '[sustained]\n"dram_gb_per_s" = 5\n',
    ],
)
def test_a_form_that_cannot_be_edited_is_refused_and_left_alone(tmp_path: Path, form: str) -> None:
    path = tmp_path / "mine.toml"
    text = 'from = "sm_90"\nsm_count = 132\nclock_boost_mhz = 1980\ndram_gb_per_s = 3352\n' + form
    path.write_text(text, encoding="utf-8")
    load_gpu(path)
    with pytest.raises(InputError, match="cannot be replaced"):
        write_gpu_file(plausible(H100), path)
    assert path.read_text(encoding="utf-8") == text


# --- text ----------------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_quoted_texts_are_read_back(text: str) -> None:
    assert tomllib.loads(f"x = {quoted(text)}") == {"x": text}


_KEYS = st.sampled_from(["alpha", "beta", "gamma", "delta"])
_LINES = st.one_of(
    st.just(""),
    st.text("abc [#]\"'=", max_size=12).map(lambda text: f"# {text}"),
    st.tuples(_KEYS, st.sampled_from(["1", "2.5", '"a # b"', "'[sustained]'", "{ value = 3 }"])).map(
        lambda pair: f"{pair[0]} = {pair[1]}  # said by hand"
    ),
)


@given(
    st.lists(_LINES, max_size=5),
    st.lists(_LINES, max_size=5),
    st.dictionaries(_KEYS, st.floats(0.001, 1e6), min_size=1),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_file_keeps_its_comments_and_other_values(
    top: list[str], section: list[str], values: dict[str, float], newline: str
) -> None:
    text = newline.join([*top, "[sustained]", *section, "[other]", "x = 1 # kept", ""])
    try:
        before: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = tuple(Line(key, value, "") for key, value in values.items())
    edited = GPUFileText(text, "x").with_sustained(lines, "a source")
    again = GPUFileText(edited, "x").with_sustained(lines, "a source")
    assert again == edited
    after = tomllib.loads(edited)
    assert after["other"] == before["other"]
    assert {key: after["sustained"][key]["value"] for key in values} == values
    assert {k: v for k, v in after.items() if k not in {"sustained", "sources"}} == {
        k: v for k, v in before.items() if k != "sustained"
    }
    for line in [*top, *section]:
        comment = line.partition("  # said")[1]
        assert comment in edited
        assert not line.startswith("#") or line in edited
