"""What a kernel's author could change, each with the speed-up that the simulation finds when its limit is lifted.

Nsight Compute's rules estimate such speed-ups from counters; here the same blocks are simulated again without the bank
conflicts, with packed requests, with joined half-empty warps, with more resident blocks, with each byte from DRAM once,
or compiled again with a loop unrolled. What another limit hides is not promised. Fails when: lifting the limit costs
instructions that nobody has counted; speed-ups of several causes do not multiply.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from kerncast.bounded_file import read_bytes
from kerncast.compile import SOURCE_FILE
from kerncast.errors import CompileError, KerncastError, Refusal, UnsupportedError
from kerncast.forecast import Means
from kerncast.forecast.what_if import WhatIf
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.models import DEFAULT_MODEL, Question
from kerncast.models.sm.lifted import Excess, Limit
from kerncast.profiles import KernelProfile
from kerncast.ptx import Location

#: A lower speed-up is no advice.
_LEAST, _LEAST_OF_LINE = 1.02, 1.01
_MOST_LINES, _MOST_LOOPS = 3, 2
_FACTORS = (4, 16)
_LOOP = re.compile(r"\bfor\s*\(|(?<!\})\s*\bwhile\s*\(|\bdo\b\s*(?:\{|$)")
_END_OF_DO = re.compile(r"\}\s*while\s*\(")
_PRAGMA = re.compile(r"^\s*#\s*pragma\s+(?:GCC\s+)?(?:no)?unroll\b")


class Cause(StrEnum):
    """What can be lifted."""

    BANK_CONFLICTS = "bank_conflicts"
    UNCOALESCED = "uncoalesced"
    DIVERGENCE = "divergence"
    OCCUPANCY = "occupancy"
    """too few resident blocks, by registers or shared memory"""
    REPEATED_TRAFFIC = "repeated_traffic"
    """DRAM moves bytes more than once in a launch"""
    ROLLED_LOOP = "rolled_loop"
    """turns of a loop wait for one another, or count"""


Trial = Callable[[WhatIf, float], Iterator["Gain"]]
_OF_LIMITS = {
    Limit.BANK_CONFLICTS: Cause.BANK_CONFLICTS,
    Limit.UNCOALESCED: Cause.UNCOALESCED,
    Limit.DIVERGENCE: Cause.DIVERGENCE,
}


@dataclass(frozen=True, slots=True)
class LineGain:
    """What one source line has of a cause."""

    file: str
    line: int
    needed: float
    """wavefronts, sectors or lanes that it would take; 0 where nothing is counted"""
    taken: float
    speed_up: float
    """time over the time with this line's limit alone lifted"""


@dataclass(frozen=True, slots=True)
class Gain:
    """One cause, lifted."""

    cause: Cause
    speed_up: float
    """time over the time without the cause, at least 1"""
    seconds: float
    """time without it"""
    lines: tuple[LineGain, ...] = ()
    """lines with most of it first; none where it belongs to no line"""
    blocks: tuple[int, int] | None = None
    """resident blocks now, and lifted; None for other causes"""
    limiter: str | None = None
    """resource that limits resident blocks"""
    unroll: int | None = None
    """factor of the pragma that was tried"""


@dataclass(frozen=True, slots=True)
class Advice:
    """All that lifting limits gains for one launch on one GPU."""

    kernel: str
    launch: int
    gpu: GPU
    seconds: float
    gains: tuple[Gain, ...]
    """largest speed-up first; none below 2 %"""
    seconds_in_l2: float
    """time with an L2 that held all data from one launch to the next, which smaller data come near"""
    refused: tuple[tuple[Cause, str], ...] = ()
    """causes that could not be tried, and why"""


def advise(launch: Launch, gpu: GPU, question: Question, means: Means | None = None) -> Advice:
    """Return what lifting each limit of a launch would gain; raises Refusal where it cannot be simulated."""
    means = means or Means()
    what_if = WhatIf.of(launch, gpu, question, means)
    seconds = what_if.seconds_on(gpu)
    gains: list[Gain] = []
    refused: list[tuple[Cause, str]] = []
    for number, cause in enumerate(Cause):
        if means.progress:
            means.progress(f"lifting limits of {what_if.kernel}", number, len(Cause))
        try:
            gains += _TRIALS[cause](what_if, seconds)
        except KerncastError as error:
            refused.append((cause, str(error)))
    worth = sorted((gain for gain in gains if gain.speed_up >= _LEAST), key=lambda gain: -gain.speed_up)
    in_l2 = min(seconds, what_if.with_all_in_l2())
    return Advice(what_if.kernel, launch.index, gpu, seconds, tuple(worth), in_l2, tuple(refused))


def _lift(what_if: WhatIf, seconds: float, limit: Limit) -> Iterator[Gain]:
    wasted = what_if.wasted_by(limit)
    if not wasted:
        return
    lifted = what_if.without(limit)
    if seconds / lifted < _LEAST:
        return
    lines = _lines(what_if, wasted)
    found = []
    for place, rows in lines[:_MOST_LINES]:
        alone = what_if.without(limit, [row.instruction for row in rows])
        needed, taken = sum(row.needed for row in rows), sum(row.taken for row in rows)
        found.append(LineGain(place.file, place.line, needed, taken, max(1.0, seconds / alone)))
    found.sort(key=lambda each: -each.speed_up)
    worth = (found[0], *(each for each in found[1:] if each.speed_up >= _LEAST_OF_LINE)) if found else ()
    yield Gain(_OF_LIMITS[limit], seconds / lifted, lifted, worth)


