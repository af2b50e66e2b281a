"""Where the variables of a kernel lie: kernel parameters, shared memory, thread-private memory."""

from dataclasses import dataclass

from kerncast.errors import UnsupportedError
from kerncast.ptx import ControlFlowGraph, Function, Module, build_cfg, inline_calls
from kerncast.ptx.module import Variable


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel ready to run: calls inlined, control flow known, variables placed."""

    function: Function
    cfg: ControlFlowGraph
    globals: tuple[Variable, ...]
    """module variables in global and constant memory"""
    parameters: dict[str, int]
    """kernel parameter: offset in the parameter block"""
    parameter_bytes: int
    shared: dict[str, int]
    """variable: offset in the block's shared memory"""
    static_shared_bytes: int
    """dynamic shared memory begins here"""
    private: dict[str, int]
    """local variables and call parameters: offset in the thread's own memory"""
    private_bytes: int


def link(module: Module, kernel: str) -> Program:
    """Return the program of one kernel of a module."""
    function = inline_calls(module, kernel)
    parameters, parameter_bytes = _place(function.parameters)
    declared = [v for v in (*module.variables, *function.variables) if v.space == "shared"]
    shared, static_bytes = _place([v for v in declared if not v.is_extern and v.count])
    static_bytes = -(-static_bytes // 16) * 16
    shared |= {v.name: static_bytes for v in declared if v.is_extern or not v.count}
    private, private_bytes = _place([v for v in function.variables if v.space in {"local", "param"}])
    module_variables = tuple(v for v in module.variables if v.space in {"global", "const"})
    for variable in module_variables:
        if variable.is_extern:
            raise UnsupportedError(f"extern variable {variable.name} is defined in another file")
    return Program(
        function, build_cfg(function), module_variables, parameters, parameter_bytes, shared, static_bytes, private,
        -(-max(private_bytes, 1) // 16) * 16,
    )  # fmt: skip


def _place(variables: "tuple[Variable, ...] | list[Variable]") -> tuple[dict[str, int], int]:
    offsets = {}
    position = 0
    for variable in variables:
        position = -(-position // variable.align) * variable.align
        offsets[variable.name] = position
        position += variable.nbytes
    return offsets, position
