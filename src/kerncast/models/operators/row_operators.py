"""Softmax and norms of the rows of an FP32 matrix, as PyTorch runs each eagerly: passes over rows, and chains of steps.

    time = launch + (traffic^p + chain^p)^(1/p)
    traffic = 8 bytes x B x H / stream bandwidth + 4 bytes x B x H x further passes / bandwidth of where the rows lie
    chain = max(1, rows / (SMs x resident rows)) x (row cycles + iteration cycles x iterations x passes) / clock

A row is read once and its result is written once. Layer norm reads it once more, softmax of more than 1024 numbers
twice: from L1 as far as the rows of an SM fit into it, else from L2, else from DRAM. Results pass through L2, too: the
rows in flight take twice their size there. A block of threads does a row, for softmax of up to 1024 numbers a warp,
which keeps the row in registers. A chain lasts one wave at least: a matrix of few long rows leaves most SMs idle.

Source: PyTorch's kernels (SoftMax.cu, layer_norm_kernel.cu) and this project's study of NeuSight's tables
(docs/operators.md): on a GPU that was left out, above 200 us, 12.1 % mean error of softmax, 9.4 % of layer norm. Fails
on P4 (softmax forecast a third too slow), and where the last iteration over a row is nearly empty (P100 with 2217
numbers: 0.62 of the time). A root-mean-square norm as one kernel is a layer norm without the mean and the bias: none
was measured.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from kerncast.gpu import GPU, WARP_SIZE
from kerncast.models.operators.constants import read_constants
from kerncast.models.operators.elementwise import (
    is_pascal,
    launch_of,
    long_clock_hz,
    needed_fact,
    stream_bytes_per_s,
)
from kerncast.models.operators.operator_work import Floats, OperatorBatch, OperatorWork, Resource, log_of
from kerncast.prediction import Timing

#: Constants that a fit may move. The capacities of L1 and L2 stay: one GPU alone would move them.
FITTED = ("launch_s", "row_cycles", "iteration_cycles", "l2_bytes_per_clock", "sharpness")

_FLOAT = 4.0
#: Numbers that a thread loads at once.
_VECTOR = 4
#: Longest row that one warp keeps in registers, and most threads of such warps on an SM.
_LONGEST_OF_A_WARP, _THREADS_OF_WARPS = 1024, 1024
#: Threads of a block of layer norm; most threads of a block of softmax; most blocks of an SM.
_NORM_THREADS, _MOST_THREADS, _MOST_BLOCKS = 128.0, 1024.0, 32.0
_FEATURES = ("ln_length", "last_iteration", "is_short", "architecture")


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of one of the models, in SI units and SM cycles."""

    launch_s: float
    """what an eager call adds to the kernel, between events"""
    row_cycles: float
    """dependent steps of a row whatever its length: the reductions, the start of its block"""
    iteration_cycles: float
    """dependent steps of one iteration of a block over its row, or of a warp over 1024 numbers"""
    l2_bytes_per_clock: float
    """bytes per clock that an SM reads again from L2"""
    sharpness: float
    """p of the norm that joins traffic and chain"""
    l2_share: float
    """what rows in flight may take of L2 until they leave it, over its size"""
    l1_share: float
    """the same of L1"""
    l1_bytes_per_clock: float
    """bytes per clock that an SM reads again from L1"""
    pascal_latency: float
    """latency of dependent steps on Pascal over that since Volta"""
    stream_share_pascal: float
    """sustained over peak DRAM bandwidth on Pascal: this and the next two are those of element-wise operators"""
    stream_share_hbm: float
    """the same of HBM since Volta"""
    stream_share_gddr: float
    """the same of GDDR with ECC inside the data, since Turing"""


