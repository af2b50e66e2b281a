"""The code of a running program: modules in the forms in which it brings them become kernels that can be executed."""

import ctypes
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from kerncast.compile import CompiledKernel, CompileRequest, compile_request
from kerncast.compile.cache.remembered import Inputs, UnknowableError
from kerncast.device.demangling import function_name
from kerncast.device.fatbin import ptx_of
from kerncast.device.wire import Form, FunctionFacts
from kerncast.errors import CompileError, InputError, LaunchError, Refusal, UnsupportedError
from kerncast.execute.live import Call, LiveKernel, LiveMemory
from kerncast.execute.setup import linked_program
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.prepare import WORKSPACE_BYTES, has_workspace, initialise, with_workspace
from kerncast.gpu import GPU
from kerncast.hostbuild.compiling import ASKS_FOR_CLANG, SOURCE_TAG
from kerncast.hostbuild.source_code import ptx_of_source
from kerncast.launch import DEFAULT_STANDARD
from kerncast.ptx import Variable, parse_ptx, source_name

_SOURCE_KEYS = ("source", "defines", "include_dirs", "standard", "fast_math")
#: Host code takes the 64-bit integers of stdint.h for long: a source that adds functions for those relies on it.
_AS_HOST = ("KERNCAST_INT64_IS_LONG", "1")
#: Where the server places variables that the program has no place for: below all allocations of the program.
_OWN_BYTES = 64 * 2**20
_ALIGNMENT = 512
#: Kernels of CUB and Thrust, and instances for a lambda, are in clang's PTX alone.
_OF_CLANG = re.compile(r"^_ZN(?:3cub|6thrust)|Ul\w*E\d*_|N4cute|IXtl")
_UNNAMED = "(anonymous namespace)::"
#: The namespace into which NVRTC puts variables that only one source sees.
_OF_ONE_SOURCE = re.compile(r"\b_INTERNAL_[0-9a-f]+_\d+_\w+::")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the code of a module is from."""

    request: CompileRequest | None
    """request for its source, without a kernel; None where the program brought PTX alone"""
    ptx: str = ""
    """of kernels that the source's compiler does not find, where there is a source"""


@dataclass(slots=True)
class Module:
    """A module of a program."""

    origin: Origin
    refusal: Refusal | None = None
    """why it cannot be executed"""
    variables: dict[str, tuple[int, int]] = field(default_factory=dict)
    """address and bytes of each variable that has a place, by what ``key`` gives for its name"""
    ready: set[str] = field(default_factory=set)
    """variables that hold their initial values, or what the host has written"""
    declared: tuple[Variable, ...] | None = None
    """all of its variables, where somebody has asked for one"""

    def key(self, name: str) -> str:
        """Return what a variable's name in PTX and the one that the program registers have in common."""
        return name if self.origin.request is None else common_name(name)


@dataclass(slots=True)
class Function:
    """A kernel of a program."""

    module: int
    mangled: str
    name: str
    """name for the compiler and for people"""
    kernel: LiveKernel | None = None
    cooperative: LiveKernel | None = None
    """the kernel whose blocks may wait for one another, where they can"""
    compiled: CompiledKernel | None = None
    refusal: Refusal | None = None

    def kernel_for(self, call: Call) -> LiveKernel | None:
        """Return the kernel for one kind of launch; None where it cannot be executed."""
        return self.cooperative if call.is_cooperative and self.cooperative is not None else self.kernel


def read_module(form: int, code: bytes, gpu: GPU) -> Module:
    """Return the module that a program has loaded; what cannot be executed is refused when it is launched."""
    try:
        return Module(_origin(form, code, gpu))
    except Refusal as refusal:
        return Module(Origin(None), refusal.copied())


