"""Comparison, selection, and moves between registers and state spaces."""

from typing import Any

import numpy as np

from kerncast.execute.reference import floats
from kerncast.execute.reference.arithmetic import ARITHMETIC, AnyArray, Sources, handles
from kerncast.execute.reference.threads import Index, Threads
from kerncast.execute.setup.arena import GLOBAL_BASE, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, window_of
from kerncast.execute.setup.cluster_addresses import RANK_MASK, RANK_SHIFT
from kerncast.execute.setup.layout import DTYPES, as_type
from kerncast.execute.setup.phases import answered_places
from kerncast.ptx import TYPE_BITS, Instruction, Vector

# What each comparison and selection instruction computes.
#
# Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.6 and 9.7.7.


#: Comparison: NumPy function, and the result where an operand is NaN.
_COMPARISONS = {
    "eq": (np.equal, False), "ne": (np.not_equal, False), "lt": (np.less, False), "le": (np.less_equal, False),
    "gt": (np.greater, False), "ge": (np.greater_equal, False), "lo": (np.less, False), "ls": (np.less_equal, False),
    "hi": (np.greater, False), "hs": (np.greater_equal, False), "equ": (np.equal, True), "neu": (np.not_equal, True),
    "ltu": (np.less, True), "leu": (np.less_equal, True), "gtu": (np.greater, True), "geu": (np.greater_equal, True),
}  # fmt: skip
#: What a comparison may be combined with a predicate by.
COMBINATIONS: dict[str, Any] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_PACKED_TRUE = {"f16x2": np.uint32(0x3C00), "bf16x2": np.uint32(0x3F80)}


@handles("setp")
def _set_predicate(ins: Instruction, src: Sources) -> AnyArray:
    """Compare; of packed halves bit 0 and bit 1 are the two results. The engine adds what setp combines it with."""
    if not ins.type.endswith("x2"):
        return _compare(ins, src(0), src(1))
    low, high = _compare_packed(ins, src(0), src(1))
    return low.astype(np.uint8) | (high.astype(np.uint8) << np.uint8(1))


@handles("set")
def _set(ins: Instruction, src: Sources) -> AnyArray:
    target = ins.types[0]
    if ins.type.endswith("x2"):
        one = _PACKED_TRUE.get(target, np.uint32(0xFFFF))
        results = (_combined(ins, src, r) for r in _compare_packed(ins, src(0), src(1)))
        return floats.pack(*(np.where(r, one, np.uint32(0)) for r in results))
    result = _combined(ins, src, _compare(ins, src(0), src(1)))
    if target in {"f16", "bf16"}:
        return floats.from_f64(result.astype(np.float64), target)
    ones = np.uint16(0xFFFF) if TYPE_BITS[target] == 16 else np.uint32(0xFFFFFFFF)
    return result.astype(np.float32) if target == "f32" else np.where(result, ones, ones.dtype.type(0))


def _combined(ins: Instruction, src: Sources, result: AnyArray) -> AnyArray:
    """Combine the result of a comparison with a predicate, where the instruction has one."""
    combine = next((m for m in ins.modifiers if m in COMBINATIONS), None)
    return result if combine is None else COMBINATIONS[combine](result, src(2, "pred"))


