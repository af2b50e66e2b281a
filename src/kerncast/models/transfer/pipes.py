"""Pipes: a measured run with its counters, by the time of every pipe and level and by what its warps wait for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, WARP_SIZE
from kerncast.models.base import Case, Estimate, Model, Question, known_fact, widened
from kerncast.models.transfer.checks import transfer_caveats
from kerncast.models.transfer.measured_run import Measured, counted, measured_run, occupancy_on, present, timing_caveats
from kerncast.models.transfer.posterior import era_of
from kerncast.occupancy import BlockRequest, block_request_of
from kerncast.prediction import Figure, Prediction, Term, Timing, Transfer
from kerncast.profiles import KernelProfile, Origin
from kerncast.profiles.counts import (
    DRAM_CROSSING,
    GLOBAL_LOAD_REQUESTS,
    INSTRUCTIONS,
    L1_BYTES,
    L2_CROSSING,
    LOCAL_BYTES_REQUESTED,
    PIPES,
    SHARED_WAVEFRONTS,
    pipe_instructions,
    work_threads,
)

# What a launch asks of an SM and of the memory behind it: warp instructions and bytes, the same on both GPUs.


#: Kinds that profilers count by threads, by the pipe that executes them: where the pipes themselves are not counted.
_WORK_OF_PIPE = {
    "fma": "fp32", "alu": "integer", "fp16": "fp16", "fp64": "fp64", "xu": "conversion", "lsu": "memory",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch asks for."""

    instructions: float
    """warp instructions"""
    by_pipe: Mapping[str, float]
    """warp instructions by pipe, of those that are counted"""
    shared_wavefronts: float
    l1_bytes: float
    l2_bytes: float
    dram_bytes: float
    global_loads: float
    """warp instructions that load from global memory"""
    blocks: int
    warps_per_block: int
    not_counted: tuple[str, ...] = ()
    """pipes and levels that no counter tells of"""


