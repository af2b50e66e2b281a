"""Turn the log of NVRTC into errors and warnings for the user."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kerncast.compile.headers import PRELUDE_NAME, cure_for_header
from kerncast.compile.nvrtc import NvrtcError
from kerncast.compile.selection import Choice
from kerncast.errors import CompileError
from kerncast.units import KIB

_MOST_ERRORS = 5
_MOST_LINES = 8
_WIDEST = 300

_START = re.compile(r"^(?P<place>.*)\((?P<line>\d+)\): (?P<kind>(?:catastrophic )?error|warning|remark)\b")
_NO_PLACE = re.compile(
    r"^(?:nvrtc: |ptxas |At end of source: |ptxas application ptx input, line \d+; )(?P<kind>error|fatal|warning)\s*: "
)
_MISSING_HEADER = re.compile(r'cannot open source file "([^"]+)"')
_NOISE = re.compile(
    r"^(?:Remark: The warnings can be suppressed|\d+ (?:catastrophic )?errors? detected|Compilation terminated)"
)
_IRRELEVANT = re.compile(r"Architectures prior to|incompatible redefinition of macro|was declared but never referenced")
_TEXTURE_REFERENCE = re.compile(r"\b(?:texture|surface) is not a template")
_SHARED = re.compile(r"Entry function '([^']+)' uses too much shared data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max\)")
_FIXED_WIDTH = re.compile(r"\bu?int64_t\b")
_LONG = re.compile(r'"(?:const )?(?:unsigned )?long\b(?! long)')
#: How NVRTC says that several functions have the name of a kernel.
OVERLOADED = "which instance of overloaded function"
#: The file in which NVRTC looks up name expressions.
_NAME_MAP = "__nv_name_map"
HOST_CODE = "not allowed in JIT mode"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the compiler."""

    place: str
    """file; empty where the message has none"""
    line: int
    is_error: bool
    text: str
    """message as printed, with source line and caret where NVRTC prints them"""


def read_messages(log: str) -> Iterator[Message]:
    """Yield the messages of a log."""
    start: re.Match[str] | None = None
    lines: list[str] = []
    for line in [*log.splitlines(), ""]:
        match = _START.match(line)
        if start is not None and (match or _NOISE.match(line) or not line.strip()):
            yield Message(
                start["place"],
                int(start["line"]),
                "error" in start["kind"],
                "\n".join(line[:_WIDEST] for line in lines[:_MOST_LINES]),
            )
            start = None
        if match:
            start, lines = match, [line]
        elif start is not None:
            lines.append(line)
        elif bare := _NO_PLACE.match(line):
            yield Message("", 0, bare["kind"] != "warning", line)


def warnings(log: str) -> list[str]:
    """Return the first line of each warning that concerns the user, without repetition."""
    lines = (
        message.text.splitlines()[0]
        for message in read_messages(log)
        if not message.is_error and not _IRRELEVANT.search(message.text) and PRELUDE_NAME not in message.text
    )
    return list(dict.fromkeys(lines))


def count_errors(log: str) -> int:
    """Return the number of errors in a log."""
    return sum(message.is_error for message in read_messages(log))


def missing_header(log: str) -> str | None:
    """Return the header that ended a compilation because it was not found."""
    found = _MISSING_HEADER.search(log)
    return found[1] if found else None


def mixes_longs(log: str) -> bool:
    """Whether a source takes the 64-bit integers of stdint.h for long, as they are on Linux, and not for long long."""
    return _FIXED_WIDTH.search(log) is not None and _LONG.search(log) is not None


def compile_error(error: NvrtcError, source: str, choice: Choice) -> CompileError:
    """Return the error that says why a source does not compile, with the first few messages."""
    if shared := _SHARED.search(error.log):
        from kerncast.ptx import source_name  # noqa: PLC0415  of almost no request

        used, most = int(shared[2], 16), int(shared[3], 16)
        return CompileError(
            f"kernel {source_name(shared[1])} declares {used} bytes of static shared memory, over the {most}"
            f" ({most // KIB} KiB) that any kernel may",
            where=source,
            cure="Declare it as extern __shared__, and give its size as shared_bytes: many GPUs allow more of that.",
        )
    errors = [message for message in read_messages(error.log) if message.is_error]
    if not errors:
        return CompileError(f"does not compile ({error.status})\n{error.log.strip()[:2000]}".rstrip(), where=source)
    if header := _MISSING_HEADER.search(errors[0].text):
        return CompileError(
            f'the header "{header[1]}" cannot be found',
            where=f"{errors[0].place}({errors[0].line})",
            cure=cure_for_header(header[1]),
        )
    if errors[0].place == _NAME_MAP and choice.expression is not None:
        said = errors[0].text.splitlines()[0].partition("error: ")[2]
        if choice.signature is None:
            return CompileError(f"no kernel {choice.expression!r}: {said}", where=source, cure="Check its name.")
        return CompileError(
            f'"{choice.expression}" is not an instance of this template: {said}',
            where=source,
            cure="Give each template parameter a fitting type or number.",
        )
    shown = "\n".join(message.text for message in errors[:_MOST_ERRORS])
    count = f"{len(errors)} errors" if len(errors) > 1 else "1 error"
    count += f", the first {_MOST_ERRORS} shown" if len(errors) > _MOST_ERRORS else ""
    return CompileError(f"does not compile:\n{shown}\n{count}.", where=source, cure=_cure(shown))


def _cure(shown: str) -> str | None:
    if _TEXTURE_REFERENCE.search(shown):
        return (
            "Texture and surface references ended with CUDA 12: use texture objects. Only for Kepler GPUs, with the"
            " extra kepler, an older compiler is used that knows them."
        )
    if HOST_CODE in shown:
        return (
            "Host code that could not be taken out is in the way: enclose it in #ifndef __CUDACC_RTC__ and #endif,"
            " or move the kernels to a file of their own."
        )
    if "device-side kernel launch" in shown:
        return "A kernel that launches kernels is not covered."
    if "Unresolved extern function" in shown:
        return "A __device__ function is defined in another file: include that file in this one."
    return None
