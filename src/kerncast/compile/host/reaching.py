"""Which write of a variable a place in host code sees, when the statements before it have run.

Statements are taken in the order of the text. A loop has begun its first pass where the place is inside it; a branch is
followed where its condition is known. Writes that may or may not have happened must all give the same value.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncast.compile.host.chances import Chance, Chances
from kerncast.compile.host.jumps import LOOPS, is_excluded
from kerncast.compile.host.loops import around, body_of, calls_change, is_in_past_loop, is_step_of
from kerncast.compile.host.moments import Frame, Moment
from kerncast.compile.host.passes import Pass
from kerncast.compile.host.program import SHARED_GLOBALS
from kerncast.compile.host.tree import Call, Node
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.writes import ANYHOW, POINTEE, Place, Step, Write, WriteKind, happens_at, place_of

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values

#: How the note begins that a value is the one of a first pass.
OF_FIRST_ROUND = "in the first pass of the loop of"


@dataclass(frozen=True, slots=True)
class _Step:
    """A write that may have happened, and the pass of a loop over the command line that it happens in."""

    write: Write
    one: Pass | None


Read = Callable[[Write, tuple[Step, ...], Frame | None], Any]
First = Callable[[Place, Moment], Any]


class Reaching:
    """Finds the value of a variable at a moment, by asking for the values of writes."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self._program = values.program
        self.chances = Chances(values)

    def value(self, place: Place, moment: Moment, read: Read, first: First) -> Any:
        """Return the value of a variable, or of a part of one; raises Undecided, or LookupError where it has none.

        ``first`` gives what the variable is where nothing on the way sets it.
        """
        possible: list[Any] = []
        function, order, frame = moment.function, moment.order, moment.frame
        while True:
            found = self._in_function(place, Moment(order, function, frame), read, possible)
            if found is not None:
                return found[0]
            self._note_loop(place.path, place, Moment(order, function, frame))
            if self._is_local(place.root, function):
                break
            call = frame.call if frame is not None and frame.function is function else self._caller(function)
            if call is None:
                break
            place = self._of_receiver(place, call)
            order, function = call.node.order, call.node.function
            frame = frame.outer if frame is not None else None
            self._values.spend()
        if possible and self._is_local(place.root, function) and place.root not in self._program.parameters:
            return self.agreed(possible)
        try:
            possible.append(first(place, Moment(order, function, frame)))
        except Undecided as error:
            possible.append(error)
        return self.agreed(possible)

    def _of_receiver(self, place: Place, call: Call) -> Place:
        """Return a field of the object of a method as the caller names it."""
        name = self._program.field_name(place.root)
        target = place_of(call.receiver) if name is not None and call.receiver is not None else None
        if target is None or name is None:
            return place
        path = target.path[:-1] if target.path[-1:] == (POINTEE,) else target.path
        return Place(target.root, (*path, name, *place.path))

    def in_function(self, place: Place, moment: Moment, read: Read) -> tuple[Any] | None:
        """Return the value that a function surely gives by a moment, in a tuple; None where it may not."""
        possible: list[Any] = []
        return self._in_function(place, moment, read, possible)

    def _caller(self, function: Node) -> Call | None:
        return self._program.caller.get(function.order)

    def _is_local(self, root: int, function: Node) -> bool:
        declared = self._values.declared(root)
        return declared is not None and declared is function

    def agreed(self, possible: list[Any]) -> Any:
        """Return the one value that several have; raises Undecided, or LookupError where there is none."""
        if not possible:
            raise LookupError
        if any(isinstance(each, Undecided) for each in possible):
            raise next(each for each in possible if isinstance(each, Undecided))
        if any(each != possible[0] for each in possible):
            shown = (str(each) if isinstance(each, int | float) else "a pointer" for each in possible[:4])
            raise Undecided(f"it is given different values: {', '.join(shown)}")
        return possible[0]

    def _in_function(self, place: Place, moment: Moment, read: Read, possible: list[Any]) -> tuple[Any] | None:
        """Return the value that this function has given, in a tuple; None where the caller must be asked."""
        self._check_seen(place, moment)
        values = self._values
        for step in self._before(place, moment):
            write, passes = step.write, values.passes
            rest = self._rest(step, place, moment.frame)
            is_past = is_in_past_loop(write.node, moment, step.one)
            if passes != values.passes and is_past:
                raise Undecided(f"it is filled in a loop at {values.where(write.node)}")
            if rest is None:
                continue
            chance = self._chance_of(step, moment)
            if chance is Chance.NEVER:
                continue
            if write.kind is WriteKind.GUESSED:
                name = write.call.name if write.call is not None else "a function"
                values.note(f"{name}(…) at {values.where(write.node)} is not known and taken not to change it")
                continue
            try:
                self._check_repeated(write, chance)
                with values.command_line.within(step.one):
                    value = read(write, rest, moment.frame)
                if passes != values.passes and is_past:
                    value = Undecided(f"it is given values in a loop at {values.where(write.node)}")
            except LookupError:
                continue
            except Undecided as error:
                if chance is Chance.CERTAIN and not possible:
                    raise
                value = error
            if chance is Chance.CERTAIN:
                self._note_loop(write.place.path, place, moment, write)
                return (self.agreed([*possible, value]),)
            possible.append(value)
        active = self._active(moment)
        if active is not None and not place.path and place.root in active.entry:
            return (self.agreed([*possible, active.entry[place.root]]),)
        return None

    def _check_repeated(self, write: Write, chance: Chance) -> None:
        if chance is Chance.REPEATED and write.kind is WriteKind.UPDATE:
            raise Undecided(f"it changes in the loop of {self._values.where(write.node)}")

    def _check_seen(self, place: Place, moment: Moment) -> None:
        """Raise Undecided where a part of the function that is not followed seems to change a variable."""
        for name in (self._program.name_of(place.root), *(step for step in place.path if isinstance(step, str))):
            line = self._program.changes_unseen(moment.function, name)
            if line is not None:
                raise Undecided(f"{name} changes in code that is not followed, line {line}")

    def _chance_of(self, step: "_Step", moment: Moment) -> Chance:
        """Say whether a statement has run by a moment."""
        node = step.write.node
        if step.one is None:
            return self.chances.behind_jumps(self.chances.of(node, moment), node, moment)
        is_reached = self._values.command_line.reaches(step.one, node)
        if is_reached is False:
            return Chance.NEVER
        if is_reached is None:
            chance = self.chances.of(node, moment)
            return Chance.POSSIBLE if chance is Chance.CERTAIN else chance
        loop = step.one.loop.node
        if loop.holds(moment.order):
            return Chance.CERTAIN
        return self.chances.behind_jumps(self.chances.of(loop, moment), loop, moment)

    def _active(self, moment: Moment) -> Pass | None:
        """Return the pass that a moment lies in; None where it lies in none that is known."""
        inside = (each for each in self._values.active.values() if each.loop.repeats(moment.order))
        return next(inside, None)

    def _before(self, place: Place, moment: Moment) -> list["_Step"]:
        """Return the writes of a variable before a moment, the last first; calls that write it count as writes."""
        found: list[tuple[tuple[int, int, int], _Step]] = []
        active = self._active(moment)
        for write in self._writes_in(place.root, moment.function):
            passes = self._values.command_line.around(write.node, moment.frame)
            loop = passes[0].loop.node if passes else None
            is_now = active is not None and active.loop.node is loop and not _shares_loop(write.node, active, moment)
            if passes and loop is not None and (loop.last < moment.order or is_now):
                found += [
                    ((loop.last, *when), _Step(write, one)) for when, one in _unrolled(write, passes, active, moment)
                ]
            elif write.node.order < moment.order and not write.node.holds(moment.order):
                found.append((_when_in(active, write), _Step(write, None)))
        if active is not None and place.root in active.entry:
            found = [each for each in found if each[1].one is active or active.loop.repeats(each[1].write.node.order)]
        return [step for _, step in sorted(found, key=lambda each: each[0], reverse=True)]

    def _writes_in(self, root: int, function: Node) -> Iterator[Write]:
        """Yield the writes of a variable in a function, calls among them."""
        yield from (each for each in self._program.writes.get(root, ()) if each.node.function is function)
        if not self._is_local(root, function):
            for call in self._program.calls_in(function):
                yield from self._writes(call, root)

    def _writes(self, call: Call, root: int) -> Iterator[Write]:
        """Yield what a call writes of a variable that its function, or one that is passed to it, names."""
        callee, is_shared = self._program.callee(call), self._program.is_shared(root)
        effects = self._program.effects(callee) if callee is not None else set()
        if is_shared and callee is None and self._program.is_elsewhere(call):
            yield Write(call.node, Place(root), WriteKind.GUESSED, None, call, ANYHOW)
        if root in effects or (is_shared and SHARED_GLOBALS in effects):
            yield Write(call.node, Place(root), WriteKind.PASSED, None, call, ANYHOW)
        for argument in call.arguments:
            passed = self._program.tree.functions.get(argument.plain.key) if argument.plain.call is None else None
            if passed is not None and root in self._program.effects(passed):
                yield Write(call.node, Place(root), WriteKind.SHARED)

    def _rest(self, step: "_Step", place: Place, frame: Frame | None) -> tuple[Step, ...] | None:
        """Return what of the path is left behind the part that is written; None where another part is written."""
        write = step.write
        for which, (mine, theirs) in enumerate(zip(place.path, write.place.path, strict=False)):
            if theirs == POINTEE and isinstance(mine, str) and mine != POINTEE:
                return place.path[which:]  # the whole struct behind a pointer, of which a field is asked for
            if not self._same_step(mine, theirs, step.one, frame):
                return None
        if len(write.place.path) > len(place.path) or (write.is_through and len(write.place.path) == len(place.path)):
            return None
        return place.path[len(write.place.path) :]

    def _same_step(self, mine: Step, theirs: Step, one: Pass | None, frame: Frame | None) -> bool:
        if not isinstance(mine, Node) and not isinstance(theirs, Node) and POINTEE not in {mine, theirs}:
            return mine == theirs
        asked = self._index(mine, frame)
        with self._values.command_line.within(one):
            return bool(asked == self._index(theirs, frame))

    def _index(self, step: Step, frame: Frame | None) -> object:
        if not isinstance(step, Node):
            return 0 if step == POINTEE else step
        return self._values.number(step, frame)

    def _note_loop(self, path: tuple[Step, ...], place: Place, moment: Moment, last: Write | None = None) -> None:
        """Say so where a later pass of the loop around the moment would see another value."""
        for parent, _ in around(moment):
            if parent.kind not in LOOPS or parent.order in self._values.active:
                continue
            if last is not None and body_of(parent).holds(last.node.order):
                continue
            if self._changes_later(parent, path, place, moment):
                self._values.passes += 1
                self._values.note(f"{OF_FIRST_ROUND} {self._values.where(parent)}")
                return

    def _changes_later(self, loop: Node, path: tuple[Step, ...], place: Place, moment: Moment) -> bool:
        """Whether a loop changes a variable, not only what it points to, behind a moment in it or beside it."""
        for other in self._program.writes.get(place.root, ()):
            is_other = other.is_through and len(other.place.path) == len(place.path)
            if is_other or not loop.holds(other.node.order) or other.place.path != path[: len(other.place.path)]:
                continue
            is_later = other.node.last >= moment.order or is_step_of(other.node, loop, moment)
            if is_later or is_excluded(other.node, moment.order):
                return True
        is_local = self._is_local(place.root, moment.function)
        return not is_local and calls_change(self._program, loop, place.root, moment)


