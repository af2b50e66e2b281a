"""When a pipe or a queue has room for another micro-op."""

from kerncast.models.sm.micro_ops import Pipe
from kerncast.models.sm.simulate.compiled import inlined
from kerncast.models.sm.simulate.state import (
    Q_ATOMIC,
    Q_DRAM,
    Q_L1,
    Q_L2,
    Q_LSU,
    R_ATOMIC_ROOM,
    R_DRAM_ROOM,
    R_FMA,
    R_L2_ROOM,
    R_LSU_ROOM,
    TO_ATOMIC,
    TO_LOAD,
    TO_NOTHING,
    TO_STORE,
    Code,
    Real,
    State,
    Whole,
)

FMA, LSU = int(Pipe.FMA), int(Pipe.LSU)


@inlined
def free_at(code: Code, state: State, part: Whole, group: Whole) -> Real:
    """Return from when on a sub-partition can issue what waits for a pipe or a queue."""
    if group < TO_LOAD and group != LSU:
        free = state.pipes[part, group]
        if code.rates[R_FMA + group] > 0.0:
            free = max(free, state.pipes[part, FMA])
        return free
    if group == TO_NOTHING:
        return 0.0
    queues, rates = state.queues, code.rates
    free = max(state.pipes[part, LSU], queues[Q_LSU] - rates[R_LSU_ROOM])
    if group >= TO_LOAD:
        free = max(free, queues[Q_L1] - rates[R_LSU_ROOM])
    if group >= TO_STORE:
        free = max(free, queues[Q_L2] - rates[R_L2_ROOM], queues[Q_DRAM] - rates[R_DRAM_ROOM])
    if group == TO_ATOMIC:
        free = max(free, queues[Q_ATOMIC] - rates[R_ATOMIC_ROOM])
    return free