@dataclass(frozen=True, slots=True)
class _Rows:
    """How rows are divided among threads."""

    count: Floats
    length: Floats
    is_short: Floats
    """1 where a warp keeps the row in registers"""
    threads: Floats
    """of a row"""
    passes: float
    """over a row that is not kept: reads of the input and the one write count once each"""

    @property
    def nbytes(self) -> Floats:
        """Bytes of all rows."""
        return _FLOAT * self.count * self.length

    @property
    def iterations(self) -> Floats:
        """Iterations of a block over its row."""
        found: Floats = np.ceil(self.length / self._of_an_iteration)
        return found

    @property
    def last_iteration(self) -> Floats:
        """Part of the places of all iterations that have a number to work on."""
        return self.length / (self.iterations * self._of_an_iteration)

    @property
    def _of_an_iteration(self) -> Floats:
        return np.where(self.is_short > 0, float(_LONGEST_OF_A_WARP), _VECTOR * self.threads)

    def resident(self, gpu: GPU) -> Floats:
        """Return the rows that an SM works on at a time."""
        room = gpu.architecture.max_threads_per_sm
        of_warps = min(room, _THREADS_OF_WARPS) / WARP_SIZE
        return np.where(self.is_short > 0, of_warps, np.minimum(room / self.threads, _MOST_BLOCKS))


@dataclass(frozen=True, slots=True)
class _OverRows(ABC):
    """An operator that passes over rows; what sets one apart is how it divides them among threads."""

    constants: Constants
    timing = Timing.SINGLE  # NeuSight timed one eager call between events
    features = _FEATURES  # others were worse on a GPU that was left out

    @abstractmethod
    def rows(self, count: Floats, length: Floats) -> _Rows:
        """Return how rows of so many numbers are divided among threads."""

    def work(self, batch: OperatorBatch, gpu: GPU, timing: Timing) -> OperatorWork:
        """Return the physical forecast; raises MissingEvidenceError for a GPU without a needed fact."""
        return _work(self.rows(batch.size("B"), batch.size("H")), self.constants, gpu, timing)


@dataclass(frozen=True, slots=True)
class Softmax(_OverRows):
    """Softmax of each row.

    A row of 1e6 numbers on an A100 PCIe 40 GB, by round constants: the chain of one wave, 600 + 800 x ceil(1e6 / 4096)
    x 3 cycles at 1.41 GHz = 417.4 us. 8e6 bytes by DRAM in 5.7 us and 8e6 bytes of further passes, from L2, do not
    show; launch 40 us.

    >>> from dataclasses import replace
    >>> from kerncast.gpu import load_gpu
    >>> from kerncast.models.operators.operator_work import batches_of
    >>> from kerncast.operators import parse_operator
    >>> [(batch, _)] = batches_of([parse_operator("softmax(B=1,H=1000000)")])
    >>> constants = replace(
    ...     Softmax().constants, launch_s=40e-6, row_cycles=600, iteration_cycles=800, l2_bytes_per_clock=100,
    ...     sharpness=3, stream_share_hbm=0.9,
    ... )
    >>> (Softmax(constants).work(batch, load_gpu("a100-pcie-40gb"), Timing.SINGLE).seconds * 1e6).round(1).tolist()
    [457.4]
    """

    constants: Constants = field(default_factory=lambda: read_constants(Constants, "softmax"))
    name = "operators-softmax"

    def rows(self, count: Floats, length: Floats) -> _Rows:
        """Return the division of softmax: half a thread per vector, as a power of two between one warp and 1024."""
        is_short = length <= _LONGEST_OF_A_WARP
        vectors = np.maximum(np.floor(np.floor(length / _VECTOR) / 2), WARP_SIZE)
        block = np.minimum(2.0 ** np.ceil(np.log2(vectors)), _MOST_THREADS)
        threads = np.where(is_short, float(WARP_SIZE), block)
        return _Rows(count, length, is_short.astype(np.float64), threads, passes=3)


@dataclass(frozen=True, slots=True)
class Norm(_OverRows):
    """Layer norm of each row, and the root-mean-square norm that one kernel does, as if it were one.

    1e6 rows of 128 numbers on a V100 with 80 SMs at 1.38 GHz, by round constants: 1e6 / (80 x 16) waves of
    5000 + 2 x 1200 cycles take 4.19 ms, to which the traffic, 1.34 ms, adds 0.3 %; launch 60 us.

    >>> from dataclasses import replace
    >>> from kerncast.gpu import load_gpu
    >>> from kerncast.models.operators.operator_work import batches_of
    >>> from kerncast.operators import parse_operator
    >>> [(batch, _)] = batches_of([parse_operator("ln(B=1000000,H=128)")])
    >>> constants = replace(
    ...     Norm().constants, launch_s=60e-6, row_cycles=5000, iteration_cycles=1200, l2_bytes_per_clock=15,
    ...     sharpness=4, stream_share_hbm=0.9,
    ... )
    >>> (Norm(constants).work(batch, load_gpu("v100-pcie-32gb"), Timing.SINGLE).seconds * 1e3).round(2).tolist()
    [4.26]
    """

    constants: Constants = field(default_factory=lambda: read_constants(Constants, "norm"))
    name = "operators-norm"

    def rows(self, count: Floats, length: Floats) -> _Rows:
        """Return the division of layer norm: a block of as many threads for every row."""
        return _Rows(count, length, np.zeros(len(length)), np.full(len(length), _NORM_THREADS), passes=2)


