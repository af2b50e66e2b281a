"""Values of expressions in host code, as far as they are known without running it."""

import re
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from clang.cindex import Cursor, CursorKind, StorageClass, TypeKind

from kerncast.hostcode import arithmetic
from kerncast.hostcode.arithmetic import BINARY, UNARY, Number, is_whole
from kerncast.hostcode.nouns import Undecided
from kerncast.hostcode.options import GETOPT, PROGRAM, may_be_reordered
from kerncast.hostcode.parsing import constant, is_declared_here, operator_of
from kerncast.hostcode.paths import Chance, Pass, Passes, Reaching
from kerncast.hostcode.program import (
    ANYHOW,
    POINTEE,
    RECEIVER,
    Call,
    Frame,
    Moment,
    Node,
    Place,
    Program,
    Step,
    Write,
    WriteKind,
    is_null,
    measures_unknown,
    place_of,
)

# Which memory a pointer of host code points to: who allocated it, how many bytes, and what is put there.


#: Functions that allocate, and which of their arguments is the number of bytes; the first is the pointer's address.
_ALLOCATING = {
    "cudaMalloc": 1, "cudaMallocManaged": 1, "cudaMallocHost": 1, "cudaHostAlloc": 1, "cudaMallocAsync": 1,
    "cudaMallocFromPoolAsync": 1, "cuMemAlloc": 1, "posix_memalign": 2,
    "hipMalloc": 1, "hipMallocManaged": 1, "hipHostMalloc": 1, "hipMallocAsync": 1,
}  # fmt: skip
#: Functions that return what they allocate.
_RETURNING = {"malloc": 0, "aligned_alloc": 1, "realloc": 1, "valloc": 0}
#: Rows of cudaMallocPitch begin at multiples of this many bytes (the texture pitch alignment is 32 to 512).
_PITCH = 512
_CONTAINERS = {"vector", "device_vector", "host_vector", "universal_vector"}
_BEGINNINGS = {"data", "begin", "cbegin", "get", "raw_pointer_cast", "device_pointer_cast", "move"}
_ARRAYS = {TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY}
_NAMES = {CursorKind.DECL_REF_EXPR, CursorKind.MEMBER_REF_EXPR, CursorKind.ARRAY_SUBSCRIPT_EXPR}
_REFERENCES = {CursorKind.TYPE_REF, CursorKind.TEMPLATE_REF, CursorKind.NAMESPACE_REF}


@dataclass(frozen=True, slots=True)
class Memory:
    """An allocation, and where in it a pointer points."""

    size: int | None
    """bytes of the allocation; None where unknown"""
    offset: int | None = 0
    """bytes from the beginning of the allocation; None where unknown"""
    why: str = field(default="", compare=False)
    """reason why the size is unknown"""
    site: tuple[int, ...] = field(default=(), compare=False)
    """identity of the allocation"""
    made_by: str = field(default="", compare=False)
    is_zero: bool = field(default=False, compare=False)
    """whether the allocation is filled with zeros"""


@dataclass(frozen=True, slots=True)
class Function:
    """A pointer to a function."""

    cursor: Cursor = field(compare=False)
    key: int


