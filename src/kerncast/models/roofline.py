"""Roofline from counters: the slowest of the pipes, the caches and DRAM, all overlapping perfectly."""

import math
from dataclasses import replace
from typing import ClassVar

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, rate_in_use
from kerncast.models.base import Case, Estimate, Model, launch_s, lost_from_l2, needed
from kerncast.prediction import Term, Timing
from kerncast.profiles import SECTOR_BYTES, Count, Counts, KernelProfile, Origin
from kerncast.profiles.counts import (
    FP16_FLOPS,
    FP32_FLOPS,
    FP64_FLOPS,
    GLOBAL_BYTES_TOUCHED,
    GLOBAL_LOAD_REQUESTS,
    GLOBAL_LOAD_SECTORS,
    GLOBAL_SECTORS_WRITTEN,
    GLOBAL_WRITES,
    INSTRUCTIONS,
    INTEGER_OPS,
    SHARED_REQUESTS,
    SPECIAL_OPS,
    TENSOR_OPS,
    Counted,
    access_name,
    dram_bytes_of_launch,
)
from kerncast.ptx import Trait, opcode_of

_COPIED_SECTORS = access_name("global", "ldgsts", "sectors")


class Roofline(Model):
    """t = max over resources of (work / sustained rate) + launch.

    Resources: FP32, FP64, FP16, special-function and integer lanes, tensor cores at the rate of each type, load/store
    units and warp issue at the clock asked for; L2 for every sector requested; DRAM for every sector once. Inside the
    SMs the busiest one decides: it has a whole round of blocks, and all that the busiest block does. Its own path to L2
    counts, too, where its rate is known. Unless L2 is cold, a working set that fits it causes no DRAM traffic, where
    the rate of L2 is known.

    Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009; extended by more ceilings.
    Fails when: latency decides (few warps, long dependency chains), L1 serves much, shared-memory or atomic conflicts
    cost time. Counts are of PTX: where ptxas merges neighbouring loads, the load/store term is too long.

    >>> from kerncast.gpu.gpu import load_gpu
    >>> from kerncast.read.declared import declared_profile
    >>> kernel = declared_profile("copy", (4096, 1, 1), (256, 1, 1), fp32_flops=0, dram_bytes=609.9e6)
    >>> found = Roofline().estimate(Case(kernel, load_gpu("TITAN V")), Timing.COLD)
    >>> print(found.limiter, f"{found.seconds * 1e3:.5f} ms")  # 609.9 MB at 609.9 GB/s, and 2.75 µs
    dram 1.00275 ms
    """

    name: ClassVar[str] = "roofline"
    log_sigma: ClassVar[float] = 0.6

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the slowest resource's time plus what the launch adds."""
        profile, gpu = case.profile, case.gpu
        caveats: list[Caveat] = []
        times = self._sm_times(profile, gpu, caveats)
        times |= self._memory_times(profile, gpu, timing, caveats)
        limiter = max(times, key=lambda name: times[name].value)
        body = times[limiter].value
        launch = launch_s(gpu, timing, body)
        return Estimate(
            seconds=body + launch,
            limiter="launch" if launch > body else limiter,
            terms=(*(Term(name, time.value) for name, time in times.items() if time.value), Term("launch", launch)),
            low=min(body, max(time.low for time in times.values())) + launch,
            high=max(time.high for time in times.values()) + launch,
            caveats=tuple(caveats),
        )

    def _sm_times(self, profile: KernelProfile, gpu: GPU, caveats: list[Caveat]) -> dict[str, Count]:
        """Return the time of each resource inside the SMs, on the SM with the most blocks."""
        counts, issued = _paced(profile, gpu.sm_count)
        requests = None
        for count in (counts.get(GLOBAL_LOAD_REQUESTS), counts.first(GLOBAL_WRITES), counts.get(SHARED_REQUESTS)):
            requests = count if requests is None or count is None else requests + count
        fp16_rate = gpu.peak_fp16_flops_per_s
        if fp16_rate is None and counts.total((FP16_FLOPS,)).value:
            caveats.append(Caveat.of(CaveatKind.FP16_RATE_OF_FP32))
            fp16_rate = gpu.peak_fp32_flops_per_s
        resources = {
            "fp32": (counts.get(FP32_FLOPS), gpu.peak_fp32_flops_per_s),
            "fp64": (counts.get(FP64_FLOPS), gpu.peak_fp64_flops_per_s),
            "fp16": (counts.get(FP16_FLOPS), fp16_rate),
            "special": (counts.get(SPECIAL_OPS), gpu.peak_special_ops_per_s),
            "integer": (counts.get(INTEGER_OPS), gpu.peak_int32_ops_per_s),
            "lsu": (requests, gpu.peak_memory_requests_per_s),
            "issue": (issued, gpu.peak_warp_instructions_per_s),
        }
        left_out = [name for name, (count, rate) in resources.items() if count is None or not rate]
        if left_out:
            caveats.append(Caveat.of(CaveatKind.RESOURCES_LEFT_OUT, ", ".join(left_out)))
        times = {name: count.times(1 / rate) for name, (count, rate) in resources.items() if count and rate}
        products = _tensor_time(replace(profile, counts=counts), gpu)
        return times if products is None else times | {"tensor": products}

    def _memory_times(
        self, profile: KernelProfile, gpu: GPU, timing: Timing, caveats: list[Caveat]
    ) -> dict[str, Count]:
        counts = profile.counts
        rate = gpu.dram_rate
        if rate is None:
            caveats.append(Caveat.of(CaveatKind.DRAM_RATE_UNKNOWN))
        elif not rate.is_measured:
            caveats.append(Caveat.of(CaveatKind.DRAM_RATE_USUAL))
        dram = needed(dram_bytes_of_launch(counts), "DRAM traffic", profile)
        times = {}
        sectors = _sectors(counts)
        if sectors is not None:
            if gpu.l2_rate is None:
                caveats.append(Caveat.of(CaveatKind.L2_RATE_UNKNOWN))
            else:
                worst = sectors.times(SECTOR_BYTES / gpu.l2_rate.bytes_per_s)
                low = min(dram.low / gpu.l2_rate.bytes_per_s, worst.low)  # L1 may serve the rest
                worst = _longer(worst, _path_time(profile, gpu))
                times["l2"] = Count(worst.value, low, worst.high)
                dram = self._left_by_l2(dram, counts.get(GLOBAL_BYTES_TOUCHED), gpu, timing)
        times["dram"] = dram.times(1 / (rate.bytes_per_s if rate else gpu.dram_bytes_per_s))
        return times

    def _left_by_l2(self, dram: Count, working_set: Count | None, gpu: GPU, timing: Timing) -> Count:
        """Return the traffic that still goes to DRAM when the launch before left its working set in L2."""
        if timing is Timing.COLD or working_set is None or not gpu.l2_bytes:
            return dram
        missing = lost_from_l2(working_set.value / gpu.l2_bytes)
        return Count(dram.value * missing, dram.low * missing, dram.high if missing else 0.0)