@handles("selp")
def _select(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    return np.where(src(2, "pred"), src(0), src(1))


@handles("slct")
def _select_by_sign(ins: Instruction, src: Sources) -> AnyArray:
    value, control = ins.types
    c = src(2, control)
    if "ftz" in ins.modifiers:
        c = floats.flush_subnormals(c)
    return np.where(c >= 0, src(0, value), src(1, value))


def _compare_packed(ins: Instruction, a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray]:
    (a_low, a_high), (b_low, b_high) = floats.unpack(a), floats.unpack(b)
    return _compare(ins, a_low, b_low), _compare(ins, a_high, b_high)


def _compare(ins: Instruction, a: AnyArray, b: AnyArray) -> AnyArray:
    a, b = _comparable(ins, a), _comparable(ins, b)
    nan = np.isnan(a) | np.isnan(b) if a.dtype.kind == "f" else np.zeros(1, np.bool_)
    if "num" in ins.modifiers or "nan" in ins.modifiers:
        return nan if "nan" in ins.modifiers else ~nan
    function, if_nan = next(_COMPARISONS[m] for m in ins.modifiers if m in _COMPARISONS)
    result: AnyArray = function(a, b)
    return np.where(nan, np.bool_(if_nan), result)


def _comparable(ins: Instruction, values: AnyArray) -> AnyArray:
    if ins.type in {"f16", "bf16", "f16x2", "bf16x2"}:
        return floats.to_f64(floats.flushed(ins, values.view(np.uint16)), ins.type)
    return floats.flush_subnormals(values) if "ftz" in ins.modifiers and values.dtype == np.float32 else values


def compute(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run an arithmetic instruction."""
    if ins.root == "setp":
        _write_predicate(threads, ins, active)
        return

    def source(position: int, type_name: str | None = None) -> AnyArray:
        return threads.value(ins.operands[1 + position], type_name or ins.type, active)

    threads.write(ins.operands[0], ARITHMETIC[ins.opcode.name](ins, source), active)


def _write_predicate(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run setp: one or two results, which may be combined with a third predicate."""
    combine = next((m for m in ins.modifiers if m in COMBINATIONS), None)
    results = len(ins.operands) - 2 - (combine is not None)
    operands = ins.operands[results:]

    def source(position: int, type_name: str | None = None) -> AnyArray:
        return threads.value(operands[position], type_name or ins.type, active)

    first = ARITHMETIC["setp"](ins, source)
    # Of packed halves each gives one result; else the second result is the opposite of the first.
    both = [first & 1 != 0, first & 2 != 0] if ins.type.endswith("x2") else [first, ~first]
    if combine is not None:
        both = [COMBINATIONS[combine](result, source(2, "pred")) for result in both]
    for target, result in zip(ins.operands[:results], both, strict=False):
        threads.write(target, result, active)


def move(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run mov, which may pack a vector into a register or take it apart."""
    target, source = ins.operands
    width = TYPE_BITS[ins.type]
    if ins.type == "b128":
        _move_wide(threads, ins, active)
    elif isinstance(source, Vector):
        each = width // len(source.elements)
        packed = np.zeros(len(active), np.uint64)
        for position, element in enumerate(source.elements):
            part = threads.value(element, f"b{each}", active).astype(np.uint64)
            packed |= part << np.uint64(position * each)
        threads.write(target, packed.astype(f"u{width // 8}"), active)
    elif isinstance(target, Vector):
        each = width // len(target.elements)
        whole = threads.values(source, f"b{width}", active).astype(np.uint64)
        for position, element in enumerate(target.elements):
            part = whole >> np.uint64(position * each)
            threads.write(element, part.astype(f"u{each // 8}"), active)
    else:
        threads.write(target, threads.value(source, ins.type, active), active)


def _move_wide(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run mov.b128, whose values are pairs of words."""
    target, source = ins.operands
    whole = np.zeros(len(active), DTYPES["b128"])
    if isinstance(source, Vector):
        for name, element in zip(whole.dtype.names, source.elements, strict=True):
            whole[name] = threads.value(element, "b64", active)
    else:
        whole[:] = threads.value(source, "b128", active)
    if isinstance(target, Vector):
        for name, element in zip(whole.dtype.names, target.elements, strict=True):
            threads.write(element, whole[name], active)
    else:
        threads.write(target, whole, active)


def convert_address(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run cvta: between an address in a state space and a generic one."""
    base = np.uint64({"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(ins.space, 0))
    address = threads.value(ins.operands[1], "u64", active)
    if ins.space == "param" and "to" not in ins.modifiers:  # a short register keeps 32 bits of one
        address = address | np.uint64(PARAMETER_WINDOW)
    threads.write(ins.operands[0], address - base if "to" in ins.modifiers else address + base, active)


def map_to_rank(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run mapa: the address of the same place in another block of the cluster."""
    address = threads.values(ins.operands[1], ins.type, active).astype(np.uint64)
    # A rank that an address has no room for becomes one that no cluster has.
    rank = np.minimum(threads.values(ins.operands[2], "u32", active), np.uint32(RANK_MASK)).astype(np.uint64)
    found = address & ~np.uint64(RANK_MASK << RANK_SHIFT) | rank << np.uint64(RANK_SHIFT)
    threads.write(ins.operands[0], as_type(found, ins.type), active)


def rank_of_address(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run getctarank: the rank of the block that an address in the cluster belongs to."""
    address = threads.values(ins.operands[1], ins.type, active).astype(np.uint64)
    rank = address >> np.uint64(RANK_SHIFT) & np.uint64(RANK_MASK)
    threads.write(ins.operands[0], rank.astype(np.uint32), active)


def read_answer(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run clusterlaunchcontrol.query_cancel."""
    answer = threads.values(ins.operands[1], "b128", active)
    low, high = answer["f0"], answer["f1"]
    if "is_canceled" in ins.modifiers:
        threads.write(ins.operands[0], low & np.uint64(1) != 0, active)
        return
    words = [(element, (low, high)[bit // 64] >> np.uint64(bit % 64)) for element, bit in answered_places(ins)]
    for element, word in words:
        threads.write(element, word.astype(np.uint32), active)


def is_space(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run isspacep."""
    address = threads.values(ins.operands[1], "u64", active)
    kinds = window_of(address)
    wanted = {"shared": 1, "local": 2, "param": 3}.get(ins.space, 0)
    result = (kinds == wanted) & ((wanted != 0) | (address >= np.uint64(GLOBAL_BASE)))
    if ins.space == "shared" and threads.program.sees_cluster:
        rank = (address - np.uint64(SHARED_WINDOW)) >> np.uint64(RANK_SHIFT)
        blocks = np.uint64(threads.launch.cluster_blocks)
        result &= rank < blocks if ins.is_cluster_wide else rank == threads.rank[active].astype(np.uint64)
    threads.write(ins.operands[0], result, active)
