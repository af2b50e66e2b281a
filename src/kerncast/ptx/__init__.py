"""NOUN Module: typed PTX, its parser and its control-flow graph."""

from kerncast.ptx.cfg import (
    MOST_WAITING_BLOCKS,
    BasicBlock,
    ControlFlowGraph,
    DominatorTree,
    LoopNest,
    Order,
    arrange,
    build_cfg,
    dominators,
    find_loops,
    post_dominators,
    reversed_graph,
    waiting_loops,
)
from kerncast.ptx.inline import INTRINSICS, inline_calls, taken_functions
from kerncast.ptx.module import (
    CARRY,
    MATRIX_ROW_BYTES,
    TYPE_BITS,
    Address,
    ClusterRule,
    Function,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Negated,
    Opaque,
    Operand,
    Prototype,
    Register,
    Relocation,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
    WorkKind,
    classify,
    dependences,
    kept_by,
    kind_name,
    result_count,
    results_of,
    source_name,
    sources_of,
    symbols_of,
)
from kerncast.ptx.opcodes import COMBINATIONS, Flow, MemoryAccess, Opcode, Trait, opcode_of
from kerncast.ptx.parser import parse_ptx

__all__ = [
    "CARRY", "COMBINATIONS", "INTRINSICS", "MATRIX_ROW_BYTES", "MOST_WAITING_BLOCKS", "TYPE_BITS", "Address",
    "BasicBlock", "ClusterRule", "ControlFlowGraph", "DominatorTree", "Flow", "Function", "Immediate", "Instruction",
    "Label", "Location", "LoopNest", "MemoryAccess", "Module", "Negated", "Opaque", "Opcode", "Operand", "Order",
    "Prototype", "Register", "Relocation", "Sink", "Special", "Symbol", "Trait", "Variable", "Vector", "WorkKind",
    "arrange", "build_cfg", "classify", "dependences", "dominators", "find_loops", "inline_calls", "kept_by",
    "kind_name", "opcode_of", "parse_ptx", "post_dominators", "result_count", "results_of", "reversed_graph",
    "source_name", "sources_of", "symbols_of", "taken_functions", "waiting_loops",
]  # fmt: skip
