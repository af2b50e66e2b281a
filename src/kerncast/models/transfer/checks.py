"""What a forecast from a measured run assumes, checked: each assumption that does not hold is said with its numbers.

Source: the cross-GPU report, section 5.5 (when its Algorithm 1 breaks). What cannot be checked is said to be so.
"""

import math
from dataclasses import dataclass

from kerncast.gpu import GPU, launch_overhead_s
from kerncast.models.base import Case
from kerncast.occupancy import block_request_of, occupancy
from kerncast.profiles import Counts, KernelProfile, SourceRun
from kerncast.profiles.counts import (
    FLOPS,
    GLOBAL_BYTES_TOUCHED,
    GLOBAL_LOAD_REQUESTS,
    GLOBAL_LOAD_SECTORS,
    GLOBAL_SECTORS_WRITTEN,
    GLOBAL_WRITES,
    SPECIAL_OPS,
)
from kerncast.units import format_bytes, format_seconds

#: Above these shares an assumption is taken not to hold; round figures, not fitted.
_SPECIAL_SHARE = 0.01
_COALESCING_SHARE = 0.1
_IMBALANCE = 1.2
_LAST_WAVE_SHARE = 0.2
_LAUNCH_SHARE = 0.2
_OVERLAP_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Roofs:
    """The single-level roofline of one kernel on two GPUs: source first, target second."""

    flops: float
    nbytes: float
    """to and from DRAM"""
    flops_per_s: tuple[float, float]
    """C"""
    bytes_per_s: tuple[float, float]
    """BW"""

    @property
    def unit(self) -> str:
        """Of the roofs: without floating-point operations they are bandwidths."""
        return "FLOP/s" if self.flops else "B/s"

    @property
    def work(self) -> float:
        """What the roof is per second of: FLOPs, else bytes."""
        return self.flops or self.nbytes

    @property
    def source(self) -> float:
        """Roof_src."""
        return self._roof(0)

    @property
    def target(self) -> float:
        """Roof_tgt."""
        return self._roof(1)

    @property
    def compute_s(self) -> tuple[float, float]:
        """Least seconds of the arithmetic."""
        return self.flops / self.flops_per_s[0], self.flops / self.flops_per_s[1]

    @property
    def dram_s(self) -> tuple[float, float]:
        """Least seconds of the DRAM traffic."""
        return self.nbytes / self.bytes_per_s[0], self.nbytes / self.bytes_per_s[1]

    def _roof(self, place: int) -> float:
        """Return min(C, AI x BW) (equation 9), or BW without floating-point operations."""
        if not self.flops:
            return self.bytes_per_s[place]
        if not self.nbytes:
            return self.flops_per_s[place]
        return min(self.flops_per_s[place], self.flops / self.nbytes * self.bytes_per_s[place])


@dataclass(frozen=True, slots=True)
class Check:
    """What came of one assumption."""

    name: str
    caveat: str = ""
    """empty where it holds, or could not be checked"""
    is_checked: bool = True


@dataclass(frozen=True, slots=True)
class _Pair:
    """The kernel on both GPUs."""

    source: KernelProfile
    run: SourceRun
    target: KernelProfile
    gpu: GPU
    is_executed: bool

    @property
    def gpus(self) -> tuple[GPU, GPU]:
        return self.run.gpu, self.gpu


def transfer_caveats(case: Case, roofs: Roofs | None = None) -> tuple[str, ...]:
    """Return a caveat for each assumption that does not hold, and one that names those nobody could check.

    Without the roofs of a single level, nothing is said of how close they lie.
    """
    checks = transfer_checks(case, roofs)
    broken = [check.caveat for check in checks if check.caveat]
    unknown = [check.name for check in checks if not check.is_checked]
    if unknown:
        broken.append(f"not checked, as the evidence does not tell: {', '.join(unknown)}")
    return tuple(broken)


def transfer_checks(case: Case, roofs: Roofs | None = None) -> tuple[Check, ...]:
    """Check every assumption of section 5.5; a case without a measured run has none."""
    if case.source is None or case.source.run is None:
        return ()
    pair = _Pair(case.source, case.source.run, case.profile, case.gpu, case.source.sampling is not None)
    checks = (
        _cache_fit(pair), _special_units(pair), _coalescing(pair), _l1_use(pair), _imbalance(pair),
        _dynamic_parallelism(pair), _tail(pair), _launch(pair), _generation(pair),
    )  # fmt: skip
    return checks if roofs is None else (*checks, _overlap(pair, roofs))


def _cache_fit(pair: _Pair) -> Check:
    name = "whether the working set fits L2 of both GPUs"
    touched = pair.source.counts.get(GLOBAL_BYTES_TOUCHED)
    sizes = [gpu.l2_bytes for gpu in pair.gpus]
    if touched is None or sizes[0] is None or sizes[1] is None:
        return Check(name, is_checked=False)
    fits = [touched.value <= size for size in sizes if size is not None]
    if fits[0] == fits[1]:
        return Check(name)
    inside, outside = sorted(zip(pair.gpus, sizes, strict=True), key=lambda each: -(each[1] or 0))
    return Check(
        name,
        f"the working set of {format_bytes(touched.value)} fits L2 of {inside[0].name} ({format_bytes(inside[1] or 0)})"
        f" but not that of {outside[0].name} ({format_bytes(outside[1] or 0)}): its efficiency does not carry over",
    )


