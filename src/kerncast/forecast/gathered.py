"""What comes of launches: gathered here, or sent by the process that worked on them and gathered where it arrives.

Launches of strangers are forecast in a process of its own with limits: its end costs one launch, and no answer.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from kerncast.caveats import Caveat
from kerncast.child_process import EndedError, Progress, Room, Send, alone, apart
from kerncast.compile.cache import Store, cache_place
from kerncast.confinement import include_places, source_places
from kerncast.errors import Interrupted, KerncastError, MachineLimitError, Refusal
from kerncast.execute import Budget
from kerncast.forecast.asked import Forecast, GPUsNoted, Options
from kerncast.forecast.compiled_launch import Failure, Means
from kerncast.forecast.evidence import Subject
from kerncast.gpu import GPU
from kerncast.launch import Buffer, Launch, Memory
from kerncast.models import Case, FeatureCase, TimedCase
from kerncast.observation import Observation, TimedKernel
from kerncast.prediction import Prediction, Refused
from kerncast.profiles import KernelProfile
from kerncast.typed_json import from_json, to_json

T = TypeVar("T")
AnyCase = Case | TimedCase | FeatureCase


class Gathered:
    """Collects what comes of each launch."""

    def __init__(self) -> None:
        self.predictions: list[Prediction] = []
        self.cases: list[AnyCase] = []
        self.refused: list[Refused] = []
        self.first_refusal: Refusal | None = None
        self.failed: KerncastError | None = None
        """error that ended the work before all launches had been asked"""
        self.begun = -1
        """place of the launch that was begun last, from 0"""

    def forecast(self) -> Forecast:
        """Return all of it; raises the error that ended the work where that was before the first forecast."""
        if self.failed is not None and not self.predictions:
            raise self.failed
        return Forecast(
            tuple(self.predictions), tuple(self.refused), tuple(self.cases), self.first_refusal, self.failed
        )

    def begin(self, place: int) -> None:
        """Note that work on a launch begins."""
        self.begun = place

    def each(self, subjects: Iterable[T]) -> Iterator[T]:
        """Yield launches, and note where the work is."""
        for place, subject in enumerate(subjects):
            self.begin(place)
            yield subject

    def add(self, prediction: Prediction, case: AnyCase) -> None:
        """Take a forecast and its case."""
        self.predictions.append(prediction)
        self.cases.append(case)

    def refuse(self, refusal: Refusal, kernel: str, launch: int, gpu: GPU | str | None) -> None:
        """Note a refusal for a GPU, for one of which only the name is known, or for all."""
        self.first_refusal = self.first_refusal or refusal.copied()
        name, gpu_id = (gpu.name, gpu.id) if isinstance(gpu, GPU) else (gpu, None)
        self.refused.append(Refused(kernel, launch, name, str(refusal), type(refusal), gpu_id))

    def fail(self, failure: Failure, launch: int, gpus: GPUsNoted) -> None:
        """Refuse a launch for all GPUs, or for those of one architecture."""
        if failure.architecture is None:
            self.refuse(failure.refusal, failure.kernel, launch, None)
        for gpu, _ in gpus:
            if gpu.architecture.code_name == failure.architecture:
                self.refuse(failure.refusal, failure.kernel, launch, gpu)


def noted(prediction: Prediction, before: tuple[Caveat, ...] = (), after: tuple[Caveat, ...] = ()) -> Prediction:
    """Return a forecast with more caveats."""
    if not before and not after:
        return prediction
    return replace(prediction, caveats=(*before, *prediction.caveats, *after))


# From one process to another: JSON, in which what several cases share stands once.


@dataclass(frozen=True, slots=True)
class _SentCase:
    profile: int
    """number of the profile, among those of this launch that were sent"""
    gpu: int
    """number of the GPU, among those sent"""
    source: int | None
    launch: Launch | None
    times: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class _SentTimes:
    timed: TimedKernel
    gpu: int


@dataclass(frozen=True, slots=True)
class _SentForecast:
    prediction: Prediction
    case: _SentCase | _SentTimes | FeatureCase
    profiles: tuple[KernelProfile, ...]
    """profiles that were not sent before; their numbers go on from the last one's"""
    gpus: tuple[GPU, ...]


@dataclass(frozen=True, slots=True)
class _SentRefusal:
    kind: type[Refusal]
    what: str
    where: str | None
    cure: str | None
    kernel: str
    launch: int
    gpu: GPU | str | None


@dataclass(frozen=True, slots=True)
class _SentPlace:
    begun: int


_SENT: Any = _SentPlace | _SentForecast | _SentRefusal


