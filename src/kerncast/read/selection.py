"""Which launches of a profile are meant: by the kernel's name, and by their place among those of that name.

As in Nsight Compute: a name is compared whole, ``regex:PATTERN`` is searched in it, launches are skipped and counted
among those that match. What is compared is the name without return type, namespace, template arguments and parameters
(ncu's ``--kernel-name-base function``); the name as printed fits too.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kerncast.errors import InputError
from kerncast.read.pattern import Pattern

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
    """a name, or ``regex:`` and a pattern"""
    skip: int = 0
    """launches that match and are left out"""
    count: int | None = None
    """of the rest; None: all"""

    def __post_init__(self) -> None:
        if self.skip < 0:
            raise InputError(f"{self.skip} launches cannot be skipped", where="--launch-skip", cure="Give 0 or more.")
        if self.count is not None and self.count < 1:
            raise InputError(f"{self.count} launches are none", where="--launch-count", cure="Give 1 or more.")
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
