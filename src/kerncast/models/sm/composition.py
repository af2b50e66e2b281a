"""From some blocks on one SM to the whole grid: waves, tail, and the floors that bandwidth sets."""

from dataclasses import dataclass

import numpy as np

from kerncast.models.sm.results import Simulated


@dataclass(frozen=True, slots=True)
class Share:
    """What the busiest SM has to do, and how much of it is simulated."""

    blocks: int
    """that this SM gets"""
    active_sms: int
    """that get at least one"""
    simulated: int


def share_of(grid_blocks: int, sms: int, resident: int, waves: int) -> Share:
    """Return the work of the busiest SM and how many of its blocks to simulate.

    All of them where they are few; else some whole waves and a last one as full as the launch's last one.
    """
    blocks = -(-grid_blocks // sms)
    simulated = blocks
    if blocks > (waves + 1) * resident:
        simulated = waves * resident + (blocks % resident or resident)
    return Share(blocks, min(sms, grid_blocks), simulated)


def cycles_of(simulated: Simulated, share: Share, resident: int, floor_cycles_per_block: float) -> float:
    """Return the cycles of all blocks of the busiest SM.

    T = t(simulated) + (blocks - simulated) x max(slope, floor); the slope is that of the blocks after the first wave.
    """
    finish = simulated.finish_cycles
    done = len(finish)
    left = share.blocks - done
    if left <= 0:
        return float(finish[-1])
    return float(finish[-1]) + left * max(slope(finish, resident), floor_cycles_per_block)


def slope(finish: np.ndarray[tuple[int], np.dtype[np.float64]], resident: int) -> float:
    """Return cycles per block in the steady state: between the ends of the first wave and of the last whole one."""
    done = len(finish)
    whole = done // resident * resident
    if whole > resident:
        return float(finish[whole - 1] - finish[resident - 1]) / (whole - resident)
    return float(finish[-1]) / done
