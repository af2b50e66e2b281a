"""The two engines on the programs of examples/kernels: equal counts, and equal memory bit for bit.

The first launch of each program runs whole if it takes a few million thread-instructions, else the same sample of its
blocks on both. Where threads add floats atomically the order is free: two sums of n numbers of one sign differ by 2 n
rounding errors of half a unit in the last place at most.
"""

from pathlib import Path

import numpy as np
import pytest

from kerncast.execute import Budget
from kerncast.execute.reference import ReferenceEngine
from kerncast.launch import load_launches
from kerncast.traces import Trace
from tests.helpers.engine_agreement import disagreement, outcome
from tests.helpers.programs import compiled, launch_files

BUDGET = Budget(sample_seconds=0.005)
UNIT = {"f32": 2.0**-24, "f64": 2.0**-53}


def sums_of_floats(trace: Trace) -> float:
    """Return the largest relative difference that the order of atomic additions can make."""
    atomics = {
        number: ins.type
        for number, ins in enumerate(trace.function.instructions)
        if ins.root in {"atom", "red"} and "add" in ins.modifiers and ins.type in UNIT
    }
    executed = trace.thread_executions.sum(axis=0)
    return max((2 * int(executed[number]) * UNIT[kind] for number, kind in atomics.items()), default=0.0)


@pytest.mark.parametrize("path", launch_files(), ids=lambda path: path.stem)
def test_program(path: Path) -> None:
    launch = load_launches(path)[0]
    kernel = compiled(launch).kernels[0]
    # An interpreted step costs more of a budget: the same blocks run where the budget is as much larger.
    slower = Budget(sample_seconds=BUDGET.sample_seconds * ReferenceEngine.slowness)
    native, reference = outcome(kernel, launch, BUDGET, "native"), outcome(kernel, launch, slower, "reference")
    assert native.trace is not None
    bound = sums_of_floats(native.trace)
    floats = [name for name, array in native.trace.memory.items() if np.issubdtype(array.dtype, np.floating)]
    assert disagreement(native, reference, dict.fromkeys(floats, bound) if bound else {}) is None
