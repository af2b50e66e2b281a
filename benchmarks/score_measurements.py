"""Hold kerncast against our own measurements: forecasts against times, executed counts against hardware counters.

Reads the measurement files below a folder (``measurements`` beside this one, or the argument) and prints Markdown.
A GPU file beside a measurement, with the same name and ``.toml``, replaces the one that comes with kerncast.
Nothing is fitted. A launch that is no longer that of the suite, or whose results were wrong, is named and left out.
"""

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from operator import attrgetter
from pathlib import Path

import numpy as np

from kerncast.bench.ceilings.ceiling import name_of_key
from kerncast.bench.plan import Subject, suite_subjects
from kerncast.errors import KerncastError
from kerncast.forecast import profile_launch
from kerncast.gpu import GPU, resolve_gpu
from kerncast.measurements import Configuration, Measurement, Method, Outcome, Protocol, read_measurement
from kerncast.models import model_named
from kerncast.models.base import Case, Question
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import Count, KernelProfile
from kerncast.profiles.counts import (
    DRAM_BYTES_ONCE,
    GLOBAL_LOAD_REQUESTS,
    GLOBAL_LOAD_SECTORS,
    GLOBAL_WRITE_REQUESTS,
    GLOBAL_WRITE_SECTORS,
)
from kerncast.report.words import describe_caveats
from kerncast.units import MEGA, PERCENT, format_seconds

FOLDER = Path(__file__).parent.parent / "measurements"
MODELS = ("template", "roofline")
TIMINGS = {Method.SERIES: Timing.SERIES, Method.SINGLE: Timing.SINGLE, Method.COLD: Timing.COLD}
GROUPS = ("seed", "extended")
_TOLERANCE = 10 * PERCENT

#: The value of the data sheet that a ceiling is held against, by the ceiling's name and unit.
PEAKS: dict[tuple[str | None, str], Callable[[GPU], float]] = {
    ("fma_f32", "FLOP/s"): attrgetter("peak_fp32_flops_per_s"),
    ("fma_f64", "FLOP/s"): attrgetter("peak_fp64_flops_per_s"),
    **{(f"dram_{way}", "B/s"): attrgetter("dram_bytes_per_s") for way in ("copy", "read", "init", "triad")},
    ("clock", "Hz"): attrgetter("clock_boost_hz"),
}


def _of_kinds(*kinds: str) -> Callable[[KernelProfile], float | None]:
    """Return what counts the threads that executed instructions of these kinds."""

    def count(profile: KernelProfile) -> float | None:
        if profile.mix is None:
            return None
        return sum(each.thread_instructions.value for each in profile.mix.kinds if each.kind in kinds)

    return count


