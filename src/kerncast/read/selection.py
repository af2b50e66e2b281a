"""The choice of launches in a profile: by the kernel's name, and by their place among those of that name.

As in Nsight Compute: a name is compared whole, ``regex:PATTERN`` is searched in it, launches are skipped and counted
among those that match. What is compared is the name without return type, namespace, template arguments and parameters
(ncu's ``--kernel-name-base function``); the name as printed fits too.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kerncast.errors import InputError

# Regular expressions from outside, matched in time that grows only with the length of text and pattern.
#
# A pattern becomes a graph of states, and all states that the text can have reached so far are followed together
# (Thompson, "Regular expression search algorithm", CACM 11(6), 1968): no pattern makes it try again from the start, as
# backtracking does. It knows what names need: characters, classes, groups, ``|``, ``* + ? {m,n}``, ``^``, ``$``.


_LONGEST_PATTERN = 300
_LONGEST_TEXT = 8192
#: (a{100}){100} is short, and its graph is not.
_MOST_STATES = 3000
_MOST_NESTED_GROUPS = 30
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_COUNTS = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}")
_SUFFIXES = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CLASS_ESCAPES = "dDwWsS"
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}
_CURE = "Use characters, [classes], groups, |, * + ? {m,n}, ^ and $."

#: A state is what one character must fit, or an anchor, or nothing; and the states after it.
_Test = re.Pattern[str] | str | None


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        """Compile; raises InputError for what is no pattern, or too large a one."""
        if len(text) > _LONGEST_PATTERN:
            raise _fault(text, f"is longer than {_LONGEST_PATTERN} characters")
        self._text = text
        self._at = 0
        self._depth = 0
        self._tests: list[_Test] = []
        self._next: list[list[int]] = []
        start, ends = self._choice()
        if self._at < len(text):
            raise _fault(text, "closes a group that is not open")
        self._start = start
        self._accept = self._state(None)
        self._link(ends, self._accept)

    def is_in(self, text: str) -> bool:
        """Return whether the pattern fits any part of a text."""
        text = text[:_LONGEST_TEXT]
        current: set[int] = set()
        for place in range(len(text) + 1):
            current |= self._reach([self._start], place, len(text))
            if self._accept in current:
                return True
            if place == len(text):
                return False
            character = text[place]
            after = [
                target
                for state in current
                if isinstance(test := self._tests[state], re.Pattern) and test.fullmatch(character)
                for target in self._next[state]
            ]
            current = self._reach(after, place + 1, len(text))
        return False

    def _reach(self, states: Iterable[int], place: int, length: int) -> set[int]:
        """Return the states that wait for a character, from these on without taking one."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in found:
                continue
            found.add(state)
            test = self._tests[state]
            is_free = test is None or (test == "^" and place == 0) or (test == "$" and place == length)
            if is_free:
                waiting.extend(self._next[state])
        return found

    def _state(self, test: _Test, *after: int) -> int:
        if len(self._tests) == _MOST_STATES:
            raise _fault(self._text, "repeats too much")
        self._tests.append(test)
        self._next.append(list(after))
        return len(self._tests) - 1

    def _link(self, ends: Iterable[int], target: int) -> None:
        for end in ends:
            self._next[end].append(target)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _choice(self) -> tuple[int, list[int]]:
        """Compile alternatives; return the first state and those that lead out."""
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        return self._state(None, *(start for start, _ in branches)), [end for _, ends in branches for end in ends]

    def _sequence(self) -> tuple[int, list[int]]:
        start = self._state(None)
        ends = [start]
        while self._peek() not in {"", "|", ")"}:
            begin = self._at
            first, last = self._atom()
            least, most = self._counts()
            if (least, most) != (1, 1):
                first, last = self._repeat(begin, (first, last), least, most)
            self._link(ends, first)
            ends = last
        return start, ends

    def _repeat(self, begin: int, once: tuple[int, list[int]], least: int, most: int | None) -> tuple[int, list[int]]:
        """Compile an atom again for each time that it must or may stand."""
        after = self._at
        start = self._state(None)
        ends, skips = [start], []
        for number in range(max(least, 1) if most is None else most):
            if number >= least and most is not None:
                skips += ends
            self._at = begin
            first, last = once if number == 0 else self._atom()
            self._link(ends, first)
            if most is None and number >= least - 1:
                self._link(last, first)
            ends = last
        self._at = after
        if most is None and least == 0:
            skips = [start]
        if most == 0:
            return start, [start]
        out = self._state(None)
        self._link([*ends, *skips], out)
        return start, [out]

    def _counts(self) -> tuple[int, int | None]:
        """Take what says how often an atom stands."""
        sign = self._peek()
        if sign in _SUFFIXES:
            self._at += 1
            counts = _SUFFIXES[sign]
        elif match := _COUNTS.match(self._text, self._at):
            self._at = match.end()
            least = int(match[1])
            counts = (least, int(match[3]) if match[3] else None if match[2] else least)
        else:
            return 1, 1
        if counts[1] is not None and counts[1] < counts[0]:
            raise _fault(self._text, "repeats more often at least than at most")
        if self._peek() == "?":  # as few as possible: makes no difference to whether it fits
            self._at += 1
        if self._peek() and self._peek() in "*+?":
            raise _fault(self._text, "repeats a repetition")
        return counts

    def _atom(self) -> tuple[int, list[int]]:
        sign = self._peek()
        if sign == "(":
            return self._group()
        if sign in {"^", "$"}:
            self._at += 1
            state = self._state(sign)
            return state, [state]
        if sign and sign in "*+?":
            raise _fault(self._text, "repeats nothing")
        state = self._state(re.compile(self._character(), re.DOTALL))
        return state, [state]

    def _group(self) -> tuple[int, list[int]]:
        self._depth += 1
        if self._depth > _MOST_NESTED_GROUPS:
            raise _fault(self._text, "nests too many groups")
        self._at += 3 if self._text.startswith("(?:", self._at) else 1
        if self._peek() == "?":
            raise _fault(self._text, "looks around, which names do not need")
        found = self._choice()
        if self._peek() != ")":
            raise _fault(self._text, "has a group without an end")
        self._at += 1
        self._depth -= 1
        return found

    def _character(self) -> str:
        """Take what fits one character, as a pattern of Python's: a class of characters cannot backtrack."""
        sign = self._peek()
        if sign == "[":
            match = _CLASS.match(self._text, self._at)
            if match is None or "[" in match[0][1:].replace("\\[", "") or not _is_class(match[0]):
                raise _fault(self._text, "has a class that is none")
            self._at = match.end()
            return match[0]
        self._at += 1
        if sign != "\\":
            return "." if sign == "." else re.escape(sign)
        escaped = self._peek()
        self._at += 1
        if escaped in _CONTROLS:
            return _CONTROLS[escaped]
        if escaped and escaped in _CLASS_ESCAPES:
            return f"\\{escaped}"
        if not escaped or escaped.isalnum():
            raise _fault(self._text, f"has \\{escaped}, which is not known here")
        return re.escape(escaped)


