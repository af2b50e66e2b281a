"""Which micro-ops' results a register of the PTX stands for.

An instruction that becomes no machine code of its own, as a copy or an address that the memory instruction takes in,
hands on what it reads; one that runs in a part of its executions does both.
"""

from collections.abc import Iterable, Mapping, Sequence

from kerncast.models.sm.micro_ops import FULL_WEIGHT, MOST_DESTINATIONS, MOST_SOURCES
from kerncast.ptx import Instruction, results_of, sources_of

#: Passes over the code until values that loops hand on have settled; chains of more copies are cut.
_MOST_PASSES = 4

Registers = tuple[int, ...]


class RegisterMap:
    """Registers of the program for those of the PTX."""

    def __init__(self, code: Sequence[Instruction], weights: Sequence[int]) -> None:
        """``weights`` says in how many of FULL_WEIGHT executions an instruction makes its result itself."""
        self._read = [tuple(dict.fromkeys(r.name for r in sources_of(ins))) for ins in code]
        self._made = [tuple(dict.fromkeys(r.name for r in results_of(ins))) for ins in code]
        self._weights = weights
        self._own: dict[str, int] = {}
        self.count = 0
        for names, weight in zip(self._made, weights, strict=True):
            if weight:
                self._number(names)
        self._values = self._handed_on(weights)

    def made(self, instruction: int) -> Registers:
        """Return the registers that an instruction writes."""
        return tuple(dict.fromkeys(self._own[name] for name in self._made[instruction] if name in self._own))

    def along(self) -> "Line":
        """Return what the registers of the PTX stand for in one straight line, before its first instruction."""
        return Line(self._read, self._made, self._weights, self._own, self._values)

    def _number(self, names: Sequence[str]) -> None:
        """Give each name its register; a micro-op names so many, further ones share the last."""
        for place, name in enumerate(names):
            if name in self._own:
                continue
            if place < MOST_DESTINATIONS:
                self._own[name] = self.count
                self.count += 1
            else:
                self._own[name] = self._own[names[MOST_DESTINATIONS - 1]]

    def _handed_on(self, weights: Sequence[int]) -> dict[str, Registers]:
        values: dict[str, Registers] = {name: (number,) for name, number in self._own.items()}
        handing = [n for n, weight in enumerate(weights) if weight < FULL_WEIGHT and self._made[n]]
        for _ in range(_MOST_PASSES):
            changed = False
            for number in handing:
                found = [r for name in self._read[number] for r in values.get(name, ())]
                for name in self._made[number]:
                    own = (self._own[name],) if name in self._own else ()
                    handed = _latest(r for r in (*values.get(name, ()), *found) if r not in own)
                    # Too many to wait for: the register itself, then what is made last and so arrives last.
                    new = (*own, *handed)[:MOST_SOURCES]
                    changed |= new != values.get(name, ())
                    values[name] = new
            if not changed:
                break
        return values


class Line:
    """What each register of the PTX stands for as a straight line goes on: the copy of a value outlives its source."""

    def __init__(
        self,
        read: Sequence[Sequence[str]],
        made: Sequence[Sequence[str]],
        weights: Sequence[int],
        own: Mapping[str, int],
        before: Mapping[str, Registers],
    ) -> None:
        """``before`` says what registers stand for that the line has not written yet."""
        self._read, self._made, self._weights, self._own, self._before = read, made, weights, own, before
        self._handed: dict[str, Registers] = {}
        self._made_at: dict[str, int] = {}
        self._written_at: dict[int, int] = {}
        self._constant: set[str] = set()
        self._now = 0

    def of(self, name: str) -> Registers:
        """Return the registers that one of the PTX stands for."""
        return (*((self._own[name],) if name in self._own else ()), *self._handed_to(name))

    def read(self, instruction: int) -> Registers:
        """Return the registers that an instruction waits for, the latest ones where there are too many."""
        return _latest(r for name in self._read[instruction] for r in self.of(name))

    def go_on(self, instruction: int, *, keeps_old: bool) -> None:
        """Note what an instruction writes, everywhere or where a predicate is on."""
        self._now += 1
        weight = self._weights[instruction]
        handed: Registers = ()
        is_constant = False
        if weight < FULL_WEIGHT:
            is_constant = all(name in self._constant for name in self._read[instruction])
            handed = tuple(r for name in self._read[instruction] for r in self._hands_on(name))
        for name in self._made[instruction]:
            old = self._handed_to(name) if keeps_old else ()
            own = self._own.get(name)
            self._handed[name] = tuple(dict.fromkeys(r for r in (*handed, *old) if r != own))[:MOST_SOURCES]
            self._made_at[name] = self._now
            if own is not None and weight:
                self._written_at[own] = self._now
            if not is_constant:
                self._constant.discard(name)
            elif not keeps_old:
                self._constant.add(name)

    def _handed_to(self, name: str) -> Registers:
        """Return the registers whose values a register has taken over and that hold them still."""
        handed = self._handed.get(name, self._before.get(name, ()))
        since, own = self._made_at.get(name, 0), self._own.get(name)
        return tuple(r for r in handed if r != own and self._written_at.get(r, 0) <= since)

    def _hands_on(self, name: str) -> Registers:
        """Return what a copy of a register stands for; nobody waits for a constant."""
        return () if name in self._constant else self.of(name)


def _latest(registers: Iterable[int]) -> Registers:
    """Return the registers that are made last in the order of the program."""
    return tuple(sorted(set(registers), reverse=True)[:MOST_SOURCES])
