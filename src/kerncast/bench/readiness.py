"""Whether this machine can measure, for ``kerncast doctor``."""

import importlib.metadata
from contextlib import suppress

from kerncast.bench.counters import find_ncu
from kerncast.bench.cuda.driver import cuda_version, load_driver
from kerncast.compile import ToolStatus
from kerncast.errors import KerncastError


def measuring_report() -> tuple[ToolStatus, ...]:
    """Say whether there is a GPU that can be used, and Nsight Compute; forecasts need neither."""
    return _gpu(), _ncu()


def _gpu() -> ToolStatus:
    name, needed_for = "NVIDIA GPU", "kerncast measure (extra gpu)"
    try:
        driver = load_driver()
        count = int(driver.call("cuDeviceGetCount"))
        supported = cuda_version(int(driver.call("cuDriverGetVersion")))
    except KerncastError as error:
        return ToolStatus(name, None, found=False, needed_for=needed_for, cure=error.cure, is_optional=True)
    versions = [f"{count} with a driver for CUDA {supported}"]
    with suppress(importlib.metadata.PackageNotFoundError):
        versions.append(f"cuda-bindings {importlib.metadata.version('cuda-bindings')}")
    cure = None if count else "No GPU is visible: look at CUDA_VISIBLE_DEVICES and nvidia-smi."
    return ToolStatus(name, ", ".join(versions), bool(count), needed_for, cure, is_optional=True)


def _ncu() -> ToolStatus:
    name, needed_for = "Nsight Compute", "kerncast measure --ncu"
    try:
        path = find_ncu()
    except KerncastError as error:
        return ToolStatus(name, None, found=False, needed_for=needed_for, cure=error.cure, is_optional=True)
    return ToolStatus(name, path, found=True, needed_for=needed_for, cure=None, is_optional=True)
