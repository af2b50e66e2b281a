"""Attention in deep-learning libraries: many queries of each sequence (prefill), or one to cached keys (decode).

    time = floor + kernels before or after + (compute^p + memory^p + blocks^p)^(1/p)

Prefill computes whole tiles of queries and keys, on tensor cores, with a softmax that products hide in part; the
longest tile lengthens the last wave. Decode reads all cached keys and values, from L2 where repeated calls find them
again; libraries split a sequence over blocks, and combine the parts by a second kernel. Floors and starts of blocks
are cycles of an SM: those were the same on GPUs of three generations.

Source: this project's study of aiconfigurator's attention on three GPUs (docs/operators.md); tiles and softmax as in
FlashAttention 2 and 3 (Dao 2023; Shah et al. 2024), splits as in Flash-Decoding (Dao et al. 2023).
Fails where a library does not split one long sequence, with windows in kernels that do not skip keys, and where a
generation brings other kernels: in the study, a GPU that was left out erred by 27 to 29 % on average.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from kerncast.gpu import GPU
from kerncast.models.operators.attention_work import (
    FEATURES,
    OUTPUT_BYTES,
    Callers,
    Mask,
    Prior,
    Shape,
    Terms,
    Traffic,
    callers_of,
    l2_bytes_of,
    padded,
    shape_of,
    soft_maximum,
    softmax_cycles,
    work_of,
)
from kerncast.models.operators.constants import read_constants
from kerncast.models.operators.operator_work import Floats, OperatorBatch, OperatorWork, products_per_clock
from kerncast.prediction import Timing

#: A ratio of one library to the typical one is known less well than a constant of all.
_OF_LIBRARY = 0.3
# Shares of FlashAttention are the published ones as the study recalled them; they were not looked up again.
PREFILL_PRIORS = (
    Prior("floor_cycles", 17_000),
    Prior("fp8_cache_cycles", 5_000),
    Prior("fp8_query_cycles", 1_500),
    Prior("block_cycles", 800),
    Prior("head_tile_cycles", 600),
    Prior("window_block_cycles", 6_000),
    Prior("passes_before", 2),
    Prior("warp_product_share", 0.85),  # FlashAttention 2 on A100: 0.65 with its softmax
    Prior("group_product_share", 0.75),  # FlashAttention 3 at head size 128, no mask
    Prior("fp8_warp_share", 0.8),
    Prior("fp8_group_share", 0.8),  # FlashAttention 3: 1.2 of 1.98 PFLOP/s, as it transposes V
    Prior("warp_softmax_share", 1),
    Prior("group_softmax_share", 0.3),  # groups of warps that take turns hide most
    Prior("last_tile_share", 0.7),
    Prior("lone_tile_share", 0.5),
    Prior("dram_share", 0.85, 0.05),  # known from streaming benchmarks
    Prior("fp8_cache_compute_ratio", 1),
    Prior("head_192_ratio", 1.15),
    Prior("vllm_flash_block_ratio", 1, _OF_LIBRARY),
    Prior("sglang_flash_passes_ratio", 1, _OF_LIBRARY),
    Prior("sglang_flash_head_tile_ratio", 1, _OF_LIBRARY),
    Prior("sglang_flashinfer_floor_ratio", 1, _OF_LIBRARY),
    Prior("trtllm_warp_product_ratio", 1, _OF_LIBRARY),
    Prior("trtllm_fp8_warp_ratio", 1, _OF_LIBRARY),
    Prior("sglang_flash_warp_product_ratio", 1, _OF_LIBRARY),
    Prior("sglang_triton_group_product_ratio", 1, _OF_LIBRARY),
)
DECODE_PRIORS = (
    Prior("floor_cycles", 16_000),
    Prior("fp8_cache_cycles", 5_000),
    Prior("block_cycles", 6_000),  # about ten latencies of memory, one after the other
    Prior("head_cycles", 1_000),
    Prior("cuda_core_block_cycles", 2_600),
    Prior("combine_cycles", 6_000),
    Prior("dram_share", 0.85 * 0.95, 0.05),
    Prior("l2_bytes_per_clock_per_sm", 8),  # outstanding loads over latency
    Prior("l2_kept_share", 0.8),
    Prior("lone_sm_bytes_per_clock", 30),
    Prior("query_tile", 32),
    Prior("fp8_cache_memory_share", 0.85),
    Prior("head_size_exponent", 0.7),
    Prior("trtllm_l2_ratio", 1, _OF_LIBRARY),
    Prior("trtllm_floor_ratio", 1, _OF_LIBRARY),
    Prior("sglang_flashinfer_floor_ratio", 1, _OF_LIBRARY),
    Prior("sglang_triton_floor_ratio", 1, _OF_LIBRARY),
    Prior("sglang_flash_head_ratio", 1, _OF_LIBRARY),
)
#: Constants that a fit moves.
PREFILL_FITTED: tuple[str, ...] = tuple(each.name for each in PREFILL_PRIORS)
DECODE_FITTED: tuple[str, ...] = tuple(each.name for each in DECODE_PRIORS)


@dataclass(frozen=True, slots=True)
class ArchitectureConstants:
    """What prefill assumes of one compute capability."""

    number: int
    """compute capability as the compiler writes it, 90 for 9.0"""
    l2_bytes_per_clock_per_sm: float
    """bandwidth of L2 where all SMs draw at once, where neither GPU nor architecture says more"""
    least_clock_share: float
    """lowest clock under tensor load, over the boost clock"""


@dataclass(frozen=True, slots=True)
class _FromFile:
    """Constants of attention that a data file gives."""

    file: ClassVar[str]
    priors: ClassVar[tuple[Prior, ...]]

    @classmethod
    def read(cls) -> Self:
        """Return the constants of the data file."""
        kind: Any = cls
        found: Self = read_constants(kind, cls.file)
        return found

    @classmethod
    def prior(cls) -> Self:
        """Return the constants before any fit: where a fit that must not have seen a GPU begins."""
        values: Any = {each.name: each.value for each in cls.priors}
        return replace(cls.read(), **values)


@dataclass(frozen=True, slots=True)
class PrefillConstants(_FromFile):
    """The constants of prefill; those of the typical library, and ratios of single ones to it."""

    floor_cycles: float
    """node of a CUDA graph with its small kernels: a chain of latencies"""
    fp8_cache_cycles: float
    """kernel that scales and converts new keys and values to FP8"""
    fp8_query_cycles: float
    """the same for queries"""
    block_cycles: float
    """an SM's part of the start and the end of a block"""
    head_tile_cycles: float
    """the same for a full tile of one query head, where heads are packed"""
    window_block_cycles: float
    """more of it with a window: loops of two or three steps hide no prologue"""
    passes_before: float
    """times that Q, K and V cross memory in the kernels before: split, rotary embedding, append"""
    warp_product_share: float
    """products alone by warp-level instructions, over the peak at the clock under load"""
    group_product_share: float
    """the same by instructions of groups of warps"""
    fp8_warp_share: float
    """FP8 by warp-level instructions: share of twice the rate in 16 bits"""
    fp8_group_share: float
    """the same by instructions of groups of warps"""
    warp_softmax_share: float
    """part of the softmax that products by warp-level instructions do not hide"""
    group_softmax_share: float
    """the same by instructions of groups of warps"""
    last_tile_share: float
    """part of the longest tile that lengthens the last wave"""
    lone_tile_share: float
    """the same where most SMs have no block"""
    dram_share: float
    """sustained over peak DRAM bandwidth"""
    fp8_cache_compute_ratio: float
    """arithmetic in 16 bits with keys and values in FP8, over that without"""
    head_192_ratio: float
    """products of heads of size 192, over what their size says"""
    vllm_flash_block_ratio: float
    """block_cycles of vLLM's FlashAttention, over that of the typical library; likewise below"""
    sglang_flash_passes_ratio: float
    """passes_before of SGLang's FlashAttention"""
    sglang_flash_head_tile_ratio: float
    """head_tile_cycles of SGLang's FlashAttention"""
    sglang_flashinfer_floor_ratio: float
    """floor_cycles of SGLang's FlashInfer"""
    trtllm_warp_product_ratio: float
    """warp_product_share of TensorRT-LLM"""
    trtllm_fp8_warp_ratio: float
    """fp8_warp_share of TensorRT-LLM"""
    sglang_flash_warp_product_ratio: float
    """warp_product_share of SGLang's FlashAttention"""
    sglang_triton_group_product_ratio: float
    """group_product_share of SGLang's Triton"""
    dram_share_before: float
    """sustained over peak DRAM bandwidth, of the kernels before"""
    query_tile: float
    """queries that a block keeps"""
    key_tile: float
    """keys that a step takes"""
    instruction_rows: float
    """queries of one tensor instruction: shorter tiles use no fewer"""
    fp32_operations_per_pair: float
    """scale, running maximum, subtraction, sum and conversion of one query and key"""
    sharpness: float
    """p of the norm that joins what overlaps"""
    least_clock_share: float
    """lowest clock under tensor load, over the boost clock"""
    usual_clock_share: float
    """the same where the base clock is unknown"""
    usual_l2_bytes_per_clock_per_sm: float
    """bandwidth of L2 for architectures that are not listed"""
    architectures: tuple[ArchitectureConstants, ...]
    """what is known of single compute capabilities"""

    file = "prefill"
    priors = PREFILL_PRIORS


