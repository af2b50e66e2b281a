"""Compiles LLVM text, and keeps generated code within bounds of size, stack and time."""

import ctypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import llvmlite.binding as llvm

from kerncast.errors import BudgetExceededError
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
"""lock of the library: code that some thread runs must not be compiled again and dropped"""


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


#: A thread of Python looks this often whether the user interrupts or the time is over.
_GLANCE_SECONDS = 0.2
_STACK_BYTES = 16 * 2**20
#: Without optimisation each value has its own place on the stack. Measured: up to nine bytes per character, with SSE2.
_STACK_BYTES_PER_CHARACTER = 32
_STARTING = threading.Lock()
#: pthread_create gives EAGAIN where resources are short for the moment, too.
_STARTS, _PAUSE_SECONDS = 5, 0.1


class TooLargeError(Exception):
    """A kernel that LLVM would take too long for, or too much memory."""


class Stoppable(Protocol):
    """Something that runs on a thread until it is done, or is told to stop."""

    def run(self) -> bool:
        """Run."""

    def stop(self) -> None:
        """Let ``run`` return soon; called from another thread."""


def run_until(
    workers: Sequence[Stoppable], deadline: float, text_size: int, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Run each worker on a thread of its own; stop them all at the deadline, when it is over, or at an interrupt.

    Generated code does not return to Python by itself, so that the main thread has to stay free for that.
    """
    threads: list[threading.Thread] = []
    try:
        threads.extend(_start(worker.run, text_size) for worker in workers)
        for thread in threads:
            while thread.is_alive() and time.monotonic() < deadline and not is_over():
                thread.join(min(_GLANCE_SECONDS, max(0.0, deadline - time.monotonic())))
    finally:
        if any(thread.is_alive() for thread in threads):
            for worker in workers:
                worker.stop()
        for thread in threads:
            thread.join()


def _start(function: Callable[[], object], text_size: int) -> threading.Thread:
    """Start a thread whose stack has room for the frame of generated code; the size is a setting of the process."""
    thread = threading.Thread(target=function, daemon=True)
    with _STARTING:
        size = _STACK_BYTES + _STACK_BYTES_PER_CHARACTER * text_size
        before = threading.stack_size(-(-size // 2**20) * 2**20)
        try:
            _start_patiently(thread)
        finally:
            threading.stack_size(before)
    return thread


def _start_patiently(thread: threading.Thread) -> None:
    for attempt in range(_STARTS):
        try:
            thread.start()
        except RuntimeError:
            time.sleep(_PAUSE_SECONDS * attempt)
        else:
            return
    raise BudgetExceededError("no thread can be started: too little memory is left")
