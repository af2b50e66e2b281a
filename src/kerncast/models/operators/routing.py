"""How tokens spread over experts, and what the busiest of the GPUs that share them gets.

The popularity w of experts follows a power law, drawn by inverting its distribution, as the collector of the measured
data does:

    w = (low^a + u (high^a - low^a))^(1 / a),  a = 1 - exponent,  u uniform in (0, 1),

from 1 to 0.8 tokens, or from 0.01 to 2 where fewer rows than experts are to be spread. An expert gets
w / sum(w) x tokens x topk rows, rounded, and no more than there are tokens. What is left goes to the most popular
first, or is taken from them, at most three rows each: more of one expert's rows are lost, as in the collector. All
numbers are means of five draws, always the same ones. Balanced routing has a closed form. Fails where a network's
router is trained: real loads are correlated between layers and follow the text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.models.operators.operator_work import Floats

#: Rows of the tiles that libraries have; each is twice the one before.
TILE_ROWS = (16, 32, 64, 128, 256)
_DRAWS, _SEED = 5, 0
#: More experts are taken as so many, each standing for several.
_MOST_EXPERTS = 4096
#: Least and greatest popularity where every expert is reached, the latter as a part of the tokens; and where not.
_LEAST, _MOST_OF_TOKENS, _LEAST_OF_FEW, _MOST_OF_FEW = 1.0, 0.8, 0.01, 2.0
#: A law whose exponent is nearer to 1 is that of an exponent as near: its limit is the same, its formula is not.
_NEAREST_TO_ONE = 1e-3
#: Rounds in which what rounding leaves is spread, one row per expert and round.
_ROUNDS = 3
#: Numbers at a time: they stay in a core's cache.
_AT_ONCE = 2**16
#: Singles are enough for means of draws, and twice as fast.
_Singles = npt.NDArray[np.float32]
_Wholes = npt.NDArray[Any]
_MOST_INT32 = 2**30


@dataclass(frozen=True, slots=True)
class BusiestGPU:
    """The rows and experts of the busiest GPU, for each operator."""

    rows: Floats
    """pairs of a token and one of its experts"""
    active: Floats
    """experts that have rows"""
    largest: Floats
    """rows of the most popular expert"""
    tiles: Floats
    """[operators, TILE_ROWS]: tiles of so many rows, each of one expert"""

    def chosen(self, some: npt.NDArray[np.intp]) -> "BusiestGPU":
        """Return some of the operators'."""
        return BusiestGPU(self.rows[some], self.active[some], self.largest[some], self.tiles[some])


@dataclass(frozen=True, slots=True)
class Routing:
    """Tokens to be spread over experts, for each operator."""

    tokens: Floats
    topk: Floats
    """experts of each token"""
    experts: Floats
    gpus: Floats
    """GPUs that share the experts"""
    exponent: Floats
    """that of the power law of the experts' popularity; 0: all are as popular"""

    def busiest(self) -> BusiestGPU:
        """Return what the busiest GPU gets.

        64 tokens of 2 experts each, over 8 experts on 2 GPUs: 128 rows, 16 for each expert, 64 on each GPU.

        >>> sizes = (np.array([size]) for size in (64.0, 2.0, 8.0, 2.0, 0.0))
        >>> found = Routing(*sizes).busiest()
        >>> found.rows.item(), found.active.item(), found.largest.item(), found.tiles.tolist()
        (64.0, 4.0, 16.0, [[4.0, 4.0, 4.0, 4.0, 4.0]])
        """
        topk = np.minimum(self.topk, self.experts)
        table = np.column_stack([self.tokens, topk, self.experts, np.minimum(self.gpus, self.experts), self.exponent])
        found = _busiest(np.ascontiguousarray(table, np.float64).tobytes())
        return BusiestGPU(found[:, 0], found[:, 1], found[:, 2], found[:, 3:])


@lru_cache(maxsize=32)
def _busiest(table: bytes) -> Floats:
    """Return [operators, rows, active, largest and tiles] of a table of sizes, as bytes: a fit asks again and again."""
    sizes, places = np.unique(np.frombuffer(table, np.float64).reshape(-1, 5), axis=0, return_inverse=True)
    found = np.empty((len(sizes), 3 + len(TILE_ROWS)))
    is_balanced = sizes[:, 4] == 0
    found[is_balanced] = _balanced(sizes[is_balanced])
    for chosen in _alike(sizes, np.flatnonzero(~is_balanced)):
        found[chosen] = _drawn(sizes[chosen])
    result: Floats = found[places.reshape(-1)]
    result.setflags(write=False)
    return result


