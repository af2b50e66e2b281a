"""What functions give: those of the source by their return statements, those of the C library by their names."""

import re
from typing import TYPE_CHECKING, Any

from clang.cindex import CursorKind, TypeKind

from kerncast.compile.host import arithmetic
from kerncast.compile.host.chances import Chance
from kerncast.compile.host.command_line import PROGRAM
from kerncast.compile.host.moments import Frame, Moment
from kerncast.compile.host.options import GETOPT
from kerncast.compile.host.scanning import scanned
from kerncast.compile.host.tree import Call, Node, is_null
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.writes import ANYHOW, POINTEE, RECEIVER, Place, Step, Write, place_of

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values

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
        raise Undecided(f"{name} of what is no text")
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
