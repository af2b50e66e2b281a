"""Machine code (SASS) as the disassembler prints it: the text, and what it means."""

from kerncast.compile.sass.listing import MachineInstruction, MachineRoutine, parse_listing

__all__ = ["MachineInstruction", "MachineRoutine", "parse_listing"]
