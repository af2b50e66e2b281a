"""The one entry: evidence and GPUs become forecasts.

Each kernel is compiled for every architecture asked for, executed once per distinct PTX, and timed per GPU.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kerncast.compile import CompiledKernel, CompiledSource, CompileRequest, compile_request
from kerncast.errors import BudgetExceededError, CompileError, InputError, Refusal
from kerncast.evidence import Evidence, GPUs, read_evidence, resolve_gpus
from kerncast.execute import Budget, Executed, profile_of, run_launch
from kerncast.gpu import GPU
from kerncast.kernel_profile import KernelProfile, Resources
from kerncast.launch import Launch, load_launches
from kerncast.models import DEFAULT_MODEL, DEFAULT_MODEL_OF_COUNTS, Case, Question, model_named
from kerncast.occupancy import BlockRequest, block_request, block_request_of, why_not
from kerncast.prediction import Prediction, Refused, Timing

Progress = Callable[[str, int, int], None]
"""called with (what is done, part done, of how many)"""

#: Of the blocks that one SM gets, for a simulation; the sample of blocks has the budget's time.
_MOST_RECORDING_SECONDS = 15.0
#: Of one launch, for simulations on all GPUs that come to nothing.
_MOST_LOST_SECONDS = 60.0
_NOT_TRIED = (
    f"on other GPUs it did not end within its budget, which took {_MOST_LOST_SECONDS:.0f} s, so that it was not tried"
    " on this one; naming this GPU alone may give another forecast"
)
#: A block of it that takes this many times the steps of the longest block of the sample waits for another one.
_MOST_TIMES_LONGEST, _LEAST_STEPS = 100, 100_000
_TARGET_LINE = re.compile(r"^\.target .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Options:
    """How to forecast."""

    model: str | None = None
    timing: Timing = Timing.SERIES
    level: float = 0.9
    clock: str | float | None = None
    """base, boost or hertz; None is the GPU's default"""
    force: bool = False
    """forecast even a launch that the GPU could not run"""
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if not 0.001 <= self.level <= 0.9999:
            raise InputError(f"level is {self.level}", cure="Give a share from 0.001 to 0.9999, such as 0.9.")


@dataclass(frozen=True, slots=True)
class Forecast:
    """All that came of some evidence and some GPUs."""

    predictions: tuple[Prediction, ...]
    refused: tuple[Refused, ...]
    cases: tuple[Case, ...]
    """what each prediction was made from, in the same order, but for what was executed"""
    first_refusal: Refusal | None = None


def predict(evidence: Evidence, gpu: GPUs, model: str | None = None, **options: object) -> list[Prediction]:
    """Forecast every launch of the evidence on every GPU; raises Refusal when nothing could be forecast.

    ``evidence`` is a launch file, a file of declared counts, or launches or profiles; ``gpu`` is a name, ``all``, a
    GPU, or several. Options: timing, level, clock (base, boost or hertz), force, budget.
    """
    if "timing" in options:
        options["timing"] = timing_named(str(options["timing"]))
    forecast = forecast_all(evidence, resolve_gpus(gpu), Options(model=model, **options))  # type: ignore[arg-type]
    if not forecast.predictions and forecast.first_refusal:
        raise forecast.first_refusal
    return list(forecast.predictions)


