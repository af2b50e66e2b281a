"""cuRAND's host interface: numbers of the distributions asked for, the same ones for the same seed and offset.

Pseudorandom numbers are those of Philox 4x64 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011),
whatever generator was asked for, with the generator as a part of the key: not the sequences of NVIDIA's. Each number
is made of its own 64 random bits, so that sequences can be begun anywhere. Quasirandom numbers are Sobol's, with the
direction numbers of Joe and Kuo (SIAM J. Sci. Comput. 30 (2008) 2635); scrambled ones are shifted digit by digit.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.device.libraries.operands import (
    DOUBLE,
    SINGLE,
    UINT32,
    UINT64,
    Arguments,
    Array,
    Format,
    Routine,
    Work,
    require,
)

_TYPE_ERROR, _OUT_OF_RANGE, _LENGTH_NOT_MULTIPLE = 103, 104, 105
_KINDS, _FIRST_QUASI, _SOBOL64 = {101, 121, 141, 142, 161, 201, 202, 203, 204}, 200, {203, 204}
_SCRAMBLED = {202, 204}
#: Numbers that are made at a time.
_AT_ONCE = 2**20
_WORDS_PER_BLOCK = 4
_WORD_BITS, _HALF_BITS, _REAL_BITS = 64, 32, 52
#: Poisson numbers lie within so many deviations of their mean, to 1e-30.
_DEVIATIONS = 12.0
_MOST_MEAN = 2.0**31
_MOST_DIMENSIONS = 20_000

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _Generator:
    kind: int
    seed: int
    offset: int
    dimensions: int

    @property
    def is_quasi(self) -> bool:
        return self.kind >= _FIRST_QUASI

    def words(self, first: int, count: int) -> Words:
        """Return 64 random bits for each number from a place on."""
        start = self.offset + first
        skipped = start % _WORDS_PER_BLOCK
        key = (self.kind << _WORD_BITS) | self.seed
        source = np.random.Philox(key=key, counter=start // _WORDS_PER_BLOCK)
        return np.asarray(source.random_raw(count + skipped), np.uint64)[skipped:]

    def points(self, count: int) -> Words:
        """Return the numbers of each dimension, one dimension after the other, as 64 bits."""
        from scipy.stats import qmc  # noqa: PLC0415  takes a second

        bits = _WORD_BITS if self.kind in _SOBOL64 else _HALF_BITS
        source = qmc.Sobol(self.dimensions, scramble=False, bits=bits)
        if self.offset:  # SciPy's cannot go on by nothing
            source.fast_forward(self.offset)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of counts that are no power of 2
            found = source.random(count)
        # The numbers are below 1: as doubles they keep 53 of their bits.
        whole = np.ldexp(found, _REAL_BITS + 1).astype(np.uint64) << np.uint64(_WORD_BITS - _REAL_BITS - 1)
        if self.kind in _SCRAMBLED:
            whole ^= _Generator(self.kind, self.seed, 0, 1).words(0, self.dimensions)
        return np.ascontiguousarray(whole.T).reshape(-1)


def _uniform(words: Words, _: float, __: float) -> Array:
    """Return numbers above 0 and up to 1, of 32 bits."""
    return (words >> np.uint64(_HALF_BITS)) * 2.0**-32 + 2.0**-33


def _open(words: Words) -> npt.NDArray[np.float64]:
    """Return numbers between 0 and 1, of 52 bits, of which none is 0 or 1."""
    upper = (words >> np.uint64(_WORD_BITS - _REAL_BITS)).astype(np.float64)
    return (upper + 0.5) * 2.0**-_REAL_BITS


def _uniform_double(words: Words, _: float, __: float) -> Array:
    return _open(words)


def _normal(words: Words, mean: float, deviation: float) -> Array:
    from scipy.special import ndtri  # noqa: PLC0415  takes a while, and few programs need it

    found: Array = mean + deviation * ndtri(_open(words))
    return found


def _log_normal(words: Words, mean: float, deviation: float) -> Array:
    return np.exp(_normal(words, mean, deviation))


def _poisson(words: Words, mean: float, _: float) -> Array:
    """Return the smallest numbers whose cumulative probabilities reach the uniform ones."""
    from scipy.special import pdtr  # noqa: PLC0415  takes a while, and few programs need it

    reach = _DEVIATIONS * mean**0.5 + 2 * _DEVIATIONS
    first = max(0, int(mean - reach))
    cumulative = pdtr(np.arange(first, int(mean + reach) + 1, dtype=np.float64), mean)
    return first + np.searchsorted(cumulative, _open(words))


def _whole(words: Words, _: float, __: float) -> Array:
    return words >> np.uint64(_HALF_BITS)


def _long(words: Words, _: float, __: float) -> Array:
    return words


_Make = Callable[[Words, float, float], Array]


@dataclass(frozen=True, slots=True)
class _Distribution:
    """How numbers are made of random bits, and what they are stored as."""

    form: Format
    make: _Make
    in_pairs: bool = False
    is_poisson: bool = False

    def __call__(self, call: Arguments) -> Work | None:
        """Generate."""
        kind, seed, offset, dimensions, of_host = call.integers(5)
        address, count = call.pointer(), call.integer()
        first, second = float(call.scalar(DOUBLE)), float(call.scalar(DOUBLE))
        mask = 2**_WORD_BITS - 1
        generator = _Generator(kind, seed & mask, offset & mask, dimensions)
        self._check(generator, count, first)
        place = call.memory.vector(address, count, 1, self.form)
        for start in range(0, count, _AT_ONCE):
            call.go_on()
            part = place[start : start + _AT_ONCE]
            if not generator.is_quasi:
                self._put(part, generator.words(start, len(part)), first, second)
        if generator.is_quasi:
            self._put(place, generator.points(count // dimensions), first, second)
        nbytes = float(count * self.form.nbytes)
        return None if of_host else Work(0.0, nbytes, "", self.form is DOUBLE)

    def _put(self, place: Array, words: Words, first: float, second: float) -> None:
        place[...] = self.make(words, first, second).astype(self.form.stored)

    def _check(self, generator: _Generator, count: int, mean: float) -> None:
        is_long = self.form is UINT64
        require(generator.kind in _KINDS, status=_TYPE_ERROR)
        if self.form in {UINT32, UINT64} and not self.is_poisson:
            require(is_long == (generator.kind in _SOBOL64), status=_TYPE_ERROR)
        require(1 <= generator.dimensions <= _MOST_DIMENSIONS, count >= 0, status=_OUT_OF_RANGE)
        require(count % generator.dimensions == 0, status=_LENGTH_NOT_MULTIPLE)
        require(not self.in_pairs or generator.is_quasi or count % 2 == 0, status=_LENGTH_NOT_MULTIPLE)
        require(not self.is_poisson or 0 < mean < _MOST_MEAN, status=_OUT_OF_RANGE)


_ROUTINES: Mapping[str, Routine] = {
    "": _Distribution(UINT32, _whole),
    "LongLong": _Distribution(UINT64, _long),
    "Uniform": _Distribution(SINGLE, _uniform),
    "UniformDouble": _Distribution(DOUBLE, _uniform_double),
    "Normal": _Distribution(SINGLE, _normal, in_pairs=True),
    "NormalDouble": _Distribution(DOUBLE, _normal, in_pairs=True),
    "LogNormal": _Distribution(SINGLE, _log_normal, in_pairs=True),
    "LogNormalDouble": _Distribution(DOUBLE, _log_normal, in_pairs=True),
    "Poisson": _Distribution(UINT32, _poisson, is_poisson=True),
}
#: Format and routine of each function, by its name.
FUNCTIONS: Mapping[str, tuple[Format, Routine]] = {
    f"curandGenerate{name}": (SINGLE, routine) for name, routine in _ROUTINES.items()
}
