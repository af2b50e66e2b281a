"""Refuses by name, before the kernel starts, what the engine does not cover.

A modifier that is not listed for its opcode is refused too, so that none is silently ignored.
"""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import LaunchError, NotExecutedError, UnsupportedError
from kerncast.launch import NO_CLUSTER, Launch, check_cluster
from kerncast.ptx import (
    COMBINATIONS,
    TYPE_BITS,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Negated,
    Opaque,
    Operand,
    Register,
    Sink,
    Special,
    Trait,
    Vector,
)
from kerncast.ptx.fragments import Product, group_product_of, product_of
from kerncast.ptx.opcodes import FORMS, WHY_REFUSED, Form
from kerncast.ptx.tensor_layouts import COPIES, MOVEMENTS, PAIR, Kind, kind_of, movement_of

_DIGITS = re.compile(r"\d{1,9}")
AnyArray = npt.NDArray[Any]
Extent = tuple[int, int, int]

_LANE_MASKS = ("lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge")
_CONSTANT = {"smid": 0, "nsmid": 1, "gridid": 1}
_CLOCKS = ("%clock", "%globaltimer")

#: Special registers that the engine knows.
SPECIALS = frozenset(
    {f"%{root}.{axis}" for root in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
    | {f"%{name}" for name in (*_LANE_MASKS, *_CONSTANT, "laneid", "warpid", "nwarpid", "total_smem_size")}
    | {f"%{root}.{axis}" for root in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid") for axis in "xyz"}
    | {"%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster"}
    | {"%dynamic_smem_size", "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
)


def is_clock(name: str) -> bool:
    """Return whether a special register changes while the kernel runs."""
    return name.startswith(_CLOCKS)


def clock_value(name: str, ticks: int) -> np.uint64:
    """Return a clock after so many steps; it grows, so that a kernel that waits for it goes on."""
    return np.uint64(ticks >> 32 if name.endswith("_hi") else ticks)


def unravel(linear: Any, sizes: Extent) -> tuple[Any, Any, Any]:
    """Return the three coordinates of a linear index, or of an array of them."""
    x, y, _ = sizes
    return (linear % x, linear // x % y, linear // (x * y))


def lane_special(name: str, lane: AnyArray) -> AnyArray:
    """Return a special register that depends on the lane only."""
    if name == "%laneid":
        return lane.astype(np.uint32)
    one = np.uint64(1)
    at = one << lane.astype(np.uint64)
    masks = {
        "%lanemask_eq": at, "%lanemask_lt": at - one, "%lanemask_le": (at << one) - one,
        "%lanemask_gt": ~((at << one) - one), "%lanemask_ge": ~(at - one),
    }  # fmt: skip
    if name not in masks:
        raise UnsupportedError(f"special register {name} is not supported")
    return (masks[name] & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def constant_special(name: str) -> int | None:
    """Return a special register that is the same for every launch: the kernel sees one SM."""
    return _CONSTANT.get(name.removeprefix("%"))


# Refuses instructions whose modifiers and operands do not go together, before code is written for them.
#
# ptxas refuses them too; PTX that was never seen by it may hold anything.


_WIDTHS = {"v2", "v4", "v8"}
_FLOATS = {"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"}


def check_operands(function: Function) -> None:
    """Raise UnsupportedError for the first instruction that cannot be meant."""
    for ins in function.instructions:
        if not all(
            check(ins)
            for check in (
                _names_one,
                _compares,
                _reduces_into,
                _has_fragments,
                _copies,
                _names_box,
                _describes_tiles,
                _reads_answer,
            )
        ):
            what = f"PTX instruction {ins.name} with these operands is not supported"
            raise NotExecutedError(what, where=ins.where or function.name)


def _names_one(ins: Instruction) -> bool:
    """Return whether the opcode names one operation and one vector width, where it has to."""
    one_of = ins.opcode.one_of
    return sum(m in one_of for m in ins.modifiers) == bool(one_of) and sum(m in _WIDTHS for m in ins.modifiers) < 2


def _compares(ins: Instruction) -> bool:
    """Return whether a comparison has the operands that its modifiers ask for; only floats can be unordered."""
    if not ins.opcode.has(Trait.COMPARE):
        return True
    combinations = sum(m in COMBINATIONS for m in ins.modifiers)
    results, most = len(ins.operands) - 2 - combinations, 1 if ins.opcode.fewest_sources is None else 2
    ordered = ins.type in _FLOATS or {"num", "nan"}.isdisjoint(ins.modifiers)
    return combinations < 2 and ordered and 1 <= results <= most


def _has_fragments(ins: Instruction) -> bool:
    """Return whether an mma has a shape for its types, and as many registers as its fragments need."""
    lists = [o.elements if isinstance(o, Vector) else (o,) for o in ins.operands]
    if ins.moves_matrices:
        return all(
            isinstance(o, Address) or f"x{len(each)}" in ins.modifiers
            for o, each in zip(ins.operands, lists, strict=True)
        )
    if ins.root != "mma":
        return True
    product = product_of(ins.modifiers, ins.types)
    if product is None:
        return False
    in_a, in_b, in_total = product.registers
    factors = [1, 2, 1, 2] if product.scales else []
    if product.is_sparse:
        factors = [1, 1]
        if not _selects(ins.operands[5], product):
            return False
    return [len(each) for each in lists] == [in_total, in_a, in_b, in_total, *factors]


def _selects(selector: Operand, product: Product) -> bool:
    """Return whether an operand says which lanes hold the metadata of a sparse A."""
    return isinstance(selector, Immediate) and selector.value in range(4 // product.lanes_of_metadata)


def _copies(ins: Instruction) -> bool:
    """Return whether a copy has a size that there is, of which it reads a number or by a predicate; a wait a number."""
    if ins.opcode.has(Trait.AWAIT):
        return all(isinstance(operand, Immediate) and operand.value >= 0 for operand in ins.operands)
    if ins.opcode.name != "cp.async":
        return True
    sizes = {16} if "cg" in ins.modifiers else {4, 8, 16}
    given = ins.operands[3] if len(ins.operands) > 3 else None
    is_word = isinstance(given, Register) and TYPE_BITS[given.type] in {1, 32}
    return ins.access_bytes in sizes and (given is None or is_word or isinstance(given, Immediate))


def _reduces_into(ins: Instruction) -> bool:
    """Return whether bar.red has a result of the size that the scheduler writes where the register lies."""
    if not ins.is_barrier or "red" not in ins.modifiers or not isinstance(ins.operands[0], Register):
        return True
    return TYPE_BITS[ins.operands[0].type] == (32 if "popc" in ins.modifiers else 1)


def _reads_answer(ins: Instruction) -> bool:
    """Return whether what is read of the answer to a request for a cluster goes to registers of its size."""
    if ins.opcode.name != "clusterlaunchcontrol.query_cancel":
        return True
    target, answer = ins.operands
    elements = target.elements if isinstance(target, Vector) else (target,)
    bits = TYPE_BITS[ins.types[0]]
    return (
        isinstance(target, Vector) == ("v4" in ins.modifiers)
        and all(isinstance(each, Sink) or _are_registers((each,), bits, 1) for each in elements)
        and _are_registers((answer,), TYPE_BITS[ins.type], 1)
    )


def _describes_tiles(ins: Instruction) -> bool:
    """Return whether a wgmma has registers and immediates of the right number and size, and setmaxnreg a number."""
    if ins.root == "setmaxnreg":
        count = ins.operands[0]
        return isinstance(count, Immediate) and count.value in range(24, 257, 8)
    if ins.opcode.has(Trait.TENSOR_MEMORY):
        return _fits_tensor_memory(ins)
    if not ins.opcode.has(Trait.ACCUMULATE):
        return True
    product = group_product_of(ins.modifiers, ins.types)
    if product is None:
        return False
    totals, a, b, *others = ins.operands
    if product.is_sparse:
        words, selector, *others = others
        if not (_are_registers((words,), 32, 1) and _selects(selector, product)):
            return False
    adds, *constants = others
    in_a, _, in_total = product.registers
    is_given = isinstance(a, Vector)
    turns = (1 if is_given else 2) if TYPE_BITS[product.a] == 16 else 0
    values = [each.value if isinstance(each, Immediate) else None for each in constants]
    is_whole = product.total == "s32"
    return (
        isinstance(totals, Vector)
        and _are_registers(totals.elements, 32, in_total)
        and _are_registers(a.elements if isinstance(a, Vector) else (a,), *((32, in_a) if is_given else (64, 1)))
        and _are_registers((b,), 64, 1)
        and (isinstance(adds, Immediate) or _are_registers((adds,), 1, 1))
        and len(values) == (0 if is_whole else 2 + turns)
        and all(value in {1, -1, 2**32 - 1, 2**64 - 1} for value in values[:2])
        and all(value in {0, 1} for value in values[2:])
    )


def check_pairs(launch: Launch, function: Function) -> None:
    """Raise LaunchError where blocks are to work in pairs, and there are none; UnsupportedError where only some do."""
    code = [ins for ins in function.instructions if ins.root == "tcgen05"]
    paired = [PAIR in ins.modifiers for ins in code if any(m.startswith("cta_group") for m in ins.modifiers)]
    if any(paired) and not all(paired):
        what = "a kernel that uses tensor memory both alone (cta_group::1) and in pairs of blocks is not supported"
        raise UnsupportedError(what, where=function.name, cure="PTX asks for one cta_group in all of a kernel.")
    if any(paired) and launch.cluster_blocks % 2:
        what = "the kernel uses tensor memory in pairs of blocks (cta_group::2), and its clusters have none"
        cure = "Declare clusters of two (__cluster_dims__), or launch in such: cluster = [2], --cluster 2."
        raise LaunchError(what, where=launch.label, cure=cure)


def uses_tensor_memory(function: Function) -> bool:
    """Return whether a kernel has instructions on tensor memory."""
    return any(ins.opcode.has(Trait.TENSOR_MEMORY) for ins in function.instructions)


def _fits_tensor_memory(ins: Instruction) -> bool:
    """Return whether an instruction on tensor memory has operands of the right number and size."""
    registers = [each for each in ins.operands if not isinstance(each, Address | Immediate)]
    immediates = [each.value for each in ins.operands if isinstance(each, Immediate)]
    if not MOVEMENTS.keys().isdisjoint(ins.modifiers):
        found = movement_of(ins.modifiers)
        if found is None or len(registers) != 1 or len(immediates) != found[0].is_split:
            return False
        data = registers[0].elements if isinstance(registers[0], Vector) else (registers[0],)
        return _are_registers(data, 32, found[0].registers * found[1]) and all(0 <= each < 512 for each in immediates)
    if sum(m.startswith("cta_group") for m in ins.modifiers) != 1:
        return False
    if ins.opcode.name == "tcgen05.cp":
        key = tuple(m for m in ins.details if not m.startswith("cta_group"))
        return key in COPIES and _are_registers((ins.operands[1],), 64, 1)
    return not ins.opcode.name.startswith("tcgen05.mma") or _fits_tensor_product(ins)


def _fits_tensor_product(ins: Instruction) -> bool:
    a, b, descriptor = ins.operands[1:4]
    others = [each for each in ins.operands[4:] if not isinstance(each, Address | Vector)]
    lanes = [each.elements for each in ins.operands[4:] if isinstance(each, Vector)]
    kind = kind_of(ins.modifiers)
    masks = 8 if PAIR in ins.modifiers else 4
    scales = sum(isinstance(each, Address) for each in ins.operands[4:])
    return (
        kind is not None
        and (isinstance(a, Address) or _are_registers((a,), 64, 1))
        and _are_registers((b,), 64, 1)
        and _are_registers((descriptor,), 32, 1)
        and scales == 2 * kind.is_scaled
        and (not lanes or (_are_registers(lanes[0], 32, masks) and len(lanes) == 1 and not kind.is_scaled))
        and 1 <= len(others) <= 2
        and (isinstance(others[0], Immediate) or _are_registers((others[0],), 1, 1))
        and (len(others) == 1 or _may_scale(kind, others[1]))
    )


def _may_scale(kind: Kind, operand: Operand) -> bool:
    """Return whether a product of a kind may divide its sums by a power of two first."""
    return isinstance(operand, Immediate) and operand.value in range(16) and kind.k in {8, 16}


def _are_registers(operands: tuple[Operand, ...], bits: int, count: int) -> bool:
    fit = (isinstance(each, Register) and TYPE_BITS[each.type] == bits for each in operands)
    return len(operands) == count and all(fit)


def check_supported(function: Function) -> None:
    """Raise UnsupportedError for the first instruction that the engine does not cover."""
    for instruction in function.instructions:
        if not is_covered(instruction):
            raise NotExecutedError(
                f"PTX instruction {instruction.name} is not supported",
                where=instruction.where or function.name,
                cure=_cure(instruction),
            )
        _check_specials(instruction, function)


#: Modifiers of A and of B, which may be the same.
_OF_EACH = frozenset({"row", "col"})


def is_covered(ins: Instruction) -> bool:
    """Return whether an instruction has a form that is executed."""
    return any(_fits(ins, form) for form in FORMS.get(ins.opcode.name, ()))


def _cure(ins: Instruction) -> str | None:
    return next((cure for name, cure in WHY_REFUSED.items() if f"{ins.name}.".startswith(f"{name}.")), None)


def _fits(ins: Instruction, form: Form) -> bool:
    others = ins.details
    return (
        len(ins.types) == len(form.types)
        and all(given in allowed for given, allowed in zip(ins.types, form.types, strict=True))
        and form.modifiers.issuperset(others)
        and form.needed.issubset(others)
        and all(others.count(m) == 1 or m in _OF_EACH for m in others)
        and len(ins.operands) in form.operands
        and (not ins.opcode.one_of or not ins.opcode.one_of.isdisjoint(others))
        and all(_is_operand(ins, form, position) for position in range(len(ins.operands)))
        and _has_result(ins)
    )


def _is_operand(ins: Instruction, form: Form, position: int) -> bool:
    """Return whether an operand is of a kind that the instruction takes at this position."""
    operand = ins.operands[position]
    if position in form.addresses:
        return isinstance(operand, Address) and _names_place(ins, operand)
    if ins.opcode.has(Trait.SAMPLED) and position > 1:  # level of detail: these textures have one
        return not isinstance(operand, Address | Opaque | Label)
    if isinstance(operand, Label) or position == form.label:
        return isinstance(operand, Label) and position == form.label
    if isinstance(operand, Vector):
        return (ins.root == "mov" or bool(form.addresses) or form.takes_vectors) and _is_vector(ins, operand)
    if isinstance(operand, Negated):
        return form.takes_negated
    width = next((int(m[1]) for m in ins.modifiers if m in {"v2", "v4", "v8"}), 1)
    return not isinstance(operand, Address | Opaque) and (width == 1 or ins.root == "mov" or form.takes_vectors)


def _names_place(ins: Instruction, operand: Address) -> bool:
    """Return whether a memory operand has a handle and coordinates where the instruction takes them, and else none."""
    if ins.opcode.name.endswith("bulk.tensor") or ins.opcode.name.endswith("prefetch.tensor"):
        return all(_is_coordinate(each) for each in operand.coordinates)
    if not ins.opcode.has(Trait.SAMPLED):
        return not operand.coordinates
    name = next(m for m in ins.modifiers if m in ins.opcode.one_of)
    fewest = int(name[-2]) + name.startswith("a")
    return (
        isinstance(operand.base, Register)
        and TYPE_BITS[operand.base.type] == 64
        and fewest <= len(operand.coordinates) <= 4
        and all(isinstance(each, Register | Immediate) for each in operand.coordinates)
        and all(TYPE_BITS[each.type] == 32 for each in operand.coordinates if isinstance(each, Register))
    )


def _is_coordinate(operand: Operand) -> bool:
    return isinstance(operand, Immediate) or (isinstance(operand, Register) and TYPE_BITS[operand.type] == 32)


def _names_box(ins: Instruction) -> bool:
    """Return whether a copy of a box has one operand with as many coordinates as dimensions, and a mask as it says."""
    if not ins.opcode.name.endswith("bulk.tensor"):
        return True
    ranks = [int(m[0]) for m in ins.modifiers if m in _RANKS]
    places = [len(o.coordinates) for o in ins.operands if isinstance(o, Address)]
    wanted = [0] * len(places)
    rank = ranks[0] if len(ranks) == 1 else -1
    wanted[0 if ins.writes_global else 1] = 5 if ins.names_rows else rank
    offsets = [len(o.elements) for o in ins.operands if isinstance(o, Vector)]
    # One number in braces is read as if it had none.
    if offsets != ([rank - 2] if "im2col" in ins.modifiers and rank > 3 else []) or (ins.names_rows and rank != 2):
        return False
    others = int("im2col" in ins.modifiers) + int("multicast::cluster" in ins.modifiers)
    is_whole = places == wanted and len(ins.operands) == len(places) + others
    return is_whole and len(set(ins.modifiers) & {"add", "min", "max", "and", "or", "xor"}) < 2


_RANKS = {f"{rank}d" for rank in range(1, 6)}


def _is_vector(ins: Instruction, vector: Vector) -> bool:
    count = len(vector.elements)
    if any(isinstance(element, Vector | Address | Opaque | Label) for element in vector.elements):
        return False
    if ins.root == "mma" or ins.opcode.has(Trait.ACCUMULATE) or ins.opcode.has(Trait.TENSOR_MEMORY):
        return True
    if ins.moves_matrices:
        return f"x{count}" in ins.modifiers
    if ins.opcode.name.startswith("cp.async.bulk"):
        return "im2col" in ins.modifiers
    if ins.root != "mov":
        return f"v{count}" in ins.modifiers
    both = sum(isinstance(operand, Vector) for operand in ins.operands)
    sizes = {2} if ins.type == "b128" else {2, 4, 8}
    return both == 1 and count in sizes and TYPE_BITS[ins.type] // count >= 8


def _has_result(ins: Instruction) -> bool:
    if not ins.opcode.has_result or not ins.operands or (ins.is_barrier and not ins.types):
        return True
    target = ins.operands[0]
    elements: tuple[Operand, ...] = target.elements if isinstance(target, Vector) else (target,)
    return all(isinstance(element, Register | Sink) for element in elements)


def _check_specials(instruction: Instruction, function: Function) -> None:
    for operand in instruction.operands:
        if isinstance(operand, Special) and operand.name not in SPECIALS:
            # The driver hands the barrier of a cooperative launch over in these registers.
            is_grid_wide = operand.name.startswith("%envreg")
            raise UnsupportedError(
                f"special register {operand.name} is not supported",
                where=instruction.where or function.name,
                cure="Blocks wait for one another in cooperative launches: cooperative = true, or --cooperative."
                if is_grid_wide
                else None,
            )


# Which clusters a launch runs in: what it asks for and what its kernel declares have to agree.


_FIRST_WITH_CLUSTERS = 90


def in_clusters(launch: Launch, function: Function, target: str) -> Launch:
    """Return the launch with the clusters that its kernel declares; raises LaunchError for clusters that cannot be.

    ``target`` is the architecture that the PTX is for.
    """
    rule = function.cluster
    if rule.blocks is not None and launch.cluster not in {None, rule.blocks}:
        what = f"the cluster is {list(launch.cluster or ())}, and the kernel declares {list(rule.blocks)}"
        raise LaunchError(what, where=launch.label, cure="Leave the cluster out, or change __cluster_dims__.")
    cluster = launch.cluster or rule.blocks
    if cluster is None:
        if rule.is_explicit:
            cure = "Add cluster = [2] to the launch, or --cluster 2."
            raise LaunchError("the kernel has to be launched in clusters", where=launch.label, cure=cure)
        return launch
    if rule.counts_clusters and cluster != NO_CLUSTER:
        raise UnsupportedError(
            "a grid that counts clusters (__block_size__ with a cluster) is not supported",
            where=launch.label,
            cure="Declare the cluster with __cluster_dims__ and let the grid count blocks.",
        )
    check_cluster(cluster, launch.grid, launch.label)
    found = replace(launch, cluster=cluster)
    if rule.most_blocks is not None and found.cluster_blocks > rule.most_blocks:
        what = f"the cluster {list(cluster)} has more blocks than the {rule.most_blocks} that the kernel declares"
        raise LaunchError(what, where=launch.label, cure="Use a smaller cluster.")
    version = _DIGITS.search(target)
    if found.cluster_blocks > 1 and version is not None and int(version[0]) < _FIRST_WITH_CLUSTERS:
        what = f"clusters of blocks need sm_{_FIRST_WITH_CLUSTERS} or newer, and the kernel is compiled for {target}"
        raise LaunchError(what, where=launch.label, cure="Use --gpu with a GPU of compute capability 9.0 or newer.")
    return found
