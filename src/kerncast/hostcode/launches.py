"""The launches of host code with their values: geometry, shared memory, one value per parameter."""

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clang.cindex import Cursor, CursorKind, TemplateArgumentKind, Type, TypeKind, conf

from kerncast.compile.nouns import Parameter
from kerncast.compile.source.parsing import qualified_name
from kerncast.compile.source.signatures import parameter_of
from kerncast.hostcode.arithmetic import converted, is_whole
from kerncast.hostcode.nouns import UNDECIDED, HostArgument, HostLaunch, HostResult, HostValue, Undecided
from kerncast.hostcode.parsing import is_declared_here, overloaded, overloads, parameter_types, text_of, written_at
from kerncast.hostcode.paths import OF_FIRST_ROUND, Conditions, Reached
from kerncast.hostcode.program import POINTEE, Call, Node, Program, Step, last_statement, parts_of_if, place_of
from kerncast.hostcode.values import OF_FIRST_CALL, Function, Memory, Values
from kerncast.launch import ELEMENT_BYTES

# What host code puts into device memory before a launch: zeros, or something else.


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


# Device memory and structs as a launch file writes them.


#: A struct is looked into this deep, and this many of its numbers are taken one by one.
_DEEPEST = 6
_MOST_NUMBERS = 512
_ARRAYS = {TypeKind.CONSTANTARRAY}
_FORMATS = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "u64": "Q", "i64": "q",
            "f32": "f", "f64": "d"}  # fmt: skip


def buffer_text(memory: Memory, pointee: Type, contents: Contents) -> tuple[str, list[str]]:
    """Return a buffer for the memory behind a pointer, and what is assumed; raises Undecided."""
    if pointee.kind == TypeKind.POINTER:
        raise Undecided("it holds pointers, which a launch file cannot give")
    element, each = layout(pointee)
    if memory.size is None:
        raise Undecided(f"{memory.made_by} allocates it: {memory.why}" if memory.made_by else memory.why)
    notes = []
    offset = memory.offset
    if offset is None:
        notes.append("from the beginning of the allocation: the offset is not known")
    elif offset:
        notes.append(f"what the allocation holds from byte {offset} on")
    count = (memory.size - (offset or 0)) // (each * ELEMENT_BYTES[element])
    if count < 1 or (offset or 0) < 0:
        raise Undecided(f"{memory.made_by or 'the host'} gives it {memory.size} bytes, too few for one element")
    is_zero = contents.are_zero(memory)
    fill = "random" if element.startswith("f") and not is_zero else "zeros"
    if fill == "zeros" and not is_zero:
        notes.append("contents decide branches and addresses: decide them where these are read")
    shape = f"{count}, {each}" if each > 1 else str(count)
    return f"{element}[{shape}] {fill}", notes


def with_shared_memory(arguments: Sequence[HostArgument], memories: Mapping[int, Memory]) -> tuple[HostArgument, ...]:
    """Return arguments with a pointer into the buffer of another one where they point into one allocation."""
    found = list(arguments)
    for place, memory in memories.items():
        same = [
            (each.offset, other)
            for other, each in memories.items()
            if each.site == memory.site and each.site and each.offset is not None
        ]
        base = min(same, default=None)
        if base is None or base[1] == place or memory.offset is None:
            continue
        text = _pointer_into(found[base[1]].parameter, memory.offset - base[0])
        if text is not None:
            value = replace(found[place].value, value=text, notes=())
            found[place] = replace(found[place], value=value)
    return tuple(found)


def _pointer_into(base: Parameter, offset: int) -> str | None:
    """Return a pointer into the buffer of a parameter; None where a launch file cannot name it."""
    if not base.name or base.element is None:
        return f"&{base.name}" if base.name and offset == 0 else None
    index, rest = divmod(offset, ELEMENT_BYTES[base.element])
    if rest:
        return None
    return f"&{base.name}[{index}]" if index else f"&{base.name}"