def _work(rows: _Rows, constants: Constants, gpu: GPU, timing: Timing) -> OperatorWork:
    clock_hz, resident = long_clock_hz(gpu), rows.resident(gpu)
    traffic = _traffic(rows, constants, gpu)
    waves = np.maximum(rows.count / (gpu.sm_count * resident), 1.0)
    steps = rows.iterations * np.where(rows.is_short > 0, 1.0, rows.passes)
    latency = constants.pascal_latency if is_pascal(gpu) else 1.0
    chain = waves * (constants.row_cycles + constants.iteration_cycles * steps) * latency / clock_hz
    longest, p = np.maximum(traffic.seconds, chain), constants.sharpness
    body = longest * ((traffic.seconds / longest) ** p + (chain / longest) ** p) ** (1 / p)
    launch = launch_of(constants.launch_s, gpu, timing, body)
    architecture = np.full(len(body), float(gpu.architecture.number))
    columns = (log_of(rows.length), rows.last_iteration, rows.is_short, architecture)
    resources = (Resource("dram", traffic.dram), Resource("l2", traffic.l2), Resource("launch", launch))
    return OperatorWork(launch + body, resources, np.column_stack(columns))


@dataclass(frozen=True, slots=True)
class _Traffic:
    """What reads and writes take, in seconds; they follow one another."""

    dram: Floats
    l2: Floats
    l1: Floats

    @property
    def seconds(self) -> Floats:
        return self.dram + self.l2 + self.l1


def _traffic(rows: _Rows, constants: Constants, gpu: GPU) -> _Traffic:
    """Return what traffic takes: each row in and out once, and the further passes from where its rows lie."""
    per_s = gpu.sm_count * long_clock_hz(gpu)
    dram_bytes_per_s = stream_bytes_per_s(gpu, constants)
    l2_bytes_per_s = max(per_s * constants.l2_bytes_per_clock, dram_bytes_per_s)
    again = (rows.passes - 1) * rows.nbytes
    lost_from_l1 = np.where(rows.is_short > 0, 0.0, _lost_from_l1(rows, constants, gpu))
    lost = lost_from_l1 * _lost_from_l2(rows, constants, gpu)
    in_l1 = np.where(rows.is_short > 0, 0.0, 1 - lost_from_l1)
    return _Traffic(
        dram=(2 * rows.nbytes + again * lost) / dram_bytes_per_s,
        l2=again * (lost_from_l1 - lost) / l2_bytes_per_s,
        l1=again * in_l1 / (per_s * constants.l1_bytes_per_clock),
    )


def _lost_from_l1(rows: _Rows, constants: Constants, gpu: GPU) -> Floats:
    """Return the part of its rows that an SM no longer finds in L1: none up to half of its size, all from all of it.

    Pascal's global loads are taken as never cached there: so they behave.
    """
    if is_pascal(gpu):
        return np.ones(len(rows.length))
    architecture = gpu.architecture
    whole = needed_fact(architecture.l1_and_shared_bytes, "L1's size", gpu)
    shared = min(architecture.shared_carveouts_bytes or (0,))
    use = rows.resident(gpu) * rows.length * _FLOAT / (constants.l1_share * (whole - shared))
    found: Floats = np.clip(2 * use - 1, 0.0, 1.0)
    return found


def _lost_from_l2(rows: _Rows, constants: Constants, gpu: GPU) -> Floats:
    """Return the part of rows in flight that L2 no longer holds: all from half more than what fits."""
    size = constants.l2_share * needed_fact(gpu.l2_bytes, "L2's size", gpu)
    in_flight = np.minimum(gpu.sm_count * rows.resident(gpu), rows.count) * rows.length * _FLOAT
    found: Floats = np.clip((2 * in_flight / size - 1) / 0.5, 0.0, 1.0)
    return found
