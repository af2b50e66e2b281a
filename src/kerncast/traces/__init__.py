"""NOUN Trace, SMTrace, FootprintCurve, MachineCode: what one execution logged, and the code that it stands for."""

from kerncast.traces.execution import (
    CONTENT_SHIFT,
    INSTRUCTION_SHIFT,
    LAST_SHIFT,
    LINE_BITS,
    LINE_BYTES,
    MASK_SHIFT,
    MOST_EVENTS,
    MOST_INSTRUCTIONS,
    OPERATION_MASK,
    OPERATION_SHIFT,
    PASSES_MASK,
    PASSES_SHIFT,
    SEGMENT,
    Allocation,
    BlockCounts,
    Counts,
    End,
    Execution,
    Footprint,
    FootprintCurve,
    Kind,
    Operation,
    Recorder,
    Recording,
    SMRecording,
    SMTrace,
    Touches,
    Trace,
    entered_blocks,
    instructions_of_warps,
    operation_of,
)
from kerncast.traces.machine_code import NO_MACHINE_CODE, MachineCode, MachineOperation

__all__ = [
    "CONTENT_SHIFT", "INSTRUCTION_SHIFT", "LAST_SHIFT", "LINE_BITS", "LINE_BYTES", "MASK_SHIFT", "MOST_EVENTS",
    "MOST_INSTRUCTIONS", "NO_MACHINE_CODE", "OPERATION_MASK", "OPERATION_SHIFT", "PASSES_MASK", "PASSES_SHIFT",
    "SEGMENT", "Allocation", "BlockCounts", "Counts", "End", "Execution", "Footprint", "FootprintCurve", "Kind",
    "MachineCode", "MachineOperation", "Operation", "Recorder", "Recording", "SMRecording", "SMTrace", "Touches",
    "Trace", "entered_blocks", "instructions_of_warps", "operation_of",
]  # fmt: skip
