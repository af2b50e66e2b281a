"""How an SM divides one memory between L1 and shared memory: what a program wishes, and what it gets.

Source: cudaFuncSetCacheConfig and cudaFuncAttributePreferredSharedMemoryCarveout in the CUDA runtime API; the rounding
is that of cuda_occupancy.h. What the driver does without a wish is not published: taken is the smallest size that the
resident blocks fit in, and none below the smallest that drivers were seen to choose (``least_default_carveout_kib``).
"""

import re
from dataclasses import dataclass

from kerncast.errors import InputError
from kerncast.gpu.architecture import Architecture
from kerncast.units import KIB

#: cudaFuncCachePreferL1, …Equal and …Shared, and the percentages that they mean since Volta.
_CACHE_CONFIGS = {"l1": 0, "equal": 50, "shared": 100}
_ALL = 100
_PERCENT = re.compile(r"([0-9]{1,3})\s*%")
_KIB = re.compile(r"([0-9]{1,6})\s*KiB", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CarveoutWish:
    """How much shared memory a program asks an SM to have; one of the three is given."""

    percent: int | None = None
    """of the largest carve-out, 0 to 100"""
    shared_bytes: int | None = None
    cache_config: str | None = None
    """l1, equal or shared: which part shall be larger"""


def parse_carveout(text: str) -> CarveoutWish:
    """Return the wish that a text states: ``50%``, ``64KiB``, or l1, equal or shared.

    >>> parse_carveout("50%").percent, parse_carveout("64 KiB").shared_bytes, parse_carveout("L1").cache_config
    (50, 65536, 'l1')
    """
    word = text.strip()
    if word.lower() in _CACHE_CONFIGS:
        return CarveoutWish(cache_config=word.lower())
    percent, kib = _PERCENT.fullmatch(word), _KIB.fullmatch(word)
    if percent is not None and int(percent[1]) <= _ALL:
        return CarveoutWish(percent=int(percent[1]))
    if kib is not None:
        return CarveoutWish(shared_bytes=int(kib[1]) * KIB)
    raise InputError(
        f"{text[:40]!a} is no carve-out of shared memory",
        cure="Give 0% to 100%, a size such as 64KiB, or one of l1, equal, shared.",
    )


def preferred_bytes(wish: CarveoutWish, a: Architecture) -> int | None:
    """Return the size that a wish selects: the next that the SM has; None where it has no choice or does not heed it.

    A percentage is one of the largest size, rounded down; Kepler heeds only the three sizes. 50 % of 96 KiB on 7.0:

    >>> from kerncast.gpu.architecture import load_architecture
    >>> preferred_bytes(CarveoutWish(percent=50), load_architecture("sm_70")) // 1024
    64
    """
    if a.shared_carveouts_bytes is None:
        return None
    if wish.shared_bytes is not None:
        most = a.shared_bytes_per_sm
        if wish.shared_bytes > most:
            raise InputError(
                f"a carve-out of {wish.shared_bytes // KIB} KiB is over the {most // KIB} KiB of an SM",
                where=f"compute capability {a.compute_capability}",
                cure="Give less, or a percentage.",
            )
        return _next_size(a, wish.shared_bytes)
    percent = wish.percent
    if wish.cache_config is not None:
        percent = _CACHE_CONFIGS[wish.cache_config]
        if a.heeds_carveout_percent is False:
            sizes = a.shared_carveouts_bytes
            return sizes[(len(sizes) - 1) * percent // _ALL]
    if percent is None or a.heeds_carveout_percent is False:
        return None
    return _next_size(a, percent * a.shared_bytes_per_sm // _ALL)


def granted_bytes(a: Architecture, preferred: int | None, needed: int) -> int:
    """Return the shared memory that an SM can have, for blocks that need so much each, and a preferred size.

    Without a preference it is the largest. Where one block needs more than was preferred, it is the next size that
    holds one block; on Kepler the largest.
    """
    if preferred is None or a.shared_carveouts_bytes is None:
        return a.shared_bytes_per_sm
    if preferred >= needed:
        return preferred
    return a.shared_bytes_per_sm if a.heeds_carveout_percent is False else _next_size(a, needed)


def default_bytes(a: Architecture, needed: int) -> int | None:
    """Return the size that the driver is taken to choose where resident blocks need so much; None: it has no choice."""
    if a.shared_carveouts_bytes is None:
        return None
    return _next_size(a, max(needed, a.least_default_carveout_bytes or 0))


def _next_size(a: Architecture, least: int) -> int:
    assert a.shared_carveouts_bytes is not None
    return next((size for size in a.shared_carveouts_bytes if size >= least), a.shared_bytes_per_sm)
