"""Two versions beside one another: how much faster the later one is, and what has changed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from kerncast.forecast.closer_look import CloserLook
from kerncast.metrics import occupancy_of
from kerncast.models import Case
from kerncast.prediction import Prediction
from kerncast.profiles import SECTOR_BYTES, Count, KernelProfile
from kerncast.profiles import counts as named
from kerncast.report.forecast.time_pictures import OVERLAP, parts_of, parts_table, state_parts
from kerncast.report.forecast.verdict import is_comparable
from kerncast.report.page.figures import Picture, bars_picture, stacks_picture
from kerncast.report.page.fragments import Bar, Stack
from kerncast.report.page.pages import Section
from kerncast.report.tables import Fact, Table, TextColumn
from kerncast.report.words import describe_interval, describe_limiter, describe_percent, describe_probability
from kerncast.studies.comparing.comparison import Faster
from kerncast.studies.comparing.contenders import faster_version
from kerncast.units import format_bytes, format_count, format_seconds

Pair = tuple[Prediction, Prediction]
"""forecasts before and after, of one launch on one GPU"""

_DIGITS = 3
_NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Before:
    """The version before: its forecasts, and what is known of their launches."""

    name: str
    """file that it came from"""
    pairs: tuple[Pair, ...]
    """at least one"""
    cases: tuple[Case, ...] = ()
    """cases of the version before; empty where only its times are known"""
    looks: tuple[CloserLook, ...] = ()
    sure: tuple[tuple[str, Faster], ...] = ()
    """probability that the later version is faster, by the id of each GPU where it can be told"""

    def faster_on(self, gpu_id: str) -> Faster | None:
        """Return how sure it is that the later version is faster on a GPU, None where nothing tells."""
        return dict(self.sure).get(gpu_id)


def sureness(pairs: Sequence[Pair], old: Sequence[Case], new: Sequence[Case]) -> tuple[tuple[str, Faster], ...]:
    """Return how sure it is that the later version is faster, by GPU; nobody knows how far other models err alike."""
    cases = [{(case.profile.index, case.gpu.id): case for case in own} for own in (old, new)]
    by_gpu: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_gpu.setdefault(pair[1].gpu_id, []).append(pair)
    found = []
    for gpu_id, own in by_gpu.items():
        models = {p.model for pair in own for p in pair}
        if len(models) == 1 and all(p.low > 0 and is_comparable(p) for pair in own for p in pair):
            runs = ([(pair[side], cases[side].get((pair[side].launch, gpu_id))) for pair in own] for side in (0, 1))
            found.append((gpu_id, faster_version(*runs)))
    return tuple(found)


def describe_change(before: float, after: float) -> str:
    """Return a speed-up, or a slow-down, as people say it.

    >>> describe_change(3e-3, 2e-3), describe_change(2e-3, 3e-3), describe_change(1.0, 1.001)
    ('1.50 times as fast', '1.50 times as slow', 'as fast as before')
    """
    if not before or not after:
        return "as fast as before" if before == after else "not comparable"
    factor = before / after
    if f"{factor:.2f}" == "1.00" or f"{1 / factor:.2f}" == "1.00":
        return "as fast as before"
    return f"{factor:.2f} times as fast" if factor > 1 else f"{1 / factor:.2f} times as slow"


def headline(before: Before) -> str:
    """Return how much faster the later version is where it is fastest."""
    old, new = _main(before)
    return f"{describe_change(old, new).capitalize()} on {_fastest(before).gpu}"


def lead(before: Before) -> str:
    """Return both times, and how sure the change is."""
    old, new = _main(before)
    best = _fastest(before)
    span = f"{format_seconds(old, _DIGITS)} before, {format_seconds(new, _DIGITS)} after"
    pairs = [pair for pair in before.pairs if pair[1].gpu_id == best.gpu_id]
    what = f"{pairs[0][0].kernel} before, {pairs[0][1].kernel} after" if len(pairs) == 1 else f"{len(pairs)} launches"
    apart = [(a, b) for a, b in before.pairs if b.high < a.low or a.high < b.low]
    if (found := before.faster_on(best.gpu_id)) is not None:
        sure = _sureness(found, new < old)
    elif len(apart) == len(before.pairs):
        sure = "On every GPU the intervals lie apart."
    elif not apart:
        sure = "The intervals overlap; both forecasts may err in the same direction, which the intervals leave out."
    else:
        sure = f"The intervals lie apart in {len(apart)} of {len(before.pairs)} pairs, and overlap in the others."
    return f"{span} on {best.gpu} ({what}). {sure}"


def _sureness(found: Faster, is_faster: bool) -> str:
    """Return how sure a change is, for the direction that the forecasts have."""
    ends = [each if is_faster else 1 - each for each in (found.if_independent, found.if_alike)]
    span = [describe_probability(each) for each in sorted(ends)]
    what = f"The later version is {'faster' if is_faster else 'slower'} with a probability of"
    if found.probability is None:
        return f"{what} {span[0]} to {span[1]}, by how far the errors of both forecasts are alike, which nothing tells."
    told = describe_probability(found.probability if is_faster else 1 - found.probability)
    alone = describe_probability(ends[0])
    if told == alone:  # nothing that was measured says that two builds err alike
        return f"{what} {told}, and {describe_probability(ends[1])} if the errors of both forecasts are the same."
    return f"{what} {told} ({alone} if the errors of both forecasts are independent, {span[1]} if they are the same)."


#: What stands behind the probability; the numbers are those of ``data/calibration/evidence.toml``.
_HOW_SURE = (
    "How sure: both forecasts are of one GPU, so that an unknown clock counts for their difference alone. Beyond that"
    " the errors of two launches of one build correlate as those of 856 measured launches of 107 kernels do; of two"
    " builds only as far as one GPU's errors do, as what two versions of a kernel share beyond that was not measured."
)


def tiles(before: Before) -> Iterator[Fact]:
    """Yield the change on each of the first GPUs."""
    best = _fastest(before)
    old, new = next(pair for pair in before.pairs if pair[1] is best)
    yield Fact("Before", format_seconds(old.seconds, _DIGITS), describe_interval(old))
    yield Fact("After", format_seconds(new.seconds, _DIGITS), describe_interval(new))
    if (found := before.faster_on(best.gpu_id)) is not None and found.probability is not None:
        note = f"correlation of the errors: {found.correlation:.2f}"
        yield Fact("Faster with probability", describe_probability(found.probability), note)
    if old.limiter:
        yield Fact("Limited by", describe_limiter(new.limiter), f"before: {describe_limiter(old.limiter)}")
    factors = sorted(a.seconds / b.seconds for a, b in before.pairs if b.seconds)
    if len(factors) > 1:
        yield Fact("On all GPUs", f"×{factors[0]:.2f} to ×{factors[-1]:.2f}", "time before over time after")


def change_table(before: Before) -> Table:
    """Return a row per launch and GPU: both times, and their quotient."""
    has_launches = len({new.launch for _, new in before.pairs}) > 1
    has_chance = bool(before.sure) and not has_launches
    rows = tuple(
        (
            *((f"{new.kernel} ({new.launch})",) if has_launches else ()), new.gpu,
            format_seconds(old.seconds, _DIGITS), format_seconds(new.seconds, _DIGITS),
            f"×{old.seconds / new.seconds:.2f}" if new.seconds else _NOTHING,
            describe_interval(old), describe_interval(new),
            *((_chance_of(before, new),) if has_chance else ()),
            describe_limiter(old.limiter) if old.limiter else _NOTHING, describe_limiter(new.limiter),
        )
        for old, new in sorted(before.pairs, key=lambda pair: (pair[1].launch, pair[1].seconds))
    )  # fmt: skip
    heading = ("before", "after", "speed-up", "interval before", "interval after")
    columns = (
        TextColumn("GPU"),
        *heading,
        *(("faster with",) if has_chance else ()),
        TextColumn("limited before"),
        TextColumn("limited after"),
    )
    return Table((*((TextColumn("launch"),) if has_launches else ()), *columns), rows)


def _chance_of(before: Before, new: Prediction) -> str:
    found = before.faster_on(new.gpu_id)
    if found is None:
        return _NOTHING
    if found.probability is None:
        return " to ".join(map(describe_probability, sorted((found.if_independent, found.if_alike))))
    return describe_probability(found.probability)


def before_sections(
    before: Before, cases: Sequence[Case], looks: Sequence[CloserLook], source: Sequence[Section] = ()
) -> Iterator[Section]:
    """Yield what has changed: the times, what they are made of, the counts; ``source`` shows the version before."""
    said = (f"Before: {before.name}.", *((_HOW_SURE,) if before.sure else ()))
    yield Section(
        "Before and after", said, (change_table(before),), key="change",
        pictures=(_bars(before.pairs),),
    )  # fmt: skip
    known = [pair for pair in before.pairs if pair[0].terms]
    if known:
        pictures = [stacks_picture(_stacks(known), OVERLAP), *_state_pictures(before, looks)]
        tables = [parts_table([(_named(each, when), each.seconds, parts_of(each)) for pair in known[:2]
                               for each, when in zip(pair, ("before", "after"), strict=True)])]  # fmt: skip
        yield Section("Where the time went", key="went", pictures=tuple(pictures), instead=tuple(tables))
    counts = counts_table(before, cases, looks)
    if counts is not None:
        yield Section("What changed in the counts", tables=(counts,), key="counts", inside=tuple(source))


def _main(before: Before) -> tuple[float, float]:
    """Return the sums of both versions on the GPU on which the later one is fastest."""
    best = _fastest(before).gpu_id
    own = [pair for pair in before.pairs if pair[1].gpu_id == best]
    return sum(old.count * old.seconds for old, _ in own), sum(new.count * new.seconds for _, new in own)


def _fastest(before: Before) -> Prediction:
    sums: dict[str, float] = {}
    for _, new in before.pairs:
        sums[new.gpu_id] = sums.get(new.gpu_id, 0.0) + new.count * new.seconds
    best = min(sums, key=lambda gpu: sums[gpu])
    return next(new for _, new in before.pairs if new.gpu_id == best)


def _named(p: Prediction, when: str) -> str:
    return f"{p.gpu}, {when}"


def _bars(pairs: Sequence[Pair]) -> Picture:
    bars = []
    for old, new in sorted(pairs, key=lambda pair: pair[1].seconds):
        bars += [Bar(old.gpu, old.low, old.seconds, old.high, "before", "other")]
        bars += [Bar(new.gpu, new.low, new.seconds, new.high, "after")]
    return bars_picture(bars, "Each GPU before (grey) and after, with the interval of each forecast.")


def _stacks(pairs: Sequence[Pair]) -> list[Stack]:
    ranked = sorted(pairs, key=lambda pair: pair[1].seconds)
    return [
        Stack(p.gpu, p.seconds, parts_of(p), when)
        for pair in ranked
        for p, when in zip(pair, ("before", "after"), strict=True)
    ]


def _state_pictures(before: Before, looks: Sequence[CloserLook]) -> Iterator[Picture]:
    """Yield the states of warps of both versions, on the GPUs on which both were looked at."""
    old_looks, new_looks = ({(each.profile.index, each.gpu): each for each in own} for own in (before.looks, looks))
    found = []
    for old, new in sorted(before.pairs, key=lambda pair: pair[1].seconds):
        for p, own, when in ((old, old_looks, "before"), (new, new_looks, "after")):
            look = own.get((p.launch, p.gpu_id))
            if look is not None and look.profile.warp_states is not None:
                found.append(Stack(p.gpu, p.seconds, state_parts(p.seconds, look.profile.warp_states), when))
    if found:
        yield stacks_picture(found, "The same times by what the warps of an SM do or wait for.")


_COUNTS: tuple[tuple[str, str, str], ...] = (
    ("FP32 operations", named.FP32_FLOPS, "FLOP"),
    ("FP64 operations", named.FP64_FLOPS, "FLOP"),
    ("special functions and divisions", named.SPECIAL_OPS, ""),
    ("integer operations", named.INTEGER_OPS, ""),
    ("global load requests (warps)", named.GLOBAL_LOAD_REQUESTS, ""),
    ("32-byte sectors loaded", named.GLOBAL_LOAD_SECTORS, ""),
    ("bytes that threads ask for", named.GLOBAL_BYTES_REQUESTED, "B"),
    ("distinct bytes touched", named.GLOBAL_BYTES_TOUCHED, "B"),
    ("shared-memory requests (warps)", named.SHARED_REQUESTS, ""),
    ("thread-private memory", named.LOCAL_BYTES_REQUESTED, "B"),
)
_OF_CACHES = (("DRAM bytes read", named.DRAM_READ_SECTORS), ("DRAM bytes written", named.DRAM_WRITE_SECTORS))


def counts_table(before: Before, cases: Sequence[Case], looks: Sequence[CloserLook]) -> Table | None:
    """Return what the fastest launch did before and after; None where only times are known of one version."""
    best = _fastest(before)
    old, new = (_profile_of(best, *own) for own in ((before.cases, before.looks), (cases, looks)))
    if old is None or new is None:
        return None
    rows: list[tuple[str, ...]] = [(name, *_both(old, new, read)) for name, read in _quantities(old, new)]
    gpu = next((case.gpu for case in cases if case.gpu.id == best.gpu_id), None)
    shares = [found.fraction if (found := occupancy_of(each, gpu)) else None for each in (old, new)]
    if all(share is not None for share in shares):
        told = [describe_percent(share) for share in shares if share is not None]
        rows.append(("occupancy", *told, ""))
    registers = [each.resources.registers_per_thread for each in (old, new) if each.resources]
    if len(registers) == 2:
        rows.append(("registers per thread", *map(str, registers), ""))
    heading = (TextColumn(f"count on {best.gpu}"), "before", "after", "after / before")
    return Table(heading, tuple(row for row in rows if row[1] != row[2] or row[1] != _NOTHING))


def _profile_of(p: Prediction, cases: Sequence[Case], looks: Sequence[CloserLook]) -> KernelProfile | None:
    looked = (each.profile for each in looks if (each.profile.index, each.gpu) == (p.launch, p.gpu_id))
    counted = (each.profile for each in cases if (each.profile.index, each.gpu.id) == (p.launch, p.gpu_id))
    return next(looked, None) or next(counted, None)


Read = Callable[[KernelProfile], tuple[Count | None, str]]


def _quantities(old: KernelProfile, new: KernelProfile) -> Iterator[tuple[str, Read]]:
    if old.mix is not None and new.mix is not None:
        yield "PTX instructions (warps)", lambda each: (each.mix.warp_instructions if each.mix else None, "")
    if old.machine is not None and new.machine is not None:
        yield "machine instructions (warps)", _machine_instructions
    for name, count, unit in _COUNTS:
        yield name, partial(_count, count, unit)
    if old.caches is not None and new.caches is not None:
        for name, count in _OF_CACHES:
            yield name, partial(_bytes, count)


def _machine_instructions(profile: KernelProfile) -> tuple[Count | None, str]:
    return (profile.machine.warp_instructions if profile.machine else None), ""


def _count(name: str, unit: str, profile: KernelProfile) -> tuple[Count | None, str]:
    return profile.counts.get(name), unit


def _bytes(name: str, profile: KernelProfile) -> tuple[Count | None, str]:
    return profile.counts[name].times(SECTOR_BYTES), "B"


def _both(old: KernelProfile, new: KernelProfile, read: Read) -> tuple[str, str, str]:
    (a, unit), (b, _) = read(old), read(new)
    if a is None or b is None or not (a.value or b.value):
        return _NOTHING, _NOTHING, ""
    told = [format_bytes(each.value) if unit == "B" else format_count(each.value, unit) for each in (a, b)]
    return told[0], told[1], f"×{b.value / a.value:.2f}" if a.value else ""
