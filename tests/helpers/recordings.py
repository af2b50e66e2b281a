"""Recordings written by hand or drawn by chance, for the tests of what reads them."""

from collections.abc import Iterable, Sequence

import numpy as np

from kerncast.traces import LAST_SHIFT, MASK_SHIFT, OPERATION_SHIFT, SEGMENT, End, Operation, Recording

ALL = 0b1111
"""every sector of a line"""

Request = tuple[Operation, Sequence[tuple[int, int]]]
"""what is done to which lines, with the mask of each one's sectors"""
Segment = Sequence[Request]
Warp = Sequence[Segment]
"""segments between barriers"""


def recorded(blocks: Sequence[Sequence[Warp]], local_lines: int = 8) -> Recording:
    """Return the recording of blocks whose warps do these requests."""
    events: list[int] = []
    segments = []
    for row, block in enumerate(blocks):
        for number, warp in enumerate(block):
            for position, segment in enumerate(warp, start=1):
                start = len(events)
                for operation, lines in segment:
                    events += [line | mask << MASK_SHIFT | operation << OPERATION_SHIFT for line, mask in lines]
                    events[-1] |= 1 << LAST_SHIFT
                end = End.EXIT if position == len(warp) else End.BARRIER
                segments.append((row, number, start, len(events), end, 0))
    ids, table = np.arange(len(blocks), dtype=np.int64), np.array(segments, SEGMENT)
    return Recording(ids, len(blocks[0]), local_lines, np.array(events, np.uint64), table)


def each(operation: Operation, lines: Iterable[int], mask: int = ALL) -> list[Request]:
    """Return one request for each line."""
    return [(operation, [(line, mask)]) for line in lines]


def between_barriers(recording: Recording) -> dict[tuple[int, int], list[list[int]]]:
    """Return the events of each (block, warp), cut where it waited at a barrier; other cuts are free."""
    found: dict[tuple[int, int], list[list[int]]] = {}
    ended = set()
    for row, number, start, stop, end, _ in recording.segments.tolist():
        key = (int(recording.block_ids[row]), number)
        assert key not in ended, "nothing follows the end of a warp"
        found.setdefault(key, [[]])[-1].extend(recording.events[start:stop].tolist())
        if end == End.BARRIER:
            found[key].append([])
        if end == End.EXIT:
            ended.add(key)
    assert ended == set(found) == {(int(b), w) for b in recording.block_ids for w in range(recording.warps)}
    return found


def random_recording(seed: int, blocks: int = 9, warps: int = 3) -> Recording:
    """Return blocks with requests of all kinds between barriers, which some warps do not reach; some are idle."""
    rng = np.random.default_rng(seed)

    def request() -> Request:
        operation = Operation(int(rng.integers(Operation.SHARED_LOAD)))
        most = 8 if operation in {Operation.LOCAL_LOAD, Operation.LOCAL_STORE} else 60
        lines = rng.choice(most, rng.integers(1, 5), replace=False).tolist()
        return operation, [(line, int(rng.integers(1, ALL + 1))) for line in lines]

    def warp(*, is_idle: bool) -> Warp:
        most = 1 if is_idle else 7
        return [[request() for _ in range(rng.integers(0, most))] for _ in range(rng.integers(1, 5))]

    idle = rng.random(blocks) < rng.choice([0, 0.3, 0.7])
    return recorded([[warp(is_idle=bool(block)) for _ in range(warps)] for block in idle])
