"""The assumptions of a forecast from a measured run, checked: each that does not hold is said with its numbers.

Source: the cross-GPU report, section 5.5 (when its Algorithm 1 breaks). What cannot be checked is said to be so.
"""

import math
from collections.abc import Container
from dataclasses import dataclass

from kerncast.caveats import Caveat, CaveatKind
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
    """bytes to and from DRAM"""
    flops_per_s: tuple[float, float]
    """C, the compute roof of source and target"""
    bytes_per_s: tuple[float, float]
    """BW, the DRAM bandwidth of source and target"""

    @property
    def unit(self) -> str:
        """Unit of the roofs: FLOP/s, or B/s without floating-point operations."""
        return "FLOP/s" if self.flops else "B/s"

    @property
    def work(self) -> float:
        """Work that the roof counts: FLOPs, else bytes."""
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
    """The result of checking one assumption."""

    name: str
    caveats: tuple[Caveat, ...] = ()
    """caveats of an assumption that fails; empty where it holds, or could not be checked"""
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


def transfer_caveats(
    case: Case, roofs: Roofs | None = None, modelled: Container[CaveatKind] = ()
) -> tuple[Caveat, ...]:
    """Return a caveat for each assumption that does not hold, and one that names those nobody could check.

    Without the roofs of a single level, nothing is said of how close they lie; nothing of what the model reckons with.
    """
    checks = transfer_checks(case, roofs)
    broken = [caveat for check in checks for caveat in check.caveats if caveat.kind not in modelled]
    unknown = [check.name for check in checks if not check.is_checked]
    if unknown:
        broken.append(Caveat.of(CaveatKind.NOT_CHECKED, ", ".join(unknown)))
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
    caveat = Caveat.of(
        CaveatKind.WORKING_SET_FITS_ONE,
        inside[0].name,
        other=outside[0].name,
        working_set=touched.value,
        inside=inside[1] or 0,
        outside=outside[1] or 0,
    )
    return Check(name, (caveat,))


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
        return Check(name, (Caveat.of(CaveatKind.TENSOR_CORES_USED, warp_instructions=tensor),))
    flops = source.counts.total(FLOPS.values()).value
    if special is not None and special.value > _SPECIAL_SHARE * (flops + special.value):
        share = special.value / (flops + special.value)
        return Check(name, (Caveat.of(CaveatKind.SPECIAL_FUNCTIONS_COUNT, share=share),))
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
    caveat = Caveat.of(
        CaveatKind.COALESCING_DIFFERS,
        source=pair.run.gpu.name,
        source_sectors=source,
        target=pair.gpu.name,
        target_sectors=target,
    )
    return Check(name, (caveat,))


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
    return Check("L1", (Caveat.of(CaveatKind.L1_USE_DIFFERS, yes.name, other=no.name),))


def _imbalance(pair: _Pair) -> Check:
    name = "load imbalance"
    balance = pair.source.balance or pair.target.balance
    if balance is None:
        return Check(name, is_checked=False)
    block, warp = balance.longest_over_mean_block, balance.longest_over_mean_warp
    if max(block, warp) <= _IMBALANCE:
        return Check(name)
    return Check(name, (Caveat.of(CaveatKind.LOAD_IMBALANCE, block=block, warp=warp),))


def _dynamic_parallelism(pair: _Pair) -> Check:
    """Kernels that launch kernels are refused by the executor: whoever was executed has none."""
    return Check("dynamic parallelism", is_checked=pair.is_executed)


def _tail(pair: _Pair) -> Check:
    name = "tail effects"
    requests = block_request_of(pair.source), block_request_of(pair.target)
    blocks = math.prod(pair.source.grid)
    found = []
    for request, gpu in zip(requests, pair.gpus, strict=True):
        if request is None:
            return Check(name, is_checked=False)
        resident = occupancy(request, gpu.architecture).blocks_per_sm
        if not resident:
            return Check(name, is_checked=False)
        waves = blocks / (resident * gpu.sm_count)
        if blocks < gpu.sm_count:
            idle = gpu.sm_count - blocks
            found.append(Caveat.of(CaveatKind.SMS_IDLE, gpu.name, blocks=blocks, idle=idle, sms=gpu.sm_count))
        elif math.ceil(waves) / waves - 1 > _LAST_WAVE_SHARE:
            whole = math.ceil(waves)
            found.append(Caveat.of(CaveatKind.LAST_WAVE_PARTLY_EMPTY, gpu.name, waves=waves, whole=whole))
    return Check(name, tuple(dict.fromkeys(found)))


def _launch(pair: _Pair) -> Check:
    overhead = launch_overhead_s(pair.run.timing)
    if overhead <= _LAUNCH_SHARE * pair.run.seconds:
        return Check("launch overhead")
    caveat = Caveat.of(CaveatKind.LAUNCH_BOUND, measured=pair.run.seconds, overhead=overhead)
    return Check("launch overhead", (caveat,))


def _overlap(pair: _Pair, roofs: Roofs) -> Check:
    name = "overlap of arithmetic and memory"
    close = []
    bound = []
    for place, gpu in enumerate(pair.gpus):
        compute, dram = roofs.compute_s[place], roofs.dram_s[place]
        bound.append("arithmetic" if compute > dram else "DRAM")
        if min(compute, dram) > (1 - _OVERLAP_SHARE) * max(compute, dram):
            margin = _OVERLAP_SHARE
            close.append(Caveat.of(CaveatKind.ROOFS_CLOSE, gpu.name, compute=compute, dram=dram, margin=margin))
    if close or bound[0] == bound[1]:
        return Check(name, tuple(dict.fromkeys(close)))
    source, target = pair.run.gpu.name, pair.gpu.name
    caveat = Caveat.of(
        CaveatKind.ROOF_CHANGES, source=source, source_roof=bound[0], target=target, target_roof=bound[1]
    )
    return Check(name, (caveat,))


def _generation(pair: _Pair) -> Check:
    capabilities = [gpu.compute_capability for gpu in pair.gpus]
    if capabilities[0].split(".")[0] == capabilities[1].split(".")[0]:
        return Check("generation")
    source, target = capabilities
    return Check("generation", (Caveat.of(CaveatKind.EFFICIENCY_OF_OTHER_GENERATION, source=source, target=target),))
