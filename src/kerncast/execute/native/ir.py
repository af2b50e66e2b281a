"""Writes LLVM IR: values with their types, instructions, functions and what they need from elsewhere.

Text, because the parser of LLVM takes it in a millisecond where building the same module object by object takes ten.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from kerncast.execute.setup.dataflow import MOST_COUNTERS

LANES = 32
_FLOATS = {"half", "float", "double"}


class Value(NamedTuple):
    """An operand: a constant, an argument or the result of an instruction."""

    text: str
    type: str

    @property
    def typed(self) -> str:
        """The operand with its type in front."""
        return f"{self.type} {self.text}"


def vector(element: str) -> str:
    """Return the type of one element per lane of a warp.

    >>> vector("i32")
    '<32 x i32>'
    """
    return f"<{LANES} x {element}>"


def element(type_name: str) -> str:
    """Return the element type of a vector, or the type itself."""
    return type_name.split(" x ")[1].rstrip(">") if type_name.startswith("<") else type_name


def bits(type_name: str) -> int:
    """Return the width of an element."""
    name = element(type_name)
    return {"half": 16, "float": 32, "double": 64, "ptr": 64}.get(name) or int(name[1:])


def integer(type_name: str, value: int) -> Value:
    """Return an integer constant, the same in every lane of a vector."""
    name = element(type_name)
    value &= (1 << bits(name)) - 1
    text = ("true" if value else "false") if name == "i1" else str(value)
    return Value(f"splat ({name} {text})", type_name) if type_name.startswith("<") else Value(text, name)


def real(type_name: str, value: float) -> Value:
    """Return a floating-point constant that both float and double hold exactly."""
    text = f"{element(type_name)} 0x{_pattern(value):016X}"
    return Value(f"splat ({text})", type_name) if type_name.startswith("<") else Value(text.split()[1], type_name)


def _pattern(value: float) -> int:
    pattern: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return pattern


def each_lane(type_name: str, values: Sequence[int]) -> Value:
    """Return a vector constant with its own value in each lane."""
    name = element(type_name)
    return Value("<" + ", ".join(f"{name} {value}" for value in values) + ">", type_name)


class Unit:
    """One LLVM module in the making."""

    def __init__(self) -> None:
        self._functions: dict[str, str] = {}
        self._declarations: dict[str, str] = {}
        self._constants: dict[str, str] = {}
        self.borrowed: dict[str, Callable[[Unit], None]] = {}
        """writer of each function that other modules hold, by its name"""

    def borrow(self, name: str, write: "Callable[[Unit], None]") -> None:
        """Say that a function lies in a module of its own, which serves all kernels and is optimised."""
        self.borrowed[name] = write

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def reserve(self, name: str) -> None:
        """Say that a function is being written, so that nobody else begins it."""
        self._functions.setdefault(name, "")

    def define(self, name: str, text: str) -> None:
        """Add the text of a function."""
        self._functions[name] = text

    def declare(self, name: str, text: str) -> None:
        """Add the declaration of a function of LLVM or of the C library."""
        self._declarations[name] = text

    def table(self, name: str, values: Sequence[int]) -> Value:
        """Add a constant table of 32-bit integers and return its address."""
        body = ", ".join(f"i32 {value}" for value in values)
        self._constants[name] = f"@{name} = private constant [{len(values)} x i32] [{body}]"
        return Value(f"@{name}", "ptr")

    @property
    def text(self) -> str:
        """The module."""
        return "\n".join([*self._constants.values(), *self._functions.values(), *self._declarations.values()])


class Emitter:
    """Writes the body of one function, instruction after instruction."""

    def __init__(
        self, unit: Unit, name: str, result: str, parameters: Sequence[Value], *, strict: bool = False
    ) -> None:
        self.unit = unit
        self.name = name
        self.strict = " strictfp" if strict else ""
        self._head = f"{result} @{name}({', '.join(p.typed for p in parameters)}){self.strict}"
        self._allocations: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self.size = 0
        """characters written so far, which tell how long LLVM will take"""
        self.block = "entry"
        """label of the block that is being written"""
        unit.reserve(name)

    def finish(self, *, public: bool = False) -> None:
        """Add the function to the module."""
        linkage = "" if public else "internal "
        body = "\n".join(["entry:", *self._allocations, *self._lines])
        # Touching each page of a large frame in turn makes a stack that is too small a clean end.
        self.unit.define(self.name, f'define {linkage}{self._head} "probe-stack"="inline-asm" {{\n{body}\n}}')

    def op(self, text: str, type_name: str) -> Value:
        """Write an instruction with a result."""
        self._count += 1
        self.size += len(text)
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        return Value(name, type_name)

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self.size += len(text)
        self._lines.append("  " + text)

    def fresh(self, stem: str) -> str:
        """Return a label that is not in use."""
        self._count += 1
        return f"{stem}{self._count}"

    def allocate(self, type_name: str) -> Value:
        """Return the address of a variable of this function."""
        self._count += 1
        self._allocations.append(f"  %a{self._count} = alloca {type_name}, align 64")
        return Value(f"%a{self._count}", "ptr")

    # Arithmetic

    def binary(self, operation: str, a: Value, b: Value) -> Value:
        """Write an operation on two values of one type; integer constants may be given as b."""
        return self.op(f"{operation} {a.type} {a.text}, {b.text}", a.type)

    def add(self, a: Value, b: "Value | int") -> Value:
        """Add integers."""
        return self.binary("add", a, self._like(a, b))

    def sub(self, a: Value, b: "Value | int") -> Value:
        """Subtract integers."""
        return self.binary("sub", a, self._like(a, b))

    def mul(self, a: Value, b: "Value | int") -> Value:
        """Multiply integers."""
        return self.binary("mul", a, self._like(a, b))

    def and_(self, a: Value, b: "Value | int") -> Value:
        """Combine bits by and."""
        return self.binary("and", a, self._like(a, b))

    def or_(self, a: Value, b: "Value | int") -> Value:
        """Combine bits by or."""
        return self.binary("or", a, self._like(a, b))

    def xor(self, a: Value, b: "Value | int") -> Value:
        """Combine bits by exclusive or."""
        return self.binary("xor", a, self._like(a, b))

    def shl(self, a: Value, b: "Value | int") -> Value:
        """Shift left; the amount has to be below the width."""
        return self.binary("shl", a, self._like(a, b))

    def lshr(self, a: Value, b: "Value | int") -> Value:
        """Shift right and fill with zeros."""
        return self.binary("lshr", a, self._like(a, b))

    def ashr(self, a: Value, b: "Value | int") -> Value:
        """Shift right and fill with the sign."""
        return self.binary("ashr", a, self._like(a, b))

    def not_(self, a: Value) -> Value:
        """Turn all bits around."""
        return self.xor(a, -1)

    def compare(self, condition: str, a: Value, b: "Value | int") -> Value:
        """Compare two values: a condition of icmp, or one of fcmp for floats."""
        kind = "fcmp" if element(a.type) in _FLOATS else "icmp"
        result = f"{a.type.split(' x ')[0]} x i1>" if a.type.startswith("<") else "i1"
        return self.op(f"{kind} {condition} {a.type} {a.text}, {self._like(a, b).text}", result)

    def select(self, condition: Value, a: Value, b: "Value | int") -> Value:
        """Choose a where the condition holds, else b."""
        return self.op(f"select {condition.typed}, {a.typed}, {self._like(a, b).typed}", a.type)

    def cast(self, operation: str, a: Value, to: str) -> Value:
        """Convert: trunc, zext, sext, bitcast, fptrunc, sitofp, …; to an element type for each lane."""
        target = vector(to) if a.type.startswith("<") and not to.startswith("<") and operation != "bitcast" else to
        return a if a.type == target else self.op(f"{operation} {a.typed} to {target}", target)

    def resize(self, a: Value, to: str, *, signed: bool = False) -> Value:
        """Give an integer another width: cut off, or filled with zeros or the sign."""
        if bits(a.type) == bits(to):
            return a
        return self.cast("trunc" if bits(a.type) > bits(to) else "sext" if signed else "zext", a, to)

    def splat(self, a: Value) -> Value:
        """Give every lane the same value."""
        wide = vector(a.type)
        first = self.op(f"insertelement {wide} poison, {a.typed}, i64 0", wide)
        return self.op(f"shufflevector {wide} {first.text}, {wide} poison, <{LANES} x i32> zeroinitializer", wide)

    def call(self, name: str, result: str, *arguments: Value) -> Value:
        """Call a function; one of LLVM or of the C library is declared."""
        self._declare(name, result, arguments)
        return self.op(f"call {result} @{name}({', '.join(a.typed for a in arguments)}){self.strict}", result)

    def call_void(self, name: str, *arguments: Value) -> None:
        """Call a function without a result."""
        self._declare(name, "void", arguments)
        self.do(f"call void @{name}({', '.join(a.typed for a in arguments)}){self.strict}")

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        """Call an intrinsic function of LLVM that is overloaded on the type of its first argument."""
        return self.call(f"llvm.{name}.{_mangled(arguments[0].type)}", arguments[0].type, *arguments)

    def _declare(self, name: str, result: str, arguments: Sequence[Value]) -> None:
        if name not in self.unit:
            self.unit.declare(name, f"declare {result} @{name}({', '.join(a.type for a in arguments)})")

    def _like(self, a: Value, b: "Value | int") -> Value:
        return integer(a.type, b) if isinstance(b, int) else b

    # Memory

    def at(self, pointer: Value, offset: "Value | int") -> Value:
        """Return an address some bytes further on."""
        if offset == 0:
            return pointer
        place = Value(str(offset), "i64") if isinstance(offset, int) else offset
        return self.op(f"getelementptr i8, {pointer.typed}, {place.typed}", "ptr")

    def index(self, pointer: Value, type_name: str, number: Value) -> Value:
        """Return the address of an element of an array."""
        return self.op(f"getelementptr {type_name}, {pointer.typed}, {number.typed}", "ptr")

    def load(self, pointer: Value, type_name: str, align: int = 0) -> Value:
        """Read memory."""
        return self.op(f"load {type_name}, {pointer.typed}{f', align {align}' if align else ''}", type_name)

    def store(self, value: Value, pointer: Value, align: int = 0) -> None:
        """Write memory."""
        self.do(f"store {value.typed}, {pointer.typed}{f', align {align}' if align else ''}")

    def increase(self, pointer: Value, amount: Value) -> None:
        """Add to a number in memory."""
        self.store(self.add(self.load(pointer, amount.type), amount), pointer)

    # Lanes and masks

    def mask_bits(self, lanes: Value) -> Value:
        """Return one bit per lane of a vector of truth values."""
        return self.cast("bitcast", lanes, "i32")

    def mask_lanes(self, mask: Value) -> Value:
        """Return a vector of truth values from one bit per lane."""
        return self.cast("bitcast", mask, vector("i1"))

    def first_lane(self, mask: Value) -> Value:
        """Return the number of the lowest lane in a mask that is not empty."""
        return self.call("llvm.cttz.i32", "i32", mask, Value("true", "i1"))

    def count_lanes(self, mask: Value) -> Value:
        """Return how many lanes are in a mask, as i64."""
        return self.cast("zext", self.intrinsic("ctpop", mask), "i64")

    # Control

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self._lines.append(f"{name}:")
        self.block = name

    def go(self, name: str) -> None:
        """Jump."""
        self.do(f"br label %{name}")

    def branch(self, condition: Value, yes: str, no: str) -> None:
        """Jump to one of two places."""
        self.do(f"br {condition.typed}, label %{yes}, label %{no}")

    def give(self, value: "Value | None" = None) -> None:
        """Return from the function."""
        self.do(f"ret {value.typed}" if value else "ret void")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run what the with statement writes only where a condition holds."""
        then, after = self.fresh("then"), self.fresh("after")
        self.branch(condition, then, after)
        self.label(then)
        yield
        self.go(after)
        self.label(after)

    @contextmanager
    def while_left(self, mask: Value) -> Iterator[tuple[Value, Value]]:
        """Run what the with statement writes as long as lanes are left in a mask.

        Gives the lanes that are left and the address where the statement stores those that then are: in memory,
        because it may end in another block than it begins in.
        """
        head, body, after = self.fresh("head"), self.fresh("body"), self.fresh("after")
        rest = self.allocate("i32")
        self.store(mask, rest)
        self.go(head)
        self.label(head)
        left = self.load(rest, "i32")
        self.branch(self.compare("eq", left, 0), after, body)
        self.label(body)
        yield left, rest
        self.go(head)
        self.label(after)

    @contextmanager
    def each_bit(self, mask: Value) -> Iterator[Value]:
        """Run what the with statement writes for each lane of a mask, the lowest first; gives the lane as i32."""
        with self.while_left(mask) as (left, rest):
            yield self.first_lane(left)
            self.store(self.and_(left, self.sub(left, 1)), rest)

    @contextmanager
    def count_up(self, stop: Value, start: "Value | None" = None) -> Iterator[Value]:
        """Run what the with statement writes for each number below a limit; gives the number."""
        head, body, after = self.fresh("head"), self.fresh("body"), self.fresh("after")
        counter = self.allocate(stop.type)
        self.store(start or integer(stop.type, 0), counter)
        self.go(head)
        self.label(head)
        number = self.load(counter, stop.type)
        self.branch(self.compare("ult", number, stop), body, after)
        self.label(body)
        yield number
        self.store(self.add(number, 1), counter)
        self.go(head)
        self.label(after)


