"""One launch compiled and executed once, and simulated as often as asked: on other GPUs, and without its limits."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from kerncast.errors import Refusal
from kerncast.forecast.compiled_launch import CompiledLaunch, Means, Source, compile_and_count, gathered
from kerncast.gpu import GPU, launch_overhead_s
from kerncast.launch import Launch
from kerncast.models import DEFAULT_MODEL, DEFAULT_MODEL_OF_COUNTS, Case, Estimate, Question, model_named
from kerncast.models.sm.lifted import Excess, Limit, excesses, instructions_left, lifted
from kerncast.models.sm.plan import plan_of
from kerncast.occupancy import BlockRequest, Limiter, Occupancy, block_request_of, check_fits, occupancy
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import KernelProfile
from kerncast.traces import Execution

#: An L2 that holds any launch.
_ALL_OF_IT = 2**50


@dataclass(slots=True)
class WhatIf:
    """One launch on one GPU, and what it would take otherwise: the same blocks run in every simulation.

    So two times differ by what was changed, and not by which blocks were drawn.
    """

    launch: Launch
    gpu: GPU
    question: Question
    means: Means
    compiled: CompiledLaunch
    _executions: dict[object, Execution] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, launch: Launch, gpu: GPU, question: Question, means: Means) -> "WhatIf":
        """Compile and count a launch for the GPU's architecture; raises Refusal, and CompileError."""
        name = gpu.architecture.code_name
        known = compile_and_count(launch, [name], means)
        found = known.on(name)
        if found is None:
            raise known.failures[0].refusal
        check_fits(found.profile, gpu, force=None)
        return cls(launch, gpu, question, means, found)

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.compiled.profile.kernel

    def forecast(self) -> Prediction:
        """Return the forecast of the launch as it is: simulated, or by the roofline where that cannot be."""
        case = self._case(self.gpu)
        try:
            name, estimate = DEFAULT_MODEL, self._simulated(self.gpu)
        except Refusal:
            name = DEFAULT_MODEL_OF_COUNTS
            estimate = model_named(name).estimate(case, self.question.timing)
        return model_named(name).forecast(case, estimate, self.question)

    def seconds_on(self, gpu: GPU, model: str = DEFAULT_MODEL) -> float:
        """Return the time on another GPU of the same architecture; raises Refusal."""
        if model == DEFAULT_MODEL:
            return self._simulated(gpu).seconds
        return model_named(model).estimate(self._case(gpu), self.question.timing).seconds

    def without(self, limit: Limit, only: Collection[int] | None = None) -> float:
        """Return the time without a limit, everywhere or of some PTX instructions alone; raises Refusal."""
        execution = self.execution()
        changed = lifted(execution, limit, only)
        profile, left = self.compiled.profile, instructions_left(changed, execution)
        if profile.mix is not None and left < 1:
            fewer = profile.mix.warp_instructions.times(left)
            profile = replace(profile, mix=replace(profile.mix, warp_instructions=fewer))
        return self._of(changed, profile=profile)

    def wasted_by(self, limit: Limit) -> tuple[Excess, ...]:
        """Return what each PTX instruction wastes by a limit, the most first."""
        return excesses(self.execution(), limit)

    def with_data_read_once(self) -> float:
        """Return the time where DRAM moves each byte once: what waves and blocks share stays in L2; raises Refusal.

        What an earlier launch left in L2 counts for nothing: where that is much, less is promised than can be had.
        """
        cold, asked = self._of(self.execution(), self._roomy, Timing.COLD), self.question.timing
        return cold - launch_overhead_s(Timing.COLD) + launch_overhead_s(asked)

    def with_all_in_l2(self) -> float:
        """Return the time where L2 holds all that the launch touches, from one launch to the next; raises Refusal."""
        return self._simulated(self._roomy).seconds

    def resident_blocks(self) -> Occupancy:
        """Return how many blocks an SM holds, and what limits them."""
        return occupancy(self._request, self.gpu.architecture)

    def most_resident_blocks(self) -> int:
        """Return how many blocks an SM would hold if registers and shared memory were no limit, and the grid has."""
        now, most = self.resident_blocks(), self.gpu.architecture.max_blocks_per_sm
        of_warps = now.limit(Limiter.WARPS)
        of_grid = -(-self.launch.blocks // self.gpu.sm_count)
        return min(most if of_warps is None else of_warps, most, of_grid)

    def with_resident_blocks(self, blocks: int) -> float:
        """Return the time with so many resident blocks, as if registers and shared memory sufficed; raises Refusal."""
        gpu = _with_room(self.gpu, self._request, blocks)
        return self._of(self.execution(gpu), gpu)

    def execution(self, gpu: GPU | None = None) -> Execution:
        """Return the recorded blocks for a GPU, recorded once for all GPUs that give an SM the same ones."""
        gpu = gpu or self.gpu
        plan = plan_of(self.compiled.profile, gpu)
        key = (gpu.sm_count, plan.load, plan.resident, plan.geometry.l1_bytes)
        if key not in self._executions:
            recorder = self.compiled.recorder()
            self._executions[key] = gathered(self.compiled.profile, gpu, recorder, self.means.progress)
        return self._executions[key]

    @property
    def _request(self) -> BlockRequest:
        request = block_request_of(self.compiled.profile)
        assert request is not None
        return request

    def _case(self, gpu: GPU) -> Case:
        return Case(self.compiled.profile, gpu, launch=self.launch)

    def _simulated(self, gpu: GPU) -> Estimate:
        model = model_named(DEFAULT_MODEL)
        return Source(self.compiled).estimate(model, self._case(gpu), self.question.timing, lambda: self.execution(gpu))

    def _of(
        self,
        execution: Execution,
        gpu: GPU | None = None,
        timing: Timing | None = None,
        profile: KernelProfile | None = None,
    ) -> float:
        case = replace(self._case(gpu or self.gpu), execution=execution)
        if profile is not None:
            case = replace(case, profile=profile)
        return model_named(DEFAULT_MODEL).estimate(case, timing or self.question.timing).seconds

    @property
    def _roomy(self) -> GPU:
        """The GPU with an L2 that holds everything, the frames of all threads among it."""
        return replace(self.gpu, l2_bytes=_ALL_OF_IT)


def _with_room(gpu: GPU, request: BlockRequest, blocks: int) -> GPU:
    """Return a GPU whose SM holds just so many of these blocks, with an L1 as large as before."""
    a = gpu.architecture
    added = blocks * (request.shared_bytes + a.reserved_shared_bytes_per_block + a.shared_allocation_bytes)
    sizes, both = a.shared_carveouts_bytes, a.l1_and_shared_bytes
    roomy = replace(
        a,
        max_blocks_per_sm=blocks,
        registers_per_sm=a.registers_per_sm * blocks,
        barriers_per_sm=None,
        shared_bytes_per_sm=a.shared_bytes_per_sm + added,
        shared_carveouts_bytes=sizes and (*sizes, a.shared_bytes_per_sm + added),
        l1_and_shared_bytes=both and both + added,
    )
    return replace(gpu, architecture=roomy)
