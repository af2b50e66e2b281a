"""The 64 bits of an mbarrier as both engines keep them, and what is said of one that nobody can use so.

From the lowest: 20 bits of pending arrivals, 20 of those that each phase expects, 21 of bytes that are to come
(signed), whether an odd number of pairs of phases is over, whether it is initialised, and the parity of the phase. The
coding is our own, as NVIDIA's is not documented.
Source of the ranges: Parallel Thread Execution ISA 8.8, section 9.7.13.15.2.
"""

from collections.abc import Mapping

from kerncast.errors import KernelFault
from kerncast.execute.setup.layout import Program
from kerncast.ptx import Instruction, Operand, Vector

COUNT_BITS, BYTES_BITS = 20, 21
BYTES_SHIFT, PAIR_SHIFT, VALID_SHIFT, PHASE_SHIFT = 2 * COUNT_BITS, 61, 62, 63
#: Most arrivals, and most bytes that may be missing or too many.
MOST = (1 << COUNT_BITS) - 1
_HALF_BYTES = 1 << BYTES_BITS - 1

#: Bytes of the answer to a request for a cluster that has not begun (clusterlaunchcontrol).
#:
#: PTX leaves them opaque. Here the lowest bit says whether it is granted, and three words behind the first are the
#: place of the cluster's first block. None is granted, as if all clusters had begun: each block does its own share.
ANSWER_BYTES = 16


def answered_places(ins: Instruction) -> tuple[tuple[Operand, int], ...]:
    """Return the operands that are the place of the first block, and from which bit of an answer each comes."""
    target = ins.operands[0]
    if isinstance(target, Vector):
        return tuple(zip(target.elements[:3], (32, 64, 96), strict=True))
    axis = next(m[-1] for m in ins.modifiers if m.startswith("get_first_ctaid"))
    return ((target, 32 * ("xyz".index(axis) + 1)),)


def missing_bytes(word: int) -> int:
    """Return the bytes that a phase still waits for."""
    return ((word >> BYTES_SHIFT) + _HALF_BYTES) % (2 * _HALF_BYTES) - _HALF_BYTES


def is_valid(word: int) -> bool:
    """Return whether 64 bits hold an mbarrier."""
    return bool(word >> VALID_SHIFT & 1)


def changed(word: int, arrivals: int, drops: int, more: int) -> int | None:
    """Return the word after arrivals, drops and ``more`` bytes that are to come; None where that is impossible."""
    pending, expected = (word & MOST) - arrivals, (word >> COUNT_BITS & MOST) - drops
    missing, ended = missing_bytes(word) + more, word >> PAIR_SHIFT << PAIR_SHIFT
    if min(pending, expected) < 0 or abs(missing) > MOST:
        return None
    if not pending and not missing:
        ended ^= 1 << PHASE_SHIFT | (ended >> PHASE_SHIFT) << PAIR_SHIFT
        pending = expected
    return pending | expected << COUNT_BITS | missing % (1 << BYTES_BITS) << BYTES_SHIFT | ended


def ended_meanwhile(word: int, before: int) -> bool:
    """Return whether a phase has ended since a word was read: a thread that waits in try_wait is woken then.

    Another phase may have ended behind it, as copies and products are done at once here. Source: Parallel Thread
    Execution ISA 8.8, section 9.7.13.15.16: a suspended thread goes on when the phase completes.
    """
    return word >> PAIR_SHIFT != before >> PAIR_SHIFT


def name_of(address: int, program: Program) -> str:
    """Name an mbarrier by the variable that it lies in and by its address in shared memory."""
    places: Mapping[str, int] = program.addresses
    for variable in program.function.variables:
        start = places.get(variable.name, -1)
        if variable.space == "shared" and variable.nbytes and start <= address < start + variable.nbytes:
            return f"the mbarrier in {variable.name} at shared address {address:#x}"
    return f"the mbarrier at shared address {address:#x}"


def uninitialised(address: int, word: int, thread: str, ins: Instruction, program: Program) -> KernelFault:
    """Return the error for 64 bits that hold no mbarrier."""
    del word
    return KernelFault(
        f"{thread} uses {name_of(address, program)}, which nobody has initialised",
        where=ins.where or program.function.name,
        cure="Let one thread run mbarrier.init, and the others wait for it (__syncthreads).",
    )


def overrun(address: int, word: int, thread: str, ins: Instruction, program: Program) -> KernelFault:
    """Return the error for more arrivals or bytes than a phase can have."""
    del word
    return KernelFault(
        f"{thread} gives {name_of(address, program)} more arrivals or bytes than its phase can have",
        where=ins.where or program.function.name,
        cure=f"Initialise it with the number of arrivals of a phase, 1 to {MOST}; a phase has at most {MOST} bytes.",
    )


def deadlock(address: int, word: int, thread: str, ins: Instruction, program: Program) -> KernelFault:
    """Return the error for a phase that never ends, as all threads wait."""
    missing = missing_bytes(word)
    lack = f"{word & MOST} arrivals" + (f" and {missing} bytes" if missing else "")
    return KernelFault(
        f"threads wait for ever, such as {thread}: the phase of {name_of(address, program)} lacks {lack}",
        where=ins.where or program.function.name,
        cure="Let every phase have the arrivals and bytes that it expects, and wait for the parity of that phase.",
    )
