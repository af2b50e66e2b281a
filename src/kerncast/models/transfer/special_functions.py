"""Floating-point operations of a kernel on another GPU: special functions differ between instruction sets.

PTX is the same for all GPUs; division, roots, logarithms and the like become sequences of machine instructions that
depend on the architecture. Source: Van Lanker et al., Euro-Par 2024, section 4.2.
Fails when: the compiler contracts or unrolls otherwise for the other architecture, which is taken as the same.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.models.base import Case
from kerncast.models.transfer.measured_run import float_mixes_of, present
from kerncast.profiles import FloatMix, KernelProfile, MachineMix
from kerncast.profiles.counts import SPECIAL_OPS
from kerncast.ptx import classify
from kerncast.traces import Trace

#: Operations of one machine instruction per active thread, by precision. FP16 is left out: its instructions also
#: load constants.
_FLOPS = {
    "FADD": (32, 1), "FADD32I": (32, 1), "FMUL": (32, 1), "FMUL32I": (32, 1), "FFMA": (32, 2), "FFMA32I": (32, 2),
    "DADD": (64, 1), "DMUL": (64, 1), "DFMA": (64, 2),
}  # fmt: skip
#: Below this deviation both architectures make the same number of operations.
_SAME = 1e-3


@dataclass(frozen=True, slots=True)
class MachineFlops:
    """Floating-point operations of machine instructions, in any common unit."""

    fp32: float
    fp64: float

    def of(self, bits: int) -> float:
        """Return those of one precision; 0 for FP16, which is not counted."""
        return {32: self.fp32, 64: self.fp64}.get(bits, 0.0)


@dataclass(frozen=True, slots=True)
class MixPair:
    """The floating-point mixes of one kernel on the GPU of the run and on the one to forecast."""

    source: tuple[FloatMix, ...]
    target: tuple[FloatMix, ...]
    caveats: tuple[Caveat, ...] = ()


def float_mixes_on_both(case: Case, source: KernelProfile) -> MixPair:
    """Return the mixes on both GPUs: the target's is the source's times the ratio of machine code's operations."""
    mixes = float_mixes_of(source)
    if mixes is None:
        raise MissingEvidenceError(
            f"the additions, multiplications and fused multiply-adds of {source.kernel} are unknown",
            cure="Collect them: ncu --metrics " + ",".join(
                f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum"
                for name in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma")
            ),
        )  # fmt: skip
    mixes = tuple(mix for mix in mixes if present(mix.flops_value))
    run = source.run
    special = (case.profile if case.execution else source).counts.get(SPECIAL_OPS)
    if run is None or not mixes or run.gpu.architecture.number == case.gpu.architecture.number:
        return MixPair(mixes, mixes)
    if case.execution and special is not None and not special.high:
        return MixPair(mixes, mixes)
    found = _flops_on_both(case, source)
    if found is None:
        return MixPair(mixes, mixes, (Caveat.of(CaveatKind.SPECIAL_FUNCTIONS_UNKNOWN),))
    of_source, of_target, how = found
    ratios = {mix.bits: _ratio(of_source.of(mix.bits), of_target.of(mix.bits)) for mix in mixes}
    target = tuple(_scaled(mix, ratios[mix.bits]) for mix in mixes)
    changed = {bits: ratio for bits, ratio in ratios.items() if abs(ratio - 1) > _SAME}
    caveats = (
        Caveat.of(CaveatKind.SPECIAL_FUNCTIONS_DIFFER, case.gpu.name, ratio=ratio, bits=bits, origin=how)
        for bits, ratio in changed.items()
    )
    return MixPair(mixes, target, tuple(caveats))


def _flops_on_both(case: Case, source: KernelProfile) -> tuple[MachineFlops, MachineFlops, str] | None:
    """Return the operations on source and target, found in the same way for both; None where there is no way."""
    of_source, of_target = source.machine, case.profile.machine
    if of_source and of_target and of_source.origin is of_target.origin and of_source is not of_target:
        return machine_flops(of_source), machine_flops(of_target), of_source.origin.value
    if case.execution is None or source.run is None:
        return None
    numbers = source.run.gpu.architecture.number, case.gpu.architecture.number
    before, after = (estimated_flops(case.execution.trace, *numbers, of_target=choice) for choice in (False, True))
    return before, after, "estimated"


def machine_flops(machine: MachineMix) -> MachineFlops:
    """Return the floating-point operations of executed machine instructions whose predicate holds."""
    return _summed((opcode.opcode, opcode.threads_on.value) for opcode in machine.opcodes)


def special_blocks(trace: Trace) -> frozenset[int]:
    """Return the basic blocks of the PTX that contain a special function."""
    code = trace.function.instructions
    return frozenset(
        number
        for number, block in enumerate(trace.cfg.blocks)
        if any(classify(ins).name == "special" for ins in code[block.start : block.stop])
    )


def estimated_flops(trace: Trace, source: int, target: int, *, of_target: bool) -> MachineFlops:
    """Return the operations of the executed blocks, by the table of what PTX becomes on each architecture.

    Blocks with special functions are those of the architecture asked for, all others those of the source:
    executions and active threads are the same on both.
    """
    from kerncast.machine.mix import estimated_steps  # noqa: PLC0415  only transfers need it

    special = special_blocks(trace)
    threads = trace.counts.block_threads.sum(axis=0).tolist()
    steps = [step for step in estimated_steps(trace, source) if not (of_target and step.block in special)]
    if of_target:
        steps += [step for step in estimated_steps(trace, target) if step.block in special]
    return _summed((step.opcode, step.times * step.on * threads[step.block]) for step in steps)


def _summed(executions: Iterable[tuple[str, float]]) -> MachineFlops:
    totals: dict[int, float] = defaultdict(float)
    for opcode, times in executions:
        bits, flops = _FLOPS.get(opcode, (0, 0))
        totals[bits] += flops * times
    return MachineFlops(totals[32], totals[64])


def _ratio(source: float, target: float) -> float:
    return target / source if source and target else 1.0


def _scaled(mix: FloatMix, ratio: float) -> FloatMix:
    return FloatMix(mix.bits, mix.additions.times(ratio), mix.multiplications.times(ratio), mix.fused.times(ratio))
