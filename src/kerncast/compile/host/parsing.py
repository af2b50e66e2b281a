"""libclang set up for host code: as nvcc's host compiler sees it, without the headers of a system.

What stays undeclared after the first pass (functions of libraries, types of headers that are missing) is declared as
something that may be called with anything, and the source is parsed again: an unknown name would otherwise take the
whole body of a template with it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from clang.cindex import Diagnostic, Index, TranslationUnit, TranslationUnitLoadError

from kerncast.compile.headers import stand_ins
from kerncast.compile.headers.prelude import PRELUDE
from kerncast.compile.host.declarations import DECLARATIONS, HEADERS
from kerncast.compile.source.parsing import DEVICE_DECLARATIONS, KEEP_GOING, SHIM_FOLDER, TOOLKIT_SHIMS, ParseOptions

_PRELUDE = f"{SHIM_FOLDER}/kerncast_host.h"

#: CXTranslationUnit_DetailedPreprocessingRecord: which lines the preprocessor left out.
_OPTIONS = KEEP_GOING | 0x01

#: Names that are declared in the second pass, at most.
_MOST_DECLARED = 500

_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'")
_UNKNOWN_TYPE = re.compile(r"unknown type name '(\w+)'")
_NOT_IN_STD = re.compile(r"no (?:member|type|template) named '(\w+)' in namespace 'std(::\w+)?'")


@dataclass(frozen=True, slots=True)
class _Missing:
    """Names that the parser did not know."""

    functions: tuple[str, ...]
    values: tuple[str, ...]
    types: tuple[str, ...]
    of_std: tuple[tuple[str, str], ...]
    """name, and namespace inside std"""


def parse_host(source: Path, options: ParseOptions) -> TranslationUnit | None:
    """Parse a source for its host code; None where libclang gives up."""
    unit = _parse(source, options, "")
    if unit is None:
        return None
    extra = _declared(_missing(unit))
    return (_parse(source, options, extra) or unit) if extra else unit


def _parse(source: Path, options: ParseOptions, extra: str) -> TranslationUnit | None:
    texts = stand_ins() | TOOLKIT_SHIMS | HEADERS
    files = [(f"{SHIM_FOLDER}/{name}", text) for name, text in texts.items()]
    files.append((_PRELUDE, DEVICE_DECLARATIONS + PRELUDE + DECLARATIONS + extra))
    try:
        return Index.create().parse(str(source), _arguments(options), files, options=_OPTIONS)
    except TranslationUnitLoadError:
        return None


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


def _missing(unit: TranslationUnit) -> _Missing:
    functions: dict[str, None] = {}
    values: dict[str, None] = {}
    types: dict[str, None] = {}
    of_std: dict[tuple[str, str], None] = {}
    texts: dict[str, bytes] = {}
    for each in unit.diagnostics:
        if each.severity < Diagnostic.Error:
            continue
        if found := _UNDECLARED.search(each.spelling):
            place = functions if _is_called(each, found[1], texts) else values
            place[found[1]] = None
        elif found := _UNKNOWN_TYPE.search(each.spelling):
            types[found[1]] = None
        elif found := _NOT_IN_STD.search(each.spelling):
            of_std[found[1], (found[2] or "").removeprefix("::")] = None
        if len(functions) + len(values) + len(types) + len(of_std) >= _MOST_DECLARED:
            break
    unknown = set(types) | set(functions)
    return _Missing(
        tuple(name for name in functions if name not in types),
        tuple(name for name in values if name not in unknown),
        tuple(types),
        tuple(of_std),
    )


def _is_called(diagnostic: Diagnostic, name: str, texts: dict[str, bytes]) -> bool:
    """Whether a name that is unknown is followed by arguments."""
    place = diagnostic.location
    if place.file is None:
        return True
    if place.file.name not in texts:
        try:
            texts[place.file.name] = Path(place.file.name).read_bytes()
        except OSError:
            texts[place.file.name] = b""
    text = texts[place.file.name]
    pattern = re.compile(rb"\b" + name.encode() + rb"\s*(?:\(|<[^;(){}]*>\s*\()")
    # In a macro the place is that of its use.
    return pattern.match(text, place.offset) is not None or (
        not text.startswith(name.encode(), place.offset) and pattern.search(text) is not None
    )


def _declared(missing: _Missing) -> str:
    rows = [f"template <class... A> KerncastAny {name}(A &&...);" for name in _plain(missing.functions)]
    rows += [f"extern KerncastAny {name};" for name in _plain(missing.values)]
    rows += [
        f"struct {name} : KerncastAny {{ template <class... A> {name}(A &&...) {{}} }};"
        for name in _plain(missing.types)
    ]
    for name, inside in missing.of_std:
        declared = f"template <class... A> KerncastAny {name}(A &&...);"
        rows.append(f"namespace std {{ {f'namespace {inside} {{ {declared} }}' if inside else declared} }}")
    return "\n".join(rows) + "\n" if rows else ""


def _plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("__") and name not in {"std", "thrust", "cub"}]
