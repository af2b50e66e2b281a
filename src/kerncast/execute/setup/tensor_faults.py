"""What is wrong with a use of tensor cores, in words: tiles that descriptors describe, and tensor memory."""

from kerncast.errors import IllegalAddress, KerncastError, KernelFault, UnsupportedError
from kerncast.ptx import Instruction

#: Faults by the names that the engines give them.
NAMES = ("tile", "descriptor", "swizzle", "columns", "lanes", "format", "allocation", "unfreed")
_DISTANCES = "Check the start address and the two distances of the descriptor, in units of 16 bytes."
_STARTS = "Let tiles begin where the pattern of their swizzle does: at multiples of 1024, 512 or 256 bytes."


def tensor_fault(name: str, ins: Instruction, place: tuple[str, str], what: int, room: int = 0) -> KerncastError:
    """Return the error of an instruction; the place is the thread and its line.

    ``what`` is the address, the descriptor or the number of columns; ``room`` the bytes of shared memory.
    """
    thread, where = place
    who = f"{ins.name} by {thread}"
    first, count = what & 0xFFFF, what >> 32
    match name:
        case "tile":
            text = f"{who} reads a tile out of bounds: 16 bytes at {what:#x} of {room} bytes of shared memory"
            return IllegalAddress(text, where=where, cure=_DISTANCES)
        case "columns":
            span = f"column {first}" if count <= 1 else f"columns {first} to {first + count - 1}"
            text = f"{who} uses {span} of tensor memory, which it has not allocated so"
            return IllegalAddress(text, where=where, cure="Use what tcgen05.alloc gave, and free it as a whole.")
        case "lanes":
            text = f"{who} uses tensor memory from lane {what} on, which it cannot reach"
            cure = "A warp reaches the 32 lanes of its number modulo 4; sums begin at lane 0, or 16 with 64 rows."
            return IllegalAddress(text, where=where, cure=cure)
        case "descriptor" | "swizzle":
            kind = "a base offset" if name == "descriptor" else "a swizzle of 32-byte atoms, or an absolute distance"
            text = f"{who} has a descriptor with {kind}, which is not supported"
            return UnsupportedError(text, where=where, cure=_STARTS if name == "descriptor" else None)
        case "format":
            text = f"{who} has the instruction descriptor {what:#010x}, which is not supported"
            cure = "Dense products of 64 or 128 rows a block and 8 to 256 columns are, those of 4 and 6 bits in rows."
            return UnsupportedError(text, where=where, cure=cure)
    return _allocation_fault(name, who, where, what)


def _allocation_fault(name: str, who: str, where: str, what: int) -> KernelFault:
    if name == "unfreed":
        return KernelFault(
            f"a block ends with tensor memory that {who} allocated", where=where, cure="Free it with tcgen05.dealloc."
        )
    return KernelFault(
        f"{who} asks for {what} columns of tensor memory, which a block cannot have now",
        where=where,
        cure="Ask for a power of two from 32 to 512, of 512 columns in all, before the right is relinquished.",
    )
