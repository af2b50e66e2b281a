"""What a report tells of one launch beside its time: source lines, occupancy, memory, operations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.forecast.closer_look import CloserLook, LineCode
from kerncast.metrics import l2_totals, ratio
from kerncast.models import Case
from kerncast.occupancy import block_request_of, occupancy
from kerncast.prediction import Prediction
from kerncast.profiles import SECTOR_BYTES, Count, KernelProfile, LineCount, LineStates, SampledLine, SourceText
from kerncast.profiles import counts as named
from kerncast.profiles.counts import dram_bytes_of_launch
from kerncast.report.page.fragments import SourceRow, source_lines
from kerncast.report.page.pages import Section
from kerncast.report.profile.sections import STALLS, atomic_facts, memory_facts, memory_tables, shared_tables
from kerncast.report.profile.source import read_sources, shown_lines
from kerncast.report.profile.words import NOTHING, describe_ratio, describe_share
from kerncast.report.tables import Table, TextColumn
from kerncast.report.words import describe_count, describe_percent, describe_sampling

if TYPE_CHECKING:
    from markupsafe import Markup

_LEVELS = "What L1 lacks it asks L2 for, and L2 asks DRAM. The caches of each GPU are simulated from cold."
_AS_FORECAST = (
    "The last column is what the forecast's time counts, both ways. In a warm series a launch finds in L2 what the one"
    " before it has left there: where all of it fits, DRAM moves nothing."
)
_MOST_INSTRUCTION_KINDS = 12
_MOST_STATES = 2
_MOST_HOT_LINES = 10
_TAB_COLUMNS = 4
#: Machine instructions of a measured line that are shown.
_MOST_SASS = 64


@dataclass(frozen=True, slots=True)
class LaunchEvidence:
    """One launch: its forecasts with their cases, and the closer looks at it."""

    predictions: tuple[Prediction, ...]
    """the fastest first"""
    cases: tuple[Case, ...]
    """case behind each, in the same order"""
    looks: tuple[CloserLook, ...]
    """looks at it, on the fastest GPU first"""

    @property
    def profile(self) -> KernelProfile:
        """Counts, as compiled for the fastest GPU."""
        return self.cases[0].profile

    def forecast_of(self, look: CloserLook) -> Prediction:
        """Return the forecast on the GPU of a look."""
        return next(p for p in self.predictions if p.gpu_id == look.gpu)

    def case_of(self, look: CloserLook) -> Case:
        """Return the case on the GPU of a look."""
        return next(case for case in self.cases if case.gpu.id == look.gpu)


def launch_sections(of: LaunchEvidence, key: str = "") -> list[Section]:
    """Return what is known of a launch; ``key`` ends the names of the sections' places where there are several."""
    return [
        *source_sections(of, key),
        *_sampled_sections(of.profile, key),
        Section("Occupancy", _workload(of), _occupancy_tables(of.cases), key=f"occupancy{key}"),
        _memory_section(of, key),
        Section("Operations", (describe_sampling(of.profile),), _work_tables(of.profile), key=f"operations{key}"),
    ]


def _workload(of: LaunchEvidence) -> tuple[str, ...]:
    p = of.profile
    blocks, threads = math.prod(p.grid), math.prod(p.block)
    text = f"Grid {p.grid} is {blocks} blocks; block {p.block} is {threads} threads in {-(-threads // 32)} warps."
    if p.mix is None:
        return (text,)
    lanes = f"On average {p.mix.active_lanes:.1f} of 32 lanes of a warp instruction are active"
    split = describe_count(p.mix.divergent_branches)
    return (
        text,
        f"{lanes}; {split} branches split a warp; warps arrive {describe_count(p.mix.barriers)} times at barriers.",
    )


def _occupancy_tables(cases: Sequence[Case]) -> tuple[Table, ...]:
    rows = []
    for case in cases:
        request, resources = block_request_of(case.profile), case.profile.resources
        if request is None or resources is None:
            return ()
        found = occupancy(request, case.gpu.architecture)
        waves = math.prod(case.profile.grid) / max(1, found.blocks_per_sm * case.gpu.sm_count)
        rows.append(
            (
                case.gpu.name, f"{found.fraction:.0%}".replace("%", " %"), found.limiter.value.replace("_", " "),
                str(found.blocks_per_sm), f"{waves:.2f}", str(resources.registers_per_thread),
                f"{request.shared_bytes} B", f"{resources.spill_store_bytes + resources.spill_load_bytes} B",
                resources.architecture,
            )
        )  # fmt: skip
    heading = ("GPU", "occupancy", TextColumn("limited by"), "blocks per SM", "waves", "registers", "shared", "spills")
    return (Table((*heading, TextColumn("code")), tuple(rows)),)


