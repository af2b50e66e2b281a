"""The catalogue of GPUs as tables, and the text of a file for a new GPU with every key explained."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kerncast.gpu import GPU, Architecture, Fact, IncompleteGPU, Rule, Value, rules
from kerncast.gpu.confidence import BEYOND, Doubt
from kerncast.models.missing_facts import MissingFacts, needed_facts
from kerncast.report.tables import Table, TextColumn
from kerncast.units import GIGA, MEGA, TERA

_UNKNOWN = "unknown"
_NONE = "–"
_THOUSAND = 1000


def gpu_table(gpus: Sequence[GPU], incomplete: Sequence[IncompleteGPU] = ()) -> Table:
    """Return one row per GPU, by compute capability, year and name."""
    rows = [
        (
            *_identity(gpu), str(gpu.sm_count), f"{gpu.clock_boost_hz / MEGA:.0f}",
            f"{gpu.at_clock('boost').peak_fp32_flops_per_s / TERA:.4g}", f"{gpu.dram_bytes_per_s / GIGA:.4g}",
        )
        for gpu in gpus
    ]  # fmt: skip
    for gpu in incomplete:
        sms, clock, dram = (_known(gpu, key) for key in ("sm_count", "clock_boost_mhz", "dram_gb_per_s"))
        rows.append((*_identity(gpu), sms, clock, _NONE, dram))
    own = (TextColumn("id", is_whole=True), TextColumn("generation"))
    head = (*own, "year", "SMs", "boost MHz", "FP32 TFLOP/s", "DRAM GB/s")
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
    fact, status = TextColumn("fact", is_whole=True), TextColumn("status", is_whole=True)
    return Table((fact, "value", status, TextColumn("sources")), rows)


def sources_of(facts: Sequence[Fact]) -> tuple[str, ...]:
    """Return every source once, in the order in which the facts name them."""
    return tuple(dict.fromkeys(source for fact in facts for source in fact.sources))


def missing_notes(missing: Sequence[MissingFacts]) -> list[str]:
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


#: Sections in the order of the file, and what stands above their keys.
_SECTIONS = {
    "peak": "What the data sheet promises.",
    "clocks": "What it runs a long compute kernel at, as delivered; without it, the boost clock.",
    "caches": "How its caches are built.",
    "lanes": "Where it differs from its architecture: lanes, and the cycles under [cycles] that follow from them.",
    "cycles": "Cycles that one warp keeps a pipe busy: 32 threads over the lanes of one of the SM's sub-partitions.",
    "sustained": "What was measured on this model: kerncast measure ceilings --gpu-file does it, and adds more.",
}
#: Keys of these sections replace what the architecture says: unknown, too, is then said.
_REPLACING = ("lanes.", "cycles.")


@dataclass(frozen=True, slots=True)
class Basis:
    """The contents with which a new GPU's file begins."""

    name: str
    architecture: Architecture
    given: tuple[Fact, ...] = ()
    """values of this very GPU"""
    example: GPU | IncompleteGPU | None = None
    """similar GPU, whose values stand in the comments"""


@dataclass(frozen=True, slots=True)
class _Page:
    """The things that the lines of one file refer to."""

    basis: Basis
    source_names: tuple[str, ...]
    sources: tuple[str, ...]
    needed_by: tuple[tuple[str, str], ...]
    """pairs of key and model"""


def skeleton(basis: Basis, file_name: str) -> str:
    """Return the text of a GPU's file; what is not known is commented out."""
    sources = sources_of([fact for fact in basis.given if fact.value is not None])
    needed = tuple((key, each.model) for each in needed_facts(basis.architecture) for key in each.keys)
    page = _Page(basis, _source_names(sources), sources, needed)
    a = basis.architecture
    lines = [
        "# A GPU for kerncast. Give what you know; what stays commented out is unknown, and never guessed.",
        f"# To check the file, and to see what which model lacks: kerncast gpus ./{file_name}",
        f"# To forecast with it: kerncast predict launch.toml --gpu ./{file_name}",
        f"name = {json.dumps(basis.name, ensure_ascii=False)}",
        f'from = "{a.id}"  # {a.name}, compute capability {a.compute_capability}: limits, lanes and cycles',
        "",
        "[sources]",
        "# Where values come from. A plain number such as sm_count = 46 has this file as its source; else write",
        '# sm_count = { value = 46, source = "datasheet", status = "single-source" }, or with two sources "confirmed".',
        *(
            f"{name} = {json.dumps(text, ensure_ascii=False)}"
            for name, text in zip(page.source_names, sources, strict=True)
        ),
    ]
    for section, heading in _SECTIONS.items():
        lines += ["", f"[{section}]", f"# {heading}", *_section(page, section)]
    return "\n".join(lines) + "\n"


