"""The forms of PTX instructions: the cases in which the instructions around one change its machine code.

The form is the opcode with its type, and a word for the context: address arithmetic that the memory instruction takes
in, a multiplication that an addition takes in, the counter of a loop that is unrolled.
"""

from collections import defaultdict
from collections.abc import Iterable

from kerncast.machine.joined_loads import joined_loads
from kerncast.ptx import (
    TYPE_BITS,
    Address,
    ControlFlowGraph,
    Flow,
    Function,
    Immediate,
    Instruction,
    Negated,
    Opcode,
    Operand,
    Register,
    Special,
    Symbol,
    Trait,
    Vector,
    opcode_of,
    reversed_graph,
)

# Which blocks of the PTX the compiler turns into instructions with a predicate, so that all threads issue them.
#
# A short block that a branch skips becomes part of the block before it. In 96 kernels of the suite, compiled for
# sm_75, 84 of 98 such blocks with up to 9 instructions became predicated, and 20 of 120 longer ones.


_LONGEST = 9


def predicated_blocks(function: Function, cfg: ControlFlowGraph) -> dict[int, int]:
    """Return the blocks that become predicated, and the block before each, which they are issued with."""
    before = reversed_graph([*cfg.successors, ()])
    found = {}
    for block, following in enumerate(cfg.successors):
        if len(set(following)) != 2 or function.instructions[cfg.blocks[block].stop - 1].root != "bra":
            continue
        for child, after in (following, following[::-1]):
            if child >= cfg.exit or cfg.successors[child] != (after,) or before[child] != [block]:
                continue
            place = cfg.blocks[child]
            leaves = after < cfg.exit and cfg.successors[after] == (cfg.exit,) and cfg.lengths[after] == 1
            if not leaves and _is_short(function.instructions[place.start : place.stop]):
                found[child] = block
    return found


def issuing_blocks(function: Function, cfg: ControlFlowGraph) -> list[int]:
    """Return the block that each is issued with: itself, or, where it is predicated, the first one before it."""
    before = predicated_blocks(function, cfg)
    found = []
    for block in range(len(cfg.blocks)):
        issuing = block
        while issuing in before:
            issuing = before[issuing]
        found.append(issuing)
    return found


def _is_short(code: tuple[Instruction, ...]) -> bool:
    if any(_is_unfit(ins.opcode) or (ins.opcode.has(Trait.LONG) and ins.type.startswith("f")) for ins in code):
        return False
    return sum(not ins.opcode.has(Trait.FREE) and ins.type != "pred" for ins in code) <= _LONGEST


def _is_unfit(opcode: Opcode) -> bool:
    """Return whether an opcode cannot be predicated: all lanes that it names have to be there, or it is a call."""
    return opcode.has(Trait.MODE) or opcode.flow is Flow.CALL


#: Types of products that a sum takes in, unless one of the two names its rounding.
_FUSED = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}
_ROUNDING = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "uni", "lo", "aligned", "sync", "to"}
_SIGNS = {"u": "s", "b": "s"}
#: Traits of opcodes whose forms have all modifiers.
_WHOLE_NAME = {Trait.PRECISE, Trait.MODE, Trait.FENCE}
#: And of these the use of the result says nothing.
_WITHOUT_CONTEXT = {Trait.MODE, Trait.FREE}


def forms_of(function: Function, cfg: ControlFlowGraph) -> list[str]:
    """Return the form of each instruction of a function."""
    return _Forms(function, cfg).all()