def _origin(form: int, code: bytes, gpu: GPU) -> Origin:
    if form == Form.SOURCE:
        return Origin(_request(code, gpu))
    if form == Form.FATBIN:
        return Origin(None, ptx_of(code, gpu.architecture.number))
    if form == Form.PTX:
        ptx = code.split(b"\0", 1)[0].decode("utf-8", "replace")
        first = ptx.partition("\n")[0].removeprefix("// ")
        return Origin(_request(first.encode(), gpu) if first.startswith(SOURCE_TAG) else None, ptx)
    raise UnsupportedError("a module holds machine code only", cure="Build the program with PTX of its kernels.")


def _request(code: bytes, gpu: GPU) -> CompileRequest:
    text = code.split(b"\0", 1)[0].decode("utf-8", "replace").removeprefix(SOURCE_TAG)
    try:
        table = json.loads(text)
        source, defines, include_dirs, standard, fast_math = (table[name] for name in _SOURCE_KEYS)
        return CompileRequest(
            Path(str(source)),
            (gpu.architecture.code_name,),
            defines=(*((str(name), str(value)) for name, value in defines), _AS_HOST),
            include_dirs=tuple(Path(str(each)) for each in include_dirs),
            standard=str(standard or DEFAULT_STANDARD),
            fast_math=bool(fast_math),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnsupportedError("the program names no source of its kernels", cure="Build it again.") from None


class Modules:
    """All modules and kernels of one process."""

    def __init__(self, gpu: GPU, memory: LiveMemory, base: int, report: Callable[[str], None]) -> None:
        self._gpu, self._memory, self._base, self._report = gpu, memory, base, report
        self._modules: dict[int, Module] = {}
        self.functions: dict[int, Function] = {}
        self._own = _ALIGNMENT
        self._workspace = 0

    def load(self, number: int, form: int, code: bytes) -> None:
        """Take a module."""
        self._modules[number] = read_module(form, code, self._gpu)

    def module(self, number: int) -> Module:
        """Return a module; raises LaunchError for one that was never loaded."""
        if number not in self._modules:
            raise LaunchError(f"module {number} was never loaded")
        return self._modules[number]

    def place(self, number: int, name: str, address: int, nbytes: int) -> None:
        """Take the place that the program has for a variable."""
        module = self.module(number)
        module.variables[module.key(name)] = address, nbytes

    def written_by_host(self, address: int) -> None:
        """Note that the host has written a variable: its initial value comes too late."""
        for module in self._modules.values():
            module.ready |= {name for name, (at, size) in module.variables.items() if at <= address < at + size}

    def symbol(self, number: int, name: str) -> tuple[int, int]:
        """Return address and bytes of a variable; zeros where there is none."""
        module = self.module(number)
        key = module.key(name)
        if module.refusal is None and key not in module.ready:
            for variable in self._variables_of(module):
                if module.key(variable.name) == key and variable.space in {"global", "const"}:
                    self._prepare(module, (variable,))
        return module.variables.get(key, (0, 0))

    def _variables_of(self, module: Module) -> tuple[Variable, ...]:
        """Return all variables of a module; none of a source that has no kernel which can be compiled."""
        if module.declared is None:
            ptx, request = module.origin.ptx, module.origin.request
            with suppress(InputError, Refusal):
                if request is not None and not ptx:
                    self._report(f"compiling {request.source.name}")
                    ptx = ptx_of_source(request)
            module.declared = parse_ptx(ptx).variables if ptx else ()
        return module.declared

    def function(self, number: int, module: int, mangled: str) -> Function:
        """Return a kernel, compiled; its refusal says why there is none."""
        found = self.functions[number] = Function(module, mangled, plain_name(mangled))
        try:
            self._make(found)
        except Refusal as refusal:
            found.refusal = refusal.copied()
        except InputError as error:  # a source that does not compile, PTX that cannot be read
            found.refusal = UnsupportedError(error.what, where=error.where, cure=error.cure)
        return found

    def _make(self, function: Function) -> None:
        module = self.module(function.module)
        if module.refusal is not None:
            raise module.refusal.copied()
        self._compile(module.origin, function)
        ptx, name = module.origin.ptx, function.mangled
        if function.compiled is not None:
            ptx, name = function.compiled.ptx, function.compiled.mangled
        function.kernel = self._live(module, with_workspace(ptx, 0), name)
        if has_workspace(ptx):
            function.cooperative = self._live(module, with_workspace(ptx, self._workspace_of_grids()), name)

    def _live(self, module: Module, ptx: str, name: str) -> LiveKernel:
        linked = linked_program(ptx, name)
        self._prepare(module, linked.globals)
        return LiveKernel(linked, {each.name: module.variables[module.key(each.name)][0] for each in linked.globals})

    def _workspace_of_grids(self) -> int:
        if not self._workspace:
            self._workspace = self._new_place("workspace of grids", WORKSPACE_BYTES)
        return self._workspace

    def _compile(self, origin: Origin, function: Function) -> None:
        """Compile a kernel from its source, unless there is PTX of it alone."""
        if origin.request is None or (origin.ptx and _OF_CLANG.search(function.mangled)):
            return
        self._report(f"compiling {function.name}")
        try:
            function.compiled = compiled_from(origin.request, function)
        except CompileError as error:
            if not origin.ptx:
                cure = f"{error.cure or ''} clang may take what NVRTC refuses: -D {ASKS_FOR_CLANG}=1.".strip()
                raise CompileError(error.what, where=error.where, cure=cure) from None

    def origin_of(self, function: Function) -> Origin:
        """Return what a kernel was made from: the source of its module, or its PTX."""
        origin = self.module(function.module).origin
        if function.compiled is None and origin.ptx:
            # Other kernels of clang's may call functions of math that no file here has.
            return Origin(None, with_one_entry(origin.ptx, function.mangled) if origin.request else origin.ptx)
        return Origin(origin.request)

    def _prepare(self, module: Module, variables: tuple[Variable, ...]) -> None:
        """Give variables places, and their initial values unless the host has written them."""
        for each in variables:
            if module.key(each.name) not in module.variables:
                module.variables[module.key(each.name)] = (
                    self._new_place(source_name(each.name), each.nbytes),
                    each.nbytes,
                )
        places = _Places(module)
        for each in variables:
            key = module.key(each.name)
            if key not in module.ready:
                module.ready.add(key)
                address, nbytes = module.variables[key]
                if nbytes >= each.nbytes and (each.initial or each.relocations):
                    initialise(self._memory.bytes_at(address, each.nbytes), each, places)

    def _new_place(self, name: str, nbytes: int) -> int:
        address = self._base + self._own
        self._own = -(-(self._own + nbytes + _ALIGNMENT) // _ALIGNMENT) * _ALIGNMENT
        if self._own > _OWN_BYTES:
            raise UnsupportedError(f"the variables of its modules take more than {_OWN_BYTES // 2**20} MiB")
        self._memory.add(address, nbytes, name)
        return address


@dataclass(frozen=True, slots=True)
class _Places:
    """Addresses of variables, as initial values ask for them."""

    module: Module

    def address_of(self, name: str) -> int:
        key = self.module.key(name)
        if key not in self.module.variables:
            raise UnsupportedError(f"the address of {name} is not known")
        return self.module.variables[key][0]


def compiled_from(request: CompileRequest, function: Function) -> CompiledKernel:
    """Return a kernel of a source, compiled for the GPU's architecture; raises CompileError."""
    found = compile_request(replace(request, kernel=function.name)).kernels[0]
    if found.mangled != function.mangled and common_name(found.mangled) != common_name(function.mangled):
        raise CompileError(
            f"the kernel {function.name} of the program is another one in its source",
            where=str(request.source),
            cure="Build the program again.",
        )
    return found


_ENTRY = re.compile(r"^(?:\.(?:visible|weak)\s+)*\.entry\s+([\w$]+)", re.MULTILINE)


def with_one_entry(ptx: str, name: str) -> str:
    """Return PTX without the kernels of other names."""
    kept, done = [], 0
    for each in _ENTRY.finditer(ptx):
        kept.append(ptx[done : each.start()])
        done, depth = ptx.index("{", each.end()) + 1, 1
        while depth:
            closing = ptx.find("}", done)
            if closing < 0:
                return ptx
            depth += ptx.count("{", done, closing) - 1
            done = closing + 1
        if each[1] == name:
            kept.append(ptx[each.start() : done])
    return "".join([*kept, ptx[done:]])


def facts_of(function: Function, gpu: GPU) -> FunctionFacts:
    """Return what the program may ask of a kernel."""
    assert function.kernel is not None
    linked = function.kernel.linked
    places = [(linked.parameters[each.name], each.nbytes) for each in linked.function.parameters]
    number = gpu.architecture.number
    resources = function.compiled.resources if function.compiled else None
    return FunctionFacts(
        tuple(places),
        resources.registers_per_thread if resources else 32,
        linked.static_shared_bytes,
        resources.local_bytes_per_thread if resources else linked.private_bytes,
        0,
        (resources and resources.max_threads_per_block) or gpu.architecture.max_threads_per_block,
        number,
        number,
    )


def files_of(request: CompileRequest) -> tuple[Path, ...]:
    """Return the files of the user's that a kernel is compiled from, the source first."""
    try:
        return tuple(map(Path, Inputs(request).files))
    except (UnknowableError, OSError):
        return (request.source,)


@cache
def _demangler() -> Any:
    """Return the function of the C++ library that takes names apart; None where there is none."""
    for name in ("libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"):
        try:
            function = getattr(ctypes.CDLL(name), "__cxa_demangle")
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
        return function
    return None


def plain_name(mangled: str) -> str:
    """Return the name of a kernel as its source has it, without return type and parameters.

    >>> plain_name("_Z6reduceIfLj256EEvPKT_PS0_i"), plain_name("saxpy")
    ('reduce<float, 256u>', 'saxpy')
    """
    text = _demangled(mangled)
    if text is None:
        return function_name(mangled) or mangled
    text = text.replace(_UNNAMED, "")  # its members are found without it, and with it no source can name them
    end = _parameters_at(text)
    start = _name_at(text[:end])
    return text[start:end]


def common_name(mangled: str) -> str:
    """Return what the names that clang and NVRTC give to one thing have in common.

    >>> common_name("_ZL1c"), common_name("_ZN27_INTERNAL_00000000_4_a_cu_f02ns1cE"), common_name("_ZN2nsL1cE")
    ('c', 'ns::c', 'ns::c')
    >>> common_name("_Z1kN4cute13TmaDescriptorE") == common_name("_Z1k14CUtensorMap_st")
    True
    """
    text = _demangled(mangled)
    if text is None:
        return mangled
    # int64_t is long for the program, and long long in the headers of libcu++ under NVRTC. CuTe has a tensor map of its
    # own there, which lies as the program's does.
    return _OF_ONE_SOURCE.sub("", text).replace("long long", "long").replace("cute::TmaDescriptor", "CUtensorMap_st")


def _demangled(mangled: str) -> str | None:
    function = _demangler() if mangled.startswith("_Z") else None
    if function is None:
        return None
    status = ctypes.c_int()
    place = function(mangled.encode(), None, None, ctypes.byref(status))
    if not place:
        return None
    text = ctypes.string_at(place).decode()
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)
    free(place)
    return text


def _parameters_at(text: str) -> int:
    """Return where the list of parameters begins: at the last bracket that nothing encloses."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] in ")>]") - (text[place] in "(<[")
        if depth == 0 and text[place] == "(" and not text[place:].startswith("(anonymous namespace)"):
            return place
    return len(text)


def _name_at(text: str) -> int:
    """Return where the name begins, behind the type that a template's instance returns."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] in ")>]") - (text[place] in "(<[")
        if depth == 0 and text[place] == " ":
            return place + 1
    return 0


def program_of(function: Function) -> Program:
    """Return the program of a kernel that can be executed; raises its refusal."""
    if function.kernel is None:
        raise (function.refusal or UnsupportedError(f"{function.name} is not there")).copied()
    return function.kernel.linked
