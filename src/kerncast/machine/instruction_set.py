"""The class and the pipe of machine instructions, from ``data/instructions/machine_opcodes.csv``."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import kerncast
from kerncast.bounded_file import our_rows


@dataclass(frozen=True, slots=True)
class Step:
    """Executions of one machine instruction, as multiples of those of one PTX basic block."""

    opcode: str
    work: str
    """class of work in Nsight Compute"""
    pipe: str
    block: int
    """PTX basic block whose warps and threads run the instruction"""
    times: float
    """executions of the instruction for each execution of the block"""
    on: float
    """share of the threads whose predicate holds, 0 to 1"""


_FILE = Path(kerncast.__path__[0]) / "data" / "instructions" / "machine_opcodes.csv"


@dataclass(frozen=True, slots=True)
class Kind:
    """The work of an opcode, and its pipe."""

    work: str
    """class of work in Nsight Compute"""
    pipe: str


#: An opcode that the table lacks: newer than it.
UNKNOWN = Kind("misc", "none")


@dataclass(frozen=True, slots=True)
class _Row:
    modifier: str
    """modifier that the row is for; empty: any"""
    since: int
    """first architecture that the row is for, such as 86"""
    kind: Kind


def kind_of(opcode: str, modifiers: tuple[str, ...], architecture: int) -> Kind:
    """Return the class and the pipe of an instruction: of the newest row that fits, one with its modifier first.

    >>> kind_of("HFMA2", (), 80).pipe, kind_of("HFMA2", (), 89).pipe
    ('fp16', 'fma')
    """
    fitting = [
        row
        for row in _table().get(opcode, ())
        if row.since <= architecture and (not row.modifier or row.modifier in modifiers)
    ]
    return max(fitting, key=lambda row: (bool(row.modifier), row.since)).kind if fitting else UNKNOWN


@cache
def _table() -> dict[str, list[_Row]]:
    rows: dict[str, list[_Row]] = {}
    for row in our_rows(_FILE):
        one = _Row(row["modifier"], int(row["from"] or 0), Kind(row["work"], row["pipe"]))
        rows.setdefault(row["opcode"], []).append(one)
    return rows


_LOWERING_FILE = Path(kerncast.__path__[0]) / "data" / "instructions" / "lowering.csv"
_KEYS = ("form", "opcode")
#: Form of what every kernel starts with, whatever its PTX.
ENTRY = "entry"
#: Machine instructions of an opcode that the table lacks.
_ONE_UNKNOWN = (("", 1.0),)

Lowered = tuple[tuple[str, float], ...]


def lowered(form: str, architecture: int) -> Lowered:
    """Return opcodes and how many of each a form becomes; a form that the table lacks is shortened from its end.

    The column is that of the newest architecture that is not newer.

    >>> lowered("fma.f32", 75)
    (('FFMA', 1.0),)
    """
    table = _lowering_table()[_column(architecture)]
    parts = form.split(".")
    while parts:
        if (found := table.get(".".join(parts))) is not None:
            return found
        parts.pop()
    return _ONE_UNKNOWN


def has_form(form: str, architecture: int) -> bool:
    """Return whether the table has a form itself, and not only one that it is shortened to."""
    return form in _lowering_table()[_column(architecture)]


@cache
def _column(architecture: int) -> str:
    columns = sorted((int(name.removeprefix("sm_")), name) for name in _lowering_table())
    return next((name for number, name in reversed(columns) if number <= architecture), columns[0][1])


@cache
def _lowering_table() -> dict[str, dict[str, Lowered]]:
    """Return by column and form; a form whose rows are empty becomes nothing."""
    found: dict[str, dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in our_rows(_LOWERING_FILE):
        for column in row.keys() - set(_KEYS):
            operations = found[column][row["form"]]
            if row[column]:
                operations.append((row["opcode"], float(row[column])))
    return {column: {form: tuple(ops) for form, ops in forms.items()} for column, forms in found.items()}
