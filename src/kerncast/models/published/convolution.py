"""The published model of a convolution layer, with its two memory times: by DRAM bandwidth, and by latencies."""

import math
import re
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import kerncast
from kerncast.bounded_file import our_table
from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, LaunchError, MissingEvidenceError, UnsupportedError
from kerncast.gpu import GPU, WARP_SIZE
from kerncast.launch import MAX_THREADS_PER_BLOCK, Launch
from kerncast.models.base import Case, Estimate, Model
from kerncast.prediction import Term, Timing
from kerncast.units import GIGA, MEGA

# The equations of the published model of one convolution kernel; ``convolution.py`` makes models of them.
#
# Source: "Mini-Project 2: Convolutional Kernel Explanation", 2025. Its later figures use the numbers 14 to 16 a second
# time; here they are named by what they show. Divisions of whole numbers drop the rest where its C++ does.
# What its figures leave open was found from its two tables of results: see docs/convolution.md.


_TABLE = Path(kerncast.__path__[0]) / "data" / "convolution-layer-2025.toml"

_FLOAT_BYTES = 4
_LARGEST_SIZE = 2**31 - 1  # an int of C++
#: Figure 10 divides the integer operations by 60 * 1.69 * (32 / BLOCK_X) "to match the actual output".
_INT_OPS_DIVISOR, _INT_OPS_BLOCK = 60 * 1.69, 32
#: Bytes of a DRAM read into L1, and of a line of L2 (Figure 8b, L1_UPDATE_GRANULARITY and L2_LINE_SIZE).
DRAM_READ_BYTES, _L2_LINE_BYTES = 128, 64


