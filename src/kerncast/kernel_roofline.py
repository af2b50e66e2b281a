"""NOUN KernelRoofline: one kernel on the roofs of one GPU, lowered to ceilings that are the kernel's own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LevelCeiling:
    """One level of memory: what the machine reaches there, and what this kernel can."""

    level: str
    """l1, l2 or dram"""
    crossing_bytes: float
    intensity: float
    """operations per byte that crosses the level"""
    max_bytes_per_s: float
    """of the machine"""
    ceiling_bytes_per_s: float
    """of the kernel: the harmonic mean over the levels that its bytes come from"""
    is_measured: bool
    """whether somebody measured the machine's bandwidth"""
    peak_bytes_per_s: float | None = None
    """of the data sheet; None where it gives none"""


@dataclass(frozen=True, slots=True)
class KernelRoofline:
    """The roofs of a machine, the ceilings of a kernel, and where the kernel lies under them."""

    kernel: str
    gpu: str
    flops: float
    max_flops_per_s: float
    """of the machine, fused multiply-adds of the kernel's precision"""
    mix_flops_per_s: float
    """with the kernel's mix of fused and other operations"""
    ceiling_flops_per_s: float
    """with its active threads too"""
    levels: tuple[LevelCeiling, ...]
    """the nearest to the SMs first"""
    low_flops_per_s: float
    """what the kernel reaches: measured, or the slower end of what is projected"""
    high_flops_per_s: float
    is_projected: bool
    is_compute_measured: bool
    """whether somebody measured the machine's maximum, of each precision that the kernel uses"""
    peak_flops_per_s: float | None = None
    """of the data sheet, of the kernel's precision"""
    precision: str = ""
    """of the operations, such as FP32 or FP32+FP64; empty without any"""

    def roof(self, level: LevelCeiling) -> float:
        """Return what the kernel can reach by one level: min(bandwidth ceiling x intensity, compute ceiling)."""
        return min(level.ceiling_bytes_per_s * level.intensity, self.ceiling_flops_per_s)
