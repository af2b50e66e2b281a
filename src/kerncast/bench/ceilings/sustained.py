"""VERB: what the ceilings' times say of a GPU becomes the ``[sustained]`` section of its file."""

import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kerncast.bench.ceilings.ceiling import name_of_key
from kerncast.bench.ceilings.gpu_file import GPUFileText, Line, measured_text, new_gpu_text
from kerncast.bounded_file import read_bytes
from kerncast.errors import GPUError, InputError
from kerncast.gpu import GPU, load_gpu
from kerncast.gpu.files import GPU_FILE
from kerncast.measurements import Configuration, Measurement, Method
from kerncast.units import GIGA, MEGA, MICROSECOND

#: Digits of a value: more than two runs agree on.
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class SustainedValue:
    """One value of the section ``[sustained]``."""

    key: str
    """key in the GPU's file, such as dram_gb_per_s"""
    value: float
    """value in the file's unit, rounded"""
    configuration: str
    """key of the measured configuration: the best shape of the ceiling"""
    trials: int


class _Kind(Enum):
    """A way to get a value from the measurement, and the shape whose value is the best."""

    RATE = "amount over time; the highest"
    TIME = "time of a launch in us; the lowest"
    STEP = "time of a step in ns; the lowest"
    CYCLES = "what the kernel measured; the lowest"
    CLOCK = "what the kernel measured in Hz, as MHz; the lowest"


@dataclass(frozen=True, slots=True)
class _Rule:
    """The source of one key's value."""

    key: str
    ceiling: str
    kind: _Kind
    method: Method = Method.SERIES


_RATES = {
    "dram_gb_per_s": "dram_copy",
    "dram_read_gb_per_s": "dram_read",
    "dram_init_gb_per_s": "dram_init",
    "dram_triad_gb_per_s": "dram_triad",
    "l2_gb_per_s": "l2_read",
    "l1_gb_per_s": "l1_read",
    "shared_gb_per_s": "shared_read",
    "shared_conflict_gb_per_s": "shared_conflict",
    "fp32_gflops": "fma_f32",
    "fp64_gflops": "fma_f64",
    "fp16_gflops": "fma_f16x2",
    "matrix_product_gflops": "matrix_product",
    "tensor_fp16_gflops": "tensor_f16",
    "tensor_bf16_gflops": "tensor_bf16",
    "tensor_tf32_gflops": "tensor_tf32",
    "tensor_fp64_gflops": "tensor_f64",
    "tensor_int8_gops": "tensor_i8",
    "int32_add_gops": "add_i32",
    "int32_multiply_gops": "mad_i32",
    "exp2_gops": "ex2_f32",
    "rsqrt_gops": "rsqrt_f32",
    "atomic_distinct_gops": "atomic_distinct",
    "atomic_warp_gops": "atomic_warp",
    "atomic_same_gops": "atomic_same",
    "atomic_shared_distinct_gops": "atomic_shared_distinct",
    "atomic_shared_same_gops": "atomic_shared_same",
}
_CYCLES = {
    "l1_latency_cycles": "l1_latency",
    "l2_latency_cycles": "l2_latency",
    "shared_latency_cycles": "shared_latency",
    "fma_latency_cycles": "fma_latency",
    "int32_add_latency_cycles": "add_latency",
    "special_latency_cycles": "special_latency",
    "barrier_latency_cycles": "barrier_latency_256",
    "atomic_latency_cycles": "atomic_latency",
}
_RULES = (
    *(_Rule(key, ceiling, _Kind.RATE) for key, ceiling in _RATES.items()),
    *(_Rule(key, ceiling, _Kind.CYCLES) for key, ceiling in _CYCLES.items()),
    _Rule("dram_latency_ns", "dram_latency", _Kind.STEP),
    _Rule("dram_random_latency_ns", "dram_random_latency", _Kind.STEP),
    _Rule("clock_mhz", "clock", _Kind.CLOCK),
    _Rule("launch_interval_us", "launch_empty", _Kind.TIME),
    _Rule("full_launch_interval_us", "launch_full", _Kind.TIME),
    _Rule("graph_interval_us", "launch_empty", _Kind.TIME, Method.GRAPH),
    _Rule("single_launch_us", "launch_empty", _Kind.TIME, Method.SINGLE),
)


def sustained_block(measurement: Measurement) -> tuple[SustainedValue, ...]:
    """Return every value that the ceilings of a measurement give, in the order of the schema's kinds.

    A value is the median over all samples of the best launch shape: outliers stay in the measurement and count little.
    The clock is that of the slowest trial, of which the median over the blocks is taken.
    """
    found = []
    for rule in _RULES:
        candidates = tuple(_candidates(rule, measurement))
        if candidates:
            best = max if rule.kind is _Kind.RATE else min
            found.append(best(candidates, key=lambda each: each.value))
    return tuple(found)


def _candidates(rule: _Rule, measurement: Measurement) -> Iterator[SustainedValue]:
    for configuration in measurement.configurations:
        if name_of_key(configuration.key) != rule.ceiling or configuration.sm_count is not None:
            continue
        trials = measurement.trials_of(configuration.key, rule.method)
        samples = [seconds for trial in trials for seconds in trial.seconds]
        if rule.kind in {_Kind.CYCLES, _Kind.CLOCK}:
            readings = [r for r in measurement.readings if r.configuration == configuration.key]
            samples = [statistics.median(each.values) for each in readings if min(each.values) > 0]
            samples = [min(samples)] if samples and rule.kind is _Kind.CLOCK else samples
        if samples:
            value = _value(rule.kind, statistics.median(samples), configuration)
            if value is not None:
                yield SustainedValue(rule.key, rounded(value), configuration.key, len(trials))


