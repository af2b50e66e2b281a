"""GPUs in order of time, energy or cost: who is probably the best, and who is undercut by none in two of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kerncast.read.prices import Price
from kerncast.studies.comparing.comparison import pareto_front
from kerncast.studies.comparing.contenders import Contender, Group
from kerncast.units import SECONDS_PER_HOUR


class Key(StrEnum):
    """What GPUs are sorted by."""

    TIME = "time"
    ENERGY = "energy"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class Ranked:
    """One GPU in its place."""

    contender: Contender
    price: Price | None
    fastest: float
    """probability that it takes the least time of all"""
    cheapest: float | None
    """probability that a run costs the least of all; None without a price"""
    over: float | None
    """probability that it is faster than the GPU to compare with; None for that one itself"""
    faster_than: tuple[tuple[str, float], ...]
    """probability that it is faster than each other GPU, by id"""
    is_on_front: bool
    """whether no other GPU needs less of both: time and cost, or without prices time and energy"""

    @property
    def usd_per_run(self) -> float | None:
        """Price of one run of all launches by the hour; None without a price."""
        return None if self.price is None else self.price.usd_per_hour * self.contender.total.seconds / SECONDS_PER_HOUR

    @property
    def runs_per_s_per_usd(self) -> float | None:
        """Runs per second for each dollar that the GPU costs to buy; None without such a price."""
        if self.price is None or self.price.usd_price is None:
            return None
        return 1 / (self.contender.total.seconds * self.price.usd_price)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The GPUs of one group in order; those without what they are sorted by come last."""

    models: tuple[str, ...]
    key: Key
    rows: tuple[Ranked, ...]
    against: str | None
    """name of the GPU that ``over`` is about: the one asked for, else the second fastest; None where none is"""
    lead: float | None
    """probability that the first is better than the second; None where it is alone, and for energy"""


def rank(group: Group, prices: Sequence[Price], key: Key, against: str | None = None) -> Ranking:
    """Return the GPUs of a group in order; ``against`` is the id of the GPU that all are compared with."""
    by_id = {price.gpu_id: price for price in prices}
    contenders = group.contenders
    own = [by_id.get(each.gpu.id) for each in contenders]
    by_time = sorted(range(len(contenders)), key=lambda place: contenders[place].total.seconds)
    other = next((n for n, each in enumerate(contenders) if each.gpu.id == against), None)
    if other is None and len(by_time) > 1:
        other = by_time[1]
    fastest = group.comparison.best()
    cheapest = group.comparison.best([_usd(price) for price in own]) if any(own) else (None,) * len(own)
    front = _front(contenders, own, has_prices=bool(prices))
    rows = [
        Ranked(
            contender, own[n], fastest[n], cheapest[n] if own[n] else None, _over(group, n, other),
            _faster_than(group, n), n in front,
        )
        for n, contender in enumerate(contenders)
    ]  # fmt: skip
    order = sorted(range(len(rows)), key=lambda n: (_value(rows[n], key) is None, _value(rows[n], key) or 0.0))
    name = None if other is None else contenders[other].gpu.name
    return Ranking(group.models, key, tuple(rows[n] for n in order), name, _lead(group, order, own, key))


def _usd(price: Price | None) -> float:
    return float("inf") if price is None else price.usd_per_hour


def _over(group: Group, one: int, other: int | None) -> float | None:
    return None if other is None or other == one else group.comparison.beats(one, other)


def _faster_than(group: Group, one: int) -> tuple[tuple[str, float], ...]:
    others = [n for n in range(len(group.contenders)) if n != one]
    return tuple((group.contenders[n].gpu.id, group.comparison.beats(one, n)) for n in others)


def _value(row: Ranked, key: Key) -> float | None:
    if key is Key.TIME:
        return row.contender.total.seconds
    if key is Key.ENERGY:
        return None if row.contender.energy is None else row.contender.energy.joules
    return row.usd_per_run


def _lead(group: Group, order: Sequence[int], own: Sequence[Price | None], key: Key) -> float | None:
    if len(order) < 2 or key is Key.ENERGY:
        return None
    first, second = order[:2]
    if key is Key.TIME:
        return group.comparison.beats(first, second)
    one, other = own[first], own[second]
    return None if one is None or other is None else group.comparison.beats(first, second, _usd(other) / _usd(one))


def _front(contenders: Sequence[Contender], own: Sequence[Price | None], *, has_prices: bool) -> set[int]:
    """Return the places of those that no other undercuts in time and cost, or in time and energy without prices."""
    seconds = [each.total.seconds for each in contenders]
    if has_prices:
        values = [None if price is None else price.usd_per_hour * s for price, s in zip(own, seconds, strict=True)]
    else:
        values = [None if each.energy is None else each.energy.joules for each in contenders]
    known = [(n, value) for n, value in enumerate(values) if value is not None]
    front = pareto_front([(seconds[n], value) for n, value in known])
    return {known[place][0] for place in front}
