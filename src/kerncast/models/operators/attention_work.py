"""What prefill and decode share: the sizes of attention, who calls it, its times resource by resource, and features.

Attention of B sequences, H query heads and KV heads of keys and values of size D reads Q, K, V and writes O. Its time
is a floor (the node of a CUDA graph with small kernels: a chain of latencies, so cycles of an SM), kernels in series
before or after, and a body in which arithmetic, memory and the starts of blocks overlap: (a^p + b^p + c^p)^(1/p).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, launch_overhead_s
from kerncast.models.operators.operator_work import (
    Floats,
    OperatorBatch,
    OperatorWork,
    Resource,
    library_features,
    peak_flops_per_s,
)
from kerncast.operators import LIBRARIES
from kerncast.prediction import Timing

Mask = npt.NDArray[np.bool_]

_FAMILIES = ("torch_flow", "flash_attention", "flashinfer", "triton")
#: A logarithm of a ratio goes no lower.
_LEAST_RATIO = 1e-3
#: From so many waves on the part of the last one says nothing.
_MOST_WAVES = 32
#: Of O, which no library writes in FP8.
OUTPUT_BYTES = 2

FEATURES = (
    "body_over_floor", "chain_over_floor", "compute", "memory", "blocks", "waves", "wave_tail", "rows_per_sm", "fit",
    "softmax", "split", "tile_efficiency", "ratio", "head_size", "windowed", "query_bytes", "cache_bytes",
    *LIBRARIES, "unknown_library", *_FAMILIES, "unknown_kernel", "architecture",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prior:
    """What was known of a constant before any fit."""

    name: str
    value: float
    log_deviation: float = 0.35
    """standard deviation of ln(constant / value) that a fit may take easily"""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a batch of attention, an array per size."""

    batch: Floats
    tokens: Floats
    """queries of each sequence; of decode, cached keys"""
    heads: Floats
    kv_heads: Floats
    head_size: Floats
    window: Floats
    """keys that a query attends to at most; 0: all"""
    query_bytes: float
    cache_bytes: float

    @property
    def rows(self) -> Floats:
        """Query heads of all sequences."""
        return self.batch * self.heads

    @property
    def kv_rows(self) -> Floats:
        """Heads of keys and values of all sequences."""
        return self.batch * self.kv_heads

    @property
    def ratio(self) -> Floats:
        """Query heads that share a head of keys and values."""
        return self.heads / self.kv_heads


