"""Facts and state of the GPU, its driver and the host: read only, nothing is ever set.

NVIDIA's management library (NVML) may be missing, or refuse: what it alone knows is then None.
"""

import platform
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from kerncast.bench.cuda.driver import Driver, cuda_version
from kerncast.compile.nvrtc import wheel
from kerncast.compile.targets import architecture_for
from kerncast.measurements import ClockState, Machine
from kerncast.units import KILO, MEGA
from kerncast.version import __version__

#: Bits of the mask of reasons (nvml.h, nvmlClocksEventReason*), by the names that cuda.core gives them.
#: Bit 0, an idle GPU, is none.
_REASONS = (
    (0x002, "applications_clocks_setting"),
    (0x004, "sw_power_cap"),
    (0x008, "hw_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "sw_thermal_slowdown"),
    (0x040, "hw_thermal_slowdown"),
    (0x080, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
    (0x200, "board_limit"),
    (0x400, "reliability"),
)
_IDLE = 0x001


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Name the reasons of a mask; bits that nobody has named yet keep their number.

    >>> throttle_reasons(0x5)
    ('sw_power_cap',)
    """
    known = sum(bit for bit, _ in _REASONS) | _IDLE
    rest = mask & ~known
    return tuple(name for bit, name in _REASONS if mask & bit) + ((f"unknown_{rest:#x}",) if rest else ())


class Telemetry:
    """NVML for one GPU; every answer is None where it has none."""

    def __init__(self, uuid: str, pci_bus_id: str) -> None:
        self._nvml = _load_nvml()
        self._handle: Any = None
        if self._nvml is None:
            return
        by_uuid, by_bus = self._nvml.nvmlDeviceGetHandleByUUID, self._nvml.nvmlDeviceGetHandleByPciBusId
        self._handle = self._ask(by_uuid, uuid) or self._ask(by_bus, pci_bus_id)

    def state(self) -> ClockState:
        """Return clocks, temperature, power and throttling at this moment."""
        mask = self.value("nvmlDeviceGetCurrentClocksEventReasons")
        if mask is None:
            mask = self.value("nvmlDeviceGetCurrentClocksThrottleReasons")
        return ClockState(
            sm_hz=_scaled(self.value("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"), MEGA),
            memory_hz=_scaled(self.value("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"), MEGA),
            temperature_c=_scaled(self.value("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"), 1.0),
            power_w=_scaled(self.value("nvmlDeviceGetPowerUsage"), 1 / KILO),
            throttle_reasons=throttle_reasons(int(mask or 0)),
        )

    def value(self, function: str, *constants: str) -> Any:
        """Ask NVML for one value of the GPU; constants are given by name."""
        if self._handle is None:
            return None
        ask = getattr(self._nvml, function, None)
        arguments = [getattr(self._nvml, name, None) for name in constants]
        return None if ask is None or None in arguments else self._ask(ask, self._handle, *arguments)

    def driver_version(self) -> str | None:
        """Return the version of the driver, such as 580.65.06."""
        version = self._ask(self._nvml.nvmlSystemGetDriverVersion) if self._nvml is not None else None
        return version.decode() if isinstance(version, bytes) else version

    def close(self) -> None:
        """Give NVML back."""
        if self._nvml is not None:
            self._ask(self._nvml.nvmlShutdown)
        self._nvml = self._handle = None

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None


def _load_nvml() -> Any:
    """Return NVML, or None where it is not installed or does not start."""
    try:
        nvml: Any = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


def _scaled(value: Any, factor: float) -> float | None:
    return None if value is None else float(value) * factor


def machine_facts(device: Any, driver: Driver, telemetry: Telemetry) -> Machine:
    """Collect what a cuda.core Device, the driver and NVML know of the machine."""
    properties = device.properties
    capability = f"{device.compute_capability[0]}.{device.compute_capability[1]}"
    clocks = (
        _scaled(properties.clock_rate, KILO),
        _scaled(telemetry.value("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"), MEGA),
    )
    memory_clock = _scaled(properties.memory_clock_rate, KILO)
    mig = telemetry.value("nvmlDeviceGetMigMode")
    uuid = gpu_uuid(str(device.uuid))
    return Machine(
        gpu_name=str(device.name),
        gpu_uuid=uuid,
        compute_capability=capability,
        sm_count=int(properties.multiprocessor_count),
        memory_bytes=int(driver.call("cuDeviceTotalMem", int(device.device_id))),
        l2_bytes=int(properties.l2_cache_size),
        clock_max_hz=max(each for each in clocks if each is not None),
        memory_clock_hz=memory_clock or _scaled(telemetry.value("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"), MEGA),
        memory_bus_bits=int(properties.global_memory_bus_width) or None,
        power_limit_w=_scaled(telemetry.value("nvmlDeviceGetEnforcedPowerLimit"), 1 / KILO),
        ecc_enabled=bool(properties.ecc_enabled),
        mig_enabled=True if uuid.startswith("MIG-") else None if mig is None else bool(mig[0]),
        driver=_driver(driver, telemetry),
        compiler=_compiler(capability),
        host=f"{platform.system()} {platform.machine()}, {_processor()}",
        software=_software(),
    )


def gpu_uuid(uuid: str) -> str:
    """Return a UUID as nvidia-smi writes it; cuda.core leaves the prefix out.

    >>> gpu_uuid("5c2e0b7e-1f7a-4d0c-8d0e-0123456789ab")
    'GPU-5c2e0b7e-1f7a-4d0c-8d0e-0123456789ab'
    """
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _driver(driver: Driver, telemetry: Telemetry) -> str:
    cuda = f"CUDA {cuda_version(int(driver.call('cuDriverGetVersion')))}"
    version = telemetry.driver_version()
    return f"{version}, {cuda}" if version else cuda


def _compiler(capability: str) -> str:
    toolkit = architecture_for(capability).toolkit
    version = _version(wheel(toolkit))
    return "NVRTC " + (".".join(version.split(".")[:2]) if version else str(toolkit))


def _version(package: str) -> str | None:
    """Return the version of an installed package; None where its files were copied without their record."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text(encoding="utf-8", errors="replace").splitlines() if cpu.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown CPU"


def _software() -> str:
    libraries = (f"{name} {_version(name) or 'unknown'}" for name in ("cuda-core", "cuda-bindings"))
    return ", ".join((f"kerncast {__version__}", *libraries, f"Python {platform.python_version()}"))
