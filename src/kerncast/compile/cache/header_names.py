"""Which files a text may include, found without a preprocessor: more than it includes, never fewer.

Conditions, comments and strings are not looked at: what stands behind ``#include`` or ``__has_include`` counts
wherever it is. Fails, and says so, where a macro makes the name or the text depends on the time of day.
"""

import os
import re

#: The name of a header in quotes or brackets.
_NAME = rb'(?:"([^"\r\n]+)"|<([^>\r\n]+)>)'
_BLANK = rb"[ \t\v\f]"

#: ``#import`` and ``#__include_macros`` are clang's; ``%:`` is another way to write ``#``.
_DIRECTIVE = re.compile(
    rb"(?:#|%:)" + _BLANK + rb"*+(?:(?=/\*)|(?:include(?:_next)?|import|__include_macros|embed)\b"
    rb"(?:" + _BLANK + rb"*+" + _NAME + rb")?)"
)
#: Between two line ends: nothing but blanks, or the end of a comment, so that a directive may begin there.
_DIRECTIVE_MAY_BEGIN = re.compile(rb"(?:.*\*/)?" + _BLANK + rb"*+\Z", re.DOTALL)
_QUESTION = re.compile(
    rb"__has_(?:include(?:_next)?|embed)\b(?:" + _BLANK + rb"*+\(" + _BLANK + rb"*+" + _NAME + rb")?"
)
#: Asks whether the question may be asked, and asks nothing.
_IS_DEFINED = re.compile(rb"(?:\bdefined" + _BLANK + rb"*+\(?|\bifn?def)" + _BLANK + rb"*+\Z")

#: Trigraphs, the clock, names for other names, assembly that reads files.
_UNKNOWABLE = re.compile(rb"\?\?[=/]|__DATE__|__TIME__|__TIMESTAMP__|include_alias|\.incbin")

#: A backslash at the end of a line joins it with the next: NVRTC allows no blanks between the two, clang does.
_SPLICES = (re.compile(rb"\\\r?\n"), re.compile(rb"\\[ \t\v\f\r]*\n"))
_LONGEST_BEGINNING = 400


class UnknowableError(Exception):
    """What a compilation reads cannot be told from its texts alone."""


def header_names(text: bytes) -> set[str]:
    r"""Return the names of headers in a text; raises UnknowableError.

    >>> sorted(header_names(b'#if 0\n# include <b.h>\n#endif // #include "a.h"'))
    ['a.h', 'b.h']
    """
    names: set[str] = set()
    for spliced in dict.fromkeys(splice.sub(b"", text) for splice in _SPLICES):
        if _UNKNOWABLE.search(spliced):
            raise UnknowableError
        names |= _directives(spliced) | _questions(spliced)
    return names


def _directives(text: bytes) -> set[str]:
    names = set()
    for match in _DIRECTIVE.finditer(text):
        name = match[1] or match[2]
        if name is None and _may_begin_at(text, match.start()):
            raise UnknowableError  # a macro, or a comment, stands where the name should
        if name is not None:
            names.add(os.fsdecode(name))
    return names


def _may_begin_at(text: bytes, start: int) -> bool:
    before = max(text.rfind(b"\n", 0, start), text.rfind(b"\r", 0, start)) + 1
    # Nobody writes a directive behind so long a comment; if somebody does, nothing is remembered.
    return start - before > _LONGEST_BEGINNING or _DIRECTIVE_MAY_BEGIN.match(text[before:start]) is not None


def _questions(text: bytes) -> set[str]:
    names = set()
    for match in _QUESTION.finditer(text):
        name = match[1] or match[2]
        if name is not None:
            names.add(os.fsdecode(name))
        elif not _IS_DEFINED.search(text, max(0, match.start() - 40), match.start()):
            raise UnknowableError
    return names
