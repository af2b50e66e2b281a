"""A GPU that does not exist: another one with some values changed, and what follows from the changes.

Its file names a GPU in the field ``from``. What it does not give is inherited. Rates that were measured on the other
GPU, and limits that hang together, follow by the proportions of ``data/hypothetical.toml``; each such value says what
it was made from. Fails when: a part grows beyond what feeds it, since a measured rate keeps its share of the peak.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kerncast.gpu.files import DATA, Fact, Status, Value, read_toml, rules_of_changes
from kerncast.units import KILO

_FILE = DATA / "hypothetical.toml"
#: The clock under load is the boost where nothing else is known.
_STANDS_FOR = {"clocks.default_mhz": "peak.clock_boost_mhz"}

_DIGITS = 6

Facts = Mapping[str, Fact]


def changed_facts(own: Facts, inherited: Facts, of_architecture: Facts, name: str) -> dict[str, Fact]:
    """Return the facts of a GPU whose file gives ``own`` and inherits from the GPU of this name.

    ``inherited`` are the facts of that GPU itself, ``of_architecture`` those of its architecture.
    """
    old = {**of_architecture, **inherited}
    table = _table()
    replaced = {other for key in own for other in table["replaces"].get(key, ())}
    dropped = (replaced | set(table["not_inherited"]["keys"])) - own.keys()
    new = {key: fact for key, fact in old.items() if key not in dropped} | dict(own)
    for key, row in table["follows"].items():
        if key not in own and _number(new, key) is not None:
            factor = _factor(row, new, old)
            if factor != 1:
                keys = [each for each in (*row.get("with", ()), *row.get("against", ())) if _ratio(each, new, old) != 1]
                new[key] = _derived(new[key], _number(new, key) * factor, name, keys)  # type: ignore[operator]
    _latencies(own, new, old, name)
    _shared_memory(own, new, old, name)
    return {key: fact for key, fact in new.items() if key in inherited or fact is not old.get(key)}


def _factor(row: Mapping[str, Sequence[str]], new: Facts, old: Facts) -> float:
    up = math.prod(_ratio(key, new, old) for key in row.get("with", ()))
    return up / math.prod(_ratio(key, new, old) for key in row.get("against", ()))


def _ratio(key: str, new: Facts, old: Facts) -> float:
    """Return a value over the one that it replaces; 1 where one of them is unknown."""
    after, before = _number(new, key), _number(old, key)
    if after is None or before is None:
        other = _STANDS_FOR.get(key)
        return 1 if other is None else _ratio(other, new, old)
    return after / before if after and before else 1


def _number(facts: Facts, key: str) -> float | None:
    value = facts[key].value if key in facts else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _derived(fact: Fact, value: float | tuple[int, ...], name: str, keys: Sequence[str]) -> Fact:
    kind = rules_of_changes()[fact.key].kind
    told: Value = value
    if not isinstance(value, tuple):
        told = max(1, round(value)) if kind == "whole" else float(f"{value:.{_DIGITS}g}")
    source = f"{fact.value} of {name}, changed with {', '.join(keys)} (data/hypothetical.toml)"
    return Fact(fact.key, told, fact.unit, (source,), Status.SINGLE_SOURCE)


def _latencies(own: Facts, new: dict[str, Fact], old: Facts, name: str) -> None:
    """Keep the time that a DRAM access takes beyond L2, whatever L2 and the clock became."""
    key = "sustained.dram_latency_ns"
    before, after, to_l2 = _l2_ns(old), _l2_ns(new), _number(new, key)
    if key not in own and None not in (before, after, to_l2) and before != after:
        assert before is not None
        assert after is not None
        assert to_l2 is not None
        new[key] = _derived(new[key], to_l2 - before + after, name, ("the latency of L2",))
    key, of_l2 = "cycles.dram_latency", "cycles.l2_latency"
    whole, before, after = _number(new, key), _number(old, of_l2), _number(new, of_l2)
    if key not in own and of_l2 in own and whole is not None and before is not None and after is not None:
        new[key] = _derived(new[key], whole - before + after, name, (of_l2,))


def _l2_ns(facts: Facts) -> float | None:
    """Return the latency of L2 at the boost clock, in ns."""
    cycles = _number(facts, "sustained.l2_latency_cycles") or _number(facts, "cycles.l2_latency")
    megahertz = _number(facts, "peak.clock_boost_mhz")
    return None if cycles is None or not megahertz else cycles / megahertz * KILO


def _shared_memory(own: Facts, new: dict[str, Fact], old: Facts, name: str) -> None:
    """Let the limits of shared memory follow its size: the reserved part and what is left for L1 stay."""
    key = "shared.per_sm_kib"
    before, after = _number(old, key), _number(new, key)
    if before is None or after is None or before == after:
        return
    for other in ("shared.per_block_optin_kib", "shared.l1_and_shared_kib"):
        value = _number(new, other)
        if value is not None and other not in own:
            new[other] = _derived(new[other], max(0, value + after - before), name, (key,))
    optin, limit = _number(new, "shared.per_block_optin_kib"), _number(new, "shared.per_block_kib")
    if optin is not None and limit is not None and limit > optin and "shared.per_block_kib" not in own:
        new["shared.per_block_kib"] = _derived(new["shared.per_block_kib"], optin, name, (key,))
    sizes = new["shared.carveouts_kib"].value if "shared.carveouts_kib" in new else None
    if isinstance(sizes, tuple) and "shared.carveouts_kib" not in own:
        kept = (*(size for size in sizes if size < after and size < before), math.floor(after))
        new["shared.carveouts_kib"] = _derived(new["shared.carveouts_kib"], kept, name, (key,))
        least = _number(new, "shared.least_default_carveout_kib")
        if least is not None and least not in kept and "shared.least_default_carveout_kib" not in own:
            new["shared.least_default_carveout_kib"] = _derived(
                new["shared.least_default_carveout_kib"], kept[-1], name, (key,)
            )


@cache
def _table() -> Mapping[str, Any]:
    return read_toml(_FILE)
