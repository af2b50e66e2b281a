"""Tables of facts: GPUs, the toolchain."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerncast.gpu import GPU
from kerncast.report.tables import Table
from kerncast.units import GIGA, MEGA, TERA

if TYPE_CHECKING:  # listing GPUs does not wait for the compiler
    from kerncast.compile import ToolStatus
    from kerncast.models.missing_facts import MissingFacts


def gpu_table(gpus: Sequence[GPU]) -> Table:
    """Return one row per GPU."""
    rows = tuple(
        (
            gpu.id, gpu.name, gpu.compute_capability, str(gpu.sm_count), f"{gpu.clock_boost_hz / MEGA:.0f} MHz",
            f"{gpu.peak_fp32_flops_per_s / TERA:.4g} TFLOP/s", f"{gpu.dram_bytes_per_s / GIGA:.4g} GB/s",
        )
        for gpu in gpus
    )  # fmt: skip
    return Table(("id", "name", "capability", "SMs", "boost", "FP32", "DRAM"), rows)


def fact_table(gpu: GPU) -> Table:
    """Return every fact of a GPU and its architecture with unit, status and sources."""
    own = len(gpu.facts)
    owners = [gpu.id] * own + [gpu.architecture.id] * (len(gpu.all_facts) - own)
    rows = tuple(
        (
            f"{owner} {fact.key}",
            _value(fact.value),
            "" if fact.unit == "1" else fact.unit,
            fact.status.value,
            "; ".join(fact.sources),
        )
        for owner, fact in zip(owners, gpu.all_facts, strict=True)
    )
    return Table(("fact", "value", "unit", "status", "source"), rows)


def missing_notes(missing: Sequence["MissingFacts"]) -> list[str]:
    """Return for each model that refuses a GPU what to give in its file."""
    return [f"the model {each.model} refuses it without {', '.join(each.keys)}" for each in missing]


def doctor_table(statuses: "Sequence[ToolStatus]") -> Table:
    """Return one row per part of the toolchain."""
    rows = tuple(
        (
            s.name,
            "found" if s.found else "missing (optional)" if s.is_optional else "missing",
            s.version or "–",
            s.needed_for,
            s.cure or "",
        )
        for s in statuses
    )
    return Table(("part", "state", "version", "needed for", "cure"), rows)


def _value(value: object) -> str:
    return "unknown" if value is None else str(value)
