"""What host code puts into device memory before a launch: zeros, or something else."""

from kerncast.compile.host.memory import Memory
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.values import Values

_SETTING = {"cudaMemset", "cudaMemsetAsync", "hipMemset", "hipMemsetAsync"}
_COPYING = {"cudaMemcpy", "cudaMemcpyAsync", "hipMemcpy", "hipMemcpyAsync", "cudaMemcpy2D", "copy", "copy_n"}


class Contents:
    """The allocations that only zeros are put into."""

    def __init__(self, values: Values) -> None:
        self._zeroed: set[tuple[int, ...]] = set()
        self._other: set[tuple[int, ...]] = set()
        for call in values.program.every_call:
            if call.name in _SETTING | _COPYING and call.arguments:
                values.begin()
                try:
                    target = values.pointers.value(call.arguments[0], None)
                    is_zero = call.name in _SETTING and values.number(call.arguments[1], None) == 0
                except (Undecided, LookupError, RecursionError):
                    continue
                if isinstance(target, Memory):
                    (self._zeroed if is_zero else self._other).add(target.site)

    def are_zero(self, memory: Memory) -> bool:
        """Whether nothing but zeros was put into an allocation."""
        return (memory.is_zero or memory.site in self._zeroed) and memory.site not in self._other
