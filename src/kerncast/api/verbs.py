"""The public verbs: the commands of the command line as functions, with the same words and the same meaning.

Each has one keyword per option. Errors are those of ``kerncast.errors``; an unknown keyword is a TypeError that names
the nearest one. ``progress`` is called as ``progress(what, done, total)``, with 0 for a total that is not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.api.answers import Comparison, Forecasts, Occupancies, Profile, Sensitivities
from kerncast.api.keywords import named_keywords
from kerncast.api.notebook import reporting
from kerncast.api.study_answers import Bounds, ProgramRun, SweepResults
from kerncast.api.subjects import Arguments, Given, forecast_of, launches_only, launches_or_counts, subjects_of
from kerncast.child_process import Progress
from kerncast.errors import InputError, Refusal
from kerncast.execute import Budget
from kerncast.forecast import Means, Options, Reading, observations, profile_launch, resolve_gpus, timing_named
from kerncast.forecast.evidence import GPUs
from kerncast.gpu import GPU, resolve_gpu
from kerncast.models import Question, is_model_file
from kerncast.prediction import Timing
from kerncast.profiles import ProfiledLaunch
from kerncast.read.launches import load_launches
from kerncast.read.selection import Selection
from kerncast.units import MIB

if TYPE_CHECKING:
    from kerncast.forecast.asked import GPUsNoted
    from kerncast.launch import Extent, Launch
    from kerncast.observation import Observation


@named_keywords
def predict(
    evidence: Given,
    gpu: GPUs = (),
    model: str | Path | None = None,
    *,
    args: Arguments | None = None,
    measured: "str | Path | Observation | Sequence[str | Path | Observation]" = (),
    timing: str | Timing | None = None,
    level: float = 0.9,
    clock: str | float | None = None,
    force: bool = False,
    budget: Budget | None = None,
    features: Mapping[str, float] | None = None,
    kernel: str | None = None,
    launch_skip: int = 0,
    launch_count: int | None = None,
    source_gpu: str | Path | None = None,
    source: "str | Path | Launch | Sequence[Launch] | None" = None,
    progress: Progress | None = None,
) -> Forecasts:
    """Forecast every launch of the evidence on every GPU; raises Refusal when nothing could be forecast.

    ``evidence``: a path as on the command line (launch file, recording, script, a profiler's or tuner's file, times or
    operators), a Launch or several, a Profile, or a function that launches Triton's or Numba's kernels, such as
    ``kernel[grid]`` with its ``args`` (in order, or by name), whose arrays stay as they are.
    ``gpu``: a name, ``all``, a path, a GPU, or several of them.
    ``model``: a name, or a trained model's file (.kcm), which may take ``features`` by name.
    ``measured``: texts such as "T4=1.23ms", files of times, and Observations.
    ``timing``: series (default), single, cold or profiler. ``level``: share of times that the interval should hold.
    ``clock``: base, boost, default or hertz. ``force``: forecast launches that the GPU could not run.
    ``kernel``, ``launch_skip``, ``launch_count``: the kernels of a profile; ``source_gpu``: the GPU on which it was
    made, if it does not name it; ``source``: launches of its kernels, to count what it lacks.
    """
    named = [measured] if isinstance(measured, str | Path) or not isinstance(measured, Sequence) else measured
    kind = None if timing is None else timing_named(str(timing))
    options = Options(
        None if model is None else str(model),
        kind or Timing.SERIES,
        level,
        clock,
        force,
        budget,
        observations(named),
        _reading(Selection(kernel, launch_skip, launch_count), source_gpu, source),
        kind,
        tuple((features or {}).items()),
    )
    own = not gpu and model is not None and is_model_file(str(model))  # rows of a table may name their GPUs
    with reporting(progress) as report:
        found = forecast_of(evidence, args, [] if own else resolve_gpus(gpu), options, report).whole()
    if not found.predictions and found.first_refusal:
        raise found.first_refusal
    return Forecasts(found, options.timing)


def _reading(
    selection: Selection, source_gpu: str | Path | None, source: "str | Path | Launch | Sequence[Launch] | None"
) -> Reading:
    from kerncast.launch import Launch  # noqa: PLC0415

    gpu, caveats = resolve_gpu(source_gpu) if source_gpu is not None else (None, ())
    if source is None:
        return Reading(selection, gpu, (), caveats)
    sources = (
        [source] if isinstance(source, Launch) else load_launches(source) if isinstance(source, str | Path) else source
    )
    return Reading(selection, gpu, tuple(sources), caveats)


@named_keywords
def profile(
    evidence: Given,
    gpu: str | Path | GPU | None = None,
    *,
    args: Arguments | None = None,
    budget: Budget | None = None,
    late: bool = False,
    progress: Progress | None = None,
) -> Profile:
    """Characterise one launch: ``profile(…)["smsp__inst_executed.sum"]``; raises InputError for a file of several.

    With a GPU it is compiled for that one, and caches, machine instructions and what warps wait for are known; without
    one it is compiled for sm_70, and the profile holds what no GPU changes. ``args``: those of a function, as in
    ``predict``. ``late`` copies asynchronously when that is waited for, so that a read before it is a KernelFault.
    """
    from kerncast.report.profile.source import read_sources  # noqa: PLC0415

    gpus = [] if gpu is None else _one_gpu(gpu, "profile")
    with reporting(progress) as report, subjects_of(evidence, args, gpus, report) as subjects:
        launches = launches_only(subjects, str(evidence)[:80])
        if len(launches) > 1:
            raise InputError(
                f"{str(evidence)[:80]} has {len(launches)} launches", cure="Pass one of load_launches(path)."
            )
        chosen, assumed = gpus[0] if gpus else (None, ())
        found = profile_launch(launches[0], chosen, budget, report, late=late)
        return Profile(ProfiledLaunch(found, chosen, assumed, read_sources(found, launches[0])))


@named_keywords
def compare(
    evidence: Given | Sequence[Given],
    gpu: GPUs,
    *,
    args: Arguments | None = None,
    price: str | Path | None = None,
    sort: str = "time",
    against: str | None = None,
    timing: str | Timing = Timing.SERIES,
    clock: str | float | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare GPUs by time, energy and cost, with the probability that one is faster than another.

    All launches of the evidence are one run. ``price``: a .csv with the columns gpu,usd_per_hour[,usd_price];
    ``sort``: time, energy or cost; ``against``: a GPU that each one is compared with. Raises Refusal where no GPU can
    be compared.
    """
    from kerncast.api.comparing import compared, order_of, refusal_of  # noqa: PLC0415

    options = Options(force=None, timing=timing_named(str(timing)), clock=clock, budget=budget)
    gpus = resolve_gpus(gpu)
    order = order_of(sort, None if price is None else Path(price), against, [each for each, _ in gpus])
    with reporting(progress) as report, subjects_of(evidence, args, gpus, report) as subjects:
        found = compared(launches_or_counts(subjects), gpus, options, order, report)
    if not found.rankings:
        raise refusal_of(found)
    return Comparison(found)


