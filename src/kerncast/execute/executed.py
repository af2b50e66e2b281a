"""One launch that was executed: its memory, what was counted, and which blocks ran."""

from dataclasses import dataclass, replace

from kerncast.compile import CompiledKernel
from kerncast.execute.prepare import prepare
from kerncast.execute.sample import Sampler
from kerncast.execute.state import Setting
from kerncast.execute.touched import Touched
from kerncast.launch import Buffer
from kerncast.trace import Trace


@dataclass(frozen=True, slots=True)
class Executed:
    """A launch after its sample of blocks has run."""

    kernel: CompiledKernel
    setting: Setting
    trace: Trace
    sampler: Sampler

    def fresh(self) -> Setting:
        """Return a setting in which blocks can run as if none had run before, with nothing touched.

        Memory is set up again where some block may read what another one has written.
        """
        from kerncast.execute.native.independence import blocks_are_independent  # noqa: PLC0415  LLVM takes time

        setting = self.setting
        buffers = frozenset(a.parameter.name for a in setting.arguments if isinstance(a.argument.value, Buffer))
        if not blocks_are_independent(setting.program, buffers):
            return prepare(self.kernel, setting.launch, setting.budget)
        return replace(setting, touched=Touched(setting.arena))