class Pointers:
    """Values of pointers and sizes of containers, for Values."""

    def __init__(self, values: "Values") -> None:
        self._values = values

    def value(self, node: Node, frame: Frame | None) -> Any:  # noqa: PLR0911  each kind of expression is one case
        """Return the Memory that a pointer points to, 0 for a null pointer; raises Undecided."""
        self._values.spend()
        node = node.plain
        if node.type.kind == TypeKind.NULLPTR or (is_whole(node.type) and constant(node.cursor) == 0):
            return 0
        if node.meant is not None and node.meant.kind == CursorKind.FUNCTION_DECL and node.call is None:
            return Function(node.meant, node.key)
        if node.kind == CursorKind.STRING_LITERAL:
            return str(node.cursor.spelling).strip('"')
        inner = [each for each in node.children if each.kind not in _REFERENCES]
        if node.type.kind in _ARRAYS and node.kind in _NAMES:
            return self._variable(node)
        if node.kind in _NAMES or node.call is not None:
            return self._values.value(node, frame)
        if node.kind == CursorKind.UNARY_OPERATOR and inner:
            return self._unary(node, inner[0].plain, frame)
        if node.kind == CursorKind.BINARY_OPERATOR and len(inner) == 2:
            return self._sum(node, inner, frame)
        if node.kind == CursorKind.CONDITIONAL_OPERATOR and len(inner) == 3:
            condition = self._values.truth(inner[0], frame)
            if condition is not None:
                return self.value(inner[1] if condition else inner[2], frame)
        if node.kind == CursorKind.CXX_NEW_EXPR:
            return self._new(node, inner, frame)
        raise Undecided("the pointer is not plain enough to be followed")

    def allocated(self, call: Call, frame: Frame | None) -> Any:
        """Return what a function puts into the pointer whose address it gets first; None where it is not known."""
        arguments = call.arguments
        if call.name in _ALLOCATING and len(arguments) > _ALLOCATING[call.name]:
            return self._made(call, arguments[_ALLOCATING[call.name]], frame)
        if call.name == "cudaMallocPitch" and len(arguments) >= 4:
            return self._pitched(call, frame)
        if call.name == "cudaHostGetDevicePointer" and len(arguments) >= 2:
            return self.value(arguments[1], frame)
        if call.name == "cudaGetSymbolAddress" and len(arguments) >= 2:
            return self._variable(arguments[1].plain)
        return None

    def of_call(self, call: Call, frame: Frame | None) -> Any:
        """Return the memory that a function of a library returns; raises Undecided."""
        arguments = call.arguments
        if call.name in _RETURNING and len(arguments) > _RETURNING[call.name]:
            return self._made(call, arguments[_RETURNING[call.name]], frame)
        if call.name == "calloc" and len(arguments) == 2:
            size = [self._values.number(each, frame) for each in arguments]
            return Memory(int(size[0]) * int(size[1]), site=_site(call, frame), made_by=self._by(call), is_zero=True)
        if call.name in _BEGINNINGS:
            inner = call.receiver or (arguments[0] if arguments else None)
            if inner is not None:
                return self.container(inner, frame) if _is_container(inner.plain) else self.value(inner, frame)
        raise Undecided(f"it is what {call.name}(…) returns" if call.name else "the pointer is not plain")

    def count(self, node: Node, frame: Frame | None) -> int:
        """Return the number of elements of a container; raises Undecided."""
        memory = self.container(node, frame)
        if memory.size is None:
            raise Undecided(memory.why)
        return int(memory.size) // _element_bytes(node)

    def container(self, node: Node, frame: Frame | None) -> Memory:
        """Return the memory of a std::vector or its like; raises Undecided."""
        self._values.spend()
        place = place_of(node)
        if place is None or not _is_container(node.plain):
            raise Undecided("the container is not plain enough to be followed")

        def read(write: Write, rest: tuple[Step, ...], inner: Frame | None) -> Any:
            return self._filled(write, rest, inner, node)

        def first(place: Place, moment: Moment) -> Memory:
            passed = self._values.parameters.argument_for(place, moment)
            if passed is None:
                raise Undecided("the container gets its size nowhere here")
            return self.container(*passed)

        found = self._values.reaching.value(place, Moment(node.order, node.function, frame), read, first)
        if not isinstance(found, Memory):
            raise Undecided("the container is not plain enough to be followed")
        return found

    def _filled(self, write: Write, rest: tuple[Step, ...], frame: Frame | None, node: Node) -> Any:
        """Return the memory of a container after one write."""
        if rest:
            raise LookupError
        if write.kind is WriteKind.VALUE and write.value is not None:
            call = write.value.plain.call
            if call is None or not call.is_constructor:
                return self.container(write.value, frame)
            if not call.arguments:
                raise LookupError
            return self._constructed(call, frame, node)
        if write.argument == RECEIVER and write.call is not None and write.call.name in {"resize", "assign"}:
            return self._constructed(write.call, frame, node)
        raise Undecided(f"the container changes at {self._values.where(write.node)}")

    def _constructed(self, call: Call, frame: Frame | None, node: Node) -> Memory:
        first = call.arguments[0].plain
        if _is_container(first):
            return replace(self.container(first, frame), is_zero=False)
        begun = first.call.receiver if first.call is not None and first.call.name in {"begin", "cbegin"} else None
        if len(call.arguments) == 2 and begun is not None:
            return replace(self.container(begun, frame), is_zero=False)
        if first.kind == CursorKind.INIT_LIST_EXPR:
            count = len(first.children)
        elif is_whole(first.type):
            count = int(self._values.number(first, frame))
        else:
            raise Undecided("the container is made from what is not followed")
        is_zero = len(call.arguments) == 1 or constant(call.arguments[1].plain.cursor) == 0
        return Memory(count * _element_bytes(node), site=_site(call, frame), made_by=self._by(call), is_zero=is_zero)

    def _made(self, call: Call, size: Node, frame: Frame | None) -> Memory:
        site, made_by = _site(call, frame), self._by(call)
        try:
            return Memory(int(self._values.number(size, frame)), site=site, made_by=made_by)
        except Undecided as error:
            return Memory(None, why=str(error), site=site, made_by=made_by)

    def _pitched(self, call: Call, frame: Frame | None) -> Memory:
        width, height = (int(self._values.number(each, frame)) for each in call.arguments[2:4])
        self._values.note(f"rows are taken to begin at multiples of {_PITCH} bytes")
        return Memory(-(-width // _PITCH) * _PITCH * height, site=_site(call, frame), made_by=self._by(call))

    def _by(self, call: Call) -> str:
        return f"{call.name} at {self._values.where(call.node)}"

    def _variable(self, node: Node) -> Memory:
        size = node.type.get_size()
        return Memory(size if size > 0 else None, why=f"the size of {node.name} is not known", site=(node.key,))

    def _new(self, node: Node, inner: list[Node], frame: Frame | None) -> Memory:
        size = node.type.get_pointee().get_size()
        counts = [each for each in inner if is_whole(each.type)]
        count = int(self._values.number(counts[0], frame)) if counts else 1
        return Memory(count * size, site=(node.order,), made_by=f"new at {self._values.where(node)}")

    def _unary(self, node: Node, inner: Node, frame: Frame | None) -> Any:
        if UNARY.get(operator_of(node.cursor)) != "&":
            return self._values.value(node, frame)
        parts = [each for each in inner.children if each.kind not in _REFERENCES]
        if inner.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR and len(parts) == 2:
            return self._moved(self.value(parts[0], frame), parts[1], frame, inner.type.get_size())
        if inner.call is not None and inner.call.name == "operator[]" and len(inner.children) == 3:
            first, _, index = inner.children
            return self._moved(self.container(first.plain, frame), index, frame, _element_bytes(first))
        if inner.kind == CursorKind.DECL_REF_EXPR:
            return self._variable(inner)
        raise Undecided("the pointer is not plain enough to be followed")

    def _sum(self, node: Node, inner: list[Node], frame: Frame | None) -> Any:
        operator = BINARY.get(operator_of(node.cursor))
        pointers = [each for each in inner if not is_whole(each.type)]
        if operator not in {"+", "-"} or len(pointers) != 1:
            raise Undecided("the pointer is not plain enough to be followed")
        number = next(each for each in inner if is_whole(each.type))
        size = node.type.get_pointee().get_size()
        return self._moved(self.value(pointers[0], frame), number, frame, size if operator == "+" else -size)

    def _moved(self, memory: Any, number: Node, frame: Frame | None, size: int) -> Any:
        if not isinstance(memory, Memory):
            raise Undecided("a null pointer is moved")
        if memory.offset is None:
            return memory
        try:
            return replace(memory, offset=memory.offset + int(self._values.number(number, frame)) * size)
        except Undecided:
            return replace(memory, offset=None)


def _site(call: Call, frame: Frame | None) -> tuple[int, ...]:
    orders = [call.node.order]
    while frame is not None:
        orders.append(frame.call.node.order)
        frame = frame.outer
    return tuple(orders)


def _is_container(node: Node) -> bool:
    return node.type.get_declaration().spelling in _CONTAINERS


def _element_bytes(node: Node) -> int:
    size = node.plain.type.get_template_argument_type(0).get_size()
    if size <= 0:
        raise Undecided("the type of the elements is not known")
    return int(size)


# What sscanf reads from a text that is known: whole and real numbers, as ISO C 7.21.6.2 has it.


_FIELD = re.compile(r"%(?P<skip>\*)?(?P<width>\d+)?(?:hh?|ll?|[zjt])?(?P<kind>[dufeg])|(?P<space>\s+)|(?P<letter>[^%])")
_SCANNED_WHOLE = re.compile(r"[+-]?\d+")
_SCANNED_REAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SPACE = re.compile(r"\s*")


def scanned(text: str, pattern: str) -> list[int | float] | None:
    """Return the numbers that sscanf stores, as many as the text holds; None for a pattern with more than numbers.

    >>> scanned("12x3.5", "%dx%f")
    [12, 3.5]
    >>> scanned("n", "%d")
    []
    """
    fields = _fields(pattern)
    if fields is None:
        return None
    found: list[int | float] = []
    place = 0
    for part in fields:
        if part["letter"] is not None:
            if text[place : place + 1] != part["letter"]:
                break
            place += 1
            continue
        place = _end(_SPACE, text, place)
        if part["space"] is not None:
            continue
        shape = _SCANNED_REAL if part["kind"] in "feg" else _SCANNED_WHOLE
        read = shape.match(text, place, place + int(part["width"]) if part["width"] else len(text))
        if read is None:
            break
        place = read.end()
        if part["skip"] is None:
            found.append(float(read[0]) if shape is _SCANNED_REAL else int(read[0]))
    return found


def _fields(pattern: str) -> list[re.Match[str]] | None:
    fields = list(_FIELD.finditer(pattern))
    return fields if "".join(field[0] for field in fields) == pattern else None


def _end(shape: re.Pattern[str], text: str, place: int) -> int:
    found = shape.match(text, place)
    return found.end() if found is not None else place


# What functions give: those of the source by their return statements, those of the C library by their names.


_TEXT_TO_INT = {"atoi", "atol", "atoll", "stoi", "stol", "stoll", "stoul", "stoull", "strtol", "strtoul", "strtoll",
                "strtoull"}  # fmt: skip
_TEXT_TO_FLOAT = {"atof", "stof", "stod", "strtod", "strtof"}
_COMPARING = {"strcmp", "strncmp", "strcasecmp"}
_READING_TEXT = {*_TEXT_TO_INT, *_TEXT_TO_FLOAT, "strlen"}
#: Functions that change nothing of what they get the address of.
_READING = {"printf", "fprintf", "sprintf", "snprintf", "free", "fwrite", "cudaFree", "cudaFreeHost", "delete",
            "cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync", "cudaEventRecord", "cudaStreamSynchronize"}  # fmt: skip
_AXES = ("x", "y", "z", "w")
_VECTOR_TYPE = re.compile(r"(?:dim3|u?(?:char|short|int|long|longlong)[1-4]|(?:float|double)[1-4])\Z")
_MAKE = re.compile(r"make_\w+[1-4]\Z")
_WHOLE = re.compile(r"\s*([+-]?\d+)")
_REAL = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
#: Numbers of C that are written in hexadecimal, and those that are none.
_OTHER_REAL = re.compile(r"\s*[+-]?(?:0x|inf|nan)", re.IGNORECASE)
_POINTERS = {TypeKind.POINTER, TypeKind.NULLPTR}
#: Classes that hold no more than what they are made of.
_HOLDING = {"device_ptr", "string"}
_RETURNS = {CursorKind.RETURN_STMT, CursorKind.CXX_THROW_EXPR}
_TEXT_METHODS = {"c_str", "string"}


class Calls:
    """Values of calls, for Values."""

    def __init__(self, values: "Values") -> None:
        self._values = values

    def value(self, call: Call, frame: Frame | None) -> Any:
        """Return what a call gives; raises Undecided."""
        values, name = self._values, call.name
        callee = values.program.callee(call)
        if callee is not None and not call.is_constructor:
            _check_bound(call, callee)
            return self._returned(call, callee, (), frame)
        found = self._of_text(call, frame)
        if found is not None:
            return found
        if call.node.type.kind in _POINTERS:
            return values.pointers.of_call(call, frame)
        if arithmetic.is_known(name, len(call.arguments)):
            found = arithmetic.called(name, [values.number(each, frame) for each in call.arguments])
            if found is not None:
                return found
        if call.is_constructor and len(call.arguments) == 1 and name in _HOLDING:
            return values.value(call.arguments[0], frame)
        if name.startswith("operator ") and call.receiver is not None:
            values.value(call.receiver, frame)  # says why it is not known
        raise Undecided(f"{name}(…) is not known here" if name else "it is not plain enough to be followed")

    def _of_text(self, call: Call, frame: Frame | None) -> Any:
        """Return what a function that reads a text, or a count, gives; None where a call is none of these."""
        values, name = self._values, call.name
        if name in GETOPT:
            return values.command_line.returned(call)
        if name in _COMPARING and len(call.arguments) >= 2:
            return _compared(name, [values.value(each, frame) for each in call.arguments])
        if name in _READING_TEXT and call.arguments:
            base = values.number(call.arguments[2], frame) if len(call.arguments) > 2 and name in _TEXT_TO_INT else 10
            text = values.value(call.arguments[0], frame)
            return _length(text) if name == "strlen" else _parsed(name, text, base)
        if name == "size" and call.receiver is not None:
            return values.pointers.count(call.receiver, frame)
        inner = call.receiver or (call.arguments[0] if call.arguments else None)
        return values.value(inner, frame) if name in _TEXT_METHODS and inner is not None else None

    def part(self, call: Call, path: tuple[Step, ...], frame: Frame | None) -> Any:
        """Return a part of the struct that a call gives; raises Undecided, LookupError where it gives nothing."""
        values = self._values
        callee = values.program.callee(call)
        if callee is not None and not call.is_constructor:
            return self._returned(call, callee, path, frame)
        if call.is_constructor and len(call.arguments) == 1 and _is_made_from_struct(call):
            return values.part(call.arguments[0], path, frame)
        if callee is not None:
            return self._changed_by_method(call, callee, path, frame)
        is_vector = call.is_constructor and _VECTOR_TYPE.match(call.name)
        if (is_vector or _MAKE.match(call.name)) and path[0] in _AXES:
            which = _AXES.index(str(path[0]))
            if which < len(call.arguments):
                return values.value(call.arguments[which], frame)
        if call.is_constructor:
            raise LookupError
        raise Undecided(f"{call.name}(…) is not known here")

    def passed(self, write: Write, rest: tuple[Step, ...], frame: Frame | None) -> Any:
        """Return what a variable is after a call that got its address; raises Undecided, LookupError."""
        call, values = write.call, self._values
        if call is None:
            raise Undecided("it is read from a stream")
        callee = values.program.callee(call)
        if callee is None:
            return self._passed_to_unknown(call, write, rest, frame)
        if write.argument == RECEIVER:
            return self._changed_by_method(call, callee, rest, frame)
        inner = Frame(call, callee, frame)
        end = Moment(callee.last + 1, callee, inner)
        if write.argument == ANYHOW:
            return values.at(Place(write.place.root, rest), end)
        parameters = callee.parameters
        if not 0 <= write.argument < len(parameters):
            raise LookupError
        key = parameters[write.argument].key
        is_address = not write.is_through and parameters[write.argument].type.kind == TypeKind.POINTER
        if is_address and not (rest and isinstance(rest[0], str) and rest[0] != POINTEE):
            rest = (POINTEE, *rest)
        return values.at(Place(key, rest), end)

    def _changed_by_method(self, call: Call, callee: Node, rest: tuple[Step, ...], frame: Frame | None) -> Any:
        """Return what a field is after a method of its object; raises Undecided, LookupError where it stays."""
        program = self._values.program
        fields = [root for root in program.effects(callee) if rest and program.field_name(root) == rest[0]]
        if not fields:
            raise LookupError
        end = Moment(callee.last + 1, callee, Frame(call, callee, frame))
        found = self._values.reaching.in_function(Place(fields[0], rest[1:]), end, self._values.read)
        if found is None or len(fields) > 1:
            raise Undecided(f"{callee.name}(…) may change it at {self._values.where(call.node)}")
        return found[0]

    def _passed_to_unknown(self, call: Call, write: Write, rest: tuple[Step, ...], frame: Frame | None) -> Any:
        values = self._values
        if write.argument == RECEIVER:
            raise Undecided(f"it changes at {values.where(call.node)}")
        if call.name in _READING or write.argument < 0:
            raise LookupError
        if call.name == "swap" and len(call.arguments) == 2:
            other = place_of(call.arguments[1 - write.argument])
            if other is not None:
                moment = Moment(call.node.order, call.node.function, frame)
                return values.at(
                    Place(other.root, (*other.path, *rest)), moment, call.arguments[1 - write.argument].plain
                )
        if call.name == "memset" and len(call.arguments) == 3 and self._clears_all(call, frame):
            return 0
        if call.name == "sscanf" and not rest and write.argument >= 2:
            return self._scanned(call, write.argument - 2, frame)
        if not rest and write.argument == 0:
            found = values.pointers.allocated(call, frame)
            if found is not None:
                return found
        raise Undecided("it is read from a stream" if call.name == "operator>>" else f"{call.name}(…) sets it")

    def _scanned(self, call: Call, which: int, frame: Frame | None) -> int | float:
        """Return the number that sscanf stores; raises Undecided, LookupError where the text holds fewer."""
        text, pattern = (self._values.value(each, frame) for each in call.arguments[:2])
        if not isinstance(text, str) or not isinstance(pattern, str):
            raise Undecided("sscanf(…) of a text that is not known")
        numbers = scanned(text, pattern)
        type_ = call.arguments[which + 2].plain.type
        if numbers is None or type_.kind != TypeKind.POINTER:
            raise Undecided("sscanf(…) sets it")
        if which >= len(numbers):
            raise LookupError
        return arithmetic.converted(numbers[which], type_.get_pointee().get_canonical())

    def _clears_all(self, call: Call, frame: Frame | None) -> bool:
        """Whether memset puts zeros into the whole of what it gets."""
        target, byte, size = call.arguments
        type_ = target.plain.type
        whole = type_.get_pointee() if type_.kind == TypeKind.POINTER else type_
        numbers = [self._values.number(each, frame) for each in (byte, size)]
        return numbers == [0, whole.get_size()]

    def _returned(self, call: Call, callee: Node, path: tuple[Step, ...], frame: Frame | None) -> Any:
        """Return what the function of a call returns, or a part of it."""
        values = self._values
        inner = Frame(call, callee, frame)
        end = Moment(callee.last + 1, callee, inner)
        possible: list[Any] = []
        for node in callee.walk():
            if node.kind not in _RETURNS or not node.children or _is_in_lambda(node):
                continue
            chance = values.reaching.chances.of(node, end)
            if node.kind == CursorKind.CXX_THROW_EXPR:
                if chance is Chance.CERTAIN:
                    raise Undecided(f"{callee.name}(…) throws")
                continue
            result = node.children[0]
            if chance is Chance.NEVER or (path and is_null(result)):  # nobody looks for a part behind null
                continue
            possible.append(values.part(result, path, inner) if path else values.value(result, inner))
            if chance is Chance.CERTAIN:
                break
            if chance is Chance.REPEATED:
                raise Undecided(f"{callee.name}(…) returns from a loop")
        if not possible:
            raise Undecided(f"{callee.name}(…) is not known here")
        return values.reaching.agreed(possible)


def _check_bound(call: Call, callee: Node) -> None:
    """Raise Undecided where the object decides which function is called."""
    receiver = call.receiver
    is_virtual = callee.kind == CursorKind.CXX_METHOD and callee.cursor.is_virtual_method()
    if is_virtual and (receiver is None or receiver.kind != CursorKind.DECL_REF_EXPR or _is_indirect(receiver)):
        raise Undecided(f"{callee.name}(…) is virtual")


def _is_indirect(node: Node) -> bool:
    return bool(node.meant is not None and node.meant.type.get_canonical().kind != TypeKind.RECORD)


def _parsed(name: str, text: Any, base: float) -> int | float:
    """Return the number at the beginning of a text, 0 where there is none, as C does."""
    if not isinstance(text, str) or text == PROGRAM:
        raise Undecided(f"{name} of a value that is not text")
    if base != 10:
        raise Undecided(f"{name} reads a number to the base {base}")
    if name in _TEXT_TO_FLOAT:
        if _OTHER_REAL.match(text):
            raise Undecided(f"{name} of {text[:20]}")
        found = _REAL.match(text)
        return float(found[1]) if found else 0.0
    found = _WHOLE.match(text)
    return int(found[1]) if found else 0


def _length(text: Any) -> int:
    if not isinstance(text, str):
        raise Undecided("a text is not known")
    return len(text.encode())


def _compared(name: str, texts: list[Any]) -> int:
    """Return 0 where two texts, or their first letters, are equal."""
    first, second, *count = texts
    if not isinstance(first, str) or not isinstance(second, str):
        raise Undecided("a text is not known")
    if PROGRAM in {first, second} and not (first + second).strip(PROGRAM).startswith("-"):
        raise Undecided("the name of the program is not known")
    if name == "strcasecmp":
        first, second = first.lower(), second.lower()
    end = int(count[0]) if count else None
    return (first[:end] > second[:end]) - (first[:end] < second[:end])


def _is_made_from_struct(call: Call) -> bool:
    """Whether a constructor copies an object of its own type, or a vector of another one."""
    type_ = call.arguments[0].plain.type
    is_vector = _VECTOR_TYPE.match(type_.get_declaration().spelling) is not None
    return bool(is_vector or type_.get_declaration() == call.node.type.get_declaration())


def _is_in_lambda(node: Node) -> bool:
    return any(parent.kind == CursorKind.LAMBDA_EXPR for parent, _ in node.ancestors())


# What parameters of host functions stand for: the arguments of the call that leads to them, or the command line.


#: Calls of a function that are compared before its first one speaks for it.
_MOST_COMPARED = 6
#: How the note begins that a value is the one of a first call.
OF_FIRST_CALL = "as in the first of"


class Parameters:
    """Values of parameters, for Values."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self._is_comparing = False
        self.uncalled: dict[str, None] = {}
        """functions whose parameters were asked for, but which nothing calls"""

    def value(self, place: Place, moment: Moment) -> Any:
        """Return the value of a parameter, or of a part of one; raises Undecided."""
        function, which = self._values.program.parameters[place.root]
        if function is self._values.program.main:
            return self._argument(which, place.path, moment.frame)
        calls = self._calls_of(function, moment.frame)
        if not calls:
            self.uncalled[function.name] = None
            raise Undecided(_parameter_of_nobody(function, which))
        call, outer = calls[0]
        value = self._passed(call, which, place.path, outer)
        if len(calls) > 1:
            self._compare(calls, which, place.path, value)
        return value

    def _argument(self, which: int, path: tuple[Step, ...], frame: Frame | None) -> int | str:
        """Return argc, or a text of argv."""
        if self._values.arguments is None:
            raise Undecided("it comes from the command line: give --argv")
        if which == 0:
            return len(self._values.arguments) + 1
        if len(path) != 1 or isinstance(path[0], str):
            raise Undecided("it is made from the command line")
        index = path[0] if isinstance(path[0], int) else int(self._values.number(path[0], frame))
        if index == 0:
            return PROGRAM
        if not 1 <= index <= len(self._values.arguments):
            raise Undecided(f"it is argument {index} of the command line, which --argv does not give")
        if may_be_reordered(self._values):
            raise Undecided("getopt may put the arguments into another order")
        return self._values.arguments[index - 1]

    def _calls_of(self, function: Node, frame: Frame | None) -> list[tuple[Call, Frame | None]]:
        """Return the calls of a function, the one that speaks for it first."""
        while frame is not None:
            if frame.function is function:
                return [(frame.call, frame.outer)]
            frame = frame.outer
        first = self._values.program.caller.get(function.order)
        if first is None:
            return []
        rest = [each for each in self._values.program.calls.get(function.key, ()) if each is not first]
        return [(first, None), *((each, None) for each in rest)]

    def argument_for(self, place: Place, moment: Moment) -> tuple[Node, Frame | None] | None:
        """Return the argument that a parameter stands for, with its frame; None where nothing calls the function."""
        if place.root not in self._values.program.parameters or place.path:
            return None
        function, which = self._values.program.parameters[place.root]
        calls = self._calls_of(function, moment.frame)
        if not calls or which >= len(calls[0][0].arguments):
            return None
        return calls[0][0].arguments[which].plain, calls[0][1]

    def _compare(self, calls: list[tuple[Call, Frame | None]], which: int, path: tuple[Step, ...], value: Any) -> None:
        """Say so where other calls of the function pass other values."""
        if self._is_comparing:
            return
        first = calls[0][0]
        kept = list(self._values.notes)
        self._is_comparing = True
        try:
            same = len(calls) <= _MOST_COMPARED and all(
                self._passed(call, which, path, outer) == value for call, outer in calls[1:]
            )
        except (Undecided, LookupError):
            same = False
        finally:
            self._is_comparing = False
        self._values.notes = kept
        if not same:
            name = first.name or "the function"
            self._values.note(f"{OF_FIRST_CALL} {len(calls)} calls of {name}, {self._values.where(first.node)}")

    def _passed(self, call: Call, which: int, path: tuple[Step, ...], frame: Frame | None) -> Any:
        if which >= len(call.arguments):
            raise Undecided("it is a parameter that the call leaves out")
        argument = call.arguments[which]
        if not path:
            return self._values.value(argument, frame)
        return self._values.part(argument, path, frame)


def _parameter_of_nobody(function: Node, which: int) -> str:
    names = [each.name for each in function.parameters]
    name = names[which] if which < len(names) else "?"
    return f"{name} is a parameter of {function.name}, which nothing here calls"


#: Steps that one value may take, and how deep they may lie inside one another.
_MOST_STEPS = 10_000
#: Steps that all values of a source together may take.
_MOST_STEPS_IN_ALL = 300_000
_MOST_DEPTH = 150
_CASTS = {
    CursorKind.CSTYLE_CAST_EXPR, CursorKind.CXX_STATIC_CAST_EXPR, CursorKind.CXX_FUNCTIONAL_CAST_EXPR,
    CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR, CursorKind.CXX_CONST_CAST_EXPR,
    CursorKind.CXX_REINTERPRET_CAST_EXPR,
}  # fmt: skip
_DECLARED = {CursorKind.VAR_DECL, CursorKind.FIELD_DECL}
#: ++n and --n, of CXUnaryOperatorKind.
_CHANGED_FIRST = {3, 4}


class Values:
    """Evaluates expressions; one for a whole program."""

    def __init__(self, program: Program, arguments: tuple[str, ...] | None) -> None:
        self.program = program
        self.arguments = arguments
        """arguments of the command line, without the program's name; None where they are not given"""
        self.notes: list[str] = []
        self.reaching = Reaching(self)
        self._calls = Calls(self)
        self.pointers = Pointers(self)
        self.parameters = Parameters(self)
        self._steps = self._depth = self._steps_in_all = 0
        self.is_of_any_object = False
        """whether a field was read as set in any object of its class"""
        self.command_line = Passes(self)
        self.active: dict[int, Pass] = {}
        """passes that values are asked for in, by the order of the loop"""
        self.passes = 0
        """number of values taken that later passes of a loop change"""

    @property
    def has_no_options(self) -> bool:
        """Whether the command line may be taken for one without options."""
        return not any(each.startswith("-") for each in self.arguments or ())

    def begin(self) -> None:
        """Forget the notes and the steps of the value before."""
        self.notes, self._steps, self._depth = [], 0, 0
        self.is_of_any_object = False
        self.command_line.begin()

    def note(self, text: str) -> None:
        """Remember what was assumed."""
        if text not in self.notes:
            self.notes.append(text)

    def spend(self) -> None:
        """Count a step; raises Undecided where there were too many."""
        self._steps += 1
        self._steps_in_all += 1
        if self._steps > _MOST_STEPS or self._steps_in_all > _MOST_STEPS_IN_ALL:
            raise Undecided("it takes too long to work out")

    def where(self, node: Node) -> str:
        """Return file and line, for people; nothing for what the parser itself puts in."""
        if node.line == 0 or not node.file:
            return ""
        return f"{node.file.replace(chr(92), '/').rpartition('/')[2]}:{node.line}"

    def declared(self, root: int) -> Node | None:
        """Return the function in which a variable is declared; None for one at namespace scope, and for fields."""
        if root in self.program.parameters:
            return self.program.parameters[root][0]
        node = self.program.locals.get(root)
        return node.function if node is not None else None

    def truth(self, node: Node, frame: Frame | None) -> bool | None:
        """Return whether a condition holds; None where that is not known."""
        try:
            value = self.value(node, frame)
        except (Undecided, LookupError, RecursionError):
            return None
        return bool(value) or isinstance(value, str) if isinstance(value, int | float | str) else None

    def number(self, node: Node, frame: Frame | None) -> Number:
        """Return the number that an expression has; raises Undecided."""
        value = self.value(node, frame)
        if not isinstance(value, int | float):
            raise Undecided("it is not a number")
        return value

    def value(self, node: Node, frame: Frame | None) -> Any:
        """Return a number, a pointer or a text; raises Undecided."""
        self.spend()
        if self._depth > _MOST_DEPTH:
            raise Undecided("it is nested too deeply")
        self._depth += 1
        try:
            if arithmetic.is_number(node.type):
                known = constant(node.cursor)
                if known is not None and not measures_unknown(node):
                    return arithmetic.converted(known, node.type)
            found = self._value(node, frame)
            return arithmetic.converted(found, node.type) if isinstance(found, int | float) else found
        finally:
            self._depth -= 1

    def _value(self, node: Node, frame: Frame | None) -> Any:  # noqa: PLR0911  each kind of expression is one case
        inner = [each for each in node.children if each.kind not in _REFERENCES]
        if node.call is not None:
            return self._calls.value(node.call, frame)
        if node.type.kind in _ARRAYS or (node.type.kind in _POINTERS and node.kind not in _NAMES):
            return self.pointers.value(node, frame)
        if node.kind in _CASTS and inner and not node.is_recovered:
            return self.value(inner[-1], frame)
        if node.kind in _NAMES:
            return self._named(node, frame)
        if node.kind == CursorKind.BINARY_OPERATOR and len(inner) == 2:
            return self._binary(BINARY.get(operator_of(node.cursor), "?"), inner, frame)
        if node.kind == CursorKind.UNARY_OPERATOR and inner:
            return self._unary(node, inner[0], frame)
        if node.kind == CursorKind.CONDITIONAL_OPERATOR and len(inner) == 3:
            return self._conditional(inner, frame)
        if measures_unknown(node):
            raise Undecided("the size of a type is not known")
        if node.kind == CursorKind.INIT_LIST_EXPR and len(inner) == 1:
            return self.value(inner[0], frame)
        raise Undecided(_unknown(node))

    def _conditional(self, inner: list[Node], frame: Frame | None) -> Any:
        condition = self.truth(inner[0], frame)
        if condition is not None:
            return self.value(inner[1] if condition else inner[2], frame)
        first, second = (self.value(each, frame) for each in inner[1:])
        if first != second:
            raise Undecided("it depends on a condition that is not known")
        return first

    def _binary(self, operator: str, inner: list[Node], frame: Frame | None) -> Number:
        if operator in {"=", ","}:
            return self.number(inner[1], frame)
        if operator in {"&&", "||"}:
            return self._logical(operator == "||", inner, frame)
        return arithmetic.binary(operator, self.number(inner[0], frame), self.number(inner[1], frame))

    def _logical(self, absorbing: bool, inner: list[Node], frame: Frame | None) -> int:
        left, right = (self.truth(each, frame) for each in inner)
        if absorbing in {left, right}:
            return int(absorbing)
        if left is None or right is None:
            raise Undecided("it depends on a condition that is not known")
        return int(not absorbing)

    def _unary(self, node: Node, inner: Node, frame: Frame | None) -> Any:
        operator = UNARY.get(operator_of(node.cursor), "?")
        if operator == "*":
            return self._named(node, frame)
        if operator in {"++", "--"}:
            changed = operator_of(node.cursor) in _CHANGED_FIRST
            return self.number(inner, frame) + (1 if operator == "++" else -1) * changed
        return arithmetic.unary(operator, self.number(inner, frame))

    def _named(self, node: Node, frame: Frame | None) -> Any:
        """Return the value of a variable, an element or a field where it stands."""
        meant = node.meant
        if meant is not None and meant.kind == CursorKind.ENUM_CONSTANT_DECL:
            return int(meant.enum_value)
        place = place_of(node)
        if place is None:
            raise Undecided(_unknown(node))
        if meant is not None and _shares_bytes(meant):
            raise Undecided(f"{node.name} shares its bytes with other fields")
        return self.at(place, Moment(node.order, node.function, frame), node)

    def at(self, place: Place, moment: Moment, node: Node | None = None) -> Any:
        """Return the value of a variable, or of a part of one, at a moment; raises Undecided."""
        self.spend()
        if (held := self.command_line.held(place, moment)) is not None:
            return held
        if self.program.is_kept(place.root):
            raise Undecided(f"{self.program.name_of(place.root)} keeps its value between calls")
        place = Place(place.root, tuple(self._indexed(step, moment.frame) for step in place.path))
        return self.reaching.value(place, moment, self.read, partial(self._first, place, node))

    def _indexed(self, step: Step, frame: Frame | None) -> Step:
        """Return an index as the number that it has where it stands; as it is where that is not known."""
        try:
            return int(self.number(step, frame)) if isinstance(step, Node) else step
        except (Undecided, LookupError):
            return step

    def _first(self, asked: Place, node: Node | None, place: Place, moment: Moment) -> Any:
        """Return the value of a variable that nothing on the way to a moment sets; raises Undecided."""
        if place.root in self.program.parameters:
            if place == asked:
                return self.parameters.value(place, moment)
            try:
                return self.parameters.value(place, moment)
            except (LookupError, Undecided):
                return self._field(asked.root, self.program.field_name(asked.root) or "")
        if node is not None and node.kind == CursorKind.MEMBER_REF_EXPR:
            return self._field(node.key, node.name)
        is_field = self.declared(asked.root) is None and asked.root in self.program.fields
        if node is not None and not asked.path and is_field:
            return self._field(asked.root, node.name)
        return self._never_written(place, moment, node)

    def _never_written(self, place: Place, moment: Moment, node: Node | None) -> Any:
        """Return the value of a variable that nothing on the way from main to the moment writes."""
        declared = self.program.tree.globals.get(place.root)
        if declared is None:
            name = node.name if node is not None else ""
            raise Undecided(f"{name or 'it'} is set nowhere here")
        written = list(self.program.writes.get(place.root, ()))
        first = [each for each in written if each.node.function is declared]
        if len(first) == len(written) or self._begins_in_main(moment):
            if self.program.changes_at_start(place.root):
                raise Undecided(f"{declared.name} may change before main")
            if self.program.main is None and self.program.is_shared(place.root):
                self.note(f"{declared.name} is taken not to change in sources that are not read")
            if first:
                return self.read(first[-1], place.path, None)
            if not declared.cursor.is_definition() and declared.cursor.storage_class == StorageClass.EXTERN:
                raise Undecided(f"{declared.name} is set in another file")
            if arithmetic.is_number(declared.type):
                return 0
        if place.path:
            raise Undecided(f"{declared.name} is set by code that is not followed")
        return self._any_write(written)

    def _begins_in_main(self, moment: Moment) -> bool:
        """Whether the calls that lead to a moment are known from the beginning of the program."""
        function, frame = moment.function, moment.frame
        for _ in range(_MOST_DEPTH):
            call = frame.call if frame is not None and frame.function is function else None
            call = call or self.program.caller.get(function.order)
            if call is None:
                break
            function = call.node.function
            frame = frame.outer if frame is not None else None
        return function is self.program.main

    def _any_write(self, writes: list[Write], *, has_others: bool = False) -> Any:
        """Return what all writes of a program give, wherever they stand, or the only one but for a first value."""
        self.is_of_any_object = True
        found = []
        later = [each for each in writes if each.node.function.kind not in _DECLARED] or writes
        if has_others:
            later = writes
        for write in later:
            if write.kind is WriteKind.UPDATE:
                raise Undecided(f"it changes at {self.where(write.node)}")
            found.append(self.read(write, (), None))
        if not found:
            raise Undecided("it is set nowhere here")
        if any(each != found[0] for each in found):
            raise Undecided(f"it is set to different values at {', '.join(self.where(w.node) for w in later[:3])}")
        if later[0].node.function.kind not in _DECLARED:
            self.note(f"as set at {self.where(later[0].node)}")
        return found[0]

    def _field(self, key: int, name: str) -> Any:
        writes = [each for each in self.program.fields.get(key, ()) if each.place.path[-1:] in {(), (name,)}]
        if not writes:
            raise Undecided(f"the field {name} is set nowhere here")
        line = self.program.changes_unseen_anywhere(name)
        if line is not None:
            raise Undecided(f"the field {name} changes in code that is not followed, line {line}")
        return self._any_write(writes, has_others=self.program.has_several_objects(key))

    def part(  # noqa: PLR0911  each kind of expression is one case
        self, node: Node, path: tuple[Step, ...], frame: Frame | None
    ) -> Any:
        """Return a part of what an expression gives: a field, an element, what it points to; raises Undecided."""
        self.spend()
        node = node.plain
        if not path:
            return self.value(node, frame)
        if node.kind == CursorKind.UNARY_OPERATOR and UNARY.get(operator_of(node.cursor)) == "&" and node.children:
            rest = path[1:] if path[0] == POINTEE else path
            return self.part(node.children[0], rest, frame)
        place = place_of(node)
        if place is not None:
            whole = Place(place.root, (*place.path, *path))
            member = node if node.kind == CursorKind.MEMBER_REF_EXPR else None
            return self.at(whole, Moment(node.order, node.function, frame), member)
        call = node.call
        if call is not None:
            return self._calls.part(call, path, frame)
        inner = [each for each in node.children if each.kind not in _REFERENCES]
        if node.kind == CursorKind.INIT_LIST_EXPR:
            if any(each.type.kind == TypeKind.VOID for each in inner):
                raise Undecided("the list names its fields")
            which = self.member_index(node, path[0], frame)
            if which < len(inner):
                return self.part(inner[which], path[1:], frame)
            return 0
        if node.kind == CursorKind.CONDITIONAL_OPERATOR and len(inner) == 3:
            condition = self.truth(inner[0], frame)
            if condition is not None:
                return self.part(inner[1] if condition else inner[2], path, frame)
        raise Undecided(_unknown(node))

    def member_index(self, node: Node, step: Step, frame: Frame | None) -> int:
        """Return which one of an initial list a field or an index means."""
        if isinstance(step, Node):
            return int(self.number(step, frame))
        if isinstance(step, int) or step == POINTEE:
            return step if isinstance(step, int) else 0
        names = [field.spelling for field in node.type.get_fields()]
        if step not in names:
            raise Undecided(f"there is no field {step}")
        return names.index(step)

    def read(self, write: Write, rest: tuple[Step, ...], frame: Frame | None) -> Any:
        """Return what a write gives; raises Undecided, or LookupError where it gives nothing."""
        self.spend()
        if write.kind is WriteKind.SHARED:
            raise Undecided(f"it may change through what points to it since {self.where(write.node)}")
        if write.kind is WriteKind.PASSED:
            return self._calls.passed(write, rest, frame)
        if write.kind is WriteKind.UPDATE:
            return self._updated(write, frame)
        if write.value is None:
            raise LookupError
        if rest or _refers(write.node):
            self._check_later(write)
        if rest:
            return self.part(write.value, rest, frame)
        if is_declared_here(write.node.type):
            raise Undecided("its type is not known")
        value = self.value(write.value, frame)
        return arithmetic.converted(value, write.node.type) if isinstance(value, int | float) else value

    def _check_later(self, write: Write) -> None:
        """Raise Undecided where what a pointer or a reference is made of changes afterwards."""
        value = write.value.plain if write.value is not None else write.node
        if value.kind == CursorKind.UNARY_OPERATOR and value.children:
            value = value.children[0].plain
        elif value.type.kind not in _ARRAYS | _POINTERS and not _refers(write.node):
            return
        place = place_of(value)
        for other in self.program.writes.get(place.root, ()) if place is not None else ():
            is_later = other.node.function is write.node.function and other.node.order > write.node.last
            if is_later and other.kind is not WriteKind.SHARED:
                name = self.program.name_of(other.place.root)
                raise Undecided(f"{name or 'it'} changes at {self.where(other.node)} behind what refers to it")

    def _updated(self, write: Write, frame: Frame | None) -> Number:
        before = self.at(write.place, Moment(write.node.order, write.node.function, frame), write.node.children[0])
        operator = operator_of(write.node.cursor)
        if write.value is None:
            sign = 1 if UNARY.get(operator) == "++" else -1
            symbol, operand = "+", sign
        else:
            symbol, operand = BINARY.get(operator, "?")[:-1], self.value(write.value, frame)
        if not isinstance(before, int | float) or not isinstance(operand, int | float):
            raise Undecided("a pointer that is moved")
        return arithmetic.converted(arithmetic.binary(symbol, before, operand), write.node.type)


def _refers(node: Node) -> bool:
    """Whether a reference is declared."""
    kinds = {TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE}
    return node.kind == CursorKind.VAR_DECL and node.type.kind in kinds


def _shares_bytes(meant: Cursor) -> bool:
    """Whether a field is one of a union, or some bits of a number."""
    if meant.kind != CursorKind.FIELD_DECL:
        return False
    return bool(meant.semantic_parent.kind == CursorKind.UNION_DECL or meant.is_bitfield())


def _unknown(node: Node) -> str:
    if node.meant is not None and node.name:
        return f"{node.name} is not known here"
    return "it is not plain enough to be followed"
