"""What nvprof counts, in the names and units of Nsight Compute: one reading of counters serves both.

``data/nvprof_metrics.csv`` says which metric is which. Three things were found on kernels of known traffic on Kepler
and Maxwell. Bytes of shared memory are its transactions times its efficiency, to nine digits. On Kepler a transaction
of global memory is anything up to 128 bytes; L1 caches no loads there, so what L2 is asked for is a better bound. On
Maxwell gld_transactions is two to three times what loads ask for; the unified cache's transactions are nearer.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.gpu_files import DATA
from kerncast.kernel_profile import Count, KernelProfile
from kerncast.read.ncu_gpu import Device, find_gpu
from kerncast.read.ncu_row import NcuMetric, NcuRow
from kerncast.read.nvprof_csv import NvprofLaunch, NvprofMetric
from kerncast.read.repeated_rows import profiles_of_rows
from kerncast.read.selection import Selection
from kerncast.units import NANOSECOND, PERCENT

#: On older architectures, L1 caches no global loads by default, and never stores.
_L1_CACHES_LOADS = 50
_PASSED_ON = (
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "lts__t_sectors_op_read.sum"),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "lts__t_sectors_op_write.sum"),
)
_SHARED_BYTES = "smsp__sass_data_bytes_mem_shared.sum"
_FLOPS = (("add", 1), ("mul", 1), ("fma", 2))
#: What no counter of ncu says: these go into the profile's work as they are.
_WORK = frozenset({"fp32_flops", "fp64_flops", "fp16_flops", "special_ops"})
#: Where one of these is 0, and none is more, the kernel does not use local memory.
_LOCAL_MEMORY = ("local_memory_overhead", "local_{}_requests", "inst_executed_local_{}s")
#: Of no use but for that.
_NOT_COUNTED = _WORK | {"local_memory_overhead"}
_NOT_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line of the data file."""

    name: str
    metric: str
    factor: float
    unit: str
    kind: str
    """count, percent or ratio: how nvprof prints it"""
    first: int
    last: int
    """architecture numbers, such as 30 and 37"""


def nvprof_profiles(
    launches: Sequence[NvprofLaunch],
    source_gpu: GPU | None = None,
    where: str = "nvprof CSV",
    selection: Selection | None = None,
) -> tuple[KernelProfile, ...]:
    """Return the profiles of launches that nvprof saw, on the GPU that it names unless one is given."""
    for launch in launches:
        if launch.grid is None:
            raise InputError(
                f"Duration, Grid and Block of {ascii(launch.kernel)[:60]} are missing: it holds metrics only",
                where=where,
                cure="Run nvprof --csv --print-gpu-trace too, and put what both runs wrote into one file.",
            )
    numbers = {each.device: profiled_gpu(each.device, source_gpu, where).architecture.number for each in launches}
    rows = [ncu_row(launch, number, numbers[launch.device]) for number, launch in enumerate(launches)]
    profiles = profiles_of_rows(rows, source_gpu, where, selection)
    return tuple(_completed(profile, launches[profile.index], numbers) for profile in profiles)


def ncu_row(launch: NvprofLaunch, number: int, architecture: int) -> NcuRow:
    """Return a launch as Nsight Compute would have counted it on a GPU of this architecture, such as 35."""
    printed = printed_values(launch.metrics)
    counted = counted_metrics(printed, architecture)
    known = (
        ("gpu__time_duration.sum", None if launch.seconds is None else launch.seconds / NANOSECOND, "ns"),
        ("launch__registers_per_thread", launch.registers_per_thread, "register/thread"),
        ("launch__shared_mem_per_block_static", launch.static_shared_bytes, "byte/block"),
        ("launch__shared_mem_per_block_dynamic", launch.dynamic_shared_bytes, "byte/block"),
    )
    return NcuRow(
        number=number,
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        compute_capability=f"{architecture // 10}.{architecture % 10}",
        metrics=(*(NcuMetric(name, float(value), unit) for name, value, unit in known if value is not None), *counted),
        device=launch.device,
        empties_caches=False,
    )


def printed_values(metrics: Iterable[NvprofMetric]) -> Mapping[str, float]:
    """Return metrics by nvprof's names, shares in nvprof's own scale; a name that stands twice counts once."""
    values: dict[str, float] = {}
    for metric in metrics:
        name = _names().get(_plain(metric.name))
        if name is None:
            continue
        kind = _kinds()[name]
        if metric.unit and not (metric.unit == "%" and kind in {"percent", "ratio"}):
            cure = "Write the file again with nvprof --csv."
            raise InputError(f"{name} is {metric.value:g} {metric.unit}, no number of events", cure=cure)
        is_share_of_100 = metric.unit == "%" and kind == "ratio"
        values.setdefault(name, metric.value * PERCENT if is_share_of_100 else metric.value)
    return values


