"""What ``data/schema.toml`` says of one key of a data file, and whether a value obeys it."""

import math
import re
from dataclasses import dataclass
from typing import Any

#: What a fact of the kind text may be: a name that is safe to print.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .,+/()-]{0,39}")

Value = bool | int | float | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """What the schema says of one key."""

    key: str
    unit: str
    kind: str
    """whole, number, fraction, list, flag or text"""
    meaning: str
    required: bool
    field: str | None
    """attribute in Python; None for a fact that only checks others"""
    minimum: float
    """smallest value; itself allowed"""
    maximum: float
    """largest value; itself allowed"""
    found_in: str | None
    """where a user finds the value of a GPU"""


def cure_of(rule: Rule, value: Any) -> str | None:
    """Return what to write instead of a value of a file; None where the rule allows it.

    >>> cure_of(Rule("peak.clock_boost_mhz", "MHz", "number", "SM clock", True, None, 10, 20_000, None), 1.7)
    'give a number from 10 to 20,000 (unit MHz)'
    """
    if rule.kind == "flag":
        return None if isinstance(value, bool) else "give true or false"
    if rule.kind == "text":
        return None if isinstance(value, str) and _NAME.fullmatch(value) else "give a name of at most 40 letters"
    return _list_cure(rule, value) if rule.kind == "list" else _number_cure(rule, value)


def _list_cure(rule: Rule, value: Any) -> str | None:
    are_numbers = isinstance(value, list) and value and all(_is_number(rule, item) for item in value)
    if not are_numbers or value != sorted(set(value)):
        return "give a list of ascending integers"
    return None if _is_within(rule, value[0]) and _is_within(rule, value[-1]) else _range(rule, "integers")


def _number_cure(rule: Rule, value: Any) -> str | None:
    form = {"whole": "a whole number", "number": "a finite number", "fraction": "a number up to 1"}[rule.kind]
    if not _is_number(rule, value):
        bound = "of at least 0" if rule.minimum == 0 else "above 0"
        return f"give {form} {bound} (unit {rule.unit})"
    if _is_within(rule, value):
        return None
    return _range(rule, "a whole number" if rule.kind == "whole" else "a number")


def _range(rule: Rule, form: str) -> str:
    return f"give {form} from {_digits(rule.minimum)} to {_digits(rule.maximum)} (unit {rule.unit})"


def _digits(bound: float) -> str:
    return f"{bound:,.0f}" if bound == round(bound) else f"{bound:g}"


def _is_number(rule: Rule, value: Any) -> bool:
    """Whether a value is a number of the rule's kind and not negative; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if rule.kind in {"whole", "list"} and not isinstance(value, int):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    above = value >= 0 if rule.minimum == 0 else value > 0
    return above and (rule.kind != "fraction" or value <= 1)


def _is_within(rule: Rule, value: float) -> bool:
    return rule.minimum <= value <= rule.maximum
