"""NOUN Module: typed PTX, its parser and its control-flow graph."""

from kerncast.ptx.cfg import ControlFlowGraph, build_cfg
from kerncast.ptx.inline import inline_calls, taken_functions
from kerncast.ptx.module import Function, Instruction, Module
from kerncast.ptx.parser import parse_ptx

__all__ = [
    "ControlFlowGraph",
    "Function",
    "Instruction",
    "Module",
    "build_cfg",
    "inline_calls",
    "parse_ptx",
    "taken_functions",
]
