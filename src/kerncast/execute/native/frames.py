"""What generated code and Python share in memory: the state of a warp, of a block and of a worker.

Each is a NumPy structure; generated code reads its fields at the offsets that NumPy gives.
"""

import numpy as np

from kerncast.execute.native.ir import Emitter, Value

#: State of one warp; its registers follow. Lanes are bits of a mask.
WARP = np.dtype(
    [
        ("place", "i4", 32),  # where each lane stands that is not running (see kerncast.ptx.cfg)
        ("waits_for", "u4", 32),  # lanes that a parked lane waits for
        ("tid", "u4", (3, 32)),  # thread index
        ("exist", "u4"),  # lanes that hold a thread of the launch
        ("live", "u4"),  # lanes that have not left the kernel
        ("parked", "u4"),  # lanes that wait at __syncwarp
        ("next", "i4"),  # first place where other lanes stand than those that run
        ("fuel", "i4"),  # loop iterations left until the other warps have their turn
        ("number", "u4"),  # of the warp in its block
        ("barrier", "i4"),  # barrier that the warp waits at, or -1
        ("expected", "u4"),  # threads that this barrier waits for; 0 is the whole block
        ("arrived", "u4"),  # lanes that wait at it
        ("votes", "u4"),  # what they give to a barrier that reduces
        ("reduces", "u4"),  # 0 no, 1 counts, 2 and, 3 or
        ("result", "u4"),  # offset of the register that takes the result; 0 if nothing reads it
        ("instruction", "u4"),  # of the barrier, for messages
        ("pad", "u4", 1),
        ("issued", "i8"),  # instructions since the block began
        ("private", "u8"),  # memory of the warp's threads, one after the other
        ("shared", "u8"),  # shared memory of the block
        ("counters", "u8"),  # counters of the block
        ("block", "u8"),
    ],
    align=True,
)
#: State of one resident block.
BLOCK = np.dtype(
    [
        ("index", "u4", 4),  # %ctaid
        ("busy", "u4"),
        ("pad", "u4"),
        ("iterations", "i8"),  # loop iterations that its warps have done
        ("passed", "u4", 16),  # threads that went by each barrier without waiting
        ("shared", "u8"),
        ("warps", "u8"),
        ("row", "i8"),  # position of the block in the list of blocks
        ("private", "u8"),
    ],
    align=True,
)
#: What a worker, which is one thread of the CPU, knows.
WORKER = np.dtype(
    [
        ("staged", "u1", 1024),  # what a load found, or a store is to write
        ("merged", "u1", 1024),  # what a load found in several state spaces
        ("offsets", "u8", 32),
        ("trash", "u1", 64),  # where lanes read and write that are switched off
        ("grid", "u4", 4),
        ("block", "u4", 4),
        ("warps", "u4"),  # per block
        ("slots", "u4"),  # resident blocks
        ("shared_bytes", "u4"),
        ("private_bytes", "u4"),
        ("parameter_bytes", "u4"),
        ("dynamic_bytes", "u4"),
        ("quantum", "i4"),  # loop iterations of a warp at a time
        ("fault", "u4"),  # 0, or what went wrong: see FAULTS
        ("fault_instruction", "u4"),
        ("fault_warp", "u4"),
        ("fault_lane", "u4"),
        ("fault_space", "u4"),
        ("fault_address", "i8"),
        ("fault_row", "i8"),
        ("arena", "u8"),  # global memory
        ("starts", "u8"),  # of the allocations, as offsets in the arena
        ("ends", "u8"),
        ("allocations", "u8"),
        ("parameters", "u8"),
        ("symbols", "u8"),  # addresses of module variables
        ("read", "u8"),  # one byte per sector of global memory
        ("written", "u8"),
        ("windows", "u8"),  # per memory instruction: start of the allocation that it last met, and of how many places
        ("remarks", "u8"),  # one byte per instruction that did something doubtful
        ("blocks", "u8"),  # list of blocks to run
        ("block_count", "i8"),
        ("next_row", "i8"),
        ("finished", "i8"),
        ("counters", "u8"),
        ("counter_bytes", "i8"),  # of one block
        ("resident", "u8"),  # array of BLOCK
        ("frame_bytes", "i8"),  # of one warp
        ("frame_template", "u8"),  # warps of a block at its start
        ("iteration_limit", "i8"),
        ("clock", "i8"),
        ("printer", "u8"),  # function to call where lanes print
        ("pairs_words", "u4"),  # whether a bank of shared memory serves two words of a row of 64 together
        ("longest", "i8"),  # where in a block's counters the instructions of its busiest warp stand
        ("events", "u8"),  # what is recorded of accesses to memory (see kerncast.traces.recording)
        ("event_count", "i8"),
        ("event_limit", "i8"),  # 0: nothing is recorded
        ("in_detail", "u4"),  # whether basic blocks, shared memory and contention are recorded too
        ("segments", "u8"),
        ("segment_count", "i8"),
        ("segment_limit", "i8"),
        ("patience", "i8"),  # turns of warps until the worker reports to Python
        ("stop", "u4"),  # not 0: end as soon as possible; set from another thread
    ],
    align=True,
)
FAULTS = {"bounds": 1, "misaligned": 2, "trap": 3, "assertion": 4, "table": 5, "barrier": 6, "stuck": 7, "endless": 8,
          "constant": 9, "atomic": 10}  # fmt: skip
SPACES = ("global", "shared", "local", "param", "const", "call")


def offset_of(frame: "np.dtype[np.void]", name: str) -> int:
    """Return where a field lies in a structure."""
    assert frame.fields is not None
    return int(frame.fields[name][1])


def field(emit: Emitter, pointer: Value, frame: "np.dtype[np.void]", name: str) -> Value:
    """Return the address of a field of a structure."""
    return emit.at(pointer, offset_of(frame, name))


def get(emit: Emitter, pointer: Value, frame: "np.dtype[np.void]", name: str) -> Value:
    """Read a field: a number, or a pointer from an unsigned one of 64 bits."""
    assert frame.fields is not None
    kind = frame.fields[name][0]
    return emit.load(field(emit, pointer, frame, name), "ptr" if kind == np.dtype("u8") else f"i{8 * kind.itemsize}")


def put(emit: Emitter, value: Value, pointer: Value, frame: "np.dtype[np.void]", name: str) -> None:
    """Write a field."""
    emit.store(value, field(emit, pointer, frame, name))
