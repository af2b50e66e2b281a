"""The prediction template of the gpuSD report: the larger of compute and memory time, plus the launch."""

from typing import ClassVar

from kerncast.gpu import GPU, launch_overhead_s
from kerncast.models.base import Case, Estimate, Model, needed
from kerncast.prediction import Term, Timing
from kerncast.profiles import Count, KernelProfile
from kerncast.profiles.counts import FP16_FLOPS, FP32_FLOPS, FP64_FLOPS, dram_bytes_of_launch


class Template(Model):
    """t_total = max(F / peak, B / bandwidth) + 5 µs, with data-sheet peaks.

    F are floating-point operations, B bytes of DRAM traffic. Where a kernel mixes precisions, the compute time is
    the sum over them. The launch is 5 µs whatever is timed.

    Source: "CUDA gpuSD Kernel Execution Time Prediction Report", section 5.
    Fails when: anything else decides, such as latency, occupancy, caches, integer or special-function work. On
    several hundred measured times it was off by 66 % on average (timing study of this project).

    >>> from kerncast.gpu.gpu import load_gpu
    >>> from kerncast.read.declared import declared_profile
    >>> kernel = declared_profile("gpuSD", (5, 5, 1), (32, 32, 1), fp32_flops=2.09e4, dram_bytes=2.05e4)
    >>> case = Case(kernel, load_gpu("TITAN V"))
    >>> print(f"{Template().estimate(case, Timing.SERIES).seconds * 1e6:.3f}")
    5.031
    """

    name: ClassVar[str] = "template"
    log_sigma: ClassVar[float] = 1.0

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the larger of compute and memory time, plus the launch overhead of the report."""
        del timing
        profile, gpu = case.profile, case.gpu
        launch = launch_overhead_s("template")
        traffic = needed(dram_bytes_of_launch(profile.counts), "DRAM traffic", profile).times(1 / gpu.dram_bytes_per_s)
        compute = self._compute(profile, gpu)
        body = max(compute.value, traffic.value)
        limiter = "compute" if compute.value > traffic.value else "dram"
        return Estimate(
            seconds=body + launch,
            limiter="launch" if launch > body else limiter,
            terms=(Term("compute", compute.value), Term("dram", traffic.value), Term("launch", launch)),
            low=max(compute.low, traffic.low) + launch,
            high=max(compute.high, traffic.high) + launch,
        )

    def _compute(self, profile: KernelProfile, gpu: GPU) -> Count:
        seconds = needed(profile.counts.get(FP32_FLOPS), "FP32 work", profile).times(1 / gpu.peak_fp32_flops_per_s)
        for flops, rate in (
            (profile.counts.get(FP64_FLOPS), gpu.peak_fp64_flops_per_s),
            (profile.counts.get(FP16_FLOPS), gpu.peak_fp16_flops_per_s or gpu.peak_fp32_flops_per_s),
        ):
            if flops is not None:
                seconds += flops.times(1 / rate)
        return seconds
