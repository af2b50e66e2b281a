"""Find the kernel that the user means: a plain name, a qualified name or a template instance."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kerncast.compile.nouns import KernelSignature
from kerncast.errors import CompileError


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernel to compile."""

    kernel: str | None
    """as the user calls it; None where only the compiler can tell"""
    expression: str | None
    """what NVRTC is asked for: qualified name or instance"""
    signature: KernelSignature | None


def choose(kernel: str | None, signatures: Sequence[KernelSignature] | None, source: str) -> Choice:
    """Return the kernel of the source that the user means, or raise CompileError with what there is."""
    if not signatures:
        # Where the parser is not installed or finds no kernel, the compiler knows, or says what is wrong.
        return Choice(kernel, kernel, None)
    if kernel is None:
        return _only(signatures, source)
    name, bracket, arguments = kernel.strip().removeprefix("::").partition("<")
    name = name.strip()
    found = [each for each in signatures if each.name == name or each.name.endswith(f"::{name}")]
    exact = [each for each in found if each.name == name] or found
    if len(exact) != 1:
        raise _ambiguous(kernel, exact, source) if exact else _unknown(kernel, signatures, source)
    signature = exact[0]
    if signature.is_template and not bracket:
        raise _without_instance(signature, source)
    if bracket and not signature.is_template:
        raise CompileError(f"{signature.name} is no template", where=source, cure=f'Write "{signature.name}".')
    return Choice(kernel.strip(), signature.name + bracket + arguments, signature)


def entry(choice: Choice, lowered: Mapping[str, str], entries: Sequence[str], source: str) -> str:
    """Return the mangled name of the chosen kernel in what the compiler made."""
    if choice.expression is not None:
        mangled = lowered[choice.expression]
        if mangled in entries:
            return mangled
        raise CompileError(f"{choice.expression} is no kernel", where=source, cure="Name a __global__ function.")
    if len(entries) == 1:
        return entries[0]
    if not entries:
        raise CompileError(
            "no kernel found", where=source, cure="Mark the function that a GPU is to run with __global__."
        )
    raise CompileError(f"several kernels: {', '.join(entries)}", where=source, cure="Name one of them.")


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
        return CompileError(what, where=source, cure=f"Give each of these a name of its own:{_listed(found)}")
    what = f"{kernel!r} is the name of several kernels"
    return CompileError(what, where=source, cure=f"Write the namespace too:{_listed(found)}")


def _without_instance(signature: KernelSignature, source: str) -> CompileError:
    instance = f"{signature.name}<{', '.join(signature.template_parameters)}>"
    return CompileError(
        f"{signature} is a template, which has no code until its parameters have values",
        where=source,
        cure=f'Name an instance: "{instance}" with a type or a number for each, such as "reduce<float, 256>".',
    )


def _listed(signatures: Sequence[KernelSignature]) -> str:
    return "".join(f"\n  {each}" for each in signatures)
