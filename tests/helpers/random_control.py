"""Random control flow around random instructions.

Every loop ends: each one has a counter that goes down whenever it goes around.
"""

from typing import Any

from tests.helpers.random_barriers import barrier
from tests.helpers.random_code import Code
from tests.helpers.random_instructions import STRAIGHT, approximate
from tests.helpers.random_memory import MEMORY, cross_lane, local, shuffle

_FIRST_COUNTER = 4
_LAST_COUNTER = 11


class Writer:
    """Writes statements into a function."""

    def __init__(
        self, code: Code, *, threads: int = 0, functions: int = 0, calm: bool = False, in_kernel: bool = True
    ) -> None:
        self.code = code
        self.threads = threads
        self.functions = functions
        self.calm = calm
        self.in_kernel = in_kernel
        self.exits: list[str] = []
        """labels behind the constructs around the statement that is being written"""

    def statements(self, count: int, *, uniform: bool) -> None:
        """Write some statements; ``uniform`` says that all threads of a block pass here together."""
        depth = len(self.exits)
        barriers = 6 if self.code.loose else 3
        kinds = {self._straight: 6, self._memory: 6, self._if: 3, self._loop: 2, self._switch: 1, self._region: 1,
                 self._leave: 1, self._call: 2, self._barrier: barriers, self._long_loop: 0.3}  # fmt: skip
        if depth >= 3 or self.calm:
            kinds = {self._straight: 6, self._memory: 6}
        for _ in range(count):
            (self.code.choose.choices(list(kinds), list(kinds.values()))[0])(uniform=uniform)

    def _few(self, *, uniform: bool = False) -> None:
        self.statements(self.code.choose.randrange(1, 4), uniform=uniform)

    def _pick(self, table: "dict[Any, Any]") -> None:
        self.code.choose.choices(list(table), list(table.values()))[0](self.code)

    def _straight(self, *, uniform: bool) -> None:
        del uniform
        table = STRAIGHT if self.in_kernel else {w: n for w, n in STRAIGHT.items() if w is not approximate}
        for _ in range(self.code.choose.randrange(1, 9)):
            self._pick(table)

    def _memory(self, *, uniform: bool) -> None:
        del uniform
        self._pick(MEMORY if self.in_kernel else {local: 3, shuffle: 1, cross_lane: 1})

    def _if(self, *, uniform: bool) -> None:
        del uniform
        code = self.code
        otherwise, after = code.label(), code.label()
        code.add(f"{self.code.predicate()} bra {otherwise};")
        self.exits.append(after)
        self._few()
        if code.chance(0.5):
            code.add(f"bra{code.choose.choice(('', '.uni'))} {after};")
            code.add(f"{otherwise}:")
            self._few()
        else:
            code.add(f"{otherwise}:")
        self.exits.pop()
        code.add(f"{after}:")

    def _counter(self) -> str:
        return f"%c{min(_FIRST_COUNTER + len(self.exits), _LAST_COUNTER)}"

    def _loop(self, *, uniform: bool) -> None:
        """Write a loop with breaks and continues; its trip count depends on the thread, or not."""
        code, counter = self.code, self._counter()
        head, following, after = code.label(), code.label(), code.label()
        uniform = uniform and code.chance(0.5)
        if uniform:
            code.add(f"mov.b32 {counter}, {code.choose.randrange(1, 4)};")
        else:
            code.add(f"and.b32 {counter}, {code.register('b32')}, {code.choose.choice((1, 3, 7))};")
        if code.chance(0.5) and not uniform:  # tested before the first iteration
            code.add(f"setp.le.s32 %q0, {counter}, 0; @%q0 bra {after};")
        code.add(f"{head}:")
        self.exits.append(after)
        self._few(uniform=uniform)
        if not uniform:
            for target in code.choose.sample([after, following, *self.exits], code.choose.randrange(3)):
                code.add(f"{self.code.predicate()} bra {target};")
                self._few()
        self.exits.pop()
        code.add(f"{following}:")
        code.add(f"sub.s32 {counter}, {counter}, 1; setp.gt.s32 %q0, {counter}, 0; @%q0 bra {head};")
        code.add(f"{after}:")

    def _long_loop(self, *, uniform: bool) -> None:
        """Write a loop with more iterations than a warp does at a time."""
        code, counter, head = self.code, self._counter(), self.code.label()
        if self.exits or not self.in_kernel:
            return
        code.add(f"and.b32 {counter}, {code.register('b32')}, {code.choose.choice((511, 1023))};")
        code.add(f"{head}:")
        self._straight(uniform=uniform)
        code.add(f"sub.s32 {counter}, {counter}, 1; setp.gt.s32 %q0, {counter}, 0; @%q0 bra {head};")

    def _switch(self, *, uniform: bool) -> None:
        del uniform
        code = self.code
        labels = [code.label() for _ in range(code.choose.randrange(1, 4))]
        after, table = code.label(), code.label()
        targets = [code.choose.choice([*labels, after]) for _ in range(4)]
        code.add(f"and.b32 %t0, {code.register('b32')}, 3; {table}: .branchtargets {', '.join(targets)}; "
                 f"brx.idx %t0, {table};")  # fmt: skip
        self.exits.append(after)
        for label in labels:
            code.add(f"{label}:")
            self._few()
            if code.chance(0.6):  # else it falls through
                code.add(f"bra {after};")
        self.exits.pop()
        code.add(f"{after}:")

    def _region(self, *, uniform: bool) -> None:
        """Write blocks that jump to one another, back as often as a counter allows: also loops with two entries."""
        del uniform
        code, fuel = self.code, self._counter()
        labels = [code.label() for _ in range(code.choose.randrange(3, 7))]
        code.add(f"mov.b32 {fuel}, {code.choose.randrange(1, 7)};")
        self.exits.append(labels[-1])
        if code.chance(0.5):
            code.add(f"{self.code.predicate()} bra {code.choose.choice(labels)};")
        for number, label in enumerate(labels[:-1]):
            code.add(f"{label}:")
            self._few()
            for _ in range(code.choose.randrange(1, 3)):
                target = code.choose.randrange(len(labels))
                guard = code.predicate()
                if target > number:
                    code.add(f"{guard} bra {labels[target]};")
                else:
                    code.add(
                        f"sub.s32 {fuel}, {fuel}, 1; setp.gt.s32 %q0, {fuel}, 0; "
                        f"and.pred %q0, %q0, {code.register('pred')}; @%q0 bra {labels[target]};"
                    )
        self.exits.pop()
        code.add(f"{labels[-1]}:")

    def _leave(self, *, uniform: bool) -> None:
        """Write a return, or a jump out of several constructs."""
        del uniform
        target = self.code.choose.choice([*self.exits, ""])
        leave = "ret" if not self.in_kernel else self.code.choose.choice(("ret", "exit"))
        self.code.add(f"{self.code.predicate()} {f'bra {target}' if target else leave};")

    def _call(self, *, uniform: bool) -> None:
        del uniform
        if not self.functions:
            return
        code = self.code
        name, prototype, before = f"f{code.choose.randrange(self.functions)}", "", ""
        if self.in_kernel and code.chance(0.4):
            before = f"and.b32 %t8, {code.register('b32')}, 1; mov.u64 %a1, functions; mad.wide.u32 %a0, %t8, 8, %a1; "
            before += "ld.global.u64 %a0, [%a0]; "
            name, prototype = "%a0", ", prototype"
        code.add(
            f"{{ .param .b32 A; .param .b64 B; .param .b32 Q; {before}st.param.b32 [A], {code.register('b32')}; "
            f"st.param.b64 [B], {code.register('b64')}; {code.guard()}call (Q), {name}, (A, B){prototype}; "
            f"ld.param.b32 {code.register('b32')}, [Q]; }}"
        )

    def _barrier(self, *, uniform: bool) -> None:
        if self.in_kernel and (uniform or self.code.loose):
            barrier(self.code, self.threads)
