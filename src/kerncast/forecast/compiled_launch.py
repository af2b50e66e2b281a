"""One launch, compiled for the architectures asked for; its blocks run once per distinct PTX, when something asks."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kerncast.compile import CompiledKernel, CompiledSource, compile_request, request_for
from kerncast.errors import CompileError, Refusal
from kerncast.execute import Budget, Executed, profile_of, run_launch
from kerncast.forecast.results import Results, execution_key
from kerncast.launch import Launch
from kerncast.profiles import KernelProfile

if TYPE_CHECKING:
    from kerncast.execute.recording.launch_recorder import LaunchRecorder

Progress = Callable[[str, int, int], None]
"""called with (what is done, part done, of how many)"""

_TARGET_LINE = re.compile(r"^\.target .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a launch is known for no architecture, or not for one."""

    kernel: str
    architecture: str | None
    """None: for none"""
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class CompiledLaunch:
    """A launch as the code of one architecture does it."""

    kernel: CompiledKernel
    profile: KernelProfile
    key: str
    """digest of all that decides what its blocks do"""
    run: "_Run"

    def recorder(self) -> "LaunchRecorder":
        """Return what runs further blocks; the sample runs first, where its counts were remembered."""
        return self.run.recorder().compiled_as(self.kernel)

    def executed(self) -> Executed:
        """Return the launch in memory, after its sample has run."""
        return self.recorder().executed


@dataclass(frozen=True, slots=True)
class CompiledLaunches:
    """What came of one launch: a profile per architecture, and why others have none."""

    found: tuple[tuple[str, CompiledLaunch], ...]
    failures: tuple[Failure, ...]

    def on(self, architecture: str) -> CompiledLaunch | None:
        """Return what the code of one architecture does, None where there is none."""
        return next((each for name, each in self.found if name == architecture), None)


def compile_and_count(
    launch: Launch, architectures: Sequence[str], budget: Budget | None, progress: Progress | None
) -> CompiledLaunches:
    """Compile a launch and count what its blocks do; architectures whose PTX is the same share one execution.

    Raises CompileError where the source compiles for none of them.
    """
    if progress:
        progress(f"compiling {launch.label}", 0, 0)
    kernels, failures = _compile(launch, architectures)
    runs: dict[str, _Run] = {}
    found: list[tuple[str, CompiledLaunch]] = []
    for kernel in kernels:
        text = _TARGET_LINE.sub("", kernel.ptx)
        run = runs.setdefault(text, _Run(kernel, launch, budget, progress))
        try:
            found.append((kernel.architecture, _counted(kernel, run)))
        except Refusal as refusal:
            if run.kernel is kernel:  # told once for all architectures with this PTX
                failures.append(Failure(kernel.kernel, None, refusal))
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

    kernel: CompiledKernel
    launch: Launch
    budget: Budget | None
    progress: Progress | None
    done: "LaunchRecorder | Refusal | None" = field(default=None, repr=False)

    def recorder(self) -> "LaunchRecorder":
        """Return what runs further blocks; raises the Refusal of the sample."""
        from kerncast.execute.recording.launch_recorder import LaunchRecorder  # noqa: PLC0415  LLVM takes time to load

        if self.done is None:
            self._report(0, 0)
            try:
                self.done = LaunchRecorder.after(run_launch(self.kernel, self.launch, self.budget, self._report))
            except Refusal as refusal:
                self.done = refusal
        if isinstance(self.done, Refusal):
            raise self.done
        return self.done

    def _report(self, done: int, total: int) -> None:
        if self.progress:
            self.progress(f"executing {self.launch.label}", done, total)


def _counted(kernel: CompiledKernel, run: _Run) -> CompiledLaunch:
    """Return the counts of a launch as compiled for one architecture, remembered or counted now; raises Refusal."""

    def count() -> KernelProfile:
        executed = run.recorder().executed
        return profile_of(executed.trace, executed.sampler, kernel, run.launch)

    key = execution_key(kernel, run.launch, run.budget or Budget())
    profile = Results.of(KernelProfile).get(key, count)
    # Equal launches of one file differ in their place in it.
    profile = with_compiler_caveats(replace(profile, index=run.launch.index), kernel)
    return CompiledLaunch(kernel, profile, key, run)


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
        Failure(kernel, name, Refusal(f"the source does not compile for {name}: {error}"))
        for name, error in errors.items()
    ]
    return compiled, failures
