"""What a model needs of a launch that can be executed, gathered before the model runs."""

from dataclasses import dataclass, replace

from kerncast.errors import BudgetExceededError, KernelFault, MachineLimitError, UnsupportedError
from kerncast.forecast.compiled_launch import CompiledLaunch, Progress
from kerncast.forecast.results import Results, simulation_key
from kerncast.gpu import GPU
from kerncast.models import Case, Estimate, Model, Needs
from kerncast.models.sm.grid_memory import asks_for_neighbours
from kerncast.models.sm.plan import SMBlocks, blocks_to_simulate, busy_blocks, plan_of
from kerncast.models.sm.whole_grid import block_far_longer
from kerncast.prediction import Timing
from kerncast.profiles import KernelProfile
from kerncast.traces import Execution, Recorder, SMRecording, SMTrace

_CURE = "Use --model roofline."


@dataclass(frozen=True, slots=True)
class Source:
    """The launch behind a case, which can run again for a model that asks for more than counts."""

    launch: CompiledLaunch
    progress: Progress | None = None

    def estimate(self, model: Model, case: Case, timing: Timing) -> Estimate:
        """Return what a model's equations give, with what it needs gathered; raises Refusal.

        Simulations are remembered: they depend on the execution, the profile and the GPU alone.
        """
        if model.needs is Needs.COUNTS:
            return model.estimate(case, timing)
        if model.needs is Needs.SAMPLE:
            return model.estimate(replace(case, execution=self.launch.recorder().execution()), timing)

        def simulate() -> Estimate:
            execution = gathered(case.profile, case.gpu, self.launch.recorder(), self.progress)
            return model.estimate(replace(case, execution=execution), timing)

        key = simulation_key(self.launch.key, model.name, timing, case.gpu, self.launch.kernel.resources)
        return Results.of(Estimate).get(key, simulate)


def gathered(profile: KernelProfile, gpu: GPU, recorder: Recorder, progress: Progress | None = None) -> Execution:
    """Return an execution with all that the simulation of one SM of a GPU asks for.

    Raises Refusal where the blocks of one SM cannot run by themselves.
    """
    if progress:
        _announce_compilation(progress)
    try:
        return _gathered(profile, gpu, recorder)
    except MemoryError:
        raise MachineLimitError("the simulation needs more memory than is free", cure=_CURE) from None
    except (UnsupportedError, KernelFault, BudgetExceededError) as refusal:
        what = f"the blocks of one SM could not be run by themselves: {refusal.what}"
        raise type(refusal)(what, where=refusal.where, cure=_CURE) from None


def _announce_compilation(progress: Progress) -> None:
    from kerncast.models.sm.simulate import is_prepared  # noqa: PLC0415  numba takes time to load

    if not is_prepared():
        progress("compiling the simulator (once)", 0, 0)


def _gathered(profile: KernelProfile, gpu: GPU, recorder: Recorder) -> Execution:
    execution, plan = recorder.execution(), plan_of(profile, gpu)
    recorded = recorder.sm_blocks(gpu.sm_count, plan.load.simulated)
    blocks = blocks_to_simulate(plan, execution, recorded)
    sm = SMRecording(recorded, recorder.footprint(), _side_by_side(blocks, recorder))
    kept = None if blocks.plan.grid_blocks == execution.grid_blocks else busy_blocks(execution)
    longest = block_far_longer(execution, blocks.trace, kept)
    if longest is not None:
        sm = replace(sm, longest=recorder.block(longest))
    return replace(execution, sm=sm)


def _side_by_side(blocks: SMBlocks, recorder: Recorder) -> SMTrace | None:
    """Record two blocks with consecutive numbers, where all SMs may wait for one line; None where they cannot run."""
    if not asks_for_neighbours(blocks.trace, blocks.grid):
        return None
    try:
        return recorder.sm_blocks(1, 2)
    except (UnsupportedError, KernelFault, BudgetExceededError):
        return None
