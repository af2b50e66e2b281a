"""Variables in constant and global memory as the source declares them, and the host code that sets them."""

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from clang.cindex import Cursor, CursorKind, TypeKind

from kerncast.compile.nouns import DeviceVariable, HostCopy
from kerncast.compile.source.parsing import qualified_name
from kerncast.compile.source.signatures import element_of, size_of

# Where host code sets variables of the device: calls of cudaMemcpyToSymbol, and the data where it stands in the text.
#
# Only what the text itself says is taken: an array or a number with literal initial values that nothing else can
# change.


_CALL = re.compile(r"\b(cudaMemcpyToSymbol(?:Async)?|cudaGetSymbolAddress)\s*(?:<[^<>;]*>\s*)?\(")
#: Calls after which the host can write the variable without naming it again.
_ADDRESS = "cudaGetSymbolAddress"
_HIDDEN = re.compile(
    r"^[ \t]*#[ \t]*include[^\n]*|//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
    re.DOTALL | re.MULTILINE,
)
_NAME = re.compile(r"(?:\([^()]*\)\s*)*&?\s*\(?\s*((?:\w*\s*::\s*)*[A-Za-z_]\w*)\s*\)?(?:\s*\[\s*0\s*\])?")
_SIZE = re.compile(r"sizeof\s*\(?\s*(\w[\w\s]*?)\s*\)?")
_LITERAL = re.compile(r"([+-]?\s*)(0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|true|false)[uUlLfF]*")
_WORDS = {"true": 1, "false": 0}
_MOST_VALUES = 1 << 16
_MOST_CALLS = 200
_LONGEST_CALL = 2000

#: How struct packs one element, by the type's name in C++ without const and static.
_CODES = {
    "float": "f", "double": "d", "bool": "?", "char": "b", "signed char": "b", "int8_t": "b", "unsigned char": "B",
    "uint8_t": "B", "uchar": "B", "short": "h", "int16_t": "h", "unsigned short": "H", "uint16_t": "H", "ushort": "H",
    "int": "i", "int32_t": "i", "signed": "i", "unsigned": "I", "unsigned int": "I", "uint32_t": "I", "uint": "I",
    "long": "q", "long long": "q", "int64_t": "q", "unsigned long": "Q", "unsigned long long": "Q", "uint64_t": "Q",
    "size_t": "Q",
}  # fmt: skip
_TYPES = "|".join(sorted((re.escape(name).replace(r"\ ", r"\s+") for name in _CODES), key=len, reverse=True))
#: A variable of the device may have the name of the host's.
_ON_DEVICE = re.compile(r"\b__(?:constant|device|shared|managed)__\s*\Z")
_FARTHEST_BEFORE = 100
_HEAD = re.compile(rf"(?:\b(?:static|const|constexpr)\s+)*\b(?P<type>{_TYPES})\s+(?:const\s+)?\Z")
_TAIL = re.compile(r"\s*(?P<extents>(?:\[[^\[\]]*\]\s*)*)(?:=\s*(?P<value>\{[^;]*\}|[^;,{}()]*)\s*)?[;,]")
_LONGEST_VALUE = 1 << 20
_MOST_USES = 100


@dataclass(frozen=True, slots=True)
class SymbolCopy:
    """One place in host code that sets a variable of the device."""

    symbol: str
    """symbol as written in the source"""
    line: int
    data: bytes | None
    """bytes that are copied; None where the text has no literal values"""


def symbol_copies(text: bytes) -> tuple[SymbolCopy, ...]:
    """Return the places in a file that set variables of the device, in order."""
    if b"Symbol" not in text:
        return ()
    code = _HIDDEN.sub(_spaces, text.decode(errors="replace"))
    calls = islice(_CALL.finditer(code), _MOST_CALLS)
    return tuple(copy for match in calls if (copy := _copy(code, match)) is not None)


def _copy(code: str, match: re.Match[str]) -> SymbolCopy | None:
    end, arguments = _arguments(code, match.end())
    is_address = match[1] == _ADDRESS
    place = 1 if is_address else 0
    symbol = _NAME.fullmatch(arguments[place]) if len(arguments) > place else None
    if symbol is None:
        return None
    name = "".join(symbol[1].split())
    line = code.count("\n", 0, match.start()) + 1
    is_whole = len(arguments) < 4 or arguments[3] == "0"
    source = _NAME.fullmatch(arguments[1]) if not is_address and len(arguments) >= 3 and is_whole else None
    data = _plain_data(code, source[1], (match.start(), end)) if source else None
    if data is not None and source and _copied_bytes(arguments[2], source[1], len(data)) != len(data):
        data = None
    return SymbolCopy(name, line, data)


def _copied_bytes(text: str, source: str, whole: int) -> int:
    """Return how many bytes a product of numbers and sizes is; a name that is not known counts as the whole."""
    found = 1
    for factor in text.split("*"):
        size = _SIZE.fullmatch(factor.strip())
        if factor.strip().isdigit():
            found *= int(factor)
        elif size is None or (size[1] != source and " ".join(size[1].split()) not in _CODES):
            return whole
        else:
            found *= whole if size[1] == source else struct.calcsize(f"<{_CODES[' '.join(size[1].split())]}")
    return found


def _arguments(code: str, start: int) -> tuple[int, list[str]]:
    """Return where the call that begins before ``start`` ends, and the texts of its arguments."""
    depth, first = 1, start
    found: list[str] = []
    for place in range(start, min(start + _LONGEST_CALL, len(code))):
        letter = code[place]
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 or (letter == "," and depth == 1):
            found.append(code[first:place].strip())
            first = place + 1
        if depth == 0:
            return place, found
    return start, found


