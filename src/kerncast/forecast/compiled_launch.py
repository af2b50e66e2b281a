"""One launch, compiled for the architectures asked for; its blocks run once per distinct PTX, when something asks."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kerncast.compile import CompiledKernel, CompiledSource, compile_request, request_for
from kerncast.errors import (
    BudgetExceededError,
    CompileError,
    DoesNotCompileError,
    KernelFault,
    LaunchError,
    MachineLimitError,
    NotExecutedError,
    Refusal,
    UnsupportedError,
)
from kerncast.execute import Budget, Executed, profile_of, run_launch
from kerncast.forecast.results import Results, execution_key, simulation_key
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.models import Case, Estimate, Model, Needs
from kerncast.models.sm.grid_memory import asks_for_neighbours
from kerncast.models.sm.plan import SMBlocks, blocks_to_simulate, busy_blocks, have_roles, plan_of
from kerncast.models.sm.whole_grid import block_far_longer
from kerncast.prediction import Timing
from kerncast.profiles import KernelProfile
from kerncast.traces import Execution, Recorder, SMRecording, SMTrace

if TYPE_CHECKING:
    from kerncast.execute.recording import LaunchRecorder

Progress = Callable[[str, int, int], None]
"""receives (what is done, part done, of how many)"""

_TARGET_LINE = re.compile(r"^\.target .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Means:
    """Budget, progress and memory for executing a launch."""

    budget: Budget | None = None
    progress: Progress | None = None
    results: Results = field(default_factory=Results)
    """results of this forecast and of earlier ones"""
    apart: bool = False
    """whether launches run in a process of their own, as far as somebody asks ``gathered`` for one"""
    reads_machine_code: bool = False
    """whether launches will be simulated, so that the disassembler can start before the sample runs"""
    by_averages: bool = False
    """whether averages stand for the machine code, as nobody waits until it is read"""
    counts_by_text: bool = False
    """whether a kernel that cannot be executed is counted by its text instead"""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a launch is known for no architecture, or not for one."""

    kernel: str
    architecture: str | None
    """architecture without the launch; None: all of them"""
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class CompiledLaunch:
    """A launch as the code of one architecture does it."""

    kernel: CompiledKernel
    profile: KernelProfile
    key: str
    """digest of all that decides what the blocks do"""
    run: "_Run"

    def recorder(self) -> "LaunchRecorder":
        """Return what runs further blocks; the sample runs first, where its counts were remembered."""
        return self.run.recorder().compiled_as(self.kernel)

    def with_caches(self, gpu: GPU) -> KernelProfile:
        """Return the profile with what the caches of a GPU let through, and with its machine instructions."""
        from kerncast.execute.on_gpu import with_gpu, without_caches  # noqa: PLC0415  LLVM takes time to load

        means = self.run.means

        def report(done: int, total: int) -> None:
            if means.progress:
                means.progress(f"caches of {gpu.name}", done, total)

        key = simulation_key(self.key, "caches", gpu, self.profile)
        try:
            return means.results.get(KernelProfile, key, lambda: with_gpu(self.profile, self.executed(), gpu, report))
        except MachineLimitError as limit:
            return without_caches(self.profile, self.executed(), limit)

    def with_machine_code(self) -> KernelProfile:
        """Return the profile with its machine instructions, which takes a tenth of the time that caches do."""
        from kerncast.execute.on_gpu import with_machine_code  # noqa: PLC0415

        return with_machine_code(self.profile, self.executed())

    def executed(self) -> Executed:
        """Return the launch in memory, after its sample has run."""
        return self.recorder().executed


@dataclass(frozen=True, slots=True)
class CompiledLaunches:
    """The profiles of one launch by architecture, and the refusals of the others."""

    found: tuple[tuple[str, CompiledLaunch], ...]
    failures: tuple[Failure, ...]

    def on(self, architecture: str) -> CompiledLaunch | None:
        """Return what the code of one architecture does, None where there is none."""
        return next((each for name, each in self.found if name == architecture), None)


