"""Element-wise operators of FP32 tensors, as PyTorch runs each eagerly: a stream through DRAM, and the launch.

    time = launch + 4 bytes x B x H x tensors / (share x peak DRAM bandwidth)

``tensors`` are those read and written: 2, or 3 for an operator of two tensors. What is computed does not matter: tanh
and GELU stream as fast as a sum. Launch and stream add up, they do not overlap. The share depends on the memory: HBM
since Volta, GDDR with ECC, and Pascal. Source: this project's study of NeuSight's tables (docs/operators.md): 3.2 %
mean error on a GPU that was left out, above 200 us; that L2 holds a tensor is not seen there. Fails for a power by an
arbitrary exponent on P100, which is 16 % slower; on GDDR without ECC, which streams faster and was not measured; below
200 us where L2 holds the tensors.

The shares and the launch of an eager call are those of the other FP32 operators, too.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, launch_overhead_s
from kerncast.models.operators.constants import read_constants
from kerncast.models.operators.operator_work import (
    Floats,
    OperatorBatch,
    OperatorWork,
    Resource,
    log_of,
    tensor_load,
)
from kerncast.prediction import Timing

#: Constants that a fit may move.
FITTED = ("launch_s", "stream_share_pascal", "stream_share_hbm", "stream_share_gddr")
#: Those of them that the other FP32 operators take over as they are.
STREAM_SHARES = FITTED[1:]

_FLOAT = 4.0
_OF_TWO_TENSORS = frozenset({"add", "mul", "div", "pow"})
#: First compute capability after Pascal.
_VOLTA = 70
#: Interfaces as wide are those of stacked memory: a stack of HBM has 1024 bits, the widest of GDDR 512.
_LEAST_HBM_BITS = 2048
_FEATURES = ("ln_launches", "tensors", "architecture")


class StreamShares(Protocol):
    """Sustained over peak DRAM bandwidth of streams, by the kind of memory."""

    @property
    def stream_share_pascal(self) -> float:
        """Pascal's, of either kind."""

    @property
    def stream_share_hbm(self) -> float:
        """HBM's since Volta."""

    @property
    def stream_share_gddr(self) -> float:
        """GDDR's with ECC inside the data."""


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of the model, in SI units."""

    launch_s: float
    """what an eager call adds to the stream, between events"""
    stream_share_pascal: float
    """sustained over peak DRAM bandwidth on Pascal"""
    stream_share_hbm: float
    """the same of HBM since Volta"""
    stream_share_gddr: float
    """the same of GDDR with ECC inside the data, since Turing"""


def needed_fact(value: float | None, what: str, gpu: GPU) -> float:
    """Return a fact of a GPU; raises MissingEvidenceError where it is unknown."""
    if value is None:
        raise MissingEvidenceError(f"its {what} is unknown", where=gpu.name, cure="Give it in a file of this GPU.")
    return float(value)


def is_pascal(gpu: GPU) -> bool:
    """Whether a GPU is of Pascal or older: what follows from that was measured on Pascal alone."""
    return gpu.architecture.number < _VOLTA


def stream_bytes_per_s(gpu: GPU, shares: StreamShares) -> float:
    """Return the DRAM bandwidth of a stream; raises MissingEvidenceError where the width of the interface is unknown.

    GDDR with ECC keeps it inside the data; without it, a board streams as its facts say.

    >>> from kerncast.gpu import load_gpu
    >>> shares = Constants(20e-6, stream_share_pascal=0.7, stream_share_hbm=0.9, stream_share_gddr=0.75)
    >>> stream_bytes_per_s(load_gpu("t4"), shares) / 320e9
    0.75
    """
    if is_pascal(gpu):
        return shares.stream_share_pascal * gpu.dram_bytes_per_s
    bits = needed_fact(gpu.dram_bus_bits, "DRAM interface's width", gpu)
    if bits >= _LEAST_HBM_BITS:
        return shares.stream_share_hbm * gpu.dram_bytes_per_s
    rate = gpu.dram_rate
    if rate is not None and (rate.is_measured or tensor_load(gpu) < 1):  # boards for games have no ECC
        return rate.bytes_per_s
    return shares.stream_share_gddr * gpu.dram_bytes_per_s


def long_clock_hz(gpu: GPU) -> float:
    """Return the SM clock of FP32 operators: the boost clock (a P100's base clock is 12 % off), or a given one."""
    return gpu.clock_boost_hz if gpu.clock_hz == gpu.default_clock_hz else gpu.clock_hz


def launch_of(eager_s: float, gpu: GPU, timing: Timing, body: Floats) -> Floats:
    """Return what launches add to bodies of so many seconds: an eager call's own, or that of another timing.

    One call of a framework takes as long to launch with a cold L2 as with a warm one.
    """
    if timing in {Timing.SINGLE, Timing.COLD}:
        return np.full(len(body), eager_s)
    overhead = launch_overhead_s(timing)
    if timing is Timing.SERIES and gpu.launch_interval_s is not None:
        found: Floats = np.maximum(overhead, gpu.launch_interval_s - body)
        return found
    return np.full(len(body), overhead)


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Sums, products, powers and activations of FP32 tensors.

    800 MB of a ReLU of 1e8 numbers, on an A100 PCIe 40 GB, were its share 0.9 and its launch 20 us:
    800e6 / (0.9 x 1555.2e9) s = 571.6 us, and 20 us.

    >>> from kerncast.gpu import load_gpu
    >>> from kerncast.models.operators.operator_work import batches_of
    >>> from kerncast.operators import parse_operator
    >>> [(batch, _)] = batches_of([parse_operator("relu(B=100000,H=1000)")])
    >>> model = Elementwise(Constants(20e-6, stream_share_pascal=0.7, stream_share_hbm=0.9, stream_share_gddr=0.75))
    >>> (model.work(batch, load_gpu("a100-pcie-40gb"), Timing.SINGLE).seconds * 1e6).round(1).tolist()
    [591.6]
    """

    constants: Constants = field(default_factory=lambda: read_constants(Constants, "elementwise"))
    name = "operators-elementwise"
    timing = Timing.SINGLE  # NeuSight timed one eager call between events
    features = _FEATURES  # a residual learned from more was worse on a GPU that was left out

    def work(self, batch: OperatorBatch, gpu: GPU, timing: Timing) -> OperatorWork:
        """Return the physical forecast; raises MissingEvidenceError for a GPU without a needed fact."""
        tensors = 3.0 if batch.kind.name in _OF_TWO_TENSORS else 2.0
        moved = _FLOAT * batch.size("B") * batch.size("H") * tensors
        stream = moved / stream_bytes_per_s(gpu, self.constants)
        launch = launch_of(self.constants.launch_s, gpu, timing, stream)
        one = np.ones(len(batch))
        columns = (log_of(stream / self.constants.launch_s), tensors * one, gpu.architecture.number * one)
        return OperatorWork(
            launch + stream, (Resource("dram", stream), Resource("launch", launch)), np.column_stack(columns)
        )
