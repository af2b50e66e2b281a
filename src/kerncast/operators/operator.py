"""NOUN Operator, and the texts that mean one, such as ``bmm(B=64,M=512,N=512,K=64,dtype=bf16)``."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kerncast.errors import InputError, MissingEvidenceError
from kerncast.operators.kinds import Kind, kind_named
from kerncast.units import BITS_PER_BYTE

_CALL = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*\((.*)\)\s*", re.DOTALL)
_LONGEST, _LONGEST_NAME = 400, 200
_MOST_CALLS = 10**9


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How numbers are stored and multiplied."""

    name: str
    products: str
    """format in which they are multiplied: fp32, tf32, fp16, fp8 or int8"""
    bits: int
    """of an activation, as it is multiplied"""
    weight_bits: float
    """of a weight, scales included"""
    also: tuple[str, ...] = ()

    @property
    def nbytes(self) -> float:
        """Bytes of an activation as it is multiplied."""
        return self.bits / BITS_PER_BYTE

    @property
    def weight_bytes(self) -> float:
        """Bytes of a weight."""
        return self.weight_bits / BITS_PER_BYTE


#: Block-scaled FP8 has one FP32 scale for 128 x 128 weights; MXFP4 one byte for 32 weights; INT4 two bytes for 128.
_FORMATS = (
    NumberFormat("fp32", "fp32", 32, 32, ("float32", "f32", "float")),
    NumberFormat("tf32", "tf32", 32, 32),
    NumberFormat("bf16", "fp16", 16, 16, ("bfloat16",)),
    NumberFormat("fp16", "fp16", 16, 16, ("float16", "f16", "half")),
    NumberFormat("fp8", "fp8", 8, 8, ("e4m3", "fp8_e4m3", "float8")),
    NumberFormat("fp8_block", "fp8", 8, 8 + 32 / 128**2),
    NumberFormat("int8", "int8", 8, 8, ("sq", "w8a8")),
    NumberFormat("int8_wo", "fp16", 16, 8, ("w8a16",)),
    NumberFormat("int4_wo", "fp16", 16, 4 + 16 / 128, ("w4a16",)),
    NumberFormat("mxfp4_wo", "fp16", 16, 4 + 8 / 32, ("w4a16_mxfp4",)),
)
_BY_NAME = {name: each for each in _FORMATS for name in (each.name, *each.also)}


def format_named(name: str) -> NumberFormat:
    """Return the number format of this name; raises MissingEvidenceError for one that no measured data cover.

    >>> format_named("bfloat16").name, format_named("int4_wo").weight_bytes
    ('bf16', 0.515625)
    """
    found = _BY_NAME.get(name.strip().lower())
    if found is None:
        known = ", ".join(each.name for each in _FORMATS)
        raise MissingEvidenceError(f"no measured data cover the number format {name[:40]!r}", cure=f"Known: {known}.")
    return found


@dataclass(frozen=True, slots=True)
class Operator:
    """One call of a library's operator."""

    kind: Kind
    sizes: tuple[int, ...]
    """in the order of the kind's"""
    dtype: NumberFormat
    cache_dtype: NumberFormat
    """format of cached keys and values; the operator's own where it has no cache"""
    library: str = ""
    """framework that calls, such as vllm; empty: unknown"""
    kernel: str = ""
    """kernel that it runs, as data sets call it, such as fa3; empty: unknown"""
    index: int = 0
    count: int = 1
    """times that it is called"""
    label: str = ""
    """the user's name for it"""

    @property
    def text(self) -> str:
        """How the operator is written; operators of the same text take the same time.

        >>> parse_operator("softmax(H=32, B=7)").text
        'softmax(B=7, H=32, dtype=fp32)'
        """
        sizes = [f"{size.name}={value}" for size, value in zip(self.kind.sizes, self.sizes, strict=True)
                 if value != size.default]  # fmt: skip
        cache = [] if self.cache_dtype == self.dtype else [f"cache={self.cache_dtype.name}"]
        named = [f"{name}={value}" for name, value in (("library", self.library), ("kernel", self.kernel)) if value]
        return f"{self.kind.name}({', '.join((*sizes, f'dtype={self.dtype.name}', *cache, *named))})"


def parse_operator(text: str) -> Operator:
    """Return the operator that a text means; raises InputError with the cure.

    >>> found = parse_operator("bmm(B=64,M=512,N=512,K=64,dtype=bf16)")
    >>> found.kind.name, found.sizes, found.dtype.name
    ('bmm', (64, 512, 512, 64), 'bf16')
    """
    match = _CALL.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        cure = 'Write it as "bmm(B=64,M=512,N=512,K=64,dtype=bf16)".'
        raise InputError(f"{text[:60]!r} is not an operator", cure=cure)
    kind, given = kind_named(match[1]), {}
    for part in filter(None, (each.strip() for each in match[2].split(","))):
        name, sign, value = (each.strip() for each in part.partition("="))
        if not sign or name.lower() in given:
            reason = "is given twice" if sign else "is not NAME=VALUE"
            raise InputError(f"{part[:40]!r} of {kind.name} {reason}", cure=f"Write {kind.signature}.")
        given[name.lower()] = value
    check_names(kind, given)
    return operator_of(kind, given)