def compile_and_count(launch: Launch, architectures: Sequence[str], means: Means | None = None) -> CompiledLaunches:
    """Compile a launch and count what its blocks do; architectures whose PTX is the same share one execution.

    Raises CompileError where the source compiles for none of them.
    """
    means = means or Means()
    if means.progress:
        means.progress(f"compiling {launch.label}", 0, 0)
    kernels, failures = _compile(launch, architectures)
    runs: dict[str, _Run] = {}
    found: list[tuple[str, CompiledLaunch]] = []
    for kernel in kernels:
        text = _TARGET_LINE.sub("", kernel.ptx)
        run = runs.setdefault(text, _Run(launch, means))
        run.kernels.append(kernel)
        try:
            found.append((kernel.architecture, _counted(kernel, run)))
        except Refusal as refusal:
            if run.kernel is kernel:  # told once for all architectures with this PTX
                failures.append(Failure(kernel.kernel, None, refusal.copied()))
    return CompiledLaunches(tuple(found), tuple(failures))


def compile_launch(launch: Launch, architectures: Sequence[str]) -> CompiledSource:
    """Compile the kernel of a launch for some architectures; raises CompileError."""
    return compile_request(request_for(launch, architectures))


def with_compiler_caveats(found: KernelProfile, kernel: CompiledKernel) -> KernelProfile:
    """Return a profile with what the compiler had to say."""
    return replace(found, resources=kernel.resources, caveats=(*found.caveats, *kernel.caveats))


@dataclass(slots=True)
class _Run:
    """The sample of one PTX, which runs when it is first asked for, and not again where it was refused."""

    launch: Launch
    means: Means
    kernels: list[CompiledKernel] = field(default_factory=list)
    """all that have this PTX, one for each architecture"""
    done: "LaunchRecorder | Refusal | None" = field(default=None, repr=False)

    @property
    def kernel(self) -> CompiledKernel:
        """The first of them, which runs for all."""
        return self.kernels[0]

    def recorder(self) -> "LaunchRecorder":
        """Return what runs further blocks; raises the Refusal of the sample."""
        from kerncast.execute.recording import LaunchRecorder  # noqa: PLC0415  LLVM takes time to load

        if self.done is None:
            self._report(0, 0)
            if self.means.reads_machine_code:
                self.begin_machine_code()
            try:
                executed = run_launch(self.kernel, self.launch, self.means.budget, self._report)
                self.done = LaunchRecorder.after(executed, by_averages=self.means.by_averages)
            except Refusal as refusal:
                self.done = refusal.copied()
        if isinstance(self.done, Refusal):
            raise self.done.copied()
        return self.done

    def begin_machine_code(self) -> None:
        """Start to read the machine code of all architectures, which goes on while blocks are recorded."""
        if self.means.by_averages:
            return
        from kerncast.machine.listing import begin  # noqa: PLC0415  a forecast by counts does without

        for kernel in self.kernels:
            begin(kernel.cubin, kernel.architecture)

    def _report(self, done: int, total: int) -> None:
        if self.means.progress:
            self.means.progress(f"executing {self.launch.label}", done, total)


def _counted(kernel: CompiledKernel, run: _Run) -> CompiledLaunch:
    """Return the counts of a launch as compiled for one architecture, remembered or counted now; raises Refusal."""

    def count() -> KernelProfile:
        executed = run.recorder().executed
        return profile_of(executed.trace, executed.sampler, kernel, run.launch)

    budget = run.means.budget or Budget()
    key = execution_key(kernel, run.launch, budget)
    try:
        profile = run.means.results.get(KernelProfile, key, count)
    except NotExecutedError as refusal:
        if not run.means.counts_by_text:
            raise
        profile = _by_text(kernel, run, refusal.copied(), key)
    # Equal launches of one file differ in their place in it.
    profile = with_compiler_caveats(replace(profile, index=run.launch.index), kernel)
    return CompiledLaunch(kernel, profile, key, run)


def _by_text(kernel: CompiledKernel, run: _Run, refusal: NotExecutedError, key: str) -> KernelProfile:
    """Return the counts of a launch without running it; raises the refusal where they cannot be known, and why."""
    from kerncast.execute.static import NotCountedError, count_by_text  # noqa: PLC0415  few launches need it

    def count() -> KernelProfile:
        return count_by_text(kernel, run.launch, refusal, run.means.budget or Budget())

    if run.means.progress:
        run.means.progress(f"counting {run.launch.label} by its text", 0, 0)
    try:
        return run.means.results.get(KernelProfile, simulation_key(key, "text"), count)
    except NotCountedError as error:
        why = f"; nor can it be counted without execution: {error.where}: " if error.where else "; without execution, "
        raise NotExecutedError(f"{refusal.what}{why}{error.what}", where=refusal.where, cure=refusal.cure) from None


