"""Warp states on one GPU: the simulation's cycles by state, for the kernel and for each line of its source."""

from dataclasses import replace

import numpy as np

from kerncast.gpu import GPU, launch_overhead_s
from kerncast.models.sm.results import Floats, Stall
from kerncast.models.sm.simulation import SimulatedLaunch, simulated_launch
from kerncast.prediction import Timing
from kerncast.profiles import KernelProfile, LineStates, ResourceTime, StateCycles, WarpStates
from kerncast.ptx import Location
from kerncast.traces import Execution


def with_warp_states(profile: KernelProfile, execution: Execution, gpu: GPU) -> KernelProfile:
    """Add what warps wait for on a GPU; raises Refusal where the launch cannot be simulated."""
    found = simulated_launch(profile, gpu, execution, Timing.PROFILER)
    return replace(profile, warp_states=warp_states(found, execution, gpu))


def warp_states(found: SimulatedLaunch, execution: Execution, gpu: GPU) -> WarpStates:
    """Return the cycles of the simulated blocks by state."""
    simulated = found.simulated
    body = found.cycles / gpu.clock_hz
    resources = (ResourceTime(term.name, term.seconds / body) for term in found.terms if term.seconds)
    return WarpStates(
        gpu=gpu.id,
        seconds=body + launch_overhead_s(Timing.PROFILER),
        cycles=found.cycles,
        blocks_simulated=len(simulated.finish_cycles),
        simulated_cycles=float(simulated.finish_cycles[-1]),
        schedulers=found.sm.sub_partitions,
        issued=simulated.issued,
        states=tuple(_states(simulated.stalls.sum(axis=0))),
        lines=_lines(found, execution),
        resources=tuple(sorted(resources, key=lambda each: -each.share)),
    )


def _states(cycles: Floats) -> list[StateCycles]:
    return [StateCycles(stall.name.lower(), float(cycles[stall])) for stall in Stall]


def _lines(found: SimulatedLaunch, execution: Execution) -> tuple[LineStates, ...]:
    """Return the lines at which a warp was."""
    code = execution.trace.function.instructions
    places = [code[number].location or Location("", 0) for number in found.program.instruction]
    lines = sorted(set(places), key=lambda place: (place.file, place.line))
    position = {place: number for number, place in enumerate(lines)}
    cycles = np.zeros((len(lines), len(Stall)))
    np.add.at(cycles, [position[place] for place in places], found.simulated.stalls)
    rows = zip(lines, cycles, strict=True)
    return tuple(LineStates(place.file, place.line, _longest(row)) for place, row in rows if row.any())


def _longest(cycles: Floats) -> tuple[StateCycles, ...]:
    occurred = (each for each in _states(cycles) if each.warp_cycles)
    return tuple(sorted(occurred, key=lambda each: -each.warp_cycles))
