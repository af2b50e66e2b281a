"""Matrix products in FP32 without tensor cores, as cuBLAS computes them for eager PyTorch: tiles, rounds, power.

    time = launch + miss x max(roof, power - burst), of the tile and split for which that is least
    roof^p = compute^p + DRAM^p + L2^p
    compute = rounds x 2 tm tn steps / (rate_128 x peak of an SM / (1 + operand_loss x o)),  o = 32/tm + 32/tn - 1/2
    steps = 8 ceil(depth / split / 8) + overhead
    power = blocks x 2 tm tn steps x energy x node x (1 + operand_energy x o) / (power_share x TDP)

A result of [rows, columns] is cut into tiles of tm columns and tn rows, a block of threads each; ``depth`` is what is
summed over. Each SM takes ceil(blocks / SMs) of them, in rounds of as many as are resident; w warps reach w / (w +
half_rate_warps) of the rate. o compares the operands that a tile loads per product with those of 128 x 128. A power
limit acts on what lasts longer than a burst. DRAM traffic is each matrix once, and the operands of each wave of tiles
as far as they exceed L2. Results whose rows are whole sectors, and products with a vector, stream better.

``bmm`` takes the tiles that kernel names show for the generation, ``linear`` and ``gemm`` one of seven, with a split
sum, and are slower than the best of them by ``miss``: the library's choice is not perfect.

Source: this project's study of NeuSight's tables (docs/operators.md): on a GPU that was left out, above 200 us, 13.8 %
mean error of bmm, 15.6 % of linear (with the mean of the tiles' times in place of the best one's). Fails on T4, whose
clock under a power limit differs from card to card; for rows of more than 64 KB on Pascal (0.3 of the time). GA10x, Ada
and Hopper have 128 lanes per SM, of which only P4 was measured, where power limits: their rate is extrapolated, and so
are bmm's tiles after Ampere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import product

import numpy as np

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, WARP_SIZE
from kerncast.models.operators.constants import read_constants
from kerncast.models.operators.elementwise import (
    is_pascal,
    launch_of,
    long_clock_hz,
    needed_fact,
    stream_bytes_per_s,
)
from kerncast.models.operators.operator_work import Floats, OperatorBatch, OperatorWork, Resource, joined, log_of
from kerncast.prediction import Timing

#: Constants that a fit may move.
FITTED_OF_ALL = (
    "rate_128", "operand_loss", "overhead_steps", "half_rate_warps", "dram_share", "sharpness", "flop_energy_j",
    "operand_energy", "burst_s",
)  # fmt: skip
FITTED_OF_BMM = (*FITTED_OF_ALL, "launch_bmm_s")
FITTED_OF_LINEAR = (*FITTED_OF_ALL, "launch_linear_s")
FITTED = (*FITTED_OF_ALL, "launch_bmm_s", "launch_linear_s")

_FLOAT = 4.0
#: Numbers of one step of the main loop's sum.
_STEP = 8.0
#: Numbers that are stored as one sector, whole.
_SECTOR = 8.0
#: Numbers that a thread loads at once where sizes allow it.
_VECTOR = 4.0
#: Least part of a sum that is split.
_LEAST_DEPTH = 64
#: Products at once: their arrays stay in a core's cache.
_AT_ONCE = 4096
#: First compute capabilities after Pascal and after Turing.
_VOLTA, _AMPERE = 70, 80


@dataclass(frozen=True, slots=True)
class Tile:
    """A kernel of cuBLAS: the part of the result that a block of threads computes."""

    columns: int
    rows: int
    threads: int
    resident: int
    """blocks that an SM holds, by their registers"""


_TILES = {
    "128x128": Tile(128, 128, 256, 2), "128x64": Tile(128, 64, 128, 4), "64x64": Tile(64, 64, 64, 8),
    "128x32": Tile(128, 32, 256, 2), "32x128": Tile(32, 128, 256, 2), "32x32": Tile(32, 32, 128, 4),
    "64x32": Tile(64, 32, 128, 4),
}  # fmt: skip
_BMM_PASCAL, _BMM_VOLTA, _BMM_AMPERE = ("128x64",), ("64x64", "128x64", "32x128", "128x32"), ("128x128",)
_LINEAR_PASCAL = ("32x128", "64x64", "128x32")
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
#: Tiles whose time over the chosen one's is a feature.
_COMPARED = ("128x128", "128x64", "64x64", "32x128", "128x32")
_FEATURES = (
    "ln_dram", "ln_l2", "ln_power", "ln_waves", "fill", "quantisation", "ln_reread", "ln_fit", "ln_depth", "ln_rows",
    "ln_columns", "aligned", "ln_split", "operands", *(f"to_{name}" for name in _COMPARED), "ln_launches", "is_pascal",
    "architecture",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProcessNode:
    """Architectures whose chips spend as much energy on an operation."""

    architectures: tuple[int, ...]
    """numbers of their compute capabilities"""
    energy: float
    """over that at 16 nm"""


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of the model, in SI units."""

    launch_bmm_s: float
    """what an eager call of bmm adds to the kernel, between events"""
    launch_linear_s: float
    """the same of linear"""
    rate_128: float
    """rate of a tile of 128 x 128 over the FP32 peak at boost, all warps at work"""
    operand_loss: float
    """time that further operands per product add"""
    overhead_steps: float
    """steps of the sum that a block's prologue and epilogue take as long as"""
    half_rate_warps: float
    """warps of an SM that reach half of the rate"""
    dram_share: float
    """sustained over peak DRAM bandwidth where results fill sectors in part"""
    sharpness: float
    """p of the norm that joins compute, DRAM and L2"""
    flop_energy_j: float
    """energy of an FP32 operation of a tile of 128 x 128 at 16 nm; a multiply-add is two"""
    operand_energy: float
    """energy that further operands per product add"""
    burst_s: float
    """time for which the power controller lets a product run"""
    aligned_share: float
    """DRAM bandwidth where results fill sectors, over that of a stream"""
    missed_tile: float
    """time of the tile that the library takes for linear, over that of its best one"""
    split_s: float
    """least time of adding up a split sum"""
    l2_bytes_per_clock: float
    """operand bytes that an SM draws from L2 per clock"""
    power_share: float
    """part of the board's power that FP32 work may use"""
    stream_share_pascal: float
    """sustained over peak DRAM bandwidth on Pascal: this and the next two are those of element-wise operators"""
    stream_share_hbm: float
    """the same of HBM since Volta"""
    stream_share_gddr: float
    """the same of GDDR with ECC inside the data, since Turing"""
    nodes: tuple[ProcessNode, ...]
    """energy by process node"""