def work_of(profile: KernelProfile) -> Work:
    """Return what a profiled launch asks for; raises MissingEvidenceError where instructions or bytes are unknown."""
    counts = profile.counts
    if profile.origin is not Origin.PROFILED:
        raise MissingEvidenceError(
            f"pipes needs the counters of a profiler, and {profile.kernel} was not profiled",
            cure="Give a profile as evidence, or leave --model out: the simulation uses measured times.",
        )
    instructions = counted(counts.get(INSTRUCTIONS), "the number of instructions", INSTRUCTIONS, profile)
    if not instructions:
        raise MissingEvidenceError(f"{profile.kernel} executes no instruction", cure="Take the profile again.")
    dram = counted(
        counts.first(DRAM_CROSSING), "DRAM traffic", "dram__bytes_read.sum and dram__bytes_write.sum", profile
    )
    by_pipe = {pipe: found for pipe in PIPES if (found := _of_pipe(profile, pipe, instructions)) is not None}
    others = {"shared": SHARED_WAVEFRONTS, "l1": L1_BYTES}
    missing = [pipe for pipe in PIPES if pipe not in by_pipe and pipe != "fp16"]
    missing += [name for name, count in others.items() if count not in counts]
    l2 = counts.first(L2_CROSSING)
    return Work(
        instructions=instructions,
        by_pipe=by_pipe,
        shared_wavefronts=present(counts.total((SHARED_WAVEFRONTS,)).value),
        l1_bytes=present(counts.total((L1_BYTES,)).value),
        l2_bytes=max(dram, present(l2.value) if l2 else 0.0),
        dram_bytes=dram,
        global_loads=min(instructions, present(counts.total((GLOBAL_LOAD_REQUESTS,)).value)),
        blocks=math.prod(profile.grid),
        warps_per_block=-(-math.prod(profile.block) // WARP_SIZE),
        not_counted=(*missing, *(() if l2 else ("l2",))),
    )


def _of_pipe(profile: KernelProfile, pipe: str, instructions: float) -> float | None:
    """Return the warp instructions of a pipe: counted, else those of its kind by threads over active threads."""
    count = profile.counts.get(pipe_instructions(pipe))
    if count is not None:
        return min(instructions, count.value)
    threads = profile.counts.get(work_threads(_WORK_OF_PIPE[pipe]))
    if threads is None:
        return None
    active = (profile.run.active_threads if profile.run else None) or WARP_SIZE
    return min(instructions, threads.value / active)


# The equations, in cycles of an SM at the GPU's clock. Facts of a GPU are in its file and its architecture's.


#: What is busy for part of the time delays the rest: the longest resource and the others join with this exponent. In
#: the projection study the result hardly changed beyond 10.
_RESOURCES_POWER = 16
#: Resources and waiting join with this exponent: between 1.5 and 2 the waiting that follows from a run did not depend
#: on how many warps hid it, over 5,240 builds of a convolution on one GPU (projection study, no time of a target used).
_WAITING_POWER = 1.75
#: Above so many registers, and with spills, another compiler's build is another program.
_MANY_REGISTERS = 200
_REBUILT_LOG_SIGMA = 0.4


#: Keys of GPU files, where they are not called as the pipe.
_KEYS = {"xu": "special", "lsu": "load_store"}


def busy_sms(blocks: int, sms: int) -> float:
    """Return how many SMs work all the time while the one with most blocks does.

    >>> busy_sms(160, 80), busy_sms(81, 80), busy_sms(7, 80)
    (80.0, 40.5, 7.0)
    """
    return blocks / -(-blocks // sms)


def resource_cycles(work: Work, gpu: GPU) -> dict[str, float]:
    """Return the cycles that each resource of an SM, or the memory behind all of them, needs alone.

    Raises MissingEvidenceError for a GPU without the facts.
    """
    a, c = gpu.architecture, gpu.architecture.cycles
    schedulers = a.schedulers_per_sm
    by_pipe = dict.fromkeys(PIPES, 0.0) | dict(work.by_pipe)
    found = {name: by_pipe[name] * issue_interval(name, gpu) / schedulers for name in PIPES if by_pipe[name]}
    if by_pipe["alu"]:
        found["fma"] = found.get("fma", 0.0) + by_pipe["alu"] * (c.alu_on_fma or 0.0) / schedulers
    if by_pipe["lsu"]:
        found["lsu"] = max(found["lsu"], by_pipe["lsu"] * (c.load_store_sm or 0.0))
    found["issue"] = work.instructions / a.warp_instructions_per_clock_per_sm
    if work.shared_wavefronts:
        found["shared"] = work.shared_wavefronts * known_fact(c.shared_wavefront, "cycles.shared_wavefront", gpu)
    if work.l1_bytes and _loads_pass_l1(gpu):
        found["l1"] = work.l1_bytes / known_fact(a.l1_bytes_per_clock, "sustained.l1_bytes_per_clock", gpu)
    share = busy_sms(work.blocks, gpu.sm_count)
    found = {name: cycles / share for name, cycles in found.items()}
    for name, nbytes, rate in (("l2", work.l2_bytes, gpu.l2_rate), ("dram", work.dram_bytes, gpu.dram_rate)):
        per_second = known_fact(rate.bytes_per_s if rate else None, f"sustained {name} bandwidth", gpu)
        found[name] = nbytes / per_second * gpu.clock_hz
    return found


def _loads_pass_l1(gpu: GPU) -> bool:
    """Whether loads take turns at L1, hits or not: on Maxwell, too, which keeps no global data there by default."""
    a = gpu.architecture
    return a.caches_global_loads_in_l1 or (a.caches_read_only_loads_in_l1 and a.read_only_cache_bytes is None)


def issue_interval(pipe: str, gpu: GPU) -> float:
    """Return the cycles that an instruction holds the pipe of its sub-partition."""
    c = gpu.architecture.cycles
    own = {"fma": c.fma, "alu": c.alu, "fp16": c.fp16, "fp64": c.fp64, "xu": c.special, "lsu": c.load_store}[pipe]
    return known_fact(own, f"cycles.{_KEYS.get(pipe, pipe)}", gpu)


def soft_maximum(values: Sequence[float], power: float) -> float:
    """Return (sum of x^power)^(1/power): the longest, and more where others are as long.

    >>> round(soft_maximum([3.0, 4.0], 2), 3), round(soft_maximum([1.0, 4.0], 16), 3)
    (5.0, 4.0)
    """
    longest = max(values)
    if not longest:
        return 0.0
    return longest * float(math.fsum((each / longest) ** power for each in values) ** (1 / power))


def resources_joined(times: Sequence[float]) -> float:
    """Return the time of resources that are busy at once."""
    return soft_maximum(times, _RESOURCES_POWER)


def joined(resources: float, waits: float) -> float:
    """Return the time of resources and of waiting that they hide in part.

    >>> joined(3.0, 0.0), round(joined(3.0, 3.0), 3)
    (3.0, 4.458)
    """
    return soft_maximum([resources, waits], _WAITING_POWER)


def waiting(cycles: float, resources: float, warps: float, power: float = _WAITING_POWER) -> float:
    """Return L of cycles = (resources^p + (L / warps)^p)^(1/p): the cycles of all warps of an SM, one after the other.

    >>> round(waiting(5.0, 3.0, 8.0, 2))
    32
    """
    if cycles <= resources:
        return 0.0
    return warps * cycles * float((1 - (resources / cycles) ** power) ** (1 / power))


def own_issue(work: Work, gpu: GPU) -> float:
    """Return the cycles in which the warps of an SM issue, one warp alone after the other: L cannot be shorter."""
    used = {pipe: number for pipe, number in work.by_pipe.items() if number}
    on_pipes = math.fsum(number * max(1.0, issue_interval(pipe, gpu)) for pipe, number in used.items())
    rest = max(0.0, work.instructions - math.fsum(work.by_pipe.values()))
    return (on_pipes + rest) / busy_sms(work.blocks, gpu.sm_count)


def latency(work: Work, gpu: GPU) -> float:
    """Return the latencies of all instructions, one after the other: what waiting is in proportion to.

    Loads from global memory that L1, L2 or DRAM serve are in the ratio of the bytes that each delivers.
    """
    c = gpu.architecture.cycles
    arithmetic = known_fact(c.alu_latency, "cycles.alu_latency", gpu)
    shared = known_fact(c.shared_latency, "cycles.shared_latency", gpu)
    on_lsu = max(work.global_loads, work.by_pipe.get("lsu", work.global_loads))
    asked = max(work.l1_bytes, work.l2_bytes)
    beyond_l1 = work.l2_bytes / asked if asked else 0.0
    beyond_l2 = work.dram_bytes / work.l2_bytes if work.l2_bytes else 0.0
    if not gpu.architecture.caches_global_loads_in_l1:
        beyond_l1 = 1.0
    l1, l2 = known_fact(gpu.l1_latency, "cycles.l1_latency", gpu), known_fact(gpu.l2_latency, "cycles.l2_latency", gpu)
    dram = known_fact(gpu.dram_latency, "cycles.dram_latency", gpu)
    load = (1 - beyond_l1) * l1 + beyond_l1 * ((1 - beyond_l2) * l2 + beyond_l2 * dram)
    others = work.instructions - on_lsu
    return others * arithmetic + (on_lsu - work.global_loads) * shared + work.global_loads * load


class Pipes(Model):
    """T_tgt = c_t / clock, c = (tau^p + (L / W)^p)^(1/p): tau of resources, L of waiting, W warps that hide it.

    tau is the soft maximum of issue, each pipe, shared memory, L1, L2 and DRAM. L follows from the run. On the target
    what warps issue themselves takes the target's intervals, and the rest of L scales with latencies. W is as near to
    the target's occupancy as it was on the source.

    Source: this project's projection study (docs/projecting.md). Fails when: the code differs between the GPUs (spills,
    another algorithm in a library), or a cache holds on one what it does not on the other.
    """

    name: ClassVar[str] = "pipes"
    log_sigma: ClassVar[float] = 0.25
    """round figure; serves only without ``data/calibration/pipes.toml``"""
    uses_measured_run: ClassVar[bool] = True

    def other_generation(self, case: Case, factor: float) -> Caveat | None:
        """Return that the time is from a GPU with another family of instruction sets; None within one."""
        gpu = _run_gpu(measured_run(case, self.name))
        if era_of(gpu.architecture.number) == era_of(case.gpu.architecture.number):
            return None
        return Caveat.of(CaveatKind.TIME_OF_OTHER_GENERATION, gpu.compute_capability, factor=factor)

    def error_factor(self, case: Case, estimate: Estimate, level: float) -> tuple[float, tuple[Caveat, ...]]:
        """Return the factor of the model's error; 1 for the GPU that was measured, whose clock bounds the time."""
        found = measured_run(case, self.name)
        gpu = _run_gpu(found)
        if gpu.id == case.gpu.id:
            measured = Caveat.of(CaveatKind.TIME_AS_MEASURED, gpu.name)
            other = Caveat.of(CaveatKind.TIME_AT_OTHER_CLOCK, gpu.name, run_hz=gpu.clock_hz, gpu_hz=case.gpu.clock_hz)
            return 1.0, (measured if gpu.clock_hz == case.gpu.clock_hz else other,)
        factor, notes = super().error_factor(case, estimate, level)
        if not _may_be_rebuilt(found.profile) or gpu.architecture.id == case.gpu.architecture.id:
            return factor, notes
        wider = widened(factor, _REBUILT_LOG_SIGMA, level)
        return wider, (Caveat.of(CaveatKind.BUILD_MAY_DIFFER, factor=wider), *notes)

    def forecast(self, case: Case, estimate: Estimate, question: Question) -> Prediction:
        """Return an estimate with its interval, of the timing that was measured."""
        found = measured_run(case, self.name)
        prediction = super().forecast(case, estimate, replace(question, timing=found.run.timing))
        notes = [each for each in timing_caveats(found, question.timing) if each.kind is not CaveatKind.CLOCK_OF_RUN]
        return replace(prediction, caveats=(*prediction.caveats, *notes))

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the time on the target, with every resource; raises MissingEvidenceError."""
        del timing
        found = measured_run(case, self.name)
        work = work_of(found.profile)
        source, target = _sides(found, work)
        seconds = found.run.seconds * target.cycles / source.cycles * source.gpu.clock_hz / target.gpu.clock_hz
        bounds = _by_clock(found.run.seconds, source.gpu, target.gpu) or (seconds, seconds)
        seconds = min(max(seconds, bounds[0]), bounds[1])
        terms = {name: cycles / target.gpu.clock_hz for name, cycles in target.resources.items()}
        notes = [Caveat.of(CaveatKind.RESOURCES_LEFT_OUT, ", ".join(work.not_counted))] if work.not_counted else []
        longest_there = max(source.resources.items(), key=lambda each: each[1])[0]
        if source.beyond > _IMPOSSIBLE and source.gpu.id != target.gpu.id:
            raise MissingEvidenceError(
                f"the run of {found.profile.kernel} is {source.beyond:.3g} times as fast as its {longest_there} allows",
                cure="Its time and its counts are not of one launch: take the profile again.",
            )
        if source.beyond > _MOST_BEYOND:
            notes.append(Caveat.of(CaveatKind.FASTER_THAN_LEVEL, longest_there, times=source.beyond))
        if block_request_of(found.profile) is None:
            notes.append(Caveat.of(CaveatKind.REGISTERS_UNKNOWN))
        limiter, longest = max(terms.items(), key=lambda each: each[1])
        return Estimate(
            seconds=seconds,
            limiter=limiter if longest >= target.waiting_s else "latency",
            terms=tuple(Term(name, each) for name, each in terms.items()),
            low=bounds[0],
            high=bounds[1],
            caveats=(*notes, *transfer_caveats(case, modelled=_MODELLED)),
            transfer=Transfer(
                source.gpu.name,
                source.gpu.id,
                found.run.seconds,
                (
                    Figure("active warps", "1", source.warps, target.warps),
                    Figure("clock", "Hz", source.gpu.clock_hz, target.gpu.clock_hz),
                    Figure("resources", "s", *(each.roof / each.gpu.clock_hz for each in (source, target))),
                    Figure("waiting", "s", source.waiting_s, target.waiting_s),
                ),
            ),
        )


#: What the published models assume and this one reckons with.
_MODELLED = {
    CaveatKind.EFFICIENCY_OF_OTHER_GENERATION, CaveatKind.LAST_WAVE_PARTLY_EMPTY, CaveatKind.SMS_IDLE,
    CaveatKind.SPECIAL_FUNCTIONS_COUNT,
}  # fmt: skip
#: A run that is faster than its resources allow by more is told: a measured maximum is sometimes exceeded by so much.
_MOST_BEYOND = 1.05
#: A run that is faster by more is none of these counts.
_IMPOSSIBLE = 3.0


@dataclass(frozen=True, slots=True)
class _Side:
    """The launch on one GPU, in cycles of an SM."""

    gpu: GPU
    resources: dict[str, float]
    warps: float
    """active warps of an SM"""
    waiting: float
    """cycles of all warps of an SM, one after the other"""
    beyond: float = 1.0
    """how many times faster than its resources allow the run was; the same on the target"""

    @property
    def roof(self) -> float:
        return resources_joined(list(self.resources.values()))

    @property
    def waiting_s(self) -> float:
        """Seconds that warps would wait if nothing else took time."""
        return self.waiting / self.warps / self.gpu.clock_hz

    @property
    def cycles(self) -> float:
        return joined(self.roof, self.waiting / self.warps) / self.beyond


def _sides(found: Measured, work: Work) -> tuple[_Side, _Side]:
    """Return the launch on both GPUs: L follows from the run on the source."""
    gpus = _run_gpu(found), found.target
    most = [_most_warps(found.profile, work, gpu) for gpu in gpus]
    achieved = present(found.run.achieved_occupancy or 0.0) * gpus[0].architecture.max_warps_per_sm
    share = min(1.0, achieved / most[0]) if achieved else 1.0
    resources = [resource_cycles(work, gpu) for gpu in gpus]
    cycles = found.run.seconds * gpus[0].clock_hz
    roof = resources_joined(list(resources[0].values()))
    warps = [each * share for each in most]
    waits = waiting(cycles, roof, warps[0])
    source = _Side(gpus[0], resources[0], warps[0], waits, max(1.0, roof / cycles))
    return source, _Side(gpus[1], resources[1], warps[1], _waiting_there(work, waits, gpus), source.beyond)


def _waiting_there(work: Work, waits: float, gpus: tuple[GPU, GPU]) -> float:
    """Return L on the target: what warps issue takes its intervals, the rest is in proportion to latencies."""
    issue, issue_there = (own_issue(work, gpu) for gpu in gpus)
    own = min(waits, issue)
    per_sm = busy_sms(work.blocks, gpus[0].sm_count) / busy_sms(work.blocks, gpus[1].sm_count)
    ratio = latency(work, gpus[1]) / latency(work, gpus[0])
    return own * issue_there / issue + (waits - own) * per_sm * ratio


def _by_clock(seconds: float, run: GPU, target: GPU) -> tuple[float, float] | None:
    """Return what bounds a time on the GPU of the run at another clock: nothing follows the clock, or all does."""
    if run.id != target.id:
        return None
    in_proportion = seconds * (run.clock_hz / target.clock_hz)
    return min(seconds, in_proportion), max(seconds, in_proportion)


def _most_warps(profile: KernelProfile, work: Work, gpu: GPU) -> float:
    """Return the warps that an SM holds at most, by occupancy and by the grid; raises Refusal where none fits."""
    request = block_request_of(profile) or BlockRequest(math.prod(profile.block), 0, 0, profile.shared_bytes, 0)
    found = occupancy_on(request, gpu)
    return float(work.warps_per_block * min(found.blocks_per_sm, -(-work.blocks // gpu.sm_count)))


def _run_gpu(found: Measured) -> GPU:
    """Return the GPU of the run at the clock that the profiler counted."""
    run = found.run
    return run.gpu if run.clock_hz is None else run.gpu.at_clock(run.clock_hz)


def _may_be_rebuilt(profile: KernelProfile) -> bool:
    """Whether another architecture's build may spill, or spill otherwise."""
    registers = profile.resources.registers_per_thread if profile.resources else 0
    return registers >= _MANY_REGISTERS or profile.counts.total((LOCAL_BYTES_REQUESTED,)).value > 0
