"""Machines as their drivers describe them."""

from dataclasses import replace

from kerncast.gpu import GPU
from kerncast.measurements import Machine

H100 = Machine(
    gpu_name="NVIDIA H100 80GB HBM3",
    gpu_uuid="GPU-0",
    compute_capability="9.0",
    sm_count=132,
    memory_bytes=85_029_158_912,
    l2_bytes=50 * 2**20,
    clock_max_hz=1.98e9,
    memory_clock_hz=2.619e9,
    memory_bus_bits=5120,
    power_limit_w=700.0,
    ecc_enabled=True,
    mig_enabled=False,
    driver="580.65.06, CUDA 13.0",
    compiler="NVRTC 12.9",
    host="Linux x86_64",
    software="kerncast",
)
RTX_5090 = replace(
    H100,
    gpu_name="NVIDIA GeForce RTX 5090",
    compute_capability="12.0",
    sm_count=170,
    memory_bytes=33_600_000_000,
    l2_bytes=96 * 2**20,
    clock_max_hz=3.09e9,
    memory_clock_hz=14.001e9,
    memory_bus_bits=512,
    power_limit_w=575.0,
)
GTX_1060 = replace(
    H100,
    gpu_name="NVIDIA GeForce GTX 1060 6GB",
    compute_capability="6.1",
    sm_count=10,
    memory_bytes=6 * 2**30,
    l2_bytes=1536 * 2**10,
    clock_max_hz=1.911e9,
    memory_clock_hz=4.004e9,
    memory_bus_bits=192,
    power_limit_w=120.0,
)


def without_tensor_rate(gpu: GPU) -> GPU:
    """Return a GPU of which nobody knows what its tensor cores reach with the instructions of a warp."""
    return replace(gpu, architecture=replace(gpu.architecture, tensor_fp16_lanes_per_sm=None))
