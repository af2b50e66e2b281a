"""Metrics of machine instructions."""

from collections.abc import Iterator

from kerncast.kernel_profile import Count, MachineMix, OpcodeCount, Origin
from kerncast.report.ratios import ratio, total
from kerncast.report.vocabulary import Metric, measured

_LANES = 32.0
#: The opcodes behind each arithmetic counter; those that end in 32I have a 32-bit constant for an operand.
_ARITHMETIC = {
    "fadd": {"FADD", "FADD32I"}, "fmul": {"FMUL", "FMUL32I"}, "ffma": {"FFMA", "FFMA32I"},
    "dadd": {"DADD"}, "dmul": {"DMUL"}, "dfma": {"DFMA"},
    "hadd": {"HADD2", "HADD2_32I"}, "hmul": {"HMUL2", "HMUL2_32I"}, "hfma": {"HFMA2", "HFMA2_32I"},
}  # fmt: skip
_CLASSES = {
    each: each
    for each in ("fp16", "fp32", "fp64", "integer", "conversion", "control", "memory", "misc", "uniform")
} | {"inter_thread_communication": "inter_thread"}  # fmt: skip
_PIPES = ("fma", "alu", "fp16", "fp64", "xu", "lsu", "cbu", "adu", "uniform", "tex", "tensor")
#: Not every GPU has them, so that a zero would name a counter that ncu does not know there.
_NOT_EVERYWHERE = frozenset({"fp16", "uniform"})
_BRANCHES = frozenset({"BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU"})
_SHARED = {"ld": {"LDS"}, "st": {"STS"}, "atom": {"ATOMS"}}
_UNITS = ("smsp", "sm")


def machine_metrics(machine: MachineMix) -> Iterator[Metric]:
    """Yield machine instructions in total, by class, by arithmetic operation and by pipe."""
    warps, threads, on = machine.warp_instructions, machine.thread_instructions, machine.threads_on
    counts = {"smsp__thread_inst_executed.sum": threads, "smsp__thread_inst_executed_pred_on.sum": on}
    for unit in _UNITS:
        counts[f"{unit}__inst_executed.sum"] = warps
        counts[f"{unit}__sass_thread_inst_executed.sum"] = threads
        counts[f"{unit}__sass_thread_inst_executed_pred_on.sum"] = on
        for name, count in _operations(machine):
            counts[f"{unit}__sass_thread_inst_executed_op_{name}_pred_on.sum"] = count
        for name, count in _pipes(machine):
            counts[f"{unit}__inst_executed_pipe_{name}.sum"] = count
    chosen = {"branch": _BRANCHES}
    if machine.origin is Origin.DISASSEMBLED:
        chosen |= {f"shared_{name}": frozenset(opcodes) for name, opcodes in _SHARED.items()}
    for name, opcodes in chosen.items():
        members = [each.warp_instructions for each in machine.opcodes if each.opcode in opcodes]
        counts[f"smsp__inst_executed_op_{name}.sum"] = total(members)
    ratios = {
        "smsp__thread_inst_executed_per_inst_executed.ratio": ratio(threads, warps, _LANES),
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": ratio(on, warps, _LANES),
    }
    for metric, value in (counts | ratios).items():
        if value is not None:
            yield measured(metric, value, machine.origin)


def _operations(machine: MachineMix) -> Iterator[tuple[str, Count]]:
    """Yield threads by arithmetic operation and by class."""
    for name, opcodes in _ARITHMETIC.items():
        yield name, _threads_on(each for each in machine.opcodes if each.opcode in opcodes)
    for name, work in _CLASSES.items():
        members = [each for each in machine.opcodes if each.work == work]
        if members or name not in _NOT_EVERYWHERE:
            yield name, _threads_on(iter(members))


def _pipes(machine: MachineMix) -> Iterator[tuple[str, Count]]:
    for pipe in _PIPES:
        members = [each.warp_instructions for each in machine.opcodes if each.pipe == pipe]
        if members or pipe not in _NOT_EVERYWHERE:
            yield pipe, total(members)


def _threads_on(opcodes: Iterator[OpcodeCount]) -> Count:
    return total(each.threads_on for each in opcodes)