@dataclass(frozen=True, slots=True)
class _Products:
    """Products of [rows, depth] and [depth, columns] matrices, ``batch`` at a time."""

    batch: Floats
    rows: Floats
    depth: Floats
    columns: Floats

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def flops(self) -> Floats:
        """Floating-point operations; a multiply-add counts 2."""
        return 2 * self.batch * self.rows * self.depth * self.columns

    @property
    def operand_bytes(self) -> Floats:
        """Bytes of the operands of one of a batch."""
        return _FLOAT * (self.rows + self.columns) * self.depth

    @property
    def result_bytes(self) -> Floats:
        """Bytes of all results."""
        return _FLOAT * self.batch * self.rows * self.columns

    @property
    def bytes_once(self) -> Floats:
        """Bytes of all matrices."""
        return self.batch * self.operand_bytes + self.result_bytes

    def some(self, chosen: slice) -> "_Products":
        """Return some of the products."""
        return _Products(self.batch[chosen], self.rows[chosen], self.depth[chosen], self.columns[chosen])


def products_of(batch: OperatorBatch) -> _Products:
    """Return the products that operators ask for: bmm and linear sum over N, gemm over K; linear has one result."""
    m, n, k = (batch.size(name) for name in "MNK")
    if batch.kind.name == "gemm":
        return _Products(np.ones(len(batch)), m, k, n)
    if batch.kind.name == "linear":
        return _Products(np.ones(len(batch)), batch.size("B") * m, n, k)
    return _Products(batch.size("B"), m, n, k)