def _work_tables(profile: KernelProfile) -> tuple[Table, ...]:
    counts = profile.counts
    rows = (
        ("FP32 (a fused multiply-add is 2)", describe_count(counts.get(named.FP32_FLOPS), "FLOP")),
        ("FP64", describe_count(counts.get(named.FP64_FLOPS), "FLOP")),
        ("FP16 and BF16", describe_count(counts.get(named.FP16_FLOPS), "FLOP")),
        ("special functions and divisions", describe_count(counts.get(named.SPECIAL_OPS))),
        ("integer", describe_count(counts.get(named.INTEGER_OPS))),
        ("control", describe_count(counts.get(named.CONTROL_OPS))),
    )
    tables = [Table((TextColumn("operations of all threads"), "count"), rows)]
    if profile.mix is not None:
        kinds = profile.mix.kinds[:_MOST_INSTRUCTION_KINDS]
        rows_of_kinds = tuple(
            (k.kind, describe_count(k.thread_instructions), describe_count(k.warp_instructions)) for k in kinds
        )
        tables.append(Table((TextColumn("PTX instruction"), "by threads", "by warps"), rows_of_kinds))
    return tuple(tables)


def _memory_section(of: LaunchEvidence, key: str) -> Section:
    """Return the traffic of every level, on the GPUs that were looked at; else what all GPUs have in common."""
    simulated = [look for look in of.looks if look.profile.caches is not None]
    if not simulated:
        return Section("Memory", tables=(_traffic_table(of.profile),), key=f"memory{key}")
    first = simulated[0]
    gpu, profile = of.case_of(first).gpu, first.profile
    tables = (*memory_tables(profile, gpu), *shared_tables(profile))
    facts = (*memory_facts(profile, gpu), *atomic_facts(profile))
    inside = Section(f"Accesses and caches on {gpu.name}", facts=facts, tables=tables)
    return Section(
        "Memory",
        (_LEVELS, *((_AS_FORECAST,) if any(of.forecast_of(look).work for look in simulated) else ())),
        (_levels_table(of, simulated),),
        key=f"memory{key}",
        inside=(inside, Section("Counts that no GPU changes", tables=(_traffic_table(of.profile),), is_folded=True)),
    )


def _levels_table(of: LaunchEvidence, looks: Sequence[CloserLook]) -> Table:
    rows = []
    forecasts = [of.forecast_of(look) for look in looks]
    has_work = any(p.work for p in forecasts)
    for look, p in zip(looks, forecasts, strict=True):
        counts = look.profile.counts
        asked, hits = counts[named.L1_LOAD_SECTORS], counts[named.L1_LOAD_HITS]
        asked2, hits2 = l2_totals(counts)
        levels = asked, asked2, counts[named.DRAM_READ_SECTORS], counts[named.DRAM_WRITE_SECTORS]
        moved = [describe_count(each.times(SECTOR_BYTES), "B") for each in levels]
        shares = (describe_share(hits.value, asked.value), describe_share(hits2.value, asked2.value))
        forecast = (describe_count(Count.exact(p.work.dram_bytes), "B") if p.work else NOTHING,) if has_work else ()
        rows.append((p.gpu, moved[0], shares[0], moved[1], shares[1], *moved[2:], *forecast))
    heading = ("L1, loads", "hits in L1", "L2", "hits in L2", "DRAM, read", "DRAM, written")
    more = (f"DRAM, {forecasts[0].timing.value}",) if has_work else ()
    return Table((TextColumn("GPU"), *heading, *more), tuple(rows))


def _traffic_table(profile: KernelProfile) -> Table:
    counts = profile.counts
    rows = (
        ("global load requests (warps)", describe_count(counts.get(named.GLOBAL_LOAD_REQUESTS))),
        ("global store requests (warps)", describe_count(counts.first(named.GLOBAL_WRITES))),
        ("32-byte sectors loaded", describe_count(counts.get(named.GLOBAL_LOAD_SECTORS))),
        ("32-byte sectors stored", describe_count(counts.first(named.GLOBAL_SECTORS_WRITTEN))),
        ("bytes that threads ask for", describe_count(counts.get(named.GLOBAL_BYTES_REQUESTED), "B")),
        ("distinct bytes touched (working set)", describe_count(counts.get(named.GLOBAL_BYTES_TOUCHED), "B")),
        ("DRAM bytes, each sector once", describe_count(dram_bytes_of_launch(counts), "B")),
        ("shared-memory requests (warps)", describe_count(counts.get(named.SHARED_REQUESTS))),
        ("atomic operations (threads)", describe_count(counts.get(named.ATOMIC_THREADS))),
        ("thread-private memory", describe_count(counts.get(named.LOCAL_BYTES_REQUESTED), "B")),
    )
    return Table((TextColumn("memory"), "count"), rows)