class Sending(Gathered):
    """Sends what comes of launches instead of gathering it."""

    def __init__(self, send: Send) -> None:
        super().__init__()
        self._send = send
        self._profiles: list[KernelProfile] = []
        self._gpus: list[GPU] = []

    def begin(self, place: int) -> None:
        """Send that work on a launch begins; the profiles of the one before are of no more use."""
        self._profiles.clear()
        self._send(to_json(_SentPlace(place)))

    def add(self, prediction: Prediction, case: AnyCase) -> None:
        """Send a forecast and its case."""
        profiles, gpus = len(self._profiles), len(self._gpus)
        sent: _SentCase | _SentTimes | FeatureCase
        if isinstance(case, Case):
            source = None if case.source is None else self._number(case.source)
            sent = _SentCase(self._number(case.profile), self._number_of(case.gpu), source, case.launch, case.times)
        elif isinstance(case, TimedCase):
            sent = _SentTimes(case.timed, self._number_of(case.gpu))
        else:
            sent = case
        new = tuple(self._profiles[profiles:]), tuple(self._gpus[gpus:])
        self._send(to_json(_SentForecast(prediction, sent, *new)))

    def refuse(self, refusal: Refusal, kernel: str, launch: int, gpu: GPU | str | None) -> None:
        """Send a refusal."""
        said = refusal.what, refusal.where, refusal.cure
        self._send(to_json(_SentRefusal(type(refusal), *said, kernel, launch, gpu)))

    def _number(self, profile: KernelProfile) -> int:
        for number, each in enumerate(self._profiles):
            if each is profile:
                return number
        self._profiles.append(profile)
        return len(self._profiles) - 1

    def _number_of(self, gpu: GPU) -> int:
        for number, each in enumerate(self._gpus):
            if each is gpu or (each.id == gpu.id and each == gpu):
                return number
        self._gpus.append(gpu)
        return len(self._gpus) - 1


