"""Names of variables as the source has them, from the names in PTX."""

import re

_LENGTH = re.compile(r"\d+")
#: Parts that the compiler adds for what only one file can see.
_HIDDEN = ("_INTERNAL_", "_GLOBAL__N_")


def source_name(name: str) -> str:
    """Return the qualified name of a variable whose name in PTX follows the Itanium C++ ABI, section 5.1.

    Namespaces without a name are left out, and template arguments too; any other name is returned as it is.

    >>> source_name("_ZN2ns5inner1pE"), source_name("weights")
    ('ns::inner::p', 'weights')
    """
    rest = name.removeprefix("_Z")
    if rest == name:
        return name
    rest = rest.removeprefix("N").removeprefix("L")
    parts: list[str] = []
    while match := _LENGTH.match(rest):
        end = match.end() + int(match[0])
        part = rest[match.end() : end]
        if not part.startswith(_HIDDEN):
            parts.append(part)
        rest = rest[end:].removeprefix("L")
    return "::".join(parts) or name
