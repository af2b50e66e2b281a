"""The harness's device on a real GPU, by way of NVIDIA's driver; the extra ``gpu`` installs what it needs."""

from kerncast.bench.cuda.device import CudaDevice, open_device

__all__ = ["CudaDevice", "open_device"]
