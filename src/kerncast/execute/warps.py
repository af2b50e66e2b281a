"""The SIMT stack: which lanes of each warp run, and where diverged lanes meet again.

Every warp has a stack of (block, meeting block, lanes). A branch that splits a warp turns the top entry into the
meeting point at the immediate post-dominator and pushes one entry per side; an entry that reaches its meeting
point is popped. Source: Fung, Sham, Yuan, Aamodt, "Dynamic Warp Formation and Scheduling", MICRO 2007, section 3.
"""

import numpy as np
import numpy.typing as npt

from kerncast.ptx.cfg import ControlFlowGraph

Lanes = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]

_NOWHERE = -1


class WarpStacks:
    """The stacks of all warps of a batch, as arrays [warps, depth]."""

    def __init__(self, lanes: Lanes, cfg: ControlFlowGraph) -> None:
        warps = lanes.shape[0]
        self._exit = cfg.exit
        self._meet = np.array([*cfg.post_dominators, cfg.exit], np.int64)
        self.depth = np.zeros(warps, np.int64)
        self._block = np.zeros((warps, 4), np.int64)
        self._meeting = np.full((warps, 4), _NOWHERE, np.int64)
        self._lanes = np.zeros((warps, 4, 32), np.bool_)
        self._lanes[:, 0] = lanes
        self.current = np.zeros(warps, np.int64)
        """block that each warp runs next; the exit when it has ended"""
        self.jump(np.flatnonzero(~lanes.any(axis=1)), self._exit)

    @property
    def ended(self) -> npt.NDArray[np.bool_]:
        """Which warps have ended."""
        return self.current == self._exit

    def active(self, warps: Index) -> Lanes:
        """Return the lanes [warps, 32] on top of the stacks."""
        return self._lanes[warps, self.depth[warps]]

    def jump(self, warps: Index, block: int) -> None:
        """Send all active lanes of these warps to one block."""
        self._block[warps, self.depth[warps]] = block
        self._settle(warps)

    def branch(self, warps: Index, here: int, sides: list[tuple[int, Lanes]]) -> Index:
        """Send the active lanes of these warps to several blocks; returns the warps that were split.

        ``sides`` gives per target block the lanes [warps, 32]; together they are the active lanes.
        """
        taken = np.array([lanes.any(axis=1) for _, lanes in sides])
        for (target, _), only in zip(sides, taken & (taken.sum(axis=0) == 1), strict=True):
            self._block[warps[only], self.depth[warps[only]]] = target
        split = taken.sum(axis=0) > 1
        divided = warps[split]
        if len(divided):
            self._divide(divided, int(self._meet[here]), [(t, lanes[split]) for t, lanes in sides])
        self._settle(warps)
        return divided

    def _divide(self, warps: Index, meeting: int, sides: list[tuple[int, Lanes]]) -> None:
        # The entry below waits at the meeting point already when it has the same one: replace, don't stack.
        same = self._meeting[warps, self.depth[warps]] == meeting
        self._block[warps[~same], self.depth[warps[~same]]] = meeting
        self.depth[warps[same]] -= 1
        for target, lanes in reversed(sides):
            if target == meeting:
                continue
            some = lanes.any(axis=1)
            self._push(warps[some], target, meeting, lanes[some])

    def _push(self, warps: Index, block: int, meeting: int, lanes: Lanes) -> None:
        self.depth[warps] += 1
        if len(warps) and self.depth[warps].max() >= self._block.shape[1]:
            self._block = np.concatenate([self._block, self._block], axis=1)
            self._meeting = np.concatenate([self._meeting, self._meeting], axis=1)
            self._lanes = np.concatenate([self._lanes, self._lanes], axis=1)
        top = self.depth[warps]
        self._block[warps, top] = block
        self._meeting[warps, top] = meeting
        self._lanes[warps, top] = lanes

    def _settle(self, warps: Index) -> None:
        """Pop entries that have reached their meeting point, then note where each warp stands."""
        waiting = warps
        while len(waiting):
            top = self.depth[waiting]
            arrived = (top > 0) & (self._block[waiting, top] == self._meeting[waiting, top])
            waiting = waiting[arrived]
            self.depth[waiting] -= 1
        self.current[warps] = self._block[warps, self.depth[warps]]
