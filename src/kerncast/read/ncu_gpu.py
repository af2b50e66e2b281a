"""Which of our GPUs a launch was profiled on: by its name, else by what the profile tells of its hardware."""

from dataclasses import dataclass
from functools import lru_cache

from kerncast.errors import GPUError, InputError
from kerncast.gpu import GPU, list_gpus, load_gpu
from kerncast.gpu_names import find_id, normalise
from kerncast.read.ncu_row import NcuMetric, NcuRow
from kerncast.units import KILO, PERCENT

_CURE = "Name the GPU that it was taken on with --source-gpu; a path to your own .toml file works too."
#: A vendor's card may be clocked above NVIDIA's own.
_CLOCK_TOLERANCE = 6 * PERCENT


@dataclass(frozen=True, slots=True)
class Device:
    """What a profile tells of its GPU; None where it does not."""

    name: str | None
    compute_capability: str | None
    sm_count: int | None
    bus_bits: int | None
    clock_hz: float | None
    """the highest"""


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


def find_gpu(device: Device, where: str) -> tuple[GPU, tuple[str, ...]]:
    """Return the GPU that a profile was taken on, and what had to be assumed; raises InputError with ``--source-gpu``.

    A name that is not known is refused: another GPU with as many SMs may have another memory.
    """
    try:
        return _find(device)
    except InputError as error:
        raise InputError(error.what, where=where, cure=error.cure) from None


@lru_cache(maxsize=256)
def _find(device: Device) -> tuple[GPU, tuple[str, ...]]:
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
    return fitting[0], (f"the profile does not name its GPU: {fitting[0].name} is the only known one with {seen}",)


def named_differently(device: Device, given: GPU) -> str | None:
    """Return a caveat where a profile names or shows another GPU than the given one."""
    if device.name is not None and normalise(device.name) != normalise(given.name):
        try:
            known: GPU | None = _find(Device(device.name, None, None, None, None))[0]
        except InputError:
            known = None
        if known is None or known.id != given.id:
            return f"the profile names {device.name[:60]!a} as its GPU; {given.name} was given and taken"
    capability = device.compute_capability
    if capability is not None and capability != given.compute_capability:
        return f"the profile says compute capability {capability}; {given.name} has {given.compute_capability}"
    return None


def _fits(gpu: GPU, device: Device) -> bool:
    is_alike = gpu.sm_count == device.sm_count and gpu.compute_capability == device.compute_capability
    return is_alike and (None in {device.bus_bits, gpu.dram_bus_bits} or device.bus_bits == gpu.dram_bus_bits)


def _whole(metrics: dict[str, NcuMetric], name: str) -> int | None:
    metric = metrics.get(name)
    return int(metric.value) if metric is not None and metric.value >= 0 else None
