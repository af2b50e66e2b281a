"""Sources as clang reads them: what nvcc takes and clang refuses is written anew, in copies that lie over the files.

A compiler is run until it takes the text, or says nothing that is known here. Lines keep their numbers.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kerncast.bounded_file import Bound, read_bytes
from kerncast.errors import CompileError
from kerncast.hostbuild.host_compilers import Finished
from kerncast.units import MIB

SOURCE = Bound(64 * MIB, cure="Check the path.", error=CompileError)

ERROR = re.compile(r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.MULTILINE)

#: A launch whose brackets are apart, as formatters of C++ write them.
_APART = re.compile(r"<\s*<\s*<((?:[^;{}\"']|\"[^\"\n]*\"|'[^'\n]*')*?)>\s*>\s*>(?=\s*\()")

#: Variables of shared memory that clang refuses though nvcc takes them: an object whose size the launch gives, and
#: objects with a constructor. What it says of them begins with the first group, and the second is what is left out.
_SHARED = (
    (re.compile(r"__shared__ variable '\w+' cannot be 'extern'"), re.compile(r"\bextern\b(?=.*__shared__)")),
    (re.compile(r"initialization is not supported for __shared__ variables"), re.compile(r"\b__shared__\b")),
)
#: Special registers in assembly after a single percent sign.
_ESCAPE = re.compile(r"invalid % escape in inline assembly string")
_SINGLE_PERCENT = re.compile(r"(?<!%)%(?=[A-Za-z_]{2})")
#: Assembly with more operands in its text than there are, in a branch that nobody compiles: whoever does, is told.
_NO_OPERAND = re.compile(r"invalid operand number in inline asm string")
_OPERAND = re.compile(r"(?<!%)%\d+")
#: Operands of assembly without a comma between them, which nvcc takes.
_NO_COMMA = re.compile(r"expected '\)'")
_TWO_OPERANDS = re.compile(r"""("[=+&]*[a-z]+"\s*\([^()]*\))(?=\s+"[=+&]*[a-z]+"\s*\()""")
#: A constant that a constexpr function of the device gives. Its place follows, by the name that is declared there.
_CONSTANT = re.compile(
    r"error: reference to __device__ function '[^'\n]+' in global initializer\n(?:.*: note: in instantiation .*\n)*"
    r"(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): note: '[^'\n]+' declared here"
)
#: A type of a template's parameter without the word that says so.
_TYPE = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): error: missing 'typename' prior to", re.MULTILINE
)
_MOST_ROUNDS = 8


def absolute(path: Path | str) -> str:
    """Return a whole path that goes by the same links."""
    return os.path.join(Path.cwd(), path)  # noqa: PTH118  a Path would lose dots, which matter behind a link


def run_until_read(words: Sequence[str], run: Callable[[Sequence[str]], Finished], copies: "Copies") -> Finished:
    """Run a compiler until it reads its sources, or refuses what no rewriting mends.

    ``run`` runs a command; it is run once where the sources are taken as they are.
    """
    finished = run(words)
    for _ in range(_MOST_ROUNDS):
        if not finished.status or not copies.mend(finished.said):
            break
        finished = run([*words, "-ivfsoverlay", str(copies.overlay())])
    return finished


@dataclass(frozen=True, slots=True)
class _Insertion:
    """Text to insert in front of a place that a compiler named."""

    file: str
    line: int
    column: int
    """number of the byte in its line, from one"""
    text: bytes

    @classmethod
    def of(cls, place: re.Match[str], text: bytes) -> "_Insertion":
        return cls(place["file"], int(place["line"]), int(place["column"]), text)


@dataclass(slots=True)
class Copies:
    """Rewritten sources of one compilation."""

    folder: Path
    """folder for the copies"""
    for_device: bool
    """whether code of the device is made: its shared variables stay as they are"""
    texts: dict[str, str] = field(default_factory=dict)
    """text of each rewritten file by its whole path"""

    def mend(self, said: str) -> bool:
        """Rewrite what a compiler refused, by what it said; false where nothing of it is known."""
        errors = list(ERROR.finditer(said))
        insertions = {_Insertion.of(each, b" __attribute__((host)) ") for each in _CONSTANT.finditer(said)}
        insertions |= {_Insertion.of(each, b"typename ") for each in _TYPE.finditer(said)}
        is_mended = False
        for file in dict.fromkeys([*(each["file"] for each in errors), *(each.file for each in insertions)]):
            text = self._text(absolute(file))
            new = _APART.sub(lambda match: f"<<<{match[1]}>>>", text)
            lines = new.split("\n")
            _mend_lines(lines, [each for each in errors if each["file"] == file], for_device=self.for_device)
            _insert(lines, [each for each in insertions if each.file == file])
            new = "\n".join(lines)
            if new != text:
                self.texts[absolute(file)] = new
                is_mended = True
        return is_mended

    def _text(self, path: str) -> str:
        if path not in self.texts:
            return read_bytes(path, SOURCE).decode("utf-8", "surrogateescape")
        return self.texts[path]

    def overlay(self) -> Path:
        """Return a file by which clang finds the copies in the places of the files."""
        roots = []
        for number, (path, text) in enumerate(self.texts.items()):
            place = self.folder / f"rewritten-{number}"
            place.write_bytes(text.encode("utf-8", "surrogateescape"))
            one = {"name": os.path.basename(path), "type": "file", "external-contents": str(place)}  # noqa: PTH119  as above
            roots.append({"name": os.path.dirname(path), "type": "directory", "contents": [one]})  # noqa: PTH120  as above
        overlay = self.folder / "overlay.json"
        table = {"version": 0, "use-external-names": False, "roots": roots}
        overlay.write_text(json.dumps(table), encoding="utf-8")
        return overlay


def _mend_lines(lines: list[str], errors: Sequence[re.Match[str]], *, for_device: bool) -> None:
    for error in errors:
        number = int(error["line"]) - 1
        if number >= len(lines):
            continue
        if _ESCAPE.search(error["text"]):
            lines[number] = _SINGLE_PERCENT.sub("%%", lines[number])
        if _NO_OPERAND.search(error["text"]):
            lines[number] = _OPERAND.sub("an_operand_that_is_not_there", lines[number])
        if _NO_COMMA.search(error["text"]):
            lines[number] = _TWO_OPERANDS.sub(r"\1,", lines[number])
        for refused, left_out in () if for_device else _SHARED:
            if refused.search(error["text"]):
                lines[number] = left_out.sub("", lines[number])


def _insert(lines: list[str], insertions: Sequence[_Insertion]) -> None:
    for each in sorted(insertions, key=lambda each: (each.line, each.column), reverse=True):
        if each.line <= len(lines):
            text = lines[each.line - 1].encode("utf-8", "surrogateescape")
            new = text[: each.column - 1] + each.text + text[each.column - 1 :]
            lines[each.line - 1] = new.decode("utf-8", "surrogateescape")
