"""A layer of mixed experts: routing, two products for each expert, and what moves tokens there and back.

    time = launch + moved + body,  body^p = (busy^p + chain^p) + DRAM^p,
    busy = sum over both products of waves x (max(tile products / tensor rate, operands / L2 rate) + store of the tile)

``launch`` is the chain of five to eight small kernels and the sort of tokens by expert; ``moved`` are passes over
activations that no product hides: the sorted copy, gate times up, the sum over the experts of a token. Weights of
experts with rows are read from DRAM as far as L2 does not hold them. The time is that of the GPU with the most rows
(routing.py), and the tile is the one whose products end first. Experts are gated: three matrices [H, F] each. The
measured data also hold a few shapes without a gate, two matrices (22 experts of each token, or F = 1856, but not on
every GPU); sizes do not tell them apart, and the constants were fitted without them.

Source: this project's study of three libraries on three GPUs (docs/operators.md); routing after aiconfigurator's
collector. Fails where a library has no tuned kernel for a shape (up to 4 times as slow), for FlashInfer's kernels in
SGLang, and for MXFP4 weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kerncast.gpu import GPU, launch_overhead_s
from kerncast.models.base import known_fact
from kerncast.models.operators.constants import read_constants
from kerncast.models.operators.operator_work import (
    Floats,
    OperatorBatch,
    OperatorWork,
    Resource,
    joined,
    library_features,
    log_of,
    peak_flops_per_s,
    products_per_clock,
    sustained_clock_hz,
    where_better,
)
from kerncast.models.operators.routing import TILE_ROWS, BusiestGPU, Routing
from kerncast.operators import LIBRARIES, NumberFormat
from kerncast.prediction import Timing
from kerncast.units import MICROSECOND, PERCENT

_TILE_COLUMNS = (32, 64, 128, 256)
#: Numbers of the largest tile. An SM holds as many at a time, in at most so many tiles.
_LARGEST_TILE, _MOST_RESIDENT = 128 * 256, 4
#: Bytes of an activation outside of the products, and of a result.
_HALF = 2.0
#: Numbers of one step of the sum.
_STEP = 32.0
#: Matrices [H, F] of a gated expert: gate and up, then down.
_UP, _MATRICES = 2.0, 3.0
#: Weights stay in L2 from call to call below this fill of L2, and above the second one only the last part of them does.
_KEPT, _LOST, _LEAST_MISSED = 0.6, 1.4, 0.1
#: The same of activations, of which passes that follow each other share those of one pass.
_MOVED_KEPT, _MOVED_LOST = 1.0, 5.0
#: The sort of tokens grows until every expert has about so many rows.
_SORTED_ROWS = 8.0
#: Operators at once: their arrays stay in a core's cache.
_AT_ONCE = 4096
#: What the constants that a fit moves were guessed to be before any was made, in the same units.
_GUESSED = {
    "launch_s": 11 * MICROSECOND, "launch_cycles": 20_000.0, "sort_cycles": 8_000.0, "dram_share": 0.82,
    "l2_share": 1.0, "step_cycles": 110.0, "tile_cycles": 720.0, "tensor_share": 0.8, "clock_share": 0.45,
    "quantised_share": 0.8, "unpacking_share": 0.75, "activation_passes": 1.0, "foreign_share": 0.6,
}  # fmt: skip
#: Constants that a fit moves.
FITTED = tuple(_GUESSED)


@dataclass(frozen=True, slots=True)
class OverTypical:
    """The constants of one library, each over the typical one."""

    launch: float
    """of seconds and of clocks"""
    sort: float
    dram: float
    l2: float
    step: float
    tensor: float
    quantised: float
    unpacking: float
    passes: float
    foreign: float


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of the model, in SI units: typical ones, and what each library makes of them."""

    launch_s: float
    """sort, permutation, two products, gate and sum: launches that follow each other, whatever the clock"""
    launch_cycles: float
    """prologues, first loads and epilogues of these kernels"""
    sort_cycles: float
    """sorting tokens by expert where every expert has rows"""
    dram_share: float
    """sustained over peak DRAM bandwidth"""
    l2_share: float
    """operand bytes per second over the sustained L2 bandwidth"""
    most_l2_bytes_per_clock: float
    """bytes that one SM draws from L2 per clock where the others are idle"""
    bulk_operands: float
    """operands that a cluster's multicast delivers, over those without"""
    store_share: float
    """rate at which a finished tile is stored, over that of the operands"""
    step_cycles: float
    """one step of 32 numbers of the sum, where nothing but its latency limits"""
    tile_cycles: float
    """start and end of one more tile on an SM"""
    tensor_share: float
    """products per clock of the main loop, over the peak"""
    clock_share: float
    """clock under tensor load: base + share x (boost - base)"""
    quantised_share: float
    """the tensor rate of 8-bit formats, over what their peak promises"""
    unpacking_share: float
    """the tensor rate while weights of 4 bits are unpacked, over that without"""
    activation_passes: float
    """passes over activations that products do not hide, over those that the algorithm needs"""
    foreign_share: float
    """rows of other GPUs' experts that such passes move, over all of them: buffers of Triton kernels have them"""
    sharpness: float
    """p of the norm that joins what overlaps"""
    trtllm: OverTypical
    vllm: OverTypical
    sglang: OverTypical

    @classmethod
    def read(cls) -> "Constants":
        """Return the constants that were fitted on all measured GPUs."""
        found: Constants = read_constants(Constants, "experts")
        return found

    @classmethod
    def prior(cls) -> "Constants":
        """Return the constants before any fit: where one that must not have seen a GPU begins.

        All libraries are typical ones then, but TensorRT-LLM moves no rows of other GPUs: that is how it works.
        """
        typical = OverTypical(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
        found, own_rows = cls.read(), replace(typical, foreign=cls.read().trtllm.foreign)
        return replace(found, **_GUESSED, trtllm=own_rows, vllm=typical, sglang=typical)

    def of(self, library: str) -> "Constants":
        """Return the constants of one of the known libraries."""
        ratios: OverTypical = getattr(self, library)
        return replace(
            self,
            launch_s=self.launch_s * ratios.launch,
            launch_cycles=self.launch_cycles * ratios.launch,
            sort_cycles=self.sort_cycles * ratios.sort,
            dram_share=self.dram_share * ratios.dram,
            l2_share=self.l2_share * ratios.l2,
            step_cycles=self.step_cycles * ratios.step,
            tensor_share=self.tensor_share * ratios.tensor,
            quantised_share=self.quantised_share * ratios.quantised,
            unpacking_share=self.unpacking_share * ratios.unpacking,
            activation_passes=self.activation_passes * ratios.passes,
            foreign_share=self.foreign_share * ratios.foreign,
        )


_FEATURES = (
    "arithmetic_share", "dram_share", "launch_share", "moved_share", "chain_share", "ideal_share", "ln_launches",
    "tile_efficiency", "ln_waves", "ln_tile_rows", "ln_rows_per_expert", "ln_imbalance", "ln_active",
    "ln_rows_elsewhere", "ln_hidden", "ln_inner", "ln_tokens", "ln_rows_over_experts", "ln_gpus", "topk", "experts",
    "ln_weights_over_l2", "routing_exponent", "trtllm", "vllm", "sglang", "unknown_library", "weight_bytes",
    "products_over_fp16", "architecture",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layer:
    """Layers of experts as the busiest GPU sees them."""

    tokens: Floats
    all_rows: Floats
    """pairs of a token and one of its experts, on all GPUs"""
    experts: Floats
    hidden: Floats
    """size of a token"""
    inner: Floats
    """size inside an expert, the part of one GPU"""
    busiest: BusiestGPU

    @property
    def flops(self) -> Floats:
        """Floating-point operations; a multiply-add counts 2."""
        return 2 * self.busiest.rows * _MATRICES * self.inner * self.hidden

    def weight_bytes(self, dtype: NumberFormat) -> Floats:
        """Bytes of the weights of experts that have rows."""
        return self.busiest.active * _MATRICES * self.inner * self.hidden * dtype.weight_bytes

    def chosen(self, some: npt.NDArray[np.intp]) -> "Layer":
        """Return some of the layers."""
        own = (self.tokens, self.all_rows, self.experts, self.hidden, self.inner)
        tokens, all_rows, experts, hidden, inner = (each[some] for each in own)
        return Layer(tokens, all_rows, experts, hidden, inner, self.busiest.chosen(some))


def layer_of(batch: OperatorBatch) -> Layer:
    """Return the layers that operators ask for."""
    tokens, topk, experts = batch.size("T"), batch.size("topk"), batch.size("E")
    routing = Routing(tokens, topk, experts, batch.size("ep"), batch.size("routing") * PERCENT)
    inner = np.ceil(batch.size("F") / batch.size("tp"))
    return Layer(tokens, tokens * np.minimum(topk, experts), experts, batch.size("H"), inner, routing.busiest())


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of a GPU for one library's kernels in one number format."""

    sms: float
    clock_hz: float
    products_per_s: float
    """sustained multiply-adds per SM and second"""
    dram_bytes_per_s: float
    l2_bytes: float
    l2_bytes_per_s: float
    """operand bytes per SM and second, all SMs drawing"""
    most_l2_bytes_per_s: float
    """the same where the others are idle"""


def machine_of(gpu: GPU, dtype: NumberFormat, constants: Constants) -> Machine:
    """Return the rates of a GPU; raises MissingEvidenceError where a fact is unknown."""
    rate = gpu.l2_rate
    l2_bytes_per_s = known_fact(None if rate is None else rate.bytes_per_s, "L2 bandwidth", gpu)
    multicast = 1.0 if gpu.architecture.tensor_group_fp16_lanes_per_sm is None else constants.bulk_operands
    share = constants.tensor_share
    if dtype.nbytes < _HALF:
        share *= constants.quantised_share
    if dtype.weight_bytes < dtype.nbytes:
        share *= constants.unpacking_share
    return Machine(
        sms=float(gpu.sm_count),
        clock_hz=gpu.clock_hz,
        products_per_s=products_per_clock(gpu, dtype) * share * sustained_clock_hz(gpu, constants.clock_share),
        dram_bytes_per_s=gpu.dram_bytes_per_s * constants.dram_share,
        l2_bytes=known_fact(gpu.l2_bytes, "l2_kib", gpu),
        l2_bytes_per_s=constants.l2_share * multicast * l2_bytes_per_s / gpu.sm_count,
        most_l2_bytes_per_s=constants.most_l2_bytes_per_clock * gpu.clock_hz,
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """What each part of some layers takes, in seconds, and what the tile makes of them."""

    seconds: Floats
    launch: Floats
    moved: Floats
    """passes over activations"""
    busy: Floats
    """products or operands, and stores"""
    chain: Floats
    """latency of steps, one after the other"""
    weights: Floats
    """weights from DRAM"""
    arithmetic: Floats
    l2: Floats
    dram: Floats
    tiles: Floats
    """tiles per SM, of both products"""
    tile_rows: Floats
    tile_efficiency: Floats

    def chosen(self, some: npt.NDArray[np.intp]) -> "Parts":
        """Return the parts of some of the layers, in this order."""
        return Parts(*(getattr(self, name)[some] for name in Parts.__slots__))


@dataclass(frozen=True)
class Experts:
    """Layers of gated experts in 16 bits, 8 bits, and with weights of 4 bits."""

    constants: Constants = field(default_factory=Constants.read)
    name = "operators-experts"
    timing = Timing.SERIES
    features = _FEATURES

    def work(self, batch: OperatorBatch, gpu: GPU, timing: Timing) -> OperatorWork:
        """Return the physical forecast of layers; raises MissingEvidenceError where a fact is unknown."""
        layer = layer_of(batch)
        places, found = [], []
        for constants, chosen in self._by_library(batch):
            task = _Task(constants, machine_of(gpu, batch.dtype, constants), batch.dtype, timing)
            places.append(chosen)
            found.append(task.parts(layer.chosen(chosen)))
        parts = joined(found).chosen(np.argsort(np.concatenate(places)))
        return OperatorWork(
            parts.seconds,
            (
                Resource("tensor", parts.arithmetic), Resource("l2", parts.l2), Resource("dram", parts.dram),
                Resource("launch", parts.launch),
            ),
            _features(layer, parts, batch, gpu),
            layer.flops / peak_flops_per_s(gpu, batch.dtype),
        )  # fmt: skip

    def _by_library(self, batch: OperatorBatch) -> Iterator[tuple[Constants, npt.NDArray[np.intp]]]:
        """Yield constants and the layers that they hold for, a few at a time."""
        own = np.zeros(len(batch), np.bool_)
        groups: list[tuple[Constants, npt.NDArray[np.bool_]]] = []
        for library in LIBRARIES:
            is_of = batch.libraries == library
            own |= is_of
            groups.append((self.constants.of(library), is_of))
        for constants, is_of in (*groups, (self.constants, ~own)):
            places = np.flatnonzero(is_of)
            for first in range(0, len(places), _AT_ONCE):
                yield constants, places[first : first + _AT_ONCE]


@dataclass(frozen=True)
class _Task:
    """Layers of one library in one format on one GPU."""

    constants: Constants
    machine: Machine
    dtype: NumberFormat
    timing: Timing

    def parts(self, layer: Layer) -> Parts:
        """Return what layers take."""
        machine, p = self.machine, self.constants.sharpness
        best = self._best_tile(layer)
        weights = layer.weight_bytes(self.dtype)
        missed = np.clip((weights / machine.l2_bytes - _KEPT) / (_LOST - _KEPT), _LEAST_MISSED, 1.0)
        if self.timing is Timing.COLD:
            missed = np.ones(len(weights))
        dram = weights * missed / machine.dram_bytes_per_s
        moved_dram, moved_l2 = self._moved(layer)
        moved, launch = moved_dram + moved_l2, self._launch(layer)
        body = (best.busy**p + best.chain**p + dram**p) ** (1 / p)
        return Parts(
            launch + moved + body, launch, moved, best.busy, best.chain, dram, best.arithmetic,
            best.operands + moved_l2, dram + moved_dram, best.tiles / machine.sms, best.tile_rows,
            layer.busiest.rows / best.padded_rows,
        )  # fmt: skip

    def _launch(self, layer: Layer) -> Floats:
        """Return what the small kernels take. Another timing exchanges the launch of the first of them."""
        constants = self.constants
        added = launch_overhead_s(self.timing) - launch_overhead_s(Timing.SERIES)
        is_spread = -np.expm1(-layer.all_rows / (_SORTED_ROWS * layer.experts))
        cycles = constants.launch_cycles + constants.sort_cycles * is_spread
        launch: Floats = constants.launch_s + max(added, 0.0) + cycles / self.machine.clock_hz
        return launch

    def _moved(self, layer: Layer) -> tuple[Floats, Floats]:
        """Return what passes over activations take in DRAM and in L2."""
        machine, constants = self.machine, self.constants
        foreign = np.maximum(layer.all_rows - layer.busiest.rows, 0.0)
        rows = layer.busiest.rows + constants.foreign_share * foreign
        nbytes = _HALF * rows * (2 * layer.hidden + _MATRICES * layer.inner) * constants.activation_passes
        missed = np.clip((nbytes / machine.l2_bytes - _MOVED_KEPT) / (_MOVED_LOST - _MOVED_KEPT), 0.0, 1.0)
        return nbytes * missed / machine.dram_bytes_per_s, nbytes / (machine.sms * machine.l2_bytes_per_s)

    def _best_tile(self, layer: Layer) -> "_Tiling":
        """Return the tiling whose products end first."""
        best, p = None, self.constants.sharpness
        least = np.full(len(layer.tokens), np.inf)
        for place, rows in enumerate(TILE_ROWS):
            for columns in _TILE_COLUMNS:
                if rows * columns > _LARGEST_TILE:
                    continue
                found = self._tiling(layer, place, columns)
                score = (found.busy**p + found.chain**p) ** (1 / p)
                best = found if best is None else where_better(score < least, found, best)
                least = np.minimum(least, score)
        assert best is not None
        return best

    def _tiling(self, layer: Layer, place: int, columns: int) -> "_Tiling":
        """Return what both products take with one tile: up and gate [H, 2 F], then down [F, H]."""
        constants, machine, rows = self.constants, self.machine, TILE_ROWS[place]
        row_tiles = layer.busiest.tiles[:, place]
        resident = min(max(_LARGEST_TILE // (rows * columns), 1), _MOST_RESIDENT)
        nbytes = rows * self.dtype.nbytes + columns * self.dtype.weight_bytes
        store = _HALF * rows * columns / (machine.sms * machine.l2_bytes_per_s * constants.store_share)
        both = []
        for width, depth in ((_UP * layer.inner, layer.hidden), (layer.hidden, layer.inner)):
            tiles = row_tiles * np.ceil(width / columns)
            waves = np.ceil(tiles / machine.sms)
            # All SMs share L2, and one alone draws no more than its port lets through.
            together = tiles / (machine.sms * machine.l2_bytes_per_s)
            operands = nbytes * depth * np.maximum(together, waves / machine.most_l2_bytes_per_s)
            products = waves * rows * columns * depth / machine.products_per_s
            cycles = depth / _STEP * constants.step_cycles + constants.tile_cycles
            chain = np.ceil(tiles / (machine.sms * resident)) * cycles / machine.clock_hz
            stores = tiles * store
            both.append((np.maximum(products, operands) + stores, chain, products, operands + stores, tiles))
        busy, chain, arithmetic, moved, tiles = (up + down for up, down in zip(*both, strict=True))
        one = np.ones(len(row_tiles))
        return _Tiling(busy, chain, arithmetic, moved, tiles, rows * one, rows * row_tiles)


@dataclass(frozen=True, slots=True)
class _Tiling:
    """What products take with a tile each, in seconds."""

    busy: Floats
    chain: Floats
    arithmetic: Floats
    operands: Floats
    """with stores"""
    tiles: Floats
    tile_rows: Floats
    padded_rows: Floats


def _features(layer: Layer, parts: Parts, batch: OperatorBatch, gpu: GPU) -> Floats:
    """Return the features of the residual: ratios, and what the library may choose by."""
    dtype, seconds, busiest = batch.dtype, parts.seconds, layer.busiest
    peak = 2 * products_per_clock(gpu, dtype) * gpu.sm_count * gpu.clock_hz
    l2_bytes = known_fact(gpu.l2_bytes, "l2_kib", gpu)
    mean_rows, one = busiest.rows / busiest.active, np.ones(len(seconds))
    columns = (
        parts.busy / seconds, parts.weights / seconds, parts.launch / seconds, parts.moved / seconds,
        parts.chain / seconds, layer.flops / peak / seconds, log_of(seconds / parts.launch), parts.tile_efficiency,
        log_of(parts.tiles), log_of(parts.tile_rows), log_of(mean_rows), log_of(busiest.largest / mean_rows),
        log_of(busiest.active), log_of(layer.all_rows / busiest.rows), log_of(layer.hidden), log_of(layer.inner),
        log_of(layer.tokens), log_of(layer.all_rows / layer.experts), log_of(batch.size("ep")), batch.size("topk"),
        layer.experts, log_of(layer.weight_bytes(dtype) / l2_bytes), batch.size("routing") * PERCENT,
        *library_features(batch.libraries), dtype.weight_bytes * one, _HALF / dtype.nbytes * one,
        float(gpu.architecture.number) * one,
    )  # fmt: skip
    return np.column_stack(columns)
