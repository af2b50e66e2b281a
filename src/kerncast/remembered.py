"""Keeps the last results of pure functions of frozen values, which are told apart by identity.

A GPU or a profile is large: comparing or hashing one takes longer than most of what is computed from it.
"""

# Which way to remember, of those that this project uses:
#
# - ``functools.cache``: what a data file or the machine says. It takes no argument, or a name of which there are few.
# - ``functools.lru_cache(maxsize=...)``: a function of texts, bytes or small values, of which a user's files may hold
#   any number. They are compared by value.
# - ``remembered``: a function of large frozen values (a GPU, a profile). They are told apart by identity: whoever calls
#   it with equal values made anew computes again.
# - ``cached_property``: what a value works out of its own fields alone. Never what runs a kernel or reads a file.
# - The store on disk (``compile/cache``): what takes seconds and must outlive the process. Its key is a digest of
#   everything that decides the result, our own code among it. What numba compiles lies there, too (``jit_cache``):
#   never ``njit(cache=True)``.
#
# Nothing else: a dict in a module or in a class would have no bound and no rule of what makes two keys equal.

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: Told apart by value: small, and often made anew.
_BY_VALUE = (bool, int, float, str, tuple, frozenset, type(None))


def remembered(most: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep so many results of a function; the oldest one goes first.

    >>> @remembered(2)
    ... def doubled(number: int) -> list[int]:
    ...     return [2 * number]
    >>> doubled(3) is doubled(3), doubled(4), doubled(5), doubled(3)
    (True, [8], [10], [6])
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept: dict[tuple[object, ...], tuple[object, T]] = {}

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            values = (*args, *kwargs.items())
            key = tuple([each if isinstance(each, _BY_VALUE) else id(each) for each in values])
            found = kept.get(key)
            if found is None:
                while len(kept) >= most:
                    kept.pop(next(iter(kept)), None)
                # What the key names by its identity must live as long as the key does.
                found = kept[key] = (args, function(*args, **kwargs))
            return found[1]

        return call

    return decorate
