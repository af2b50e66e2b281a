"""What lifting each limit of a kernel gains, in words, tables and JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from kerncast.report.as_json import fields_of
from kerncast.report.page.pages import Section
from kerncast.report.tables import Table, TextColumn, print_notes, print_table
from kerncast.report.words import describe_limiter
from kerncast.studies.sensitivity.lifting import Advice, Cause, Gain, LineGain
from kerncast.units import format_count, format_seconds

_CAUSES = {
    Cause.BANK_CONFLICTS: "bank conflicts in shared memory",
    Cause.UNCOALESCED: "uncoalesced global memory",
    Cause.DIVERGENCE: "divergence within warps",
    Cause.OCCUPANCY: "few resident blocks",
    Cause.REPEATED_TRAFFIC: "DRAM moves bytes again",
    Cause.ROLLED_LOOP: "loop not unrolled",
}
_CURES = {
    Cause.BANK_CONFLICTS: "pad the rows of the array by one word, or let lanes take words side by side",
    Cause.UNCOALESCED: "let lanes of a warp access words side by side: swap indices, or arrays instead of structures",
    Cause.DIVERGENCE: "give threads of a warp the same branch and turns: sort the work, or select instead of branching",
    Cause.REPEATED_TRAFFIC: "keep data from the first use to the last: registers, smaller working sets, another order",
}
_UNITS = {
    Cause.BANK_CONFLICTS: "wavefronts", Cause.UNCOALESCED: "sectors", Cause.DIVERGENCE: "lanes run",
}  # fmt: skip
_LEAST_IN_L2 = 1.05
_HOW = (
    "Speed-up: the time over the time with this limit alone lifted, by simulating the same blocks again; a loop is"
    " compiled again with a pragma. Speed-ups of several rows do not multiply."
)


def advice_sections(advice: Advice) -> tuple[Section, ...]:
    """Return the section of one launch: a row per limit that lifting gains something, and what could not be tried."""
    title = f"Advice: {advice.kernel} (launch {advice.launch}) on {advice.gpu.name}"
    refused = tuple(f"Not tried: {_CAUSES[cause]}: {why}" for cause, why in advice.refused)
    speed_up = advice.seconds / advice.seconds_in_l2
    if speed_up >= _LEAST_IN_L2:
        held = f"An L2 that held all data from launch to launch would make it ×{speed_up:.2f}: smaller types or parts"
        refused = (f"{held} come near that.", *refused)
    if not advice.gains:
        return (Section(title, (_nothing(advice), *refused)),)
    heading = (TextColumn("limit"), "speed-up", "time then", TextColumn("where"), TextColumn("what to do"))
    rows = tuple(_row(gain) for gain in advice.gains)
    return (Section(title, (_HOW, *refused), (Table(heading, rows),)),)


def _nothing(advice: Advice) -> str:
    not_tried = {cause for cause, _ in advice.refused}
    names = ", ".join(_CAUSES[cause] for cause in Cause if cause not in not_tried)
    return f"Lifting none of these gains 2 % of {format_seconds(advice.seconds)}: {names}."


def _row(gain: Gain) -> tuple[str, ...]:
    return (
        _CAUSES[gain.cause],
        f"×{gain.speed_up:.2f}",
        format_seconds(gain.seconds, 3),
        "; ".join(_place(each, gain) for each in gain.lines) or "–",
        cure_of(gain),
    )


def _place(each: LineGain, gain: Gain) -> str:
    place = f"{Path(each.file).name}:{each.line}"
    unit = _UNITS.get(gain.cause)
    counted = f", {format_count(each.taken)} {unit} for {format_count(each.needed)}" if unit else ""
    return f"{place} (×{each.speed_up:.2f}{counted})"


def cure_of(gain: Gain) -> str:
    """Return what a kernel's author can do about a limit."""
    if gain.cause is Cause.ROLLED_LOOP:
        return f"#pragma unroll {gain.unroll} before the loop"
    if gain.cause is Cause.OCCUPANCY:
        assert gain.blocks is not None
        now, then = gain.blocks
        what = describe_limiter(gain.limiter or "").replace("_", " ")
        return (
            f"{then} resident blocks per SM instead of {now}: fewer {what} for each (kerncast occupancy says how few)"
        )
    return _CURES[gain.cause]


def print_advice(advice: Advice, console: Console) -> None:
    """Print the advice on one launch."""
    for section in advice_sections(advice):
        console.print()
        console.print(f"[bold]{escape(section.title)}[/bold]", highlight=False)
        for table in section.tables:
            print_table(table, console)
        print_notes(section.paragraphs, console)


def with_advice(profiles: dict[str, Any], advice: Sequence[Advice]) -> dict[str, Any]:
    """Return the object of ``profile --json`` with the advice on each kernel, where it was asked for."""
    by_launch = {each.launch: advice_fields(each) for each in advice}
    kernels = [row | by_launch.get(row["launch"], {}) for row in profiles["kernels"]]
    return profiles | {"kernels": kernels}


def advice_fields(advice: Advice) -> dict[str, Any]:
    """Return the limits of one launch that lifting gains something, the most first, and those that were not tried."""
    return {
        "advice": _gain_objects(advice),
        "advice_refused": [{"cause": cause.value, "reason": why} for cause, why in advice.refused],
        "seconds_in_l2": advice.seconds_in_l2,
    }


def _gain_objects(advice: Advice) -> list[dict[str, Any]]:
    return [
        {
            "cause": gain.cause.value,
            **fields_of(gain, "speed_up", "seconds", "limiter", "unroll"),
            "resident_blocks": None if gain.blocks is None else list(gain.blocks),
            "advice": cure_of(gain),
            "lines": [fields_of(each, "file", "line", "needed", "taken", "speed_up") for each in gain.lines],
        }
        for gain in advice.gains
    ]