# Source lines.


_HEADINGS = ("time of warps", "what they wait for", "PTX inst.")
_REASONS = {"selected": "issuing", "not_selected": "ready, not issued"}
_HOW_WITHOUT_STATES = "A line opens to the PTX and the machine instructions (SASS) that it has become."
_HOW = f"Each line with its share of the time of warps, and what they wait for there. {_HOW_WITHOUT_STATES}"
_HEADINGS_WITHOUT_STATES = ("PTX inst.", "sectors per request")


@dataclass(frozen=True, slots=True)
class _File:
    """What is known of one source file's lines, by number."""

    name: str
    text: tuple[str, ...] | None
    counts: dict[int, LineCount]
    states: dict[int, LineStates]
    code: dict[int, LineCode]


def source_sections(of: LaunchEvidence, key: str = "") -> Iterator[Section]:
    """Yield the source lines with their cost on the fastest GPU that was looked at."""
    look = next((each for each in of.looks if each.profile.lines), None)
    if look is None:
        return
    case = of.case_of(look)
    texts = read_sources(look.profile, case.launch) if case.launch is not None else ()
    files = [each for each in _files(look, texts) if each.counts or each.states]
    if not files:
        return
    shown = [_listing(each, look.profile) for each in files]
    missing = (f"There are no machine instructions (SASS): {look.problem}.",) if look.problem else ()
    yield Section(
        f"Source lines on {of.forecast_of(look).gpu}",
        (_HOW if look.profile.warp_states else _HOW_WITHOUT_STATES, *missing),
        key=f"source{key}",
        pictures=tuple(shown),
        instead=(_hot_table(files, look.profile),),
    )


def _files(look: CloserLook, texts: Sequence[SourceText]) -> Iterator[_File]:
    states = look.profile.warp_states.lines if look.profile.warp_states else ()
    known = {text.file: text.lines for text in texts}
    files = [*known, *(line.file for line in look.profile.lines), *(line.file for line in states)]
    names = dict.fromkeys(filter(None, files))
    for file in names:
        yield _File(
            file,
            known.get(file),
            {each.line: each for each in look.profile.lines if each.file == file},
            {each.line: each for each in states if each.file == file},
            {each.line: each for each in look.code if each.file == file},
        )


def _listing(file: _File, profile: KernelProfile) -> "Markup":
    numbers = sorted({*file.counts, *file.states})
    shown = numbers if file.text is None else shown_lines(numbers, len(file.text))
    rows = tuple(
        _row(file, number, profile, is_after_gap=bool(before and number > before + 1))
        for before, number in zip((0, *shown), shown, strict=False)
    )
    name = Path(file.name).name
    caption = name if file.text is not None else f"{name} (its text is not here)"
    return source_lines(rows, _HEADINGS if profile.warp_states else _HEADINGS_WITHOUT_STATES, caption)


def _row(file: _File, number: int, profile: KernelProfile, *, is_after_gap: bool) -> SourceRow:
    text = file.text[number - 1] if file.text is not None and 0 < number <= len(file.text) else ""
    share, cells = _cost(file, number, profile)
    code = file.code.get(number)
    known = (code.ptx, code.sass, code.left_out) if code else ((), (), 0)
    return SourceRow(number, text.expandtabs(_TAB_COLUMNS), share, cells, *known, is_after_gap=is_after_gap)


def _cost(file: _File, number: int, profile: KernelProfile) -> tuple[float | None, tuple[str, ...]]:
    """Return the share of a line, and its cells: by the time of warps, or by instructions where that is not known."""
    count, state = file.counts.get(number), file.states.get(number)
    whole = profile.mix.warp_instructions.value if profile.mix else 0.0
    done = count.warp_instructions.value if count else 0.0
    instructions = describe_share(done, whole) if done else ""
    if profile.warp_states is None:
        accesses = "" if count is None else describe_ratio(ratio(count.global_sectors, count.global_requests))
        return (done / whole if done and whole else None), (instructions, "" if accesses == NOTHING else accesses)
    if state is None:
        return None, ("", "", instructions)
    cycles = profile.warp_states.warp_cycles or 1.0
    return state.warp_cycles / cycles, (describe_share(state.warp_cycles, cycles), _waits(state), instructions)


