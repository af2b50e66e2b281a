"""The CUDA driver API with errors of ours: every status other than success is raised."""

import os
from importlib import import_module
from typing import Any

from kerncast.errors import BudgetExceededError, DeviceLostError, InputError, KerncastError, UnsupportedError

#: Status codes that are no error where they are asked for (CUDA driver API, CUresult).
SUCCESS, NOT_READY = 0, 600

#: First driver API with libraries of kernels that belong to no context (cuLibraryLoadData).
_OLDEST_DRIVER = 12000

INSTALL = "Install the extra: pip install 'kerncast[gpu]' (--dry-run works without)."

#: Errors after which the context answers nothing else (CUDA driver API, CUresult: "the process must be terminated").
_FAULTS = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ASSERT",
        "CONTAINED",
        "ECC_UNCORRECTABLE",
        "EXTERNAL_DEVICE",
        "HARDWARE_STACK_ERROR",
        "ILLEGAL_ADDRESS",
        "ILLEGAL_INSTRUCTION",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT",
        "MISALIGNED_ADDRESS",
        "TENSOR_MEMORY_LEAK",
        "UNKNOWN",
    )
)

#: Errors that the machine's owner can mend.
_CURES = {
    "CUDA_ERROR_NO_DEVICE": "Run it where there is an NVIDIA GPU (CUDA_VISIBLE_DEVICES may hide one). "
    "kerncast measure has --dry-run.",
    "CUDA_ERROR_INVALID_DEVICE": "nvidia-smi -L lists the GPUs, from 0.",
    "CUDA_ERROR_STUB_LIBRARY": "Install NVIDIA's driver: the libcuda found is the toolkit's stub.",
    "CUDA_ERROR_DEVICES_UNAVAILABLE": "End the other process that uses the GPU: it is in exclusive mode.",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "Restart the machine: its driver was updated while it ran.",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "Remove the CUDA compatibility package: this GPU does not allow it.",
    "CUDA_ERROR_SYSTEM_NOT_READY": "Start the services of the GPUs' switches (nvidia-fabricmanager).",
    "CUDA_ERROR_OPERATING_SYSTEM": "Look whether this user may open /dev/nvidia*, and whether the driver is loaded.",
    "CUDA_ERROR_NOT_PERMITTED": "Look whether this user may open /dev/nvidia*.",
}


class Driver:
    """The functions of ``cuda.bindings.driver``, and whether the GPU still answers."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.lost: str | None = None
        """reason why the GPU is lost to this process; None while it answers"""

    def call(self, name: str, *arguments: Any) -> Any:
        """Call one function and return what it gives beyond its status: nothing, a value, or several."""
        if self.lost:
            raise self.gone()
        try:
            status, *results = getattr(self.api, name)(*arguments)
        except (AttributeError, RuntimeError) as error:
            # The bindings raise it where the driver, or a version of theirs, has no such function.
            raise UnsupportedError(f"the CUDA driver offers no {name} ({error})", cure="Update the driver.") from None
        if int(status) != SUCCESS:
            raise self.error(status, name)
        return results[0] if len(results) == 1 else tuple(results)

    def error(self, status: Any, function: str) -> KerncastError:
        """Return the error that a status means, and remember one that ends the context."""
        name, text = self.describe(status)
        what = f"{text} ({function})"
        if name in _FAULTS:
            self.lost = self.lost or what
            return DeviceLostError(f"a kernel failed on the GPU with {what}", cure=_NEW_PROCESS)
        if name == "CUDA_ERROR_OUT_OF_MEMORY":
            return BudgetExceededError(f"the GPU has no memory left ({function})", cure="Use smaller buffers.")
        if name in _CURES:
            return InputError(f"the GPU cannot be used: {what}", cure=_CURES[name])
        return UnsupportedError(f"the GPU refuses with {what}")

    def describe(self, status: Any) -> tuple[str, str]:
        """Return the name of a status, and the name with what it means."""
        name = self._text("cuGetErrorName", status)
        return name, f"{name}: {self._text('cuGetErrorString', status)}"

    def gone(self) -> DeviceLostError:
        """Return the error of everything that is asked for after the GPU was lost."""
        return DeviceLostError(f"the GPU is lost to this process after: {self.lost}", cure=_NEW_PROCESS)

    def _text(self, function: str, status: Any) -> str:
        failed, text = getattr(self.api, function)(status)
        return f"error {int(status)}" if int(failed) != SUCCESS or not text else text.decode(errors="replace")


_NEW_PROCESS = "Start a new process for what is left."


def load_driver() -> Driver:
    """Load the driver and look whether the bindings fit it; raises InputError."""
    # Functions are loaded beforehand: a first launch that loads one waits for the GPU, and so would be timed.
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    try:
        api, bindings = import_module("cuda.bindings.driver"), import_module("cuda.bindings")
    except ImportError:
        raise InputError("cuda-bindings, which uses the GPU, is not installed", cure=INSTALL) from None
    try:
        _, version = api.cuDriverGetVersion()
    except RuntimeError:  # cuda.bindings says where it looked, which helps nobody
        raise InputError("no CUDA driver is found", cure=_CURES["CUDA_ERROR_NO_DEVICE"]) from None
    check_versions(int(version), str(bindings.__version__))
    driver = Driver(api)
    (status,) = api.cuInit(0)
    if int(status) != SUCCESS:
        name, what = driver.describe(status)
        raise InputError(f"the CUDA driver does not start: {what}", cure=_CURES.get(name, "Look at nvidia-smi."))
    return driver


def check_versions(driver: int, bindings: str) -> None:
    """Raise InputError where a driver (13000 for CUDA 13.0) is too old for kerncast or for the bindings."""
    if driver < _OLDEST_DRIVER:
        raise InputError(
            f"the driver supports CUDA {cuda_version(driver)}, but kerncast needs 12.0",
            cure="Update the driver to 525 or newer.",
        )
    major = int(bindings.partition(".")[0])
    if driver // 1000 < major:
        raise InputError(
            f"the driver supports CUDA {cuda_version(driver)}, but cuda-bindings {bindings} needs {major}.0",
            cure=f"Run: pip install 'cuda-bindings<{major}', or update the driver.",
        )


def cuda_version(number: int) -> str:
    """Return a version as people write it.

    >>> cuda_version(12080)
    '12.8'
    """
    return f"{number // 1000}.{number % 1000 // 10}"
