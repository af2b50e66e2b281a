"""A scalar PTX interpreter: one thread at a time, in plain Python, for holding the engine against.

It shares no code with ``kerncast``: its own parsing, memory, control flow and arithmetic (``scalar_arithmetic``).
Each thread is a generator that runs until it meets others at a barrier or in a warp-wide instruction. Calls are
executed, not inlined. It covers what NVRTC writes for the kernels of the suite and refuses the rest.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import product

from tests.helpers.scalar_arithmetic import WIDTHS, decode, encode, evaluate, read, signed, total
from tests.helpers.scalar_arithmetic import product as times

Extent = tuple[int, int, int]

_SHARED, _LOCAL, _PARAM, _GLOBAL = 1 << 50, 1 << 51, 1 << 52, 1 << 56
_STATEMENT = re.compile(r"\s*([{}]|[\w$]+:(?!:)|[^;{}:]*(?:\{[^{}]*\}[^;{}]*|::[^;{}:]*)*;)", re.DOTALL)
_FUNCTION = re.compile(r"\.(entry|func)\s*(\((?:[^()]*)\))?\s*([\w$]+)\s*(\((?:[^()]*)\))?[^;{]*([;{])")
_VARIABLE = re.compile(
    r"\.(global|const|shared|local|param)((?:\s*\.(?:align\s+\d+|ptr|v[24]|\w+))*)\s+([\w$]+)((?:\[\d*\])*)"
    r"\s*(?:=\s*(.*))?",
    re.DOTALL,
)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,|\s]+(?:[+][\w-]+)?")
_SPECIAL = re.compile(r"%(tid|ntid|ctaid|nctaid)\.([xyz])")


class Unknown(Exception):  # noqa: N818  the oracle does not know; nothing is wrong
    """The kernel needs something that the oracle does not cover."""


@dataclass
class Step:
    """One instruction."""

    opcode: str
    operands: list[str]
    guard: str
    scope: int


@dataclass
class Code:
    """A function: its steps, labels, variables, and formal parameters."""

    name: str
    steps: list[Step] = field(default_factory=list)
    labels: dict[tuple[str, int], int] = field(default_factory=dict)
    """(label, scope): step"""
    outer: dict[int, int] = field(default_factory=dict)
    """scope: the one around it"""
    tables: dict[str, list[str]] = field(default_factory=dict)
    local: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """variable: (space, bytes, alignment)"""
    parameters: list[tuple[str, int, int]] = field(default_factory=list)
    returns: list[tuple[str, int, int]] = field(default_factory=list)
    narrow: dict[str, int] = field(default_factory=dict)
    """register prefix: bits"""

    def find(self, label: str, scope: int) -> int:
        """Return the step that a label means in a scope."""
        while (label, scope) not in self.labels:
            scope = self.outer[scope]
        return self.labels[label, scope]


@dataclass
class Meeting:
    """What a thread says when it has to wait for others."""

    kind: str
    step: Step
    values: list[int]
    mask: int = 0


Thread = Generator[Meeting, list[int] | None, None]


class Program:
    """The functions and variables of a PTX text."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"//[^\n]*", "", text)
        text = re.sub(r"\.(?:loc|file|pragma|section)\b[^\n]*", "", text)
        self.functions: dict[str, Code] = {}
        self.variables: dict[str, tuple[str, int, int, str]] = {}
        position = 0
        while True:
            match = _FUNCTION.search(text, position)
            self._module_variables(text[position : match.start() if match else len(text)])
            if match is None:
                return
            position = match.end()
            if match[5] == "{":
                end = _closing(text, match.end())
                self.functions[match[3]] = _parse_function(match, text[match.end() : end])
                position = end + 1

    def _module_variables(self, text: str) -> None:
        for statement in re.findall(r"[^;]+;", text):
            match = _VARIABLE.search(statement.rstrip(";"))
            if match:
                name, (space, size, align) = match[3], _describe(match)
                self.variables[name] = (space, size, align, (match[5] or "").strip())


def _closing(text: str, position: int) -> int:
    depth = 1
    for match in re.finditer("[{}]", text[position:]):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return position + match.start()
    raise Unknown("a function does not end")