def counted_metrics(printed: Mapping[str, float], architecture: int) -> tuple[NcuMetric, ...]:
    """Return nvprof's metrics under ncu's names, in base units, as they are counted on this architecture.

    >>> [(each.name, each.value) for each in counted_metrics({"dram_read_transactions": 1000}, 60)]
    [('dram__bytes_read.sum', 32000.0)]
    """
    printed = _completed_mix(_without_local_memory(printed))
    found: dict[str, float] = {}
    units: dict[str, str] = {}
    for rule in _rules():
        value = printed.get(rule.name)
        if value is None or rule.metric in found or not rule.first <= architecture <= rule.last:
            continue
        if rule.metric == _SHARED_BYTES:
            transactions = [printed.get(f"shared_{operation}_transactions") for operation in ("load", "store")]
            if None in transactions:
                continue
            value *= sum(filter(None, transactions))
        found[rule.metric], units[rule.metric] = value * rule.factor, rule.unit
    if architecture < _L1_CACHES_LOADS:
        for operation, passed_on in _PASSED_ON:
            if operation in found and passed_on in found:
                found[operation] = min(found[operation], found[passed_on])
    return tuple(NcuMetric(name, value, units[name]) for name, value in found.items() if name not in _NOT_COUNTED)


def _without_local_memory(printed: Mapping[str, float]) -> Mapping[str, float]:
    """Return the counters with no transactions of local memory where another counter says that it is not used.

    >>> _without_local_memory({"local_memory_overhead": 0.0})["local_load_transactions"]
    0.0
    """
    completed = dict(printed)
    for way in ("load", "store"):
        asked = [printed.get(name.format(way)) for name in _LOCAL_MEMORY]
        if 0 in asked and not any(asked):
            completed.setdefault(f"local_{way}_transactions", 0.0)
    return completed


def _completed_mix(printed: Mapping[str, float]) -> Mapping[str, float]:
    """Return the counters with the one of additions, multiplications and FMAs that only their total tells.

    >>> printed = {"flop_count_dp": 1179760, "flop_count_dp_add": 131088, "flop_count_dp_mul": 524320}
    >>> _completed_mix(printed)["flop_count_dp_fma"]
    262176.0
    """
    completed = dict(printed)
    for width in ("sp", "dp", "hp"):
        total = printed.get(f"flop_count_{width}")
        flops = {f"flop_count_{width}_{kind}": each for kind, each in _FLOPS}
        missing = [name for name in flops if name not in printed]
        if total is not None and len(missing) == 1:
            rest = total - sum(printed[name] * each for name, each in flops.items() if name in printed)
            completed[missing[0]] = max(0.0, rest / flops[missing[0]])
    return completed


def is_nvprof_name(name: str) -> bool:
    """Whether nvprof has a metric of this name or description that serves a forecast."""
    return _plain(name) in _names()


def profiled_gpu(device: str, source_gpu: GPU | None, where: str) -> GPU:
    """Return the GPU that a file was made on: the one given, else the one that it names."""
    if source_gpu is not None:
        return source_gpu
    return find_gpu(Device(device, None, None, None, None), where)[0]


def _completed(profile: KernelProfile, launch: NvprofLaunch, numbers: Mapping[str, int]) -> KernelProfile:
    """Add what nvprof counts and ncu does not, and what is to be known of its counters."""
    printed = printed_values(launch.metrics)
    totals = {rule.metric: Count.exact(printed[rule.name]) for rule in _rules() if rule.name in printed}
    work = replace(
        profile.work,
        fp32_flops=profile.work.fp32_flops or totals.get("fp32_flops"),
        fp64_flops=profile.work.fp64_flops or totals.get("fp64_flops"),
        fp16_flops=profile.work.fp16_flops or totals.get("fp16_flops"),
        special_ops=profile.work.special_ops or totals.get("special_ops"),
    )
    notes = []
    if launch.averaged_over is not None and launch.averaged_over > 1:
        notes.append(f"the counters are means over {launch.averaged_over} launches of this kernel")
    if numbers[launch.device] < _L1_CACHES_LOADS and "gld_transactions" in printed:
        notes.append("L1 of Kepler is taken to cache no global loads, as compilers have it unless told otherwise")
    return replace(profile, work=work, caveats=(*profile.caveats, *notes))


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """Return what counts of a name: nvprof writes Operation and Operations, with and without spaces."""
    return _NOT_WORD.sub("", name.lower()).replace("operations", "operation")


@cache
def _names() -> Mapping[str, str]:
    """Return nvprof's name of a metric by its name or its description, as older versions head their columns."""
    with (DATA / "nvprof_metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {_plain(row[column]): row["name"] for row in rows for column in ("description", "name")}


@cache
def _kinds() -> Mapping[str, str]:
    return {rule.name: rule.kind for rule in _rules()}


@cache
def _rules() -> tuple[_Rule, ...]:
    with (DATA / "nvprof_metrics.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            _Rule(
                name=row["name"],
                metric=row["metric"],
                factor=float(row["factor"]),
                unit=row["unit"],
                kind=row["kind"],
                first=_architecture(row["from"]),
                last=_architecture(row["to"] or "99.9"),
            )
            for row in csv.DictReader(file)
        )


def _architecture(text: str) -> int:
    major, minor = text.split(".")
    return int(major) * 10 + int(minor)
