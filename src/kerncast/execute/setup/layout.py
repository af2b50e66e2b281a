"""Places of a kernel's variables: kernel parameters, shared memory, thread-private memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import UnsupportedError
from kerncast.execute.setup.arena import CODE_WINDOW, PARAMETER_WINDOW
from kerncast.machine.joined_loads import JoinedLoad, joined_loads
from kerncast.ptx import (
    TYPE_BITS,
    Address,
    ControlFlowGraph,
    Function,
    Instruction,
    Module,
    Negated,
    Operand,
    Register,
    Special,
    Trait,
    Variable,
    Vector,
    build_cfg,
    inline_calls,
    sources_of,
    symbols_of,
    taken_functions,
)
from kerncast.ptx.tensor_layouts import PAIR

AnyArray = npt.NDArray[Any]

#: bf16 and packed types are kept as bit patterns, 128 bits as two words.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "pred": "?", "b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2",
        "bf16": "u2", "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "f16x2": "u4", "bf16x2": "u4", "b64": "u8",
        "u64": "u8", "s64": "i8", "f64": "f8", "u16x2": "u4", "s16x2": "u4", "f32x2": "u8", "b128": "u8, u8",
        "tf32": "u4", "e4m3x2": "u2", "e5m2x2": "u2", "e2m3x2": "u2", "e3m2x2": "u2", "e2m1x2": "u1", "ue8m0x2": "u2",
    }.items()
}  # fmt: skip

_RAW: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8"),
                                  16: DTYPES["b128"]}  # fmt: skip


def raw_dtype(type_name: str) -> np.dtype[Any]:
    """Return the dtype that a register of this type is stored in: its bits, unsigned."""
    return DTYPES["pred"] if type_name == "pred" else _RAW[TYPE_BITS[type_name] // 8]


def as_type(bits: AnyArray, type_name: str) -> AnyArray:
    """Read register bits as a type; a narrower type takes the low bits, a wider one is filled with zeros."""
    dtype = DTYPES[type_name]
    if bits.dtype == dtype:
        return bits
    if bits.dtype.itemsize != dtype.itemsize:
        bits = _resized(bits, dtype.itemsize)
    result: AnyArray = bits.view(dtype)
    return result


def _resized(bits: AnyArray, size: int) -> AnyArray:
    """Return the low bytes of values, or more of them; those of 16 bytes are two words."""
    low: AnyArray = bits["f0"] if bits.dtype.names else bits
    if size != DTYPES["b128"].itemsize:
        return low.astype(_RAW[size])
    wide = np.zeros(bits.shape, DTYPES["b128"])
    wide["f0"], wide["f1"] = low.astype(np.uint64), np.where(low < 0, ~np.uint64(0), np.uint64(0))
    return wide


def to_register(values: AnyArray, type_name: str) -> AnyArray:
    """Return values as the bits of a register; a signed value fills a wider register with its sign."""
    target = raw_dtype(type_name)
    if target == values.dtype:
        return values
    size = values.dtype.itemsize
    if size == target.itemsize:
        return np.ascontiguousarray(values).view(target)
    if values.dtype.kind == "f":
        values = np.ascontiguousarray(values).view(_RAW[size])
    return _resized(values, target.itemsize) if target.names or values.dtype.names else values.astype(target)


def immediate(value: int, kind: str, type_name: str) -> AnyArray:
    """Return a literal as a one-element array of a type; a float literal takes the width of the type."""
    dtype = DTYPES[type_name]
    if type_name == "pred":
        return np.array([value != 0])
    if dtype.kind == "f" and kind != "int":
        literal = np.array([value], np.uint32 if kind == "f32" else np.uint64)
        return literal.view(np.float32 if kind == "f32" else np.float64).astype(dtype)
    bits = value & ((1 << 8 * dtype.itemsize) - 1)
    return np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)


_CODE_BYTES = 16
"""bytes from the address of one function to the next"""


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel ready to run: calls inlined, control flow known, variables placed."""

    function: Function
    cfg: ControlFlowGraph
    globals: tuple[Variable, ...]
    """module variables in global and constant memory that the kernel can reach"""
    parameters: Mapping[str, int]
    """offset of each kernel parameter in the parameter block"""
    parameter_bytes: int
    static_shared_bytes: int
    """bytes of static shared memory, behind which dynamic shared memory begins"""
    private_bytes: int
    """bytes of local variables and call parameters of one thread"""
    addresses: Mapping[str, int]
    """address of each variable in its own state space, and of each function that some pointer may hold; global
    variables are added when memory is set up"""
    register_bytes: int
    """bytes of the virtual registers of one thread"""
    read: frozenset[str]
    """registers that some instruction reads; the old value of an atomic is needed only in these"""
    pairs_words: bool
    """whether banks of shared memory are 8 bytes wide, as on compute capability 3.x"""
    joined: Mapping[int, JoinedLoad]
    """loads from shared memory that the compiler makes one, by each of their instructions"""
    shared: frozenset[str]
    """variables in shared memory"""
    sees_cluster: bool
    """whether it may reach shared memory of other blocks of its cluster, so that addresses tell which block's it is"""
    target: str
    """architecture that the PTX was written for, such as sm_90a"""

    def address_of(self, name: str) -> int:
        """Return the address of a variable in its own state space."""
        if name not in self.addresses:
            raise UnsupportedError(f"the address of {name} is not known (a function without a body?)")
        return self.addresses[name]