def _is_class(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _fault(text: str, why: str) -> InputError:
    return InputError(f"the pattern {text[:60]!r} {why}", where="-k regex:", cure=_CURE)


_REGEX = "regex:"
_BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
#: Brackets nested deeper than this are no name of a kernel.
_MOST_NESTED = 40
_LONGEST_NAME = 8192


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter of launches; everything without arguments."""

    kernel: str | None = None
    """name of kernels to take, or ``regex:`` and a pattern; None: all"""
    skip: int = 0
    """number of matching launches to leave out first"""
    count: int | None = None
    """most launches to take after that; None: all"""

    def __post_init__(self) -> None:
        if self.skip < 0:
            raise InputError(f"{self.skip} launches cannot be skipped", where="--launch-skip", cure="Give 0 or more.")
        if self.count is not None and self.count < 1:
            raise InputError(f"{self.count} launches cannot be read", where="--launch-count", cure="Give 1 or more.")
        if self.kernel is not None and not self.kernel.removeprefix(_REGEX):
            raise InputError("no name is given", where="-k", cure="Give a kernel's name or regex:PATTERN.")
        if self.kernel is not None and self.kernel.startswith(_REGEX):
            Pattern(self.kernel.removeprefix(_REGEX))

    def chosen(self, kernels: Iterable[str]) -> tuple[int, ...]:
        """Return the zero-based places of the launches that are meant, from the kernels' names in their order.

        >>> kernels = ["void app::scale<float>(float *)", "sum(int)", "sum(int)", "sum2(int)"]
        >>> Selection("sum").chosen(kernels), Selection("regex:^s", skip=1, count=2).chosen(kernels)
        ((1, 2), (1, 2))
        """
        fits = _Matcher(self.kernel)
        matching = [place for place, kernel in enumerate(kernels) if fits(kernel)]
        end = None if self.count is None else self.skip + self.count
        return tuple(matching[self.skip : end])

    def check(self, chosen: tuple[int, ...], kernels: Iterable[str], where: str) -> None:
        """Raise InputError where nothing is left, with the names that there are."""
        if chosen:
            return
        names = list(dict.fromkeys(function_name(kernel) for kernel in kernels))
        if not names:
            raise InputError("it holds no launch", where=where, cure="Profile at least one kernel.")
        listed = ", ".join(name[:60] for name in names[:8]) + (", …" if len(names) > 8 else "")
        what = f"no kernel is called {self.kernel[:60]!r}" if self.kernel is not None else "every launch is skipped"
        raise InputError(what, where=where, cure=f"It holds {listed}: choose with -k NAME or -k regex:PATTERN.")


class _Matcher:
    """Whether names fit; each name is looked at once."""

    def __init__(self, kernel: str | None) -> None:
        self.name = kernel
        is_regex = kernel is not None and kernel.startswith(_REGEX)
        self.pattern = Pattern((kernel or "").removeprefix(_REGEX)) if is_regex else None
        self.known: dict[str, bool] = {}

    def __call__(self, kernel: str) -> bool:
        if self.name is None:
            return True
        if kernel not in self.known:
            function = function_name(kernel)
            if self.pattern is not None:
                self.known[kernel] = self.pattern.is_in(function)
            else:
                self.known[kernel] = self.name in {function, kernel}
        return self.known[kernel]


def function_name(kernel: str) -> str:
    """Return a kernel's name without return type, namespace, template arguments and parameters.

    >>> function_name("void app::reduce<float, (int)256>(const T1 *)"), function_name("(anonymous namespace)::k()")
    ('reduce', 'k')
    """
    text = kernel[:_LONGEST_NAME].replace("operator()", "operator_call")
    for _ in range(_MOST_NESTED):
        text, before = _BRACKETS.sub(" ", text), text
        if text == before:
            break
    names = _NAME.findall(text)
    return names[-1] if names else kernel