@named_keywords
def occupancy(
    evidence: Given | Sequence[Given] | None = None,
    gpu: GPUs = (),
    *,
    block: int | None = None,
    registers: int | None = None,
    shared: int | None = None,
    static_shared: int | None = None,
    barriers: int | None = None,
    cluster: "int | Extent | None" = None,
    carveout: str | None = None,
    progress: Progress | None = None,
) -> Occupancies:
    """Return how many blocks an SM of each GPU holds, what limits them, and what would hold one more.

    ``evidence``: launches, or None where ``block`` (threads) and ``registers`` (of a thread) are given; what is given
    stands in the place of the compiler's. ``gpu``: as elsewhere, and compute capabilities such as "8.6".
    ``shared`` and ``static_shared``: bytes of a block; ``cluster``: blocks of a cluster; ``carveout``: 50%, 64KiB, l1,
    equal or shared.
    """
    from kerncast.api.resident import Given as Values  # noqa: PLC0415
    from kerncast.api.resident import cases_of, cluster_blocks, targets_of  # noqa: PLC0415

    own = (cluster, 1, 1) if isinstance(cluster, int) else cluster
    blocks = None if own is None else cluster_blocks(own)
    values = Values(block, registers, shared, static_shared, barriers, blocks, carveout)
    targets, assumed = targets_of([gpu] if isinstance(gpu, str | Path | GPU) else list(gpu))
    if evidence is None:
        return Occupancies(tuple(cases_of(None, values, targets)), tuple(assumed))
    gpus: GPUsNoted = [(each.gpu, ()) for each in targets if each.gpu is not None]
    with reporting(progress) as report, subjects_of(evidence, None, gpus, report) as subjects:
        launches = launches_only(subjects, str(evidence)[:80])
        return Occupancies(tuple(cases_of(launches, values, targets, report)), tuple(assumed))


