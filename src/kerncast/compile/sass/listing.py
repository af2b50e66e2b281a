"""The text that nvdisasm prints to machine instructions, each with the line of the PTX that it comes from.

``nvdisasm -c -gp`` writes ``//## File ".nv_debug_ptx_txt", line N`` before the instructions of line N, labels on lines
of their own, and one instruction per line behind its address in a comment. Source: CUDA Binary Utilities 12.9,
section 4 (nvdisasm); the line comments are seen in its output and are not documented.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SECTION = re.compile(r"\.text\.(\S+):")
_PTX_LINE = re.compile(r'//## File "\.nv_debug_ptx_txt(?:\.\d+)?", line (\d+)')
_LABEL = re.compile(r"(\.L_\w+|\$\S+):")
_INSTRUCTION = re.compile(
    r"/\*[0-9a-f]{4,}\*/\s+(?:@(!?)(U?P\w+)\s+)?([A-Z][A-Z0-9]*)((?:\.[A-Za-z0-9_]+)*)\s*([^;]*);?"
)
_TARGET = re.compile(r"(\.L_\w+)|`\(([^)]+)\)")


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One machine instruction."""

    opcode: str
    """before the first dot, such as LDS"""
    modifiers: tuple[str, ...]
    """such as (U, 128)"""
    guard: str
    """predicate that must hold, such as P0 or !P0; empty where there is none"""
    line: int
    """of the PTX text, from 1; 0 where the disassembler names none"""
    targets: tuple[str, ...]
    """labels that the operands name"""
    operands: str
    """as printed"""


@dataclass(frozen=True, slots=True)
class MachineRoutine:
    """The code of one section: a kernel, with the routines of the compiler behind it."""

    name: str
    instructions: tuple[MachineInstruction, ...]
    labels: Mapping[str, int] = field(hash=False)
    """number of the instruction that each label stands before; one past the last at the end"""


def parse_listing(text: str) -> dict[str, MachineRoutine]:
    r"""Return the routines of a listing by their mangled names; lines of another form are passed over.

    >>> text = '.text.k:\n//## File ".nv_debug_ptx_txt", line 9\n/*0010*/ @!P0 LDS.U.128 R4, [R2] ;'
    >>> parse_listing(text)["k"].instructions[0]
    MachineInstruction(opcode='LDS', modifiers=('U', '128'), guard='!P0', line=9, targets=(), operands='R4, [R2]')
    """
    found: dict[str, tuple[list[MachineInstruction], dict[str, int]]] = {}
    code: list[MachineInstruction] | None = None
    labels: dict[str, int] = {}
    line = 0
    for row in map(str.strip, text.splitlines()):
        if section := _SECTION.fullmatch(row):
            code, labels = found.setdefault(section[1], ([], {}))
            line = 0
        elif code is None:
            continue
        elif row.startswith(".section"):
            code = None
        elif place := _PTX_LINE.match(row):
            line = int(place[1])
        elif label := _LABEL.fullmatch(row):
            labels[label[1]] = len(code)
        elif ins := _INSTRUCTION.match(row):
            code.append(_instruction(ins, line))
    return {name: MachineRoutine(name, tuple(code), labels) for name, (code, labels) in found.items()}


def _instruction(match: re.Match[str], line: int) -> MachineInstruction:
    negation, guard, opcode, modifiers, operands = match.groups()
    targets = tuple(a or b for a, b in _TARGET.findall(operands)) if "`(" in operands or ".L_" in operands else ()
    always = guard in {None, "PT", "UPT"}
    return MachineInstruction(
        opcode, tuple(modifiers.split(".")[1:]), "" if always else negation + guard, line, targets, operands.strip()
    )
