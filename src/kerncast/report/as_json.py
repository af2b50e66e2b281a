"""The JSON objects of the command line: a promise, pinned by tests and versioned by ``schema_version``."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kerncast.gpu import GPU, Fact, IncompleteGPU
from kerncast.gpu.confidence import Doubt
from kerncast.prediction import Prediction, Timing, Transfer
from kerncast.report.words import caveat_fields

if TYPE_CHECKING:  # what lists GPUs does not wait for the compiler and the executor
    from kerncast.checkup import Checkup
    from kerncast.compile.cache import CacheReport
    from kerncast.forecast import Forecast
    from kerncast.models.missing_facts import MissingFacts

#: 1.0: predict, gpus, occupancy, doctor.
SCHEMA_VERSION = "1.0"


def predict_object(forecast: "Forecast", timing: Timing) -> dict[str, Any]:
    """Return the object that ``kerncast predict --json`` prints; times in seconds."""
    return {
        "schema_version": SCHEMA_VERSION,
        "timing": timing.value,
        "predictions": [
            _prediction(p, case.gpu.clock_hz) for p, case in zip(forecast.predictions, forecast.cases, strict=True)
        ],
        "totals": [
            {**row, "launches_refused": _refused_launches(forecast, row["gpu"])} for row in totals(forecast.predictions)
        ],
        "refused": [
            {"kernel": r.kernel, "launch": r.launch, "gpu": r.gpu, "reason": r.reason} for r in forecast.refused
        ],
    }


def _refused_launches(forecast: "Forecast", gpu: str) -> int:
    return len({r.launch for r in forecast.refused if r.gpu in {None, gpu}})


def totals(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return per GPU the sum over launches; the interval adds the bounds, as if all errors were alike."""
    rows: dict[str, dict[str, Any]] = {}
    for p in predictions:
        row = rows.setdefault(
            p.gpu_id, {"gpu": p.gpu, "gpu_id": p.gpu_id, "launches": 0, "seconds": 0.0, "low": 0.0, "high": 0.0}
        )
        row["launches"] += 1
        for key in ("seconds", "low", "high"):
            row[key] += getattr(p, key)
    return list(rows.values())


def gpu_object(gpu: GPU) -> dict[str, Any]:
    """Return one GPU with every fact and its sources."""
    return {
        "id": gpu.id,
        "name": gpu.name,
        "architecture": gpu.architecture.name,
        "compute_capability": gpu.compute_capability,
        "sm_count": gpu.sm_count,
        "tpc_count": gpu.tpc_count,
        "clock_hz": gpu.clock_hz,
        "peak_fp32_flops_per_s": gpu.peak_fp32_flops_per_s,
        "dram_bytes_per_s": gpu.dram_bytes_per_s,
        "facts": [_fact(fact) for fact in gpu.all_facts],
    }


def incomplete_object(gpu: IncompleteGPU) -> dict[str, Any]:
    """Return a GPU that no model can forecast, with what it lacks, and every known fact with its sources."""
    return {
        "id": gpu.id,
        "name": gpu.name,
        "architecture": gpu.architecture.name,
        "compute_capability": gpu.architecture.compute_capability,
        "lacks": list(gpu.lacks),
        "facts": [_fact(fact) for fact in gpu.all_facts],
    }


def doubt_object(doubt: Doubt) -> dict[str, Any]:
    """Return a value that is most likely a slip, and what is likely instead."""
    return {
        "key": doubt.key,
        "value": doubt.value,
        "unit": doubt.unit,
        "low": doubt.low,
        "high": doubt.high,
        "by": doubt.by,
    }


def missing_object(missing: "MissingFacts") -> dict[str, Any]:
    """Return what a model lacks of a GPU."""
    return {"model": missing.model, "keys": list(missing.keys)}


def _prediction(p: Prediction, clock_hz: float) -> dict[str, Any]:
    return {
        "kernel": p.kernel,
        "launch": p.launch,
        "gpu": p.gpu,
        "gpu_id": p.gpu_id,
        "seconds": p.seconds,
        "low": p.low,
        "high": p.high,
        "level": p.level,
        "timing": p.timing.value,
        "clock_hz": clock_hz,
        "limiter": p.limiter,
        "model": p.model,
        "terms": {term.name: term.seconds for term in p.terms},
        "roofs": {term.name: term.seconds / p.seconds for term in p.terms} if p.seconds else {},
        **caveat_fields(p.caveats),
        "transfer": _transfer(p.transfer) if p.transfer else None,
    }


def _transfer(transfer: Transfer) -> dict[str, Any]:
    return {
        "gpu": transfer.gpu,
        "gpu_id": transfer.gpu_id,
        "measured_seconds": transfer.measured_seconds,
        "figures": [
            {"name": figure.name, "unit": figure.unit, "source": figure.source, "target": figure.target}
            for figure in transfer.figures
        ],
    }


def _fact(fact: Fact) -> dict[str, Any]:
    return {
        "key": fact.key,
        "value": fact.value,
        "unit": fact.unit,
        "sources": list(fact.sources),
        "status": fact.status.value,
    }


def cache_object(report: "CacheReport") -> dict[str, Any]:
    """Return where compiled kernels are remembered, and how much."""
    oldest = report.usage.oldest_use
    return {
        "folder": None if report.folder is None else str(report.folder),
        "is_used": report.is_used,
        "why_not": report.why_not,
        "entries": report.usage.entries,
        "bytes": report.usage.bytes,
        "most_bytes": report.most_bytes,
        "oldest_use": None if oldest is None else datetime.fromtimestamp(oldest, UTC).isoformat(timespec="seconds"),
    }


def doctor_object(found: "Checkup") -> dict[str, Any]:
    """Return what a check-up found."""
    return {
        "healthy": found.is_healthy,
        "works": {"sources": found.sources_work, "counts": found.counts_work},
        "parts": [
            {
                "name": part.name,
                "found": part.found,
                "version": part.version,
                "needed_for": part.needed_for,
                "trouble": part.trouble,
                "cure": part.cure,
                "command": part.command,
                "is_optional": part.is_optional,
            }
            for part in found.parts
        ],
    }
