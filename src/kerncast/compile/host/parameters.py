"""What parameters of host functions stand for: the arguments of the call that leads to them, or the command line."""

from typing import TYPE_CHECKING, Any

from kerncast.compile.host.command_line import PROGRAM
from kerncast.compile.host.moments import Frame, Moment
from kerncast.compile.host.options import may_be_reordered
from kerncast.compile.host.tree import Call, Node
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.writes import Place, Step

if TYPE_CHECKING:
    from kerncast.compile.host.values import Values

#: Calls of a function that are compared before its first one speaks for it.
_MOST_COMPARED = 6
#: How the note begins that a value is the one of a first call.
OF_FIRST_CALL = "as in the first of"


class Parameters:
    """Values of parameters, for Values."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self._is_comparing = False
        self.uncalled: dict[str, None] = {}
        """functions whose parameters were asked for, and which nothing calls"""

    def value(self, place: Place, moment: Moment) -> Any:
        """Return the value of a parameter, or of a part of one; raises Undecided."""
        function, which = self._values.program.parameters[place.root]
        if function is self._values.program.main:
            return self._argument(which, place.path, moment.frame)
        calls = self._calls_of(function, moment.frame)
        if not calls:
            self.uncalled[function.name] = None
            raise Undecided(_parameter_of_nobody(function, which))
        call, outer = calls[0]
        value = self._passed(call, which, place.path, outer)
        if len(calls) > 1:
            self._compare(calls, which, place.path, value)
        return value

    def _argument(self, which: int, path: tuple[Step, ...], frame: Frame | None) -> int | str:
        """Return argc, or a text of argv."""
        if self._values.arguments is None:
            raise Undecided("it comes from the command line: give --argv")
        if which == 0:
            return len(self._values.arguments) + 1
        if len(path) != 1 or isinstance(path[0], str):
            raise Undecided("it is made from the command line")
        index = path[0] if isinstance(path[0], int) else int(self._values.number(path[0], frame))
        if index == 0:
            return PROGRAM
        if not 1 <= index <= len(self._values.arguments):
            raise Undecided(f"it is argument {index} of the command line, which --argv does not give")
        if may_be_reordered(self._values):
            raise Undecided("getopt may put the arguments into another order")
        return self._values.arguments[index - 1]

    def _calls_of(self, function: Node, frame: Frame | None) -> list[tuple[Call, Frame | None]]:
        """Return the calls of a function, the one that speaks for it first."""
        while frame is not None:
            if frame.function is function:
                return [(frame.call, frame.outer)]
            frame = frame.outer
        first = self._values.program.caller.get(function.order)
        if first is None:
            return []
        rest = [each for each in self._values.program.calls.get(function.key, ()) if each is not first]
        return [(first, None), *((each, None) for each in rest)]

    def argument_for(self, place: Place, moment: Moment) -> tuple[Node, Frame | None] | None:
        """Return the argument that a parameter stands for, with its frame; None where nothing calls the function."""
        if place.root not in self._values.program.parameters or place.path:
            return None
        function, which = self._values.program.parameters[place.root]
        calls = self._calls_of(function, moment.frame)
        if not calls or which >= len(calls[0][0].arguments):
            return None
        return calls[0][0].arguments[which].plain, calls[0][1]

    def _compare(self, calls: list[tuple[Call, Frame | None]], which: int, path: tuple[Step, ...], value: Any) -> None:
        """Say so where other calls of the function pass other values."""
        if self._is_comparing:
            return
        first = calls[0][0]
        kept = list(self._values.notes)
        self._is_comparing = True
        try:
            same = len(calls) <= _MOST_COMPARED and all(
                self._passed(call, which, path, outer) == value for call, outer in calls[1:]
            )
        except (Undecided, LookupError):
            same = False
        finally:
            self._is_comparing = False
        self._values.notes = kept
        if not same:
            name = first.name or "the function"
            self._values.note(f"{OF_FIRST_CALL} {len(calls)} calls of {name}, {self._values.where(first.node)}")

    def _passed(self, call: Call, which: int, path: tuple[Step, ...], frame: Frame | None) -> Any:
        if which >= len(call.arguments):
            raise Undecided("it is a parameter that the call leaves out")
        argument = call.arguments[which]
        if not path:
            return self._values.value(argument, frame)
        return self._values.part(argument, path, frame)


def _parameter_of_nobody(function: Node, which: int) -> str:
    names = [each.name for each in function.parameters]
    name = names[which] if which < len(names) else "?"
    return f"{name} is a parameter of {function.name}, which nothing here calls"
