"""Posterior: how far the simulation is off on one launch, given how far it was off where times were measured.

e = ln(measured / simulated) is a sum of independent normal effects. Each belongs to what launches may share: the
kernel, the launch itself, each of these within a generation, an architecture or one GPU, and the GPU's own resources.
Two launches covary by the variances of the effects that they share, k(x, y). With residuals e of the launches that
were measured, and the variance d of each measurement, the residual of launch x has

    mean = k(x)^T (K + D)^-1 e,    variance = k(x, x) - k(x)^T (K + D)^-1 k(x).

Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equations 2.22 to 2.24; the effects
are this project's. ``benchmarks/score_evidence.py`` estimates their variances (``data/calibration/evidence.toml``).
Valid for: kernels that the simulation forecasts by the same equations on both GPUs.
Fails when: a kernel's residual has another cause on the target, such as another compilation. Between generations
little is carried over for this reason.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import kerncast
from kerncast.bounded_file import our_table
from kerncast.errors import InputError
from kerncast.models.base import Estimate
from kerncast.models.clock import blame_of
from kerncast.prediction import Prediction

Floats = npt.NDArray[np.float64]

_FILE = Path(kerncast.__path__[0]) / "data" / "calibration" / "evidence.toml"
#: Of the file's form.
VERSION = 1
#: What limits two launches is alike where their shares are nearly the same: the overlap counts with this power.
ALIKE_POWER = 6
#: Two-sided 99 %: a measurement further from what all others say contradicts them.
_CONTRADICTS = 2.576


@dataclass(frozen=True, slots=True)
class Effects:
    """Variances of the effects in ln(measured / simulated), and how wide intervals around the posterior are."""

    kernel: float
    """of a kernel on all GPUs"""
    kernel_era: float
    """of a kernel on GPUs of one family of instruction sets"""
    kernel_generation: float
    """of a kernel on GPUs of one major compute capability"""
    kernel_architecture: float
    """of a kernel on GPUs of one compute capability"""
    kernel_gpu: float
    """of a kernel on one GPU"""
    launch: float
    """of one launch on all GPUs"""
    launch_generation: float
    """of one launch on GPUs of one major compute capability"""
    launch_gpu: float
    """of one launch on one GPU, beyond all others"""
    gpu: float
    """of one GPU on launches that the same resources limit"""
    unseen: float
    """of one microarchitecture on a kernel, where the simulation's error was not measured on any of its GPUs"""
    doublings: float
    """Change of size, in doublings of the number of threads, over which a kernel's effects fall to 1/e."""
    measurement: float
    """Variance of ln(time) of a measurement that comes without a spread."""
    body: float
    """Width of an interval around exact knowledge, over the width that the simulation's own errors would give it."""

    @property
    def prior(self) -> float:
        """Variance of a residual before any time is known."""
        kernels = self.kernel + self.kernel_era + self.kernel_generation + self.kernel_architecture + self.kernel_gpu
        return kernels + self.launch + self.launch_generation + self.launch_gpu + self.gpu


@dataclass(frozen=True, slots=True)
class Subject:
    """One launch on one GPU, by all that it may share with others."""

    kernel: str
    """build of the kernel: its source, template arguments and macros"""
    launch: str
    """Identity of the launch: the same kernel with the same grid, block and arguments, on any GPU."""
    gpu_id: str
    capability: int
    """Compute capability times ten, such as 75."""
    microarchitecture: str
    threads: int
    shares: tuple[tuple[str, float], ...]
    """Share of the blame for the simulated time, by resource; the sum is 1."""
    is_unseen: bool = False
    """whether its microarchitecture is missing among the GPUs that the simulation's error was measured on"""


@dataclass(frozen=True, slots=True)
class Residual:
    """How far the simulation was off on one measured launch."""

    subject: Subject
    log_error: float
    """ln(measured / simulated)"""
    variance: float
    """Variance of ln(measured): the spread of the repeats, squared."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What one measurement does to a forecast."""

    factor: float
    """Factor on the forecast: above 1 where the measurement makes it longer."""
    deviation: float
    """distance of the measurement from what the simulation and all others say, in standard deviations"""

    @property
    def contradicts(self) -> bool:
        """Whether the measurement lies outside the 99 % posterior of the others."""
        return abs(self.deviation) > _CONTRADICTS


@dataclass(frozen=True, slots=True)
class Correction:
    """How far the simulation is off on one launch, given all measurements."""

    log_error: float
    """Mean of ln(measured / simulated)."""
    width: float
    """Width of the interval over its width without any measurement, both in ln(time): 0 to 1."""
    moved: tuple[Moved, ...]
    """by measurement, in their order"""

    @property
    def factor(self) -> float:
        """Factor on the simulated time."""
        return math.exp(self.log_error)


