"""Find the kernel that the user means: a plain name, a qualified name or a template instance.

Of overloaded kernels the types of the parameters tell: ``add(float *, int)``, and ``add<float>(float *, int)``.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kerncast.compile.nouns import KernelSignature
from kerncast.errors import CompileError

_SPACES = re.compile(r" (?=[*&<>,()])|(?<=[*&<>,()]) ")


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernel to compile."""

    kernel: str | None
    """name of the kernel as the user gave it; None where only the compiler can tell"""
    expression: str | None
    """name expression for NVRTC: qualified name or instance; None where only the compiler can tell"""
    signature: KernelSignature | None


def choose(kernel: str | None, signatures: Sequence[KernelSignature] | None, source: str) -> Choice:
    """Return the kernel of the source that the user means, or raise CompileError with what there is."""
    if not signatures:
        # Where the parser is not installed or finds no kernel, the compiler knows, or says what is wrong.
        return Choice(kernel, kernel, None)
    if kernel is None:
        return _only(signatures, source)
    wanted = _read_name(kernel)
    found = [each for each in signatures if each.name == wanted.name or each.name.endswith(f"::{wanted.name}")]
    exact = [each for each in found if each.name == wanted.name] or found
    if not exact:
        raise _unknown(kernel, signatures, source)
    fitting = [each for each in exact if _fits(each, wanted)]
    if len(exact) == 1 and wanted.types is None:
        fitting = exact
    if wanted.types is not None and not fitting:
        cure = f"There are:{_listed(exact)}"
        raise CompileError(f"no kernel {wanted.name!r} takes these parameters", where=source, cure=cure)
    if len(fitting) != 1:
        raise _ambiguous(kernel, exact, source)
    signature = fitting[0]
    if signature.is_template and wanted.instance is None:
        raise _without_instance(signature, source)
    if wanted.instance is not None and not signature.is_template:
        raise CompileError(f"{signature.name} is not a template", where=source, cure=f'Write "{signature.name}".')
    return Choice(kernel.strip(), _expression(signature, wanted, is_overloaded=len(exact) > 1), signature)


@dataclass(frozen=True, slots=True)
class _Name:
    """A kernel's name as a user writes it, taken apart."""

    name: str
    instance: tuple[str, ...] | None
    """template arguments; None without any"""
    types: tuple[str, ...] | None
    """types of the parameters; None where the user names none"""


def _read_name(kernel: str) -> _Name:
    text = kernel.strip().removeprefix("::")
    types = None
    if text.endswith(")"):
        text, types = _bracketed(text, "()")
        text = text.rstrip()
    instance = None
    if text.endswith(">"):
        text, instance = _bracketed(text, "<>")
    return _Name(text.strip(), instance, types)


def _bracketed(text: str, pair: str) -> tuple[str, tuple[str, ...]]:
    """Return what stands before the last bracket of a text, and what stands in it, parted at its commas.

    >>> _bracketed("f<pair<int, 2>, (1 > 2)>", "<>")
    ('f', ('pair<int, 2>', '(1 > 2)'))
    """
    depth, parts, end = 0, [], len(text) - 1
    inner = 0
    for place in range(len(text) - 1, -1, -1):
        letter = text[place]
        if pair == "<>":
            # Inside parentheses, > compares.
            inner += (letter == ")") - (letter == "(")
        if inner == 0:
            depth += (letter == pair[1]) - (letter == pair[0])
        closed = depth == 0 and letter == pair[0]
        if closed or (letter == "," and depth == 1 and inner == 0 and not _is_nested(text[place + 1 : end], pair)):
            parts.append(text[place + 1 : end].strip())
            end = place
        if closed:
            return text[:place], tuple(reversed([part for part in parts if part]))
    return text, ()


def _is_nested(part: str, pair: str) -> bool:
    """Whether a comma before this part stands inside a bracket of the other kind, which the part closes."""
    opening, closing = "<>" if pair == "()" else "()"
    return part.count(closing) > part.count(opening)


def _fits(signature: KernelSignature, wanted: _Name) -> bool:
    """Whether a kernel of the right name has the template arguments and the parameters that are wanted."""
    if signature.is_template != (wanted.instance is not None):
        return False
    if wanted.types is None:
        return wanted.instance is None or len(wanted.instance) <= len(signature.template_parameters)
    if len(wanted.types) != len(signature.parameters):
        return False
    # The types of a template follow from its arguments, and only the compiler can tell them.
    return signature.is_template or all(
        _plain(given) in {_plain(p.type_text), _plain(p.canonical_type), _plain(f"{p.type_text} {p.name}")}
        for given, p in zip(wanted.types, signature.parameters, strict=True)
    )


