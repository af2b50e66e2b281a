"""The cases that one launch or one profile makes, a GPU each: what a model is told of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import CompileError, MissingEvidenceError, Refusal
from kerncast.forecast.asked import GPUsNoted
from kerncast.forecast.compiled_launch import CompiledLaunch, Failure, Means, Source, compile_and_count
from kerncast.gpu import GPU
from kerncast.launch import Launch, base_name, is_tuned_so
from kerncast.models import MODEL_OF_TIMES_ALONE, Case, Question, TimedCase
from kerncast.models.transfer.measured_run import float_mixes_of
from kerncast.observation import Observation, TimedKernel
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import QUESTIONS, Count, Counts, FloatMix, KernelProfile, Origin, SourceRun
from kerncast.profiles.counts import FLOPS
from kerncast.remembered import remembered


def launch_of(profile: KernelProfile, launches: Sequence[Launch]) -> Launch | None:
    """Return the launch that a profile is of: the same kernel, tuned alike, with as many blocks and threads, or None.

    Another launch of the kernel has other counts. Of a grid that a profiler tells only the size of, the size decides.
    """
    settings = profile.run.settings if profile.run else ()
    same_name = [each for each in _of_this_kernel(profile, launches) if is_tuned_so(each, settings)]
    same = [each for each in same_name if (each.grid, each.block) == (profile.grid, profile.block)]
    sizes = prod(profile.grid), prod(profile.block)
    same += [each for each in same_name if (prod(each.grid), prod(each.block)) == sizes]
    return same[0] if same else None


def without_launch(profile: KernelProfile, launches: Sequence[Launch]) -> KernelProfile:
    """Return a profile of which no launch was given; a caveat tells so where other launches of its kernel were."""
    if not _of_this_kernel(profile, launches) or not _lacks_anything(profile):
        return profile
    is_tuned = profile.run and profile.run.settings
    kind = CaveatKind.TUNED_LAUNCH_NOT_IN_SOURCE if is_tuned else CaveatKind.LAUNCH_NOT_IN_SOURCE
    other = Caveat.of(kind, grid=str(list(profile.grid)), block=str(list(profile.block)))
    return replace(profile, caveats=(*profile.caveats, other))


def _of_this_kernel(profile: KernelProfile, launches: Sequence[Launch]) -> list[Launch]:
    return [each for each in launches if each.kernel is None or base_name(each.kernel) == base_name(profile.kernel)]


def with_missing_counts(profile: KernelProfile, launch: Launch, means: Means) -> KernelProfile:
    """Execute a launch as compiled for the GPU of a profile, and take from it what the profile lacks."""
    if profile.run is None or not _lacks_anything(profile):
        return profile
    return filled(profile, _executed_on(profile.run.gpu, launch, means))


def _lacks_anything(profile: KernelProfile) -> bool:
    """Return whether an execution could add to a profile; what only a check asks for counts, too."""
    counts = [profile.counts.first(names) for names in QUESTIONS.values()]
    active = profile.run.active_threads if profile.run else None
    others = active, float_mixes_of(profile), profile.resources, profile.mix, profile.balance
    return None in counts or None in others


@remembered(256)
def _executed_on(gpu: GPU, launch: Launch, means: Means) -> KernelProfile:
    """Return a launch as it was executed, with the caches of a GPU: many rows of a profile may be of one launch."""
    name = gpu.architecture.code_name
    known = compile_and_count(launch, [name], means)
    found = known.on(name)
    if found is None:
        raise known.failures[0].refusal
    return found.with_caches(gpu)


def filled(profile: KernelProfile, executed: KernelProfile) -> KernelProfile:
    """Return a profile with each count that it lacks as it was executed, and the names of these counts."""
    assert profile.run is not None
    missing: list[str] = []
    counts = profile.counts
    for key, names in QUESTIONS.items():
        if counts.first(names) is None and executed.counts.first(names) is not None:
            counts = counts.merged(executed.counts.only(names))
            missing.append(key)
    if float_mixes_of(profile) is None:
        counts = counts.merged(_by_kind(executed))
        missing.append("float_mix")
    active = profile.run.active_threads
    if active is None and executed.mix is not None:
        active = executed.mix.active_lanes
        missing.append("active_threads")
    if profile.resources is None:
        missing.append("resources")
    return replace(
        profile,
        counts=counts,
        resources=profile.resources or executed.resources,
        mix=profile.mix or executed.mix,
        balance=profile.balance or executed.balance,
        run=replace(profile.run, active_threads=active, not_in_profile=tuple(dict.fromkeys(missing))),
        caveats=(*profile.caveats, *_said(missing)),
    )


def _by_kind(executed: KernelProfile) -> Counts:
    """Return the floating-point operations of an executed launch by kind; what does not occur is zero."""
    none = Count.exact(0)
    mixes = {bits: FloatMix(bits, none, none, none) for bits in FLOPS}
    mixes |= {mix.bits: mix for mix in float_mixes_of(executed) or ()}
    return Counts.of(Origin.EXECUTED, {name: count for mix in mixes.values() for name, count in mix.by_name.items()})


def _said(missing: Iterable[str]) -> tuple[Caveat, ...]:
    names = ", ".join(dict.fromkeys(missing))
    return (Caveat.of(CaveatKind.COUNTED_BY_EXECUTION, names),) if names else ()


@dataclass(frozen=True, slots=True)
class Choices:
    """Options for making the cases of a launch."""

    timing: Timing
    """how the forecast launch is timed"""
    with_caches: bool
    """whether to simulate the caches of each GPU, those of a measured time included"""
    simulates: bool = True
    """whether the simulation may be asked, which needs the source of a profile's launch"""
    means: Means = field(default_factory=Means)
    sources: tuple[Launch, ...] = ()
    """launches to execute for counts that a profile lacks"""


