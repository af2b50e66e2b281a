"""Reads prices of GPUs: a CSV ``gpu,usd_per_hour[,usd_price]``, strictly."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncast.errors import GPUError, InputError
from kerncast.gpu import GPU, normalise, resolve_gpu
from kerncast.gpu.files import is_path
from kerncast.printable import printable
from kerncast.read.bounded_text import read_text
from kerncast.units import MIB

_COLUMNS = ("gpu", "usd_per_hour", "usd_price")
_MOST_BYTES = 1 * MIB
#: No GPU costs more, by the hour or to buy.
_MOST_USD = 1e7
_SHOWN = 40
_CURE = 'Write "gpu,usd_per_hour" or "gpu,usd_per_hour,usd_price" into the first line.'


@dataclass(frozen=True, slots=True)
class Price:
    """What a GPU costs."""

    gpu_id: str
    usd_per_hour: float
    usd_price: float | None
    """to buy; None where it is not given"""


def read_prices(path: Path, compared: Sequence[GPU] = ()) -> tuple[Price, ...]:
    """Return the prices of a file, a GPU each; raises InputError that names the line.

    A GPU of the catalogue may have a price without being ``compared``; one of a user's own file must be.
    """
    rows = csv.reader(io.StringIO(read_text(path, _MOST_BYTES)), strict=True)
    found: dict[str, Price] = {}
    columns: tuple[str, ...] | None = None
    try:
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            if not any(cell.strip() for cell in row):
                continue
            if columns is None:
                columns = _columns(row, where)
                continue
            price = _price(row, columns, where, compared)
            if price.gpu_id in found:
                raise InputError(f"{price.gpu_id} has a price twice", where=where, cure="Keep one of them.")
            found[price.gpu_id] = price
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", where=f"{path}, line {rows.line_num}", cure="Mend the line.") from None
    if not found:
        raise InputError("it holds no price", where=str(path), cure=_CURE)
    return tuple(found.values())


def _columns(row: list[str], where: str) -> tuple[str, ...]:
    names = tuple(cell.strip().lower() for cell in row)
    if names not in {_COLUMNS[:2], _COLUMNS}:
        raise InputError(f"the columns are {printable(','.join(names))[:_SHOWN]!r}", where=where, cure=_CURE)
    return names


def _price(row: list[str], columns: tuple[str, ...], where: str, compared: Sequence[GPU]) -> Price:
    if len(row) != len(columns):
        raise InputError(
            f"the row has {len(row)} values, not {len(columns)}", where=where, cure="Fill in what is missing."
        )
    gpu_id = _gpu_id(row[0].strip(), where, compared)
    bought = row[2].strip() if len(row) == len(_COLUMNS) else ""
    return Price(gpu_id, _usd(row[1], columns[1], where), _usd(bought, _COLUMNS[2], where) if bought else None)


def _gpu_id(name: str, where: str, compared: Sequence[GPU]) -> str:
    shown = printable(name)[:_SHOWN]
    own = [gpu.id for gpu in compared if normalise(name) in {normalise(gpu.id), normalise(gpu.name)}]
    if own:
        return own[0]
    if is_path(name):
        raise InputError(f"{shown!r} is a file that is not compared", where=where, cure="Name the GPU, or give --gpu.")
    try:
        gpu, assumed = resolve_gpu(name)
    except GPUError as error:
        raise InputError(error.what, where=where, cure=error.cure) from None
    if assumed:
        others = assumed[0].details.get("others", "")
        cure = f"Name one: {gpu.id}; {others}." if others else f"Write {gpu.id}."
        raise InputError(f"{shown!r} may be several GPUs", where=where, cure=cure)
    return gpu.id


def _usd(text: str, name: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST_USD:
        shown = printable(text.strip())[:_SHOWN]
        raise InputError(f"{name} is {shown!r}", where=where, cure=f"Give US dollars above 0, up to {_MOST_USD:.0f}.")
    return value