@dataclass(frozen=True, slots=True)
class DecodeConstants(_FromFile):
    """The constants of decode; those of the typical library, and ratios of single ones to it."""

    floor_cycles: float
    """node of a CUDA graph with its small kernels: a chain of latencies"""
    fp8_cache_cycles: float
    """kernel that scales and converts new keys and values to FP8"""
    block_cycles: float
    """an SM's part of the start of a block of one KV head, of head size up to 128"""
    head_cycles: float
    """the same for each query head"""
    cuda_core_block_cycles: float
    """the same for a block of one query head in TensorRT-LLM's kernel for CUDA cores"""
    combine_cycles: float
    """second kernel that adds up the parts of split sequences"""
    dram_share: float
    """sustained over peak DRAM bandwidth"""
    l2_bytes_per_clock_per_sm: float
    """keys and values that each SM draws from L2"""
    l2_kept_share: float
    """part of L2 of which repeated calls find all again"""
    lone_sm_bytes_per_clock: float
    """bytes that one SM alone draws"""
    query_tile: float
    """query heads of one KV head that a tile holds"""
    fp8_cache_memory_share: float
    """bandwidth left where a kernel converts keys and values from FP8"""
    head_size_exponent: float
    """by how much the start of a block grows with heads above 128"""
    trtllm_l2_ratio: float
    """l2_bytes_per_clock_per_sm of TensorRT-LLM, over that of the typical library; likewise below"""
    trtllm_floor_ratio: float
    """floor_cycles of TensorRT-LLM"""
    sglang_flashinfer_floor_ratio: float
    """floor_cycles of SGLang's FlashInfer"""
    sglang_triton_floor_ratio: float
    """floor_cycles of SGLang's Triton"""
    sglang_flash_head_ratio: float
    """head_cycles of SGLang's FlashAttention"""
    key_tile: float
    """keys that a step takes"""
    split_keys: float
    """keys from which a sequence is split over blocks"""
    split_blocks_per_sm: float
    """blocks up to which it is split"""
    most_shared_heads: float
    """query heads of one KV head up to which TensorRT-LLM packs them, from two on"""
    warp_products_per_clock: float
    """most products per SM and clock by warp-level instructions"""
    warp_product_share: float
    """part of them that few warps without overlap reach"""
    cuda_core_operations: float
    """FP32 instructions for each query head, key and element by CUDA cores"""
    cuda_core_share: float
    """part of the FP32 lanes that they keep busy"""
    cuda_core_head_exponent: float
    """by how much the start of a block for CUDA cores grows with the head"""
    fp32_operations_per_pair: float
    """scale, running maximum, subtraction, sum and conversion of one query and key"""
    sharpness: float
    """p of the norm that joins what overlaps"""

    file = "decode"
    priors = DECODE_PRIORS