def shape_of(batch: OperatorBatch) -> Shape:
    """Return the sizes; an encoder has as many KV heads as query heads, and no window."""
    has_all = "KV" in batch.kind.dimensions
    heads, none = batch.size("H"), np.zeros(len(batch))
    kv_heads, window = (batch.size("KV"), batch.size("W")) if has_all else (none, none)
    cache = batch.cache_dtype if has_all else batch.dtype
    return Shape(
        batch.size("B"), batch.size("S"), heads, np.where(kv_heads > 0, kv_heads, heads), batch.size("D"), window,
        batch.dtype.nbytes, cache.nbytes,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Callers:
    """The library that calls each operator, and the family of its kernel: one-hot codes, unknown last."""

    libraries: Floats
    """[operators, libraries and one]"""
    families: Floats
    """[operators, families and one]"""

    def calls(self, library: str) -> Mask:
        """Return which operators this library calls."""
        found: Mask = self.libraries[:, LIBRARIES.index(library)] > 0
        return found

    def runs(self, library: str, family: str) -> Mask:
        """Return which operators this library calls with a kernel of this family."""
        return self.calls(library) & self.is_family(family)

    def is_family(self, family: str) -> Mask:
        """Return which operators run a kernel of this family."""
        found: Mask = self.families[:, _FAMILIES.index(family)] > 0
        return found

    @property
    def typical(self) -> Mask:
        """Operators of which library or kernel is unknown: those of a typical library. TensorRT-LLM has one kernel."""
        unknown: Mask = (self.libraries[:, -1] > 0) | (self.families[:, -1] > 0)
        return unknown & ~self.calls("trtllm")


def callers_of(batch: OperatorBatch) -> Callers:
    """Return who calls each operator."""
    kernels = np.char.lower(batch.kernels)
    # "flashinfer" starts like FlashAttention, of which data sets name many versions: fa3, vllm_flash_attn_fa2, …
    triton, flashinfer = _has(kernels, "triton"), _has(kernels, "flashinfer")
    flash = np.logical_or.reduce([_has(kernels, name) for name in ("flash_att", "fa2", "fa3", "fa4")])
    families = np.column_stack(
        [_has(kernels, "torch_flow"), flash & ~flashinfer & ~triton, flashinfer & ~triton, triton]
    )
    codes = np.column_stack([families, ~families.any(axis=1)]).astype(np.float64)
    return Callers(np.column_stack(library_features(batch.libraries)), codes)


def _has(texts: npt.NDArray[np.str_], part: str) -> Mask:
    found: Mask = np.char.find(texts, part) >= 0
    return found


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that pass the caches: what DRAM and L2 each need for their part, one after the other."""

    dram_s: Floats
    l2_s: Floats

    @property
    def seconds(self) -> Floats:
        """Both parts."""
        return self.dram_s + self.l2_s


@dataclass(frozen=True, slots=True)
class Terms:
    """The times of a batch, and what else the residual looks at."""

    floor_s: Floats
    chain: Traffic
    """kernels before, in series, by what they read and write"""
    combine_s: Floats
    """kernel after, in series"""
    tensor_s: Floats
    fp32_s: Floats
    """products by CUDA cores, in place of tensor cores"""
    compute_s: Floats
    """arithmetic: either of both, and what an SM alone waits"""
    memory: Traffic
    tiles_s: Floats
    """tiles of K and V that blocks read from L2"""
    start_s: Floats
    """starts of blocks"""
    softmax_share: Floats
    """part of the arithmetic"""
    blocks: Floats
    split: Floats
    """blocks that share the keys of a head"""
    tile_efficiency: Floats
    """needed part of what whole tiles compute"""
    fit: Floats
    """bytes over the size of L2"""

    @property
    def series_s(self) -> Floats:
        """Kernels in series with the main one."""
        return self.chain.seconds + self.combine_s

    def body_s(self, power: float) -> Floats:
        """Return the time of the main kernel: a soft maximum, the nearer to the largest the higher its power."""
        return soft_maximum(power, self.compute_s, self.memory.seconds, self.tiles_s + self.start_s)


def soft_maximum(power: float, *seconds: Floats) -> Floats:
    """Return what takes several resources that overlap nearly: at least the longest, at most their sum.

    >>> soft_maximum(3.0, np.array([3.0]), np.array([4.0]), np.array([5.0])).round(9).tolist()  # 27 + 64 + 125 = 6^3
    [6.0]
    """
    found: Floats = np.sum([each**power for each in seconds], axis=0) ** (1 / power)
    return found


def padded(head_size: Floats) -> Floats:
    """Return the size of a head that kernels compute with: steps of 32, above 128 of 64.

    >>> padded(np.array([80.0, 128.0, 136.0])).tolist()
    [96.0, 128.0, 192.0]
    """
    return np.where(head_size <= 128, np.ceil(head_size / 32) * 32, np.ceil(head_size / 64) * 64)


def softmax_cycles(gpu: GPU, fp32_operations: float) -> float:
    """Return cycles of an SM per query and key for an exponential, and the operations around it."""
    architecture = gpu.architecture
    return 1 / architecture.special_lanes_per_sm + fp32_operations / architecture.fp32_lanes_per_sm


def l2_bytes_of(gpu: GPU) -> int:
    """Return the size of L2; raises MissingEvidenceError where it is unknown."""
    if gpu.l2_bytes is None:
        raise MissingEvidenceError(f"how large L2 of {gpu.name} is is not known", cure="Add it to a file of this GPU.")
    return gpu.l2_bytes


def work_of(batch: OperatorBatch, gpu: GPU, timing: Timing, power: float, terms: Terms) -> OperatorWork:
    """Return the forecast of a batch from its terms.

    The floor was fitted with what a launch adds in a series of launches; another timing exchanges that part of it.
    """
    launch_s = terms.floor_s
    if timing is not Timing.SERIES:
        own_s = launch_overhead_s(Timing.SERIES)
        launch_s = np.maximum(launch_s - own_s, 0.0) + launch_overhead_s(timing)
    resources = (
        Resource("tensor", terms.tensor_s),
        Resource("fp32", terms.fp32_s),
        Resource("dram", terms.chain.dram_s + terms.memory.dram_s),
        Resource("l2", terms.chain.l2_s + terms.memory.l2_s + terms.tiles_s),
        Resource("launch", launch_s),
    )
    seconds = launch_s + terms.series_s + terms.body_s(power)
    return OperatorWork(seconds, resources, _features(batch, gpu, power, terms), least_s(batch, gpu, timing))


def least_s(batch: OperatorBatch, gpu: GPU, timing: Timing) -> Floats:
    """Return what products take at the tensor cores' peak, and what a cold cache of keys and values takes from DRAM.

    Of 1,024 causal tokens in 32 heads of 128 the products are 4 x 128 x 32 x 1024 x 1025 / 2 operations: on an H100
    SXM, at 1,070 TFLOP/s, 8 us.

    >>> from kerncast.gpu import load_gpu
    >>> from kerncast.models.operators.operator_work import batches_of, products_per_clock
    >>> from kerncast.operators import LIBRARIES, parse_operator
    >>> [(batch, _)] = batches_of([parse_operator("prefill(B=1,S=1024,H=32,D=128)")])
    >>> (least_s(batch, load_gpu("h100-sxm"), Timing.SERIES) * 1e6).round(2).tolist()
    [8.03]
    """
    shape = shape_of(batch)
    keys = np.where(shape.window > 0, np.minimum(shape.window, shape.tokens), shape.tokens)
    is_decode = batch.kind.name == "generation_attention"
    if is_decode:
        pairs = keys
    elif batch.kind.name == "encoder_attention":
        pairs = shape.tokens**2
    else:  # the first keys have fewer before them
        pairs = shape.tokens * keys - keys * (keys - 1) / 2
    arithmetic: Floats = 4 * shape.rows * shape.head_size * pairs / peak_flops_per_s(gpu, batch.dtype)
    if timing is not Timing.COLD or not is_decode:
        return arithmetic
    cache_bytes = 2 * shape.kv_rows * keys * shape.head_size * shape.cache_bytes
    return np.maximum(arithmetic, cache_bytes / gpu.dram_bytes_per_s)


def _features(batch: OperatorBatch, gpu: GPU, power: float, terms: Terms) -> Floats:
    shape, callers, body_s = shape_of(batch), callers_of(batch), terms.body_s(power)
    waves = terms.blocks / gpu.sm_count
    tail = np.where(waves < _MOST_WAVES, waves / np.ceil(waves), 1.0)
    kv_or_all = shape.kv_rows if batch.kind.name == "generation_attention" else shape.rows
    constant = np.ones(len(batch))
    columns = (
        _ln(body_s / terms.floor_s), _ln(terms.series_s / terms.floor_s), _ln(terms.compute_s / body_s),
        _ln(terms.memory.seconds / body_s), _ln((terms.tiles_s + terms.start_s) / body_s), _ln(waves), tail,
        _ln(kv_or_all / gpu.sm_count), _ln(terms.fit), terms.softmax_share, _ln(terms.split), terms.tile_efficiency,
        _ln(shape.ratio), _ln(shape.head_size), (shape.window > 0) * 1.0, shape.query_bytes * constant,
        shape.cache_bytes * constant,
    )  # fmt: skip
    number = gpu.architecture.number * constant
    return np.column_stack([*columns, callers.libraries, callers.families, number])


def _ln(ratio: Floats) -> Floats:
    found: Floats = np.log(np.maximum(ratio, _LEAST_RATIO))
    return found