def _plain(declared: str) -> str:
    """Return the text of a declaration with spaces only where words would run together."""
    return _SPACES.sub("", " ".join(declared.split()))


def _expression(signature: KernelSignature, wanted: _Name, *, is_overloaded: bool) -> str:
    """Return the expression by which the compiler finds a kernel: its name, cast to its type where that is needed."""
    instance = "" if wanted.instance is None else f"<{', '.join(wanted.instance)}>"
    if signature.is_template:
        types: Sequence[str] | None = wanted.types
    else:
        types = [parameter.canonical_type or parameter.type_text for parameter in signature.parameters]
    if not is_overloaded or types is None:
        return signature.name + instance
    return f"(void (*)({', '.join(types)})){signature.name}{instance}"


def told_by_type(choice: Choice) -> Choice | None:
    """Return a plain kernel told from other functions of its name, such as those of headers; None for a template."""
    signature = choice.signature
    if signature is None or signature.is_template or choice.expression != signature.name:
        return None
    return replace(choice, expression=_expression(signature, _Name(signature.name, None, None), is_overloaded=True))


def entry(choice: Choice, lowered: Mapping[str, str], entries: Sequence[str], source: str) -> str:
    """Return the mangled name of the chosen kernel in what the compiler made."""
    if choice.expression is not None:
        mangled = lowered[choice.expression]
        if mangled in entries:
            return mangled
        raise CompileError(f"{choice.expression} is not a kernel", where=source, cure="Name a __global__ function.")
    if len(entries) == 1:
        return entries[0]
    if not entries:
        raise CompileError(
            "no kernel found", where=source, cure="Mark the function that a GPU is to run with __global__."
        )
    raise CompileError(f"several kernels: {', '.join(entries)}", where=source, cure="Name one of them.")


def entry_named(kernel: str | None, names: Sequence[str], source: str) -> str:
    """Return the kernel of a text of PTX that is meant: by its name there, or the only one. Raises CompileError."""
    if kernel is None and len(names) == 1:
        return names[0]
    if kernel is not None and kernel in names:
        return kernel
    listed = "".join(f"\n  {name}" for name in names) or " none."
    if kernel is None:
        raise CompileError("several kernels, and none is named", where=source, cure=f"Name one of these:{listed}")
    raise CompileError(f"no kernel {kernel!r}", where=source, cure=f"There are:{listed}")


def _only(signatures: Sequence[KernelSignature], source: str) -> Choice:
    if len(signatures) > 1:  # a template beside a plain kernel may be the one that is meant
        raise CompileError(
            "several kernels, and none is named", where=source, cure=f"Name one of these:{_listed(signatures)}"
        )
    only = signatures[0]
    if only.is_template:
        raise _without_instance(only, source)
    return Choice(only.name, only.name, only)


def _unknown(kernel: str, signatures: Sequence[KernelSignature], source: str) -> CompileError:
    names = {each.short_name: each for each in signatures} | {each.name: each for each in signatures}
    near = difflib.get_close_matches(kernel.partition("<")[0], names, n=1, cutoff=0.5)
    hint = f"Did you mean {names[near[0]].name}? " if near else ""
    return CompileError(f"no kernel {kernel!r}", where=source, cure=f"{hint}There are:{_listed(signatures)}")


def _ambiguous(kernel: str, found: Sequence[KernelSignature], source: str) -> CompileError:
    if len({each.name for each in found}) == 1:
        what = f"{kernel!r} is overloaded, and a name alone does not tell which is meant"
        cure = f'Write the types of its parameters too, such as "{_example(found[0])}":{_listed(found)}'
        return CompileError(what, where=source, cure=cure)
    what = f"{kernel!r} is the name of several kernels"
    return CompileError(what, where=source, cure=f"Write the namespace too:{_listed(found)}")


def _example(signature: KernelSignature) -> str:
    instance = f"<{', '.join(signature.template_parameters)}>" if signature.is_template else ""
    return f"{signature.name}{instance}({', '.join(parameter.type_text for parameter in signature.parameters)})"


def _without_instance(signature: KernelSignature, source: str) -> CompileError:
    instance = f"{signature.name}<{', '.join(signature.template_parameters)}>"
    return CompileError(
        f"{signature} is a template, which has no code until its parameters have values",
        where=source,
        cure=f'Name an instance: "{instance}" with a type or a number for each, such as "reduce<float, 256>".',
    )


def _listed(signatures: Sequence[KernelSignature]) -> str:
    return "".join(f"\n  {each}" for each in signatures)