@dataclass(frozen=True, slots=True)
class _Launch:
    """Tiles, each with a split of the sum: one for each product, or a column of candidates for all of them."""

    columns: Floats
    rows: Floats
    threads: Floats
    resident: Floats
    split: Floats

    @classmethod
    def of(cls, candidates: Sequence[tuple[Tile, int]]) -> "_Launch":
        """Return candidates as columns of arrays [candidates, 1]."""
        numbers = [(t.columns, t.rows, t.threads, t.resident, split) for t, split in candidates]
        return cls(*(column[:, np.newaxis] for column in np.array(numbers, np.float64).T))

    def at(self, which: np.ndarray[tuple[int], np.dtype[np.intp]]) -> "_Launch":
        """Return the candidate of each product."""
        return _Launch(*(getattr(self, each.name)[which, 0] for each in fields(self)))

    @property
    def operands(self) -> Floats:
        """Operands loaded per product beyond those of a tile of 128 x 128."""
        return 32 / self.columns + 32 / self.rows - 0.5


@dataclass(frozen=True, slots=True)
class _Machine:
    """Rates of a GPU."""

    sms: float
    sm_flops_per_s: float
    """peak of an SM at the boost clock"""
    dram_bytes_per_s: float
    stream_bytes_per_s: float
    l2_bytes: float
    l2_bytes_per_s: float
    """operands from L2, all SMs"""
    watts: float
    """power for FP32 work"""
    flop_energy_j: float


def _machine_of(gpu: GPU, constants: Constants) -> _Machine:
    number, clock_hz = gpu.architecture.number, long_clock_hz(gpu)
    energy = next((each.energy for each in constants.nodes if number in each.architectures), None)
    if energy is None:
        raise MissingEvidenceError(
            f"how much energy FP32 products take on compute capability {gpu.compute_capability} is unknown",
            where=gpu.name,
            cure="Ask for a GPU of another generation.",
        )
    return _Machine(
        sms=float(gpu.sm_count),
        sm_flops_per_s=2 * gpu.architecture.fp32_lanes_per_sm * clock_hz,
        dram_bytes_per_s=gpu.dram_bytes_per_s,
        stream_bytes_per_s=stream_bytes_per_s(gpu, constants),
        l2_bytes=needed_fact(gpu.l2_bytes, "L2's size", gpu),
        l2_bytes_per_s=gpu.sm_count * clock_hz * constants.l2_bytes_per_clock,
        watts=constants.power_share * needed_fact(gpu.tdp_w, "power limit (peak.tdp_w)", gpu),
        flop_energy_j=constants.flop_energy_j * energy,
    )


@dataclass(frozen=True, slots=True)
class _Times:
    """What products would take by a tile each, in seconds, and what the tile makes of them."""

    compute: Floats
    dram: Floats
    l2: Floats
    power: Floats
    """energy over the power limit, of the burst, too"""
    beyond_burst: Floats
    """the time that the power limit leaves"""
    roof: Floats
    """what compute, DRAM and L2 need together"""
    dram_bytes: Floats
    blocks: Floats

    @property
    def kernel(self) -> Floats:
        """The time of the kernel: its roof, or its power's."""
        return np.maximum(self.roof, self.beyond_burst)