class ProfileCases:
    """A profile tells every GPU the same; a time of its kernel may come from it or beside it."""

    def __init__(
        self, profile: KernelProfile, sources: Sequence[Launch], measured: Sequence[Observation], choices: Choices
    ) -> None:
        self.kernel = profile.kernel
        self.failures: tuple[Failure, ...] = ()
        self._profile: KernelProfile | None = profile
        self._measured, self._choices = tuple(measured), choices
        self._own = None if profile.run is None else observation_of(profile.run, profile.index)
        self._launch = launch = launch_of(profile, sources)
        if launch is None:
            self._profile = without_launch(profile, sources)
            return
        try:
            self._profile = with_missing_counts(profile, launch, choices.means)
        except Refusal as refusal:
            self._profile, self.failures = None, (Failure(profile.kernel, None, refusal.copied()),)

    def on(self, gpu: GPU) -> Case | None:
        """Return the case of one GPU, None where the kernel's source, which was given, cannot be executed."""
        profile = self._profile
        if profile is None:
            return None
        its = () if self._own is None else (self._own,)
        times = (*self._measured, *its)
        nearest = _nearest(times, gpu)
        if nearest is None:
            return Case(profile, gpu, launch=self._launch)
        if nearest is self._own:
            unused = _unused(self._measured, nearest)
            known = replace(profile, caveats=(*unused, *profile.caveats)) if unused else profile
            return Case(known, gpu, source=known, launch=self._launch, times=times)
        source = _timed_elsewhere(profile, SourceRun(nearest.gpu, nearest.seconds, self._choices.timing))
        notes = (*nearest.caveats, *_apart(profile.run, nearest), *_unused(self._measured, nearest))
        known = replace(profile, caveats=(*notes, *profile.caveats))
        return Case(known, gpu, source=source, launch=self._launch, times=times)

    def source_on(self, gpu: GPU) -> Source | None:
        """Return what the simulation can run on this GPU; None where it is not asked, or the code does not compile."""
        if self._launch is None or not self._choices.simulates:
            return None
        name = gpu.architecture.code_name
        try:
            known = compile_and_count(self._launch, [name], self._choices.means).on(name)
        except CompileError:  # published models carry the run over all the same
            return None
        return None if known is None else Source(known, Case(known.profile, gpu, launch=self._launch))


#: Place of a time that a profile holds, for messages.
PROFILE = "the profile"


def observation_of(run: SourceRun, launch: int) -> Observation:
    """Return the run of a profile as a measured time of a launch, at the clock that the profiler counted."""
    gpu = run.gpu if run.clock_hz is None else run.gpu.at_clock(run.clock_hz)
    return Observation(gpu, run.seconds, launch, timing=run.timing, where=PROFILE)


def at_measured_clocks(
    gpus: GPUsNoted, subject: Launch | KernelProfile | TimedKernel, times: Sequence[Observation]
) -> GPUsNoted:
    """Return GPUs whose clock no load lowers where a time was measured at it: it ran at that clock under this load."""
    run = subject.run if isinstance(subject, KernelProfile) else None
    known = (*times, observation_of(run, subject.index)) if run else times
    return [
        (replace(gpu, clock_tensor_hz=None) if any(time.tells_clock(gpu) for time in known) else gpu, assumed)
        for gpu, assumed in gpus
    ]


