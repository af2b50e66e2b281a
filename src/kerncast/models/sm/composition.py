"""From some blocks on one SM to the whole grid: waves, tail, and the floors that bandwidth sets."""

from dataclasses import dataclass

from kerncast.models.sm.results import Simulated


@dataclass(frozen=True, slots=True)
class SMLoad:
    """Blocks of the busiest SM, and how many of them are simulated."""

    blocks: int
    """blocks that this SM gets"""
    active_sms: float
    """SMs that compete for L2 and DRAM on average, if all had as many blocks as this one"""
    simulated: int
    """blocks that are simulated"""


def load_of(grid_blocks: int, sms: int, resident: int, waves: int) -> SMLoad:
    """Return the work of the busiest SM and how many of its blocks to simulate.

    All of them where they are few; else some whole waves and a last one as full as the launch's last one. The tail is
    simulated, not scaled: an SM that is half empty is not half as fast.

    >>> load_of(1000, 10, 8, 2)
    SMLoad(blocks=100, active_sms=10.0, simulated=20)
    """
    blocks = -(-grid_blocks // sms)
    simulated = blocks
    if blocks > (waves + 1) * resident:
        simulated = waves * resident + (blocks % resident or resident)
    return SMLoad(blocks, grid_blocks / blocks, simulated)


def cycles_of(simulated: Simulated, load: SMLoad, resident: int, floor_cycles_per_block: float, work: float) -> float:
    """Return the cycles of all blocks of the busiest SM.

    T = t(simulated) + (blocks - simulated) x max(slope x work, floor), where ``work`` is what a block of the grid does
    over what a simulated one does. The floor is the time that bandwidth needs: two waves may still run from queues that
    have room, all others cannot (1.9 points of MAPE in the timing study).
    """
    finish = simulated.finish_cycles
    left = load.blocks - len(finish)
    if left <= 0:
        return float(finish[-1]) * max(1.0, work)
    return float(finish[-1]) + left * max(slope(simulated, resident) * work, floor_cycles_per_block)


def slope(simulated: Simulated, resident: int) -> float:
    """Return cycles per block in the steady state: while all slots hold a block, from the end of the first one on.

    Blocks that run in step end in waves, others one after the other: counted are the micro-ops issued meanwhile, since
    the number of ends in between says little about the work done.
    """
    finish, issued = simulated.finish_cycles, simulated.issued_at_finish
    done = len(finish)
    per_block = issued[-1] / done
    full_until = done - resident
    if full_until >= 1 and issued[full_until] - issued[0] >= resident * per_block / 2:
        return float((finish[full_until] - finish[0]) / (issued[full_until] - issued[0]) * per_block)
    return float(finish[-1]) / done
