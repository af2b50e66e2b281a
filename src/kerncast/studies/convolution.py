"""The sweeps of a published convolution layer: what its model predicts, what is simulated here, and what was measured.

Source: "Mini-Project 2: Convolutional Kernel Explanation", 2025 (docs/convolution.md): one parameter of a layer is
changed at a time. Predicted is the published model, as it stands. Simulated is our own kernel of the layer: executed,
its caches and its time simulated; operations are counted by thread as nvprof does (flop_count_sp, inst_integer).
Nothing is fitted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import kerncast
from kerncast.caveats import Caveat
from kerncast.errors import CompileError, InputError, Refusal
from kerncast.forecast import Means, Progress, resolve_gpus
from kerncast.forecast.compiled_launch import CompiledLaunches, Source, compile_and_count
from kerncast.gpu import GPU
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.machine.mix import machine_mix
from kerncast.measurements.scores import Scores, scores_of
from kerncast.models import DEFAULT_MODEL, Case, Question, model_named
from kerncast.models.published.convolution import (
    ConvolutionLayer,
    bandwidth_time,
    compute_time,
    execution_seconds,
    latency_time,
    machine_of,
    operational_intensity,
    ops_per_second,
    published_gpu_id,
    published_titan_v,
)
from kerncast.prediction import Timing
from kerncast.profiles import KernelProfile, MachineMix, Origin
from kerncast.profiles.counts import DRAM_BYTES, FP32_FLOPS, L1_BYTES, L2_BYTES_EXCHANGED, SHARED_BYTES
from kerncast.read.given_layers import MOST_SIZE, SIZES, GivenLayer, LayerSizes, read_given

_HOME = Path(kerncast.__path__[0])
_KERNEL = _HOME / "kernels" / "studies" / "convolution_layer.cu"
#: What was measured on the TITAN V, as the paper prints it.
MEASURED_LAYERS = _HOME / "data" / "convolution-layer-2025-measured.csv"
#: The values of the published sweeps; of the last two, the measured tables are kept back.
_VALUES = {
    "block": (4, 8, 16, 32), "channels": (2, 4, 8, 16, 32, 64, 128, 256, 512), "kernel": (3, 5, 7, 9, 11),
    "size": (14, 28, 56, 112, 256),
}  # fmt: skip
_MOST_VALUES = 64
#: Architectures that no disassembler reads, and the nearest one that is read: Turing has Volta's instructions.
_READ_AS = {"sm_70": "sm_75", "sm_72": "sm_75"}


@dataclass(frozen=True, slots=True)
class Sweep:
    """One parameter of the layer, and the values that it takes; the others are those of the default layer."""

    parameter: str
    values: tuple[int, ...]

    @property
    def layers(self) -> tuple[LayerSizes, ...]:
        """The layer of each value."""
        return tuple(LayerSizes(**{self.parameter: value}) for value in self.values)


def published_sweeps() -> tuple[Sweep, ...]:
    """Return the four sweeps of the paper."""
    return tuple(Sweep(name, _VALUES[name]) for name in SIZES)


def sweep_of(text: str) -> Sweep:
    """Return the sweep that a text such as ``block`` or ``block=8,16`` asks for; raises InputError.

    >>> sweep_of("block"), sweep_of("size=28, 56")
    (Sweep(parameter='block', values=(4, 8, 16, 32)), Sweep(parameter='size', values=(28, 56)))
    """
    name, is_given, values = text.partition("=")
    name = name.strip()
    if name not in SIZES:
        known = ", ".join(SIZES)
        raise InputError(
            f"no sweep is called {name[:40]!r}", where="--sweep", cure=f"Known: {known}; or {known}=VALUES."
        )
    if not is_given:
        return Sweep(name, _VALUES[name])
    cells = [cell.strip() for cell in values.split(",")]
    if not all(cell.isascii() and cell.isdecimal() and 1 <= int(cell[:9]) <= MOST_SIZE for cell in cells):
        cure = f"Give whole numbers from 1 to {MOST_SIZE}, such as {name}={_VALUES[name][0]},{_VALUES[name][1]}."
        raise InputError(f"{values[:40]!r} are no values of {name}", where="--sweep", cure=cure)
    if len(cells) > _MOST_VALUES:
        raise InputError(f"{name} has {len(cells)} values", where="--sweep", cure=f"Give at most {_MOST_VALUES}.")
    return Sweep(name, tuple(dict.fromkeys(int(cell) for cell in cells)))


@dataclass(frozen=True, slots=True)
class Quantities:
    """What is known of one launch of the layer; None is not known."""

    flops: float | None = None
    """floating-point operations; a multiply-add counts 2"""
    int_ops: float | None = None
    """integer operations, one for each thread"""
    seconds: float | None = None
    ops_per_s: float | None = None
    l1_ops_per_byte: float | None = None
    """operations per byte of L1 and shared memory: predicted of the bytes held there, simulated of those moved"""
    l2_ops_per_byte: float | None = None
    dram_ops_per_byte: float | None = None

    @property
    def ops(self) -> float | None:
        """Floating-point and integer operations."""
        return None if self.flops is None or self.int_ops is None else self.flops + self.int_ops


#: What is given, and forecasts are compared in.
COMPARED = ("flops", "int_ops", "ops", "seconds", "ops_per_s")


@dataclass(frozen=True, slots=True)
class PredictedTimes:
    """The parts of the predicted time, and what it is by the memory time that the paper gave up."""

    compute_seconds: float | None = None
    memory_seconds: float | None = None
    latency_seconds: float | None = None
    """the whole time, with the memory time by latencies"""


@dataclass(frozen=True, slots=True)
class SimulationEvidence:
    """What simulated quantities rest on."""

    code: str = ""
    """architecture whose machine code tells the integer operations; empty: estimated from the PTX"""
    caveats: tuple[Caveat, ...] = ()
    """of the execution, such as that counts are scaled from some blocks"""


@dataclass(frozen=True, slots=True)
class LayerPoint:
    """One launch of a sweep, by each of the ways to know it."""

    sizes: LayerSizes
    given: Quantities
    predicted: Quantities
    times: PredictedTimes
    simulated: Quantities
    evidence: SimulationEvidence

    def errors(self, forecast: Quantities) -> tuple[float | None, ...]:
        """Return |forecast - given| / given of each compared quantity."""
        pairs = ((getattr(forecast, name), getattr(self.given, name)) for name in COMPARED)
        return tuple(None if None in pair else abs(pair[0] - pair[1]) / pair[1] for pair in pairs)


@dataclass(frozen=True, slots=True)
class SweptLayers:
    """The launches of one sweep."""

    sweep: Sweep
    points: tuple[LayerPoint, ...]

    def scores(self) -> tuple[tuple[str, Scores], ...]:
        """Return the errors of the times by each way to forecast them, in seconds, where times are given."""
        found = {
            "predicted": [(each.given.seconds, each.predicted.seconds) for each in self.points],
            "predicted by latencies": [(each.given.seconds, each.times.latency_seconds) for each in self.points],
            "simulated": [(each.given.seconds, each.simulated.seconds) for each in self.points],
        }
        known = {name: [(a, b) for a, b in pairs if a is not None and b is not None] for name, pairs in found.items()}
        return tuple((name, scores_of(*zip(*pairs, strict=True))) for name, pairs in known.items() if pairs)


@dataclass(frozen=True, slots=True)
class ConvolutionStudy:
    """The sweeps on one GPU."""

    gpu: GPU
    caveats: tuple[Caveat, ...]
    """what had to be assumed to know which GPU is meant"""
    sweeps: tuple[SweptLayers, ...]
    refused: tuple[str, ...]
    """what could not be forecast, and why"""


def study_convolution(
    sweeps: Sequence[Sweep], gpu: str, given: Path | None = None, progress: Progress | None = None
) -> ConvolutionStudy:
    """Return the sweeps on a GPU; raises InputError for a faulty file of measured values.

    The published measured values are those of the TITAN V; those of a file go before them, on any GPU.
    """
    (target, caveats), *others = resolve_gpus(gpu)
    if others:
        raise InputError(f"{gpu} means {len(others) + 1} GPUs", where="--gpu", cure="Name one GPU.")
    is_published = target.id == published_gpu_id()
    if is_published and target.clock_hz == target.default_clock_hz:
        target = target.at_clock(published_titan_v().clock_hz)  # what was measured ran at
    known = (*(read_given(given) if given else ()), *(read_given(MEASURED_LAYERS) if is_published else ()))
    refused: dict[str, None] = {}
    found: list[SweptLayers] = []
    total, means = sum(len(each.values) for each in sweeps), Means()
    for sweep in sweeps:
        points: list[LayerPoint] = []
        for sizes in sweep.layers:
            if progress:
                done = sum(len(each.points) for each in found) + len(points)
                progress(f"{sweep.parameter} {getattr(sizes, sweep.parameter)} on {target.name}", done, total)
            forecasts = _Forecasts(sizes, target, means)
            points.append(forecasts.point(_given(known, sweep, sizes)))
            refused |= {f"{name_of(sizes)}: {reason}": None for reason in forecasts.refused}
        found.append(SweptLayers(sweep, tuple(points)))
    return ConvolutionStudy(target, caveats, tuple(found), tuple(refused))


def name_of(sizes: LayerSizes) -> str:
    """Return what a layer is called.

    >>> name_of(LayerSizes(block=8))
    'block 8, channels 32, kernel 3, size 32'
    """
    return ", ".join(f"{name} {getattr(sizes, name)}" for name in SIZES)


def _given(known: Sequence[GivenLayer], sweep: Sweep, sizes: LayerSizes) -> Quantities:
    """Return what was measured of a layer in a sweep: the document measured its default layer in each sweep anew."""
    found = next((each for each in known if each.sizes == sizes and each.sweep in {"", sweep.parameter}), None)
    if found is None:
        return Quantities()
    own = Quantities(found.flops, found.int_ops, found.seconds)
    return replace(own, ops_per_s=_rate(own.ops, own.seconds))


def _rate(ops: float | None, per: float | None) -> float | None:
    return None if ops is None or not per else ops / per


def layer_launch(sizes: LayerSizes) -> Launch:
    """Return a launch of our own kernel of the layer."""
    held, blocks = sizes.size + sizes.kernel - 1, math.ceil(sizes.size / sizes.block)
    macros = {
        "NI": sizes.channels, "NN": sizes.channels, "NX": sizes.size, "NY": sizes.size, "K": sizes.kernel,
        "BLOCK_X": sizes.block, "BLOCK_Y": sizes.block,
    }  # fmt: skip
    shapes = {
        "synapse": (sizes.channels, sizes.channels, sizes.kernel, sizes.kernel),
        "neuron_i": (sizes.channels, held, held),
        "neuron_n": (sizes.channels, sizes.size, sizes.size),
    }
    return Launch(
        _KERNEL,
        "convolution_layer",
        (blocks, blocks, sizes.channels),
        (sizes.block, sizes.block, 1),
        arguments=tuple(
            Argument(name, Buffer("f32", shape, Fill("zeros" if name == "neuron_n" else "random")))
            for name, shape in shapes.items()
        ),
        defines=tuple((name, str(value)) for name, value in macros.items()),
    )


class _Forecasts:
    """Both forecasts of one layer, and why one is missing."""

    def __init__(self, sizes: LayerSizes, gpu: GPU, means: Means) -> None:
        self._sizes, self._gpu, self._means = sizes, gpu, means
        self.refused: list[str] = []

    def point(self, given: Quantities) -> LayerPoint:
        """Return the layer with what is given of it."""
        predicted, times = Quantities(), PredictedTimes()
        simulated, evidence = Quantities(), SimulationEvidence()
        try:
            predicted, times = self._predicted()
        except (Refusal, InputError) as refusal:
            self.refused.append(f"not predicted: {refusal}")
        try:
            simulated, evidence = self._simulated()
        except (Refusal, InputError, CompileError) as refusal:
            self.refused.append(f"not simulated: {refusal}")
        return LayerPoint(self._sizes, given, predicted, times, simulated, evidence)

    def _predicted(self) -> tuple[Quantities, PredictedTimes]:
        of = self._sizes
        layer = ConvolutionLayer(
            nx=of.size, ny=of.size, kx=of.kernel, ky=of.kernel, ni=of.channels, nn=of.channels, block_x=of.block,
            block_y=of.block,
        )  # fmt: skip
        machine = machine_of(self._gpu)
        compute, memory = compute_time(layer, machine), bandwidth_time(layer, machine)
        levels = operational_intensity(layer)
        found = Quantities(
            layer.flops, layer.int_ops, execution_seconds(compute, memory), ops_per_second(layer, compute, memory),
            levels.l1, levels.l2, levels.dram,
        )  # fmt: skip
        latency_seconds = execution_seconds(compute, latency_time(layer, machine))
        return found, PredictedTimes(compute.seconds, memory.seconds, latency_seconds)

    def _simulated(self) -> tuple[Quantities, SimulationEvidence]:
        launch, name = layer_launch(self._sizes), self._gpu.architecture.code_name
        compiled = compile_and_count(launch, [name, *([_READ_AS[name]] if name in _READ_AS else [])], self._means)
        known = compiled.on(name)
        if known is None:
            raise compiled.failures[0].refusal
        model, question = model_named(DEFAULT_MODEL), Question(Timing.PROFILER)
        case = Case(known.profile, self._gpu, launch=launch)
        estimate = Source(known).estimate(model, case, question.timing)
        profile = known.with_caches(self._gpu)
        mix = _machine_code(profile, compiled)
        found = Quantities(
            flops=_flops(profile, mix), int_ops=_int_ops(mix), seconds=model.forecast(case, estimate, question).seconds
        )
        is_read = mix is not None and mix.origin is Origin.DISASSEMBLED
        code = mix.architecture if mix is not None and is_read else ""
        return _with_rates(found, profile), SimulationEvidence(code, profile.caveats)


def _machine_code(profile: KernelProfile, compiled: CompiledLaunches) -> MachineMix | None:
    """Return the machine instructions of a launch: those of the nearest architecture where its own are not read."""
    own = profile.machine
    if own is None or own.origin is Origin.DISASSEMBLED or own.architecture not in _READ_AS:
        return own
    near = compiled.on(_READ_AS[own.architecture])
    if near is None:
        return own
    executed = near.executed()
    read = machine_mix(executed.trace, executed.sampler.scale, near.kernel)
    return read if read.origin is Origin.DISASSEMBLED else own


def _int_ops(mix: MachineMix | None) -> float | None:
    """Return inst_integer: integer instructions, for each active thread whose predicate holds."""
    return None if mix is None else round(sum(each.threads_on.value for each in mix.opcodes if each.work == "integer"))


#: Operations of a thread by each instruction that flop_count_sp counts.
_FLOPS = {"FFMA": 2, "FADD": 1, "FMUL": 1}


def _flops(profile: KernelProfile, mix: MachineMix | None) -> float | None:
    """Return flop_count_sp: of machine code where it is read, else of the executed PTX."""
    if mix is not None and mix.origin is Origin.DISASSEMBLED:
        return round(sum(_FLOPS[each.opcode] * each.threads_on.value for each in mix.opcodes if each.opcode in _FLOPS))
    counted = profile.counts.get(FP32_FLOPS)
    return None if counted is None else counted.value


def _with_rates(found: Quantities, profile: KernelProfile) -> Quantities:
    """Return quantities with operations per second, and per byte that moves at each level."""
    counts = profile.counts
    levels = {"l1": (L1_BYTES, SHARED_BYTES), "l2": (L2_BYTES_EXCHANGED,), "dram": (DRAM_BYTES,)}
    if profile.caches is None:
        levels = {"l1": levels["l1"]}
    per_byte = {
        f"{level}_ops_per_byte": _rate(found.ops, counts.total(names).value)
        for level, names in levels.items()
        if all(counts.get(name) is not None for name in names)
    }
    return replace(found, ops_per_s=_rate(found.ops, found.seconds), **per_byte)
