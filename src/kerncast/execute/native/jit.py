"""LLVM: from the text of a module to functions that can be called."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm


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


def compile_text(text: str, host: Host | None = None) -> Machine:
    """Compile a module without optimisation: nearly as fast to run, and much faster to compile."""
    _initialise()
    host = host or this_host()
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=host.name, features=host.features, opt=0, jit=True
    )
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return Machine(engine)


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