#: Names of values of an operator that are not sizes.
_DTYPE, _CACHE = ("dtype",), ("cache", "cache_dtype", "kv_dtype")
_LIBRARY, _KERNEL = ("library", "framework"), ("kernel", "kernel_source")
_COUNT, _LABEL = ("count",), ("label", "name")
_OTHERS = (_DTYPE, _CACHE, _LIBRARY, _KERNEL, _COUNT, _LABEL)
#: Columns of data sets of attention, what they count, and the most of it that was measured.
_UNMEASURED = (("step", "cached keys before the new tokens", 0), ("beam_width", "beams", 1))
#: Libraries that measured operators were called by.
LIBRARIES = ("trtllm", "vllm", "sglang")


def check_names(kind: Kind, given: Iterable[str]) -> None:
    """Raise InputError for a name, in lower case, that the kind does not know, and for two names of one value."""
    sizes = kind.size_names()
    unmeasured = [(name,) for name, *_ in _UNMEASURED if kind.is_attention and not any(name in each for each in sizes)]
    groups = (*sizes, *_OTHERS, *unmeasured)
    names = set(given)
    unknown = names.difference(*groups)
    if unknown:
        others = (each for each in (*_OTHERS, *unmeasured) if kind.has_cache or each is not _CACHE)
        known = ", ".join((*kind.dimensions, *(each[0] for each in others)))
        raise InputError(f"{kind.name} has no {min(unknown)[:40]}", cure=f"Known: {known}.")
    twice = next((found for group in groups if len(found := names.intersection(group)) > 1), None)
    if twice:
        raise InputError(f"{' and '.join(sorted(twice))} of {kind.name} mean the same", cure="Give one of them.")


def operator_of(kind: Kind, given: Mapping[str, str], index: int = 0) -> Operator:
    """Return an operator from values by name in lower case; raises InputError, or MissingEvidenceError without data.

    ``dtype`` of attention may name the format of the cache, too: ``bfloat16/fp8``.
    """
    count = _count(_first(given, _COUNT))
    sizes = kind.sizes_from(given)
    own, cached = _formats_of(kind, given)
    if kind.is_attention:
        _check_measured(kind, given)
    found = Operator(kind, sizes, own, cached, _library(_first(given, _LIBRARY)), index=index, count=count)
    _check_formats(found)
    kernel = _first(given, _KERNEL).strip().lower()[:_LONGEST_NAME]
    return replace(found, kernel=kernel, label=_first(given, _LABEL)[:_LONGEST_NAME])


def _formats_of(kind: Kind, given: Mapping[str, str]) -> tuple[NumberFormat, NumberFormat]:
    """Return the format of the operator, and that of its cache."""
    dtype, slash, beside = _first(given, _DTYPE).partition("/")
    cached = _first(given, _CACHE)
    if (slash or cached) and not kind.has_cache:
        what = f"dtype {f'{dtype}/{beside}'[:40]!r}" if slash else f"a cache in {cached[:40]}"
        raise InputError(f"{kind.name} has no cache, but {what} is given", cure="Give one number format, as dtype.")
    if beside and cached:
        raise InputError(f"{kind.name} has two formats of its cache: {beside[:40]!r} and {cached[:40]!r}",
                         cure="Give one of them.")  # fmt: skip
    own = format_named(dtype) if dtype else format_named(kind.formats[0])
    return own, format_named(beside or cached) if beside or cached else own


def _check_measured(kind: Kind, given: Mapping[str, str]) -> None:
    """Raise MissingEvidenceError for attention in a way that was not measured."""
    for name, what, most in _UNMEASURED:
        text = given.get(name, "").strip()
        if not text or any(name in names for names in kind.size_names()):
            continue
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < math.inf or number != int(number):
            raise InputError(f"{name} is {text[:40]!r}", cure=f"{name} ({what}) is a whole number from 0.")
        if number > most:
            cure = f"Known: {name} of at most {most}."
            raise MissingEvidenceError(
                f"no measured data cover {kind.name} with {name}={int(number)}: {what}", cure=cure
            )


def _library(text: str) -> str:
    name = text.strip().lower()
    if name and name not in LIBRARIES:
        cure = f"Known: {', '.join(LIBRARIES)}; without one the forecast is that of a typical library."
        raise MissingEvidenceError(f"no measured data cover the library {text.strip()[:40]!r}", cure=cure)
    return name


def _first(given: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((given[name] for name in names if given.get(name, "").strip()), "")


def _count(text: str) -> int:
    if not text:
        return 1
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 1 <= number <= _MOST_CALLS or number != int(number):
        raise InputError(f"count is {text[:40]!r}", cure=f"Give how often it is called: 1 to {_MOST_CALLS}.")
    return int(number)


def _check_formats(found: Operator) -> None:
    kind = found.kind
    known = (*kind.formats, *(("fp8", "int8") if kind.has_cache else ()))
    for what, given, covered in (("", found.dtype, kind.formats), ("a cache in ", found.cache_dtype, known)):
        if given.name not in covered:
            raise MissingEvidenceError(
                f"no measured data cover {kind.name} {'with ' if what else 'in '}{what}{given.name}",
                cure=f"Known: {', '.join(covered)}.",
            )