@dataclass(frozen=True, slots=True)
class ConvolutionLayer:
    """The sizes of a layer and the threads of a block; raises InputError for those that no layer has.

    >>> layer = ConvolutionLayer(nx=32, ny=32, kx=3, ky=3, ni=32, nn=32, block_x=32, block_y=32)
    >>> layer.flops, layer.int_ops, layer.grid
    (18874368, 72575626, (1, 1, 32))
    """

    nx: int
    """width of the output, and of the input without its border"""
    ny: int
    kx: int
    """width of the filter"""
    ky: int
    ni: int
    """input channels"""
    nn: int
    """output channels"""
    block_x: int
    """threads of a block along x, one per output"""
    block_y: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 1 <= (size := getattr(self, name)) <= _LARGEST_SIZE:
                raise InputError(f"{name} of the convolution layer is {size}", cure=f"Give 1 to {_LARGEST_SIZE}.")
        if self.threads_per_block > MAX_THREADS_PER_BLOCK:
            raise InputError(
                f"a block of {self.block_x} x {self.block_y} has {self.threads_per_block} threads",
                cure=f"Give at most {MAX_THREADS_PER_BLOCK}.",
            )

    @property
    def threads_per_block(self) -> int:
        """Threads of a block (Figure 11)."""
        return self.block_x * self.block_y

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks along x, y and z: one output channel per block in z (Figure 11)."""
        return -(-self.nx // self.block_x), -(-self.ny // self.block_y), self.nn

    @property
    def blocks(self) -> int:
        """Blocks of the grid (Figure 11)."""
        return math.prod(self.grid)

    @property
    def outputs(self) -> int:
        """Values that the layer computes."""
        return self.nx * self.ny * self.nn

    @property
    def weights(self) -> int:
        """Values of all filters."""
        return self.kx * self.ky * self.ni * self.nn

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the whole layer."""
        return self.outputs * self.kx * self.ky * self.ni

    @property
    def tile(self) -> tuple[int, int]:
        """Width and height of a block's input with its border, SHMEM_TILE_X and SHMEM_TILE_Y."""
        return self.block_x + self.kx - 1, self.block_y + self.ky - 1

    @property
    def tile_bytes(self) -> int:
        """Shared memory of a block."""
        return math.prod(self.tile) * _FLOAT_BYTES

    @property
    def flops(self) -> int:
        """Floating-point operations: a multiplication and an addition each (Figure 9)."""
        return 2 * self.multiply_adds

    @property
    def int_ops(self) -> int:
        """Integer operations, cut to a whole number (Figure 10); raises UnsupportedError where its divisor is zero."""
        per_block = _INT_OPS_BLOCK // self.block_x
        if not per_block:
            raise UnsupportedError(
                f"the published count of integer operations divides by {_INT_OPS_BLOCK} / BLOCK_X in whole numbers,"
                f" which is 0 for blocks {self.block_x} wide",
                cure=f"Give blocks at most {_INT_OPS_BLOCK} wide.",
            )
        width, height = self.tile
        loads = (height // self.block_y) * (width // self.block_x)
        per_channel = 6 * width * height + 9 * self.kx * self.ky + loads
        counted = self.outputs * (8 + self.ni * per_channel)
        return int(counted / (_INT_OPS_DIVISOR * per_block))

    @property
    def ops(self) -> int:
        """Floating-point and integer operations."""
        return self.flops + self.int_ops


@dataclass(frozen=True, slots=True)
class ConvolutionMachine:
    """The facts of a GPU that the model uses; an equation refuses one that is None."""

    name: str
    sm_count: int
    flops_per_s: float
    int_ops_per_s: float
    threads_per_sm: int
    warps_per_sm: int
    blocks_per_sm: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    clock_hz: float
    dram_bytes_per_s: float | None
    shared_latency_cycles: float | None
    l2_latency_cycles: float | None
    dram_latency_cycles: float | None
    """cycles of a read that misses L1 and L2"""


@dataclass(frozen=True, slots=True)
class ComputeTime:
    """The spread of the blocks over SMs, and the time of their arithmetic."""

    active_sms: int
    blocks_per_sm: int
    sm_iterations: int
    """rounds of blocks on one SM"""
    flop_seconds: float
    """time of one round's floating-point operations"""
    int_seconds: float

    @property
    def seconds(self) -> float:
        """The longer of both, times the turns (Figure 13)."""
        return self.sm_iterations * max(self.int_seconds, self.flop_seconds)


@dataclass(frozen=True, slots=True)
class MemoryTime:
    """The times of reading: the input into shared memory, the input from there, the weights."""

    input_seconds: float
    shared_seconds: float
    weight_seconds: float

    @property
    def seconds(self) -> float:
        """All three, one after the other."""
        return self.input_seconds + self.shared_seconds + self.weight_seconds


@dataclass(frozen=True, slots=True)
class OperationalIntensity:
    """Operations per byte that a level of memory holds for the layer."""

    l1: float
    """operations per byte of the input"""
    l2: float
    """operations per byte of the weights"""
    dram: float
    """operations per byte of weights and outputs"""


@cache
def published_titan_v() -> ConvolutionMachine:
    """Return the TITAN V as published; its id is ``published_gpu_id()``."""
    row = _published()["published"]
    return ConvolutionMachine(
        name="TITAN V",
        sm_count=row["sm_count"],
        flops_per_s=row["flops_gflops"] * GIGA,
        int_ops_per_s=row["int_ops_gops"] * GIGA,
        threads_per_sm=row["threads_per_sm"],
        warps_per_sm=row["warps_per_sm"],
        blocks_per_sm=row["blocks_per_sm"],
        shared_bytes_per_sm=row["shared_bytes_per_sm"],
        shared_bytes_per_block=row["shared_bytes_per_block"],
        clock_hz=row["clock_mhz"] * MEGA,
        dram_bytes_per_s=row["dram_gb_per_s"] * GIGA,
        shared_latency_cycles=row["shared_latency_cycles"],
        l2_latency_cycles=row["l2_latency_cycles"],
        dram_latency_cycles=row["dram_latency_cycles"],
    )


def published_gpu_id() -> str:
    """Return the id of the only GPU that constants are published for."""
    return str(_published()["gpu"])


@cache
def _published() -> dict[str, Any]:
    return our_table(_TABLE)


def compute_time(layer: ConvolutionLayer, machine: ConvolutionMachine) -> ComputeTime:
    """Return the time of the arithmetic: both rates of the SMs that have blocks (Figures 12 and 13).

    >>> wide = ConvolutionLayer(nx=32, ny=32, kx=3, ky=3, ni=512, nn=512, block_x=32, block_y=32)
    >>> found = compute_time(wide, published_titan_v())
    >>> found.blocks_per_sm, found.sm_iterations, round(found.seconds * 1e3, 3)
    (7, 4, 1.401)
    """
    active = min(layer.blocks, machine.sm_count)
    blocks_per_sm = -(-layer.blocks // active)
    share = active / machine.sm_count
    return ComputeTime(
        active_sms=active,
        blocks_per_sm=blocks_per_sm,
        sm_iterations=-(-blocks_per_sm * layer.threads_per_block // machine.threads_per_sm),
        flop_seconds=layer.flops / (machine.flops_per_s * share),
        int_seconds=layer.int_ops / (machine.int_ops_per_s * share),
    )


def blocks_at_a_time(layer: ConvolutionLayer, machine: ConvolutionMachine) -> int:
    """Return the blocks that all SMs together hold (active blocks); raises UnsupportedError where none fits."""
    warps = -(-layer.threads_per_block // WARP_SIZE)
    per_sm = min(
        machine.threads_per_sm // layer.threads_per_block,
        machine.shared_bytes_per_sm // layer.tile_bytes,
        machine.warps_per_sm // warps,
        machine.blocks_per_sm,
    )
    if not per_sm:
        raise UnsupportedError(
            f"a block needs {layer.tile_bytes} bytes of shared memory, and an SM of {machine.name} has"
            f" {machine.shared_bytes_per_sm}: the published number of blocks at a time is 0",
            cure="Make the block or the filter smaller.",
        )
    return per_sm * machine.sm_count


def latency_time(layer: ConvolutionLayer, machine: ConvolutionMachine) -> MemoryTime:
    """Return the memory time by latencies, method 1: each read waits for the one before it in its block.

    The time of the input is 0 where a block's tile has less than 128 bytes, because the C++ divides whole numbers.
    """
    dram, l2 = _cycles_s(machine, "dram"), _cycles_s(machine, "l2")
    active = blocks_at_a_time(layer, machine)
    reads = layer.tile_bytes // DRAM_READ_BYTES
    lines = max(1, layer.kx * layer.ky * _FLOAT_BYTES // _L2_LINE_BYTES)
    layers = layer.ni * layer.nn
    channels_at_once = max(1, active // (layer.grid[0] * layer.grid[1]))
    fetches = lines * layers * (l2 + dram) / channels_at_once
    reuses = (layer.outputs * layer.ni - lines * layers) * l2 / (active * layer.threads_per_block)
    return MemoryTime(
        input_seconds=dram * reads * layer.blocks * layer.ni / active,
        shared_seconds=_shared_seconds(layer, machine),
        weight_seconds=fetches + reuses,
    )


def bandwidth_time(layer: ConvolutionLayer, machine: ConvolutionMachine) -> MemoryTime:
    """Return the memory time by DRAM bandwidth, method 2: each thread reads all of its weights from DRAM.

    >>> layer = ConvolutionLayer(nx=32, ny=32, kx=3, ky=3, ni=32, nn=32, block_x=4, block_y=4)
    >>> round(bandwidth_time(layer, published_titan_v()).seconds * 1e3, 3)
    0.067
    """
    if machine.dram_bytes_per_s is None:
        raise MissingEvidenceError(
            f"the DRAM bandwidth that {machine.name} sustains is unknown",
            cure="Give sustained.dram_gb_per_s in the GPU's file.",
        )
    return MemoryTime(
        input_seconds=layer.blocks * layer.ni * layer.tile_bytes / machine.dram_bytes_per_s,
        shared_seconds=_shared_seconds(layer, machine),
        weight_seconds=layer.multiply_adds * _FLOAT_BYTES / machine.dram_bytes_per_s,
    )


def _shared_seconds(layer: ConvolutionLayer, machine: ConvolutionMachine) -> float:
    """Return what reading the input from shared memory takes, the same in both methods (compute related reads)."""
    threads = blocks_at_a_time(layer, machine) * layer.threads_per_block
    return layer.multiply_adds * _cycles_s(machine, "shared") / threads


def _cycles_s(machine: ConvolutionMachine, level: str) -> float:
    cycles: float | None = getattr(machine, f"{level}_latency_cycles")
    if cycles is None:
        raise MissingEvidenceError(
            f"the latency of {level} of {machine.name} is unknown",
            cure=f"Give {level}_latency in its architecture's file.",
        )
    return cycles / machine.clock_hz


def execution_seconds(compute: ComputeTime, memory: MemoryTime) -> float:
    """Return the time of the kernel: the sum, as in the tables; the text says the larger of both."""
    return compute.seconds + memory.seconds


def ops_per_second(layer: ConvolutionLayer, compute: ComputeTime, memory: MemoryTime) -> float:
    """Return the rate of all operations, by the larger of both times, as in the tables (TOPs)."""
    return layer.ops / max(compute.seconds, memory.seconds)


def operational_intensity(layer: ConvolutionLayer) -> OperationalIntensity:
    """Return operations per byte of each level; the input has a border of Kx columns and Ky rows, as in the tables.

    The paper prints them without their fractions.

    >>> layer = ConvolutionLayer(nx=32, ny=32, kx=3, ky=3, ni=32, nn=32, block_x=32, block_y=32)
    >>> found = operational_intensity(layer)
    >>> int(found.l1), int(found.l2), int(found.dram)
    (583, 2480, 544)
    """
    inputs = layer.ni * (layer.nx + layer.kx) * (layer.ny + layer.ky)
    return OperationalIntensity(
        l1=layer.ops / (inputs * _FLOAT_BYTES),
        l2=layer.ops / (layer.weights * _FLOAT_BYTES),
        dram=layer.ops / ((layer.weights + layer.outputs) * _FLOAT_BYTES),
    )


#: The names of the layer's sizes in the published kernel, and those of ``ConvolutionLayer``.
SIZES = {"Nx": "nx", "Ny": "ny", "Kx": "kx", "Ky": "ky", "Ni": "ni", "Nn": "nn"}
_WHOLE = re.compile(r"\s*[+-]?\d{1,30}\s*")


def layer_of(launch: Launch | None, kernel: str) -> ConvolutionLayer:
    """Return the layer that a launch computes: sizes from its macros and scalar arguments, threads from its block.

    Raises MissingEvidenceError that names what is missing, LaunchError for sizes that contradict one another or that no
    layer has, UnsupportedError for a block in three dimensions.
    """
    if launch is None:
        raise MissingEvidenceError(
            f"the sizes of the convolution layer are unknown: of {kernel} only counts are given",
            cure=f"Give its launch, with {', '.join(SIZES)} among defines or args.",
        )
    found = {name: _size(launch, name) for name in SIZES}
    missing = [name for name, size in found.items() if size is None]
    if missing:
        raise MissingEvidenceError(
            f"sizes of the convolution layer are missing, or not whole numbers: {', '.join(missing)}",
            where=launch.label,
            cure="Give each as a whole number among defines or args.",
        )
    if launch.block[2] != 1:
        raise UnsupportedError(
            f"block {list(launch.block)} has threads along z, and the published kernel has none", where=launch.label
        )
    sizes = {SIZES[name]: size for name, size in found.items() if size is not None}
    try:
        return ConvolutionLayer(**sizes, block_x=launch.block[0], block_y=launch.block[1])
    except InputError as error:
        raise LaunchError(error.what, where=launch.label, cure=error.cure) from None


def _size(launch: Launch, name: str) -> int | None:
    """Return a size that is given as a macro or as an argument; None where neither is a whole number."""
    defined = [int(text) for key, text in launch.defines if key == name and _WHOLE.fullmatch(text)]
    passed = [
        each.value
        for each in launch.arguments
        if each.name == name and isinstance(each.value, int) and not isinstance(each.value, bool)
    ]
    sizes = dict.fromkeys([*defined, *passed])
    if len(sizes) > 1:
        raise LaunchError(
            f"{name} is {' and '.join(map(str, sizes))}", where=launch.label, cure="Give one size, or the same twice."
        )
    return next(iter(sizes), None)


def machine_of(gpu: GPU) -> ConvolutionMachine:
    """Return the published constants for the TITAN V, and for another GPU what its file says.

    The integer rate stays the published four times of the FP32 rate: what the count of operations is divided by was
    found with it.
    """
    published = published_titan_v()
    if gpu.id == published_gpu_id():
        return published
    a, dram = gpu.architecture, gpu.dram_rate
    return ConvolutionMachine(
        name=gpu.name,
        sm_count=gpu.sm_count,
        flops_per_s=gpu.peak_fp32_flops_per_s,
        int_ops_per_s=gpu.peak_fp32_flops_per_s * published.int_ops_per_s / published.flops_per_s,
        threads_per_sm=a.max_threads_per_sm,
        warps_per_sm=a.max_threads_per_sm // WARP_SIZE,
        blocks_per_sm=a.max_blocks_per_sm,
        shared_bytes_per_sm=a.shared_bytes_per_sm,
        shared_bytes_per_block=a.shared_bytes_per_block,
        clock_hz=gpu.clock_hz,
        dram_bytes_per_s=None if dram is None else dram.bytes_per_s,
        shared_latency_cycles=a.cycles.shared_latency,
        l2_latency_cycles=gpu.l2_latency,
        dram_latency_cycles=gpu.dram_latency,
    )


class _ConvolutionModel(Model):
    """The common part of both memory models: the layer, the compute time, and the sum."""

    @abstractmethod
    def memory_time(self, layer: ConvolutionLayer, machine: ConvolutionMachine) -> MemoryTime:
        """Return the memory time; raises MissingEvidenceError."""

    @abstractmethod
    def memory_terms(self, memory: MemoryTime) -> tuple[Term, ...]:
        """Return the parts of the memory time by what limits them."""

    @abstractmethod
    def method_caveats(self, layer: ConvolutionLayer, gpu: GPU) -> tuple[Caveat, ...]:
        """Return what is wrong with the memory time by the paper's own word, for this layer or for this GPU."""

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return compute and memory time, added as in the paper's tables; no launch overhead."""
        layer = layer_of(case.launch, case.profile.kernel)
        found = self.of_layer(layer, case.gpu)
        notes: list[Caveat] = []
        if case.profile.grid != layer.grid:
            published, launched = str(layer.grid), str(case.profile.grid)
            notes.append(Caveat.of(CaveatKind.CONVOLUTION_GRID_DIFFERS, published=published, launched=launched))
        if timing is not Timing.PROFILER:
            notes.append(Caveat.of(CaveatKind.NO_LAUNCH_OVERHEAD, self.name, asked=timing))
        return replace(found, caveats=(*found.caveats, *notes))

    def of_layer(self, layer: ConvolutionLayer, gpu: GPU) -> Estimate:
        """Return the same without a launch; raises MissingEvidenceError, UnsupportedError."""
        machine = machine_of(gpu)
        compute, memory = compute_time(layer, machine), self.memory_time(layer, machine)
        terms = self.memory_terms(memory)
        seconds = execution_seconds(compute, memory)
        slowest = max(terms, key=lambda term: term.seconds).name
        return Estimate(
            seconds=seconds,
            limiter="compute" if compute.seconds > memory.seconds else slowest,
            terms=(Term("compute", compute.seconds), *terms),
            low=seconds,
            high=seconds,
            caveats=(_constants(machine, gpu), *_shared_warning(layer, machine), *self.method_caveats(layer, gpu)),
        )


class Convolution(_ConvolutionModel):
    """Compute time plus memory time by DRAM bandwidth, method 2, which replaced method 1 in the paper.

    t = turns x max(FLOP / rate, INT / rate) + (input + weight bytes) / bandwidth + reads of shared memory, with
    FLOP = 2 Nx Ny Kx Ky Ni Nn; all equations stand in ``convolution_equations.py``. Only the sizes of the layer and of
    a block are looked at, nothing of the kernel's code.

    Source: "Mini-Project 2: Convolutional Kernel Explanation", 2025. Where its text and figures differ from its tables
    of results, the tables count: docs/convolution.md.
    Fails when: launch overhead or latency decide (few channels: 14 times too fast), or caches serve the weights (many
    channels: 3.6 times too slow).

    >>> from kerncast.gpu.gpu import load_gpu
    >>> layer = ConvolutionLayer(nx=32, ny=32, kx=3, ky=3, ni=32, nn=32, block_x=4, block_y=4)
    >>> print(f"{Convolution().of_layer(layer, load_gpu('TITAN V')).seconds * 1e3:.3f}")
    0.068
    """

    name: ClassVar[str] = "convolution"
    log_sigma: ClassVar[float] = 1.0
    follows_clock: ClassVar[bool] = False

    def memory_time(self, layer: ConvolutionLayer, machine: ConvolutionMachine) -> MemoryTime:
        """Return bytes over bandwidth, and the reads of shared memory."""
        return bandwidth_time(layer, machine)

    def memory_terms(self, memory: MemoryTime) -> tuple[Term, ...]:
        """Return what comes from DRAM and what from shared memory."""
        return Term("dram", memory.input_seconds + memory.weight_seconds), Term("shared", memory.shared_seconds)

    def method_caveats(self, layer: ConvolutionLayer, gpu: GPU) -> tuple[Caveat, ...]:
        """Return that no TITAN V has the published bandwidth."""
        del layer
        published = machine_of(gpu).dram_bytes_per_s
        if published is None or published <= gpu.dram_bytes_per_s:
            return ()
        return (Caveat.of(CaveatKind.BANDWIDTH_OF_V100, published=published, data_sheet=gpu.dram_bytes_per_s),)


class ConvolutionLatency(_ConvolutionModel):
    """Compute time plus memory time by latencies, method 1.

    Reads of a block follow one another, those of the blocks that fit on all SMs run side by side.

    Source: as ``Convolution``, which replaced it: "unfortunately inaccurate". Its tables have no number of this method.
    Fails when: reads of a block overlap, which they do on any GPU; a block's tile of less than 128 bytes costs nothing.

    >>> from kerncast.gpu.gpu import load_gpu
    >>> layer = ConvolutionLayer(nx=32, ny=32, kx=3, ky=3, ni=32, nn=32, block_x=32, block_y=32)
    >>> estimate = ConvolutionLatency().of_layer(layer, load_gpu("TITAN V"))
    >>> tile_us = 375 / 1.2e3 * 36 * 32 * 32 / 160  # 36 reads of 375 cycles for 32 channels, 32 blocks, 160 at a time
    >>> print(f"{tile_us:.0f} of {estimate.seconds * 1e6:.1f}")
    72 of 80.4
    """

    name: ClassVar[str] = "convolution-latency"
    log_sigma: ClassVar[float] = 1.0
    follows_clock: ClassVar[bool] = False

    def memory_time(self, layer: ConvolutionLayer, machine: ConvolutionMachine) -> MemoryTime:
        """Return reads times their latencies over the blocks that run at a time."""
        return latency_time(layer, machine)

    def memory_terms(self, memory: MemoryTime) -> tuple[Term, ...]:
        """Return all as latency."""
        return (Term("latency", memory.seconds),)

    def method_caveats(self, layer: ConvolutionLayer, gpu: GPU) -> tuple[Caveat, ...]:
        """Return that the paper gave the method up, and where it counts no reads."""
        del gpu
        caveats = [Caveat.of(CaveatKind.LATENCY_METHOD_REPLACED)]
        if layer.tile_bytes < DRAM_READ_BYTES:
            caveats.append(Caveat.of(CaveatKind.TILE_BELOW_ONE_READ, tile=layer.tile_bytes, read=DRAM_READ_BYTES))
        return tuple(caveats)


def _constants(machine: ConvolutionMachine, gpu: GPU) -> Caveat:
    if gpu.id == published_gpu_id():
        return Caveat.of(CaveatKind.CONSTANTS_PUBLISHED, machine.name, clock_hz=machine.clock_hz)
    ratio = machine.int_ops_per_s / machine.flops_per_s
    return Caveat.of(CaveatKind.CONSTANTS_OF_GPU_FILE, published_titan_v().name, ratio=ratio)


def _shared_warning(layer: ConvolutionLayer, machine: ConvolutionMachine) -> tuple[Caveat, ...]:
    if layer.tile_bytes <= machine.shared_bytes_per_block:
        return ()
    limit = machine.shared_bytes_per_block
    return (Caveat.of(CaveatKind.TILE_ABOVE_SHARED_MEMORY, tile=layer.tile_bytes, limit=limit),)
