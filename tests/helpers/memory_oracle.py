"""What a warp's access to memory costs, by brute force from the definitions; nothing here is shared with an engine.

A request is what the active lanes of one warp access by one instruction: (lane, first byte, bytes) for each.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

Request = Sequence[tuple[int, int, int]]


def sectors(request: Request) -> int:
    """Count the distinct 32-byte sectors of all bytes in global memory."""
    return len({byte // 32 for _, first, size in request for byte in range(first, first + size)})


def lines(request: Request) -> int:
    """Count the distinct 128-byte lines of all bytes in global memory."""
    return len({byte // 128 for _, first, size in request for byte in range(first, first + size)})


def local_places(request: Request) -> list[int]:
    """Return where the bytes of private memory lie in the memory of the warp, lane by lane."""
    return [
        byte // 4 * 128 + 4 * lane + byte % 4 for lane, first, size in request for byte in range(first, first + size)
    ]


def local_sectors(request: Request) -> int:
    return len({place // 32 for place in local_places(request)})


def local_lines(request: Request) -> int:
    return len({place // 128 for place in local_places(request)})


def contention(request: Request) -> int:
    """Return how many lanes have the most frequent address."""
    return max(Counter(first for _, first, _ in request).values(), default=0)


def addresses(request: Request) -> int:
    """Count the distinct addresses."""
    return len({first for _, first, _ in request})


def groups(request: Request) -> list[Request]:
    """Return the lanes that shared memory serves together, groups without lanes left out."""
    size = request[0][2] if request else 4
    lanes_together = {8: 16, 16: 8, 32: 4}.get(size, 32)
    if size in {8, 16} and (_pairs_agree(request, 1) or _pairs_agree(request, 2)):
        lanes_together *= 2
    parts = [[one for one in request if one[0] // lanes_together == n] for n in range(32 // lanes_together)]
    return [part for part in parts if part]


def wavefronts(request: Request, *, atomic: bool = False) -> int:
    """Count the passes of shared memory."""
    return sum(_passes(group, atomic=atomic) for group in groups(request))


def conflicts(request: Request, *, atomic: bool = False) -> int:
    """Count the passes beyond one for each group of lanes."""
    return wavefronts(request, atomic=atomic) - len(groups(request))


def events(request: Request, *, local: bool = False) -> list[tuple[int, int]]:
    """Return (line, mask of its sectors) of the lines that a request touches, in the order in which they turn up."""
    places = local_places(request) if local else [first for _, first, _ in request]
    masks: dict[int, int] = {}
    for place in places:
        masks[place // 128] = masks.get(place // 128, 0) | 1 << place // 32 % 4
    return list(masks.items())


def _pairs_agree(request: Request, distance: int) -> bool:
    address = {lane: first for lane, first, _ in request}
    return all(address.get(lane ^ distance, first) == first for lane, first, _ in request)


def _passes(group: Request, *, atomic: bool) -> int:
    """Return how much the busiest bank has to do."""
    words = [(lane, word) for lane, first, size in group for word in range(first // 4, (first + size - 1) // 4 + 1)]
    wanted: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for lane, word in words:
        wanted[word % 32].add((lane if atomic else 0, word))
    return max((len(asked) for asked in wanted.values()), default=0)