def profile(
    launch: Launch | str | Path,
    gpu: str | Path | GPU | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> KernelProfile:
    """Characterise one launch; a file must hold just one.

    With a GPU it is compiled for that one, and its caches, its machine instructions and what warps wait for are part
    of the profile; without one it is compiled for sm_70, and the profile holds what no GPU changes.
    """
    if not isinstance(launch, Launch):
        launches = load_launches(launch)
        if len(launches) > 1:
            raise InputError(f"{launch} has {len(launches)} launches", cure="Pass one of load_launches(path).")
        launch = launches[0]
    gpus = resolve_gpus(gpu) if gpu is not None else []
    if len(gpus) > 1:
        raise InputError(f"{len(gpus)} GPUs are named for one profile", cure="Name one GPU.")
    architecture = gpus[0][0].architecture.code_name if gpus else _DEFAULT_ARCHITECTURE
    compiled = compile_launch(launch, [architecture]).kernel_for(architecture)
    if gpus:
        _check_can_run(launch, compiled.resources, gpus[0][0])
    report = (lambda done, total: progress(f"executing {launch.label}", done, total)) if progress else None
    executed = run_launch(compiled, launch, budget, report)
    found = _with_compiler_caveats(profile_of(executed.trace, executed.sampler, compiled, launch), compiled)
    return _with_gpu(found, executed, *gpus[0], progress) if gpus else found


def _with_gpu(
    found: KernelProfile, executed: Executed, gpu: GPU, assumed: tuple[str, ...], progress: Progress | None
) -> KernelProfile:
    """Add what the caches, the machine code and the warps of a GPU tell."""
    from kerncast.execute.on_gpu import with_gpu  # noqa: PLC0415  a forecast does without
    from kerncast.models.stalls import with_warp_states  # noqa: PLC0415

    report = (lambda done, total: progress(f"caches of {gpu.name}", done, total)) if progress else None
    found = with_gpu(found, executed, gpu, report)
    _announce(f"simulating {found.kernel} on {gpu.name}", progress)
    found = with_warp_states(found, _with_less_patience(executed), gpu)
    return replace(found, caveats=(*assumed, *found.caveats))


def _announce(what: str, progress: Progress | None, done: int = 0, total: int = 0) -> None:
    """Show what is about to be simulated, or that the simulator must be compiled first."""
    if progress is None:
        return
    from kerncast.models.sm.simulate import is_prepared  # noqa: PLC0415  numba takes time to load

    progress(what if is_prepared() else "compiling the simulator (once)", done, total)


def _with_less_patience(executed: Executed) -> Executed:
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


_DEFAULT_ARCHITECTURE = "sm_70"


def timing_named(text: str) -> Timing:
    """Return the timing of this name; raises InputError listing the known ones."""
    try:
        return Timing(text)
    except ValueError:
        raise InputError(f"no timing is called {text[:40]!r}", cure=f"Known: {', '.join(Timing)}.") from None


def forecast_all(
    evidence: Evidence, gpus: list[tuple[GPU, tuple[str, ...]]], options: Options, progress: Progress | None = None
) -> Forecast:
    """Forecast every launch of the evidence on every GPU."""
    if options.model is not None:
        model_named(options.model)
    gathered = _Gathered()
    for source in read_evidence(evidence):
        timer = _Timer(options)
        subjects = (
            {gpu.architecture.code_name: _Subject(source) for gpu, _ in gpus}
            if isinstance(source, KernelProfile)
            else gathered.subjects_of(source, gpus, options.budget, progress)
        )
        for number, (gpu, assumed) in enumerate(gpus):
            subject = subjects.get(gpu.architecture.code_name)
            if subject is None:
                continue
            if subject.executed and options.model in {None, DEFAULT_MODEL}:
                _announce(f"timing {subject.profile.kernel} on {gpu.name}", progress, number, len(gpus))
            try:
                case = subject.on(gpu if options.clock is None else gpu.at_clock(options.clock))
                prediction = timer.forecast(case)
            except Refusal as refusal:
                gathered.refuse(refusal, subject.profile.kernel, subject.profile.index, gpu.name)
                continue
            gathered.predictions.append(replace(prediction, caveats=(*assumed, *prediction.caveats)))
            gathered.cases.append(replace(case, executed=None))
    return gathered.forecast()


@dataclass(frozen=True, slots=True)
class _Subject:
    """A profile for one architecture, with the launch after its execution where there was one."""

    profile: KernelProfile
    executed: Executed | None = None

    def on(self, gpu: GPU) -> Case:
        return Case(self.profile, gpu, self.executed)


class _Timer:
    """Forecasts one launch on one GPU after the other."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lost_seconds = 0.0
        """that simulations took which did not end within their budget"""

    def forecast(self, case: Case) -> Prediction:
        """Return the forecast of one case; raises Refusal."""
        options = self._options
        impossible = _check_fits(case.profile, case.gpu, force=options.force)
        if options.model is None and case.executed:
            prediction = self._simulated_or_counted(case)
        else:
            prediction = self._predict(options.model or DEFAULT_MODEL_OF_COUNTS, case)
        return replace(prediction, caveats=(*impossible, *prediction.caveats))

    def _predict(self, model: str, case: Case) -> Prediction:
        return model_named(model).predict(case, Question(self._options.timing, self._options.level))

    def _simulated_or_counted(self, case: Case) -> Prediction:
        """Return the simulation's forecast; where there is none, that of the counts, with the reason as a caveat."""
        begun = time.monotonic()
        try:
            if self._lost_seconds > _MOST_LOST_SECONDS:
                raise BudgetExceededError(_NOT_TRIED)
            return self._predict(DEFAULT_MODEL, case)
        except Refusal as refusal:
            reason = refusal
        if isinstance(reason, BudgetExceededError):
            self._lost_seconds += time.monotonic() - begun
        found = self._predict(DEFAULT_MODEL_OF_COUNTS, case)
        note = f"not simulated, so that this is the {DEFAULT_MODEL_OF_COUNTS} from counters, which is less exact: "
        return replace(found, caveats=(*found.caveats, note + reason.what))


class _Gathered:
    """Collects what comes of each launch."""

    def __init__(self) -> None:
        self.predictions: list[Prediction] = []
        self.cases: list[Case] = []
        self.refused: list[Refused] = []
        self.first_refusal: Refusal | None = None

    def forecast(self) -> Forecast:
        return Forecast(tuple(self.predictions), tuple(self.refused), tuple(self.cases), self.first_refusal)

    def refuse(self, refusal: Refusal, kernel: str, launch: int, gpu: str | None) -> None:
        self.first_refusal = self.first_refusal or refusal
        self.refused.append(Refused(kernel, launch, gpu, str(refusal)))

    def subjects_of(
        self, launch: Launch, gpus: list[tuple[GPU, tuple[str, ...]]], budget: Budget | None, progress: Progress | None
    ) -> dict[str, _Subject]:
        """Return a profile per architecture; architectures whose PTX is the same share one execution."""
        if progress:
            progress(f"compiling {launch.label}", 0, 0)
        compiled = self._compile(launch, gpus)
        by_text: dict[str, Executed | None] = {}
        subjects = {}
        for kernel in compiled:
            text = _TARGET_LINE.sub("", kernel.ptx)
            if text not in by_text:
                by_text[text] = self._execute(kernel, launch, budget, progress)
            executed = by_text[text]
            if executed is not None:
                found = profile_of(executed.trace, executed.sampler, kernel, launch)
                own = executed.compiled_as(kernel)
                subjects[kernel.architecture] = _Subject(_with_compiler_caveats(found, kernel), own)
        return subjects

    def _compile(self, launch: Launch, gpus: list[tuple[GPU, tuple[str, ...]]]) -> list[CompiledKernel]:
        """Compile for every architecture; GPUs whose architecture the source does not compile for are refused."""
        names = list(dict.fromkeys(gpu.architecture.code_name for gpu, _ in gpus))
        try:
            return list(compile_launch(launch, names).kernels)
        except CompileError as error:
            if len(names) == 1:
                raise
            first_error = error
        compiled: list[CompiledKernel] = []
        failures: dict[str, CompileError] = {}
        for name in names:
            try:
                compiled += compile_launch(launch, [name]).kernels
            except CompileError as error:
                failures[name] = error
        if not compiled:
            raise first_error
        for gpu, _ in gpus:
            name = gpu.architecture.code_name
            if name in failures:
                refusal = Refusal(f"the source does not compile for {name}: {failures[name]}")
                self.refuse(refusal, compiled[0].kernel, launch.index, gpu.name)
        return compiled

    def _execute(
        self, kernel: CompiledKernel, launch: Launch, budget: Budget | None, progress: Progress | None
    ) -> Executed | None:
        def report(done: int, total: int) -> None:
            if progress:
                progress(f"executing {launch.label}", done, total)

        report(0, 0)
        try:
            return _with_less_patience(run_launch(kernel, launch, budget, report))
        except Refusal as refusal:
            self.refuse(refusal, kernel.kernel, launch.index, None)
            return None


def compile_launch(launch: Launch, architectures: list[str]) -> CompiledSource:
    """Compile the kernel of a launch for some architectures; raises CompileError."""
    request = CompileRequest(
        launch.source,
        tuple(architectures),
        kernel=launch.kernel,
        defines=launch.defines,
        include_dirs=launch.include_dirs,
    )
    return compile_request(request)


def _with_compiler_caveats(found: KernelProfile, kernel: CompiledKernel) -> KernelProfile:
    return replace(found, resources=kernel.resources, caveats=(*found.caveats, *kernel.caveats))


def _check_can_run(launch: Launch, resources: Resources, gpu: GPU) -> None:
    reason = _why_not(block_request(launch.threads_per_block, resources, launch.shared_bytes), resources, gpu)
    if reason is not None:
        raise Refusal(f"this launch cannot run on {gpu.name}: {reason}", cure="Change the launch.")


def _why_not(request: BlockRequest, resources: Resources, gpu: GPU) -> str | None:
    """Return why a GPU cannot run a launch, or None where it can."""
    limit = resources.max_threads_per_block
    if limit and request.threads > limit:
        return f"a block has {request.threads} threads, over the {limit} of the kernel's __launch_bounds__"
    return why_not(request, gpu.architecture)


def _check_fits(found: KernelProfile, gpu: GPU, *, force: bool) -> tuple[str, ...]:
    request = block_request_of(found)
    reason = _why_not(request, found.resources, gpu) if request and found.resources else None
    if reason is None:
        return ()
    if not force:
        raise Refusal(f"this launch cannot run on {gpu.name}: {reason}", cure="Change the launch, or use --force.")
    return (f"this launch cannot run on {gpu.name} ({reason}): forced",)
