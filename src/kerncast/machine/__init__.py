"""VERB machine: PTX becomes machine instructions (SASS), estimated or disassembled."""

from kerncast.machine.control_flow import machine_graph
from kerncast.machine.disassembled import Reading
from kerncast.machine.estimated import estimated_steps
from kerncast.machine.forms import ends_joining, forms_of, merged_accesses, predicated_blocks
from kerncast.machine.frequencies import block_frequencies
from kerncast.machine.instruction_set import UNKNOWN, kind_of
from kerncast.machine.linear_program import NotSolvedError, solve_linear_program
from kerncast.machine.listing import (
    WHEEL,
    Disassembly,
    MachineInstruction,
    MachineRoutine,
    disassemble,
    disassembler,
    parse_listing,
)
from kerncast.machine.lowering_table import ENTRY, lowered
from kerncast.machine.mix import machine_mix, with_spills
from kerncast.machine.ptx_counts import PtxCounts, count_lines, ptx_lines

__all__ = [
    "ENTRY",
    "UNKNOWN",
    "WHEEL",
    "Disassembly",
    "MachineInstruction",
    "MachineRoutine",
    "NotSolvedError",
    "PtxCounts",
    "Reading",
    "block_frequencies",
    "count_lines",
    "disassemble",
    "disassembler",
    "ends_joining",
    "estimated_steps",
    "forms_of",
    "kind_of",
    "lowered",
    "machine_graph",
    "machine_mix",
    "merged_accesses",
    "parse_listing",
    "predicated_blocks",
    "ptx_lines",
    "solve_linear_program",
    "with_spills",
]
