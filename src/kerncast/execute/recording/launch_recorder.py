"""Runs further blocks of a launch for a model, after its sample has run."""

from dataclasses import dataclass, field, replace

import numpy as np

from kerncast.compile import CompiledKernel
from kerncast.errors import UnsupportedError
from kerncast.execute.native import TooLargeError
from kerncast.execute.recording.neighbours import footprint_curve
from kerncast.execute.recording.sm_blocks import record_blocks, record_sm
from kerncast.execute.sampling.executed import Executed
from kerncast.traces import MOST_EVENTS, Execution, FootprintCurve, SMTrace

#: One SM's blocks alone may wait for others for ever. A block that takes this many times the steps of the longest block
#: of the sample is taken to wait: many times that of short blocks, a few times that of blocks which are long anyway.
_MOST_TIMES_LONGEST, _FEWEST_TIMES_LONGEST = 100, 4
_LEAST_STEPS, _MANY_STEPS = 100_000, 20_000_000
#: What neighbouring blocks may cost, in nominal seconds, where the whole grid was asked for.
_MOST_SECONDS = 7.5


@dataclass(frozen=True, slots=True)
class LaunchRecorder:
    """The Recorder of one launch; those of several architectures with the same PTX share what none of them changes."""

    executed: Executed
    shared: dict[str, FootprintCurve] = field(default_factory=dict)

    @classmethod
    def after(cls, executed: Executed) -> "LaunchRecorder":
        """Return the recorder of a launch whose sample has run; its further blocks end soon."""
        budget = executed.setting.budget
        longest = int(executed.trace.counts.block_warps.sum(axis=1).max())
        times = min(_MOST_TIMES_LONGEST, max(_FEWEST_TIMES_LONGEST, _MANY_STEPS // max(1, longest)))
        shorter = replace(
            budget,
            block_steps=min(budget.block_steps, _LEAST_STEPS + times * longest),
            sample_seconds=min(budget.sample_seconds, _MOST_SECONDS),
        )
        return cls(replace(executed, setting=replace(executed.setting, budget=shorter)))

    def compiled_as(self, kernel: CompiledKernel) -> "LaunchRecorder":
        """Return the recorder for another architecture whose PTX is the same."""
        return LaunchRecorder(replace(self.executed, kernel=kernel), self.shared)

    def execution(self) -> Execution:
        """Return the sample."""
        executed = self.executed
        return Execution(executed.trace, executed.sampler.weights(), executed.is_independent)

    def footprint(self) -> FootprintCurve:
        """Return how many distinct sectors growing groups of neighbouring blocks touch; they run once."""
        if "footprint" not in self.shared:
            executed = self.executed
            try:
                self.shared["footprint"] = footprint_curve(executed, executed.setting.budget.sample_seconds)
            except TooLargeError:
                raise _too_large() from None
        return self.shared["footprint"]

    def sm_blocks(self, sms: int, blocks: int) -> SMTrace:
        """Record so many of the blocks that one of ``sms`` SMs gets, fewer where they make too many events."""
        try:
            return record_sm(self.executed, sms, blocks, MOST_EVENTS)
        except TooLargeError:
            raise _too_large() from None

    def block(self, number: int) -> SMTrace:
        """Record one block of the grid."""
        try:
            return record_blocks(self.executed, np.array([number], np.int64), MOST_EVENTS)
        except TooLargeError:
            raise _too_large() from None


def _too_large() -> UnsupportedError:
    return UnsupportedError("the kernel is too large to be compiled for this CPU")
