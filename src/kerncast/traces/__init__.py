"""NOUN Trace, SMTrace, FootprintCurve: what one execution logged."""

from kerncast.traces.execution import Execution, FootprintCurve, Kind, Recorder, SMRecording, Touches
from kerncast.traces.recording import (
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
    End,
    Operation,
    Recording,
    SMTrace,
    entered_blocks,
    instructions_of_warps,
)
from kerncast.traces.trace import Allocation, BlockCounts, Counts, Footprint, Trace

__all__ = [
    "CONTENT_SHIFT", "INSTRUCTION_SHIFT", "LAST_SHIFT", "LINE_BITS", "LINE_BYTES", "MASK_SHIFT", "MOST_EVENTS",
    "MOST_INSTRUCTIONS", "OPERATION_MASK", "OPERATION_SHIFT", "PASSES_MASK", "PASSES_SHIFT", "SEGMENT",
    "Allocation", "BlockCounts", "Counts", "End", "Execution", "Footprint", "FootprintCurve", "Kind", "Operation",
    "Recorder", "Recording", "SMRecording", "SMTrace", "Touches", "Trace", "entered_blocks",
    "instructions_of_warps",
]  # fmt: skip