def _compile(launch: Launch, architectures: Sequence[str]) -> tuple[list[CompiledKernel], list[Failure]]:
    """Compile for every architecture, one by one where not all can be compiled for."""
    names = list(dict.fromkeys(architectures))
    try:
        return list(compile_launch(launch, names).kernels), []
    except CompileError as error:
        if len(names) == 1:
            raise
        first_error = error
    compiled: list[CompiledKernel] = []
    errors: dict[str, CompileError] = {}
    for name in names:
        try:
            compiled += compile_launch(launch, [name]).kernels
        except CompileError as error:
            errors[name] = error
    if not compiled:
        raise first_error
    kernel = compiled[0].kernel
    failures = [
        Failure(kernel, name, DoesNotCompileError(f"the source does not compile for {name}: {error}"))
        for name, error in errors.items()
    ]
    return compiled, failures


_CURE = "Use --model roofline."


@dataclass(frozen=True, slots=True)
class Source:
    """The launch behind a case, which can run again for a model that asks for more than counts."""

    launch: CompiledLaunch
    case: Case | None = None
    """the launch as compiled for the GPU, where the forecast's case is a profile's; None: the forecast's case"""

    def estimate(
        self, model: Model, case: Case, timing: Timing, gather: Callable[[], Execution] | None = None
    ) -> Estimate:
        """Return what a model's equations give, with what it needs gathered; raises Refusal.

        Simulations are remembered: they depend on the execution, the profile, the GPU and the disassembler alone.
        ``gather`` returns what a simulation of this very case would gather itself, where the caller keeps that.
        """
        if model.needs is Needs.COUNTS:
            return model.estimate(case, timing)
        if model.needs is Needs.SAMPLE:
            return model.estimate(replace(case, execution=self.launch.recorder().execution()), timing)

        means = self.launch.run.means

        def simulate() -> Estimate:
            self.launch.run.begin_machine_code()
            if gather is None:
                execution = gathered(case.profile, case.gpu, self.launch.recorder(), means.progress)
            else:
                execution = gather()
            return model.estimate(replace(case, execution=execution), timing)

        facts = (model.name, timing, case.gpu, self.launch.kernel.resources)
        key = simulation_key(self.launch.key, *facts, *(["by averages"] if means.by_averages else []))
        return means.results.get(Estimate, key, simulate)


def gathered(profile: KernelProfile, gpu: GPU, recorder: Recorder, progress: Progress | None = None) -> Execution:
    """Return an execution with all that the simulation of one SM of a GPU asks for.

    Raises Refusal where the blocks of one SM cannot run by themselves.
    """
    if progress:
        _announce_compilation(progress)
    try:
        return _gathered(profile, gpu, recorder)
    except LaunchError as error:  # more shared memory than an SM has: forced
        raise UnsupportedError(error.what, cure=_CURE) from None
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
    execution = recorder.execution()
    plan = plan_of(profile, gpu, execution.trace.function.instructions)
    asked = gpu.sm_count, plan.load.simulated
    share = recorder.share(*asked) if execution.takes_turns else None
    traces: tuple[SMTrace, ...] = (share or recorder.sm_blocks(*asked),)
    if profile.clusters is not None and profile.clusters.blocks > 1 and have_roles(traces[0]):
        traces = recorder.clusters(*asked)
    blocks = blocks_to_simulate(plan, execution, *traces)
    sm = SMRecording(traces[0], recorder.footprint(), _side_by_side(blocks, recorder))
    if len(traces) > 1:
        return replace(execution, sm=replace(sm, ranks=traces), machine=recorder.machine_code())
    kept = None if blocks.plan.grid_blocks == execution.grid_blocks else busy_blocks(execution)
    longest = block_far_longer(execution, blocks.trace, kept)
    if longest is not None:
        sm = replace(sm, longest=recorder.block(longest))
    return replace(execution, sm=sm, machine=recorder.machine_code())


def _side_by_side(blocks: SMBlocks, recorder: Recorder) -> SMTrace | None:
    """Record two blocks with consecutive numbers, where all SMs may wait for one line; None where they cannot run."""
    if not asks_for_neighbours(blocks.trace, blocks.grid):
        return None
    try:
        return recorder.sm_blocks(1, 2)
    except MachineLimitError:
        raise  # without them the estimate is another one, which would be remembered
    except (UnsupportedError, KernelFault, BudgetExceededError):
        return None