def _balanced(sizes: Floats) -> Floats:
    """Return the busiest GPU's part where all experts are as popular: some have one row more than the others."""
    tokens, topk, experts, gpus, _ = sizes.T
    own = np.maximum(experts // gpus, 1)
    each = tokens * topk // experts
    more = np.clip(np.ceil((tokens * topk - each * experts) * own / experts), 0.0, own)
    tiles = [(own - more) * np.ceil(each / rows) + more * np.ceil((each + 1) / rows) for rows in TILE_ROWS]
    active = np.where(each > 0, own, more)
    return np.column_stack([own * each + more, active, each + (more > 0), *tiles])


def _alike(sizes: Floats, chosen: npt.NDArray[np.intp]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield operators with as many experts on as many GPUs, a few at a time."""
    if not len(chosen):
        return
    _, groups = np.unique(sizes[chosen, 2:4], axis=0, return_inverse=True)
    order = np.argsort(groups.reshape(-1), kind="stable")
    for alike in np.split(chosen[order], np.flatnonzero(np.diff(groups.reshape(-1)[order])) + 1):
        most = max(1, int(_AT_ONCE / (_DRAWS * min(sizes[alike[0], 2], _MOST_EXPERTS))))
        yield from (alike[first : first + most] for first in range(0, len(alike), most))


def _drawn(sizes: Floats) -> Floats:
    """Return the busiest GPU's part of operators with as many experts on as many GPUs."""
    experts, gpus = (min(int(size), _MOST_EXPERTS) for size in sizes[0, 2:4])
    own = max(experts // gpus, 1)
    # Beyond the most experts that are drawn, each stands for several, with as many rows as each of them.
    several = max(sizes[0, 2] // sizes[0, 3], 1.0) / own
    total = sizes[:, 0] * sizes[:, 1] * (experts / sizes[0, 2])
    drawn = _counts(sizes, total, _uniform(experts))
    # Whole numbers of half the size are twice as fast.
    counts: _Wholes = drawn.astype(np.int64) if total.max() > _MOST_INT32 else drawn.astype(np.int32)
    if gpus > 1:
        counts = _of_busiest(counts, _grouped(experts, gpus), own)
    # Shifts divide; a division takes half as long as all the rest.
    tiles = (counts + (TILE_ROWS[0] - 1)) >> (TILE_ROWS[0].bit_length() - 1)
    sums = [several * tiles.sum(axis=2)]
    for _ in TILE_ROWS[1:]:
        tiles = (tiles + 1) >> 1
        sums.append(several * tiles.sum(axis=2))
    active = several * np.count_nonzero(counts, axis=2)
    columns = (several * counts.sum(axis=2), active, counts.max(axis=2), *sums)
    found: Floats = np.stack([column.mean(axis=1) for column in columns], axis=1)
    return found


def _counts(sizes: Floats, total: Floats, uniform: _Singles) -> _Singles:
    """Return the rows of each expert [operators, draws, experts], the most popular first."""
    tokens, exponent = sizes[:, 0], sizes[:, 4]
    power = 1 - exponent
    power = np.where(np.abs(power) < _NEAREST_TO_ONE, _NEAREST_TO_ONE, power)
    is_many = total > uniform.shape[1]
    high = np.where(is_many, np.maximum(_MOST_OF_TOKENS * tokens, 1.01 * _LEAST), _MOST_OF_FEW)
    span = np.log(high / np.where(is_many, _LEAST, _LEAST_OF_FEW))
    # Popularity over the least one; only its part of the sum counts.
    weight = np.expm1(power * span).astype(np.float32)[:, None, None] * uniform
    np.log1p(weight, out=weight)
    weight *= (1 / power).astype(np.float32)[:, None, None]
    np.exp(weight, out=weight)
    most = tokens.astype(np.float32)[:, None, None]
    whole = total.astype(np.float32)[:, None, None]
    weight *= whole / weight.sum(axis=2, keepdims=True)
    np.rint(weight, out=weight)
    np.minimum(weight, most, out=weight)
    return _filled(weight, most, whole)


def _filled(counts: _Singles, most: _Singles, whole: _Singles) -> _Singles:
    """Return counts, sorted downwards, whose sum is the whole as far as a few rounds can make it."""
    places = np.arange(counts.shape[2], dtype=np.float32)
    for _ in range(_ROUNDS):
        gap = whole - counts.sum(axis=2, keepdims=True)
        if not gap.any():
            break
        # Counts that can change stand together: those above nothing first, those below the most last.
        first = np.where(gap > 0, np.count_nonzero(counts >= most, axis=2, keepdims=True), 0)
        positive = np.count_nonzero(counts, axis=2, keepdims=True)
        last = np.where(gap > 0, first + gap, np.minimum(-gap, positive)).astype(np.float32)
        change = (places >= first.astype(np.float32)) & (places < last)
        counts += np.sign(gap) * change
    return counts


def _of_busiest(counts: _Wholes, places: npt.NDArray[np.intp], own: int) -> _Wholes:
    """Return the counts of the GPU with the most rows in each draw [operators, draws, own experts]."""
    drawn = counts.reshape(len(counts), -1)[:, places].reshape(len(counts), _DRAWS, -1, own)
    busiest = drawn.sum(axis=3).argmax(axis=2)
    found: _Wholes = np.take_along_axis(drawn, busiest[:, :, None, None], axis=2)[:, :, 0]
    return found


@lru_cache(maxsize=64)
def _uniform(experts: int) -> _Singles:
    """Return uniform random numbers [draws, experts], sorted downwards."""
    drawn = np.random.default_rng(_SEED).random((_DRAWS, experts))
    return -np.sort(-drawn, axis=1).astype(np.float32)


@lru_cache(maxsize=64)
def _grouped(experts: int, gpus: int) -> npt.NDArray[np.intp]:
    """Return where each expert of each GPU, in each draw, stands among all draws' experts sorted by popularity."""
    drawn = np.random.default_rng(_SEED).random((_DRAWS, experts))
    ranks = np.argsort(np.argsort(-drawn, axis=1), axis=1) + experts * np.arange(_DRAWS)[:, None]
    return np.ravel(ranks[:, : experts // gpus * gpus])
