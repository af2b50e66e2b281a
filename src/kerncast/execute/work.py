"""What kind of work each PTX instruction is."""

from dataclasses import dataclass

from kerncast.ptx.module import TYPE_BITS, Instruction, Register, Vector
from kerncast.recording import Operation

_SPECIAL = {"rcp", "sqrt", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh"}
_INTEGER = {
    "add", "sub", "mul", "mad", "addc", "subc", "madc", "div", "rem", "neg", "abs", "min", "max", "and", "or", "xor",
    "not", "cnot", "shl", "shr", "shf", "lop3", "popc", "clz", "bfind", "brev", "bfe", "bfi", "prmt", "sad", "mul24",
    "mad24", "dp4a", "dp2a", "fns", "setp", "set", "slct", "vadd2", "vadd4", "vsub2", "vsub4", "vavrg2", "vavrg4",
    "vmin2", "vmin4", "vmax2", "vmax4", "vabsdiff2", "vabsdiff4", "vset2", "vset4",
}  # fmt: skip
_CONTROL = {
    "bra", "brx", "ret", "exit", "bar", "barrier", "call", "trap", "brkpt", "vote", "match", "activemask", "elect",
    "griddepcontrol",
}  # fmt: skip
_ARITHMETIC_FLOPS = {"add": 1, "sub": 1, "mul": 1, "fma": 2, "mad": 2}
_FLOAT_CLASS = {
    "f32": "fp32", "f32x2": "fp32", "f64": "fp64", "f16": "fp16", "f16x2": "fp16", "bf16": "fp16", "bf16x2": "fp16",
}  # fmt: skip
_MEMORY = {"ld", "ldu", "st", "atom", "red"}
#: Modifiers of loads that L1 does not serve.
_PASSES_L1 = {"volatile", "relaxed", "acquire", "mmio", "cg", "cv"}


@dataclass(frozen=True, slots=True)
class WorkKind:
    """The class of an instruction and how many operations one thread does in it."""

    name: str
    """fp32, fp64, fp16, special, integer, control, memory, move"""
    operations: int


def classify(ins: Instruction) -> WorkKind:
    """Return the class of an instruction.

    A fused multiply-add of floats is two operations, of integers one: an integer lane takes one per clock.
    Comparison, minimum, sign and conversion of floats are moves, as Nsight Compute's FLOP counts leave them out;
    division and square root count as one special function each.
    """
    if ins.root in _MEMORY:
        return WorkKind("memory", 1)
    if ins.root in _CONTROL:
        return WorkKind("control", 1)
    float_class = _FLOAT_CLASS.get(ins.type)
    if float_class is not None:
        if ins.root in _ARITHMETIC_FLOPS:
            lanes = 2 if ins.type.endswith("x2") else 1
            return WorkKind(float_class, lanes * _ARITHMETIC_FLOPS[ins.root])
        return WorkKind("special", 1) if ins.root in _SPECIAL or ins.root == "div" else WorkKind("move", 1)
    if ins.root in _INTEGER and ins.type != "pred":
        return WorkKind("integer", 1)
    return WorkKind("move", 1)


def kind_name(ins: Instruction) -> str:
    """Return the opcode with its type, or with its state space for memory: fma.f32, ld.global, bar.sync."""
    if ins.root in _MEMORY:
        return f"{ins.root}.{ins.space}"
    if ins.root in {"bar", "barrier", "shfl", "vote"}:
        return ".".join((ins.root, *ins.modifiers[:2]))
    return f"{ins.root}.{ins.type}" if ins.type else ins.root


def operation_of(ins: Instruction, read: frozenset[str]) -> Operation:
    """Return what a recording says of an access to global memory; ``read`` are the registers that anything reads."""
    modifiers = set(ins.modifiers)
    if ins.root in {"ld", "ldu"}:
        if "nc" in modifiers:
            return Operation.LOAD_READ_ONLY
        return Operation.LOAD_UNCACHED if modifiers & _PASSES_L1 else Operation.LOAD
    if ins.root == "st":
        return Operation.STORE
    results = ins.operands[0] if ins.root == "atom" else None
    registers = results.elements if isinstance(results, Vector) else (results,)
    is_read = any(isinstance(r, Register) and r.name in read for r in registers)
    return Operation.ATOMIC if is_read else Operation.REDUCTION


def access_bytes(ins: Instruction) -> int:
    """Return the bytes that one thread loads or stores with a memory instruction."""
    data = next((o for o in ins.operands if isinstance(o, Vector)), None)
    return TYPE_BITS[ins.type] // 8 * (len(data.elements) if data else 1)
