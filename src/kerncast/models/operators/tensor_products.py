"""Matrix products on tensor cores, as cuBLAS and CUTLASS compute them: tiles, waves, split sums, operands from L2.

    time = launch + quantisation + max(body, power) + split,
    body^2 = arithmetic^2 + DRAM^2 + chain^2,
    arithmetic = max(waves x products of a tile / tensor rate, operands / L2 rate) + stores / L2 rate

The library takes the tile and the split that end first. ``chain`` is the latency of the steps of one tile after
another. Weights stay in L2 from call to call where the buffers that a benchmark rotates fit into it: in a network they
do not (``--timing cold``). Source: this project's study of library products on three GPUs (docs/operators.md); tile and
wave quantisation as in NVIDIA's "Matrix Multiplication Background User's Guide". Fails where the library's choice is
not the fastest tile: vLLM's and SGLang's FP8 kernels with few rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kerncast.gpu import GPU, launch_overhead_s
from kerncast.models.base import known_fact
from kerncast.models.operators.constants import read_constants
from kerncast.models.operators.operator_work import (
    Floats,
    OperatorBatch,
    OperatorWork,
    Resource,
    alignment,
    joined,
    library_features,
    log_of,
    products_per_clock,
    sustained_clock_hz,
    tensor_load,
    where_better,
)
from kerncast.operators import NumberFormat
from kerncast.prediction import Timing

#: Rows and columns of the tiles that the libraries have.
_TILES = (
    (16, 64), (16, 128), (32, 64), (32, 128), (64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (256, 64),
    (128, 256), (256, 128),
)  # fmt: skip
#: Parts into which the sum is split, each a block of its own.
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
#: Bytes of a result and of an activation before it is quantised.
_HALF = 2.0
#: Numbers of a tile that one SM holds at a time, and the most tiles that it holds.
_RESIDENT_NUMBERS, _MOST_RESIDENT = 128 * 256, 4
#: Numbers of one step of the sum.
_STEP = 32.0
#: Rows at once: their arrays stay in a core's cache.
_AT_ONCE = 4096
#: Pairs of SMs that multiply together draw 128 rows and 128 columns each for a tile of 256 x 256, where one SM draws
#: 128 + 256 for 128 x 256: instructions of groups of 4,096 products per clock (PTX ISA 8.6, tcgen05.mma cta_group::2).
_OF_PAIRS, _PAIR_PRODUCTS = 1.5, 4096
#: Constants that a fit moves.
FITTED = (
    "launch_s", "launch_cycles", "step_cycles", "tile_cycles", "split_s", "dram_share", "l2_share", "store_share",
    "clock_share", "quantised_share", "bulk_step", "bulk_operands", "quantisation_s",
    "quantisation_passes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of the model, in SI units."""

    launch_s: float
    """node to node in a CUDA graph, whatever the clock"""
    launch_cycles: float
    """prologue, first loads and epilogue of a kernel"""
    step_cycles: float
    """one step of 32 numbers of the sum, where nothing but its latency limits"""
    quantised_step_cycles: float
    """the same for kernels of quantised formats"""
    tile_cycles: float
    """start and end of one more tile on an SM"""
    split_s: float
    """adding up the parts of a split sum"""
    dram_share: float
    """sustained over peak DRAM bandwidth"""
    l2_share: float
    """operand bytes per second over the sustained L2 bandwidth"""
    most_l2_bytes_per_clock: float
    """bytes that one SM draws from L2 per clock where the others are idle"""
    store_share: float
    """rate at which a finished tile is stored, over that of the operands"""
    tensor_share: float
    """products per clock of the main loop, over the peak"""
    clock_share: float
    """clock under tensor load: base + share x (boost - base)"""
    power_share: float
    """most products per clock of a long kernel at that clock, over the peak"""
    quantised_share: float
    """the tensor rate of quantised formats, over what their peak promises"""
    smallest_quantised_tile: float
    """numbers of the smallest tile of kernels for quantised formats"""
    quantisation_s: float
    """launch of the pass that quantises activations"""
    quantisation_passes: float
    """passes over three bytes for each activation that it makes"""
    dynamic_scale_s: float
    """the same launch in TensorRT-LLM, which finds the scale first"""
    smooth_quantisation_s: float
    """the same in SmoothQuant"""
    weight_only_s: float
    """what the plug-in for weight-only formats adds"""
    bulk_step: float
    """latency of a step with bulk asynchronous copies, over that without"""
    bulk_operands: float
    """operands that a cluster's multicast delivers, over those without"""
    buffers: float
    """copies of the weights that the benchmark rotates"""


