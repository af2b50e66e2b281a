"""The public verbs: the commands of the command line as functions, with the same words and the same meaning.

Each has one keyword per option. Errors are those of ``kerncast.errors``; an unknown keyword is a TypeError that names
the nearest one. ``progress`` is called as ``progress(what, done, total)``, with 0 for a total that is not known.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.api.answers import Comparison, Forecasts, Occupancies, Profile, Sensitivities
from kerncast.api.keywords import named_keywords
from kerncast.api.notebook import reporting
from kerncast.api.subjects import Arguments, Given, forecast_of, launches_only, launches_or_counts, subjects_of
from kerncast.child_process import Progress
from kerncast.errors import InputError
from kerncast.execute import Budget
from kerncast.forecast import Means, Options, Reading, observations, profile_launch, resolve_gpus, timing_named
from kerncast.forecast.evidence import GPUs
from kerncast.gpu import GPU, resolve_gpu
from kerncast.models import Question, is_model_file
from kerncast.prediction import Timing
from kerncast.profiles import ProfiledLaunch
from kerncast.read.launches import load_launches
from kerncast.read.selection import Selection

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


def _one_gpu(gpu: str | Path | GPU, what: str) -> "GPUsNoted":
    gpus = resolve_gpus(gpu)
    if len(gpus) > 1:
        raise InputError(f"{len(gpus)} GPUs are named for one {what}", cure="Name one GPU.")
    return gpus
