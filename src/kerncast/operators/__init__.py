"""NOUN Operator: one call of a deep-learning library, known by its name, its sizes and its number formats."""

from kerncast.operators.kinds import KINDS, Family, Kind, Size, kind_named
from kerncast.operators.operator import (
    LIBRARIES,
    NumberFormat,
    Operator,
    check_names,
    format_named,
    operator_of,
    parse_operator,
)

__all__ = [
    "KINDS", "LIBRARIES", "Family", "Kind", "NumberFormat", "Operator", "Size", "check_names", "format_named",
    "kind_named", "operator_of", "parse_operator",
]  # fmt: skip
