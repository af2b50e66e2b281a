"""NOUN MachineCode: what a kernel's PTX became on one architecture, and how often it ran."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineOperation:
    """A machine instruction that ran."""

    opcode: str
    """part of the name before the first dot, such as LDS"""
    modifiers: tuple[str, ...]
    """parts of the name behind the first dot, such as (U, 128)"""
    block: int
    """PTX basic block whose warps execute it"""
    instruction: int | None
    """PTX instruction that it comes from; None where the compiler has moved it to another block, or made it itself"""
    warps: float
    """executions by warps of the sample"""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """The machine instructions of a kernel that ran, in the order of the code; none where they are not known."""

    operations: tuple[MachineOperation, ...] = ()
    block_warps: tuple[float, ...] = ()
    """[basic blocks of the PTX] executions by warps of the sample"""
    problem: str = ""
    """reason why they could not be read; empty where they could, or nothing reads the architecture's"""


NO_MACHINE_CODE = MachineCode()
