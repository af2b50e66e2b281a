"""Recount: a simulated time as it is when the counters of a run replace what the simulation reckons with.

The executor sees the inputs that a launch file gives, and caches that it simulates. A profiler counted the real run:
how many instructions it took, and how much DRAM moved. Their ratio on the GPU of the run holds on other GPUs, too: a
launch that does twice the work does so everywhere.

    T = (S^p + W^p)^(1/p), S = soft maximum of t_k;  T' = (S'^p + (r W)^p)^(1/p), S' = soft maximum of r_k t_k

t_k is the time that resource k alone would need, W what warps wait, r_k the run's share of it, r that of instructions;
the exponents are those of ``pipes``. Fails when: the run's inputs change which resource a part of the kernel needs.
"""

import math
from dataclasses import dataclass, replace

from kerncast.caveats import CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.models.base import Estimate
from kerncast.models.transfer.pipes import joined, resource_cycles, resources_joined, waiting, work_of
from kerncast.prediction import Term
from kerncast.profiles import KernelProfile

#: Ratios this near to 1 say nothing of the inputs, in ln. Machine code is estimated within 20 %; a profile of one
#: kernel lacks the writes that L2 keeps, a quarter of a stream's, which the simulated series of launches has.
_NEAR_WORK, _NEAR_DRAM = math.log(1.3), math.log(1.6)
_WORK, _DRAM, _LAUNCH = "issue", "dram", "launch"


@dataclass(frozen=True, slots=True)
class Recount:
    """How far a run's counters are from what the simulation reckons with; 1 where they agree."""

    work: float = 1.0
    """instructions"""
    dram: float = 1.0
    """bytes of DRAM"""

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return (self.work, self.dram) != (1.0, 1.0)

    def of(self, estimate: Estimate) -> Estimate:
        """Return an estimate with the counters of the run.

        Twice the work takes twice the time, but for the launch:

        >>> terms = Term("dram", 6.0), Term("issue", 3.0), Term("launch", 1.0)
        >>> found = Recount(2.0, 2.0).of(Estimate(11.0, "dram", terms, 11.0, 11.0))
        >>> found.seconds, found.terms[0]
        (21.0, Term(name='dram', seconds=12.0))
        """
        launch = math.fsum(term.seconds for term in estimate.terms if term.name == _LAUNCH)
        before = {term.name: term.seconds for term in estimate.terms if term.name != _LAUNCH}
        body = estimate.seconds - launch
        if not self or not before or body <= 0:
            return estimate
        after = {name: each * (self.dram if name == _DRAM else self.work) for name, each in before.items()}
        seconds = launch + self._body(body, list(before.values()), list(after.values()))
        terms = tuple(Term(term.name, after.get(term.name, term.seconds)) for term in estimate.terms)
        scale = seconds / estimate.seconds
        limiter = max(terms, key=lambda term: term.seconds).name if estimate.limiter in after else estimate.limiter
        return replace(
            estimate,
            seconds=seconds,
            low=estimate.low * scale,
            high=estimate.high * scale,
            terms=terms,
            limiter=limiter,
        )

    def _body(self, body: float, before: list[float], after: list[float]) -> float:
        """Return the time without its launch; resources take as long as given, before and after."""
        roof = resources_joined(before)
        if roof >= body:
            return body * resources_joined(after) / roof
        return joined(resources_joined(after), self.work * waiting(body, roof, 1.0))


def recount_of(profile: KernelProfile, gpu: GPU, estimate: Estimate) -> Recount:
    """Return how the counters of a profile differ from an estimate on the same GPU; empty where they are too few."""
    try:
        cycles = resource_cycles(work_of(profile), gpu)
    except MissingEvidenceError:
        return Recount()
    reckoned = {term.name: term.seconds for term in estimate.terms}
    work, dram = (
        cycles[name] / gpu.clock_hz / reckoned[name] if cycles.get(name) and reckoned.get(name) else None
        for name in (_WORK, _DRAM)
    )
    work = work if work is not None and abs(math.log(work)) > _NEAR_WORK else 1.0
    # Before the passes of a profiler only.
    is_emptied = any(each.kind is CaveatKind.CACHES_EMPTIED for each in profile.caveats)
    differs = dram is not None and not is_emptied and abs(math.log(dram / work)) > _NEAR_DRAM
    return Recount(work, dram if dram is not None and differs else work)