class _Forms:
    """Instructions with what defines and what reads each register."""

    def __init__(self, function: Function, cfg: ControlFlowGraph) -> None:
        self.code = function.instructions
        self.cfg = cfg
        self.block_of = [n for n, block in enumerate(cfg.blocks) for _ in range(block.start, block.stop)]
        self.defined: dict[str, list[int]] = defaultdict(list)
        self.read: dict[str, list[int]] = defaultdict(list)
        for number, ins in enumerate(self.code):
            for name in destinations(ins):
                self.defined[name].append(number)
            for name in sources(ins):
                self.read[name].append(number)
        self.joined = joined_loads(function, cfg)
        self.predicated = predicated_blocks(function, cfg)
        self.tight = {loop.header for loop in cfg.loops.loops if len(loop.body) == 1}

    def all(self) -> list[str]:
        """Return the forms in order."""
        return [self._form(number, ins) for number, ins in enumerate(self.code)]

    def _form(self, number: int, ins: Instruction) -> str:
        if ins.opcode.access is not None:
            return self._access(number, ins)
        if ins.root == "bra" or ins.opcode.flow is Flow.LEAVE:
            return self._branch(number) if ins.is_branch else self._leave(number, ins)
        if ins.root == "mov":
            return self._move(ins)
        if ins.root == "setp":
            return self._comparison(ins)
        if ins.type == "pred":
            return "logic.pred"
        is_whole = not _WHOLE_NAME.isdisjoint(ins.opcode.traits)
        name = ".".join((ins.root, *(m for m in ins.modifiers if is_whole or m not in _ROUNDING)))
        context = self._context(number, ins)
        return f"{_signless(name)}{'.' + context if context else ''}"

    def _move(self, ins: Instruction) -> str:
        source = ins.operands[-1] if ins.operands else None
        bits = TYPE_BITS.get(ins.type, 32)
        match source:
            case Special(name):
                return f"mov.{name.strip('%').split('.')[0]}"
            case Immediate():
                kind = "constant"
            case Symbol():
                kind = "symbol"
            case Vector():
                kind = "split"
            case _:
                kind = "register" if not isinstance(ins.operands[0], Vector) else "join"
        carried = ".carried" if any(len(self.defined[name]) > 1 for name in destinations(ins)) else ""
        return f"mov.{kind}.{bits}{carried}"

    def _branch(self, number: int) -> str:
        block = self.block_of[number]
        successors = self.cfg.successors[block]
        if len(set(successors)) == 1:
            return "bra.next" if successors[0] == block + 1 else "bra.always"
        if any(self.cfg.dominators.dominates(to, block) for to in successors if to < self.cfg.exit):
            return "bra.loop.tight" if block in self.tight else "bra.loop"
        if any(child in self.predicated and self.predicated[child] == block for child in successors):
            return "bra.predicated"
        if any(self._is_end(to) for to in successors):
            return "bra.end"
        return "bra.skip"

    def _is_end(self, block: int) -> bool:
        return (
            block < self.cfg.exit
            and self.cfg.successors[block] == (self.cfg.exit,)
            and (self.cfg.blocks[block].stop - self.cfg.blocks[block].start == 1)
        )

    def _leave(self, number: int, ins: Instruction) -> str:
        before = reversed_graph([*self.cfg.successors, ()])[self.block_of[number]]
        alone = self.cfg.blocks[self.block_of[number]].start == number and len(before) > 1
        return "ret.shared" if alone and ins.guard is None else "ret"

    def _comparison(self, ins: Instruction) -> str:
        name = f"setp.{ins.type}"
        users = [u for each in destinations(ins) for u in self.read[each]]
        if any(self.code[u].root == "bra" and self.block_of[u] in self.tight for u in users):
            return name + ".tight"
        if users and all(self.code[u].type == "pred" for u in users):
            return name + ".joined"
        return name

    def _access(self, number: int, ins: Instruction) -> str:
        if ins.is_update:
            return ".".join((ins.root, ins.space, *(m for m in ins.modifiers if m in TYPE_BITS or len(m) <= 4)))
        if ins.is_copy:
            return f"{ins.opcode.name}.{8 * ins.access_bytes}"
        address = next((o for o in ins.operands if isinstance(o, Address)), None)
        data = next((o for o in ins.operands if isinstance(o, Vector)), None)
        bits = TYPE_BITS.get(ins.type, 32) * (len(data.elements) if data else 1)
        name = f"{ins.root}.{ins.space}.{bits}"
        if number in self.joined and self.joined[number].first != number:
            return name + ".merged"
        fixed = address is not None and not isinstance(address.base, Register)
        return name + (".fixed" if fixed and ins.space != "param" else "")

    def _context(self, number: int, ins: Instruction) -> str:
        """Return how the result is used, for integer arithmetic and for products."""
        if ins.root == "mul" and ins.type in _FUSED:
            return "added" if self._is_fused(ins) else ""
        if not ins.type or ins.type.startswith(("f", "bf")) or not _WITHOUT_CONTEXT.isdisjoint(ins.opcode.traits):
            return ""
        own = destinations(ins)
        constant = ".constant" if any(isinstance(o, Immediate) for o in ins.operands[1:]) else ""
        if own & sources(ins):
            return ("step.tight" if self.block_of[number] in self.tight else "step") + constant
        users = [u for each in own for u in self.read[each]]
        if not users:
            return "unused"
        taken = self._taken(ins, users)
        parts = (self._made_by(ins) if ins.root == "add" else "", taken)
        return (".".join(filter(None, parts)) + constant).lstrip(".")

    def _taken(self, ins: Instruction, users: list[int]) -> str:
        """Return which kind of instruction takes the result in."""
        own = destinations(ins)
        if all(self._addresses(self.code[u], own) for u in users):
            return "address"
        if all(_is_sum(self.code[u]) and self.code[u].type.endswith(("32", "64")) for u in users):
            return "added" if len(users) == 1 or ins.type.endswith("64") else "shared"
        if ins.opcode.has(Trait.LOGIC) and len(users) == 1 and self.code[users[0]].opcode.has(Trait.LOGIC):
            return "logic"
        if all(self.code[u].modifiers[:1] == ("wide",) for u in users):
            return "widened"
        return ""

    def _is_fused(self, ins: Instruction) -> bool:
        """Tell whether the one reader of a product is a sum that the compiler may round together with it."""
        users = [self.code[u] for each in destinations(ins) for u in self.read[each]]
        return (
            not _ROUNDING.intersection(ins.modifiers)
            and len(users) == 1
            and _is_sum(users[0])
            and users[0].type == ins.type
            and not _ROUNDING.intersection(users[0].modifiers)
        )

    def _made_by(self, ins: Instruction) -> str:
        """Return whether an addition has an operand that it can take in."""
        made = [self.code[d[0]] for name in sources(ins) if len(d := self.defined[name]) == 1]
        if any(m.modifiers[:1] == ("wide",) for m in made):
            return "wide"
        if any(m.root == "shl" for m in made):
            return "shifted"
        return ""

    def _addresses(self, user: Instruction, names: set[str]) -> bool:
        return user.opcode.access is not None and any(
            isinstance(o, Address) and isinstance(o.base, Register) and o.base.name in names for o in user.operands
        )


