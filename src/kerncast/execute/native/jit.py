"""LLVM: from the text of a module to functions that can be called."""

import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from kerncast.execute.native.ir import Unit

_OPTIMISED = 2


@dataclass(frozen=True, slots=True)
class Host:
    """A CPU to write code for, as LLVM names it."""

    name: str
    features: str


@dataclass(frozen=True, slots=True)
class Machine:
    """Compiled code, which lives as long as this value."""

    engine: Any = field(repr=False)

    def function(self, name: str) -> Callable[[int], int]:
        """Return a function that takes a pointer and returns an int; it runs without the interpreter's lock."""
        return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self.engine.get_function_address(name))


@cache
def this_host() -> Host:
    """Return the CPU that this runs on."""
    _initialise()
    # Vectors of 512 bits are used where there are any: LLVM avoids them by itself, for fear of a lower clock.
    features = llvm.get_host_cpu_features()
    features.pop("prefer-256-bit", None)
    return Host(llvm.get_host_cpu_name(), f"{features.flatten()},-prefer-256-bit")


def compile_unit(unit: Unit, host: Host | None = None) -> Machine:
    """Compile a module, and what it borrows unless that has been done before."""
    host = host or this_host()
    return compile_text(unit.text, host, borrowed={name: _library(name, host, w) for name, w in unit.borrowed.items()})


_LIBRARY: dict[tuple[str, Host], Machine] = {}
_WRITING = threading.Lock()
"""of the library: code that some thread runs must not be compiled again and dropped"""


def _library(name: str, host: Host, write: Callable[[Unit], None]) -> int:
    """Return the address of a function that all kernels share."""
    with _WRITING:
        if (name, host) not in _LIBRARY:
            unit = Unit()
            write(unit)
            _LIBRARY[name, host] = compile_text(unit.text, host, optimises=True)
        return int(_LIBRARY[name, host].engine.get_function_address(name))


def compile_text(
    text: str, host: Host | None = None, *, optimises: bool = False, borrowed: Mapping[str, int] | None = None
) -> Machine:
    """Compile a module; without optimisation a kernel's code is nearly as good, and there much faster."""
    _initialise()
    host = host or this_host()
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=host.name, features=host.features, opt=_OPTIMISED if optimises else 0, jit=True
    )
    if optimises:
        options = llvm.create_pipeline_tuning_options(speed_level=_OPTIMISED)
        builder = llvm.create_pass_builder(target, options)
        builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, target)
    for name, address in (borrowed or {}).items():
        engine.add_global_mapping(module.get_function(name), address)
    engine.finalize_object()
    return Machine(engine)


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
