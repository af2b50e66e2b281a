"""Loads what numba has compiled without loading what numba does not need for it."""

import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_BLAS = "scipy.linalg.cython_blas"
_ASKS, _ANSWER = "numba.np.arraymath", "_HAVE_BLAS"


@contextmanager
def without_blas() -> Iterator[None]:
    """Keep numba from loading scipy.linalg, which takes a tenth of a second, only to learn whether it is there.

    numba learns so when it loads its first compiled function; the simulator multiplies no matrices. Afterwards numba
    knows again what is true. Nothing is done where another thread could be importing the same at this time.
    """
    if _BLAS in sys.modules or _ASKS in sys.modules or not _is_alone():
        yield
        return
    sys.modules[_BLAS] = None  # type: ignore[assignment]  # this is how an import is made to fail
    try:
        yield
    finally:
        sys.modules.pop(_BLAS, None)
        known = vars(sys.modules.get(_ASKS, sys))
        if _ANSWER in known:
            known[_ANSWER] = importlib.util.find_spec("scipy") is not None


def _is_alone() -> bool:
    """Whether this is the only thread, but for those that wait until they show how far the work is."""
    return all(
        isinstance(each, threading.Timer) or each is threading.current_thread() for each in threading.enumerate()
    )