def _describe(match: re.Match[str]) -> tuple[str, int, int]:
    """Return (space, bytes, alignment) of a declaration."""
    words = re.findall(r"\.(align\s+\d+|\w+)", match[2].split(".ptr")[0])
    kind = next(w for w in words if w in WIDTHS)
    count = int(next((w[1] for w in words if w in {"v2", "v4"}), "1"))
    for extent in re.findall(r"\[(\d*)\]", match[4]):
        count *= int(extent or 0)
    align = next((int(w.split()[1]) for w in words if w.startswith("align")), WIDTHS[kind] // 8)
    return match[1], count * WIDTHS[kind] // 8, align


def _parse_function(head: re.Match[str], body: str) -> Code:
    code = Code(head[3])
    for place, text in ((code.returns, head[2]), (code.parameters, head[4])):
        for match in _VARIABLE.finditer(text or ""):
            _, size, align = _describe(match)
            place.append((match[3], size, align))
    scopes = [0]
    opened = 0
    for found in _STATEMENT.finditer(body):
        statement = found[1].strip()
        if statement == "{":
            opened += 1
            code.outer[opened] = scopes[-1]
            scopes.append(opened)
        elif statement == "}":
            scopes.pop()
        elif statement.endswith(":"):
            code.labels[statement[:-1], scopes[-1]] = len(code.steps)
        else:
            _parse_statement(code, statement.rstrip(";").strip(), scopes[-1])
    return code


def _parse_statement(code: Code, text: str, scope: int) -> None:
    if not text:
        return
    if text.startswith(".reg"):
        kind = text.split()[0:2][1].lstrip(".")
        for name in re.findall(r"%?[A-Za-z_$][\w$]*", text.split(None, 2)[2]):
            code.narrow[name] = WIDTHS[kind]
        return
    if text.startswith((".branchtargets", ".callprototype")):
        if text.startswith(".branchtargets"):
            last = max(code.labels.values())
            for name in [name for (name, _), place in code.labels.items() if place == last]:
                code.tables[name] = re.findall(r"[\w$]+", text)[1:]
        return
    if text.startswith("."):
        match = _VARIABLE.match(text)
        if match is None:
            raise Unknown(text)
        code.local[match[3]] = _describe(match)
        return
    guard = ""
    if text.startswith("@"):
        guard, text = text[1:].split(None, 1)
    opcode, _, rest = text.partition(" " if " " in text else "\t")
    opcode, _, more = opcode.partition("\t")
    code.steps.append(Step(opcode, _OPERAND.findall(more + " " + rest), guard, scope))


@dataclass
class Memory:
    """Bytes by address: separate pieces, found by their start."""

    pieces: dict[int, bytearray] = field(default_factory=dict)

    def find(self, address: int, size: int) -> tuple[bytearray, int]:
        """Return the piece that holds an access, and where in it."""
        for start, data in self.pieces.items():
            if start <= address and address + size <= start + len(data):
                return data, address - start
        raise Unknown(f"access of {size} bytes at {address:#x}")


@dataclass
class Result:
    """What a run did."""

    counts: Counter[str]
    """opcode: how many threads executed it, guards applied; branches count for all"""
    memory: Memory


class Grid:
    """One launch."""

    def __init__(self, program: Program, kernel: str, grid: Extent, block: Extent, dynamic: int = 0) -> None:
        self.program = program
        self.code = program.functions[kernel]
        self.grid, self.block, self.dynamic = grid, block, dynamic
        self.counts: Counter[str] = Counter()
        self.memory = Memory()
        self.addresses: dict[str, int] = {}
        self.shared_size = 0
        for name, (space, size, align, initial) in program.variables.items():
            self._place(name, (space, size, align), initial)
        for code in program.functions.values():
            for name, (space, size, align) in code.local.items():
                if space == "shared":
                    self._place(name, (space, size, align), "")
        for name, (space, size, _, _) in program.variables.items():
            if space == "shared" and not size:
                self.addresses[name] = (self.shared_size + 15) // 16 * 16
        self.parameters = bytearray()

    def add_buffer(self, data: bytes) -> int:
        """Put a buffer into global memory and return its address."""
        address = _GLOBAL + (len(self.memory.pieces) << 36)
        self.memory.pieces[address] = bytearray(data)
        return address

    def set_parameters(self, values: list[bytes]) -> None:
        """Give the kernel's parameters, each as bytes."""
        for (_, size, align), value in zip(self.code.parameters, values, strict=True):
            self.parameters += bytes(-len(self.parameters) % align)
            assert len(value) == size
            self.parameters += value

    def run(self) -> Result:
        """Run every block, one after the other."""
        for z, y, x in product(*(range(n) for n in reversed(self.grid))):
            _Block(self, (x, y, z)).run()
        return Result(self.counts, self.memory)

    def _place(self, name: str, variable: tuple[str, int, int], initial: str) -> None:
        space, size, align = variable
        if space == "shared":
            self.shared_size += -self.shared_size % align
            self.addresses[name] = self.shared_size
            self.shared_size += size
            return
        data = bytearray(size)
        target = re.fullmatch(r"(?:generic\()?([A-Za-z_$][\w$]*)\)?", initial)
        if target:
            data = bytearray(self.addresses[target[1]].to_bytes(8, "little"))
            initial = ""
        values = [int(v, 0) for v in re.findall(r"0x[0-9a-fA-F]+|-?\d+", re.sub(r"0f([0-9A-F]{8})", r"0x\1", initial))]
        if values:
            each = size // max(len(values), 1) if initial.startswith("{") else size
            each = next(w for w in (8, 4, 2, 1) if w <= each)
            each = 1 if size == len(values) or len(values) > size // max(each, 1) else each
            for number, value in enumerate(values):
                data[number * each : (number + 1) * each] = (value & (1 << 8 * each) - 1).to_bytes(each, "little")
        self.addresses[name] = self.add_buffer(bytes(data))


class _Block:
    """One block: its threads, its shared memory."""

    def __init__(self, grid: Grid, index: Extent) -> None:
        self.grid, self.index = grid, index
        self.shared = bytearray((grid.shared_size + 15) // 16 * 16 + grid.dynamic)

    def run(self) -> None:
        sizes = self.grid.block
        threads = [
            _Thread(self, (x, y, z), number)
            for number, (z, y, x) in enumerate(product(range(sizes[2]), range(sizes[1]), range(sizes[0])))
        ]
        runs: dict[int, Thread] = {t.number: t.run(self.grid.code, {}) for t in threads}
        waiting: dict[int, Meeting] = {}
        for number in list(runs):
            self._advance(runs, waiting, number, None)
        while waiting:
            ready = list(self._ready(runs, waiting))
            if not ready:
                raise Unknown("threads wait in vain")
            for group in ready:
                results = _meet({n: waiting[n] for n in group})
                for number in group:
                    del waiting[number]
                    self._advance(runs, waiting, number, results[number])

    def _advance(
        self, runs: dict[int, Thread], waiting: dict[int, Meeting], number: int, got: list[int] | None
    ) -> None:
        try:
            waiting[number] = runs[number].send(got)
        except StopIteration:
            del runs[number]

    def _ready(self, runs: dict[int, Thread], waiting: dict[int, Meeting]) -> Iterator[list[int]]:
        """Yield groups of threads that have met."""
        at_barrier: dict[int, list[int]] = {}
        in_warp: dict[tuple[int, int, int], list[int]] = {}
        for number, meeting in waiting.items():
            if meeting.kind == "barrier":
                at_barrier.setdefault(meeting.values[0], []).append(number)
            else:
                in_warp.setdefault((number // 32, id(meeting.step), meeting.mask), []).append(number)
        for (warp, _, mask), numbers in in_warp.items():
            named = {warp * 32 + lane for lane in range(32) if mask >> lane & 1} & set(runs)
            if named <= set(numbers):
                yield numbers
        for numbers in at_barrier.values():
            expected = waiting[numbers[0]].values[1]
            if len(numbers) == (expected or len(runs)):
                yield numbers


def _meet(group: dict[int, Meeting]) -> dict[int, list[int]]:  # noqa: PLR0911  a table
    """Return what each thread of a warp-wide instruction or a barrier gets."""
    first = next(iter(group.values()))
    root, *modifiers = first.step.opcode.split(".")
    if root in {"bar", "barrier"} and "red" in modifiers:
        votes = [m.values[2] for m in group.values()]
        result = {"popc": sum(votes), "and": int(all(votes)), "or": int(any(votes))}
        return {n: [next(v for k, v in result.items() if k in modifiers)] for n in group}
    if root in {"bar", "barrier"}:
        return {n: [] for n in group}
    lanes = {n % 32: m.values for n, m in group.items()}
    if root == "shfl":
        return {n: _shuffle(modifiers, n % 32, lanes) for n in group}
    if root == "vote":
        ballot = sum(1 << lane for lane, values in lanes.items() if values[0])
        everyone = sum(1 << lane for lane in lanes)
        result = {"ballot": ballot, "any": int(ballot != 0), "all": int(ballot == everyone)}
        result["uni"] = int(ballot in {0, everyone})
        return {n: [next(v for k, v in result.items() if k in modifiers)] for n in group}
    if root == "match":
        same = {n: sum(1 << k for k, v in lanes.items() if v[0] == m.values[0]) for n, m in group.items()}
        if "any" in modifiers:
            return {n: [mask] for n, mask in same.items()}
        agreed = len(set(same.values())) == 1
        return {n: [mask if agreed else 0, int(agreed)] for n, mask in same.items()}
    if root == "redux":
        return {n: [_reduce(modifiers, [v[0] for v in lanes.values()])] for n in group}
    raise Unknown(first.step.opcode)


def reduce_singles(modifiers: list[str], values: list[int]) -> int:
    """Return the smallest or largest of singles, as bits; NaN only where .NaN asks for it, or nothing else is there."""
    sizes = [v & 0x7FFFFFFF if "abs" in modifiers else v for v in values]
    numbers = [v for v in sizes if v & 0x7FFFFFFF <= 0x7F800000]
    if not numbers or ("NaN" in modifiers and len(numbers) < len(sizes)):
        return 0x7FFFFFFF
    ranked = sorted(numbers, key=lambda v: v if v < 1 << 31 else -1 - (v & 0x7FFFFFFF))
    return ranked[0] if "min" in modifiers else ranked[-1]


def _reduce(modifiers: list[str], values: list[int]) -> int:
    kind = modifiers[-1]
    if kind == "f32":
        return reduce_singles(modifiers, values)
    numbers = [read(v, kind) for v in values]
    name = next(m for m in modifiers if m in {"add", "min", "max", "and", "or", "xor"})
    result = numbers[0]
    for number in numbers[1:]:
        result = {
            "add": result + number, "min": min(result, number), "max": max(result, number), "and": result & number,
            "or": result | number, "xor": result ^ number,
        }[name]  # fmt: skip
    return result & 0xFFFFFFFF


def _shuffle(modifiers: list[str], lane: int, lanes: dict[int, list[int]]) -> list[int]:
    """Follow the pseudo-code of the PTX ISA."""
    value, b, c = lanes[lane][:3]
    b_value, c_value, segment = b & 31, c & 31, c >> 8 & 31
    most = (lane & segment) | (c_value & ~segment)
    least = lane & segment
    if "up" in modifiers:
        source = lane - b_value
        valid = source >= most
    elif "down" in modifiers:
        source = lane + b_value
        valid = source <= most
    elif "bfly" in modifiers:
        source = lane ^ b_value
        valid = source <= most
    else:
        source = least | (b_value & ~segment)
        valid = source <= most
    source = source if valid else lane
    return [lanes[source][0] if source in lanes else value, int(valid)]


class _Thread:
    """One thread: registers, private memory, and the interpretation of its instructions."""

    def __init__(self, block: _Block, index: Extent, number: int) -> None:
        self.block, self.grid = block, block.grid
        self.index, self.number = index, number
        self.private = bytearray()

    def run(self, code: Code, bindings: dict[str, int]) -> Thread:
        """Interpret a function; ``bindings`` maps its parameters to addresses in private memory."""
        frame = _Frame(self, code, bindings)
        here = 0
        while here < len(code.steps):
            step = code.steps[here]
            here += 1
            root = step.opcode.split(".")[0]
            holds = not step.guard or bool(frame.value(step.guard.lstrip("!"), "pred")) != step.guard.startswith("!")
            counted = "bra.uni" if root == "ret" and bindings.get("$call") else step.opcode
            if root in {"bra", "ret", "exit"} or (holds and root != "call"):
                self.grid.counts[counted] += 1
            if not holds:
                continue
            if root == "ret":
                return
            if root == "exit":
                raise Unknown("exit")
            if root == "bra":
                here = code.find(step.operands[0], step.scope)
            elif root == "brx":
                choice = frame.value(step.operands[0], "u32")
                here = code.find(code.tables[step.operands[1]][choice], step.scope)
            elif root == "call":
                yield from self._call(frame, step)
            elif root in {"bar", "barrier", "shfl", "vote", "match", "redux"}:
                yield from self._meet(frame, step)
            else:
                frame.execute(step)

    def _call(self, frame: "_Frame", step: Step) -> Thread:
        lists = [re.findall(r"[\w$%]+", o) for o in step.operands if o.startswith("(")]
        name = next(o for o in step.operands if not o.startswith("("))
        has_result = step.operands[0].startswith("(")
        if name in {"vprintf", "__assertfail"}:
            self.grid.counts["call." + name] += 1
            return
        callee = self.grid.program.functions[name]
        formal = [p[0] for p in (*callee.returns, *callee.parameters)]
        actual = [*(lists[0] if has_result else []), *(lists[-1] if len(lists) > has_result else [])]
        bindings = {f: frame.private_address(a) for f, a in zip(formal, actual, strict=True)}
        yield from self.run(callee, {**bindings, "$call": 1})

    def _meet(self, frame: "_Frame", step: Step) -> Thread:
        root, *modifiers = step.opcode.split(".")
        operands = step.operands
        if root in {"bar", "barrier"}:
            if "warp" in modifiers:
                yield Meeting("warp", step, [], frame.value(operands[0], "u32"))
                return
            rest = operands[1:-1] if "red" in modifiers else operands
            numbers = [frame.value(o, "u32") for o in rest] + [0]
            vote = self._predicate(frame, operands[-1]) if "red" in modifiers else 0
            got = yield Meeting("barrier", step, [numbers[0], numbers[1], vote])
            if "red" in modifiers and got:
                frame.set(operands[0], got[0])
            return
        has_pair = (root == "shfl" and len(operands) == 6) or (root == "match" and len(operands) == 4)
        targets = operands[: 2 if has_pair else 1]
        sources = operands[len(targets) : -1]
        if root == "vote":
            values = [self._predicate(frame, sources[0])]
        else:
            values = [frame.value(o, "b64" if step.opcode.endswith("b64") else "b32") for o in sources]
        got = yield Meeting("warp", step, values, frame.value(operands[-1], "u32"))
        assert got is not None
        for target, value in zip(targets, got, strict=False):
            frame.set(target, value)

    @staticmethod
    def _predicate(frame: "_Frame", operand: str) -> int:
        return int(bool(frame.value(operand.lstrip("!"), "pred")) != operand.startswith("!"))


class _Frame:
    """One activation of a function by one thread."""

    def __init__(self, thread: _Thread, code: Code, bindings: dict[str, int]) -> None:
        self.thread, self.code, self.grid = thread, code, thread.grid
        self.registers: dict[str, int] = {}
        self.private = dict(bindings)
        for name, (space, size, align) in code.local.items():
            if space in {"local", "param"}:
                thread.private += bytes(-len(thread.private) % max(align, 1))
                self.private[name] = len(thread.private)
                thread.private += bytes(size)

    def private_address(self, name: str) -> int:
        return self.private[name]

    def set(self, operand: str, value: int) -> None:
        if operand != "_":
            prefix = operand if operand in self.code.narrow else operand.rstrip("0123456789")
            self.registers[operand] = value & (1 << self.code.narrow[prefix]) - 1

    def value(self, operand: str, kind: str) -> int:  # noqa: PLR0911  one return per sort of operand
        """Return an operand as bits of a type."""
        mask = (1 << WIDTHS[kind]) - 1
        special = _SPECIAL.fullmatch(operand)
        if special:
            table = {
                "tid": self.thread.index, "ntid": self.grid.block, "ctaid": self.thread.block.index,
                "nctaid": self.grid.grid,
            }  # fmt: skip
            return table[special[1]]["xyz".index(special[2])]
        if operand == "%laneid":
            return self.thread.number % 32
        if operand.startswith("%lanemask_"):
            lane = self.thread.number % 32
            return sum(1 << i for i in range(32) if evaluate_mask(operand[-2:], i, lane))
        if operand.startswith("%") or operand in self.code.narrow:
            return self.registers.get(operand, 0) & mask
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}", operand):
            return int("0x" + operand[2:], 0)
        if re.fullmatch(r"-?(0x)?[0-9a-fA-F]+U?", operand) and not operand[0].isalpha():
            return int(operand.rstrip("U"), 0) & mask
        return self.address_of(operand) & mask

    def address_of(self, name: str) -> int:
        if name in self.private:
            return self.private[name]
        names = [p[0] for p in self.grid.code.parameters]
        if name in names:
            return _PARAM + self._parameter_offset(names.index(name))
        return self.grid.addresses[name]

    def _parameter_offset(self, number: int) -> int:
        place = 0
        for position, (_, size, align) in enumerate(self.grid.code.parameters):
            place += -place % align
            if position == number:
                return place
            place += size
        raise Unknown("parameter")

    def execute(self, step: Step) -> None:
        root, *modifiers = step.opcode.split(".")
        if root in {"ld", "ldu"}:
            self._load(modifiers, step.operands)
        elif root == "st":
            self._store(modifiers, step.operands)
        elif root in {"atom", "red"}:
            self._atomic(root, modifiers, step.operands)
        elif root == "mov":
            self._move(modifiers, step.operands)
        elif root == "cvta":
            base = {"shared": _SHARED, "local": _LOCAL}.get(
                next((m for m in modifiers if m in {"shared", "local"}), ""), 0
            )
            address = self.value(step.operands[1], "u64")
            self.set(step.operands[0], address - base if "to" in modifiers else address + base)
        elif root == "setp":
            self._set_predicate(step)
        elif root in {"membar", "fence", "nanosleep", "prefetch"}:
            pass
        elif root == "activemask":
            raise Unknown("activemask")
        else:
            self._arithmetic(step)

    def _arithmetic(self, step: Step) -> None:
        root, *modifiers = step.opcode.split(".")
        types = [m for m in modifiers if m in WIDTHS]
        sources = []
        for position, operand in enumerate(step.operands[1:]):
            kind = types[-1]
            if root in {"shl", "shr"} and position == 1:
                kind = "u32"
            elif root == "selp":
                kind = "pred" if position == 2 else types[0]
            elif root == "slct":
                kind = types[1] if position == 2 else types[0]
            elif (root == "bfe" and position > 0) or (root == "bfi" and position > 1) or (root == "lop3"):
                kind = "u32"
            elif root == "mad" and "wide" in modifiers and position == 2:
                kind = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[kind]
            sources.append(self.value(operand, kind))
        result = evaluate(step.opcode, sources)
        if types[0].startswith("s") and "wide" not in modifiers:
            result = signed(result, WIDTHS[types[0]])  # a narrow signed result fills a wider register
        self.set(step.operands[0], result)

    def _set_predicate(self, step: Step) -> None:
        _, *modifiers = step.opcode.split(".")
        combine = next((m for m in modifiers if m in {"and", "or", "xor"}), None)
        kind = modifiers[-1]
        results = len(step.operands) - 2 - (combine is not None)
        a, b = (self.value(o, kind) for o in step.operands[results : results + 2])
        bits = evaluate(step.opcode, [a, b])
        both = [bits & 1, bits >> 1] if kind.endswith("x2") else [bits, 1 - bits]
        if combine:
            c = self.thread._predicate(self, step.operands[-1])
            both = [{"and": x & c, "or": x | c, "xor": x ^ c}[combine] for x in both]
        for target, value in zip(step.operands[:results], both, strict=False):
            self.set(target, value)

    def _move(self, modifiers: list[str], operands: list[str]) -> None:
        width = WIDTHS[modifiers[-1]]
        target, source = operands
        if source.startswith("{"):
            parts = re.findall(r"[^{},\s]+", source)
            each = width // len(parts)
            self.set(target, sum(self.value(p, f"b{each}") << i * each for i, p in enumerate(parts)))
        elif target.startswith("{"):
            parts = re.findall(r"[^{},\s]+", target)
            each = width // len(parts)
            whole = self.value(source, f"b{width}")
            for i, part in enumerate(parts):
                self.set(part, whole >> i * each & (1 << each) - 1)
        else:
            self.set(target, self.value(source, modifiers[-1]))

    def _locate(self, modifiers: list[str], operand: str, size: int) -> tuple[bytearray, int]:
        inside = operand.strip("[] ")
        base, _, offset = inside.partition("+")
        address = self.value(base.strip(), "u64") + (int(offset, 0) if offset else 0)
        space = next((m for m in modifiers if m in {"global", "const", "shared", "local", "param"}), "generic")
        if space == "generic":
            for name, start in (("param", _PARAM), ("local", _LOCAL), ("shared", _SHARED)):
                if start <= address < start * 2 and address < _GLOBAL:
                    space, address = name, address if name == "param" else address - start
                    break
        if space == "param" and address >= _PARAM:
            return self.grid.parameters, address - _PARAM
        if space in {"local", "param"}:
            return self.thread.private, address
        if space == "shared":
            if not 0 <= address <= len(self.thread.block.shared) - size:
                raise Unknown("shared memory out of bounds")
            return self.thread.block.shared, address
        return self.grid.memory.find(address, size)

    def _load(self, modifiers: list[str], operands: list[str]) -> None:
        targets = re.findall(r"[^{},\s]+", operands[0])
        size = WIDTHS[modifiers[-1]] // 8
        data, place = self._locate(modifiers, operands[1], size * len(targets))
        for number, target in enumerate(targets):
            raw = int.from_bytes(data[place + number * size : place + (number + 1) * size], "little")
            self.set(target, read(raw, modifiers[-1]))

    def _store(self, modifiers: list[str], operands: list[str]) -> None:
        sources = re.findall(r"[^{},\s]+", operands[1])
        size = WIDTHS[modifiers[-1]] // 8
        data, place = self._locate(modifiers, operands[0], size * len(sources))
        for number, source in enumerate(sources):
            raw = self.value(source, modifiers[-1]).to_bytes(size, "little")
            data[place + number * size : place + (number + 1) * size] = raw

    def _atomic(self, root: str, modifiers: list[str], operands: list[str]) -> None:
        kind = modifiers[-1]
        size = WIDTHS[kind] // 8
        if root == "red":
            operands = ["_", *operands]
        data, place = self._locate(modifiers, operands[1], size)
        old = int.from_bytes(data[place : place + size], "little")
        given = [self.value(o, kind) for o in operands[2:]]
        name = next(m for m in modifiers if m in _ATOMIC)
        data[place : place + size] = (_ATOMIC[name](old, given, kind) & (1 << 8 * size) - 1).to_bytes(size, "little")
        self.set(operands[0], old)


def _atomic_add(old: int, given: list[int], kind: str) -> int:
    if kind.startswith("f"):
        return encode(
            total(decode(old, kind), times(decode(given[0], kind), decode(encode_one(kind), kind)), "rn"), kind
        )
    return old + given[0]


def encode_one(kind: str) -> int:
    """Return the bits of 1.0."""
    return {"f16": 0x3C00, "f32": 0x3F800000, "f64": 0x3FF0000000000000}[kind]


def evaluate_mask(name: str, lane: int, own: int) -> bool:
    """Say whether a lane is in a lane mask."""
    return {"eq": lane == own, "lt": lane < own, "le": lane <= own, "gt": lane > own, "ge": lane >= own}[name]


_ATOMIC: dict[str, Callable[[int, list[int], str], int]] = {
    "add": _atomic_add,
    "min": lambda old, given, kind: min(read(old, kind), read(given[0], kind)),
    "max": lambda old, given, kind: max(read(old, kind), read(given[0], kind)),
    "and": lambda old, given, _: old & given[0],
    "or": lambda old, given, _: old | given[0],
    "xor": lambda old, given, _: old ^ given[0],
    "exch": lambda _old, given, _kind: given[0],
    "cas": lambda old, given, _: given[1] if old == given[0] else old,
    "inc": lambda old, given, _: 0 if old >= given[0] else old + 1,
    "dec": lambda old, given, _: given[0] if old == 0 or old > given[0] else old - 1,
}