def _mangled(type_name: str) -> str:
    short = {"float": "f32", "double": "f64", "half": "f16"}.get(element(type_name), element(type_name))
    return f"v{LANES}{short}" if type_name.startswith("<") else short


# What generated code and Python share in memory: the state of a warp, of a block and of a worker.
#
# Each is a NumPy structure; generated code reads its fields at the offsets that NumPy gives.


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
        ("arrived_in_cluster", "u4"),  # lanes that have arrived at the cluster's barrier, which is not complete
        ("owes_wait", "u4"),  # lanes that have arrived there, and have not waited since
        ("failing", "u4"),  # lanes whose mbarrier had not ended its phase when they asked last
        ("deferred", "u4"),  # those of them that let the other lanes of the warp go first
        ("spun", "u4"),  # whether some lane asked in vain in this turn
        ("asks", "u4"),  # instruction by which it asked
        ("vain", "u4"),  # the phase that had not ended, as the highest bits of an mbarrier
        ("walked", "u4", 16),  # lanes that ran each block of a loop that only asks, since its head
        ("object", "i8"),  # the mbarrier's address in shared memory
        ("seen", "i8"),  # changes to mbarriers when it asked
        ("mark", "i8"),  # instructions issued when the loop was entered in which it asks
        ("mark_events", "i8"),  # events recorded then
        ("issued", "i8"),  # instructions since the block began
        ("taken", "i8", MOST_COUNTERS),  # numbers taken so far from each counter of the grid
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
        ("rank", "u4"),  # of the block in its cluster
        ("gone", "u4"),  # blocks of the cluster that have ended, one bit for each rank
        ("idle", "u4"),  # whether none of its warps could go on at its last turn
        ("iterations", "i8"),  # loop iterations that its warps have done
        ("passed", "u4", 24),  # threads that went by each barrier without waiting; none do by those of groups
        ("before", "i8"),  # steps before the last round of its warps
        ("silent", "i8"),  # rounds in which all warps asked in vain
        ("shared", "u8"),
        ("warps", "u8"),
        ("row", "i8"),  # position of the block in the list of blocks
        ("private", "u8"),
        ("tensor", "u8"),  # tensor memory, column after column
        ("columns", "u4"),  # units of columns of it that are taken, as bits
        ("allocations", "u4"),  # those with which an allocation begins
        ("allocator", "u4"),  # instruction that took columns last
        ("relinquished", "u4"),  # whether no more columns may be taken
    ],
    align=True,
)
#: What a worker, which is one thread of the CPU, knows.
WORKER = np.dtype(
    [
        ("staged", "u1", 1024),  # what a load found, or a store is to write
        ("merged", "u1", 1024),  # what a load found in several state spaces
        # registers of a product of four warps: up to 128 of its sums, 4 of A, and one of the metadata of a sparse A
        ("tile", "u1", 17024),
        ("offsets", "u8", 32),
        ("trash", "u1", 64),  # where lanes read and write that are switched off
        ("grid", "u4", 4),
        ("block", "u4", 4),
        ("cluster", "u4", 4),  # blocks of a cluster in x, y and z
        ("cluster_blocks", "u4"),
        ("explicit_cluster", "u4"),  # whether the launch or the kernel names a cluster
        ("shared_stride", "i8"),  # bytes from the shared memory of one block to that of the next of its cluster
        ("warps", "u4"),  # per block
        ("slots", "u4"),  # resident blocks
        ("shared_bytes", "u4"),
        ("private_bytes", "u4"),
        ("tensor_bytes", "u4"),  # 0: the kernel does not use tensor memory
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
        ("fault_state", "i8"),  # of an mbarrier
        ("changes", "i8"),  # updates of mbarriers so far
        ("steps", "i8"),  # turns of warps that did not end by asking in vain, and updates of mbarriers
        ("reach", "i8"),  # bytes of global memory in which accesses outside all allocations go on; 0: they are faults
        ("strays", "u4"),  # not 0: one went on, and the fields of the fault tell which
        ("arena", "u8"),  # global memory
        ("starts", "u8"),  # of the allocations, as offsets in the arena
        ("ends", "u8"),
        ("allocations", "u8"),
        ("parameters", "u8"),
        ("symbols", "u8"),  # addresses of module variables
        ("read", "u8"),  # one byte per sector of global memory
        ("written", "u8"),
        ("pages", "u8"),  # one byte per page of global memory: see PAGE_BITS
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
        ("copier", "u8"),  # function to call where lanes copy many bytes
        ("pairs_words", "u4"),  # whether a bank of shared memory serves two words of a row of 64 together
        ("longest", "i8"),  # where in a block's counters the instructions of its busiest warp stand
        ("events", "u8"),  # what is recorded of accesses to memory (see kerncast.traces.execution)
        ("event_count", "i8"),
        ("event_limit", "i8"),  # 0: nothing is recorded
        ("in_detail", "u4"),  # whether basic blocks, shared memory and contention are recorded too
        ("segments", "u8"),
        ("segment_count", "i8"),
        ("segment_limit", "i8"),
        ("turn_blocks", "i8", MOST_COUNTERS),  # blocks that take a counter's numbers in turn; 0: they do not
        ("turn_first", "i8", MOST_COUNTERS),  # turns that others have had before
        ("turn_beyond", "i8", MOST_COUNTERS),  # how much further the counter is
        ("turn_warps", "u4", MOST_COUNTERS),  # warps of a block that take, as bits
        ("asked", "u4", MOST_COUNTERS),  # warps that have asked so far, of any block, as bits
        ("patience", "i8"),  # turns of warps until the worker reports to Python
        ("stop", "u4"),  # not 0: end as soon as possible; set from another thread
    ],
    align=True,
)
FAULTS = {"bounds": 1, "misaligned": 2, "trap": 3, "assertion": 4, "table": 5, "barrier": 6, "stuck": 7, "endless": 8,
          "constant": 9, "atomic": 10, "tile": 11, "descriptor": 12, "gone": 13, "cluster": 14,
          "texture": 15, "surface": 16, "uninitialised": 17, "overrun": 18, "deadlock": 19, "copy": 20, "swizzle": 21,
          "columns": 22, "lanes": 23, "format": 24, "allocation": 25, "unfreed": 26}  # fmt: skip
SPACES = ("global", "shared", "local", "param", "const", "call", "cluster")


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