_FEATURES = (
    "arithmetic_share", "dram_share", "launch_share", "chain_share", "power_share", "ideal_share", "ln_launches",
    "ln_waves", "wave_efficiency", "tile_efficiency", "ln_split", "ln_l2_pressure", "ln_m", "ln_n", "ln_k", "ln_batch",
    "align_m", "align_n", "align_k", "ln_intensity_over_ridge", "weight_bytes", "products_over_fp16",
    "trtllm", "vllm", "sglang", "unknown_library", "architecture",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """Products of [m, k] and [k, n] matrices, ``batch`` at a time."""

    batch: Floats
    m: Floats
    n: Floats
    k: Floats
    is_trtllm: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @property
    def flops(self) -> Floats:
        """Floating-point operations; a multiply-add counts 2."""
        return 2 * self.batch * self.m * self.n * self.k

    def rows(self, chosen: slice) -> "Shape":
        """Return some of the products."""
        return Shape(self.batch[chosen], self.m[chosen], self.n[chosen], self.k[chosen], self.is_trtllm[chosen])


def shape_of(batch: OperatorBatch) -> Shape:
    """Return the products that operators ask for: ``bmm`` and ``linear`` sum over N, ``gemm`` over K."""
    m, n, k = (batch.size(name) for name in "MNK")
    is_trtllm = batch.libraries == "trtllm"
    if batch.kind.name == "gemm":
        return Shape(np.ones(len(batch)), m, n, k, is_trtllm)
    if batch.kind.name == "linear":
        return Shape(np.ones(len(batch)), batch.size("B") * m, k, n, is_trtllm)
    return Shape(batch.size("B"), m, k, n, is_trtllm)


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of a GPU in one number format."""

    sms: float
    clock_hz: float
    loaded_clock_hz: float
    products_per_clock: float
    """multiply-adds per SM and clock that the peak promises"""
    power_share: float
    """most of them in a long kernel"""
    dram_bytes_per_s: float
    l2_bytes: float
    l2_bytes_per_clock: float
    """operand bytes per SM and clock, all SMs drawing"""
    most_l2_bytes_per_clock: float
    has_bulk_copies: bool

    @property
    def peak_flops_per_s(self) -> float:
        """Rate at the boost clock."""
        return 2 * self.products_per_clock * self.sms * self.clock_hz


def machine_of(gpu: GPU, dtype: NumberFormat, constants: Constants) -> Machine:
    """Return the rates of a GPU; raises MissingEvidenceError where a fact is unknown."""
    rate = gpu.l2_rate
    l2_bytes_per_s = known_fact(None if rate is None else rate.bytes_per_s, "L2 bandwidth", gpu)
    group = gpu.architecture.tensor_group_fp16_lanes_per_sm
    multicast = constants.bulk_operands if group is not None else 1.0
    if group is not None and group >= _PAIR_PRODUCTS:
        multicast *= _OF_PAIRS
    # Tensor cores of half the rate draw half of the power: the clock and the rate fall half as far.
    load = tensor_load(gpu)
    return Machine(
        sms=float(gpu.sm_count),
        clock_hz=gpu.clock_hz,
        loaded_clock_hz=sustained_clock_hz(gpu, 1 - load * (1 - constants.clock_share)),
        products_per_clock=products_per_clock(gpu, dtype),
        power_share=1 - load * (1 - constants.power_share),
        dram_bytes_per_s=gpu.dram_bytes_per_s * constants.dram_share,
        l2_bytes=known_fact(gpu.l2_bytes, "l2_kib", gpu),
        l2_bytes_per_clock=constants.l2_share * multicast * l2_bytes_per_s / gpu.sm_count / gpu.clock_hz,
        most_l2_bytes_per_clock=constants.most_l2_bytes_per_clock * multicast,
        has_bulk_copies=group is not None,
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """What each part of some products takes, in seconds, and what the tile makes of them."""

    seconds: Floats
    launch: Floats
    arithmetic: Floats
    l2: Floats
    dram: Floats
    chain: Floats
    power: Floats
    waves: Floats
    split: Floats
    tile_efficiency: Floats
    l2_pressure: Floats


@dataclass(frozen=True)
class TensorProducts:
    """Products in 16 bits, 8 bits, and with quantised weights."""

    constants: Constants = field(default_factory=lambda: read_constants(Constants, "products"))
    name = "operators-product"
    timing = Timing.SERIES
    features = _FEATURES

    def work(self, batch: OperatorBatch, gpu: GPU, timing: Timing) -> OperatorWork:
        """Return the physical forecast of products; raises MissingEvidenceError where a fact is unknown."""
        shape, machine = shape_of(batch), machine_of(gpu, batch.dtype, self.constants)
        task = _Task(self.constants, machine, batch.dtype, timing)
        parts = joined([task.parts(shape.rows(some)) for some in _slices(len(batch))])
        return OperatorWork(
            parts.seconds,
            (
                Resource("tensor", np.maximum(parts.arithmetic, parts.power)), Resource("l2", parts.l2),
                Resource("dram", parts.dram), Resource("launch", parts.launch),
            ),
            _features(shape, parts, machine, batch, gpu),
            _least_s(shape, machine, batch, (gpu, timing)),
        )  # fmt: skip


def _least_s(shape: Shape, machine: Machine, batch: OperatorBatch, asked: tuple[GPU, Timing]) -> Floats:
    """Return what products take at the peak, and what cold weights take from DRAM at its peak."""
    arithmetic: Floats = shape.flops / machine.peak_flops_per_s
    gpu, timing = asked
    if timing is not Timing.COLD:
        return arithmetic
    return np.maximum(arithmetic, _moved_bytes(shape, batch.dtype) / gpu.dram_bytes_per_s)


def _moved_bytes(shape: Shape, dtype: NumberFormat) -> Floats:
    """Return the bytes of weights, activations and results."""
    activations = shape.m * (shape.k * dtype.nbytes + shape.n * _HALF)
    return np.asarray(shape.batch * (shape.n * shape.k * dtype.weight_bytes + activations))


def _slices(rows: int) -> Iterator[slice]:
    yield from (slice(first, first + _AT_ONCE) for first in range(0, max(rows, 1), _AT_ONCE))


@dataclass(frozen=True)
class _Task:
    """Products in one format on one GPU."""

    constants: Constants
    machine: Machine
    dtype: NumberFormat
    timing: Timing

    @cached_property
    def is_quantised(self) -> bool:
        """Whether activations are quantised before they are multiplied."""
        return self.dtype.nbytes < _HALF

    def parts(self, shape: Shape) -> Parts:
        """Return what products take."""
        machine, constants = self.machine, self.constants
        weights, others = self._bytes(shape)
        copies = np.where(
            shape.is_trtllm, np.minimum(constants.buffers, np.ceil(machine.l2_bytes / weights)), constants.buffers
        )
        pressure = (copies * weights + others) / machine.l2_bytes
        once = (weights + others) / machine.l2_bytes
        weights_missed, others_missed = self._missed(pressure), self._missed(once)
        dram = (weights * weights_missed + others * others_missed) / machine.dram_bytes_per_s
        launch = self._launch() + self._quantisation(shape, others_missed)
        best = self._best_tile(shape, dram)
        body = _overlapped(best.busy, dram, best.chain) + best.added
        power = shape.flops / (2 * machine.products_per_clock * self._share() * machine.power_share
                               * machine.sms * machine.loaded_clock_hz)  # fmt: skip
        return Parts(
            launch + np.maximum(body, power), launch, best.arithmetic, best.operands, dram, best.chain, power,
            best.tiles / machine.sms, best.split, best.efficiency, pressure,
        )  # fmt: skip

    def _share(self) -> float:
        """Return the tensor rate of the format over what its peak promises."""
        return self.constants.quantised_share if self.is_quantised else 1.0

    def _bytes(self, shape: Shape) -> tuple[Floats, Floats]:
        """Return the bytes of weights, and those of activations and results."""
        weights = shape.batch * shape.n * shape.k * self.dtype.weight_bytes
        return weights, shape.batch * shape.m * (shape.k * self.dtype.nbytes + shape.n * _HALF)

    def _missed(self, fill: Floats) -> Floats:
        """Return the part of data that L2 no longer holds from the call before."""
        if self.timing is Timing.COLD:
            return np.ones(len(fill))
        return np.clip((fill - 0.85) / 0.3, 0.0, 1.0)

    def _launch(self) -> float:
        constants = self.constants
        own = constants.launch_s if self.timing is Timing.SERIES else launch_overhead_s(self.timing)
        return own + constants.launch_cycles / self.machine.clock_hz

    def _quantisation(self, shape: Shape, missed: Floats) -> Floats:
        """Return what the kernels before the product add."""
        constants, machine = self.constants, self.machine
        if not self.is_quantised:
            is_weight_only = self.dtype.weight_bytes < self.dtype.nbytes
            return np.full(len(shape.m), constants.weight_only_s if is_weight_only else 0.0)
        launch = np.where(
            shape.is_trtllm & (self.dtype.name == "fp8"), constants.dynamic_scale_s,
            constants.smooth_quantisation_s if self.dtype.products == "int8" else constants.quantisation_s,
        )  # fmt: skip
        moved = shape.batch * shape.m * shape.k * 3 * constants.quantisation_passes
        l2_bytes_per_s = machine.sms * machine.clock_hz * machine.l2_bytes_per_clock
        found: Floats = launch + moved * (missed / machine.dram_bytes_per_s + 1 / l2_bytes_per_s)
        return found

    def _best_tile(self, shape: Shape, dram: Floats) -> "_Tiling":
        """Return the tiling that ends first."""
        best, least = None, np.full(len(shape.m), np.inf)
        can_split = shape.is_trtllm | (not self.is_quantised)
        for rows, columns in _TILES:
            is_small = rows * columns < self.constants.smallest_quantised_tile
            for split in _SPLITS:
                found = self._tiling(shape, (rows, columns), split)
                score = _overlapped(found.busy, dram, found.chain) + found.added
                if split > 1 or is_small:
                    score = np.where(can_split, score, np.inf)
                best = found if best is None else where_better(score < least, found, best)
                least = np.minimum(least, score)
        assert best is not None
        return best

    def _tiling(self, shape: Shape, tile: tuple[int, int], split: int) -> "_Tiling":
        """Return what products take with one tile and one split of the sum."""
        constants, machine, (rows, columns) = self.constants, self.machine, tile
        steps = np.ceil(shape.k / (split * _STEP))
        tiles = shape.batch * np.ceil(shape.m / rows) * np.ceil(shape.n / columns) * split
        waves = np.ceil(tiles / machine.sms)
        resident = min(max(_RESIDENT_NUMBERS // (rows * columns), 1), _MOST_RESIDENT)
        depth = steps * _STEP
        rate = machine.products_per_clock * self._share() * constants.tensor_share * machine.loaded_clock_hz
        products = rows * columns * depth / rate
        l2_bytes_per_s = machine.sms * machine.clock_hz * machine.l2_bytes_per_clock
        nbytes = (rows * self.dtype.nbytes + columns * self.dtype.weight_bytes) * depth
        # All SMs share L2, and one alone draws no more than its port lets through.
        operands = np.maximum(
            tiles * nbytes / l2_bytes_per_s, waves * nbytes / (machine.most_l2_bytes_per_clock * machine.clock_hz)
        )
        store = tiles * _HALF * rows * columns / (l2_bytes_per_s * constants.store_share)
        step = constants.quantised_step_cycles if self.is_quantised else constants.step_cycles
        step_cycles = np.where(shape.is_trtllm, constants.step_cycles, step)
        step_cycles = step_cycles * (constants.bulk_step if machine.has_bulk_copies else 1.0)
        chain = np.ceil(tiles / (machine.sms * resident)) * (steps * step_cycles + constants.tile_cycles)
        parts = 4 * (split + 1) * shape.batch * shape.m * shape.n
        added = constants.split_s + parts / l2_bytes_per_s
        padded = tiles / split * rows * columns
        return _Tiling(
            np.maximum(waves * products, operands) + store, chain / machine.clock_hz,
            added if split > 1 else np.zeros(len(padded)), waves * products, operands, tiles,
            np.full(len(padded), float(split)), shape.batch * shape.m * shape.n / padded,
        )  # fmt: skip


def _overlapped(busy: Floats, dram: Floats, chain: Floats) -> Floats:
    """Return the time of parts that overlap, but not wholly: the root of the sum of their squares."""
    return np.asarray(np.sqrt(np.square(busy) + np.square(dram) + np.square(chain)))


@dataclass(frozen=True, slots=True)
class _Tiling:
    """What products take with a tile and a split each, in seconds."""

    busy: Floats
    """products or operands, and stores"""
    chain: Floats
    """latency of steps, one after the other"""
    added: Floats
    """adding up a split sum"""
    arithmetic: Floats
    operands: Floats
    tiles: Floats
    split: Floats
    efficiency: Floats


def _features(shape: Shape, parts: Parts, machine: Machine, batch: OperatorBatch, gpu: GPU) -> Floats:
    """Return the features of the residual: ratios, and what the library may choose by."""
    dtype, seconds = batch.dtype, parts.seconds
    moved = _moved_bytes(shape, dtype)
    ridge = machine.peak_flops_per_s / machine.dram_bytes_per_s
    one = np.ones(len(seconds))
    columns = (
        parts.arithmetic / seconds, parts.dram / seconds, parts.launch / seconds, parts.chain / seconds,
        parts.power / seconds, shape.flops / machine.peak_flops_per_s / seconds, log_of(seconds / parts.launch),
        log_of(parts.waves), parts.waves / np.ceil(parts.waves), parts.tile_efficiency, log_of(parts.split),
        log_of(parts.l2_pressure), log_of(shape.m), log_of(shape.n), log_of(shape.k), log_of(shape.batch),
        alignment(shape.m, 8), alignment(shape.n, 10), alignment(shape.k, 10), log_of(shape.flops / moved / ridge),
        dtype.weight_bytes * one, _HALF / dtype.nbytes * one,
        *library_features(batch.libraries), float(gpu.architecture.number) * one,
    )  # fmt: skip
    return np.column_stack(columns)
