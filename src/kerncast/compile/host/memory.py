"""Which memory a pointer of host code points to: who allocated it, how many bytes, and what is put there."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from clang.cindex import Cursor, CursorKind, TypeKind

from kerncast.compile.host.arithmetic import BINARY, UNARY, is_whole
from kerncast.compile.host.libclang import constant, operator_of
from kerncast.compile.host.moments import Frame, Moment
from kerncast.compile.host.tree import Call, Node
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.writes import RECEIVER, Place, Step, Write, WriteKind, place_of

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values

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
    """bytes; None where that is not known"""
    offset: int | None = 0
    """bytes from its beginning"""
    why: str = field(default="", compare=False)
    """why the size is not known"""
    site: tuple[int, ...] = field(default=(), compare=False)
    """tells allocations apart"""
    made_by: str = field(default="", compare=False)
    is_zero: bool = field(default=False, compare=False)
    """whether it is allocated with zeros in it"""


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