def struct_text(values: Values, node: Node, type_: Type) -> str:
    """Return a struct byte for byte; raises Undecided where one of its numbers is not known."""
    canonical = type_.get_canonical()
    data = bytearray(max(canonical.get_size(), 0))
    budget = [_MOST_NUMBERS]

    def fill(part: Type, offset: int, path: tuple[Step, ...]) -> None:
        part = part.get_canonical()
        budget[0] -= 1
        if budget[0] < 0 or len(path) > _DEEPEST:
            raise Undecided("the struct holds too many numbers")
        if part.kind in _ARRAYS:
            for index in range(part.element_count):
                fill(part.element_type, offset + index * part.element_type.get_size(), (*path, index))
        elif part.kind == TypeKind.RECORD:
            if is_declared_here(part):
                raise Undecided(f"the type {part.spelling} is not known")
            if _inherits(part):
                raise Undecided("the struct inherits from another one")
            if part.get_declaration().kind == CursorKind.UNION_DECL or any(f.is_bitfield() for f in part.get_fields()):
                raise Undecided("the struct holds fields that share bytes")
            for field in part.get_fields():
                fill(field.type, offset + field.get_field_offsetof() // 8, (*path, field.spelling))
        else:
            element = parameter_of("", part).element if part.kind != TypeKind.POINTER else None
            if element not in _FORMATS:
                raise Undecided(f"the field {path[-1] if path else ''} is a {part.spelling}")
            number = values.part(node, path, None)
            if not isinstance(number, int | float):
                raise Undecided(f"the field {path[-1]} is not known")
            number = float(number) if element.startswith("f") else int(number)
            struct.pack_into(f"<{_FORMATS[element]}", data, offset, number)

    try:
        fill(canonical, 0, ())
    except (struct.error, OverflowError):
        raise Undecided("a number does not fit its field") from None
    if not data:
        raise Undecided("its size is not known")
    return f"bytes({data.hex()})"


def _inherits(part: Type) -> bool:
    """Whether a class has what its own fields do not show: those of another class, or a table of virtual methods."""
    first = min((each.get_field_offsetof() for each in part.get_fields()), default=8 * part.get_size())
    bases = (each.kind == CursorKind.CXX_BASE_SPECIFIER for each in part.get_declaration().get_children())
    # libclang shows no bases of an instance of a template; an empty class has one byte.
    return any(bases) or (first > 0 and part.get_size() > 1)


def layout(pointee: Type) -> tuple[str, int]:
    """Return the element of a launch file that a type is made of, and how many of it; raises Undecided."""
    if pointee.kind == TypeKind.VOID:
        return "u8", 1
    element = parameter_of("", pointee).element if pointee.kind not in _ARRAYS else None
    if element is not None:
        return element, 1
    size = pointee.get_size()
    if size <= 0 or is_declared_here(pointee):
        raise Undecided(f"the type {pointee.spelling} is not known")
    elements = _elements(pointee, _DEEPEST)
    if len(elements) == 1:
        only = elements.pop()
        return only, size // ELEMENT_BYTES[only]
    return "u8", size


def _elements(part: Type, depth: int) -> set[str]:
    """Return the elements that a struct is made of; more than one, or none of a launch file's, where it is mixed."""
    part = part.get_canonical()
    if depth == 0 or part.kind == TypeKind.POINTER:
        return {"", "u8"}
    if part.kind in _ARRAYS:
        return _elements(part.element_type, depth - 1)
    if part.kind == TypeKind.RECORD and parameter_of("", part).element is None:
        found: set[str] = set()
        for field in part.get_fields():
            found |= _elements(field.type, depth - 1)
        return found or {"", "u8"}
    return {parameter_of("", part).element or ""}


# Variables of the device that host code sets before a launch, and what is known of their values.


_COPYING_TO_SYMBOL = {"cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync", "hipMemcpyToSymbol", "hipMemcpyToSymbolAsync"}


class DeviceGlobals:
    """The variables that host code copies to, without those whose data the compiler finds by itself."""

    def __init__(self, values: Values, literal: frozenset[str]) -> None:
        self._values = values
        self._copies: dict[int, tuple[Cursor, list[Call]]] = {}
        for call in values.program.every_call:
            meant = (
                call.arguments[0].plain.meant if call.name in _COPYING_TO_SYMBOL and len(call.arguments) > 1 else None
            )
            if meant is not None and meant.kind == CursorKind.VAR_DECL and qualified_name(meant) not in literal:
                self._copies.setdefault(int(meant.hash), (meant, []))[1].append(call)

    def used_by(self, kernel: Cursor) -> tuple[HostArgument, ...]:
        """Return the variables that a kernel names, in itself or in what it calls."""
        if not self._copies:
            return ()
        named = set(_named(kernel, set()))
        return tuple(self._value(*found) for key, found in self._copies.items() if key in named)

    def _value(self, variable: Cursor, calls: list[Call]) -> HostArgument:
        type_ = variable.type.get_canonical()
        source = calls[-1].arguments[1]
        place = self._values.where(calls[-1].node)
        expression = f"{calls[-1].name} from {source.plain.name}" if source.plain.name else calls[-1].name
        parameter = parameter_of(qualified_name(variable), type_)
        if parameter.kind in {"integer", "float", "bool"} and len(calls) == 1:
            self._values.begin()
            try:
                number = self._values.part(source, (POINTEE,), None)
                if isinstance(number, int | float):
                    value = float(number) if parameter.kind == "float" else int(number)
                    return HostArgument(parameter, HostValue(expression, place, value, tuple(self._values.notes)))
            except (Undecided, LookupError, RecursionError) as error:
                reason = str(error) or "it is not known here"
                return HostArgument(parameter, HostValue(expression, place, UNDECIDED, (), reason))
        return HostArgument(parameter, HostValue(expression, place, *_contents(type_)))


def _contents(type_: Type) -> tuple[str, tuple[str, ...], str | None]:
    """Return a placeholder for the data of a variable, what it assumes, and why it is undecided where it is."""
    size = type_.get_size()
    element_type = type_
    while element_type.kind in _ARRAYS:
        element_type = element_type.element_type.get_canonical()
    try:
        element, _ = layout(element_type)
    except Undecided:
        return UNDECIDED, (), "its data is not known"
    if (element == "u8" and element_type.kind == TypeKind.RECORD) or size <= 0:
        return f"bytes({UNDECIDED})", (), f"{size} bytes of {type_.spelling}"
    fill = "random" if element.startswith("f") else "zeros"
    return f"{element}[{size // ELEMENT_BYTES[element]}] {fill}", ("contents are assumed",), None


def _named(cursor: Cursor, seen: set[int]) -> Iterator[int]:
    """Yield the variables that a function names, in itself or in what it may call."""
    template = conf.lib.clang_getSpecializedCursorTemplate(cursor)
    cursor = (template or cursor).get_definition() or cursor
    if int(cursor.hash) in seen:
        return
    seen.add(int(cursor.hash))
    for child in cursor.walk_preorder():
        for meant in overloads(child):
            yield from _named(meant, seen)
        if child.kind != CursorKind.DECL_REF_EXPR or child.referenced is None:
            continue
        meant = child.referenced.canonical
        if meant.kind == CursorKind.VAR_DECL:
            yield int(meant.hash)
        elif meant.kind in {CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE}:
            yield from _named(meant, seen)


# One launch in a function template stands for all instances of the function: what they agree on, and what not.


_BETWEEN_BRACKETS = re.compile(r"(?<=[\[(])[^\])]*(?=[\])])")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One launch by one instance of a function at a place."""

    rank: int
    node: Node
    launch: HostLaunch


def merged(program: Program, candidates: Sequence[Candidate]) -> HostLaunch:
    """Return the launch of the instance that is called first, and say where others of the same rank differ."""
    best = max((each.launch.is_reached, each.rank) for each in candidates)
    left = [each for each in candidates if (each.launch.is_reached, each.rank) == best]
    if left[0].launch.kernel == UNDECIDED:
        return left[0].launch  # one block stands for all that a macro launches
    order = [_called_at(program, each.node) for each in left]
    is_ordered = len({each[0] for each in order}) == 1 and order[0][0] >= 0
    if is_ordered:
        left = [each for _, each in sorted(zip(order, left, strict=True), key=lambda pair: pair[0])]
    name = f"{len(left)} instances of {left[0].node.function.name}"
    launch = left[0].launch
    for other in left[1:]:
        launch = _beside(launch, other.launch, name, is_ordered=is_ordered)
    return launch


def _called_at(program: Program, node: Node) -> tuple[int, int]:
    """Return which function calls the one of a node first, and where; negative where that is not known."""
    call = program.caller.get(node.function.order)
    return (call.node.function.order, call.node.order) if call is not None else (-1, -1)


def _beside(launch: HostLaunch, other: HostLaunch, name: str, *, is_ordered: bool) -> HostLaunch:
    def common(mine: HostValue, theirs: HostValue) -> HostValue:
        if mine.value == theirs.value or mine.is_undecided:
            return mine
        if is_ordered:
            note = f"{OF_FIRST_CALL} {name}"
            return mine if note in mine.notes else replace(mine, notes=(*mine.notes, note))
        return replace(mine, value=_undecided(mine), reason=f"{name} give it different values")

    if len(launch.arguments) != len(other.arguments):
        return launch
    return replace(
        launch,
        grid=common(launch.grid, other.grid),
        block=common(launch.block, other.block),
        shared_bytes=common(launch.shared_bytes, other.shared_bytes),
        arguments=tuple(
            HostArgument(each.parameter, common(each.value, theirs.value))
            for each, theirs in zip(launch.arguments, other.arguments, strict=True)
        ),
    )


def _undecided(value: HostValue) -> str | tuple[None, ...] | None:
    """Return a value without its numbers."""
    if isinstance(value.value, tuple):
        return (None,)
    if not isinstance(value.value, str):
        return None
    return _BETWEEN_BRACKETS.sub(UNDECIDED, value.value) if "[" in value.value or "(" in value.value else UNDECIDED


# Whether a launch happens in the pass of a loop, and in the call of a function, that its values are taken from.


#: Calls from main to a launch that are looked at.
_MOST_CALLS = 50
_LEAVING = {
    CursorKind.RETURN_STMT, CursorKind.CONTINUE_STMT, CursorKind.BREAK_STMT, CursorKind.CXX_THROW_EXPR,
}  # fmt: skip


def is_of_first(note: str) -> bool:
    """Whether a note says that a value is the one of a first pass, or of a first call."""
    return note.startswith((OF_FIRST_ROUND, OF_FIRST_CALL))


class FirstPass:
    """Looks at the conditions on the way from main to a launch."""

    def __init__(self, program: Program, conditions: Conditions) -> None:
        self._program = program
        self._conditions = conditions
        self._known: dict[int, bool] = {}

    def misses(self, node: Node) -> bool:
        """Whether a condition that holds only in later passes or calls keeps a statement from the first one."""
        for _ in range(_MOST_CALLS):
            if node.order not in self._known:
                self._known[node.order] = self._misses_in_function(node)
            if self._known[node.order]:
                return True
            call = self._program.caller.get(node.function.order)
            if call is None:
                break
            node = call.node
        return False

    def _misses_in_function(self, node: Node) -> bool:
        for parent, child in node.ancestors():
            runs, notes = self._conditions.lets_run(parent, child, node)
            if runs is False and any(map(is_of_first, notes)):
                return True
            if parent.kind == CursorKind.COMPOUND_STMT:
                before = parent.children[: parent.children.index(child)]
                if any(each.kind == CursorKind.IF_STMT and self._leaves(each) for each in before):
                    return True
        return False

    def _leaves(self, statement: Node) -> bool:
        """Whether an if leaves what it stands in, in the first pass or call."""
        condition, branches = parts_of_if(statement)
        leaving = [last_statement(each).kind in _LEAVING for each in branches]
        if not any(leaving):
            return False
        holds, notes = self._conditions.holds(condition)
        if holds is None or not any(map(is_of_first, notes)):
            return False
        return leaving[0] if holds else leaving[1:] == [True]


#: Functions that launch the kernel that is their first argument: grid, block, and an array of addresses.
_LAUNCHING = {"cudaLaunchKernel", "cudaLaunchCooperativeKernel", "hipLaunchKernel", "hipLaunchCooperativeKernel"}
#: Macros of HIP that take kernel, grid, block, shared memory and stream before the kernel's arguments.
_LAUNCHING_BY_LIST = {"hipLaunchKernelGGL"}
_LONGEST_TEXT = 100
_TEMPLATE_PARAMETERS = {
    CursorKind.TEMPLATE_TYPE_PARAMETER, CursorKind.TEMPLATE_NON_TYPE_PARAMETER,
    CursorKind.TEMPLATE_TEMPLATE_PARAMETER,
}  # fmt: skip
#: x of a grid (CUDA C++ Programming Guide, technical specifications per compute capability).
_LARGEST_EXTENT = 2**31 - 1
_KERNELS = {CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE, CursorKind.OVERLOADED_DECL_REF}
_NAME = re.compile(r"\s*(?:::)?\w+(?:\s*::\s*\w+)*\s*\Z")
_REFERENCES = {CursorKind.TYPE_REF, CursorKind.TEMPLATE_REF, CursorKind.NAMESPACE_REF}


class _Site:
    """One launch: its call, and the expressions that it is made of."""

    def __init__(self, call: Call, kernel: Node, configuration: list[Node], arguments: list[Node] | None) -> None:
        self.call = call
        self.kernel = kernel
        self.configuration = configuration
        self.arguments = arguments
        """arguments of the kernel; None where they cannot be told apart"""


class Launches:
    """Finds the launches of a program and evaluates them."""

    def __init__(
        self, program: Program, arguments: tuple[str, ...] | None, literal: frozenset[str] = frozenset()
    ) -> None:
        self._program = program
        self._values = Values(program, arguments)
        self._contents = Contents(self._values)
        self._globals = DeviceGlobals(self._values, literal)
        self._texts: dict[str, bytes] = {}
        self._memories: dict[int, Memory] = {}
        """memory that the pointers of one launch point to, by the place of the parameter"""
        conditions = Conditions(self._values)
        self._first_pass = FirstPass(program, conditions)
        self._misses_first_pass = False
        self._reached = Reached(program, conditions)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The calls that launch something."""
        return tuple(site.call.node for site in self._sites())

    @property
    def uncalled(self) -> tuple[str, ...]:
        """The functions whose parameters a launch needs, and which nothing calls."""
        return tuple(self._values.parameters.uncalled)

    def found(self) -> tuple[HostLaunch, ...]:
        """Return every launch once, in the order of the text."""
        found: dict[tuple[str, int, str], list[Candidate]] = {}
        macros: dict[tuple[str, int, str], str] = {}
        for site in self._sites():
            node = site.call.node
            launch = replace(self._launch(site), is_reached=self._reached.may_happen(node))
            key = (node.file, written_at(node.cursor.extent.start), launch.kernel)
            if launch.kernel == UNDECIDED:
                macro = launch.written.partition("(")[0]  # one block stands for all that a macro launches
                key = next((each for each in found if macros.get(each) == macro), key)
                macros[key] = macro
            found.setdefault(key, []).append(Candidate(self._rank(node.function), node, launch))
        return tuple(merged(self._program, found[key]) for key in sorted(found, key=lambda key: key[:2]))

    def _rank(self, function: Node) -> int:
        """Return how much is known of the calls of a function that holds a launch, which may be read several times.

        A source stands by itself and in another one that includes it, a lambda by itself and in the function around it.
        """
        is_called = function.order in self._program.caller or function is self._program.main
        return is_called + (is_called and function.name == "operator()")

    def _sites(self) -> list[_Site]:
        sites = []
        for call in self._program.launches:
            configuration = call.configuration.call if call.configuration is not None else None
            if configuration is not None and call.callee is not None:
                sites.append(_Site(call, call.callee.plain, configuration.arguments, call.arguments))
        for call in self._program.every_call:
            given = call.arguments
            if call.name in _LAUNCHING and len(given) >= 4:
                addresses = self._addresses(given[3])
                sites.append(_Site(call, given[0].plain, [given[1], given[2], *given[4:5]], addresses))
            elif call.name in _LAUNCHING_BY_LIST and len(given) >= 5:
                sites.append(_Site(call, given[0].plain, given[1:4], given[5:]))
        return sites

    def _addresses(self, node: Node) -> list[Node] | None:
        """Return what the addresses in an array of a launch point to."""
        place = place_of(node)
        writes = self._program.writes.get(place.root, []) if place is not None else []
        lists = [w.value for w in writes if w.value is not None and w.value.kind == CursorKind.INIT_LIST_EXPR]
        if len(writes) != 1 or len(lists) != 1 or lists[0] is None:
            return None
        found = []
        for element in lists[0].children:
            plain = element.plain
            if plain.kind != CursorKind.UNARY_OPERATOR or not plain.children:
                return None
            found.append(plain.children[0])
        return found

    def _launch(self, site: _Site) -> HostLaunch:
        node, configuration = site.call.node, site.configuration
        self._values.begin()
        self._misses_first_pass = self._first_pass.misses(node)
        kernel = self._kernel(site.kernel)
        declared = kernel if kernel is not None else overloaded(site.kernel.cursor)
        inside = list(declared.get_children()) if declared is not None else []
        parameters = [child for child in inside if child.kind == CursorKind.PARM_DECL]
        # As the function takes them: an array is a pointer.
        types = parameter_types(declared)
        if len(types) != len(parameters):
            types = [each.type for each in parameters]
        written = self._text(site.kernel)
        shared = configuration[2] if len(configuration) > 2 else None
        self._memories = {}
        arguments = [
            HostArgument(parameter_of(p.spelling, type_), self._argument(type_, site, place))
            for place, (p, type_) in enumerate(zip(parameters, types, strict=True))
        ]
        return HostLaunch(
            kernel=_instance(kernel) if kernel is not None else _unknown_instance(site.kernel, written, declared),
            written=written,
            place=self._values.where(node),
            grid=self._extent(configuration[0]),
            block=self._extent(configuration[1]),
            shared_bytes=self._number(shared) if shared is not None else HostValue("", "", 0),
            arguments=with_shared_memory(arguments, self._memories),
            globals=self._globals.used_by(kernel) if kernel is not None else (),
        )

    def _kernel(self, node: Node) -> Cursor | None:
        """Return the kernel that is launched; None where it cannot be told."""
        if node.kind == CursorKind.UNARY_OPERATOR and node.children:
            node = node.children[0].plain
        meant = node.meant
        if meant is not None and meant.kind == CursorKind.FUNCTION_DECL:
            return meant
        self._values.begin()
        try:
            found = self._values.pointers.value(node, None)
        except (Undecided, LookupError, RecursionError):
            return None
        return found.cursor if isinstance(found, Function) else None

    def _evaluated(self, node: Node, evaluate: Callable[[], HostResult]) -> HostValue:
        self._values.begin()
        expression, place = self._described(node), self._values.where(node)
        try:
            value = evaluate()
            self._check_pass()
        except Undecided as error:
            return HostValue(expression, place, None, tuple(self._values.notes), str(error))
        except LookupError:
            return HostValue(expression, place, None, (), "it is set nowhere here")
        except RecursionError:
            return HostValue(expression, place, None, (), "it lies too deep")
        return HostValue(expression, place, value, tuple(self._values.notes))

    def _check_pass(self) -> None:
        """Raise Undecided where a value is that of a first pass or call, and the launch happens in a later one."""
        if self._misses_first_pass and any(map(is_of_first, self._values.notes)):
            raise Undecided("the first pass of the loop, or the first call, does not launch")

    def _number(self, node: Node) -> HostValue:
        return self._evaluated(node, lambda: int(self._values.number(node, None)))

    def _extent(self, node: Node) -> HostValue:
        """Return the extents of a grid or a block, as far as they are known."""
        self._values.begin()
        numbers: list[int | None] = []
        reasons: list[str] = []
        is_number = _is_whole(node.plain.type)
        for axis in "xyz":
            try:
                number = self._values.value(node, None) if is_number else self._values.part(node, (axis,), None)
                self._check_pass()
                numbers.append(_positive(number, axis))
            except Undecided as error:
                numbers.append(None)
                reasons.append(str(error))
            except (LookupError, RecursionError):
                numbers.append(None)
                reasons.append("it is not plain enough to be followed")
            if is_number:
                break
        while len(numbers) > 1 and numbers[-1] == 1:
            numbers.pop()
        if None in numbers and len(numbers) == 3 and all(each is None for each in numbers):
            numbers = [None]
        reason = "; ".join(dict.fromkeys(reasons)) or None
        return HostValue(
            self._described(node), self._values.where(node), tuple(numbers), tuple(self._values.notes), reason
        )

    def _argument(self, type_: Type, site: _Site, place: int) -> HostValue:
        where = self._values.where(site.call.node)
        if site.arguments is None or place >= len(site.arguments):
            return HostValue(site.call.name, where, None, (), "the arguments of this launch are not followed")
        node = site.arguments[place]
        parameter = parameter_of("", type_)
        if parameter.kind == "struct":
            value = self._evaluated(node, lambda: struct_text(self._values, node, type_))
            return value if value.value is not None else _placed(value, f"bytes({UNDECIDED})", parameter)
        if parameter.is_pointer:
            return self._pointer(node, type_, place)
        if parameter.kind == "unknown":
            return HostValue(self._described(node), where, None, (), f"the type {type_.spelling} is not known")
        return self._evaluated(node, lambda: self._scalar(node, parameter))

    def _scalar(self, node: Node, parameter: Parameter) -> HostResult:
        number = self._values.number(node, None)
        if parameter.kind == "bool":
            return bool(number)
        return float(number) if parameter.kind == "float" else int(number)

    def _pointer(self, node: Node, type_: Type, place: int) -> HostValue:
        canonical = type_.get_canonical()
        inner = canonical.get_pointee() if canonical.kind == TypeKind.POINTER else canonical.element_type
        pointee = inner.get_canonical()

        def text() -> HostResult:
            memory = self._values.pointers.value(node, None)
            if not isinstance(memory, Memory):
                if memory == 0:
                    return 0
                raise Undecided("it is not a pointer to memory")
            found, notes = buffer_text(memory, pointee, self._contents)
            for note in notes:
                self._values.note(note)
            if not self._values.is_of_any_object:
                self._memories[place] = memory
            return found

        value = self._evaluated(node, text)
        return value if value.value is not None else _placed(value, _empty_buffer(pointee), None)

    def _described(self, node: Node) -> str:
        """Return the text of an expression; of a variable that is set once, how it is set."""
        text = self._text(node)
        call = node.plain.call
        if call is not None and call.is_constructor and call.arguments and all(a.line == 0 for a in call.arguments[1:]):
            node = call.arguments[0]  # a variable that becomes a dim3
        place = place_of(node)
        writes = [] if place is None else self._program.writes.get(place.root, [])
        if place is None or place.path or len(writes) != 1 or writes[0].node.function is not node.function:
            return text
        setting = self._text(writes[0].node)
        return setting if len(setting) > len(text) and writes[0].value is not None else text

    def _text(self, node: Node) -> str:
        """Return an expression as it is written, on one line."""
        extent = node.cursor.extent
        start, end = written_at(extent.start), written_at(extent.end)
        if not node.file:
            return ""
        if node.file not in self._texts:
            self._texts[node.file] = text_of(node.file)
        text = " ".join(self._texts[node.file][start:end].decode(errors="replace").split())
        return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _place(item: tuple[tuple[str, int, str], object]) -> tuple[str, int]:
    return item[0][:2]


def _positive(number: Any, axis: str) -> int:
    if not isinstance(number, int | float) or not 1 <= number <= _LARGEST_EXTENT:
        raise Undecided(f"{axis} would be {number}")
    return int(number)


def _placed(value: HostValue, text: str, parameter: Parameter | None) -> HostValue:
    """Return an undecided value with what is known of its form."""
    reason = value.reason or ""
    if parameter is not None and parameter.byte_size:
        reason += f"; {parameter.byte_size} bytes of {parameter.type_text}"
    return HostValue(value.expression, value.place, text, value.notes, reason)


def _empty_buffer(pointee: Type) -> str:
    element = parameter_of("", pointee).element
    if element is None or pointee.kind == TypeKind.POINTER:
        return UNDECIDED
    return f"{element}[{UNDECIDED}] {'random' if element.startswith('f') else 'zeros'}"


def _is_whole(type_: Type) -> bool:
    return parameter_of("", type_).kind in {"integer", "bool"}


def _instance(kernel: Cursor) -> str:
    """Return the name of a kernel, with its template arguments where it is an instance."""
    name = qualified_name(kernel)
    count = kernel.get_num_template_arguments()
    if count < 1:
        return name
    template = conf.lib.clang_getSpecializedCursorTemplate(kernel)
    inside = list(template.get_children()) if template is not None else []
    parameters = [each for each in inside if each.kind in _TEMPLATE_PARAMETERS]
    if len(parameters) != count:
        return f"{name}<{UNDECIDED}>"
    texts = [_template_argument(kernel, place, parameters[place].type) for place in range(count)]
    return f"{name}<{', '.join(texts)}>" if None not in texts else f"{name}<{UNDECIDED}>"


def _template_argument(kernel: Cursor, place: int, declared: Type) -> Any:
    """Return a template argument as a name has it; None where that cannot be told."""
    try:
        kind = kernel.get_template_argument_kind(place)
    except ValueError:  # a parameter pack, which cindex does not know
        return None
    if kind == TemplateArgumentKind.TYPE:
        type_ = kernel.get_template_argument_type(place)
        return str(type_.spelling) if type_.get_canonical().kind != TypeKind.UNEXPOSED else None
    if kind != TemplateArgumentKind.INTEGRAL:
        return None
    type_ = declared.get_canonical()
    value = kernel.get_template_argument_value(place)
    if type_.kind == TypeKind.BOOL:
        return "true" if value else "false"
    text = str(converted(value, type_) if is_whole(type_) else value)
    return f"({type_.spelling}){text}" if type_.kind == TypeKind.ENUM else text


def _unknown_instance(node: Node, written: str, declared: Cursor | None) -> str:
    """Return the name of a kernel of which only the text, and perhaps the template, is known."""
    name, bracket, _ = written.partition("<")
    if declared is not None:
        is_template = declared.kind == CursorKind.FUNCTION_TEMPLATE
        return qualified_name(declared) + (f"<{UNDECIDED}>" if is_template else "")
    is_variable = node.meant is not None and node.meant.kind not in _KERNELS
    if is_variable or not _NAME.match(name):
        return UNDECIDED  # a pointer to a function, or a macro
    return f"{name.strip()}<{UNDECIDED}>" if bracket else name.strip()
