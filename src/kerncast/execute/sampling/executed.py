"""One launch that was executed: its memory, what was counted, and which blocks ran."""

from dataclasses import dataclass, replace
from functools import cached_property

from kerncast.compile import CompiledKernel
from kerncast.execute.sampling.budget import nominal_seconds
from kerncast.execute.sampling.sample import Sampler
from kerncast.execute.setup.arena import Touched
from kerncast.execute.setup.arguments import own_buffers
from kerncast.execute.setup.prepare import prepare
from kerncast.execute.setup.state import Setting
from kerncast.traces import FootprintCurve, Trace


@dataclass(frozen=True)  # no slots: what is derived is computed once and kept
class Executed:
    """A launch after its sample of blocks has run."""

    kernel: CompiledKernel
    setting: Setting
    trace: Trace
    sampler: Sampler
    original: "Executed | None" = None
    """the same execution under the architecture that came first: what no architecture changes is kept there"""

    def compiled_as(self, kernel: CompiledKernel) -> "Executed":
        """Return this execution for another architecture whose PTX is the same."""
        return replace(self, kernel=kernel, original=self.original or self)

    @cached_property
    def nominal_seconds(self) -> float:
        """What running the whole grid is reckoned to cost."""
        return self.sampler.scale(nominal_seconds(self.trace.counts, self.trace.cfg.lengths)).value

    @cached_property
    def footprint(self) -> FootprintCurve:
        """What neighbouring blocks touch together; raises what running blocks raises."""
        from kerncast.execute.recording.neighbours import footprint_curve  # noqa: PLC0415  LLVM takes time

        if self.original is not None:
            return self.original.footprint
        return footprint_curve(self, self.setting.budget.sample_seconds)

    @cached_property
    def is_independent(self) -> bool:
        """Whether no block may read what another one has written, so that blocks can run again on the same memory."""
        from kerncast.execute.native.independence import blocks_are_independent  # noqa: PLC0415  LLVM takes time

        if self.original is not None:
            return self.original.is_independent
        return blocks_are_independent(self.setting.program, own_buffers(self.setting.arguments))

    def fresh(self) -> Setting:
        """Return a setting in which blocks can run as if none had run before, with nothing touched."""
        setting = self.setting
        if not self.is_independent:
            return prepare(self.kernel, setting.launch, setting.budget)
        return replace(setting, touched=Touched(setting.arena))