def _special_units(pair: _Pair) -> Check:
    name = "tensor cores and special-function units"
    source = pair.source
    if source.machine is not None and source.machine.opcodes:
        tensor = sum(o.warp_instructions.value for o in source.machine.opcodes if o.pipe == "tensor")
    elif source.mix is not None:
        tensor = sum(k.warp_instructions.value for k in source.mix.kinds if k.kind.startswith(("mma", "wmma", "wgmma")))
    else:
        tensor = None
    special = source.counts.get(SPECIAL_OPS)
    if tensor is None and special is None:
        return Check(name, is_checked=False)
    if tensor:
        return Check(name, f"{tensor:.3g} warp instructions use tensor cores, whose rates differ between generations")
    flops = source.counts.total(FLOPS.values()).value
    if special is not None and special.value > _SPECIAL_SHARE * (flops + special.value):
        share = special.value / (flops + special.value)
        return Check(
            name, f"{share:.0%} of the arithmetic are special functions, whose own unit the roofline leaves out"
        )
    return Check(name, is_checked=tensor is not None and special is not None)


def _coalescing(pair: _Pair) -> Check:
    name = "whether accesses coalesce alike on both GPUs"
    if not pair.is_executed and pair.source.counts is pair.target.counts:  # a profile, with whichever time
        return Check(name, is_checked=False)
    source, target = _sectors_per_request(pair.source.counts), _sectors_per_request(pair.target.counts)
    if source is None or target is None:
        return Check(name, is_checked=False)
    if abs(target - source) <= _COALESCING_SHARE * source:
        return Check(name)
    return Check(
        name,
        f"a request to global memory takes {source:.3g} sectors on {pair.run.gpu.name} and {target:.3g} on"
        f" {pair.gpu.name}",
    )


def _sectors_per_request(counts: Counts) -> float | None:
    names = ((GLOBAL_LOAD_SECTORS,), GLOBAL_SECTORS_WRITTEN, (GLOBAL_LOAD_REQUESTS,), GLOBAL_WRITES)
    values = [count.value for count in map(counts.first, names) if count is not None]
    if len(values) < len(names):
        return None
    requests = values[2] + values[3]
    return (values[0] + values[1]) / requests if requests else 0.0


def _l1_use(pair: _Pair) -> Check:
    cached = [gpu.architecture.caches_global_loads_in_l1 for gpu in pair.gpus]
    if cached[0] == cached[1]:
        return Check("L1")
    yes, no = pair.gpus if cached[0] else reversed(pair.gpus)
    return Check("L1", f"L1 of {yes.name} caches global loads, that of {no.name} does not")


def _imbalance(pair: _Pair) -> Check:
    name = "load imbalance"
    balance = pair.source.balance or pair.target.balance
    if balance is None:
        return Check(name, is_checked=False)
    block, warp = balance.longest_over_mean_block, balance.longest_over_mean_warp
    if max(block, warp) <= _IMBALANCE:
        return Check(name)
    return Check(
        name,
        f"load imbalance: the busiest block does {block:.3g} times the mean, the busiest warp of a block {warp:.3g}"
        " times: the models take work as even",
    )


def _dynamic_parallelism(pair: _Pair) -> Check:
    """Kernels that launch kernels are refused by the executor: whoever was executed has none."""
    return Check("dynamic parallelism", is_checked=pair.is_executed)


def _tail(pair: _Pair) -> Check:
    name = "tail effects"
    requests = block_request_of(pair.source), block_request_of(pair.target)
    blocks = math.prod(pair.source.grid)
    said = []
    for request, gpu in zip(requests, pair.gpus, strict=True):
        if request is None:
            return Check(name, is_checked=False)
        resident = occupancy(request, gpu.architecture).blocks_per_sm
        if not resident:
            return Check(name, is_checked=False)
        waves = blocks / (resident * gpu.sm_count)
        if blocks < gpu.sm_count:
            leave = "1 block leaves" if blocks == 1 else f"{blocks} blocks leave"
            said.append(f"{leave} {gpu.sm_count - blocks} of {gpu.sm_count} SMs of {gpu.name} idle")
        elif math.ceil(waves) / waves - 1 > _LAST_WAVE_SHARE:
            said.append(f"{waves:.3g} waves of blocks on {gpu.name}, which take as long as {math.ceil(waves)}")
    return Check(name, f"tail effects: {'; '.join(said)}" if said else "")


def _launch(pair: _Pair) -> Check:
    overhead = launch_overhead_s(pair.run.timing)
    if overhead <= _LAUNCH_SHARE * pair.run.seconds:
        return Check("launch overhead")
    return Check(
        "launch overhead",
        f"launch-bound: of the measured {format_seconds(pair.run.seconds)} the launch takes about"
        f" {format_seconds(overhead)}, which does not change with the roofs",
    )


def _overlap(pair: _Pair, roofs: Roofs) -> Check:
    name = "overlap of arithmetic and memory"
    close = []
    bound = []
    for place, gpu in enumerate(pair.gpus):
        compute, dram = roofs.compute_s[place], roofs.dram_s[place]
        bound.append("arithmetic" if compute > dram else "DRAM")
        if min(compute, dram) > (1 - _OVERLAP_SHARE) * max(compute, dram):
            close.append(f"{gpu.name} ({format_seconds(compute)} and {format_seconds(dram)})")
    if close:
        return Check(name, f"the roofs of arithmetic and DRAM are within {_OVERLAP_SHARE:.0%} on {', '.join(close)}")
    if bound[0] != bound[1]:
        return Check(name, f"the roof is {bound[0]} on {pair.run.gpu.name} but {bound[1]} on {pair.gpu.name}")
    return Check(name)


def _generation(pair: _Pair) -> Check:
    capabilities = [gpu.compute_capability for gpu in pair.gpus]
    if capabilities[0].split(".")[0] == capabilities[1].split(".")[0]:
        return Check("generation")
    return Check(
        "generation",
        f"the efficiency is carried over from compute capability {capabilities[0]} to {capabilities[1]}, another"
        " generation",
    )