@dataclass(frozen=True)
class Prefill:
    """Attention of many queries of each sequence: causal with or without a window, or of an encoder without a mask.

    cycles of a query and key = 2 padded(D) / products per clock + what is left of 1 exponential and 4 operations
    """

    constants: PrefillConstants = field(default_factory=PrefillConstants.read)
    name = "operators-prefill"
    timing = Timing.SERIES
    features = FEATURES

    def work(self, batch: OperatorBatch, gpu: GPU, timing: Timing) -> OperatorWork:
        """Return the physical forecast of prefill; raises MissingEvidenceError where a fact is unknown."""
        task = _PrefillTask(self.constants, batch, gpu, timing)
        return work_of(batch, gpu, timing, self.constants.sharpness, task.terms())


@dataclass(frozen=True, slots=True)
class _Tiles:
    """The tiles of one head's queries and keys."""

    number: Floats
    pairs: Floats
    """queries and keys in whole tiles"""
    needed: Floats
    """queries and keys that count"""
    longest: Floats
    """pairs of the tile that takes longest"""


class _PrefillTask:
    """Prefill in one format on one GPU."""

    def __init__(self, constants: PrefillConstants, batch: OperatorBatch, gpu: GPU, timing: Timing) -> None:
        self.constants, self.batch, self.gpu, self.timing = constants, batch, gpu, timing
        self.shape, self.callers = shape_of(batch), callers_of(batch)
        self.is_encoder = batch.kind.name == "encoder_attention"
        self.l2_bytes = l2_bytes_of(gpu)
        self.has_groups = gpu.architecture.tensor_group_fp16_lanes_per_sm is not None
        self.sm_clocks = gpu.sm_count * gpu.clock_hz

    def terms(self) -> Terms:
        """Return what prefill takes, part by part."""
        constants, shape, none = self.constants, self.shape, np.zeros(len(self.batch))
        tiles, (cycles, softmax_share) = self.tiles(), self.pair_cycles()
        heads_packed = self.heads_packed()
        blocks = shape.rows * tiles.number / heads_packed
        compute_s = self.compute_s(tiles, cycles, blocks, heads_packed)
        queries = shape.rows * shape.tokens * shape.head_size
        keys = shape.kv_rows * shape.tokens * shape.head_size
        own = queries * (shape.query_bytes + OUTPUT_BYTES) + 2 * keys * (OUTPUT_BYTES + shape.cache_bytes)
        before = (2 * queries + keys * (OUTPUT_BYTES + shape.cache_bytes)) * self.passes()
        fit, is_cold = own / self.l2_bytes, self.timing is Timing.COLD
        # Of a cold decoder the kernels before find nothing in L2, and leave there what attention reads.
        chain = self.traffic(before, fit, constants.dram_share_before, is_cold=is_cold)
        # The fit took the time of L2, too, over the share of DRAM that it moved.
        moved = constants.dram_share_before / constants.dram_share
        memory = self.traffic(own, fit, constants.dram_share_before, is_cold=is_cold and self.is_encoder)
        tile_bytes = shape.rows * tiles.pairs / constants.query_tile * shape.head_size * 2 * shape.cache_bytes
        return Terms(
            floor_s=self.floor_cycles() / self.gpu.clock_hz,
            chain=Traffic(none, none) if self.is_encoder else chain,
            combine_s=none,
            tensor_s=compute_s,
            fp32_s=none,
            compute_s=compute_s,
            memory=Traffic(memory.dram_s * moved, memory.l2_s * moved),
            tiles_s=tile_bytes / self.l2_bytes_per_s(),
            start_s=self.start_cycles(blocks) / self.sm_clocks,
            softmax_share=softmax_share,
            blocks=blocks,
            split=none + 1,
            tile_efficiency=tiles.needed / tiles.pairs,
            fit=fit,
        )

    def floor_cycles(self) -> Floats:
        """Return cycles of the kernels' chain of latencies."""
        constants, shape = self.constants, self.shape
        slower = _ratio(self.callers.runs("sglang", "flashinfer"), constants.sglang_flashinfer_floor_ratio)
        cache = constants.fp8_cache_cycles if shape.cache_bytes == 1 else 0.0
        query = constants.fp8_query_cycles if shape.query_bytes == 1 else 0.0
        return constants.floor_cycles * slower + cache + query

    def passes(self) -> Floats:
        """Return how often the kernels before move Q, K and V."""
        constants = self.constants
        flash = self.callers.runs("sglang", "flash_attention")
        return constants.passes_before * _ratio(flash, constants.sglang_flash_passes_ratio)

    def traffic(self, nbytes: Floats, fit: Floats, share: float, *, is_cold: bool) -> Traffic:
        """Return what bytes take of which the kernels before have left (L2 / all)^2 in L2: used in turn, they go."""
        found = np.zeros(len(fit)) if is_cold else 1 / np.maximum(fit, 1.0) ** 2
        return Traffic(
            nbytes * (1 - found) / (share * self.gpu.dram_bytes_per_s), nbytes * found / self.l2_bytes_per_s()
        )

    def product_share(self) -> Floats:
        """Return the part of the peak that products alone reach."""
        constants, callers = self.constants, self.callers
        if self.has_groups:
            triton = callers.runs("sglang", "triton")
            return constants.group_product_share * _ratio(triton, constants.sglang_triton_group_product_ratio)
        flash = callers.runs("sglang", "flash_attention")
        return (
            constants.warp_product_share
            * _ratio(callers.calls("trtllm"), constants.trtllm_warp_product_ratio)
            * _ratio(flash, constants.sglang_flash_warp_product_ratio)
        )

    def pair_cycles(self) -> tuple[Floats, Floats]:
        """Return cycles of an SM per query and key of a head, and the part of them that is the softmax."""
        constants, shape, groups = self.constants, self.shape, self.has_groups
        rate = products_per_clock(self.gpu, self.batch.dtype) * self.product_share()
        is_fp8 = self.batch.dtype.products == "fp8"
        if is_fp8:
            trtllm = _ratio(self.callers.calls("trtllm"), constants.trtllm_fp8_warp_ratio)
            rate = rate * (constants.fp8_group_share if groups else constants.fp8_warp_share * trtllm)
        ratio = np.where(shape.head_size == 192, constants.head_192_ratio, 1.0)
        products = 2 * padded(shape.head_size) / rate * ratio
        share = constants.group_softmax_share if groups else constants.warp_softmax_share
        softmax = softmax_cycles(self.gpu, constants.fp32_operations_per_pair) * share
        convert = constants.fp8_cache_compute_ratio if shape.cache_bytes == 1 and not is_fp8 else 1.0
        return (products + softmax) * convert, softmax / (products + softmax)

    def tiles(self) -> _Tiles:
        """Return the tiles of one head: a causal mask leaves those up to the diagonal, a window those near it."""
        tokens, window, side = self.shape.tokens, self.shape.window, self.constants.query_tile
        number = np.ceil(tokens / side)
        keys = np.ceil(tokens / self.constants.key_tile) * self.constants.key_tile
        if self.is_encoder:
            return _Tiles(number, number * side * keys, tokens * tokens, side * keys)
        reach = np.minimum(number, np.where(window > 0, np.ceil(window / side) + 1, np.inf))
        pairs = side * side * (reach * (reach + 1) / 2 + (number - reach) * reach)
        seen = np.minimum(np.where(window > 0, window, tokens), tokens)
        needed = np.maximum(tokens * seen - seen * seen / 2, tokens / 2)
        return _Tiles(number, np.where(number <= 1, side * keys, pairs), needed, side * np.minimum(keys, reach * side))

    def heads_packed(self) -> Floats:
        """Return how many query heads of a KV head share a tile: some libraries pack those of short queries."""
        shape, side = self.shape, self.constants.query_tile
        packs = self.callers.typical | self.callers.is_family("flashinfer")
        packs = (packs | self.callers.runs("sglang", "flash_attention")) & ~self.callers.calls("trtllm")
        if self.is_encoder:
            return np.ones(len(self.batch))
        most = np.maximum(np.floor(side / shape.tokens), 1)
        return np.where(packs & (shape.tokens < side), np.minimum(shape.ratio, most), 1.0)

    def compute_s(self, tiles: _Tiles, cycles: Floats, blocks: Floats, heads_packed: Floats) -> Floats:
        """Return what products and softmax take, with the tile that ends last."""
        constants, shape, sms = self.constants, self.shape, self.gpu.sm_count
        side, rows = constants.query_tile, constants.instruction_rows
        used = np.ceil(np.minimum(shape.tokens * heads_packed, side) / rows) * rows / side
        pairs = shape.rows / heads_packed * tiles.pairs * (0.5 + 0.5 * used)
        idle = np.clip(1 - blocks / sms, 0, 1)
        late = constants.last_tile_share + (constants.lone_tile_share - constants.last_tile_share) * idle
        found: Floats = (
            pairs * cycles / (sms * self.loaded_clock_hz()) + tiles.longest * cycles * late / self.gpu.clock_hz
        )
        return found

    def start_cycles(self, blocks: Floats) -> Floats:
        """Return cycles of an SM for the starts and ends of blocks."""
        constants, shape, callers = self.constants, self.shape, self.callers
        vllm = _ratio(callers.runs("vllm", "flash_attention"), constants.vllm_flash_block_ratio)
        sglang = _ratio(callers.runs("sglang", "flash_attention"), constants.sglang_flash_head_tile_ratio)
        is_windowed = (shape.window > 0) & (shape.window < shape.tokens)
        per_block = constants.block_cycles * vllm + np.where(is_windowed, constants.window_block_cycles, 0.0)
        part = np.minimum(shape.tokens, constants.query_tile) / constants.query_tile
        return blocks * per_block + shape.rows * part * constants.head_tile_cycles * sglang

    def loaded_clock_hz(self) -> float:
        """Return the clock that power leaves to tensor cores: the geometric mean of base and boost."""
        boost, base, own = self.gpu.clock_boost_hz, self.gpu.clock_base_hz, self._architecture()
        least = own.least_clock_share if own else self.constants.least_clock_share
        share = self.constants.usual_clock_share if base is None else (base / boost) ** 0.5
        return min(self.gpu.clock_hz, boost * max(share, least))

    def l2_bytes_per_s(self) -> float:
        """Return the bandwidth of L2 with all SMs reading; where it is unknown, the usual one of the architecture."""
        rate, own = self.gpu.l2_rate, self._architecture()
        if rate is not None:
            return rate.bytes_per_s
        usual = own.l2_bytes_per_clock_per_sm if own else self.constants.usual_l2_bytes_per_clock_per_sm
        return usual * self.gpu.sm_count * self.gpu.clock_boost_hz

    def _architecture(self) -> ArchitectureConstants | None:
        number = self.gpu.architecture.number
        return next((each for each in self.constants.architectures if each.number == number), None)