@dataclass(frozen=True, slots=True)
class _Task:
    """Products on one GPU."""

    products: _Products
    machine: _Machine
    constants: Constants

    def times(self, launch: _Launch) -> _Times:
        """Return what the products take by a tile."""
        constants, machine, shape = self.constants, self.machine, self.products
        cuts = np.ceil(shape.columns / launch.columns), np.ceil(shape.rows / launch.rows)
        blocks = shape.batch * cuts[0] * cuts[1] * launch.split
        steps = np.ceil(shape.depth / launch.split / _STEP) * _STEP + constants.overhead_steps
        flops = 2 * launch.columns * launch.rows * steps
        rate = machine.sm_flops_per_s * constants.rate_128 / (1 + constants.operand_loss * launch.operands)
        compute = self._rounds(launch, blocks) * flops / rate
        dram_bytes = self._dram_bytes(launch, *cuts)
        dram = dram_bytes / self._dram_bytes_per_s()
        operands = _FLOAT * shape.batch * shape.depth * (shape.rows * cuts[0] + shape.columns * cuts[1])
        l2 = (operands + shape.result_bytes) / machine.l2_bytes_per_s
        joules = blocks * flops * machine.flop_energy_j * (1 + constants.operand_energy * launch.operands)
        power = joules / machine.watts
        added = np.where(launch.split > 1, constants.split_s, 0.0)
        roof = added + _norm((compute, dram, l2), constants.sharpness)
        return _Times(
            compute, dram, l2, power, np.maximum(power - constants.burst_s, 0.0), roof, dram_bytes, blocks
        )  # fmt: skip

    def _rounds(self, launch: _Launch, blocks: Floats) -> Floats:
        """Return how many blocks in turn take an SM as long, were all of its warps at work."""
        on_sm = np.ceil(blocks / self.machine.sms)
        full = np.floor(on_sm / launch.resident) * launch.resident
        rest = on_sm - full
        warps, half = launch.threads / WARP_SIZE, self.constants.half_rate_warps
        # w warps reach w / (w + half) of the rate: n blocks take n + half / warps, as n warps / (n warps + half).
        last = np.where(rest > 0, rest + half / warps, 0.0)
        found: Floats = full * (1 + half / (launch.resident * warps)) + last
        return found

    def _dram_bytes(self, launch: _Launch, across: Floats, down: Floats) -> Floats:
        """Return the DRAM traffic: all matrices once, and the operands of waves as far as they exceed L2."""
        shape, once = self.products, self.products.bytes_once
        at_once = self.machine.sms * launch.resident
        wide = np.minimum(across, at_once)
        high = np.clip(at_once / across, 1, down)
        of_wave = np.minimum(wide * launch.columns, shape.columns) + np.minimum(high * launch.rows, shape.rows)
        waves = shape.batch * across * down / (wide * high)
        by_waves = _FLOAT * waves * of_wave * shape.depth + shape.result_bytes
        spilled = np.clip(shape.operand_bytes / self.machine.l2_bytes - 0.5, 0.0, 1.0)
        parts = np.where(launch.split > 1, 2 * launch.split * shape.result_bytes, 0.0)
        found: Floats = once + spilled * np.maximum(by_waves - once, 0) + parts
        return found

    def _dram_bytes_per_s(self) -> Floats:
        """Return the DRAM bandwidth of each product, by how its results fill sectors."""
        shape, machine, constants = self.products, self.machine, self.constants
        partial = min(constants.dram_share * machine.dram_bytes_per_s, machine.stream_bytes_per_s)
        whole = constants.aligned_share * machine.stream_bytes_per_s
        found = np.where(shape.columns % _SECTOR == 0, whole, partial)
        return np.where((shape.columns == 1) | (shape.rows == 1), machine.stream_bytes_per_s, found)

    def best(self, candidates: Sequence[tuple[Tile, int]]) -> _Launch:
        """Return the candidate that ends first, of each product; a short sum is not split."""
        launch = _Launch.of(candidates)
        can = (launch.split == 1) | (self.products.depth / launch.split >= _LEAST_DEPTH)
        return launch.at(np.where(can, self.times(launch).kernel, np.inf).argmin(axis=0))


def _norm(parts: tuple[Floats, ...], p: float) -> Floats:
    """Return the p-norm, of times that may be huge."""
    most = np.maximum.reduce(parts)
    total: Floats = sum(((each / most) ** p for each in parts), start=np.zeros_like(most))
    found: Floats = most * total ** (1 / p)
    return found


