"""Hold kerncast against our own measurements: forecasts against times, executed counts against hardware counters.

Reads the measurement files below a folder (``measurements`` beside this one, or the argument) and prints Markdown.
Nothing is fitted. A file whose kernels are no longer those of the suite is named and left out.
"""

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import kerncast
from kerncast.bench.plan import Subject, suite_subjects
from kerncast.errors import KerncastError
from kerncast.gpu import GPU
from kerncast.kernel_profile import Count, KernelProfile
from kerncast.measurement import Configuration, Measurement, Method, Protocol
from kerncast.measurement_files import read_measurement
from kerncast.models import model_named
from kerncast.models.base import Question
from kerncast.prediction import Prediction, Timing
from kerncast.units import MEGA, PERCENT, format_seconds

FOLDER = Path(__file__).parent.parent / "measurements"
MODELS = ("template", "roofline")
TIMINGS = {Method.SERIES: Timing.SERIES, Method.SINGLE: Timing.SINGLE, Method.COLD: Timing.COLD}
GROUPS = ("seed", "extended")


def _of_kinds(*kinds: str) -> Callable[[KernelProfile], float]:
    """Return what counts the threads that executed instructions of these kinds."""

    def count(profile: KernelProfile) -> float:
        mix = profile.mix.kinds if profile.mix else ()
        return sum(each.thread_instructions.value for each in mix if each.kind in kinds)

    return count