#: What the executor counts, and which counters of Nsight Compute together count the same.
COUNTS: dict[str, tuple[Callable[[KernelProfile], float | None], tuple[str, ...]]] = {
    "warp instructions (PTX against machine code)": (
        lambda p: _value(p.mix.warp_instructions if p.mix else None), ("smsp__inst_executed.sum",),
    ),
    "thread instructions (PTX against machine code)": (
        lambda p: _value(p.mix.thread_instructions if p.mix else None), ("smsp__thread_inst_executed_pred_on.sum",),
    ),
    "FP32 fused multiply-adds": (_of_kinds("fma.f32"), ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",)),
    "FP32 additions": (_of_kinds("add.f32", "sub.f32"), ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",)),
    "FP32 multiplications": (_of_kinds("mul.f32"), ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",)),
    "FP64 fused multiply-adds": (_of_kinds("fma.f64"), ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",)),
    "global load requests": (
        lambda p: _value(p.counts.get(GLOBAL_LOAD_REQUESTS)), ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    ),
    "global load sectors": (
        lambda p: _value(p.counts.get(GLOBAL_LOAD_SECTORS)), ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    ),
    "global store requests, atomics too": (
        lambda p: _value(p.counts.get(GLOBAL_WRITE_REQUESTS)),
        (
            "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
            "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
        ),
    ),
    "global store sectors, atomics too": (
        lambda p: _value(p.counts.get(GLOBAL_WRITE_SECTORS)),
        (
            "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
        ),
    ),
    "DRAM bytes (each sector once)": (
        lambda p: _value(p.counts.get(DRAM_BYTES_ONCE)), ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    ),
}  # fmt: skip

#: Counters that have another name on newer GPUs.
RENAMED = {f"dram__bytes_{way}.sum": f"dram__bytes_op_{way}.sum" for way in ("read", "write")}


@dataclass(frozen=True, slots=True)
class Scored:
    """One forecast beside its measurement."""

    subject: Subject
    method: Method
    prediction: Prediction
    measured_seconds: float

    @property
    def log_ratio(self) -> float:
        """ln(forecast / measured)."""
        return float(np.log(self.prediction.seconds / self.measured_seconds))


@dataclass(frozen=True, slots=True)
class Scores:
    """Forecasts beside measurements, and what has none."""

    scored: tuple[Scored, ...]
    timed: int
    """launches with a measured time"""
    refused: tuple[str, ...]
    """those of them that the executor or a model refuses"""


@dataclass(frozen=True, slots=True)
class Compared:
    """What the executor counts of one launch, beside the hardware counters."""

    name: str
    executed: float
    counted: float

    @property
    def is_off(self) -> bool:
        """Whether they differ by more than the tolerance; where nothing was counted, at all."""
        return abs(self.executed - self.counted) > _TOLERANCE * self.counted

    def __str__(self) -> str:
        return f"{self.name} " + (f"{self.executed / self.counted:.2f}" if self.counted else f"{self.executed:g} to 0")


def main() -> None:
    """Print the tables of every measurement file; one that cannot be scored does not keep the others from it."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    files = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []
    if not files:
        print(f"skipped: there is no measurement file in {folder.name}/ (kerncast measure all --ncu makes one)")
    failed = 0
    for path in files:
        try:
            print(report(path), end="\n\n")
        except KerncastError as error:
            failed += 1
            print(f"\r{path.relative_to(folder)} is left out: {error}", file=sys.stderr)
    if files and failed == len(files):
        sys.exit(2)


def report(path: Path) -> str:
    """Return all tables of one machine."""
    everything = read_measurement(path)
    machine = everything.machine
    own = path.with_suffix(".toml")
    gpu, caveats = resolve_gpu(own if own.is_file() else machine.gpu_name)
    cautions = describe_caveats(caveats)
    if own.is_file():
        cautions.append(f"The GPU's data are those of {own.name}.")
    if gpu.sm_count != machine.sm_count:
        cautions.append(f"The data are of {gpu.sm_count} SMs, and {machine.sm_count} were measured.")
    measurement, wrong = without_wrong_results(everything)
    subjects = known_subjects(measurement)
    parts = [
        f"## {machine.gpu_name}, driver {machine.driver}",
        *(f"Caution: {caution}" for caution in cautions),
        conditions(everything, gpu),
        f"Left out, because the results differ from those of the CPU: {', '.join(wrong)}." if wrong else "",
        ceiling_table(measurement, gpu.at_clock("boost")),  # the data sheet's peaks
        forecast_table(score(measurement, gpu, subjects)),
        counter_table(measurement, gpu, subjects),
        partition_table(measurement),
    ]
    return "\n\n".join(part for part in parts if part)


def without_wrong_results(measurement: Measurement) -> tuple[Measurement, tuple[str, ...]]:
    """Return what was measured of kernels that computed what they should, and the keys of the others.

    Of a launch on parts of the GPU one is checked: if that is wrong, the launch counts nowhere.
    """
    different = {c.configuration.partition("@")[0] for c in measurement.checks if c.outcome is Outcome.DIFFERENT}
    right = [each for each in measurement.configurations if each.key.partition("@")[0] not in different]
    return replace(measurement, configurations=tuple(right)), tuple(sorted(different))


def known_subjects(measurement: Measurement) -> dict[str, Subject]:
    """Return the subjects of the suite that were measured as they are now."""
    recorded = {each.key: each for each in measurement.configurations}
    found = {}
    for subject in suite_subjects(Protocol()):
        key = subject.key()
        if key not in recorded:
            continue
        if differences := subject.differences(recorded[key]):
            print(f"{key} has changed since it was measured: {'; '.join(differences)}", file=sys.stderr)
        else:
            found[key] = subject
    return found


@cache
def profile_of(subject: Subject, gpu: GPU) -> KernelProfile | None:
    """Execute a launch once per GPU; None where the executor refuses it."""
    print(f"\r{subject.key():60}", end="", file=sys.stderr, flush=True)
    try:
        return profile_launch(subject.launch, gpu=gpu)
    except KerncastError as error:
        print(f"\r{subject.key()}: {error}", file=sys.stderr)
        return None


def score(measurement: Measurement, gpu: GPU, subjects: dict[str, Subject]) -> Scores:
    """Forecast every launch that was timed, with every model.

    The template is the baseline, a naive roofline at data-sheet peaks. Scaling by SM x clock or by bandwidth, the
    other usual baselines, needs a time on another GPU, and a measurement is of one.
    """
    scored: list[Scored] = []
    timed, refused = 0, []
    for key, subject in subjects.items():
        times = {method: found.mean for method in TIMINGS if (found := measurement.summary(key, method))}
        if not times:
            continue
        timed += 1
        profile = profile_of(subject, gpu)
        forecasts = _forecasts(subject, profile, gpu, times) if profile else []
        scored += forecasts
        if not forecasts:
            refused.append(subject.name)
    print("\r", end="", file=sys.stderr)
    return Scores(tuple(scored), timed, tuple(refused))


def _forecasts(subject: Subject, profile: KernelProfile, gpu: GPU, times: dict[Method, float]) -> list[Scored]:
    """Forecast one launch with every model; none where one of them refuses, so that all are scored on the same."""
    try:
        return [
            Scored(subject, method, model_named(name).predict(Case(profile, gpu), Question(TIMINGS[method])), seconds)
            for method, seconds in times.items()
            for name in MODELS
        ]
    except KerncastError as error:
        print(f"\r{subject.key()}: {error}", file=sys.stderr)
        return []


def conditions(measurement: Measurement, gpu: GPU) -> str:
    """Say how many trials there are, and at which clocks they ran."""
    states = [state for trial in measurement.trials for state in (trial.before, trial.after)]
    clocks = [state.sm_hz for state in states if state.sm_hz]
    held = sum(trial.is_throttled for trial in measurement.trials)
    outcomes = [check.outcome.value for check in measurement.checks]
    counted = ", ".join(f"{outcomes.count(each)} {each}" for each in sorted(set(outcomes)))
    text = f"{len(measurement.trials)} trials, {held} with the clock held back; results: {counted or 'not checked'}."
    if not clocks:
        return text
    low, middle, high = (each / MEGA for each in (min(clocks), statistics.median(clocks), max(clocks)))
    boost = gpu.clock_boost_hz / MEGA
    return (
        f"{text} SM clock {low:.0f} to {high:.0f} MHz, median {middle:.0f} MHz:"
        f" {middle / boost:.1%} of the {boost:.0f} MHz boost of the data sheet."
    )


def ceiling_table(measurement: Measurement, gpu: GPU) -> str:
    """Return what the GPU sustains, beside the data-sheet peak at boost clock where there is one of the same kind."""
    lines = []
    for each in measurement.configurations:
        if each.amount is None:
            continue
        found = {method: summary for method in Method if (summary := measurement.summary(each.key, method))}
        for method, summary in found.items():
            name = each.key.rpartition("/")[2] + (f" ({method})" if len(found) > 1 else "")
            lines.append(_ceiling(name, each.key, each.amount / summary.median, f"{each.amount_unit}/s", gpu))
    readings: dict[tuple[str, str, str], list[float]] = {}
    for reading in measurement.readings:
        if min(reading.values, default=0) > 0:
            medians = readings.setdefault((reading.configuration, reading.name, reading.unit), [])
            medians.append(statistics.median(reading.values))
    for (key, name, unit), medians in readings.items():
        lines.append(_ceiling(f"{name}, read by the kernel", key, statistics.median(medians), unit, gpu))
    heading = ["| ceiling | sustained | of the data-sheet peak |", "|---|---|---|"]
    return "\n".join([*heading, *lines]) if lines else ""


def _ceiling(name: str, key: str, value: float, unit: str, gpu: GPU) -> str:
    peak = PEAKS.get((name_of_key(key), unit))
    share = f"{value / peak(gpu):.1%}" if peak else ""
    return f"| {name} | {value:.4g} {unit} | {share} |"


def forecast_table(scores: Scores) -> str:
    """Return errors per group, timing and model, the worst ones by name, and what was refused."""
    scored = scores.scored
    named = f" ({', '.join(scores.refused)})" if scores.refused else ""
    refused = f"Refused: {len(scores.refused)} of {scores.timed} timed launches{named}."
    if not scored:
        return refused if scores.timed else ""
    lines = [
        "| launches | timing | model | n | MAPE | median APE | forecast / measured | in 90 % interval |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in product(GROUPS, TIMINGS, MODELS):
        chosen = [s for s in scored if (s.subject.group, s.method, s.prediction.model) == row]
        if chosen:
            lines.append(f"| {' | '.join(row)} | {len(chosen)} | {_errors(chosen)} |")
    worst = sorted((s for s in scored if s.prediction.model == MODELS[-1]), key=lambda s: -abs(s.log_ratio))[:8]
    named = "; ".join(f"{s.subject.name} {s.method} x{np.exp(s.log_ratio):.2g} ({s.prediction.limiter})" for s in worst)
    return "\n".join([*lines, "", f"Worst of {MODELS[-1]}: {named}.", "", refused])


def counter_table(measurement: Measurement, gpu: GPU, subjects: dict[str, Subject]) -> str:
    """Return the ratio of executed counts to hardware counters, and every launch that is off by more than 10 %.

    A launch counts where the executor and all counters of a row know a value. Where both are 0, they agree; the
    median is over the launches of which the hardware counted anything.
    """
    counters: dict[str, dict[str, float]] = {}
    for each in measurement.counters:
        values = counters.setdefault(each.configuration, {})
        values.update({metric: value for metric, value, _ in each.metrics})
    lines = []
    for name, (executed, metrics) in COUNTS.items():
        compared = []
        for key, subject in subjects.items():
            truth = _counted(counters.get(key, {}), metrics)
            profile = profile_of(subject, gpu) if truth is not None else None
            found = executed(profile) if profile else None
            if truth is not None and found is not None:
                compared.append(Compared(subject.name, found, truth))
        if compared:
            lines.append(f"| {name} | {_agreement(compared)} |")
    heading = [
        "| count | n | both 0 | median executed / counted | within 10 % | off by more than 10 % |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*heading, *lines]) if lines else ""


def _counted(values: dict[str, float], metrics: Sequence[str]) -> float | None:
    """Return the sum of all metrics, by their old or new names; None where one is missing."""
    found = [values.get(metric, values.get(RENAMED.get(metric, metric))) for metric in metrics]
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(metrics) else None


def partition_table(measurement: Measurement) -> str:
    """Return time against the number of SMs: how much of an ideal speed-up each kernel reaches."""
    parts: dict[str, list[Configuration]] = {}
    for each in measurement.configurations:
        if each.sm_count is not None and measurement.summary(each.key, Method.SINGLE):
            parts.setdefault(each.key.partition("@")[0], []).append(each)
    if not parts:
        return ""
    lines = ["| launch | SMs | time on fewest | time on most | speed-up | of ideal |", "|---|---|---|---|---|---|"]
    for key, members in parts.items():
        ordered = sorted(members, key=lambda each: each.sm_count or 0)
        few, most = (measurement.summary(each.key, Method.SINGLE) for each in (ordered[0], ordered[-1]))
        assert few
        assert most
        gained = few.mean / most.mean
        ideal = (ordered[-1].sm_count or 1) / (ordered[0].sm_count or 1)
        lines.append(
            f"| {key.rpartition('/')[2]} | {ordered[0].sm_count} to {ordered[-1].sm_count} ({len(ordered)})"
            f" | {format_seconds(few.mean)} | {format_seconds(most.mean)} | {gained:.2f} | {gained / ideal:.0%} |"
        )
    return "\n".join(lines)


def _errors(chosen: Iterable[Scored]) -> str:
    rows = list(chosen)
    errors = np.array([abs(np.expm1(s.log_ratio)) for s in rows])
    inside = np.mean([s.prediction.low <= s.measured_seconds <= s.prediction.high for s in rows])
    bias = np.exp(np.mean([s.log_ratio for s in rows]))
    return f"{errors.mean():.0%} | {np.median(errors):.0%} | {bias:.2f} | {inside:.0%}"


def _agreement(compared: Sequence[Compared]) -> str:
    off = [each for each in compared if each.is_off]
    ratios = [each.executed / each.counted for each in compared if each.counted]
    middle = f"{statistics.median(ratios):.3f}" if ratios else "-"
    empty = sum(each.executed == each.counted == 0 for each in compared)
    within = 1 - len(off) / len(compared)
    return f"{len(compared)} | {empty} | {middle} | {within:.0%} | {', '.join(map(str, off))}"


def _value(count: Count | None) -> float | None:
    return count.value if count else None


if __name__ == "__main__":
    main()
