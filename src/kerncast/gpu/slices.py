"""Parts of a GPU as GPUs of their own: some of its SMs, and slices of Multi-Instance GPU."""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kerncast.bounded_file import our_table
from kerncast.errors import GPUError
from kerncast.gpu.files import DATA
from kerncast.gpu.gpu import GPU

_FILE = DATA / "mig_slices.toml"
_NAMED = re.compile(r"(?P<gpu>.+?)[\s_-]+MIG[\s_-]+(?P<slice>\d{1,2}g\.\d{1,4}gb)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Slice:
    """What a slice of Multi-Instance GPU has."""

    name: str
    sm_count: int
    memory: float
    """share of DRAM, and of its bandwidth"""
    l2: float
    """share of L2"""


def name_of_slice(name: str) -> tuple[str, str] | None:
    """Return the name of the GPU and that of its slice; None where no slice is named.

    >>> name_of_slice("A100 SXM 80GB MIG 3g.40gb"), name_of_slice("TITAN V")
    (('A100 SXM 80GB', '3g.40gb'), None)
    """
    match = _NAMED.fullmatch(name.strip())
    return (match["gpu"], match["slice"].lower()) if match else None


def slice_of(gpu: GPU, name: str) -> GPU:
    """Return a slice of a GPU; raises GPUError where the GPU has none of this name.

    >>> from kerncast.gpu.gpu import load_gpu
    >>> found = slice_of(load_gpu("a100-sxm-80gb"), "3g.40gb")
    >>> found.sm_count, found.l2_bytes // 2**20
    (42, 20)
    """
    known = {each.name: each for each in slices_of(gpu)}
    if name not in known:
        listed = f"It has {', '.join(known)}." if known else "No slices of it are known."
        raise GPUError(f"it has no slice {name}", where=gpu.name, cure=listed)
    found = known[name]
    part = with_sms(gpu, found.sm_count)
    return replace(
        part,
        id=f"{gpu.id}-mig-{name}",
        name=f"{gpu.name} MIG {name}",
        memory_bytes=None if gpu.memory_bytes is None else int(gpu.memory_bytes * found.memory),
        dram_bus_bits=None if gpu.dram_bus_bits is None else max(1, int(gpu.dram_bus_bits * found.memory)),
        dram_bytes_per_s=gpu.dram_bytes_per_s * found.memory,
        sustained_dram_bytes_per_s=_share(gpu.sustained_dram_bytes_per_s, found.memory),
        l2_bytes=None if gpu.l2_bytes is None else int(gpu.l2_bytes * found.l2),
        l2_bytes_per_s=_share(gpu.l2_rate.bytes_per_s if gpu.l2_rate else None, found.l2),
        # Half of L2 and less lies in one partition.
        l2_partitions=1 if found.l2 <= 1 / 2 else gpu.l2_partitions,
    )


def with_sms(gpu: GPU, sms: int) -> GPU:
    """Return a GPU with some of its SMs, and all of L2 and DRAM."""
    share = sms / gpu.sm_count
    return replace(
        gpu,
        sm_count=sms,
        l1_bytes_per_s=_share(gpu.l1_bytes_per_s, share),
        sustained_fp32_flops_per_s=_share(gpu.sustained_fp32_flops_per_s, share),
        sustained_fp64_flops_per_s=_share(gpu.sustained_fp64_flops_per_s, share),
        sgemm_flops_per_s=_share(gpu.sgemm_flops_per_s, share),
    )


def slices_of(gpu: GPU) -> tuple[Slice, ...]:
    """Return the slices of a GPU, the smallest first; none where it has none, or nobody listed them."""
    for entry in _table():
        if gpu.id in entry["gpus"]:
            return tuple(Slice(name, int(sms), memory, l2) for name, (sms, memory, l2) in entry["profiles"].items())
    return ()


@cache
def _table() -> tuple[dict[str, Any], ...]:
    return tuple(our_table(_FILE)["slices"])


def _share(value: float | None, share: float) -> float | None:
    return None if value is None else value * share
