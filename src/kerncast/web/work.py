"""VERB work: one state of a pane becomes answers, the forecast first and what explains it after that."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, CompileError, InputError, KerncastError, LaunchError, Refusal
from kerncast.execute import Budget
from kerncast.forecast import Forecast, Means, Options, compile_launch, forecast_all, in_limits, resolve_gpus
from kerncast.forecast.asked import GPUsNoted
from kerncast.forecast.closer_look import LineCode, code_of
from kerncast.forecast.compiled_launch import compile_and_count, gathered
from kerncast.forecast.results import simulation_key
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.machine.listing import begin, disassembler, finish, reads
from kerncast.models import Case
from kerncast.models.sm.simulation import with_warp_states
from kerncast.observation import Observation
from kerncast.occupancy import block_request_of, occupancy
from kerncast.prediction import Prediction
from kerncast.printable import printable_lines
from kerncast.profiles import KernelProfile
from kerncast.replaced_file import replacing
from kerncast.report.forecast.forecast_tables import notes_of
from kerncast.report.forecast.verdict import verdicts
from kerncast.report.pictures.colours import limit_colour
from kerncast.report.profile.sections import STALLS
from kerncast.report.words import describe_limiter, describe_percent, describe_sampling
from kerncast.units import GIB
from kerncast.web.launch_text import hypothetical_text
from kerncast.web.questions import (
    Answer,
    Asked,
    CompiledTold,
    Done,
    ForecastTold,
    LaunchesTold,
    LaunchTime,
    LineCost,
    LinesTold,
    Part,
    PictureTold,
    Problem,
    ReportTold,
    Row,
)
from kerncast.web.typed_launch import SOURCE_NAME, Place, launch_of, measured_times, told_arguments, with_arguments

#: Who types waits: an eighth of the sample of ``kerncast predict``, and blocks that count as endless after a second or
#: two instead of a minute.
BUDGET = Budget(sample_seconds=0.25, block_steps=2_000_000, seconds=30.0, memory_bytes=2 * GIB)
_SMALLER = (
    f"The sample is {Budget().sample_seconds / BUDGET.sample_seconds:.0f} times smaller than that of kerncast predict,"
    " whose time may differ."
)
_DRAFT = (
    "This is a first answer: averages over many kernels stand for the machine code, which is being read, and the other"
    " GPUs follow."
)
_GPU_FILE = "hypothetical.toml"
_AT_LINE = re.compile(r"(?:^|[\s(])(?:[^\s(]*/)?kernel\.cu(?:\((\d{1,7})\)|:(\d{1,7})): ?(.*)")
_MOST_LINES = 40


def answers(asked: Asked, place: Place) -> Iterator[Answer]:
    """Yield all that there is to say; what is wrong is an answer, too."""
    begun = time.monotonic()
    try:
        _write(place.folder / SOURCE_NAME, asked.source)
        work = _Work.of(asked, place)
        yield work.compiled
        if asked.wants_report:
            yield _report(work.forecast(work.gpus))
            return
        with suppress(Refusal):  # on this GPU; the others may have an answer
            for told in work.drafts():
                yield told
                yield Done(time.monotonic() - begun, is_draft=True)
        finish(work.kernel.cubin, work.kernel.architecture)
        forecast = work.forecast(work.gpus)
        yield _told(forecast)
        yield Done(time.monotonic() - begun)
        if len(asked.launches) > 1:
            yield _all_launches(asked, work, place)
        yield from _explained(work, forecast)
    except KerncastError as error:
        yield problem_of(error, place.folder)


def _write(path: Path, text: str) -> None:
    """Write a file whole: another question with the same text may read it."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def problem_of(error: KerncastError, folder: Path) -> Problem:
    """Return an error as the page shows it, with the lines of the source that it names."""
    what, cure, where = (_without(text, folder) for text in (error.what, error.cure or "", error.where or ""))
    found = [
        (int(match[1] or match[2]), match[3].removeprefix("error: "))
        for text in (f"{where}: {what}", *what.splitlines()[1:])
        if (match := _AT_LINE.search(text)) and ": warning" not in text
    ]
    if isinstance(error, CompileError):
        what = what.partition(":\n")[0] if found else what
    return Problem(what, cure, tuple(dict.fromkeys(found))[:_MOST_LINES], isinstance(error, BudgetExceededError))


