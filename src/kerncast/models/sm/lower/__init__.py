"""VERB lower: the PTX of a kernel becomes the micro-ops that the compiler would make of it, in their order."""

from kerncast.models.sm.lower.averages import doubts_of_code, not_in_table
from kerncast.models.sm.lower.lowering import lower

__all__ = ["doubts_of_code", "lower", "not_in_table"]
