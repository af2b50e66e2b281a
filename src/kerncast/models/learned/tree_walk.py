"""The walk of many rows through trees, for numba: Python alone would take minutes for a million rows.

Each node parts the rows that reach it into those that go left and those that go right. Neither way depends on the one
before, so that the processor never waits for a guess, as it does where each row walks alone.
"""

from typing import Any

import numpy as np


def add_leaves(nodes: Any, leaves: Any, roots: Any, columns: Any, totals: Any) -> None:
    """Add to each row's total the value of its leaf in each tree.

    ``nodes`` are (threshold, right, feature), a leaf its own right child; ``columns`` are values [features, rows]. All
    indices are unsigned: numba then looks for no negative ones.
    """
    one = np.uint64(1)
    rows = np.uint64(columns.shape[1])
    order = np.empty(columns.shape[1], np.uint32)
    moved = np.empty(columns.shape[1], np.uint32)
    # Each entry that waits has a row of its own at least.
    waiting = np.empty((columns.shape[1] + 1, 3), np.uint64)
    for tree in range(len(roots)):
        for row in range(rows):
            order[row] = np.uint32(row)
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = np.uint64(roots[tree]), np.uint64(0), rows
        top = one
        while top > np.uint64(0):
            top -= one
            at, start, end = waiting[top, 0], waiting[top, 1], waiting[top, 2]
            while np.uint64(nodes[at].right) != at:
                threshold, column = nodes[at].threshold, columns[np.uint64(nodes[at].feature)]
                left, right = start, np.uint64(0)
                for place in range(start, end):
                    row = order[place]
                    goes_left = np.uint64(column[row] <= threshold)
                    order[left], moved[right] = row, row
                    left, right = left + goes_left, right + one - goes_left
                for place in range(right):
                    order[left + place] = moved[place]
                if left > start and left < end:
                    waiting[top, 0], waiting[top, 1], waiting[top, 2] = np.uint64(nodes[at].right), left, end
                    top, end = top + one, left
                at = at + one if left > start else np.uint64(nodes[at].right)
            for place in range(start, end):
                totals[order[place]] += leaves[at]