@dataclass(frozen=True)
class Decode:
    """Attention of one new token of each sequence to its cached keys and values."""

    constants: DecodeConstants = field(default_factory=DecodeConstants.read)
    name = "operators-decode"
    timing = Timing.SERIES
    features = FEATURES

    def work(self, batch: OperatorBatch, gpu: GPU, timing: Timing) -> OperatorWork:
        """Return the physical forecast of decode; raises MissingEvidenceError where a fact is unknown."""
        task = _DecodeTask(self.constants, batch, gpu, timing)
        return work_of(batch, gpu, timing, self.constants.sharpness, task.terms())


class _DecodeTask:
    """Decode in one format on one GPU."""

    def __init__(self, constants: DecodeConstants, batch: OperatorBatch, gpu: GPU, timing: Timing) -> None:
        self.constants, self.batch, self.gpu, self.timing = constants, batch, gpu, timing
        self.shape: Shape = shape_of(batch)
        self.callers: Callers = callers_of(batch)
        self.l2_bytes = l2_bytes_of(gpu)
        self.sm_clocks = gpu.sm_count * gpu.clock_hz
        cached = self.shape.tokens + 1
        window = self.shape.window
        self.keys: Floats = np.where(window > 0, np.minimum(cached, window), cached)
        ratio = self.shape.ratio
        self.by_cuda_cores: Mask = self.callers.calls("trtllm") & ((ratio == 1) | (ratio > constants.most_shared_heads))

    def terms(self) -> Terms:
        """Return what decode takes, part by part."""
        constants, shape, gpu, none = self.constants, self.shape, self.gpu, np.zeros(len(self.batch))
        blocks_wanted = constants.split_blocks_per_sm * gpu.sm_count / shape.kv_rows
        split = np.maximum(np.minimum(blocks_wanted, self.keys / constants.split_keys), 1)
        cached = 2 * shape.kv_rows * self.keys * shape.head_size * shape.cache_bytes
        others = shape.rows * shape.head_size * (shape.query_bytes + OUTPUT_BYTES)
        rows = np.ceil(shape.ratio / constants.query_tile) * constants.query_tile
        tensor_s, fp32_s = self.tensor_s(rows, split), self.fp32_s(split)
        # What one SM waits for its own keys and values is no resource of the GPU.
        lone_bytes = 2 * self.keys / split * shape.head_size * shape.cache_bytes
        lone_s = lone_bytes / (constants.lone_sm_bytes_per_clock * gpu.clock_hz)
        is_split = self.keys >= constants.split_keys
        return Terms(
            floor_s=self.floor_cycles() / gpu.clock_hz,
            chain=Traffic(none, none),
            combine_s=np.where(is_split, constants.combine_cycles, 0.0) * np.clip(split - 1, 0, 1) / gpu.clock_hz,
            tensor_s=tensor_s,
            fp32_s=fp32_s,
            compute_s=soft_maximum(constants.sharpness, tensor_s + fp32_s, lone_s),
            memory=self.memory(cached, others),
            tiles_s=none,
            start_s=self.start_cycles(split) / self.sm_clocks,
            softmax_share=shape.ratio / rows,
            blocks=shape.kv_rows * split,
            split=split,
            tile_efficiency=self.keys / (np.ceil(self.keys / constants.key_tile) * constants.key_tile),
            fit=(cached + others) / self.l2_bytes,
        )

    def floor_cycles(self) -> Floats:
        """Return cycles of the kernels' chain of latencies."""
        constants, callers = self.constants, self.callers
        slower = (
            _ratio(callers.calls("trtllm"), constants.trtllm_floor_ratio)
            * _ratio(callers.runs("sglang", "flashinfer"), constants.sglang_flashinfer_floor_ratio)
            * _ratio(callers.runs("sglang", "triton"), constants.sglang_triton_floor_ratio)
        )
        return constants.floor_cycles * slower + (constants.fp8_cache_cycles if self.shape.cache_bytes == 1 else 0.0)

    def memory(self, cached: Floats, others: Floats) -> Traffic:
        """Return what reading takes: repeated calls find (kept / all)^2 again in L2, which is no slower than DRAM."""
        constants, is_cold = self.constants, self.timing is Timing.COLD
        excess = np.maximum((cached + others) / self.l2_bytes / constants.l2_kept_share, 1.0)
        found = np.zeros(len(self.batch)) if is_cold else 1 / excess**2
        nbytes = cached / (constants.fp8_cache_memory_share if self.shape.cache_bytes == 1 else 1.0) + others
        dram = self.gpu.dram_bytes_per_s * constants.dram_share
        ratio = _ratio(self.callers.calls("trtllm"), constants.trtllm_l2_ratio)
        l2 = self.sm_clocks * constants.l2_bytes_per_clock_per_sm * ratio
        dram_s, l2_s = nbytes * (1 - found) / dram, nbytes * found / np.maximum(l2, dram)
        # On CUDA cores each query head reads the keys and values of its own accord: all but the first from L2.
        again_s = np.where(self.by_cuda_cores & (self.shape.ratio > 1), cached * self.shape.ratio / l2, 0.0)
        return Traffic(dram_s, np.maximum(l2_s, again_s - dram_s))

    def tensor_s(self, rows: Floats, split: Floats) -> Floats:
        """Return what products by tensor cores take: the tile holds ``rows`` query heads, needed or not."""
        constants, shape, gpu = self.constants, self.shape, self.gpu
        most = min(products_per_clock(gpu, self.batch.dtype), constants.warp_products_per_clock)
        cycles = 2 * padded(shape.head_size) / (most * constants.warp_product_share)
        cycles = cycles + softmax_cycles(gpu, constants.fp32_operations_per_pair)
        busy = np.minimum(gpu.sm_count, shape.kv_rows * split)
        return np.where(self.by_cuda_cores, 0.0, shape.kv_rows * self.keys * rows * cycles / (busy * gpu.clock_hz))

    def fp32_s(self, split: Floats) -> Floats:
        """Return what products by CUDA cores take, where TensorRT-LLM uses them."""
        constants, shape, gpu = self.constants, self.shape, self.gpu
        operations = shape.rows * self.keys * shape.head_size * constants.cuda_core_operations
        lanes = constants.cuda_core_share * gpu.architecture.fp32_lanes_per_sm
        busy = np.minimum(gpu.sm_count, shape.rows * split)
        return np.where(self.by_cuda_cores, operations / lanes / (busy * gpu.clock_hz), 0.0)

    def start_cycles(self, split: Floats) -> Floats:
        """Return cycles of an SM for the starts of blocks; those of the first wave are part of the floor."""
        constants, shape, sms = self.constants, self.shape, self.gpu.sm_count
        size = np.maximum(shape.head_size, 128) / 128
        blocks = shape.kv_rows * split
        packed = blocks * blocks / (blocks + sms) * constants.block_cycles * size**constants.head_size_exponent
        ratio = _ratio(self.callers.runs("sglang", "flash_attention"), constants.sglang_flash_head_ratio)
        lone = (np.maximum(shape.head_size, 64) / 128) ** constants.cuda_core_head_exponent
        per_head = np.where(
            self.by_cuda_cores, constants.cuda_core_block_cycles * split * lone, constants.head_cycles * ratio
        )
        return np.where(self.by_cuda_cores, 0.0, packed) + shape.rows * per_head


def _ratio(chosen: Mask, ratio: float) -> Floats:
    """Return a ratio where it holds, and 1 elsewhere."""
    return np.where(chosen, ratio, 1.0)