def _waits(state: LineStates) -> str:
    told = [
        f"{_REASONS.get(each.state) or STALLS[each.state]} {describe_percent(each.warp_cycles / state.warp_cycles)}"
        for each in state.states[:_MOST_STATES]
    ]
    return ", ".join(told)


def _hot_table(files: Sequence[_File], profile: KernelProfile) -> Table:
    """Return the lines that cost most, for readers without pictures."""
    found = []
    for file in files:
        for number in sorted({*file.counts, *file.states}):
            row = _row(file, number, profile, is_after_gap=False)
            if row.share is not None:
                found.append((row.share, (f"{Path(file.name).name}:{number}", *row.cells, row.text.strip())))
    ranked = sorted(found, key=lambda pair: -pair[0])[:_MOST_HOT_LINES]
    headings = _HEADINGS if profile.warp_states else _HEADINGS_WITHOUT_STATES
    columns = (TextColumn("line"), headings[0], TextColumn(headings[1]), *headings[2:], TextColumn("source"))
    return Table(columns, tuple(row for _, row in ranked))


# Source lines of a measured run.


_SAMPLED_HEADINGS = ("samples of warps", "what they wait for", "warp inst.")
_HOW_SAMPLED = (
    "What the profiler saw on the measured GPU: each line's share of the samples of warps, what those wait for, and its"
    " share of the instructions. A line opens to its machine instructions (SASS)."
)
#: What a simulation does not tell apart.
_OTHER_STALLS = {
    "drain": "stores at the end of a warp", "imc_miss": "constants", "no_instructions": "instructions",
    "membar": "a memory fence", "sleeping": "the end of a sleep", "tex_throttle": "the queue to the texture units",
    "dispatch_stall": "the dispatcher", "misc": "other things", "gmma": "products of four warps",
}  # fmt: skip


def _sampled_sections(profile: KernelProfile, key: str) -> Iterator[Section]:
    """Yield the source lines of the run that a profile was taken of, where it has counters of them."""
    run = profile.run
    if run is None or not run.lines:
        return
    whole = sum(line.samples for line in run.lines), sum(line.warp_instructions for line in run.lines)
    rows: dict[str, list[SourceRow]] = {}
    for line in run.lines:
        own = rows.setdefault(line.file, [])
        own.append(_sampled_row(line, whole, is_after_gap=bool(own and line.line > own[-1].number + 1)))
    pictures = []
    for file, own in rows.items():
        has_text = any(row.text for row in own)
        name = Path(file).name if file else "code that names no line"
        caption = name if has_text or not file else f"{name} (the report does not hold its text)"
        pictures.append(source_lines(own, _SAMPLED_HEADINGS, caption))
    ranked = sorted(((row, file) for file, own in rows.items() for row in own), key=lambda pair: -(pair[0].share or 0))
    cells = tuple((f"{Path(file).name}:{row.number}", *row.cells, row.text.strip()) for row, file in ranked)
    first, waits, count = _SAMPLED_HEADINGS
    table = Table((TextColumn("line"), first, TextColumn(waits), count, TextColumn("source")), cells[:_MOST_HOT_LINES])
    yield Section(
        f"Source lines measured on {run.gpu.name}", (_HOW_SAMPLED,), key=f"measured-source{key}",
        pictures=tuple(pictures), instead=(table,),
    )  # fmt: skip


def _sampled_row(line: SampledLine, whole: tuple[float, float], *, is_after_gap: bool) -> SourceRow:
    samples, instructions = whole
    waits = ", ".join(
        f"{_REASONS.get(each.state) or STALLS.get(each.state) or _OTHER_STALLS.get(each.state) or each.state}"
        f" {describe_percent(each.samples / line.samples)}"
        for each in line.states[:_MOST_STATES]
    )
    share = line.samples / samples if samples else line.warp_instructions / (instructions or 1.0)
    cells = (describe_percent(share), waits, describe_share(line.warp_instructions, instructions))
    kept = line.sass[:_MOST_SASS]
    left_out = len(line.sass) - len(kept)
    return SourceRow(line.line, line.text.expandtabs(_TAB_COLUMNS), share, cells, (), kept, left_out, is_after_gap)