class Posterior:
    """What measurements say of other launches; its cost grows with the cube of their number."""

    def __init__(self, residuals: Sequence[Residual], effects: Effects | None = None) -> None:
        self._effects = effects or read_effects()
        self._subjects = tuple(each.subject for each in residuals)
        self._errors = np.array([each.log_error for each in residuals])
        noise = np.diag([each.variance for each in residuals])
        self._inverse = np.linalg.inv(covariance(self._subjects, self._subjects, self._effects) + noise)
        # What the others say of each measurement: Rasmussen and Williams, equations 5.10 to 5.12.
        self.deviations = self._inverse @ self._errors / np.sqrt(np.diag(self._inverse))
        """[measurements] distance of each from what the simulation and all others say, in standard deviations"""

    def of(self, subject: Subject) -> Correction:
        """Return what the measurements say of a launch.

        One effect, of the kernel on all GPUs, with variance 0.04, and a measurement 20 % above the simulation that is
        as uncertain as the effect: half of it, in ln(time), is carried over.

        >>> one = Effects(0.04, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1)
        >>> a = Subject("k", "k 1", "a", 70, "Volta", 4096, (("dram", 1.0),))
        >>> b = Subject("k", "k 1", "b", 80, "Ampere", 4096, (("dram", 1.0),))
        >>> found = Posterior([Residual(a, math.log(1.2), 0.04)], one).of(b)
        >>> round(found.factor, 4), round(found.width, 4)  # the square roots of 1.2 and of 1/2
        (1.0954, 0.7071)
        """
        own = covariance([subject], self._subjects, self._effects)[0]
        prior = float(covariance([subject], [subject], self._effects)[0, 0])
        weights = self._inverse @ own
        left = max(0.0, prior - float(own @ weights)) / prior
        width = math.sqrt(left) * (self._effects.body + (1 - self._effects.body) * left)
        moved = [
            Moved(math.exp(weight * error), float(deviation))
            for weight, error, deviation in zip(weights, self._errors, self.deviations, strict=True)
        ]
        return Correction(float(weights @ self._errors), width, tuple(moved))


def shares_of(estimate: Estimate | Prediction) -> tuple[tuple[str, float], ...]:
    """Return by which resources a simulated time is limited; what no resource explains is latency.

    >>> from kerncast.prediction import Term
    >>> shares_of(Estimate(1.0, "dram", (Term("dram", 0.8), Term("issue", 0.4)), 1.0, 1.0))
    (('dram', 0.644...), ('issue', 0.040...), ('latency', 0.314...))
    """
    return tuple(blame_of(estimate.seconds, estimate.terms).items())


def covariance(rows: Sequence[Subject], columns: Sequence[Subject], effects: Effects) -> Floats:
    """Return [rows, columns] covariances of the residuals of launches."""
    return np.array([[shared_variance(one, other, effects) for other in columns] for one in rows])


def shared_variance(one: Subject, other: Subject, effects: Effects) -> float:
    """Return the variance of all effects that two launches share."""
    is_gpu = one.gpu_id == other.gpu_id
    found = effects.gpu * _overlap(one, other) ** ALIKE_POWER if is_gpu else 0.0
    if one.kernel != other.kernel:
        return found
    is_architecture = is_gpu or one.capability == other.capability
    is_generation = is_architecture or one.capability // 10 == other.capability // 10
    of_kernel = effects.kernel + effects.kernel_era * (era_of(one.capability) == era_of(other.capability))
    of_kernel += effects.kernel_generation * is_generation + effects.kernel_architecture * is_architecture
    of_kernel += effects.kernel_gpu * is_gpu
    found += of_kernel * math.exp(-abs(math.log2(one.threads / other.threads)) / effects.doublings)
    if one.launch == other.launch:
        found += effects.launch + effects.launch_generation * is_generation + effects.launch_gpu * is_gpu
    if one.is_unseen and one.microarchitecture == other.microarchitecture:
        found += effects.unseen
    return found


def era_of(capability: int) -> int:
    """Return the family of instruction sets of a compute capability: Kepler, Maxwell and Pascal, or Volta and later.

    Each family has an encoding and a way to schedule of its own; source: the instruction tables of NVIDIA's CUDA binary
    utilities.

    >>> [era_of(each) for each in (35, 52, 61, 70, 90)]
    [3, 5, 5, 7, 7]
    """
    generation = capability // 10
    return 7 if generation >= 7 else min(5, generation)


def _overlap(one: Subject, other: Subject) -> float:
    """Return how alike the limits of two launches are, 0 to 1 (Bhattacharyya's coefficient of their shares)."""
    others = dict(other.shares)
    return min(1.0, sum(math.sqrt(share * others.get(name, 0.0)) for name, share in one.shares))


@cache
def read_effects(path: Path = _FILE) -> Effects:
    """Read the variances of the effects; raises InputError for a faulty file."""
    try:
        found: dict[str, Any] = our_table(path)
        if (version := found["version"]) != VERSION:
            raise _faulty(path, f"version is {version!r:.40}, not {VERSION}")
        effects = Effects(**{name: float(value) for name, value in found["effects"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _faulty(path, str(error)[:200]) from None
    values = [getattr(effects, name) for name in Effects.__slots__]
    if not all(0 <= value < math.inf for value in values) or not effects.prior or not effects.doublings:
        raise _faulty(path, "a variance is not a positive number")
    return effects


def _faulty(path: Path, what: str) -> InputError:
    cure = "Write it by benchmarks/score_evidence.py, or install kerncast again."
    return InputError(f"the variances of evidence are faulty: {what}", where=str(path), cure=cure)
