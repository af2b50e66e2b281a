"""The code of a whole source, for those who name no kernel of it."""

import re
from dataclasses import replace

from kerncast.bounded_file import Bound, read_bytes
from kerncast.compile import CompileRequest, compile_request
from kerncast.errors import CompileError
from kerncast.units import MIB

_KERNEL = re.compile(r"__global__\b[^;{}()]*?(?:__launch_bounds__\s*\([^)]*\)[^;{}()]*?)?\b(\w+)\s*\(")
_MOST_KERNELS = 20
_SOURCE = Bound(16 * MIB)


def ptx_of_source(request: CompileRequest) -> str:
    """Return the PTX of a source: that of any kernel holds all others that are no templates, and all variables.

    Raises CompileError where there is none.
    """
    text = read_bytes(request.source, _SOURCE).decode("utf-8", "replace")
    error = CompileError("no kernel is in it", where=str(request.source), cure="-ptx compiles kernels.")
    for name in list(dict.fromkeys(_KERNEL.findall(text)))[:_MOST_KERNELS]:
        try:
            return compile_request(replace(request, kernel=name)).kernels[0].ptx
        except CompileError as found:
            error = found
    raise error
