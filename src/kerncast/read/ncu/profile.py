"""Rows of Nsight Compute become KernelProfiles, each with the GPU and the time of its run."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import GPUError, InputError
from kerncast.gpu import GPU, find_id, list_gpus, load_gpu, normalise
from kerncast.launch import Extent, check_geometry
from kerncast.prediction import Timing
from kerncast.printable import printable
from kerncast.profiles import (
    Count,
    Counts,
    FloatMix,
    KernelProfile,
    MachineMix,
    Origin,
    Resources,
    SampledLine,
    SourceRun,
)
from kerncast.profiles.counts import CONTROL_OPS, DRAM_BYTES, FLOPS, INTEGER_OPS, LOCAL_BYTES_REQUESTED, TENSOR_OPS
from kerncast.read.ncu.counts import NcuCounts, atomic_requests, dram_bytes, instruction_counts, memory_counts
from kerncast.read.ncu.rows import NcuMetric, NcuRow
from kerncast.read.selection import Selection
from kerncast.units import KILO, NANOSECOND, PERCENT

_CURE = "Name the GPU that it was taken on with --source-gpu; a path to your own .toml file works too."
#: A vendor's card may be clocked above NVIDIA's own.
_CLOCK_TOLERANCE = 6 * PERCENT


@dataclass(frozen=True, slots=True)
class Device:
    """The GPU that a profile names; None where it does not say."""

    name: str | None
    compute_capability: str | None
    sm_count: int | None
    bus_bits: int | None
    clock_hz: float | None
    """highest clock of the SMs"""


def device_of(row: NcuRow) -> Device:
    """Return what a launch tells of its GPU."""
    metrics = {metric.name: metric for metric in row.metrics}
    major = _whole(metrics, "device__attribute_compute_capability_major")
    minor = _whole(metrics, "device__attribute_compute_capability_minor")
    attributes = f"{major}.{minor}" if major is not None and minor is not None else None
    clock = metrics.get("device__attribute_clock_rate")
    return Device(
        name=row.device,
        compute_capability=row.compute_capability or attributes,
        sm_count=_whole(metrics, "device__attribute_multiprocessor_count") or _whole(metrics, "launch__sm_count"),
        bus_bits=_whole(metrics, "device__attribute_global_memory_bus_width"),
        # The driver gives kHz, and ncu no unit.
        clock_hz=clock.value * (1.0 if clock.unit == "hz" else KILO) if clock and clock.value > 0 else None,
    )


def find_gpu(device: Device, where: str) -> tuple[GPU, tuple[Caveat, ...]]:
    """Return the GPU that a profile was taken on, and what had to be assumed; raises InputError with ``--source-gpu``.

    A name that is not known is refused: another GPU with as many SMs may have another memory.
    """
    try:
        return _find(device)
    except InputError as error:
        raise InputError(error.what, where=where, cure=error.cure) from None


@lru_cache(maxsize=256)
def _find(device: Device) -> tuple[GPU, tuple[Caveat, ...]]:
    if device.name is not None:
        try:
            gpu_id, caveats = find_id(device.name)  # never a path: the file is not trusted
        except GPUError as error:
            raise InputError(f"it was taken on a GPU without data: {error.what}", cure=_CURE) from None
        return load_gpu(gpu_id), caveats
    if device.sm_count is None or device.compute_capability is None:
        raise InputError("it does not say on which GPU it was taken", cure=_CURE)
    fitting = [gpu for gpu in list_gpus() if _fits(gpu, device)]
    if len(fitting) > 1 and device.clock_hz is not None:
        fitting = [gpu for gpu in fitting if abs(gpu.clock_boost_hz / device.clock_hz - 1) <= _CLOCK_TOLERANCE]
    seen = f"{device.sm_count} SMs of compute capability {device.compute_capability}"
    if len(fitting) != 1:
        which = f"fits {', '.join(gpu.id for gpu in fitting)}" if fitting else "fits no GPU with data"
        raise InputError(f"it does not name its GPU, and what it tells ({seen}) {which}", cure=_CURE)
    gpu, capability = fitting[0], device.compute_capability
    return gpu, (Caveat.of(CaveatKind.GPU_FOUND_BY_SMS, gpu.name, sms=device.sm_count, capability=capability),)


def named_differently(device: Device, given: GPU) -> Caveat | None:
    """Return a caveat where a profile names or shows another GPU than the given one."""
    if device.name is not None and normalise(device.name) != normalise(given.name):
        try:
            known: GPU | None = _find(Device(device.name, None, None, None, None))[0]
        except InputError:
            known = None
        if known is None or known.id != given.id:
            return Caveat.of(CaveatKind.GPU_NAMED_OTHERWISE, given.name, named=ascii(device.name[:60]))
    capability = device.compute_capability
    if capability is not None and capability != given.compute_capability:
        own = given.compute_capability
        return Caveat.of(CaveatKind.CAPABILITY_DIFFERS, given.name, profiled=capability, own=own)
    return None


def _fits(gpu: GPU, device: Device) -> bool:
    is_alike = gpu.sm_count == device.sm_count and gpu.compute_capability == device.compute_capability
    return is_alike and (None in {device.bus_bits, gpu.dram_bus_bits} or device.bus_bits == gpu.dram_bus_bits)


def _whole(metrics: dict[str, NcuMetric], name: str) -> int | None:
    metric = metrics.get(name)
    return int(metric.value) if metric is not None and metric.value >= 0 else None


# Launches that Nsight Compute profiled become profiles of kernels, with the run that was measured.
#
# What a profile lacks stays None. Where a file holds a rate instead of a total, rate times duration is the total, and
# a caveat says so.


_WIDTHS = (16, 32, 64)
#: Profilers hold the clock at its base; a boost clock this near to it makes no difference worth a word.
_NEAR_BASE, _WORTH_SAYING = 0.05, 0.1
#: No block has more shared memory, and none is larger in any of its numbers.
_MOST_SHARED_BYTES = 1 << 20
_MOST_REGISTERS = 1024
_EXTENT_ENDS = 2**31
#: Half of the last digit that ncu prints of 4.10 Kbyte.
_SCALED_BYTES = 10
_TENSOR = (
    "sm__inst_executed_pipe_tensor", "smsp__inst_executed_pipe_tensor", "sm__inst_executed_pipe_tensor_op_hmma",
    "sm__inst_executed_pipe_tensor_op_imma", "sm__inst_executed_pipe_tensor_op_dmma",
)  # fmt: skip
_TENSOR_BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"


def profiles_of(
    rows: Sequence[NcuRow],
    source_gpu: GPU | None,
    where: str = "profile",
    selection: Selection | None = None,
) -> tuple[KernelProfile, ...]:
    """Return the profile of each launch that is selected; its index is its place among all rows.

    Raises InputError where the GPU is neither given nor known from the file, or a value cannot be true.
    """
    selection = selection or Selection()
    kernels = [row.kernel for row in rows]
    chosen = selection.chosen(kernels)
    selection.check(chosen, kernels, where)
    return tuple(_profile(rows[index], index, source_gpu, f"{where}, launch {index}") for index in chosen)


def _profile(row: NcuRow, index: int, source_gpu: GPU | None, where: str) -> KernelProfile:
    device = device_of(row)
    if source_gpu is None:
        gpu, caveats = find_gpu(device, where)
        notes = list(caveats)
    else:
        gpu, other = source_gpu, named_differently(device, source_gpu)
        notes = [other] if other else []
    counts = NcuCounts(row, where)
    grid, block = _geometry(row, counts, where)
    mixes = {bits: counts.float_mix(bits) for bits in _WIDTHS}
    run = _run(counts, gpu, row.lines)
    dram = dram_bytes(counts, gpu)
    memory = memory_counts(counts, dram)
    profile = KernelProfile(
        kernel=printable(row.kernel),
        index=index,
        grid=grid,
        block=block,
        shared_bytes=_bytes(counts, "launch__shared_mem_per_block_dynamic", where) or 0,
        resources=_resources(counts, gpu, where),
        origin=Origin.PROFILED,
        counts=memory.updated(_operations(counts, mixes)).updated(instruction_counts(counts)),
        mix=None,
        sampling=None,
        machine=_machine(counts, gpu),
        run=run,
    )
    notes += counts.notes
    notes += _remarks(counts, mixes, run, memory)
    return replace(profile, caveats=tuple(dict.fromkeys(notes)))


def _geometry(row: NcuRow, counts: NcuCounts, where: str) -> tuple[Extent, Extent]:
    """Return grid and block; versions before 2022 may print only how many blocks and threads there are."""
    found, sized = [], []
    for extent, name in ((row.grid, "grid"), (row.block, "block")):
        total = counts.value(f"launch__{name}_size")
        if extent is not None:
            found.append(extent)
        elif total is not None and 1 <= total < _EXTENT_ENDS and total == int(total):
            found.append((int(total), 1, 1))
            sized.append(name)
        else:
            raise InputError(
                f"it does not give the {name}",
                where=where,
                cure="Profile kernels one by one with a newer ncu, or with --section LaunchStats as well.",
            )
    if sized:
        counts.notes.append(Caveat.of(CaveatKind.SIZE_ONLY, " and the ".join(sized)))
    check_geometry(found[0], found[1], where)
    return found[0], found[1]


def _run(counts: NcuCounts, gpu: GPU, lines: tuple[SampledLine, ...]) -> SourceRun | None:
    seconds = counts.seconds()
    if not seconds:
        return None
    return SourceRun(
        gpu=gpu,
        seconds=seconds,
        timing=Timing.PROFILER,
        achieved_occupancy=counts.achieved_occupancy(
            gpu.architecture.max_warps_per_sm, gpu.architecture.schedulers_per_sm
        ),
        active_threads=counts.active_threads(),
        clock_hz=counts.clock_hz(gpu.sm_count * gpu.architecture.schedulers_per_sm),
        lines=lines,
    )


def _resources(counts: NcuCounts, gpu: GPU, where: str) -> Resources | None:
    """Return registers and shared memory; a profile does not tell the stack frame, spills and size of the code."""
    registers = counts.value("launch__registers_per_thread")
    if registers is None:
        return None
    if not 0 < registers <= _MOST_REGISTERS:
        raise InputError(f"{registers:g} registers per thread are wrong", where=where, cure="Take the profile again.")
    return Resources(
        architecture=gpu.architecture.code_name,
        registers_per_thread=int(registers),
        static_shared_bytes=_bytes(counts, "launch__shared_mem_per_block_static", where) or 0,
        local_bytes_per_thread=0,
        spill_store_bytes=0,
        spill_load_bytes=0,
        code_bytes=0,
        barriers=None,
        max_threads_per_block=None,
    )


def _bytes(counts: NcuCounts, name: str, where: str) -> int | None:
    """Return bytes of shared memory: of those that ncu rounds to 4.10 Kbyte, the roundest number in binary.

    >>> from kerncast.read.ncu.rows import NcuMetric, NcuRow
    >>> name = "launch__shared_mem_per_block_static"
    >>> rows = [NcuRow(0, "k", None, None, None, (NcuMetric(name, size, "byte/block"),)) for size in (4100.0, 4097.0)]
    >>> [_bytes(NcuCounts(row, ""), name, "") for row in rows]
    [4096, 4097]
    """
    value = counts.value(name)
    if value is None:
        return None
    if value > _MOST_SHARED_BYTES:
        raise InputError(f"{name} is {value:g} bytes", where=where, cure="No GPU has so much: take it again.")
    nearest = round(value)
    if value < KILO or nearest % _SCALED_BYTES:
        return nearest
    near = range(nearest - _SCALED_BYTES // 2, nearest + _SCALED_BYTES // 2 + 1)
    return max(near, key=lambda size: (size & -size, -abs(size - nearest)))


def _operations(counts: NcuCounts, mixes: dict[int, FloatMix | None]) -> Counts:
    """Return floating-point operations, in all and by kind, and those of integers and control flow."""
    found = {FLOPS[bits]: counts.flops(bits) if mix is None else mix.flops for bits, mix in mixes.items()}
    found |= {name: counts.first(counts.total(name.removesuffix(".sum"))) for name in set(TENSOR_OPS.values())}
    for mix in mixes.values():
        found |= {} if mix is None else mix.by_name

    def threads(kind: str) -> Count | None:
        name = f"sass_thread_inst_executed_op_{kind}_pred_on"
        return counts.first(counts.total(f"smsp__{name}", f"sm__{name}"))

    return Counts.of(Origin.PROFILED, found | {INTEGER_OPS: threads("integer"), CONTROL_OPS: threads("control")})


def _machine(counts: NcuCounts, gpu: GPU) -> MachineMix | None:
    """Return machine instructions without their opcodes; None where warps or threads are not counted."""
    warps, per_warp = counts.warp_instructions(), counts.active_threads()
    if warps is None or per_warp is None:
        return None
    threads = counts.thread_instructions()
    active = Count.exact(warps * per_warp if threads is None else threads)
    on = counts.threads_on()
    unknown = Caveat(CaveatKind.PREDICATES_NOT_COUNTED)
    return MachineMix(
        origin=Origin.PROFILED,
        architecture=gpu.architecture.code_name,
        opcodes=(),
        warp_instructions=Count.exact(warps),
        thread_instructions=active,
        threads_on=Count(active.value, 0.0, active.high) if on is None else Count.exact(on),
        doubts=(unknown,) if on is None else (),
    )


def _remarks(
    counts: NcuCounts, mixes: dict[int, FloatMix | None], run: SourceRun | None, memory: Counts
) -> list[Caveat]:
    """Return what a reader of the profile should know."""
    remarks = []
    if counts.is_from_rates:
        remarks.append(Caveat.of(CaveatKind.COUNTS_FROM_RATES))
    if run is None:
        remarks.append(Caveat.of(CaveatKind.TIME_MISSING))
    else:
        remarks += _clock_remark(run)
        remarks += _cache_remark(memory.get(DRAM_BYTES), run.gpu) if counts.empties_caches else []
    missing = [f"FP{bits}" for bits in (32, 64) if mixes[bits] is None]
    if missing:
        remarks.append(Caveat.of(CaveatKind.OPERATIONS_NOT_SPLIT, " and ".join(missing)))
    half = mixes[16]
    if half is not None and half.flops.high:
        remarks.append(Caveat.of(CaveatKind.HALVES_PERHAPS_ONCE))
    tensor = next((total for stem in _TENSOR if (total := counts.total(stem))), None)
    is_counted = any(counts.total(name.removesuffix(".sum")) for name in TENSOR_OPS.values())
    if (tensor or counts.value(_TENSOR_BUSY)) and not is_counted:
        remarks.append(Caveat.of(CaveatKind.TENSOR_CORES_NOT_COUNTED))
    if memory.total((LOCAL_BYTES_REQUESTED,)).value:
        remarks.append(Caveat.of(CaveatKind.LOCAL_MEMORY_USED))
    if atomic_requests(counts):
        remarks.append(Caveat.of(CaveatKind.ATOMICS_PER_WARP))
    return remarks


def _clock_remark(run: SourceRun) -> list[Caveat]:
    base, clock, name = run.gpu.clock_base_hz, run.clock_hz, run.gpu.name
    if base is None or clock is None or abs(clock / base - 1) > _NEAR_BASE:
        return []
    if run.gpu.clock_boost_hz / base - 1 < _WORTH_SAYING:
        return []
    return [Caveat.of(CaveatKind.CLOCK_HELD_AT_BASE, name, clock_hz=clock)]


def _cache_remark(dram: Count | None, gpu: GPU) -> list[Caveat]:
    if dram is None or not gpu.l2_bytes or not 0 < dram.value <= gpu.l2_bytes:
        return []
    return [Caveat.of(CaveatKind.CACHES_EMPTIED, gpu.name)]


DURATION = "gpu__time_duration.sum"
#: Where one of these is known, more of the profile than its time follows from the time.
_WITH_TIME = re.compile(r"cycles|per_second|throughput|sustained_elapsed")


def profiles_of_rows(
    rows: Sequence[NcuRow], source_gpu: GPU | None, where: str, selection: Selection | None = None
) -> tuple[KernelProfile, ...]:
    """Return the profile of each launch that is selected, as ``profiles_of`` does, reading equal counters once."""
    selection = selection or Selection()
    kernels = [row.kernel for row in rows]
    chosen = selection.chosen(kernels)
    selection.check(chosen, kernels, where)
    models: dict[Hashable, int] = {}
    read: list[NcuRow] = []
    for index in chosen:
        if models.setdefault(_alike(rows[index], index), len(read)) == len(read):
            read.append(rows[index])
    profiles = profiles_of(read, source_gpu, where)
    return tuple(
        _adapted(profiles[models[_alike(rows[index], index)]], rows[index], index, f"{where}, launch {index}")
        for index in chosen
    )


def _alike(row: NcuRow, index: int) -> Hashable:
    """Return what rows have in common whose profiles differ in name, sizes and time only."""
    rest = tuple(metric for metric in row.metrics if metric.name != DURATION)
    if row.grid is None or row.block is None or len(rest) == len(row.metrics) or not row.value(DURATION):
        return index
    if any(_WITH_TIME.search(metric.name) for metric in rest):
        return index
    return (row.device, row.compute_capability, rest, row.lines)


def _adapted(profile: KernelProfile, row: NcuRow, index: int, where: str) -> KernelProfile:
    grid, block = row.grid or profile.grid, row.block or profile.block
    check_geometry(grid, block, where)
    nanoseconds = row.value(DURATION)
    run = profile.run
    if run is not None and nanoseconds:
        run = replace(run, seconds=nanoseconds * NANOSECOND)
    return replace(profile, kernel=row.kernel, index=index, grid=grid, block=block, run=run)