def _when_in(active: Pass | None, write: Write) -> tuple[int, int, int]:
    """Return what orders a write that is taken once among those of all passes of a loop."""
    is_inside = active is not None and active.loop.repeats(write.node.order)
    return (
        (active.loop.node.last, active.index, happens_at(write)) if active and is_inside else (happens_at(write), 0, 0)
    )


def _shares_loop(node: Node, active: Pass, moment: Moment) -> bool:
    """Whether a write and a moment are in one loop inside the loop of a pass."""
    loops = (parent for parent, _ in node.ancestors() if parent.kind in LOOPS and parent is not active.loop.node)
    return any(each.holds(moment.order) and active.loop.repeats(each.order) for each in loops)


def _unrolled(
    write: Write, passes: list[Pass], active: Pass | None, moment: Moment
) -> Iterator[tuple[tuple[int, int], Pass]]:
    """Yield the passes that may run a write before a moment, each with what orders it among all of them."""
    loop, node = passes[0].loop, write.node
    is_inside = active is not None and active.loop.node is loop.node
    is_before = loop.position(node.order) < loop.position(moment.order) and not node.holds(moment.order)
    last = len(passes) if active is None or not is_inside else active.index + is_before
    for one in passes[:last]:
        yield (one.index, loop.position(happens_at(write))), one