class Receiving:
    """Gathers what ``Sending`` has sent from another process."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._profiles: list[KernelProfile] = []
        self._gpus: list[GPU] = []

    def take(self, data: Any) -> None:
        """Take one message; raises EndedError for what is none."""
        try:
            self._take(from_json(_SENT, data))
        except (ValueError, TypeError, RecursionError):
            raise EndedError("with an answer that makes no sense") from None

    def _take(self, sent: _SentPlace | _SentForecast | _SentRefusal) -> None:
        if isinstance(sent, _SentPlace):
            self._profiles.clear()
            self._gathered.begin(sent.begun)
        elif isinstance(sent, _SentRefusal):
            refusal = sent.kind(sent.what, where=sent.where, cure=sent.cure)
            self._gathered.refuse(refusal, sent.kernel, sent.launch, sent.gpu)
        else:
            self._profiles += sent.profiles
            self._gpus += sent.gpus
            self._gathered.add(sent.prediction, self._case(sent.case))

    def _case(self, case: _SentCase | _SentTimes | FeatureCase) -> AnyCase:
        if isinstance(case, _SentTimes):
            return TimedCase(case.timed, _at(self._gpus, case.gpu))
        if isinstance(case, FeatureCase):
            return case
        profile, gpu = _at(self._profiles, case.profile), _at(self._gpus, case.gpu)
        source = None if case.source is None else _at(self._profiles, case.source)
        return Case(profile, gpu, source=source, launch=case.launch, times=case.times)


def _at(sent: Sequence[T], number: int) -> T:
    if not 0 <= number < len(sent):
        raise ValueError("a case names what was not sent")
    return sent[number]


# Launches in a process of its own.


Work = Callable[[Sequence[Subject], Gathered, Progress | None], None]
"""forecasts launches one after the other, and says where it is"""


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """Some work on a launch."""

    launch: Launch
    work: Callable[[Means], T]


@dataclass(frozen=True, slots=True)
class _SentReason:
    kind: type[Refusal]
    what: str
    where: str | None
    cure: str | None


_CURE = "Use a smaller problem, or a machine with more memory; kerncast doctor checks what kerncast is made of."


def gather(subjects: Sequence[Subject], work: Work, options: Options, progress: Progress | None = None) -> Forecast:
    """Return what comes of launches, in a process of its own where the options say so.

    What was found stays where something ends the work later: ``failed`` then says what. Raises it before the first.
    """
    gathered = Gathered()
    executes = bool(options.reading.sources) or any(isinstance(each, Launch) for each in subjects)
    try:
        if options.apart and executes:
            _apart(subjects, work, room_of((*subjects, *options.reading.sources), options.budget), gathered, progress)
        else:
            work(subjects, gathered, progress)
    except KerncastError as error:
        gathered.failed = error
    except KeyboardInterrupt:
        gathered.failed = Interrupted(f"interrupted, after {len(gathered.predictions)} forecasts")
    return gathered.forecast()


def in_limits(kind: type[T], work: Callable[[Means], T], launches: Sequence[Launch], means: Means) -> T:
    """Return what some work on launches returns, done in a process of its own where ``means`` say so.

    ``kind`` is the type of the result, which ``typed_json`` knows. Raises what the work raises, and MachineLimitError
    where the process ends before it does.
    """
    if not means.apart:
        return work(means)
    try:
        return alone(
            kind,
            lambda report: work(replace(means, progress=report, apart=False)),
            room_of(launches, means.budget),
            means.progress,
        )
    except EndedError as ended:
        raise _ended(launches[0], ended.how) from None
    except MemoryError:
        raise no_memory(launches[0].label) from None


def each_in_limits(kind: type[T], jobs: Sequence[Job[T]], means: Means) -> Iterator[T | Refusal]:
    """Yield what work on launches returns, or its refusal, one after the other in one process of their own.

    As ``in_limits`` for each, but what one job has loaded, compiled and recorded serves the next; a job that ends the
    process costs its own answer, and the next one begins another.
    """
    if not means.apart:
        for job in jobs:
            answer = _done(job, means)
            yield answer
        return
    room, done = room_of([job.launch for job in jobs], means.budget), 0
    while done < len(jobs):
        rest = jobs[done:]
        try:
            for data in apart(lambda send, report: _send_each(rest, means, send, report), room, means.progress):  # noqa: B023  it has ended before the next
                found = _received(kind, data)
                done += 1
                yield found
            how = "too early"
        except EndedError as ended:
            how = ended.how
        except MemoryError:
            how = "without memory"
        if done < len(jobs):
            done += 1
            yield _ended(jobs[done - 1].launch, how)


def _done(job: Job[T], means: Means) -> T | Refusal:
    try:
        return job.work(means)
    except Refusal as refusal:
        return refusal.copied()


def _send_each(jobs: Sequence[Job[T]], means: Means, send: Send, report: Progress) -> None:
    for job in jobs:
        found = _done(job, replace(means, progress=report, apart=False))
        if isinstance(found, Refusal):
            send({"refused": to_json(_SentReason(type(found), found.what, found.where, found.cure))})
        else:
            send({"found": to_json(found)})


def _received(kind: type[T], data: Any) -> T | Refusal:
    try:
        ((name, value),) = data.items()
        if name == "found":
            return from_json(kind, value)
        sent = from_json(_SentReason, value)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise EndedError("with an answer that makes no sense") from None
    return sent.kind(sent.what, where=sent.where, cure=sent.cure)


def no_memory(where: str | None = None) -> MachineLimitError:
    """Return the refusal of a launch that took more memory than there is."""
    what = "the launch needs more memory than is free"
    return MachineLimitError(what, where=where, cure="Use a smaller problem, or a machine with more memory.")


#: Address space of a launch, in sizes of its buffers: they are made anew for blocks that cannot run twice on what they
#: left, and each has maps of what was touched, two sixteenths of it.
_ARENAS = 4


def room_of(subjects: Sequence[object], budget: Budget | None = None) -> Room:
    """Return what executing some launches asks for: their sources, headers, fills and memory, and the cache."""
    launches = [each for each in subjects if isinstance(each, Launch)]
    sources = dict.fromkeys((each.source, each.include_dirs) for each in launches)
    fills = (buffer.fill.path for each in launches for buffer in _buffers_of(each))
    recordings = (each.memory.file for each in launches if each.memory)
    reads = dict.fromkeys((*(path for each in sources for path in _read_by(*each)), *filter(None, fills), *recordings))
    largest = max((sum(buffer.nbytes for buffer in _buffers_of(each)) for each in launches), default=0)
    largest = max((largest, *(region_bytes(each.memory) for each in launches if each.memory)))
    cache = _cache()
    reads |= dict.fromkeys(cache)
    return Room(tuple(reads), cache, _ARENAS * largest + (budget or Budget()).memory_bytes)


def _cache() -> tuple[Path, ...]:
    """Return the folder of the cache, which must be there before the limits are; none where nothing can be kept."""
    place = cache_place()
    if place.folder is None:
        return ()
    try:
        Store(place.folder, place.most_bytes).prepare()
    except OSError:
        return ()
    return (place.folder,)


def _read_by(source: Path, include_dirs: Sequence[Path]) -> list[Path]:
    headers = [path for folder in include_dirs for path in include_places(folder)]
    return [*source_places(source), *headers]


def region_bytes(memory: Memory) -> int:
    """Return the address space that the memory of a recorded launch takes."""
    places = [each.address for each in memory.regions]
    return max((each.address + each.nbytes for each in memory.regions), default=0) - min(places, default=0)


def _buffers_of(launch: Launch) -> list[Buffer]:
    return [each.value for each in (*launch.arguments, *launch.globals) if isinstance(each.value, Buffer)]


def _apart(subjects: Sequence[Subject], work: Work, room: Room, gathered: Gathered, progress: Progress | None) -> None:
    """Gather from processes, the next of which goes on after the launch that has ended the one before."""
    done = 0
    while done < len(subjects):
        rest = subjects[done:]
        gathered.begun = -1
        receiving = Receiving(gathered)
        try:
            for data in apart(lambda send, report: work(rest, Sending(send), report), room, progress):  # noqa: B023  it has ended before the next
                receiving.take(data)
        except EndedError as ended:
            how = ended.how
        except MemoryError:
            how = "without memory"
        else:
            return
        # Where none was begun, what all have in common has ended it.
        lost = rest[gathered.begun : gathered.begun + 1] if gathered.begun >= 0 else rest
        for each in lost:
            gathered.refuse(_ended(each, how), each.kernel or "", each.index, None)
        done += max(gathered.begun, 0) + len(lost)


def _ended(subject: Subject, how: str) -> MachineLimitError:
    where = subject.label if isinstance(subject, Launch) else subject.kernel
    return MachineLimitError(f"the process that worked on it ended {how}", where=where, cure=_CURE)
