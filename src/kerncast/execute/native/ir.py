"""Writes LLVM IR: values with their types, instructions, functions and what they need from elsewhere.

Text, because the parser of LLVM takes it in a millisecond where building the same module object by object takes ten.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

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
        """functions that other modules hold: the name, and what writes it"""

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
        result = vector("i1") if a.type.startswith("<") else "i1"
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
