"""Plans and results of a measurement, as tables and as JSON objects."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kerncast.bench.plan import Subject
from kerncast.bench.stages import Stage
from kerncast.measurements import Configuration, Measurement, Method, Outcome, Summary, summarise
from kerncast.report.as_json import SCHEMA_VERSION, fields_of
from kerncast.report.profile.words import extent_text, trimmed
from kerncast.report.tables import Table, TextColumn
from kerncast.units import PERCENT, format_count, format_seconds

_MOST_TEXT = 48


#: Seconds that a subject is expected to take, by its key; empty where nobody asked for forecasts.
Expected = Mapping[str, float]


def plan_object(gpu_name: str, stages: Sequence[Stage], expected: Expected) -> dict[str, Any]:
    """Return the object that ``kerncast measure --dry-run --json`` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "gpu": gpu_name,
        "seconds": sum(expected.values()) if expected else None,
        "seconds_at_most": sum(subject.most_seconds for stage in stages for subject in stage.subjects),
        "configurations": [
            _planned(stage, subject, sm_count, expected.get(subject.key()))
            for stage in stages
            for subject in stage.subjects
            for sm_count in subject.sm_counts
        ],
    }


def _planned(stage: Stage, subject: Subject, sm_count: int | None, seconds: float | None) -> dict[str, Any]:
    launch = subject.launch
    return {
        "key": subject.key(sm_count),
        "stage": stage.name,
        "group": subject.group,
        "kernel": _kernel(subject).partition("<")[0],
        "instance": _kernel(subject),
        "source": launch.source.name,
        "launch": launch.index,
        "grid": trimmed(launch.grid),
        "block": trimmed(launch.block),
        "shared_bytes": launch.shared_bytes,
        "arguments": {each.name: str(each.value) for each in launch.arguments},
        "sm_count": sm_count,
        "methods": [method.value for method in subject.protocol.methods],
        "trials": subject.protocol.trials,
        "seconds": None if seconds is None else seconds / len(subject.sm_counts),
        "seconds_at_most": subject.most_seconds / len(subject.sm_counts),
    }


def plan_table(stages: Sequence[Stage], expected: Expected) -> Table:
    """Return one row per launch that would be measured."""
    rows = tuple(
        (
            subject.key(),
            _kernel(subject),
            extent_text(subject.launch.grid),
            extent_text(subject.launch.block),
            _parts(subject),
            f"{subject.protocol.trials} × {', '.join(subject.protocol.methods)}",
            format_seconds(expected.get(subject.key(), subject.most_seconds), 2),
        )
        for stage in stages
        for subject in stage.subjects
    )
    return Table(
        ("configuration", TextColumn("kernel"), "grid", "block", "SMs", "trials", "about" if expected else "at most"),
        rows,
    )


def plan_sentence(stages: Sequence[Stage], expected: Expected) -> str:
    """Say how much there is to do, and how long it takes: about, or at most."""
    subjects = [subject for stage in stages for subject in stage.subjects]
    kernels = {(subject.launch.source, subject.launch.kernel) for subject in subjects}
    configurations = sum(len(subject.sm_counts) for subject in subjects)
    minutes = sum(expected.values() if expected else (subject.most_seconds for subject in subjects)) / 60
    length = f"about {minutes:.1f} minutes" if expected else f"at most {minutes:.0f} minutes, mostly far less"
    return f"{configurations} configurations of {len(subjects)} launches of {len(kernels)} kernels; {length}"


def measurement_object(measurement: Measurement) -> dict[str, Any]:
    """Return what ``kerncast measure --json`` prints: times per launch in seconds."""
    machine = measurement.machine
    return {
        "schema_version": SCHEMA_VERSION,
        "gpu": machine.gpu_name,
        "driver": machine.driver,
        "measured": [
            {
                **fields_of(each, "key", "kernel", "sm_count"),
                "method": method.value,
                "seconds": found.mean,
                "deviation_seconds": found.deviation,
                "median_seconds": found.median,
                "low_seconds": found.lowest,
                "high_seconds": found.highest,
                **fields_of(found, "trials", "samples", "outliers", "throttled_trials"),
            }
            for each, method, found in _summaries(measurement)
        ],
        "readings": [
            {"key": each.configuration, "name": each.name, "values": list(each.values), "unit": each.unit}
            for each in measurement.readings
        ],
        "checks": [
            {"key": each.configuration, "outcome": each.outcome.value, "blocks": each.blocks, "reason": each.reason}
            for each in measurement.checks
        ],
        "failures": [{"key": each.configuration, "reason": each.reason} for each in measurement.open_failures()],
    }


def summary_table(measurement: Measurement) -> Table:
    """Return one row per configuration and method, with the rate where the work is known."""
    outcomes = {check.configuration: check.outcome.value for check in measurement.checks}
    rows = tuple(
        (
            each.key,
            method.value,
            format_seconds(found.mean),
            "–" if found.deviation is None else f"{found.deviation / found.mean / PERCENT:.1f} %",
            f"{found.trials} / {found.samples}",
            str(found.outliers),
            str(found.throttled_trials),
            _rate(each, found),
            outcomes.get(each.key, ""),
        )
        for each, method, found in _summaries(measurement)
    )
    heading = (
        "configuration", "method", "mean", "deviation", "trials / samples", "outliers", "throttled", "rate", "results",
    )  # fmt: skip
    return Table(heading, rows)


def remarks(measurement: Measurement) -> tuple[str, ...]:
    """Say what a reader of the times should know: failures, wrong results, throttling."""
    said = [f"{each.configuration} could not be measured: {each.reason}" for each in measurement.open_failures()]
    said += [
        f"{each.configuration}: the results differ from those of the CPU ({each.reason})"
        for each in measurement.checks
        if each.outcome is Outcome.DIFFERENT
    ]
    reasons = {
        reason for trial in measurement.trials for state in (trial.before, trial.after)
        for reason in state.throttle_reasons
    }  # fmt: skip
    if reasons:
        throttled = sum(trial.is_throttled for trial in measurement.trials)
        total = len(measurement.trials)
        said.append(f"the clock was held back in {throttled} of {total} trials ({', '.join(sorted(reasons))})")
    return tuple(said)


def _summaries(measurement: Measurement) -> Iterable[tuple[Configuration, Method, Summary]]:
    trials = measurement.trials_by_method()
    for each in measurement.configurations:
        for method in Method:
            if (each.key, method) in trials:
                yield each, method, summarise(trials[each.key, method])


def _rate(configuration: Configuration, found: Summary) -> str:
    if configuration.amount is None:
        return ""
    return format_count(configuration.amount / found.median, f"{configuration.amount_unit}/s")


def _kernel(subject: Subject) -> str:
    """Return the kernel's name or template instance; the source's name where it has only one kernel."""
    return subject.launch.kernel or subject.launch.source.stem


def _parts(subject: Subject) -> str:
    sizes = [size for size in subject.sm_counts if size is not None]
    text = ", ".join(map(str, sizes)) if len(sizes) <= 4 else f"{sizes[0]} to {sizes[-1]} ({len(sizes)})"
    return text[:_MOST_TEXT] or "all"