def link(module: Module, kernel: str) -> Program:
    """Return the program of one kernel of a module."""
    own = inline_calls(module, kernel)
    reached = _reached(module, own)
    # What is known of a shared variable's place decides which loads are one, whoever declares it.
    function = replace(own, variables=(*own.variables, *(v for v in reached if v.space == "shared")))
    cfg = build_cfg(function)
    parameters, parameter_bytes = _place(function.parameters)
    declared = [v for v in (*reached, *own.variables) if v.space == "shared"]
    shared, static_bytes = _place(v for v in declared if not v.is_extern and v.count)
    dynamic = [v for v in declared if v.is_extern or not v.count]
    # Tiles with a swizzle of 128 bytes begin at multiples of 1024, which the variable's alignment says.
    static_bytes = _aligned(static_bytes, max([16, *(v.align for v in dynamic)])) if static_bytes else 0
    shared |= {v.name: static_bytes for v in dynamic}
    private, private_bytes = _place(v for v in own.variables if v.space in {"local", "param"})
    module_variables = tuple(v for v in reached if v.space in {"global", "const"})
    for variable in module_variables:
        if variable.is_extern:
            raise UnsupportedError(f"variable {variable.name} is extern, which is not supported")
    code = {name: CODE_WINDOW + _CODE_BYTES * n for n, name in enumerate(taken_functions(module, kernel), start=1)}
    addresses = code | shared | private | {name: PARAMETER_WINDOW + at for name, at in parameters.items()}
    return Program(
        function, cfg, module_variables, parameters, parameter_bytes, static_bytes,
        _aligned(private_bytes, 16), addresses, _register_bytes(function), _read_registers(function),
        module.target.startswith("sm_3"), joined_loads(function, cfg), frozenset(shared),
        any(map(_sees_cluster, function.instructions)), module.target,
    )  # fmt: skip


def _sees_cluster(ins: Instruction) -> bool:
    ranks = any(isinstance(o, Special) and o.name in _RANKS for o in ins.operands)
    reaches = ins.is_cluster_wide or ins.tells_cluster or PAIR in ins.modifiers
    return ranks or reaches or ins.opcode.has(Trait.CLUSTER)


#: Special registers from which a kernel may make addresses in the shared memory of another block.
_RANKS = {"%cluster_ctarank", "%cluster_nctarank"}


def _read_registers(function: Function) -> frozenset[str]:
    return frozenset(register.name for ins in function.instructions for register in sources_of(ins))


def _register_bytes(function: Function) -> int:
    registers = {register for ins in function.instructions for o in ins.operands for register in _registers(o)}
    return sum(max(TYPE_BITS[register.type] // 8, 1) for register in registers)


def _registers(operand: Operand) -> Iterable[Register]:
    match operand:
        case Register():
            yield operand
        case Negated(Register() as register) | Address(Register() as register):
            yield register
        case Vector(elements):
            for element in elements:
                yield from _registers(element)


def _reached(module: Module, function: Function) -> list[Variable]:
    """Return the module's variables that the code names, and those whose addresses these hold."""
    by_name = {v.name: v for v in module.variables}
    waiting = [name for i in function.instructions for o in i.operands for name in symbols_of(o)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in by_name and name not in found:
            found.add(name)
            waiting += [relocation.symbol for relocation in by_name[name].relocations]
    return [v for v in module.variables if v.name in found]


def _place(variables: Iterable[Variable]) -> tuple[dict[str, int], int]:
    offsets = {}
    position = 0
    for variable in variables:
        position = _aligned(position, variable.align)
        offsets[variable.name] = position
        position += variable.nbytes
    return offsets, position


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment
