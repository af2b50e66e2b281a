"""Recount: a simulated time as it is when the counters of a run replace what the executor counted.

The executor sees the inputs that a launch file gives, and caches that it simulates. A profiler counted the real run:
how many instructions it took, and how much each level of memory moved. Their ratio on the GPU of the run holds on
other GPUs, too: a launch that does twice the work does so everywhere.

    T = (S^p + W^p)^(1/p), S = soft maximum of t_k;  T' = (S'^p + (r W)^p)^(1/p), S' = soft maximum of r_k t_k

t_k is the time that resource k alone would need, W what warps wait, r_k counted over executed, r that of instructions;
the exponents are those of ``pipes``. Fails when: the run's inputs change which resource a part of the kernel needs.
"""

import math
from dataclasses import dataclass

from kerncast.caveats import CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.models.base import Estimate
from kerncast.models.transfer.pipes import joined, resource_cycles, resources_joined, waiting, work_of
from kerncast.profiles import KernelProfile

#: Executed counts that lie this near to a run's are left alone, in ln: of 118 builds of a convolution, instructions
#: were within 3 %, shared memory within 1 %, and DRAM bytes, but for spills, within 6 %.
_NEAR = 0.1
WORK = "issue"
#: Bytes of L2 are left out: its counters hold the fetches of instructions, which are those of one build.
_LEVELS = ("shared", "dram")


@dataclass(frozen=True, slots=True)
class Ratio:
    """Counted over executed."""

    resource: str
    value: float


@dataclass(frozen=True, slots=True)
class Recount:
    """How far a run's counters are from what the executor counted; empty where they agree."""

    work: float = 1.0
    """instructions"""
    levels: tuple[Ratio, ...] = ()
    """shared memory and DRAM, those that differ by more than the work does"""

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return self.work != 1.0 or bool(self.levels)

    def seconds(self, estimate: Estimate) -> float:
        """Return an estimate's time with the counters of the run.

        Twice the work takes twice the time, but for the launch:

        >>> from kerncast.prediction import Term
        >>> terms = Term("dram", 6.0), Term("issue", 3.0), Term("launch", 1.0)
        >>> Recount(2.0).seconds(Estimate(11.0, "dram", terms, 11.0, 11.0))
        21.0
        """
        launch = math.fsum(term.seconds for term in estimate.terms if term.name == "launch")
        body = estimate.seconds - launch
        times = {term.name: term.seconds for term in estimate.terms if term.name != "launch"}
        if not self or not times or body <= 0:
            return estimate.seconds
        own = {ratio.resource: ratio.value for ratio in self.levels}
        before = resources_joined(list(times.values()))
        after = resources_joined([each * own.get(name, self.work) for name, each in times.items()])
        if before >= body:
            return launch + body * after / before
        return launch + joined(after, self.work * waiting(body, before, 1.0))


def recount_of(profile: KernelProfile, gpu: GPU, estimate: Estimate) -> Recount:
    """Return how the counters of a profile differ from an estimate on the same GPU; empty where they are too few."""
    try:
        cycles = resource_cycles(work_of(profile), gpu)
    except MissingEvidenceError:
        return Recount()
    executed = {term.name: term.seconds for term in estimate.terms}
    found = {
        name: cycles[name] / gpu.clock_hz / executed[name]
        for name in (WORK, *_LEVELS)
        if cycles.get(name) and executed.get(name)
    }
    if any(each.kind is CaveatKind.CACHES_EMPTIED for each in profile.caveats):
        found.pop("dram", None)  # before the passes of a profiler only
    work = found.pop(WORK, 1.0)
    work = work if _differs(work) else 1.0
    return Recount(work, tuple(Ratio(name, each) for name, each in found.items() if _differs(each / work)))


def _differs(ratio: float) -> bool:
    return abs(math.log(ratio)) > _NEAR
