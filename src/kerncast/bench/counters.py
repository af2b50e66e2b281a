"""Hardware counters from Nsight Compute: which metrics, how ncu is started, and which launch each row belongs to.

``data/ncu_metrics.csv`` lists the metrics and the models that need them.
"""

import difflib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kerncast.bounded_file import our_rows
from kerncast.errors import BudgetExceededError, InputError
from kerncast.gpu import DATA
from kerncast.measurements import Configuration, Counters
from kerncast.read.ncu.pages import NcuRow, read_raw_page

_INSTALLED = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_TAIL_LINES = 8
PERMISSION_CODE = "ERR_NVGPUCTRPERM"
PERMISSION_CURE = (
    "The driver keeps the counters for administrators: run as root, or set the driver's option "
    "NVreg_RestrictProfilingToAdminUsers=0 and load it again (https://developer.nvidia.com/ERR_NVGPUCTRPERM); "
    "a container needs --cap-add SYS_ADMIN."
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric that a model needs."""

    name: str
    """name of the metric in Nsight Compute"""
    unit: str
    first: tuple[int, int]
    """lowest compute capability that has the metric"""
    last: tuple[int, int] | None
    """highest compute capability that has the metric; None: the newest"""
    nvprof: str | None
    """nearest metric of nvprof; None where there is none"""
    models: tuple[str, ...]
    meaning: str


@cache
def all_metrics() -> tuple[Metric, ...]:
    """Return every metric that a model needs, in the order of the data file."""
    return tuple(
        Metric(
            name=row["name"],
            unit=row["unit"],
            first=_capability(row["from"]),
            last=_capability(row["to"]) if row["to"] else None,
            nvprof=row["nvprof"] or None,
            models=tuple(row["needed_by"].split()),
            meaning=row["meaning"],
        )
        for row in our_rows(DATA / "ncu_metrics.csv")
    )


def metrics_needed(models: Iterable[str] = (), compute_capability: str | None = None) -> tuple[Metric, ...]:
    """Return the metrics of these models, of all where none is named, that a GPU has."""
    wanted = set(models)
    known = {model for metric in all_metrics() for model in metric.models}
    if unknown := sorted(wanted - known):
        near = difflib.get_close_matches(unknown[0], known, n=1)
        raise InputError(
            f"no model {unknown[0]!r} needs counters",
            cure=f"Did you mean {near[0]}?" if near else f"Choose from {', '.join(sorted(known))}.",
        )
    here = _capability(compute_capability) if compute_capability else None
    return tuple(
        metric
        for metric in all_metrics()
        if not wanted or wanted & set(metric.models)
        if here is None or (metric.first <= here and (metric.last is None or here <= metric.last))
    )


def collection_options(metrics: Iterable[Metric], *, cold: bool) -> tuple[str, ...]:
    """Return the options of ncu that decide what is counted, and under which conditions."""
    return (
        *("--target-processes", "all"),
        *("--replay-mode", "kernel"),
        *("--clock-control", "none"),
        *("--cache-control", "all" if cold else "none"),
        *("--metrics", ",".join(metric.name for metric in metrics)),
    )


def csv_options(csv_path: Path) -> tuple[str, ...]:
    """Return the options of ncu that write the raw page as CSV."""
    return ("--print-units", "base", "--csv", "--page", "raw", "--log-file", str(csv_path))


def ncu_argv(
    child: Sequence[str],
    csv_path: Path,
    ncu: str,
    kernels: Iterable[str] = (),
    compute_capability: str | None = None,
) -> tuple[str, ...]:
    """Return the command that runs a child under ncu with every metric, and writes its counters as CSV.

    Only kernels of these names are counted, of any name where none is given; a template instance counts by the name
    of its template. Caches are flushed before each pass, as otherwise later passes would find what the first one left.
    """
    names = "|".join(sorted({re.escape(base_name(kernel)) for kernel in kernels}))
    chosen = ("--kernel-name-base", "function", "--kernel-name", f"regex:^({names})$") if names else ()
    metrics = metrics_needed(compute_capability=compute_capability)
    return (ncu, *collection_options(metrics, cold=True), *chosen, *csv_options(csv_path), *child)


def find_ncu() -> str:
    """Return the path of ncu: the one on PATH, or else the newest in its usual places."""
    if found := shutil.which("ncu"):
        return found
    for pattern in _INSTALLED:
        places = sorted(Path("/").glob(pattern.removeprefix("/")), key=_version_of, reverse=True)
        if places:
            return str(places[0])
    raise InputError(
        "ncu was not found",
        where="PATH",
        cure="Install NVIDIA Nsight Compute (part of the CUDA toolkit) and add its folder to PATH.",
    )


def run_under_ncu(argv: Sequence[str], csv_path: Path, limit_seconds: float) -> tuple[NcuRow, ...]:
    """Run the command of ``ncu_argv`` and return its rows; nothing of it is left running.

    Raises InputError where ncu fails, and BudgetExceededError where it takes longer than the limit.
    """
    csv_path.unlink(missing_ok=True)
    # Another locale would write 1.234.567 for 1,234,567.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        process = subprocess.Popen(  # noqa: S603  it runs this package's own command
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(f"ncu cannot be started ({error.strerror})", where=argv[0], cure="Check its path.") from None
    with process:
        try:
            output, _ = process.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            raise BudgetExceededError(
                f"ncu did not end within {limit_seconds:g} s",
                where=argv[0],
                cure="Allow it more time, or count fewer configurations.",
            ) from None
        finally:
            _end_group(process)
    log = csv_path.read_text(encoding="utf-8", errors="replace") if csv_path.exists() else ""
    _refuse_failure(argv[0], process.returncode, output.decode(errors="replace"), log)
    return read_raw_page(log.splitlines(), str(csv_path))


def match_counters(rows: Iterable[NcuRow], configurations: Sequence[Configuration]) -> tuple[Counters, ...]:
    """Assign rows to configurations, each of which was launched once, in this order.

    Rows of kernels that no configuration names (delays, set-up) are left out. The first row whose kernel, grid or
    block is not that of its configuration raises InputError, and so does a row too few or too many.
    """
    names = {base_name(configuration.kernel) for configuration in configurations}
    counted = [row for row in rows if base_name(row.kernel) in names]
    for configuration, row in zip(configurations, counted, strict=False):
        if difference := _difference(row, configuration):
            raise InputError(f"row {row.number} of ncu is {difference}", where=configuration.key, cure=_OTHER_ORDER)
    if len(counted) < len(configurations):
        missing = configurations[len(counted)]
        raise InputError(f"ncu has no launch of {missing.kernel}", where=missing.key, cure=_OTHER_ORDER)
    if len(counted) > len(configurations):
        row = counted[len(configurations)]
        raise InputError(f"ncu has one more launch of {row.kernel}", where=f"row {row.number}", cure=_OTHER_ORDER)
    return tuple(
        Counters(configuration.key, tuple((m.name, m.value, m.unit) for m in row.metrics))
        for configuration, row in zip(configurations, counted, strict=True)
    )


_OTHER_ORDER = "Count again: each configuration must be launched once, in the order of the measurement."


def base_name(kernel: str) -> str:
    """Return a kernel's name without return type, namespace, template arguments and parameters.

    >>> base_name("void app::reduce<float, (int)256>(const T1 *, T1 *)"), base_name("(anonymous namespace)::k(int)")
    ('reduce', 'k')
    """
    text, before = kernel, ""
    while text != before:  # brackets may be nested
        before, text = text, re.sub(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]", " ", text)
    names = re.findall(r"[A-Za-z_$][\w$]*", text)
    return names[-1] if names else kernel


def _difference(row: NcuRow, configuration: Configuration) -> str | None:
    if base_name(row.kernel) != base_name(configuration.kernel):
        return f"a launch of {row.kernel}, not of {configuration.kernel}"
    for what, found, expected in (
        ("grid", row.grid, configuration.grid),
        ("block", row.block, configuration.block),
    ):
        if found is not None and found != expected:
            return f"a launch of {row.kernel} with {what} {found}, not {expected}"
    return None


def _refuse_failure(where: str, status: int, output: str, log: str) -> None:
    text = f"{output}\n{log}"
    if PERMISSION_CODE in text:
        raise InputError(f"ncu may not read the counters ({PERMISSION_CODE})", where=where, cure=PERMISSION_CURE)
    if unknown := re.search(r"Failed to find metric (?:regex:\^)?([\w$]+)", text):
        raise InputError(
            f"this version of ncu has no metric {unknown[1]}",
            where=where,
            cure="Install a version that supports this GPU; ncu --query-metrics lists what it has.",
        )
    if "No kernels were profiled" in text:
        raise InputError("ncu counted no kernel", where=where, cure="Check that the child launches what is counted.")
    if status != 0 or "==ERROR==" in text:
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith('"')]
        said = " / ".join(lines[-_TAIL_LINES:]) or "nothing"
        raise InputError(f"ncu ended with status {status} and said: {said}", where=where, cure="Mend what it names.")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)


def _version_of(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", str(path)))
