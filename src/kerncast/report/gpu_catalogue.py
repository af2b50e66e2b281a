"""Tables of GPUs: the whole catalogue, and every fact of one with its sources."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerncast.gpu import GPU
from kerncast.gpu_doubts import BEYOND, Doubt
from kerncast.gpu_files import Fact
from kerncast.gpu_incomplete import IncompleteGPU
from kerncast.report.tables import Table
from kerncast.units import GIGA, MEGA, TERA

if TYPE_CHECKING:  # listing GPUs does not wait for the models
    from kerncast.models.missing_facts import MissingFacts

_UNKNOWN = "unknown"
_NONE = "–"
_THOUSAND = 1000


def gpu_table(gpus: Sequence[GPU], incomplete: Sequence[IncompleteGPU] = ()) -> Table:
    """Return one row per GPU, by compute capability, year and name."""
    rows = [
        (
            *_identity(gpu), str(gpu.sm_count), f"{gpu.clock_boost_hz / MEGA:.0f}",
            f"{gpu.peak_fp32_flops_per_s / TERA:.4g}", f"{gpu.dram_bytes_per_s / GIGA:.4g}",
        )
        for gpu in gpus
    ]  # fmt: skip
    for gpu in incomplete:
        sms, clock, dram = (_known(gpu, key) for key in ("sm_count", "clock_boost_mhz", "dram_gb_per_s"))
        rows.append((*_identity(gpu), sms, clock, _NONE, dram))
    head = ("id", "generation", "year", "SMs", "boost MHz", "FP32 TFLOP/s", "DRAM GB/s")
    return Table(head, tuple(sorted(rows, key=lambda row: (float(row[1].split()[0]), row[2], row[0]))))


def _identity(gpu: GPU | IncompleteGPU) -> tuple[str, ...]:
    a = gpu.architecture
    return gpu.id, f"{a.compute_capability} {a.name.split()[0]}", _known(gpu, "launch_year")


def _known(gpu: GPU | IncompleteGPU, key: str) -> str:
    value = next((fact.value for fact in gpu.facts if fact.key == f"peak.{key}"), None)
    return _NONE if value is None else str(value)


def fact_table(facts: Sequence[Fact], sources: Sequence[str]) -> Table:
    """Return every fact with unit, status (confirmed, single source, unknown), and the numbers of its sources."""
    rows = tuple(
        (
            fact.key,
            _UNKNOWN if fact.value is None else _value_text(fact),
            fact.status.value.partition("-")[0],
            " ".join(map(str, sorted(1 + sources.index(source) for source in fact.sources))),
        )
        for fact in facts
    )
    return Table(("fact", "value", "status", "sources"), rows)


def sources_of(facts: Sequence[Fact]) -> tuple[str, ...]:
    """Return every source once, in the order in which the facts name them."""
    return tuple(dict.fromkeys(source for fact in facts for source in fact.sources))


def missing_notes(missing: Sequence["MissingFacts"]) -> list[str]:
    """Return for each model that refuses a GPU what to give in its file."""
    return [f"the model {each.model} refuses it without {', '.join(each.keys)}" for each in missing]


def doubt_notes(doubts: Sequence[Doubt]) -> list[str]:
    """Return a sentence for each value that is most likely a slip."""
    return [_doubt(doubt) for doubt in doubts]


def incomplete_notes(gpu: IncompleteGPU) -> list[str]:
    """Say what every model refuses a GPU of the catalogue without, and how to give it."""
    cure = f"kerncast gpus --add {gpu.id} writes a file to complete"
    return [f"every model refuses it without {', '.join(gpu.lacks)}, which no source gives: {cure}"]


def _doubt(doubt: Doubt) -> str:
    unit = "" if doubt.unit == "1" else f" {doubt.unit}"
    low, high = (None if bound is None else _rounded(bound) + unit for bound in (doubt.low, doubt.high))
    if low is None or high is None:
        likely = f"at most {high}" if low is None else f"at least {low}"
    else:
        likely = low if low == high else f"{low} to {high}"
    said = f"{doubt.key} is {doubt.value:g}{unit}"
    if doubt.by is None:
        return f"{said}: with a reserve of a factor of {BEYOND:g}, the GPUs here have {likely}; is the unit right?"
    return f"{said}, but by {doubt.by} one expects {likely}"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= _THOUSAND else f"{value:.3g}"


def _value_text(fact: Fact) -> str:
    value = ", ".join(map(str, fact.value)) if isinstance(fact.value, tuple) else str(fact.value)
    return value if fact.unit in {"1", "year"} else f"{value} {fact.unit}"