@named_keywords
def sensitivity(
    evidence: Given | Sequence[Given],
    gpu: str | Path | GPU,
    *,
    parameters: Sequence[str] = (),
    advice: bool = True,
    level: float = 0.9,
    timing: str | Timing = Timing.SERIES,
    clock: str | float | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Sensitivities:
    """Tell how the time follows each parameter of a GPU, and what lifting each limit of the kernel gains.

    ``parameters``: names such as dram_bandwidth; else all. Raises Refusal where no launch can be forecast.
    """
    from kerncast.api.varying import advice_on, of_study, varied  # noqa: PLC0415
    from kerncast.studies.sensitivity.elasticities import parameters_named  # noqa: PLC0415

    ((chosen, assumed),) = _one_gpu(gpu, "sensitivity study")
    chosen = chosen if clock is None else chosen.at_clock(clock)
    question = Question(timing_named(str(timing)), Options(level=level).level)
    wanted = parameters_named([parameters] if isinstance(parameters, str) else parameters)
    with reporting(progress) as report, subjects_of(evidence, None, [(chosen, assumed)], report) as subjects:
        launches = launches_only(subjects, str(evidence)[:80])
        means = Means(budget, report)
        study = varied(launches, (chosen, assumed), question, wanted, means)
        if not study.found:
            first = study.refused[0]
            raise first.refusal(first.reason)
        lifted = advice_on(of_study(launches, study), chosen, question, means)[0] if advice else ()
    return Sensitivities(study, chosen, lifted)


@named_keywords
def bound(
    evidence: "str | Path | Launch",
    gpu: str | Path | GPU,
    tpcs: str | Sequence[int] | None = None,
    *,
    kind: str | None = None,
    method: str | None = None,
    anchors: str | Sequence[int] | None = None,
    times: str | Path | None = None,
    kernel: str | None = None,
    form: str | None = None,
    blocks: int | None = None,
    blocks_per_tpc: int = 1,
    plan: int = 0,
    beside: "str | Path | Launch | None" = None,
    beside_tpcs: int | None = None,
    train: Sequence[str | Path] = (),
    profile: Mapping[int, str | Path] | None = None,
    level: float | None = None,
    timing: str | Timing | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Bounds:
    """Bound the time of a kernel on some of a GPU's TPCs; raises Refusal for a launch that cannot be simulated.

    ``evidence``: a Launch, a file of one, or times on parts of the GPU (.csv with tpcs,seconds; .jsonl).
    ``tpcs``: counts such as "1-8,40", or numbers; else all. ``kind``: margin, conformal, analytical or extreme.
    ``times``: measured times of a launch; ``anchors``: those that a method may use. ``beside``: another launch that
    runs on further TPCs. ``train``: tables of other launches to learn from; ``profile``: a profiler's file by the
    number of TPCs. ``level``: probability that a run stays below. The other options are those of ``kerncast bound``.
    """
    from kerncast.api.bounding import AskedBounds, Bounding, counts_of_tpcs  # noqa: PLC0415
    from kerncast.launch import Launch  # noqa: PLC0415

    ((chosen, assumed),) = _one_gpu(gpu, "bound")
    asked = AskedBounds(
        kind, method, _counts(anchors), _path(times), kernel, form, blocks, blocks_per_tpc, plan,
        beside if isinstance(beside, Launch) else _path(beside), beside_tpcs, tuple(Path(each) for each in train),
        tuple(f"{count}={file}" for count, file in (profile or {}).items()), level,
        None if timing is None else str(timing),
    )  # fmt: skip
    own = evidence if isinstance(evidence, Launch) else Path(evidence)
    bounding = Bounding.of(own, (chosen, counts_of_tpcs(_counts(tpcs), chosen)), asked)
    with reporting(progress) as report:
        found = bounding.bounds(Means(budget, report))
    return Bounds(replace(found, caveats=(*assumed, *found.caveats)))


def _counts(given: str | Sequence[int] | None) -> str | None:
    return given if given is None or isinstance(given, str) else ",".join(map(str, given))


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


@named_keywords
def sweep(
    evidence: str | Path,
    gpu: GPUs,
    values: Mapping[str, object],
    *,
    where: str | Sequence[str] = (),
    launch: int | None = None,
    model: str | None = None,
    timing: str | Timing = Timing.SERIES,
    level: float = 0.9,
    clock: str | float | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    resume: str | Path | None = None,
    top: int = 10,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> SweepResults:
    """Forecast all combinations of settings on each GPU; raises Refusal where no point has a time.

    ``evidence``: a launch file, or a tuning problem (.json), which other processes can read. ``values``: what each
    setting takes, such as ``{"BLOCK": [64, 128], "n": "2..512*2", "grid.x": "ceil(n / BLOCK)"}``. ``where``:
    conditions such as "BX*BY<=1024". ``launch``: the number of one of several. ``jobs``: child processes, as many as
    cores by default, 0 for none; ``cluster``: a scheduler of Dask. ``resume``: a file that keeps each result.
    ``top``: best points that are shown of each GPU. The other options are those of ``predict``.
    """
    from kerncast.api.sweeping import executor_of, settings_of, space_of_file, swept  # noqa: PLC0415
    from kerncast.studies.sweeps.point_results import Job  # noqa: PLC0415

    options = Options(model, timing_named(str(timing)), level, clock, budget=budget)
    job = Job(tuple(resolve_gpus(gpu)), options)
    conditions = [where] if isinstance(where, str) else list(where)
    space = space_of_file(Path(evidence), settings_of(values), conditions, launch)
    with reporting(progress) as report:
        found = swept(space, job, executor_of(job, jobs, cluster), _path(resume), report)
    if found.is_empty:
        raise Refusal(f"no point has a time: {found.results[0].outcomes[0].reason}")
    return SweepResults(found, level, top)


@named_keywords
def run(
    program: str | Path | Sequence[str | Path],
    gpu: GPUs = (),
    *,
    args: Sequence[object] = (),
    build: str | None = None,
    clock: str | Path | GPU | None = None,
    out: str | Path | None = None,
    include: Sequence[str | Path] = (),
    defines: Mapping[str, object] | None = None,
    compiler_options: Sequence[str] = (),
    on_fault: str = "stop",
    launch_seconds: float = 600.0,
    timeout: float | None = None,
    memory_bytes: int | None = None,
    kept_bytes: int = 256 * MIB,
    level: float = 0.9,
    progress: Progress | None = None,
) -> ProgramRun:
    """Run a CUDA program here, without a GPU, and forecast it on GPUs; it runs natively, as you, kernels confined.

    ``program``: sources (.cu, .cpp, .c), a program that is there, or a recording (.kc), which is not run again;
    ``args``: its arguments. ``build``: a command such as "make" that builds it with our nvcc. ``clock``: a GPU whose
    times the program's own timers show. ``out``: a file for the recording. ``on_fault``: stop, or warn.
    ``include``, ``defines``, ``compiler_options``: for the compiler. ``launch_seconds``: longest wall time of one
    launch; ``timeout``: seconds after which the program is ended. ``memory_bytes``: most of this machine's memory for
    the GPU's; ``kept_bytes``: most that is kept of what memory held. A program that fails is no error here: see
    ``status``.
    """
    from kerncast.api.running import Compiling, Limits, ran  # noqa: PLC0415

    words = [program] if isinstance(program, str | Path) else list(program)
    macros = tuple(f"-D{name}={value}" for name, value in (defines or {}).items())
    compiling = Compiling(build, (*compiler_options, *(f"-I{each}" for each in include), *macros))
    own = None if clock is None else _one_gpu(clock, "clock")[0][0]
    limits = Limits(launch_seconds, timeout, memory_bytes, kept_bytes, on_fault)
    with reporting(progress) as report:
        asked = compiling.asked([str(each) for each in words], [str(each) for each in args])
        gpus = resolve_gpus(gpu) if gpu else []
        return ProgramRun(*ran(asked, (gpus, own, level), limits, _path(out), report))


def _one_gpu(gpu: str | Path | GPU, what: str) -> "GPUsNoted":
    gpus = resolve_gpus(gpu)
    if len(gpus) > 1:
        raise InputError(f"{len(gpus)} GPUs are named for one {what}", cure="Name one GPU.")
    return gpus
