"""CUDA libraries, computed on the CPU: what a program calls is looked up by name."""

import numpy as np

from kerncast.device.libraries import blas, fft, random
from kerncast.device.libraries.operands import Arguments, Called, StatusError
from kerncast.errors import MachineLimitError, UnsupportedError
from kerncast.execute.live import LiveMemory
from kerncast.recording import LibraryCall

__all__ = ["Called", "call_library"]

_FUNCTIONS = {**blas.FUNCTIONS, **fft.FUNCTIONS, **random.FUNCTIONS}


def call_library(name: str, operands: bytes, memory: LiveMemory) -> Called:
    """Do what a call of a library asks for.

    Raises UnsupportedError for a function that is not there or operands that are not its own, IllegalAddress for
    pointers that lead to no allocation, and MachineLimitError for what is too large for this machine.
    """
    if name not in _FUNCTIONS:
        raise UnsupportedError(f"{name[:100]} is not there")
    form, routine = _FUNCTIONS[name]
    call = Arguments(operands, memory, form)
    try:
        with np.errstate(all="ignore"):  # numbers that overflow do so on a GPU, too
            work = routine(call)
        call.end()
    except StatusError as error:
        return Called(error.status)
    except MemoryError:
        raise MachineLimitError("the call needs more memory than there is", cure="Use a smaller problem.") from None
    if work is None:
        return Called()
    return Called(0, LibraryCall(name, work.operator, work.operations, work.nbytes, work.double))
