"""The JSON objects of the command line: a promise, pinned by tests and versioned by ``schema_version``."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kerncast.gpu import GPU, Fact, IncompleteGPU
from kerncast.gpu.confidence import Doubt
from kerncast.prediction import MeasuredEvidence, Prediction, Refused, Timing, Transfer
from kerncast.printable import json_escaped
from kerncast.report.words import caveat_fields

if TYPE_CHECKING:  # what lists GPUs does not wait for the compiler and the executor
    from kerncast.checkup import Checkup
    from kerncast.compile.cache import CacheReport
    from kerncast.forecast import Forecast
    from kerncast.models.missing_facts import MissingFacts

#: 1.0: predict, gpus, occupancy, doctor.
SCHEMA_VERSION = "1.0"
#: Elements of a list that are written over several lines.
_MOST_INDENTED = 200
_INDENTED = json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False)
_LINE = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def json_text(table: dict[str, Any]) -> str:
    """Return an object as JSON, indented; of long lists each element is one line, which is many times faster.

    >>> print(json_text({"a": {"b": 1}}), end="")
    {
      "a": {
        "b": 1
      }
    }
    """
    fields = ",\n".join(f"  {_LINE.encode(key)}: {_json_value(value)}" for key, value in table.items())
    return json_escaped(f"{{\n{fields}\n}}\n" if fields else "{}\n")


def _json_value(value: Any) -> str:
    if isinstance(value, list) and len(value) > _MOST_INDENTED:
        rows = ",\n".join(f"    {_LINE.encode(row)}" for row in value)
        return f"[\n{rows}\n  ]"
    return _INDENTED.encode(value).replace("\n", "\n  ")


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """Return these fields of a value, under their own names and in this order."""
    return {name: getattr(value, name) for name in names}


def predict_object(forecast: "Forecast", timing: Timing) -> dict[str, Any]:
    """Return the object that ``kerncast predict --json`` prints; times in seconds."""
    return {
        "schema_version": SCHEMA_VERSION,
        "timing": _timing_of(forecast, timing).value,
        "predictions": [_prediction(p, case) for p, case in zip(forecast.predictions, forecast.cases, strict=True)],
        "totals": totals_of(forecast),
        "refused": [refused_launch(each) for each in forecast.refused],
    }


def _timing_of(forecast: "Forecast", asked: Timing) -> Timing:
    """Return the timing of all forecasts where they share one: operators have that of their data."""
    found = {p.timing for p in forecast.predictions}
    return found.pop() if len(found) == 1 else asked


def refused_launch(refused: Refused) -> dict[str, Any]:
    """Return a launch that was not forecast, and why."""
    return fields_of(refused, "kernel", "launch", "gpu", "reason")


def totals(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return per GPU the sum over launches; the interval adds the bounds, as if all errors were alike."""
    rows: dict[str, dict[str, Any]] = {}
    for p in predictions:
        empty = {"launches": 0, "seconds": 0.0, "low": 0.0, "high": 0.0}
        row = rows.setdefault(p.gpu_id, fields_of(p, "gpu", "gpu_id") | empty)
        row["launches"] += p.count
        for key in ("seconds", "low", "high"):
            row[key] += p.count * getattr(p, key)
    return list(rows.values())


def totals_of(forecast: "Forecast") -> list[dict[str, Any]]:
    """Return per GPU the sum over launches, and how many launches it lacks."""
    return [
        {**row, "launches_refused": len({r.launch for r in forecast.refused if r.gpu in {None, row["gpu"]}})}
        for row in totals(forecast.predictions)
    ]


def gpu_object(gpu: GPU) -> dict[str, Any]:
    """Return one GPU with every fact and its sources."""
    numbers = ("sm_count", "tpc_count", "clock_hz", "peak_fp32_flops_per_s", "dram_bytes_per_s")
    return {**_identity(gpu), **fields_of(gpu, *numbers), "facts": [_fact(fact) for fact in gpu.all_facts]}


def incomplete_object(gpu: IncompleteGPU) -> dict[str, Any]:
    """Return a GPU that no model can forecast, with what it lacks, and every known fact with its sources."""
    return {**_identity(gpu), "lacks": list(gpu.lacks), "facts": [_fact(fact) for fact in gpu.all_facts]}


def _identity(gpu: GPU | IncompleteGPU) -> dict[str, Any]:
    a = gpu.architecture
    return {**fields_of(gpu, "id", "name"), "architecture": a.name, "compute_capability": a.compute_capability}


def doubt_object(doubt: Doubt) -> dict[str, Any]:
    """Return a value that is most likely a slip, and what is likely instead."""
    return fields_of(doubt, "key", "value", "unit", "low", "high", "by")


def missing_object(missing: "MissingFacts") -> dict[str, Any]:
    """Return what a model lacks of a GPU."""
    return {"model": missing.model, "keys": list(missing.keys)}


def _prediction(p: Prediction, case: Any) -> dict[str, Any]:
    profile = getattr(case, "profile", None)  # of an operator, or a kernel known by its times, there is none
    return {
        **fields_of(p, "kernel", "launch", "count", "gpu", "gpu_id", "seconds", "low", "high", "level"),
        "timing": p.timing.value,
        "clock_hz": case.gpu.clock_hz,
        "counts": profile.origin.value if profile else None,
        **fields_of(p, "limiter", "model"),
        "terms": {term.name: term.seconds for term in p.terms},
        "roofs": {term.name: term.seconds / p.seconds for term in p.terms} if p.seconds else {},
        **caveat_fields(p.caveats),
        "transfer": _transfer(p.transfer) if p.transfer else None,
        "evidence": _evidence(p.evidence) if p.evidence else None,
    }


def _evidence(evidence: MeasuredEvidence) -> dict[str, Any]:
    names = "gpu", "gpu_id", "kernel", "launch", "seconds", "simulated_seconds", "factor", "contradicts"
    return {
        "seconds_without": evidence.seconds_without,
        "measured": [fields_of(time, *names) for time in evidence.times],
        "limits": [fields_of(limit, "resource", "probability", "seconds") for limit in evidence.limits],
    }


def _transfer(transfer: Transfer) -> dict[str, Any]:
    figures = [fields_of(figure, "name", "unit", "source", "target") for figure in transfer.figures]
    return {**fields_of(transfer, "gpu", "gpu_id", "measured_seconds"), "figures": figures}


def _fact(fact: Fact) -> dict[str, Any]:
    return {**fields_of(fact, "key", "value", "unit"), "sources": list(fact.sources), "status": fact.status.value}


def cache_object(report: "CacheReport") -> dict[str, Any]:
    """Return where compiled kernels are remembered, and how much."""
    oldest = report.usage.oldest_use
    return {
        "folder": None if report.folder is None else str(report.folder),
        **fields_of(report, "is_used", "why_not"),
        "entries": report.usage.entries,
        "bytes": report.usage.bytes,
        "most_bytes": report.most_bytes,
        "oldest_use": None if oldest is None else datetime.fromtimestamp(oldest, UTC).isoformat(timespec="seconds"),
    }


def doctor_object(found: "Checkup") -> dict[str, Any]:
    """Return what a check-up found."""
    names = ("name", "found", "version", "needed_for", "trouble", "cure", "command", "is_optional")
    return {
        "healthy": found.is_healthy,
        "works": {"sources": found.sources_work, "counts": found.counts_work},
        "parts": [fields_of(part, *names) for part in found.parts],
    }
