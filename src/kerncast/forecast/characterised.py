"""One launch, compiled for the architectures asked for and executed once per distinct PTX."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kerncast.compile import CompiledKernel, CompiledSource, compile_request, request_for
from kerncast.errors import CompileError, Refusal
from kerncast.execute import Budget, Executed, profile_of, run_launch
from kerncast.launch import Launch
from kerncast.profiles import KernelProfile

Progress = Callable[[str, int, int], None]
"""called with (what is done, part done, of how many)"""

#: Of the blocks that one SM gets, for a simulation; the sample of blocks has the budget's time.
_MOST_RECORDING_SECONDS = 15.0
#: A block of it that takes this many times the steps of the longest block of the sample waits for another one.
_MOST_TIMES_LONGEST, _LEAST_STEPS = 100, 100_000
_TARGET_LINE = re.compile(r"^\.target .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Characterised:
    """A launch as one architecture's code does it."""

    profile: KernelProfile
    executed: Executed


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a launch is known for no architecture, or not for one."""

    kernel: str
    architecture: str | None
    """None: for none"""
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Characterisation:
    """What came of one launch: a profile per architecture, and why others have none."""

    found: tuple[tuple[str, Characterised], ...]
    failures: tuple[Failure, ...]

    def on(self, architecture: str) -> Characterised | None:
        """Return what the code of one architecture does, None where there is none."""
        return next((each for name, each in self.found if name == architecture), None)


def characterise_launch(
    launch: Launch, architectures: Sequence[str], budget: Budget | None, progress: Progress | None
) -> Characterisation:
    """Compile and execute a launch; architectures whose PTX is the same share one execution.

    Raises CompileError where the source compiles for none of them.
    """
    if progress:
        progress(f"compiling {launch.label}", 0, 0)
    kernels, failures = _compile(launch, architectures)
    by_text: dict[str, Executed | Refusal] = {}
    found: list[tuple[str, Characterised]] = []
    for kernel in kernels:
        text = _TARGET_LINE.sub("", kernel.ptx)
        if text not in by_text:
            by_text[text] = _execute(kernel, launch, budget, progress)
            if isinstance(refusal := by_text[text], Refusal):
                failures.append(Failure(kernel.kernel, None, refusal))
        executed = by_text[text]
        if isinstance(executed, Executed):
            profile = profile_of(executed.trace, executed.sampler, kernel, launch)
            own = executed.compiled_as(kernel)
            found.append((kernel.architecture, Characterised(with_compiler_caveats(profile, kernel), own)))
    return Characterisation(tuple(found), tuple(failures))


def compile_launch(launch: Launch, architectures: Sequence[str]) -> CompiledSource:
    """Compile the kernel of a launch for some architectures; raises CompileError."""
    return compile_request(request_for(launch, architectures))


def with_compiler_caveats(found: KernelProfile, kernel: CompiledKernel) -> KernelProfile:
    """Return a profile with what the compiler had to say."""
    return replace(found, resources=kernel.resources, caveats=(*found.caveats, *kernel.caveats))


def with_less_patience(executed: Executed) -> Executed:
    """Return an execution whose further blocks end soon: one SM's blocks alone may wait for others for ever."""
    budget = executed.setting.budget
    longest = int(executed.trace.counts.block_warps.sum(axis=1).max())
    shorter = replace(
        budget,
        block_steps=min(budget.block_steps, _LEAST_STEPS + _MOST_TIMES_LONGEST * longest),
        seconds=min(budget.seconds, _MOST_RECORDING_SECONDS),
        sample_seconds=min(budget.sample_seconds, _MOST_RECORDING_SECONDS / 2),
    )
    return replace(executed, setting=replace(executed.setting, budget=shorter))


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


def _execute(
    kernel: CompiledKernel, launch: Launch, budget: Budget | None, progress: Progress | None
) -> Executed | Refusal:
    def report(done: int, total: int) -> None:
        if progress:
            progress(f"executing {launch.label}", done, total)

    report(0, 0)
    try:
        return with_less_patience(run_launch(kernel, launch, budget, report))
    except Refusal as refusal:
        return refusal