def _value(kind: _Kind, middle: float, configuration: Configuration) -> float | None:
    match kind:
        case _Kind.CYCLES:
            return middle
        case _Kind.CLOCK:
            return middle / MEGA
        case _Kind.TIME:
            return middle / MICROSECOND
    if not configuration.amount:
        return None
    if kind is _Kind.RATE:
        return configuration.amount / middle / GIGA
    return middle / configuration.amount * GIGA


def rounded(value: float) -> float:
    """Return a value with as many digits as are written.

    >>> rounded(3352.29), rounded(0.0123456)
    (3352.0, 0.01235)
    """
    return float(f"{value:.{_DIGITS}g}")


def write_gpu_file(measurement: Measurement, path: Path) -> None:
    """Write what was measured into a GPU's file: an existing one keeps all else, a new one is complete.

    Raises InputError where there is nothing to write or the file is of another GPU, GPUError for a faulty file.
    """
    values = sustained_block(measurement)
    if not values:
        raise InputError(
            "the measurement holds no ceilings",
            where=str(path),
            cure="Measure them: kerncast measure ceilings.",
        )
    if path.exists():
        text = GPUFileText(_read(path), str(path))
        _check_same(load_gpu(path), measurement, path)
    else:
        copied = next((v.value for v in values if v.key == "dram_gb_per_s"), None)
        text = GPUFileText(new_gpu_text(measurement, copied), str(path))
    gpu = _gpu_of(text.text, path)
    _check_dram(values, gpu, path)
    source = measured_text(measurement, min(v.trials for v in values))
    edited = text.with_sustained(tuple(Line(v.key, v.value, _remark(v, gpu)) for v in values), source)
    _gpu_of(edited, path)
    _draft(path, edited).replace(path)


def _check_same(gpu: GPU, measurement: Measurement, path: Path) -> None:
    measured = measurement.machine
    if gpu.sm_count != measured.sm_count:
        raise InputError(
            f"the file is for a GPU with {gpu.sm_count} SMs, but {measured.gpu_name} has {measured.sm_count}",
            where=str(path),
            cure="Name another file.",
        )


def _check_dram(values: tuple[SustainedValue, ...], gpu: GPU, path: Path) -> None:
    """Refuse a peak that a copy exceeded, since one of them must be wrong."""
    peak = gpu.dram_bytes_per_s / GIGA
    copied = next((v.value for v in values if v.key == "dram_gb_per_s"), 0.0)
    if copied > peak:
        raise InputError(
            f"a copy ran at {copied:g} GB/s, above peak.dram_gb_per_s = {peak:g}",
            where=str(path),
            cure="Correct the peak (data rate x bus width / 8), then measure again or write the values again.",
        )


def _remark(value: SustainedValue, gpu: GPU) -> str:
    """Say of a value above the data sheet's peak that it is, and why it can be."""
    gpu = gpu.at_clock("boost")
    peaks = {
        "fp32_gflops": gpu.peak_fp32_flops_per_s,
        "matrix_product_gflops": gpu.peak_fp32_flops_per_s,
        "fp64_gflops": gpu.peak_fp64_flops_per_s,
        "fp16_gflops": gpu.peak_fp16_flops_per_s,
        "int32_add_gops": gpu.peak_int32_ops_per_s,
        "exp2_gops": gpu.peak_special_ops_per_s,
        "rsqrt_gops": gpu.peak_special_ops_per_s,
        "clock_mhz": gpu.clock_boost_hz * GIGA / MEGA,
        "dram_read_gb_per_s": gpu.dram_bytes_per_s,
        "dram_init_gb_per_s": gpu.dram_bytes_per_s,
        "dram_triad_gb_per_s": gpu.dram_bytes_per_s,
    }
    peak = peaks.get(value.key)
    if peak is None or value.value * GIGA <= peak:
        return ""
    if value.key.startswith("dram"):
        return f"above the peak of {rounded(peak / GIGA):g}: L2 served a part, or the peak is not this board's"
    return f"above the peak of {rounded(peak / GIGA):g} at the boost clock: the GPU ran faster, or has more lanes"


def _gpu_of(text: str, path: Path) -> GPU:
    """Load a GPU from the text of a file that is not yet written; its parent may lie beside it."""
    draft = _draft(path, text)
    try:
        return load_gpu(draft)
    except GPUError as error:
        raise GPUError(error.what, where=str(path), cure=error.cure) from None
    finally:
        draft.unlink()


def _read(path: Path) -> str:
    raw = read_bytes(path, GPU_FILE)
    try:
        return raw.decode("utf-8")
    except ValueError as error:
        raise GPUError(f"cannot be read ({error})", where=str(path), cure="Name a TOML file.") from None


def _draft(path: Path, text: str) -> Path:
    """Write a text to a new file beside a path, so that an interruption leaves the old one."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem[:100]}.", suffix=".toml")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=str(path), cure="Name another path.") from None
    return Path(name)