@dataclass(frozen=True, slots=True)
class Fp32Products:
    """Products in FP32: ``bmm``, or with weights ``linear`` and ``gemm``.

    4096 x 4096 x 4096 on a V100 PCIe, by round constants: 1024 tiles of 128 x 128, 2 x 4096^2 x (4096 + 10) operations
    at 18 pJ, are 2.480 J, which 0.8 x 250 W deliver in 12.40 ms. Less 0.1 ms of burst, that is more than the roof,
    10.97 ms; the miss of 1.06 makes it 13.04 ms, the launch 13.09 ms.

    >>> from dataclasses import replace
    >>> from kerncast.gpu import load_gpu
    >>> from kerncast.models.operators.operator_work import batches_of
    >>> from kerncast.operators import parse_operator
    >>> [(batch, _)] = batches_of([parse_operator("gemm(M=4096,N=4096,K=4096,dtype=fp32)")])
    >>> model = Fp32Products.with_weights()
    >>> constants = replace(
    ...     model.constants, launch_linear_s=50e-6, rate_128=1, operand_loss=0.3, overhead_steps=10,
    ...     half_rate_warps=1.6, dram_share=0.6, sharpness=5, flop_energy_j=18e-12, operand_energy=0.4, burst_s=100e-6,
    ...     stream_share_hbm=0.9,
    ... )
    >>> work = replace(model, constants=constants).work(batch, load_gpu("v100-pcie-32gb"), Timing.SINGLE)
    >>> (work.seconds * 1e3).round(2).tolist()
    [13.09]
    """

    has_weights: bool = False
    constants: Constants = field(default_factory=lambda: read_constants(Constants, "bmm-fp32"))
    timing = Timing.SINGLE  # NeuSight timed one eager call between events
    features = _FEATURES  # those that tell one GPU from all others were worse on a GPU that was left out

    @classmethod
    def with_weights(cls) -> "Fp32Products":
        """Return the model of ``linear`` and ``gemm``."""
        return cls(True, read_constants(Constants, "linear-fp32"))

    @property
    def name(self) -> str:
        """Name of the model."""
        return "operators-linear-fp32" if self.has_weights else "operators-bmm-fp32"

    def work(self, batch: OperatorBatch, gpu: GPU, timing: Timing) -> OperatorWork:
        """Return the physical forecast; raises MissingEvidenceError for a GPU without a needed fact."""
        machine, products = _machine_of(gpu, self.constants), products_of(batch)
        tasks = [_Task(products.some(part), machine, self.constants) for part in _parts(len(batch))]
        launches = [task.best(self._candidates(gpu)) for task in tasks]
        times = joined([task.times(launch) for task, launch in zip(tasks, launches, strict=True)])
        launch = joined(launches)
        body = times.kernel * (self.constants.missed_tile if self.has_weights else 1.0)
        eager_s = self.constants.launch_linear_s if self.has_weights else self.constants.launch_bmm_s
        added = launch_of(eager_s, gpu, timing, body)
        resources = (
            Resource("fp32", times.compute), Resource("dram", times.dram), Resource("l2", times.l2),
            Resource("power", times.beyond_burst), Resource("launch", added),
        )  # fmt: skip
        features = _features(_Task(products, machine, self.constants), launch, times)
        others = (log_of(body / eager_s), is_pascal(gpu) * np.ones(len(body)))
        architecture = np.full(len(body), float(gpu.architecture.number))
        least = products.flops / (machine.sms * machine.sm_flops_per_s)
        return OperatorWork(added + body, resources, np.column_stack((*features, *others, architecture)), least)

    def _candidates(self, gpu: GPU) -> tuple[tuple[Tile, int], ...]:
        """Return the tiles and splits that the library has; after Ampere, those of Ampere."""
        number = gpu.architecture.number
        if self.has_weights:
            names = _LINEAR_PASCAL if number < _VOLTA else tuple(_TILES)
            return tuple(product((_TILES[name] for name in names), _SPLITS))
        names = _BMM_PASCAL if number < _VOLTA else _BMM_VOLTA if number < _AMPERE else _BMM_AMPERE
        return tuple((_TILES[name], 1) for name in names)


def _parts(products: int) -> Iterator[slice]:
    yield from (slice(first, first + _AT_ONCE) for first in range(0, max(products, 1), _AT_ONCE))


def _features(task: _Task, launch: _Launch, times: _Times) -> Iterator[Floats]:
    """Yield the features of the residual: what limits, what the tile makes of the sizes, what another would need."""
    shape, machine = task.products, task.machine
    yield from (log_of(each / times.compute) for each in (times.dram, times.l2))
    yield log_of(times.power / times.roof)
    yield log_of(times.blocks / (machine.sms * launch.resident))
    tiles = np.ceil(shape.columns / launch.columns) * np.ceil(shape.rows / launch.rows)
    yield shape.rows * shape.columns / (tiles * launch.columns * launch.rows)
    yield np.ceil(times.blocks / machine.sms) * machine.sms / times.blocks
    yield log_of(times.dram_bytes / shape.bytes_once)
    yield log_of(shape.operand_bytes / machine.l2_bytes)
    yield from (log_of(each) for each in (shape.depth, shape.rows, shape.columns))
    yield (shape.depth % _VECTOR == 0) * 1.0 + (shape.columns % _VECTOR == 0) * 1.0
    yield log_of(launch.split)
    yield launch.operands
    for name in _COMPARED:
        yield log_of(task.times(_Launch.of([(_TILES[name], 1)])).roof[0] / times.roof)