def _without(text: str, folder: Path) -> str:
    return printable_lines(text.replace(f"{folder}/", "").replace(f"{folder.resolve()}/", ""))


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be forecast, as far as it can be known before a block runs."""

    launch: Launch
    gpus: GPUsNoted
    kernel: CompiledKernel
    """the kernel as compiled for the first GPU, or for another one where that GPU cannot have it"""
    compiled: CompiledTold
    measured: tuple[Observation, ...] = ()

    @classmethod
    def of(cls, asked: Asked, place: Place) -> "_Work":
        """Compile the launch that is looked at, and complete its arguments; raises InputError."""
        gpus, typed = _gpus_of(asked, place.folder), asked.launches[asked.place]
        launch, measured = launch_of(asked, typed, place), measured_times(asked.measured)
        kernel = _compiled(launch, [gpu.architecture.code_name for gpu, _ in gpus])
        told = told_arguments(typed, kernel, launch)
        return cls(with_arguments(launch, told), gpus, kernel, CompiledTold(kernel.kernel, told), measured)

    def drafts(self) -> Iterator[ForecastTold]:
        """Yield a forecast on the first GPU without its machine code, which is read meanwhile; raises Refusal.

        None where no machine code is read, and no other GPU follows.
        """
        by_averages = disassembler() is not None and reads(self.kernel.architecture)
        if not by_averages and len(self.gpus) == 1:
            return
        begin(self.kernel.cubin, self.kernel.architecture)
        told = _told(self.forecast(self.gpus[:1], by_averages=by_averages))
        note = _DRAFT if by_averages else "This is a first answer: the other GPUs follow."
        yield replace(told, is_draft=True, sampling=f"{told.sampling} {note}")

    def forecast(self, gpus: GPUsNoted, *, by_averages: bool = False) -> Forecast:
        """Return the forecast on some GPUs, of which at least one has an answer; raises Refusal."""
        options = Options(budget=BUDGET, apart=True, by_averages=by_averages, measured=self.measured)
        found = forecast_all((self.launch,), gpus, options).whole()
        if not found.predictions:
            raise found.first_refusal or Refusal("nothing could be forecast")
        return found


def _gpus_of(asked: Asked, folder: Path) -> GPUsNoted:
    names: list[str | Path] = list(asked.gpus)
    if asked.hypothetical is not None:
        path = folder / _GPU_FILE
        _write(path, hypothetical_text(asked.hypothetical))
        names.insert(0, path)
    if not names:
        raise InputError("no GPU is chosen", cure="Choose one or several above.")
    return resolve_gpus(names)


def _compiled(launch: Launch, architectures: Sequence[str]) -> CompiledKernel:
    """Return the kernel compiled for the first architecture that takes it; raises the CompileError of the first."""
    errors = []
    for name in dict.fromkeys(architectures):
        try:
            return compile_launch(launch, [name]).kernels[0]
        except CompileError as error:
            errors.append(error)
    raise errors[0]


# What comes of it.


def _told(forecast: Forecast) -> ForecastTold:
    pairs = sorted(zip(forecast.predictions, forecast.cases, strict=True), key=lambda pair: pair[0].seconds)
    rows = tuple(_row(p, case) for p, case in pairs if isinstance(case, Case))
    refused = tuple(f"{r.gpu or 'All GPUs'}: {r.reason}" for r in forecast.refused)
    sampling = describe_sampling(forecast.profiled[0].profile)
    notes = [each for each in notes_of(forecast) if not each.startswith("Refused: ")]
    return ForecastTold(" ".join(verdicts(forecast)), rows, refused, tuple(notes), f"{sampling} {_SMALLER}")


def _row(p: Prediction, case: Case) -> Row:
    ranked = sorted(p.terms, key=lambda term: -term.seconds)
    parts = [Part(describe_limiter(term.name), term.seconds, limit_colour(term.name)) for term in ranked]
    request, architecture = block_request_of(case.profile), case.gpu.architecture
    resident, told = 0, ""
    if request is not None:
        found = occupancy(request, architecture)
        resident = found.blocks_per_sm * -(-request.threads // 32)
        blocks = "1 block" if found.blocks_per_sm == 1 else f"{found.blocks_per_sm} blocks"
        share = describe_percent(found.fraction)
        told = f"{blocks} per SM, {share} of its warps, limited by {found.limiter.value}"
    return Row(
        p.gpu, p.gpu_id, p.seconds, p.low, p.high, describe_limiter(p.limiter), tuple(parts), p.model,
        is_hypothetical=case.gpu.id == Path(_GPU_FILE).stem, occupancy=told,
        resident_warps=resident, most_warps=architecture.max_warps_per_sm,
    )  # fmt: skip


def _report(forecast: Forecast) -> ReportTold:
    from kerncast.forecast.closer_look import look_closer  # noqa: PLC0415  rarely asked for
    from kerncast.report.forecast.document import Beyond, build_document  # noqa: PLC0415
    from kerncast.report.forecast.picture import page_rooflines  # noqa: PLC0415
    from kerncast.report.page.pages import render_html  # noqa: PLC0415

    beyond = Beyond(look_closer(forecast, Means(BUDGET, apart=True)), rooflines=page_rooflines(forecast))
    return ReportTold(render_html(build_document(forecast, beyond)))


def _explained(work: _Work, forecast: Forecast) -> Iterator[Answer]:
    """Yield what lies behind the forecast on the GPU that was named first."""
    order = {gpu.id: number for number, (gpu, _) in enumerate(work.gpus)}
    first = min(forecast.profiled, key=lambda case: order.get(case.gpu.id, len(order)), default=None)
    if first is None:
        return
    yield _lines(work.launch, first.gpu)
    yield _roofline(forecast, first.gpu)


def _all_launches(asked: Asked, work: _Work, place: Place) -> LaunchesTold:
    """Return the time of each launch on the first GPU; one that is wrong costs its own time alone."""
    (gpu, assumed), *_ = work.gpus
    times = []
    for number, typed in enumerate(asked.launches):
        try:
            launch = work.launch
            if number != asked.place:
                launch = launch_of(asked, typed, place)
                kernel = _compiled(launch, [gpu.architecture.code_name])
                launch = with_arguments(launch, told_arguments(typed, kernel, launch))
            found = forecast_all((launch,), [(gpu, assumed)], Options(budget=BUDGET, apart=True)).whole()
            if not found.predictions:
                raise found.first_refusal or Refusal("nothing could be forecast")
            times.append(LaunchTime(found.predictions[0].kernel, found.predictions[0].seconds))
        except KerncastError as error:
            problem = problem_of(error, place.folder)
            times.append(LaunchTime(typed.kernel or f"launch {number + 1}", None, problem.what))
    return LaunchesTold(gpu.name, tuple(times))


def _roofline(forecast: Forecast, gpu: GPU) -> PictureTold:
    from kerncast.report.pictures.forecast_roofline import draw_forecast_rooflines, rooflines_of  # noqa: PLC0415
    from kerncast.report.pictures.picture_files import svg_text  # noqa: PLC0415  draws with matplotlib

    figure = draw_forecast_rooflines([each for each in rooflines_of(forecast) if each.gpu == gpu.name])
    return PictureTold("roofline", "" if figure is None else svg_text(figure))


@dataclass(frozen=True, slots=True)
class _Looked:
    """A profile with what its warps wait for, and the code of each source line."""

    profile: KernelProfile
    code: tuple[LineCode, ...]


def _lines(launch: Launch, gpu: GPU) -> LinesTold:
    """Return what the source lines cost: cycles of warps where they can be simulated, warp instructions elsewhere."""
    looked = in_limits(_Looked, lambda means: _look(launch, gpu, means), [launch], Means(BUDGET, apart=True))
    file = str(launch.source)
    code = {each.line: each for each in looked.code if each.file == file}
    by, costs = _costs(looked.profile, file)
    found = []
    for line, share, reason in costs:
        own = code.get(line, LineCode(file, line, (), ()))
        found.append(LineCost(line, share, reason, own.ptx, own.sass, own.left_out))
    return LinesTold(gpu.name, tuple(found), by)


def _costs(profile: KernelProfile, file: str) -> tuple[str, list[tuple[int, float, str]]]:
    """Return what shares are of, and line, share and reason of each line of the source."""
    if profile.warp_states is not None:
        cycles = profile.warp_states.warp_cycles
        return "the time of all warps", [
            (each.line, each.warp_cycles / cycles, _reason(each.states[0].state))
            for each in profile.warp_states.lines
            if each.file == file
        ]
    whole = sum(each.warp_instructions.value for each in profile.lines)
    return "all warp instructions", [
        (each.line, each.warp_instructions.value / whole, "") for each in profile.lines if each.file == file and whole
    ]


def _reason(state: str) -> str:
    return "issues" if state == "selected" else f"waits for {STALLS[state]}"


def _look(launch: Launch, gpu: GPU, means: Means) -> _Looked:
    name = gpu.architecture.code_name
    found = compile_and_count(launch, [name], means).on(name)
    if found is None:
        raise LaunchError("the launch is not known for this GPU")

    def simulated() -> KernelProfile:
        recorder = found.recorder()
        found.run.begin_machine_code()
        return with_warp_states(found.profile, gathered(found.profile, gpu, recorder), gpu)

    key = simulation_key(found.key, "lines", gpu, found.profile)
    try:
        profile = means.results.get(KernelProfile, key, simulated)
    except Refusal:
        profile = found.profile
    return _Looked(profile, code_of(found)[0])


__all__ = ["BUDGET", "answers", "problem_of"]