def _apart(own: SourceRun | None, nearest: Observation) -> tuple[Caveat, ...]:
    """Return that counts and time are of different runs."""
    if own is None:
        return ()
    return (Caveat.of(CaveatKind.COUNTS_AND_TIME_APART, counted=own.gpu.name, timed=nearest.gpu.name),)


def _unused(measured: Sequence[Observation], nearest: Observation) -> tuple[Caveat, ...]:
    """Return that models which carry over one time leave the others unused."""
    others = ", ".join(each.gpu.name for each in measured if each is not nearest)
    return (Caveat.of(CaveatKind.TIME_ELSEWHERE_UNUSED, others, nearest=nearest.gpu.name),) if others else ()


def _timed_elsewhere(profile: KernelProfile, run: SourceRun) -> KernelProfile:
    """Return a profile with a time from beside it; what threads do is the same on all GPUs, what SMs do is not."""
    own = profile.run
    if own is None:
        return replace(profile, run=run)
    return replace(profile, run=replace(run, active_threads=own.active_threads, not_in_profile=own.not_in_profile))


class LaunchCases:
    """A launch is compiled and executed for each GPU's architecture, and for those that it was timed on."""

    def __init__(self, launch: Launch, gpus: Sequence[GPU], measured: Sequence[Observation], choices: Choices) -> None:
        self._launch, self._measured, self._choices = launch, tuple(measured), choices
        names = [gpu.architecture.code_name for gpu in (*gpus, *(each.gpu for each in measured))]
        self._known = compile_and_count(launch, list(dict.fromkeys(names)), choices.means)
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
        return Case(profile, gpu, source=source, launch=self._launch, times=self._measured)

    def source_on(self, gpu: GPU) -> Source | None:
        """Return what can run again for a model on this GPU."""
        known = self._known.on(gpu.architecture.code_name)
        return None if known is None else Source(known)

    def _source(self, measured: Observation) -> KernelProfile | None:
        known = self._known.on(measured.gpu.architecture.code_name)
        if known is None:
            return None
        run = SourceRun(measured.gpu, measured.seconds, self._choices.timing)
        return replace(self._profile(known, measured.gpu), run=run)

    def _profile(self, known: CompiledLaunch, gpu: GPU) -> KernelProfile:
        """Return the profile, with what the caches of the GPU let through where a model asks for that."""
        if not self._choices.with_caches:
            return known.profile
        return known.with_caches(gpu)


class TimedCases:
    """A kernel of which only times are known; they tell every GPU the same."""

    failures: tuple[Failure, ...] = ()

    def __init__(self, timed: TimedKernel, measured: Sequence[Observation]) -> None:
        self.kernel = timed.kernel
        every = (*timed.times, *measured)
        once = {(each.gpu.id, each.gpu.clock_hz, each.seconds, each.timing): each for each in every}
        self._timed = replace(timed, times=tuple(once.values()))  # a file may be given twice

    def on(self, gpu: GPU) -> TimedCase:
        """Return the case of one GPU."""
        return TimedCase(self._timed, gpu)

    def source_on(self, gpu: GPU) -> None:
        """Return nothing: there is no source."""


def cases_of(
    subject: Launch | KernelProfile | TimedKernel,
    gpus: Sequence[GPU],
    measured: Sequence[Observation],
    choices: Choices,
) -> LaunchCases | ProfileCases | TimedCases:
    """Return what makes the cases of a launch, a profile or a timed kernel, with its own measured times."""
    if isinstance(subject, TimedKernel):
        return TimedCases(subject, measured)
    if isinstance(subject, KernelProfile):
        return ProfileCases(subject, choices.sources, measured, choices)
    return LaunchCases(subject, gpus, measured, choices)


def by_times(case: TimedCase, model: str | None, question: Question) -> Prediction:
    """Return the forecast of a kernel by its times; raises MissingEvidenceError for a model that needs more."""
    from kerncast.models.transfer.times import Times  # noqa: PLC0415  most forecasts do without

    if model not in {None, MODEL_OF_TIMES_ALONE}:
        raise MissingEvidenceError(
            f"only times of {case.timed.kernel} are known, and {model} needs its source or its counts",
            cure="Leave --model out, or give the source or a profile.",
        )
    return Times().predict_timed(case.timed, case.gpu, question)


def _nearest(measured: Sequence[Observation], gpu: GPU) -> Observation | None:
    """Return the time on this very GPU, else on the one whose generation is nearest."""
    number = gpu.architecture.number
    return min(
        measured,
        key=lambda each: (each.gpu.id != gpu.id, abs(each.gpu.architecture.number - number)),
        default=None,
    )
