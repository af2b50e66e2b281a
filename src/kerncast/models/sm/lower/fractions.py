"""Turns average numbers of micro-ops into whole ones: error diffusion over a basic block.

An instruction gets the nearest whole number of micro-ops to its average and what is left over from those before it, of
the kinds that are owed most. What is left at the end of a block becomes micro-ops that run in a part of the block's
executions, so that the sum over executions is the average, kind by kind.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from kerncast.models.sm.lower.operation_costs import Cost
from kerncast.models.sm.micro_ops import FULL_WEIGHT

_HALF = 0.5

Average = tuple[tuple[Cost, float], ...]


@dataclass(slots=True)
class Share:
    """One micro-op of an instruction, and in which executions of its block it runs."""

    cost: Cost
    weight: int = FULL_WEIGHT
    phase: int = 0


class Diffusion:
    """The micro-ops of block after block; phases spread what runs seldom over the micro-ops of all blocks."""

    def __init__(self) -> None:
        self._given: dict[Cost, int] = defaultdict(int)

    def whole(self, averages: Iterable[Average]) -> list[list[Share]]:
        """Return the micro-ops of each instruction of a block, from its average numbers."""
        owed: dict[Cost, float] = {}
        last: dict[Cost, int] = {}
        latest: dict[Cost, Share] = {}
        left = 0.0
        shares: list[list[Share]] = []
        for number, average in enumerate(averages):
            for cost, times in average:
                owed[cost] = owed.get(cost, 0.0) + times
                last[cost] = number
                left += times
            own: list[Share] = []
            for _ in range(math.floor(left + _HALF)):
                cost = max(owed, key=lambda each: owed[each])
                owed[cost] -= 1.0
                left -= 1.0
                own.append(Share(cost))
                latest[cost] = own[-1]
            shares.append(own)
        for cost, times in owed.items():
            if times < 0:
                self._reduce(latest[cost], -times)
            else:
                shares[last[cost]] += self._parts(cost, times)
        return [[share for share in own if share.weight] for own in shares]

    def _reduce(self, share: Share, times: float) -> None:
        share.weight -= round(times * FULL_WEIGHT)
        self._place(share)

    def _parts(self, cost: Cost, times: float) -> list[Share]:
        found = [Share(cost) for _ in range(int(times))]
        part = Share(cost, round((times - int(times)) * FULL_WEIGHT))
        self._place(part)
        return [*found, part]

    def _place(self, share: Share) -> None:
        """Set the phase: in first executions, every FULL_WEIGHT of weights one micro-op runs."""
        if share.weight < FULL_WEIGHT:
            share.phase = (-self._given[share.cost] - 1) % FULL_WEIGHT
            self._given[share.cost] += share.weight
