"""The features of an executed launch under the names that a trained model learned: kerncast's, ncu's or nvprof's.

What a profiler counts is executed or simulated here, so that its errors come to those of the model.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from kerncast.bounded_file import our_rows
from kerncast.gpu import DATA, GPU
from kerncast.launch import Launch
from kerncast.metrics import FEATURES, feature_row, metrics_of, vocabulary
from kerncast.profiles import KernelProfile, ProfiledLaunch
from kerncast.read.features.columns import derived
from kerncast.read.nvprof import as_printed

#: Facts of the GPU that formulas name beside the vocabulary's counters.
_SMS, _ACTIVE_SMS = "kerncast__sms", "kerncast__active_sms"
_MAX_WARPS, _SCHEDULERS = "kerncast__max_warps_per_sm", "kerncast__schedulers_per_sm"
#: A mean over requests that a launch does not make; profilers print 0.
_PER_REQUEST = ("_mem_global_", "_request_global_", "_request_shared_")
_KEPLER, _VOLTA = 35, 70


@dataclass(frozen=True, slots=True)
class LaunchFeatures:
    """The values of some features for one launch on one GPU, and what is to be known of them."""

    values: tuple[float, ...]
    """values in the order asked for; NaN for what no execution tells"""
    missing: tuple[str, ...]
    """names of what no execution tells"""
    near: tuple[str, ...]
    """names of what is told by a counter that is only near to the profiler's"""
    simulated: tuple[str, ...]
    """names of what follows from the simulated time"""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line of the data file."""

    names: tuple[str, ...]
    first: int
    """first architecture that it holds for, such as 30"""
    last: int
    formula: str
    is_near: bool


def features_of(
    names: Sequence[str], profile: KernelProfile, gpu: GPU, launch: Launch | None, given: Mapping[str, float]
) -> LaunchFeatures:
    """Return features by name; what no counter tells may be given, or be an argument or macro of the launch."""
    known = _counters(profile, gpu)
    row = dict(zip((each.name for each in FEATURES), feature_row(ProfiledLaunch(profile, gpu)), strict=True))
    own = {name: float(cell) for name, cell in row.items() if cell is not None and not isinstance(cell, str)}
    number, arguments = gpu.architecture.number, _arguments(launch)
    found = [_value(name, _Known(given, own, known, arguments), number) for name in names]
    rules = [_rule(name, number) for name in names]
    return LaunchFeatures(
        tuple(math.nan if each is None else each for each in found),
        tuple(name for name, each in zip(names, found, strict=True) if each is None),
        tuple(name for name, rule in zip(names, rules, strict=True) if rule and rule.is_near and name not in given),
        tuple(name for name in names if derived(name) is not None and name not in given),
    )


def told_by_counters(name: str, counters: Mapping[str, float], number: int) -> float | None:
    """Return a profiler's metric by ncu's counters on an architecture, such as 35; None where they do not tell it."""
    rule = _rule(name, number)
    return as_printed(name, counters, number) if rule is None else _computed(rule.formula, counters)


def synonyms(name: str) -> tuple[str, ...]:
    """Return a feature's names in other tools and versions, its own among them.

    >>> synonyms("elapsed_cycles_sm")
    ('sm__cycles_elapsed.sum', 'sm_cycles_elapsed.sum', 'elapsed_cycles_sm')
    """
    return next((rule.names for rule in _rules() if name in rule.names), (name,))


def can_execute(name: str) -> bool:
    """Whether the execution of a launch tells a feature of this name.

    >>> [can_execute(name) for name in ("gld_request", "dram_bytes", "Device Memory Read Transactions", "input_size_1")]
    [True, True, True, False]
    """
    counters = {each.name: 1.0 for each in vocabulary()}
    is_own = name in counters or any(each.name == name and each.type is not str for each in FEATURES)
    return is_own or any(_rule(name, n) or as_printed(name, counters, n) is not None for n in (_KEPLER, _VOLTA))


def _counters(profile: KernelProfile, gpu: GPU) -> Mapping[str, float]:
    """Return every counter by the vocabulary's name, and the facts that formulas name."""
    facts = {
        _SMS: gpu.sm_count,
        _ACTIVE_SMS: min(gpu.sm_count, math.prod(profile.grid)),
        _MAX_WARPS: gpu.architecture.max_warps_per_sm,
        _SCHEDULERS: gpu.architecture.schedulers_per_sm,
    }
    return {metric.name: float(metric.count.value) for metric in metrics_of(profile, gpu)} | facts


def _arguments(launch: Launch | None) -> Mapping[str, float]:
    """Return the numbers among the arguments and macros of a launch: a table may have them as columns of sizes."""
    if launch is None:
        return {}
    values = [(each.name, each.value) for each in launch.arguments]
    numbers = {name: float(value) for name, value in values if isinstance(value, bool | int | float)}
    return numbers | {name: float(text) for name, text in launch.defines if text.isdecimal()}


@dataclass(frozen=True, slots=True)
class _Known:
    """All numbers of a launch by name, from what counts first to what counts last."""

    given: Mapping[str, float]
    features: Mapping[str, float]
    counters: Mapping[str, float]
    arguments: Mapping[str, float]


def _value(name: str, known: _Known, number: int) -> float | None:
    for values in (known.given, known.features, known.counters):
        if name in values:
            return values[name]
    found = told_by_counters(name, known.counters, number)
    return known.arguments.get(name) if found is None else found


def _computed(formula: str, known: Mapping[str, float]) -> float | None:
    """Return a sum of products and quotients; a ratio to nothing is 0, as profilers print it.

    >>> _computed("a * 2 / b + c", {"a": 3.0, "b": 4.0, "c": 1.0}), _computed("a / b", {"a": 0.0, "b": 0.0})
    (2.5, 0.0)
    """
    whole = 0.0
    for term in formula.split(" + "):
        words = f"* {term}".split()
        product = 1.0
        for sign, word in zip(words[::2], words[1::2], strict=True):
            number = known.get(word, 0.0 if any(part in word for part in _PER_REQUEST) else None)
            factor = float(word) if word.replace(".", "", 1).isdecimal() else number
            if factor is None:
                return None
            product = product * factor if sign == "*" else product / factor if factor else 0.0
        whole += product
    return whole


def _rule(name: str, number: int) -> _Rule | None:
    return next((each for each in _rules() if name in each.names and each.first <= number <= each.last), None)


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(
            names=(row["name"], *row["also"].split()),
            first=_architecture(row["from"] or "0.0"),
            last=_architecture(row["to"] or "99.9"),
            formula=row["formula"],
            is_near=row["kind"] == "near",
        )
        for row in our_rows(DATA / "executed_features.csv")
    )


def _architecture(text: str) -> int:
    major, minor = text.split(".")
    return int(major) * 10 + int(minor)
