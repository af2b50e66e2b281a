"""A closer look at launches that were forecast: caches, warp states, and the machine code behind each source line.

It runs the same blocks as the forecast, whose counts are remembered, and is remembered itself.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kerncast.errors import CompileError, InputError, Refusal, UnsupportedError
from kerncast.execute.setup import linked_program
from kerncast.forecast.asked import Forecast
from kerncast.forecast.compiled_launch import CompiledLaunch, Means, compile_and_count, gathered
from kerncast.forecast.gathered import Job, each_in_limits
from kerncast.forecast.results import simulation_key
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.machine.listing import MachineInstruction, disassemble
from kerncast.models import Case
from kerncast.models.sm.simulation import with_warp_states
from kerncast.prediction import Prediction
from kerncast.profiles import KernelProfile

#: Looks cost about as much as forecasts: at the launches that take longest on their fastest GPUs, or at one on several.
_MOST_LAUNCHES, _MOST_GPUS = 4, 3
#: Instructions of one source line that are kept; an unrolled loop repeats itself.
_MOST_INSTRUCTIONS = 64


@dataclass(frozen=True, slots=True)
class LineCode:
    """The instructions that one source line has become."""

    file: str
    line: int
    ptx: tuple[str, ...]
    sass: tuple[str, ...]
    """machine instructions; empty where there is no disassembler for the architecture"""
    left_out: int = 0
    """further instructions of both kinds"""


@dataclass(frozen=True, slots=True)
class CloserLook:
    """What is known of one launch on one GPU beyond its forecast."""

    gpu: str
    """id of the GPU"""
    profile: KernelProfile
    """profile with the caches, the machine instructions and, where it can be simulated, the warp states"""
    code: tuple[LineCode, ...]
    """code of each line, in the order of files and lines"""
    problem: str = ""
    """why there is no machine code; empty where there is"""


@dataclass(frozen=True, slots=True)
class _Looks:
    found: tuple[CloserLook, ...]


def look_closer(forecast: Forecast, means: Means) -> tuple[CloserLook, ...]:
    """Look at the launches that take longest, on the fastest GPU, and at a single one on several GPUs.

    What cannot be looked at is left out: a forecast without source, or a launch that this machine refuses.
    """
    jobs: list[Job[_Looks | Refusal]] = [Job(launch, _Looking(launch, gpus)) for launch, gpus in _chosen(forecast)]
    answers = each_in_limits(_Looks, jobs, means) if jobs else ()
    return tuple(look for answer in answers if isinstance(answer, _Looks) for look in answer.found)


def _chosen(forecast: Forecast) -> list[tuple[Launch, list[GPU]]]:
    """Return the launches to look at, the longest first, each with its GPUs, the fastest first."""
    by_launch: dict[int, list[tuple[Prediction, Case]]] = defaultdict(list)
    for p, case in zip(forecast.predictions, forecast.cases, strict=True):
        if isinstance(case, Case) and case.launch is not None:
            by_launch[p.launch].append((p, case))
    ranked = [sorted(pairs, key=lambda pair: pair[0].seconds) for pairs in by_launch.values()]
    ranked.sort(key=lambda pairs: -pairs[0][0].count * pairs[0][0].seconds)
    most = _MOST_GPUS if len(ranked) == 1 else 1
    first = {pairs[0][0].kernel: pairs[0][0].launch for pairs in reversed(ranked)}
    ranked.sort(key=lambda pairs: first[pairs[0][0].kernel] != pairs[0][0].launch)  # each kernel's longest launch first
    return [
        (case.launch, [each.gpu for _, each in pairs[:most]])
        for pairs in ranked[:_MOST_LAUNCHES]
        if (case := pairs[0][1]).launch is not None
    ]


class _Looking:
    """A look at one launch on some GPUs, which share its execution where they share its PTX."""

    def __init__(self, launch: Launch, gpus: Sequence[GPU]) -> None:
        self._launch, self._gpus = launch, gpus

    def __call__(self, means: Means) -> _Looks:
        """Return what was found; raises Refusal."""
        try:
            known = compile_and_count(self._launch, [gpu.architecture.code_name for gpu in self._gpus], means)
        except (CompileError, InputError) as error:
            raise UnsupportedError(str(error)) from None
        found = []
        for gpu in self._gpus:
            compiled = known.on(gpu.architecture.code_name)
            if compiled is not None:
                found.append(_look(compiled, gpu, means))
        return _Looks(tuple(found))


def _look(compiled: CompiledLaunch, gpu: GPU, means: Means) -> CloserLook:
    def look() -> CloserLook:
        profile = compiled.with_caches(gpu)
        try:
            execution = gathered(profile, gpu, compiled.recorder(), means.progress)
            profile = with_warp_states(profile, execution, gpu)
        except Refusal:
            pass  # the forecast says why
        return CloserLook(gpu.id, profile, *code_of(compiled))

    return means.results.get(CloserLook, simulation_key(compiled.key, "look", gpu, compiled.profile), look)


def code_of(compiled: CompiledLaunch) -> tuple[tuple[LineCode, ...], str]:
    """Return the code of each source line, and why there is no machine code."""
    kernel = compiled.kernel
    text = kernel.ptx.split("\n")
    place_of: dict[int, tuple[str, int]] = {}
    for instruction in linked_program(kernel.ptx, kernel.mangled).function.instructions:
        if instruction.location is not None and instruction.line:
            place_of.setdefault(instruction.line, (instruction.location.file, instruction.location.line))
    listing = disassemble(kernel.cubin, kernel.resources.architecture)
    routine = listing.routines.get(kernel.mangled)
    ptx: dict[tuple[str, int], list[str]] = defaultdict(list)
    sass: dict[tuple[str, int], list[str]] = defaultdict(list)
    for number in sorted(place_of):
        ptx[place_of[number]].append(" ".join(text[number - 1].split()))
    for each in routine.instructions if routine else ():
        if each.line in place_of and each.opcode != "NOP":  # fills the end of the code
            sass[place_of[each.line]].append(_shown(each))
    return tuple(_line(place, ptx[place], sass[place]) for place in sorted({*ptx, *sass})), listing.problem


def _line(place: tuple[str, int], ptx: Sequence[str], sass: Sequence[str]) -> LineCode:
    kept = tuple(ptx[:_MOST_INSTRUCTIONS]), tuple(sass[:_MOST_INSTRUCTIONS])
    return LineCode(*place, *kept, left_out=len(ptx) + len(sass) - sum(map(len, kept)))


def _shown(each: MachineInstruction) -> str:
    guard = f"@{each.guard} " if each.guard else ""
    return f"{guard}{'.'.join((each.opcode, *each.modifiers))} {each.operands}".rstrip()
