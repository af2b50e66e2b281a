"""VERB machine: PTX becomes machine instructions (SASS), estimated or disassembled."""

from kerncast.machine.mix import machine_mix

__all__ = ["machine_mix"]
