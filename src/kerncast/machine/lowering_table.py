"""What PTX becomes on average, from ``data/instructions/lowering.csv``: machine instructions for each form."""

import csv
from collections import defaultdict
from functools import cache
from pathlib import Path

import kerncast

_LOWERING_FILE = Path(kerncast.__path__[0]) / "data" / "instructions" / "lowering.csv"
_KEYS = ("form", "opcode")
#: Form of what every kernel starts with, whatever its PTX.
ENTRY = "entry"
#: Of an instruction whose opcode the table lacks.
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


@cache
def _column(architecture: int) -> str:
    columns = sorted((int(name.removeprefix("sm_")), name) for name in _lowering_table())
    return next((name for number, name in reversed(columns) if number <= architecture), columns[0][1])


@cache
def _lowering_table() -> dict[str, dict[str, Lowered]]:
    """Return by column and form; a form whose rows are empty becomes nothing."""
    found: dict[str, dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
    with _LOWERING_FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for column in row.keys() - set(_KEYS):
                operations = found[column][row["form"]]
                if row[column]:
                    operations.append((row["opcode"], float(row[column])))
    return {column: {form: tuple(ops) for form, ops in forms.items()} for column, forms in found.items()}
