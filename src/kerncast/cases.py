"""The cases that one launch or one profile makes, a GPU each: what a model is told of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kerncast.characterised import Characterised, Failure, Progress, characterise_launch
from kerncast.errors import Refusal
from kerncast.evidence import MeasuredTime
from kerncast.execute import Budget
from kerncast.gpu import GPU
from kerncast.kernel_profile import KernelProfile
from kerncast.launch import Launch
from kerncast.missing_counts import Executions, launch_of, with_missing_counts, without_launch
from kerncast.models import Case
from kerncast.prediction import Timing
from kerncast.source_run import SourceRun


@dataclass(frozen=True, slots=True)
class Choices:
    """How a launch is characterised."""

    timing: Timing
    """what was timed where a time was measured"""
    with_caches: bool
    """whether the caches of each GPU are simulated, and of those that a time was measured on"""
    budget: Budget | None = None
    progress: Progress | None = None
    executions: Executions = field(default_factory=Executions)
    """of launches whose profiles lack something"""


class ProfileCases:
    """A profile tells every GPU the same; a time of its kernel may come from it or beside it."""

    def __init__(
        self, profile: KernelProfile, sources: Sequence[Launch], measured: Sequence[MeasuredTime], choices: Choices
    ) -> None:
        self.kernel = profile.kernel
        self.failures: tuple[Failure, ...] = ()
        self._profile: KernelProfile | None = profile
        self._measured, self._timing = tuple(measured), choices.timing
        self._launch = launch = launch_of(profile, sources)
        if launch is None:
            self._profile = without_launch(profile, sources)
            return
        try:
            self._profile = with_missing_counts(profile, launch, choices.budget, choices.progress, choices.executions)
        except Refusal as refusal:
            self._profile, self.failures = None, (Failure(profile.kernel, None, refusal),)

    def on(self, gpu: GPU) -> Case | None:
        """Return the case of one GPU, None where the kernel's source, which was given, cannot be executed."""
        profile = self._profile
        if profile is None:
            return None
        own = profile.run
        its = () if own is None else (MeasuredTime(own.gpu, own.seconds),)
        nearest = _nearest((*self._measured, *its), gpu)
        if nearest is None:
            return Case(profile, gpu, launch=self._launch)
        if nearest in its:
            unused = _unused(self._measured, nearest)
            known = replace(profile, caveats=(*unused, *profile.caveats)) if unused else profile
            return Case(known, gpu, source=known, launch=self._launch)
        source = _timed_elsewhere(profile, SourceRun(nearest.gpu, nearest.seconds, self._timing))
        notes = (*nearest.caveats, *_apart(own, nearest))
        known = replace(profile, caveats=(*notes, *profile.caveats))
        return Case(known, gpu, source=source, launch=self._launch)


def _apart(own: SourceRun | None, nearest: MeasuredTime) -> tuple[str, ...]:
    """Return that counts and time are of different runs."""
    if own is None:
        return ()
    return (f"counts from the profile on {own.gpu.name}, time from --measured on {nearest.gpu.name}",)


def _unused(measured: Sequence[MeasuredTime], nearest: MeasuredTime) -> tuple[str, ...]:
    """Return that the profile's own time counts before others, which a reader would not expect."""
    if not measured:
        return ()
    others = ", ".join(each.gpu.name for each in measured)
    return (f"not used: the time on {others}; {nearest.gpu.name}, which the profile was made on, is nearer",)


def _timed_elsewhere(profile: KernelProfile, run: SourceRun) -> KernelProfile:
    """Return a profile with a time from beside it; what threads do is the same on all GPUs, what SMs do is not."""
    own = profile.run
    if own is None:
        return replace(profile, run=run)
    return replace(profile, run=replace(run, active_threads=own.active_threads, not_in_profile=own.not_in_profile))


class LaunchCases:
    """A launch is compiled and executed for each GPU's architecture, and for those that it was timed on."""

    def __init__(self, launch: Launch, gpus: Sequence[GPU], measured: Sequence[MeasuredTime], choices: Choices) -> None:
        self._launch, self._measured, self._choices = launch, tuple(measured), choices
        self._with_caches: dict[str, KernelProfile] = {}
        names = [gpu.architecture.code_name for gpu in (*gpus, *(each.gpu for each in measured))]
        self._known = characterise_launch(launch, list(dict.fromkeys(names)), choices.budget, choices.progress)
        self.failures = self._known.failures
        self.kernel = self._known.found[0][1].profile.kernel if self._known.found else launch.label

    def on(self, gpu: GPU) -> Case | None:
        """Return the case of one GPU, None where the launch is not known for it."""
        known = self._known.on(gpu.architecture.code_name)
        if known is None:
            return None
        nearest = _nearest(self._measured, gpu)
        source = self._source(nearest) if nearest else None
        profile = self._profile(known, gpu)
        if nearest and nearest.caveats:
            profile = replace(profile, caveats=(*nearest.caveats, *profile.caveats))
        return Case(profile, gpu, known.executed, source, self._launch)

    def _source(self, measured: MeasuredTime) -> KernelProfile | None:
        known = self._known.on(measured.gpu.architecture.code_name)
        if known is None:
            return None
        run = SourceRun(measured.gpu, measured.seconds, self._choices.timing)
        return replace(self._profile(known, measured.gpu), run=run)

    def _profile(self, known: Characterised, gpu: GPU) -> KernelProfile:
        """Return the profile, with what the caches of the GPU let through where a model asks for that."""
        if not self._choices.with_caches:
            return known.profile
        if gpu.id in self._with_caches:
            return self._with_caches[gpu.id]
        from kerncast.execute.on_gpu import with_gpu  # noqa: PLC0415  LLVM takes time to load

        progress = self._choices.progress

        def report(done: int, total: int) -> None:
            if progress:
                progress(f"caches of {gpu.name}", done, total)

        return self._with_caches.setdefault(gpu.id, with_gpu(known.profile, known.executed, gpu, report))


def _nearest(measured: Sequence[MeasuredTime], gpu: GPU) -> MeasuredTime | None:
    """Return the time on this very GPU, else on the one whose generation is nearest."""
    number = gpu.architecture.number
    return min(
        measured,
        key=lambda each: (each.gpu.id != gpu.id, abs(each.gpu.architecture.number - number)),
        default=None,
    )
