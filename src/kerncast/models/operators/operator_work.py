"""What models of operators share: operators of one kind as arrays, their work as times, and what a GPU does at most."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.operators import LIBRARIES, Kind, NumberFormat, Operator
from kerncast.prediction import Timing

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Floats = npt.NDArray[np.float64]
Names = npt.NDArray[np.str_]
#: A frozen dataclass whose every field is an array, with one number for each operator.
Arrays = TypeVar("Arrays", bound="DataclassInstance")
#: Products per clock over those of FP16, by format: the same on all tensor cores that have the format.
_OVER_FP16 = {"tf32": 0.5, "fp16": 1.0, "fp8": 2.0, "int8": 2.0}
#: First compute capability whose tensor cores have the format.
_SINCE = {"tf32": 80, "fp16": 70, "fp8": 89, "int8": 75}


@dataclass(frozen=True, slots=True)
class OperatorCase:
    """One operator paired with the GPU to forecast it on."""

    operator: Operator
    gpu: GPU


@dataclass(frozen=True, slots=True)
class OperatorBatch:
    """Operators of one kind and one format, an array per size."""

    kind: Kind
    dtype: NumberFormat
    cache_dtype: NumberFormat
    sizes: Floats
    """[operators, sizes]"""
    libraries: Names
    """framework that calls each, such as vllm; empty: unknown"""
    kernels: Names
    """kernel that each library runs, as data sets call it, such as fa3; empty: unknown"""

    def __len__(self) -> int:
        return len(self.sizes)

    def rows(self, chosen: slice | npt.NDArray[Any]) -> "OperatorBatch":
        """Return some of the operators, by their numbers or by a mask."""
        return replace(self, sizes=self.sizes[chosen], libraries=self.libraries[chosen], kernels=self.kernels[chosen])

    def size(self, name: str) -> Floats:
        """Return one size of all operators, by its name."""
        found: Floats = self.sizes[:, self.kind.dimensions.index(name)]
        return found


@dataclass(frozen=True, slots=True)
class Resource:
    """What one resource alone would need."""

    name: str
    seconds: Floats


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """The physical forecast of a batch, and what the learned residual looks at."""

    seconds: Floats
    resources: tuple[Resource, ...]
    features: Floats
    """[operators, features]"""
    least: Floats | None = None
    """what the arithmetic takes at the peak of the boost clock: no forecast is shorter; None where it is not counted"""


class OperatorModel(Protocol):
    """The physics of one family of operators."""

    @property
    def name(self) -> str:
        """Name of the model, that of its residual's and its calibration's files."""

    @property
    def timing(self) -> Timing:
        """How the operators were timed that it was made from."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, in their order."""

    def work(self, batch: OperatorBatch, gpu: GPU, timing: Timing) -> OperatorWork:
        """Return the physical forecast; raises MissingEvidenceError for a GPU without a needed fact."""


def batches_of(operators: Sequence[Operator]) -> list[tuple[OperatorBatch, tuple[int, ...]]]:
    """Return operators by kind and format, each batch with the places of its operators."""
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for place, each in enumerate(operators):
        groups[each.kind.name, each.dtype.name, each.cache_dtype.name].append(place)
    found = []
    for places in groups.values():
        first = operators[places[0]]
        sizes = np.array([operators[place].sizes for place in places], np.float64)
        libraries, kernels = (
            np.array([getattr(operators[place], name) for place in places], np.str_) for name in ("library", "kernel")
        )
        batch = OperatorBatch(first.kind, first.dtype, first.cache_dtype, sizes, libraries, kernels)
        found.append((batch, tuple(places)))
    return found


def joined(parts: Sequence[Arrays]) -> Arrays:
    """Return the arrays of some operators after those of others."""
    return type(parts[0])(*(np.concatenate([getattr(each, name) for each in parts]) for name in _names_of(parts[0])))


def where_better(is_better: npt.NDArray[np.bool_], better: Arrays, other: Arrays) -> Arrays:
    """Return the arrays of one choice where it is better, and those of the other elsewhere."""
    if not is_better.any():
        return other
    names = _names_of(other)
    return type(other)(*(np.where(is_better, getattr(better, name), getattr(other, name)) for name in names))


def _names_of(arrays: Arrays) -> tuple[str, ...]:
    return tuple(each.name for each in fields(arrays))


