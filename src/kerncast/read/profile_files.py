"""Reads a profile that some tool wrote; which tool is told by what the file holds, not by its name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from kerncast.bounded_file import read_head
from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.measurements import TimedKernel
from kerncast.profiles import KernelProfile
from kerncast.read.bounded_text import is_text_or_packed, parse_json, read_text, starts_with
from kerncast.read.ncu.pages import read_ncu_csv
from kerncast.read.ncu.profile import profiles_of
from kerncast.read.ncu.report import REPORT_SUFFIX, SIGNATURE, headless_report, read_ncu_report
from kerncast.read.ncu.rows import MOST_VALUES, NcuRow
from kerncast.read.nvprof import is_nvprof_header, nvprof_profiles, read_nvprof
from kerncast.read.selection import Selection
from kerncast.read.tuners import (
    Table,
    TunedConfiguration,
    close_cache,
    read_cache,
    read_ktt,
    read_t4,
    tuned_kernels,
    tuned_profiles,
)

R = TypeVar("R")

_KNOWN = (
    "Known are .ncu-rep, ncu --csv (raw and details page), nvprof --csv, Kernel Tuner's cache and T4 files, and KTT's"
    " JSON."
)
#: Launches of a raw page, one a row.
MOST_ROWS = 200_000
_MOST_BYTES_OF_HEAD = 4096
#: No tool writes its table below more lines than this, unless the application does.
_MOST_LINES_BEFORE = 1_000_000

#: The key that only this tool's JSON has beside others, and what reads it.
_JSON_READERS: tuple[tuple[frozenset[str], Callable[[Table, str], Sequence[TunedConfiguration]]], ...] = (
    (frozenset({"Metadata", "Results"}), read_ktt),
    (frozenset({"cache", "tune_params_keys"}), read_cache),
    (frozenset({"results"}), read_t4),
)


def read_profile(
    path: Path,
    source_gpu: GPU | None = None,
    selection: Selection | None = None,
    launches: Sequence[Launch] = (),
) -> tuple[KernelProfile, ...]:
    """Read the kernels of a profile, in order; raises InputError with place and cure.

    The index of each is its place in the file. The GPU is the one given, else the one that the file tells.
    Launches of the source tell grid and block where a tuner's file does not.
    """
    return _read(
        path, source_gpu, selection, lambda c, where: tuned_profiles(c, source_gpu, where, selection, launches)
    )


def read_kernels(
    path: Path,
    source_gpu: GPU | None = None,
    selection: Selection | None = None,
    launches: Sequence[Launch] = (),
) -> tuple[KernelProfile, ...] | tuple[TimedKernel, ...]:
    """Read a profile, or by its times alone a tuner's file that tells neither counters nor grids; raises InputError."""
    return _read(path, source_gpu, selection, lambda c, where: tuned_kernels(c, source_gpu, where, selection, launches))


def _read(
    path: Path,
    source_gpu: GPU | None,
    selection: Selection | None,
    of_tuner: Callable[[Sequence[TunedConfiguration], str], R],
) -> tuple[KernelProfile, ...] | R:
    where = str(path)
    if _is_ncu_report(path):
        return profiles_of(read_ncu_report(path), source_gpu, where, selection)
    text = read_text(path)
    if text.lstrip()[:1] in {"{", "["}:
        return of_tuner(read_tuned(text, where), where)
    kind = kind_of_csv(text)
    if kind == "ncu":
        check_rows(text, where)
        return profiles_of(read_ncu_csv(lines_of(text), where), source_gpu, where, selection)
    if kind == "nvprof":
        return nvprof_profiles(read_nvprof(lines_of(text), where), source_gpu, where, selection)
    raise InputError("it holds no profile", where=where, cure=_KNOWN)


def _is_ncu_report(path: Path) -> bool:
    """Tell whether a file is a report of Nsight Compute; raises InputError for one whose head is damaged."""
    if starts_with(path, SIGNATURE):
        return True
    if path.suffix == REPORT_SUFFIX and not is_text_or_packed(read_head(path, _MOST_BYTES_OF_HEAD)):
        raise headless_report(str(path))
    return False


def read_ncu_rows(path: Path) -> tuple[NcuRow, ...]:
    """Read the launches of a report or a CSV of Nsight Compute with all of their metrics; raises InputError."""
    where = str(path)
    if _is_ncu_report(path):
        return read_ncu_report(path)
    text = read_text(path)
    if kind_of_csv(text) != "ncu":
        raise InputError("it is no profile of Nsight Compute", where=where, cure="Give a .ncu-rep or ncu's CSV.")
    check_rows(text, where)
    return read_ncu_csv(lines_of(text), where)


def read_tuned(text: str, where: str) -> Sequence[TunedConfiguration]:
    """Return the configurations of a tuner's JSON; a cache of Kernel Tuner may lack its end."""
    table = parse_json(close_cache(text), where)
    if isinstance(table, Mapping):
        for keys, read in _JSON_READERS:
            if keys <= set(table):
                return read(table, where)
    raise InputError("no known tool writes this JSON", where=where, cure=_KNOWN)


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text without a second copy of it."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def check_rows(text: str, where: str) -> None:
    """Raise InputError for more rows than are taken, before any is read: a row of a page begins with a quote."""
    rows = text.count('\n"')
    most = MOST_VALUES if '"Metric Name"' in text else MOST_ROWS
    if rows > most:
        cure = "Profile fewer launches (ncu -k NAME --launch-count N), or split the file."
        raise InputError(f"it has {rows:,} rows, more than {most:,}", where=where, cure=cure)


def kind_of_csv(text: str) -> str | None:
    """Return which profiler wrote the first table, or None where no header of one is found."""
    for line in islice(lines_of(text), _MOST_LINES_BEFORE):
        plain = line.removeprefix("\ufeff")
        if plain.startswith(("ID,", '"ID",')) and "Kernel Name" in plain:
            return "ncu"
        if is_nvprof_header(plain):
            return "nvprof"
    return None