#: What the executor counts, and which counters of Nsight Compute count the same.
COUNTS: dict[str, tuple[Callable[[KernelProfile], float], tuple[str, ...]]] = {
    "warp instructions (PTX against machine code)": (
        lambda p: p.mix.warp_instructions.value if p.mix else 0.0, ("smsp__inst_executed.sum",),
    ),
    "thread instructions (PTX against machine code)": (
        lambda p: p.mix.thread_instructions.value if p.mix else 0.0, ("smsp__thread_inst_executed_pred_on.sum",),
    ),
    "FP32 fused multiply-adds": (_of_kinds("fma.f32"), ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",)),
    "FP32 additions": (_of_kinds("add.f32", "sub.f32"), ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",)),
    "FP32 multiplications": (_of_kinds("mul.f32"), ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",)),
    "FP64 fused multiply-adds": (_of_kinds("fma.f64"), ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",)),
    "global load requests": (
        lambda p: _value(p.traffic.global_load_requests), ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    ),
    "global load sectors": (
        lambda p: _value(p.traffic.global_load_sectors), ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    ),
    "global store requests, atomics too": (
        lambda p: _value(p.traffic.global_store_requests),
        (
            "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
            "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
        ),
    ),
    "global store sectors, atomics too": (
        lambda p: _value(p.traffic.global_store_sectors),
        (
            "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
        ),
    ),
    "DRAM bytes (each sector once)": (
        lambda p: _value(p.traffic.dram_bytes), ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    ),
}  # fmt: skip


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


def main() -> None:
    """Print the tables of every measurement file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    files = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []
    if not files:
        print(f"skipped: there is no measurement file in {folder.name}/ (kerncast measure all --ncu makes one)")
    for path in files:
        try:
            print(report(read_measurement(path)))
        except KerncastError as error:
            sys.exit(f"{path.name}: {error}")


def report(measurement: Measurement) -> str:
    """Return all tables of one machine."""
    machine = measurement.machine
    gpu = kerncast.load_gpu(machine.gpu_name)
    subjects = known_subjects(measurement)
    parts = [
        f"## {machine.gpu_name}, driver {machine.driver}",
        conditions(measurement),
        ceiling_table(measurement, gpu),
        forecast_table(score(measurement, gpu, subjects)),
        counter_table(measurement, gpu, subjects),
        partition_table(measurement),
    ]
    return "\n\n".join(part for part in parts if part)


def known_subjects(measurement: Measurement) -> dict[str, Subject]:
    """Return the subjects of the suite that were measured as they are now."""
    found = {}
    for subject in suite_subjects(Protocol()):
        recorded = next((c for c in measurement.configurations if c.key == subject.key()), None)
        if recorded is None:
            continue
        if recorded.source_sha256 == subject.source_sha256:
            found[subject.key()] = subject
        else:
            print(f"{subject.key()} has changed since it was measured", file=sys.stderr)
    return found


@cache
def profile_of(subject: Subject, gpu: GPU) -> KernelProfile | None:
    """Execute a launch once per GPU; None where the executor refuses it."""
    print(f"\r{subject.key():60}", end="", file=sys.stderr, flush=True)
    try:
        return kerncast.profile(subject.launch, gpu=gpu)
    except KerncastError as error:
        print(f"\r{subject.key()}: {error}", file=sys.stderr)
        return None


def score(measurement: Measurement, gpu: GPU, subjects: dict[str, Subject]) -> list[Scored]:
    """Forecast every launch that was timed, with every model."""
    scored = []
    for key, subject in subjects.items():
        profile = profile_of(subject, gpu)
        for method, timing in TIMINGS.items() if profile else ():
            found = measurement.summary(key, method)
            for name in MODELS if found and profile else ():
                assert profile
                assert found
                prediction = model_named(name).predict(profile, gpu, Question(timing))
                scored.append(Scored(subject, method, prediction, found.mean))
    print("\r", end="", file=sys.stderr)
    return scored


def conditions(measurement: Measurement) -> str:
    """Say how many trials there are, and at which clocks they ran."""
    states = [state for trial in measurement.trials for state in (trial.before, trial.after)]
    clocks = [state.sm_hz / MEGA for state in states if state.sm_hz]
    held = sum(bool(t.before.throttle_reasons or t.after.throttle_reasons) for t in measurement.trials)
    outcomes = [check.outcome.value for check in measurement.checks]
    counted = ", ".join(f"{outcomes.count(each)} {each}" for each in sorted(set(outcomes)))
    text = f"{len(measurement.trials)} trials, {held} with the clock held back; results: {counted or 'not checked'}."
    if not clocks:
        return text
    low, middle, high = min(clocks), statistics.median(clocks), max(clocks)
    return f"{text} SM clock {low:.0f} to {high:.0f} MHz, median {middle:.0f} MHz (boost as in the data: see ceilings)."


def ceiling_table(measurement: Measurement, gpu: GPU) -> str:
    """Return what the GPU sustains; beside the peak where there is one of the same kind."""
    rows = [
        (each, found)
        for each in measurement.configurations
        if each.amount is not None
        for method in Method
        if (found := measurement.summary(each.key, method))
    ]
    readings = [
        f"| {each.configuration.rpartition('/')[2]} {each.name} | {statistics.median(each.values):.4g} {each.unit} |"
        for each in measurement.readings
    ]
    if not rows and not readings:
        return ""
    lines = [
        f"Boost clock of the data: {gpu.clock_boost_hz / MEGA:.0f} MHz.",
        "",
        "| ceiling | sustained |",
        "|---|---|",
    ]
    lines += [
        f"| {each.key.rpartition('/')[2]} | {each.amount / found.median:.4g} {each.amount_unit}/s |"
        for each, found in rows
        if each.amount is not None
    ]
    return "\n".join([*lines, *readings])


def forecast_table(scored: Sequence[Scored]) -> str:
    """Return errors per group, timing and model, and the worst ones by name."""
    if not scored:
        return ""
    lines = [
        "| launches | timing | model | n | MAPE | median APE | forecast / measured | in 90 % interval |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group in GROUPS:
        for method in TIMINGS:
            for model in MODELS:
                chosen = [
                    s for s in scored
                    if (s.subject.group, s.method, s.prediction.model) == (group, method, model)
                ]  # fmt: skip
                if chosen:
                    lines.append(f"| {group} | {method} | {model} | {len(chosen)} | {_errors(chosen)} |")
    worst = sorted((s for s in scored if s.prediction.model == MODELS[-1]), key=lambda s: -abs(s.log_ratio))[:8]
    named = "; ".join(f"{s.subject.name} {s.method} x{np.exp(s.log_ratio):.2g} ({s.prediction.limiter})" for s in worst)
    return "\n".join([*lines, "", f"Worst of {MODELS[-1]}: {named}."])


def counter_table(measurement: Measurement, gpu: GPU, subjects: dict[str, Subject]) -> str:
    """Return the ratio of executed counts to hardware counters, and every launch that is off by more than 10 %."""
    counted = [each for each in measurement.counters if each.configuration in subjects]
    if not counted:
        return ""
    lines = [
        "| count | n | median executed / counted | within 10 % | off by more than 10 % |",
        "|---|---|---|---|---|",
    ]
    for name, (executed, metrics) in COUNTS.items():
        ratios = {}
        for each in counted:
            values = {metric: value for metric, value, _ in each.metrics}
            truth = sum(values.get(metric, 0.0) for metric in metrics)
            profile = profile_of(subjects[each.configuration], gpu)
            if profile and truth and metrics[0] in values:
                ratios[each.configuration] = executed(profile) / truth
        if ratios:
            lines.append(f"| {name} | {_ratios(ratios)} |")
    return "\n".join(lines)


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


def _ratios(ratios: dict[str, float]) -> str:
    off = {key: ratio for key, ratio in ratios.items() if abs(ratio - 1) > 10 * PERCENT}
    named = ", ".join(f"{key.rpartition('/')[2]} {ratio:.2f}" for key, ratio in off.items())
    within = 1 - len(off) / len(ratios)
    return f"{len(ratios)} | {statistics.median(ratios.values()):.3f} | {within:.0%} | {named}"


def _value(count: Count | None) -> float:
    return count.value if count else 0.0


if __name__ == "__main__":
    main()
