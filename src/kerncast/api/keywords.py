"""Keywords of the public verbs: one that is unknown names the nearest one that is known."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


def named_keywords(verb: Callable[Given, Found]) -> Callable[Given, Found]:
    """Let a function raise TypeError for an unknown keyword with the one that is probably meant."""
    known = list(signature(verb).parameters)

    @wraps(verb)
    def checked(*args: Given.args, **keywords: Given.kwargs) -> Found:
        for name in keywords:
            if name not in known:
                near = get_close_matches(name, known, n=1, cutoff=0.5)
                hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."
                raise TypeError(f"{verb.__name__}() has no keyword {name[:60]!r}. {hint}")
        return verb(*args, **keywords)

    return checked