def destinations(ins: Instruction) -> set[str]:
    """Return the names of the registers that an instruction writes."""
    if not ins.opcode.has_result or ins.is_barrier or not ins.operands:
        return set()
    count = 2 if ins.root == "setp" and len(ins.operands) > 3 else 1
    return {name for operand in ins.operands[:count] for name in _registers(operand, with_bases=False)}


def sources(ins: Instruction) -> set[str]:
    """Return the names of the registers that an instruction reads, without its guard."""
    first = 0 if not destinations(ins) else 1
    found = {name for operand in ins.operands[first:] for name in _registers(operand, with_bases=True)}
    return found | ({ins.guard.name} if ins.guard is not None else set())


def _is_sum(ins: Instruction) -> bool:
    return ins.opcode.machine == "ADD"


def _registers(operand: Operand, *, with_bases: bool) -> Iterable[str]:
    match operand:
        case Register(name) | Negated(Register(name)):
            yield name
        case Address(Register(name)) if with_bases:
            yield name
        case Vector(elements):
            for element in elements:
                yield from _registers(element, with_bases=with_bases)


def _signless(name: str) -> str:
    """Return a name in which unsigned and untyped integers are signed ones: the machine code is the same."""
    head, *rest = name.split(".")
    if opcode_of(head).has(Trait.SIGNED):
        return name
    return ".".join([head, *(_SIGNS.get(r[0], r[0]) + r[1:] if r[1:].isdigit() else r for r in rest)])