def _lines(what_if: WhatIf, wasted: Iterable[Excess]) -> list[tuple[Location, list[Excess]]]:
    """Return the lines that waste something, the most wasteful first."""
    code = what_if.execution().trace.function.instructions
    found = defaultdict[Location, list[Excess]](list)
    for row in wasted:
        place = code[row.instruction].location
        if place is not None:
            found[place].append(row)
    return sorted(found.items(), key=lambda each: -sum(row.wasted for row in each[1]))


def _more_blocks(what_if: WhatIf, seconds: float) -> Iterator[Gain]:
    now, most = what_if.resident_blocks(), what_if.most_resident_blocks()
    wanted = sorted({now.blocks_per_sm + 1, most})
    for blocks in wanted:
        if now.blocks_per_sm < blocks <= most:
            lifted = what_if.with_resident_blocks(blocks)
            both = now.blocks_per_sm, blocks
            yield Gain(Cause.OCCUPANCY, max(1.0, seconds / lifted), lifted, blocks=both, limiter=now.limiter.value)


def _read_once(what_if: WhatIf, seconds: float) -> Iterator[Gain]:
    lifted = what_if.with_data_read_once()
    yield Gain(Cause.REPEATED_TRAFFIC, max(1.0, seconds / lifted), min(seconds, lifted))


# Loops: the kernel compiled again with a pragma before the loop's head, as its author would try it.


def _unroll(what_if: WhatIf, seconds: float) -> Iterator[Gain]:
    source = what_if.launch.source
    heads = _loops(what_if.compiled.profile, source)
    if not heads and what_if.execution().trace.cfg.loops.loops:
        raise UnsupportedError(f"the loops that run do not begin on a line of {source.name}")
    for line in heads[:_MOST_LOOPS]:
        trials = [(factor, _seconds_unrolled(what_if, line, factor)) for factor in _FACTORS]
        timed = [(each, factor) for factor, each in trials if each is not None]
        if timed:
            lifted, factor = min(timed)
            where = LineGain(str(source.resolve()), line, 0, 0, max(1.0, seconds / lifted))
            yield Gain(Cause.ROLLED_LOOP, where.speed_up, lifted, (where,), unroll=factor)


def _loops(profile: KernelProfile, source: Path) -> list[int]:
    """Return the lines of a source on which a loop begins, those before the lines that run most first.

    A head that runs itself counts by its own instructions, one that does not, as ``do``, by the next line that runs.
    """
    text = _lines_of(source)
    own = source.resolve()
    ran = {each.line: each.warp_instructions.value for each in profile.lines if Path(each.file).resolve() == own}
    heads = [number for number, line in enumerate(text, 1) if _LOOP.search(line) and not _END_OF_DO.search(line)]
    found = {head: next((ran[line] for line in (head, head + 1, head + 2) if line in ran), 0.0) for head in heads}
    return sorted((head for head in heads if found[head]), key=lambda head: -found[head])


def _text_of(source: Path) -> str:
    return read_bytes(source, SOURCE_FILE).decode("utf-8", errors="replace").replace("\r\n", "\n")


def _lines_of(source: Path) -> list[str]:
    """Return the lines of a source as compilers count them."""
    return _text_of(source).split("\n")


def _seconds_unrolled(what_if: WhatIf, line: int, factor: int) -> float | None:
    """Return the time with a loop unrolled so many times; None where that does not compile, or run as before."""
    launch = what_if.launch
    with TemporaryDirectory(prefix="kerncast-") as folder:
        copy = Path(folder) / launch.source.name
        text = _text_of(launch.source)
        copy.write_text(unrolled(text, line, factor), encoding="utf-8")
        other = replace(launch, source=copy, include_dirs=(launch.source.parent, *launch.include_dirs))
        try:
            return WhatIf.of(other, what_if.gpu, what_if.question, Means(what_if.means.budget)).seconds_on(
                what_if.gpu, DEFAULT_MODEL
            )
        except (CompileError, Refusal):
            return None


def unrolled(text: str, line: int, factor: int) -> str:
    r"""Return a source with a pragma before a loop's head, in place of the one that is there.

    >>> print(unrolled("#pragma unroll 1\nfor (;;) {}\n", 2, 4), end="")
    #pragma unroll 4
    for (;;) {}
    """
    lines = text.split("\n")
    pragma = f"#pragma unroll {factor}"
    before = line - 2
    if before >= 0 and _PRAGMA.match(lines[before]):
        lines[before] = pragma
    else:
        lines.insert(line - 1, pragma)
    return "\n".join(lines)


def _of_limit(limit: Limit) -> Trial:
    return lambda what_if, seconds: _lift(what_if, seconds, limit)


_TRIALS: dict[Cause, Trial] = {
    Cause.BANK_CONFLICTS: _of_limit(Limit.BANK_CONFLICTS),
    Cause.UNCOALESCED: _of_limit(Limit.UNCOALESCED),
    Cause.DIVERGENCE: _of_limit(Limit.DIVERGENCE),
    Cause.OCCUPANCY: _more_blocks,
    Cause.REPEATED_TRAFFIC: _read_once,
    Cause.ROLLED_LOOP: _unroll,
}
