"""One launch that was executed: its memory, what was counted, and which blocks ran."""

from dataclasses import dataclass, replace

from kerncast.compile import CompiledKernel
from kerncast.execute.sampling.budget import nominal_seconds
from kerncast.execute.sampling.sample import Sampler
from kerncast.execute.setup.arena import Touched
from kerncast.execute.setup.prepare import prepare
from kerncast.execute.setup.state import Setting
from kerncast.traces import Trace


@dataclass(frozen=True, slots=True)
class Executed:
    """A launch in memory, after its sample of blocks has run."""

    kernel: CompiledKernel
    setting: Setting
    trace: Trace
    sampler: Sampler
    is_independent: bool
    """whether no block may read what another one has written, so that blocks can run again on the same memory"""

    @property
    def nominal_seconds(self) -> float:
        """What running the whole grid is reckoned to cost."""
        return self.sampler.scale(nominal_seconds(self.trace.counts, self.trace.cfg.lengths)).value

    def fresh(self) -> Setting:
        """Return a setting in which blocks can run as if none had run before, with nothing touched."""
        setting = self.setting
        if not self.is_independent:
            return prepare(self.kernel, setting.launch, setting.budget)
        return replace(setting, touched=Touched(setting.arena))