def _plain_data(code: str, name: str, call: tuple[int, int]) -> bytes | None:
    """Return the bytes of a variable of the host, None where the text does not say them."""
    uses = list(islice(re.finditer(rf"\b{re.escape(name)}\b", code), _MOST_USES + 1))
    declarations = [declared for use in uses if (declared := _declaration(code, use)) is not None]
    if len(declarations) != 1 or len(uses) > _MOST_USES:
        return None
    declared = declarations[0]
    spans = (declared.span, call)
    if not declared.is_constant and any(_may_change(code, use.start(), spans) for use in uses):
        return None
    values = _values(declared.value)
    if values is None or not all(extent.isdigit() or not extent for extent in declared.extents):
        return None
    count = 1
    for extent in declared.extents:
        count *= int(extent or len(values))
    is_nested = declared.value.count("{") > 1
    if len(values) > count or count > _MOST_VALUES or (is_nested and len(values) < count):
        return None
    return _packed([*values, *[0] * (count - len(values))], _CODES[declared.type])


@dataclass(frozen=True, slots=True)
class _Declared:
    """A declaration with an initial value."""

    span: tuple[int, int]
    type: str
    is_constant: bool
    extents: tuple[str, ...]
    value: str


def _declaration(code: str, use: re.Match[str]) -> _Declared | None:
    """Return the declaration in which a name stands, where it is one of a number or of an array on the host."""
    first = max(0, use.start() - _FARTHEST_BEFORE)
    head = _HEAD.search(code, first, use.start())
    tail = _TAIL.match(code, use.end(), use.end() + _LONGEST_VALUE)
    if head is None or tail is None or _ON_DEVICE.search(code, first, head.start()):
        return None
    words = head[0].split()
    return _Declared(
        span=(head.start(), tail.end()),
        type=" ".join(head["type"].split()),
        is_constant="const" in words or "constexpr" in words,
        extents=tuple(part.strip() for part in re.findall(r"\[([^\[\]]*)\]", tail["extents"])),
        value=tail["value"] or "",
    )


def _may_change(code: str, place: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a name that is not const stands where its value might change; inside sizeof it does not."""
    if any(start <= place < end for start, end in spans):
        return False
    return not re.search(r"\bsizeof\s*\(?\s*\Z", code[max(0, place - 20) : place])


def _values(text: str) -> list[float] | None:
    """Return the numbers of an initial value, None where one of them is no literal."""
    if not text:
        return None
    parts = [part.strip() for part in text.replace("{", " ").replace("}", " ").split(",")]
    parts = parts[:-1] if parts and not parts[-1] else parts
    found: list[float] = []
    for part in parts:
        match = _LITERAL.fullmatch(part)
        if match is None:
            return None
        found.append(_number(match))
    return found or None


def _number(match: re.Match[str]) -> float:
    sign, digits = -1 if "-" in match[1] else 1, match[2]
    if digits in _WORDS:
        return sign * _WORDS[digits]
    if digits.lower().startswith("0x"):
        return sign * int(digits, 16)
    if digits.isdigit():
        is_octal = len(digits) > 1 and digits[0] == "0" and not set(digits) & set("89")
        return sign * int(digits, 8 if is_octal else 10)
    return sign * float(digits)


def _packed(values: Sequence[float], code: str) -> bytes | None:
    numbers = values if code in "fd" else [int(value) for value in values]
    try:
        return struct.pack(f"<{len(numbers)}{code}", *numbers)
    except (struct.error, OverflowError):
        return None


def _spaces(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


_ARRAYS = {TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY}


def device_variables(found: Mapping[str, Iterable[Cursor]], texts: Mapping[str, bytes]) -> tuple[DeviceVariable, ...]:
    """Return the variables of namespace scope with __constant__ or __device__; both mappings are by file."""
    variables = [
        _variable(cursor, kinds, texts.get(file, b""))
        for file in texts
        for cursor in found.get(file, ())
        if cursor.kind == CursorKind.VAR_DECL
        and (kinds := {child.kind for child in cursor.get_children()})
        & {CursorKind.CUDACONSTANT_ATTR, CursorKind.CUDADEVICE_ATTR}
    ]
    copies = [(file, copy) for file, text in texts.items() for copy in symbol_copies(text)]
    return tuple(
        replace(
            variable,
            copies=tuple(
                HostCopy(file, copy.line, copy.data) for file, copy in copies if _is_named(variable.name, copy.symbol)
            ),
        )
        for variable in variables
    )


def _variable(cursor: Cursor, kinds: set[CursorKind], text: bytes) -> DeviceVariable:
    value = cursor.type.get_canonical()
    while value.kind in _ARRAYS:
        value = value.element_type.get_canonical()
    name = cursor.spelling.encode()
    behind = text[cursor.location.offset + len(name) : cursor.extent.end.offset]
    return DeviceVariable(
        name=qualified_name(cursor),
        is_constant=CursorKind.CUDACONSTANT_ATTR in kinds,
        type_text=cursor.type.spelling,
        element=element_of(value),
        byte_size=size_of(cursor.type.get_canonical()),
        has_initial=b"=" in behind or b"{" in behind,
        line=cursor.location.line,
    )


def _is_named(name: str, symbol: str) -> bool:
    """Whether a name as host code writes it can mean the variable."""
    shorter, longer = sorted((name, symbol.removeprefix("::")), key=len)
    return longer == shorter or longer.endswith(f"::{shorter}")