class StaticRoofline(Roofline):
    """The roofline of a kernel whose counts come from its text, because it has an instruction that is not executed.

    Nothing but the interval differs: it is as wide as this model's own errors on kernels that can be executed too
    (docs/static-counts.md). Fails when: what ``Roofline`` fails at, or how often code runs depends on data.
    """

    name: ClassVar[str] = "static-roofline"

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the roofline of counts by text; raises MissingEvidenceError for others, which deserve better."""
        if case.profile.origin is not Origin.COUNTED:
            what = f"{case.profile.kernel} was not counted by its text, as {self.name} asks"
            raise MissingEvidenceError(what, cure="Use --model roofline, or leave --model out.")
        return super().estimate(case, timing)


def _paced(profile: KernelProfile, sms: int) -> tuple[Counts, Count | None]:
    """Return the counts, and the instructions, of a launch all of whose SMs do as much as the busiest one.

    SMs get blocks in turn, so that one has a whole round of them; and it has no less than the busiest block.
    """
    blocks, busiest = math.prod(profile.grid), profile.busiest
    rounds = -(-blocks // sms) * sms / blocks
    rows = {
        name: Counted(_longer(row.count.times(rounds), _times(busiest.get(name), sms)), row.origin)
        for name, row in profile.counts.rows.items()
    }
    issued = profile.mix.warp_instructions.times(rounds) if profile.mix else None
    return Counts(rows), issued and _longer(issued, _times(busiest.get(INSTRUCTIONS), sms))


def _times(count: Count | None, factor: float) -> Count | None:
    return count and count.times(factor)


def _longer(one: Count, other: Count | None) -> Count:
    """Return the larger of two, end by end."""
    if other is None:
        return one
    return Count(max(one.value, other.value), max(one.low, other.low), max(one.high, other.high))


def _sectors(counts: Counts) -> Count | None:
    """Return the sectors of global memory that requests ask for; None where loads or stores are unknown."""
    loads, stores = counts.get(GLOBAL_LOAD_SECTORS), counts.first(GLOBAL_SECTORS_WRITTEN)
    copies = counts.get(_COPIED_SECTORS)  # to shared memory: older code has none
    if loads is None or stores is None:
        return None
    return loads + stores if copies is None else loads + stores + copies


def _path_time(profile: KernelProfile, gpu: GPU) -> Count | None:
    """Return how long the busiest SM's own path to L2 takes; None where its rate is unknown."""
    rate, sectors = gpu.architecture.l2_bytes_per_clock_per_sm, _sectors(_paced(profile, gpu.sm_count)[0])
    return None if rate is None else _times(sectors, SECTOR_BYTES / (rate * gpu.sm_count * gpu.clock_hz))


def _tensor_time(profile: KernelProfile, gpu: GPU) -> Count | None:
    """Return the time of the tensor cores, each type at its own rate; None where they do nothing.

    Raises MissingEvidenceError where a rate is unknown.
    """
    kinds = profile.mix.kinds if profile.mix is not None else ()
    times: dict[str, Count] = {}
    for (factor, total), name in TENSOR_OPS.items():
        count = profile.counts.get(name)
        if count is None or not count.value or name in times:
            continue
        per_sm = rate_in_use(gpu.architecture, (factor, total), (each.kind for each in kinds))
        if not per_sm:
            what = f"{profile.kernel} uses tensor cores, whose rate of {factor} with sums of {total} is unknown"
            raise MissingEvidenceError(what, where=gpu.name)
        times[name] = count.times(1 / (2 * per_sm * gpu.sm_count * gpu.clock_hz))
    uses = [each for each in kinds if opcode_of(each.kind).pipe == "tensor"]
    # In tensor memory the shape of a product stands in a register: one that is not constant is not counted, but named.
    uses.sort(key=lambda each: not opcode_of(each.kind).has(Trait.DESCRIBED))
    if uses and not times:
        raise MissingEvidenceError(f"{profile.kernel} uses tensor cores, by {uses[0].kind}, whose rate is unknown")
    return sum(times.values(), Count.exact(0)) if times else None