def to_give(basis: Basis) -> tuple[str, ...]:
    """Return the keys that every model needs and that the file does not give."""
    given = {fact.key: fact.value is not None for fact in basis.given}
    asked = [rule.key for rule in rules("gpu").values() if rule.required and not given.get(rule.key)]
    cancelled = [key for key, is_known in given.items() if not is_known and key.startswith(_REPLACING)]
    return (*asked, *(key for key in cancelled if rules("architecture")[key].required))


def _section(page: _Page, section: str) -> Iterator[str]:
    given = {fact.key: fact for fact in page.basis.given}
    for rule in rules("gpu").values():
        fact = given.get(rule.key)
        is_known = fact is not None and fact.value is not None
        if not rule.key.startswith(f"{section}.") or not (is_known or _is_asked_for(rule)):
            continue
        yield from _explained(page, rule)
        name = rule.key.partition(".")[2]
        if fact is not None and is_known:
            yield f"{name} = {_written(page, fact)}"
        elif fact is not None and rule.key.startswith(_REPLACING):
            yield f'{name} = {{ status = "{fact.status.value}" }}'
        else:
            yield f"# {name} = {_example(page, rule)}"


def _is_asked_for(rule: Rule) -> bool:
    """Whether a file should say it: what only the microbenchmarks write is left to them."""
    return not rule.key.startswith("sustained.") or rule.field is not None


def _explained(page: _Page, rule: Rule) -> Iterator[str]:
    unit = "" if rule.unit in {"1", "year"} else f", in {rule.unit}"
    models = [model for key, model in page.needed_by if key == rule.key]
    who = "every model" if rule.required else " and ".join(models)
    need = f"; {who} need{'' if len(models) > 1 else 's'} it" if who else ""
    yield f"# {rule.meaning}{unit}{need}"
    if rule.found_in:
        yield f"#   where: {rule.found_in}"


def _written(page: _Page, fact: Fact) -> str:
    names = [page.source_names[page.sources.index(source)] for source in fact.sources]
    source = json.dumps(names[0] if len(names) == 1 else names)
    return f'{{ value = {_value(fact.value)}, source = {source}, status = "{fact.status.value}" }}'


def _example(page: _Page, rule: Rule) -> str:
    """Return what a similar GPU, or else the architecture, has, and whose it is."""
    example, a = page.basis.example, page.basis.architecture
    facts = {fact.key: fact for fact in (*a.facts, *(example.facts if example else ()))}
    fact = facts.get(rule.key)
    if fact is None or fact.value is None or rule.key == "sustained.dram_fraction":
        return "?"
    is_own = example is not None and fact in example.facts
    return f"{_value(fact.value)}  # {example.name if example is not None and is_own else a.name}"


def _value(value: Value | None) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _source_names(sources: Sequence[str]) -> tuple[str, ...]:
    """Return a short name for each source, from its first word.

    >>> _source_names(["TechPowerUp GPU database", "NVIDIA data sheet", "NVIDIA white paper"])
    ('techpowerup', 'nvidia', 'nvidia_2')
    """
    names: list[str] = []
    for source in sources:
        word = "".join(re.findall("[a-z][a-z0-9]{2,}", source.lower())[:1]) or "source"
        taken = sum(re.fullmatch(rf"{word}(_[0-9]+)?", name) is not None for name in names)
        names.append(f"{word}_{taken + 1}" if taken else word)
    return tuple(names)
