"""When a pipe or a queue has room for another micro-op."""

from kerncast.models.sm.micro_ops import Pipe
from kerncast.models.sm.simulate.compiled import inlined
from kerncast.models.sm.simulate.state import (
    Q_ATOMIC,
    Q_DRAM,
    Q_L1,
    Q_L2,
    Q_LSU,
    R_FMA,
    TO_ATOMIC,
    TO_LOAD,
    TO_NOTHING,
    TO_STORE,
    Code,
    Real,
    State,
    Whole,
)

#: Cycles of work that each queue takes in before warps have to wait: enough to keep what follows it busy, and about as
#: long as the latency behind it. No measurement tells them.
LSU_DEPTH, L2_DEPTH, DRAM_DEPTH, ATOMIC_DEPTH = 32.0, 1000.0, 1500.0, 200.0
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
    queues = state.queues
    free = max(state.pipes[part, LSU], queues[Q_LSU] - LSU_DEPTH)
    if group >= TO_LOAD:
        free = max(free, queues[Q_L1] - LSU_DEPTH)
    if group >= TO_STORE:
        free = max(free, queues[Q_L2] - L2_DEPTH, queues[Q_DRAM] - DRAM_DEPTH)
    if group == TO_ATOMIC:
        free = max(free, queues[Q_ATOMIC] - ATOMIC_DEPTH)
    return free
