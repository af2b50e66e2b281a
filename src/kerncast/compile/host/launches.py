"""The launches of host code with their values: geometry, shared memory, one value per parameter."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from clang.cindex import Cursor, CursorKind, TemplateArgumentKind, Type, TypeKind, conf

from kerncast.compile.host.arithmetic import converted, is_whole
from kerncast.compile.host.buffers import buffer_text, struct_text, with_shared_memory
from kerncast.compile.host.conditions import Conditions
from kerncast.compile.host.contents import Contents
from kerncast.compile.host.device_globals import DeviceGlobals
from kerncast.compile.host.first_pass import FirstPass, is_of_first
from kerncast.compile.host.instances import Candidate, merged
from kerncast.compile.host.libclang import overloaded, parameter_types, written_at
from kerncast.compile.host.memory import Function, Memory
from kerncast.compile.host.program import Program
from kerncast.compile.host.reached import Reached
from kerncast.compile.host.tree import Call, Node
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.values import Values
from kerncast.compile.host.writes import place_of
from kerncast.compile.host_launches import UNDECIDED, HostArgument, HostLaunch, HostResult, HostValue
from kerncast.compile.nouns import Parameter
from kerncast.compile.source.parsing import qualified_name
from kerncast.compile.source.signatures import parameter_of

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
        """None where they cannot be told apart"""


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
        """what the pointers of one launch point to, by the place of the parameter"""
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
                raise Undecided("it is no pointer to memory")
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
            try:
                self._texts[node.file] = Path(node.file).read_bytes()
            except OSError:
                self._texts[node.file] = b""
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
