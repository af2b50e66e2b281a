"""Rules of thumb and published models beside the residual, as far as a case holds what they need.

Without a time: each forecasts by counts and data sheet, from the roofline's terms (work over peak rate, bytes over
bandwidth). With a time on another GPU: each scales it. Occupancy is that of threads and registers; shared memory per
block is no part of a case. A rule that lacks a number says nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kerncast.occupancy import BlockRequest, Occupancy, occupancy
from kerncast.studies.zero_shot.cases import ROOFLINE, TEMPLATE, StudyCase

#: Terms of the roofline by what they are.
_COMPUTE = ("fp32", "fp64", "integer", "special")
_MEMORY = ("l2", "dram")


@dataclass(frozen=True, slots=True)
class Alone:
    """A model that needs no time; seconds, or None where it says nothing."""

    name: str
    source: str
    seconds: Callable[[StudyCase], float | None]


@dataclass(frozen=True, slots=True)
class Carried:
    """A rule that scales a time: the factor from the first case to the second, or None where it says nothing."""

    name: str
    source: str
    factor: Callable[[StudyCase, StudyCase], float | None]


def _roofline(case: StudyCase) -> float | None:
    found = case.case.by(ROOFLINE)
    return found.seconds if found else None


def _template(case: StudyCase) -> float | None:
    found = case.case.by(TEMPLATE)
    return found.seconds if found else None


def _terms(case: StudyCase) -> dict[str, float] | None:
    found = case.case.by(ROOFLINE)
    return dict(found.terms) if found and any(dict(found.terms).get(name) for name in _MEMORY) else None


def _instructions(case: StudyCase) -> float | None:
    """Warp instructions over issue rate, or bytes over bandwidth, whichever takes longer."""
    terms = _terms(case)
    return None if terms is None else max(terms.get(name, 0.0) for name in ("issue", *_MEMORY))


def _sum(case: StudyCase) -> float | None:
    """Computing and memory one after the other: nothing overlaps."""
    terms = _terms(case)
    if terms is None:
        return None
    return max(terms.get(name, 0.0) for name in _COMPUTE) + max(terms.get(name, 0.0) for name in _MEMORY)


ALONE = (
    Alone("roofline", "Williams, Waterman, Patterson 2009, with levels of memory and issue", _roofline),
    Alone("template", "van Lanker 2024", _template),
    Alone("instruction roofline", "Ding, Williams 2019", _instructions),
    Alone("sum of computing and memory", "Kothapalli et al. 2009, without overlap", _sum),
)


def _sm_clock(source: StudyCase, target: StudyCase) -> float | None:
    return source.gpu.sm_count * source.gpu.clock_hz / (target.gpu.sm_count * target.gpu.clock_hz)


def _bandwidth(source: StudyCase, target: StudyCase) -> float | None:
    return source.gpu.dram_bytes_per_s / target.gpu.dram_bytes_per_s


def _by_roofline(source: StudyCase, target: StudyCase) -> float | None:
    one, other = _roofline(source), _roofline(target)
    return other / one if one and other else None


def _by_simulation(source: StudyCase, target: StudyCase) -> float | None:
    return target.simulated.seconds / source.simulated.seconds


def _algorithm1(source: StudyCase, target: StudyCase) -> float | None:
    """T x Roof_src / Roof_tgt x O_src / O_tgt: the roof of FLOP and DRAM bytes at peak, and occupancy."""
    one, other = (_two_roofs(case) for case in (source, target))
    full, fuller = (_occupancy(case) for case in (source, target))
    return other / one * full / fuller if one and other and full and fuller else None


def _two_roofs(case: StudyCase) -> float | None:
    terms = _terms(case)
    return None if terms is None else max(terms.get("fp32", 0.0), terms.get("dram", 0.0)) or None


def _occupancy(case: StudyCase) -> float | None:
    """Return warps over the most that an SM holds, by threads and registers."""
    return _resident(case).fraction or None


def _resident(case: StudyCase) -> Occupancy:
    registers = case.case.registers or 0
    return occupancy(BlockRequest(case.case.threads_per_block, registers), case.gpu.architecture)


def _waves(source: StudyCase, target: StudyCase) -> float | None:
    """Return the factor of wave scaling: D, C and W of Yu et al., equation 2, gamma by arithmetic intensity."""
    one, other = (_resident(case).blocks_per_sm * case.gpu.sm_count for case in (source, target))
    terms = _terms(source)
    if not one or not other or terms is None:
        return None
    compute, memory = (max(terms.get(name, 0.0) for name in names) for names in (_COMPUTE, _MEMORY))
    gamma = 1 - 0.5 * compute / memory if memory >= compute else 0.5 * memory / compute
    bandwidth = source.gpu.dram_bytes_per_s / target.gpu.dram_bytes_per_s
    clock = source.gpu.clock_hz / target.gpu.clock_hz
    return float((bandwidth * other / one) ** gamma * clock ** (1 - gamma) * one / other)


CARRIED = (
    Carried("simulation x time / simulation", "this project, without a posterior", _by_simulation),
    Carried("roofline x time / roofline", "Williams, Waterman, Patterson 2009", _by_roofline),
    Carried("Algorithm 1", "the first seed of this project, equation 4", _algorithm1),
    Carried("wave scaling", "Habitat, Yu et al. 2021, equation 2", _waves),
    Carried("SMs x clock", "rule of thumb", _sm_clock),
    Carried("DRAM bandwidth", "rule of thumb", _bandwidth),
)