#: Multiply-adds of FP16 per clock and SM of a whole chip, by compute capability, where boards for games have half:
#: white papers of Turing, GA102, Ada and Blackwell (sums in FP32).
_WHOLE_RATE = {75: 512, 86: 512, 89: 512, 120: 512}


def tensor_load(gpu: GPU) -> float:
    """Return the rate of a board's tensor cores over that of its chip: what they draw of power and operands.

    >>> from kerncast.gpu import load_gpu
    >>> tensor_load(load_gpu("L40S")), tensor_load(load_gpu("RTX 4090"))
    (1.0, 0.5)
    """
    lanes = gpu.architecture.tensor_fp16_lanes_per_sm
    whole = _WHOLE_RATE.get(gpu.architecture.number)
    return 1.0 if lanes is None or whole is None else min(1.0, lanes / whole)


def products_per_clock(gpu: GPU, dtype: NumberFormat) -> float:
    """Return multiply-adds per clock and SM in a format; raises MissingEvidenceError where the GPU cannot do it.

    Tensor cores do half as many in TF32 as in FP16, twice as many in FP8 and INT8 (white papers of A100 and H100).

    >>> from kerncast.gpu import load_gpu
    >>> from kerncast.operators import format_named
    >>> products_per_clock(load_gpu("H100 SXM"), format_named("fp8"))
    4096.0
    """
    architecture = gpu.architecture
    if dtype.products == "fp32":
        return float(architecture.fp32_lanes_per_sm)
    if architecture.number < _SINCE[dtype.products] or (dtype.name == "bf16" and architecture.number < _SINCE["tf32"]):
        raise MissingEvidenceError(
            f"{gpu.name} has no tensor cores for {dtype.name}", cure="Ask for another GPU or number format."
        )
    lanes = architecture.tensor_group_fp16_lanes_per_sm or architecture.tensor_fp16_lanes_per_sm
    if lanes is None:
        raise MissingEvidenceError(
            f"how many products the tensor cores of {gpu.name} do per clock is not known",
            cure="Add lanes.tensor_fp16_per_sm to a file of this GPU.",
        )
    return lanes * _OVER_FP16[dtype.products]


def peak_flops_per_s(gpu: GPU, dtype: NumberFormat) -> float:
    """Return the rate of products in a format at the boost clock, or at a given one that is higher."""
    return 2 * products_per_clock(gpu, dtype) * gpu.sm_count * max(gpu.clock_hz, gpu.clock_boost_hz)


def alignment(sizes: Floats, most: int) -> Floats:
    """Return how many times each size can be halved, at most so often.

    >>> alignment(np.array([7.0, 24.0, 4096.0]), 5).tolist()
    [0.0, 3.0, 5.0]
    """
    whole = sizes.astype(np.int64)
    halvings: Floats = np.minimum(np.log2(np.maximum(whole & -whole, 1)), most)
    return halvings


def log_of(values: Floats) -> Floats:
    """Return natural logarithms, those of nothing as of 1e-12."""
    return np.asarray(np.log(np.maximum(values, 1e-12)))


def library_features(libraries: Names) -> tuple[Floats, ...]:
    """Return one column for each library, 1 where it calls; the last for all others.

    >>> [each.tolist() for each in library_features(np.array(["vllm", ""]))]
    [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """
    known = [libraries == name for name in LIBRARIES]
    return tuple(each.astype(np.float64) for each in (*known, ~np.logical_or.reduce(known)))


#: Clock under tensor load over the boost, at least, on capability 10.0 and later, whose stated base clocks are those of
#: idle boards; and where no base clock is known: 0.84 of it on a B200 whose products reach 1.66 PFLOP/s (zzc0208, times
#: of torch products, 2025).
_LOADED, _BLACKWELL = 0.8, 100


def sustained_clock_hz(gpu: GPU, share: float) -> float:
    """Return the clock under tensor load, that of the base and a share of what the boost adds.

    Boards that are held by their power have a low base clock: an L40S, 1110 of 2520 MHz, runs products at 1.7 GHz.
    """
    boost, base = gpu.clock_boost_hz, gpu.clock_base_hz
    loaded = _LOADED * boost if base is None else base + share * max(boost - base, 0.0)
    if gpu.architecture.number >= _BLACKWELL:
        loaded = max(loaded, _LOADED * boost)
    return min(gpu.clock_hz, loaded)
