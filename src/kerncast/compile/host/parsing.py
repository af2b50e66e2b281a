"""libclang set up for host code: as nvcc's host compiler sees it, without the headers of a system.

What is not declared (functions of libraries, types of headers that are missing) is declared as
something that may be called with anything, and the source is parsed again: an unknown name would otherwise take the
whole body of a template with it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from clang.cindex import Diagnostic, Index, TranslationUnit, TranslationUnitLoadError

from kerncast.compile.headers import stand_ins
from kerncast.compile.headers.prelude import PRELUDE
from kerncast.compile.host.c_sources import C_PRELUDE, C_SUFFIX, DECLARATIONS, c_arguments, c_declared
from kerncast.compile.host.declarations import COMMAND_LINE, HEADERS, UNKNOWN, declarations
from kerncast.compile.source.parsing import DEVICE_DECLARATIONS, KEEP_GOING, SHIM_FOLDER, TOOLKIT_SHIMS, ParseOptions

_PRELUDE = f"{SHIM_FOLDER}/kerncast_host.h"

#: CXTranslationUnit_DetailedPreprocessingRecord: which lines the preprocessor left out.
_OPTIONS = KEEP_GOING | 0x01

#: Names that are declared in the second pass, at most.
_MOST_DECLARED = 500
#: A name that is declared may let the parser see further ones.
_MOST_PASSES = 4

#: Bytes before a name in which the end of the statement before is looked for.
_NEAR = 200
#: The brackets of a launch with spaces between them.
_OPENED = re.compile(r"<(?:<(\s+)|(\s+)<)<(?!<)")
_CLOSED = re.compile(r"(<<<[^;{}]*?)>(?:>(\s+)|(\s+)>)>(\s*\()")

_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'")
_UNKNOWN_TYPE = re.compile(r"unknown type name '(\w+)'")
_NO_MEMBER = re.compile(r"no member named '(\w+)' in '[\w:]+'")
_NOT_IN_STD = re.compile(r"no (?:member|type|template) named '(\w+)' in namespace 'std(::\w+)?'")


@dataclass(slots=True)
class _Missing:
    """Names that the parser did not know, in the order in which it met them."""

    functions: dict[str, None] = field(default_factory=dict)
    values: dict[str, None] = field(default_factory=dict)
    types: dict[str, None] = field(default_factory=dict)
    members: dict[str, None] = field(default_factory=dict)
    """of what is declared here"""
    inside: dict[tuple[str, str], None] = field(default_factory=dict)
    """namespace, and name inside"""

    @property
    def count(self) -> int:
        """How many names there are."""
        plain = (self.functions, self.values, self.types, self.members)
        return len(self.inside) + sum(len(each) for each in plain)


def parse_host(source: Path, options: ParseOptions) -> TranslationUnit | None:
    """Parse a source for its host code; None where libclang gives up."""
    missing = _Missing()
    unit = _parse(source, options, missing)
    for _ in range(_MOST_PASSES):
        known = missing.count
        if unit is None or known >= _MOST_DECLARED:
            break
        _collect(unit, missing)
        if missing.count == known:
            break
        unit = _parse(source, options, missing) or unit
    return unit


def _parse(source: Path, options: ParseOptions, missing: _Missing) -> TranslationUnit | None:
    if source.suffix == C_SUFFIX:
        arguments = c_arguments(options.defines, options.include_dirs)
        files = [(f"{SHIM_FOLDER}/{name}", text) for name, text in COMMAND_LINE.items()]
        files.append((C_PRELUDE, DECLARATIONS + c_declared(missing.types, _values(missing))))
    else:
        arguments, files = _arguments(options), _files(missing)
    files += _rejoined(source)
    try:
        return Index.create().parse(str(source), arguments, files, options=_OPTIONS)
    except TranslationUnitLoadError:
        return None


def _rejoined(source: Path) -> list[tuple[str, str]]:
    """Return a source with the brackets of its launches joined, where formatters have put spaces into them.

    nvcc takes ``k << <1, 32>> >(x)``, clang does not.
    """
    try:
        text = source.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return []
    joined = _OPENED.sub(r"<<<\1\2", text)
    if joined == text:
        return []
    return [(str(source), _CLOSED.sub(r"\1>>>\2\3\4", joined))]


def _files(missing: _Missing) -> list[tuple[str, str]]:
    """Return the headers that the parser sees instead of those of a system and of the toolkit."""
    texts = stand_ins() | TOOLKIT_SHIMS | HEADERS
    files = [(f"{SHIM_FOLDER}/{name}", text) for name, text in texts.items()]
    files.append((_PRELUDE, DEVICE_DECLARATIONS + PRELUDE + declarations(missing.members) + _declared(missing)))
    return files


def _arguments(options: ParseOptions) -> list[str]:
    defines = {"__CUDACC__": "1", "__CUDACC_VER_MAJOR__": "12", "__CUDACC_VER_MINOR__": "9"} | dict(options.defines)
    return [
        "-x", "cuda", "--cuda-host-only", "-target", "x86_64-unknown-linux-gnu", "-nostdinc", "-nostdinc++",
        # An empty path, so that clang looks for no toolkit on the machine.
        "-nocudainc", "-nocudalib", f"--cuda-path={SHIM_FOLDER}",
        f"-std={options.standard}", "-ferror-limit=0", "-w",
        *(f"-D{name}={value}" for name, value in defines.items()),
        "-include", _PRELUDE,
        *(f"-I{folder}" for folder in options.include_dirs),
        "-isystem", SHIM_FOLDER,
    ]  # fmt: skip


def _collect(unit: TranslationUnit, missing: _Missing) -> None:
    """Add what the parser did not know."""
    is_c = Path(unit.spelling).suffix == C_SUFFIX
    texts: dict[str, bytes] = {}
    for each in unit.diagnostics:
        if each.severity < Diagnostic.Error:
            continue
        if found := _UNDECLARED.search(each.spelling):
            members = _members(each, found[1], texts)
            missing.inside |= dict.fromkeys((found[1], member) for member in members)
            if is_c and _is_type_of_c(each, found[1], texts):
                missing.types[found[1]] = None
            elif not members:
                place = missing.functions if _is_called(each, found[1], texts) else missing.values
                place[found[1]] = None
        elif found := _UNKNOWN_TYPE.search(each.spelling):
            missing.types[found[1]] = None
        elif found := _NOT_IN_STD.search(each.spelling):
            missing.inside["std" + (found[2] or ""), found[1]] = None
        elif found := _NO_MEMBER.search(each.spelling):
            missing.members[found[1]] = None


def _is_type_of_c(diagnostic: Diagnostic, name: str, texts: dict[str, bytes]) -> bool:
    """Whether a name that is unknown in C declares something: inside functions the parser takes it for a variable."""
    place = diagnostic.location
    text = _text(place.file.name, texts) if place.file is not None else b""
    plain, pointer = (re.compile(name.encode() + each) for each in (rb"\s+[A-Za-z_]", rb"\s*\*[\s*]*[A-Za-z_]"))
    if name.endswith("_t") or plain.match(text, place.offset):
        return True
    begins = re.search(rb"[;{}]\s*\Z", text[max(place.offset - _NEAR, 0) : place.offset])
    return begins is not None and pointer.match(text, place.offset) is not None


def _is_called(diagnostic: Diagnostic, name: str, texts: dict[str, bytes]) -> bool:
    """Whether a name that is unknown is followed by arguments."""
    place = diagnostic.location
    if place.file is None:
        return True
    text = _text(place.file.name, texts)
    pattern = re.compile(rb"\b" + name.encode() + rb"\s*(?:\(|<[^;(){}]*>\s*\()")
    # In a macro the place is that of its use.
    return pattern.match(text, place.offset) is not None or (
        not text.startswith(name.encode(), place.offset) and pattern.search(text) is not None
    )


def _members(diagnostic: Diagnostic, name: str, texts: dict[str, bytes]) -> list[str]:
    """Return what a file names in a namespace that is unknown; nothing where the name is none."""
    place = diagnostic.location
    text = _text(place.file.name, texts) if place.file is not None else b""
    if not re.compile(name.encode() + rb"\s*::").match(text, place.offset):
        return []
    found = re.findall(rb"\b" + name.encode() + rb"\s*::\s*([A-Za-z_]\w*)", text)
    return [member.decode() for member in dict.fromkeys(found)][:_MOST_DECLARED]


def _text(name: str, texts: dict[str, bytes]) -> bytes:
    if name not in texts:
        try:
            texts[name] = Path(name).read_bytes()
        except OSError:
            texts[name] = b""
    return texts[name]


def _declared(missing: _Missing) -> str:
    types = set(missing.types)
    functions = [name for name in _plain(missing.functions) if name not in types]
    values = _values(missing)
    rows = [f"template <class... A> {UNKNOWN} {name}(A &&...);" for name in functions]
    rows += [f"extern KerncastAny {name};" for name in values]
    rows += [f"namespace {namespace} {{ {_type(name)} }}" for namespace, name in missing.inside]
    rows += [_type(name) for name in _plain(missing.types)]
    return "\n".join(rows) + "\n"


def _values(missing: _Missing) -> list[str]:
    other = {*missing.types, *missing.functions}
    return [name for name in _plain(missing.values) if name not in other]


def _type(name: str) -> str:
    return f"struct {name} : KerncastAny {{ template <class... A> {name}(A &&...) {{}} }};"


def _plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("__") and name not in {"std", "thrust", "cub"}]
