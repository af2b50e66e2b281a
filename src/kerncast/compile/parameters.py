"""Hold what the source says of a kernel's parameters against what the compiler made of them."""

import re
from dataclasses import replace

from kerncast.compile.nouns import KernelSignature, Parameter

_PARAMETER = re.compile(r"\.param\s[^,)]*?\.(?P<type>[bsuf]\d+)\s[^,)]*?(?:\[(?P<count>\d+)\])?\s*(?:,|$)")
_BITS = re.compile(r"\d+")


def with_sizes(signature: KernelSignature, ptx: str, mangled: str) -> KernelSignature:
    """Return the signature with the sizes in the PTX, where they differ from what the parser took them for.

    The parser does not know every type, and takes one that it does not know for an int.
    """
    sizes = _sizes(ptx, mangled)
    if len(sizes) != len(signature.parameters):  # a parameter pack
        return signature
    corrected = tuple(_corrected(p, *size) for p, size in zip(signature.parameters, sizes, strict=True))
    return replace(signature, parameters=corrected)


def _sizes(ptx: str, mangled: str) -> list[tuple[int, bool]]:
    """Return the bytes of each parameter, and whether it is passed as bytes."""
    entry = re.search(rf"\.entry\s+{re.escape(mangled)}\s*\(([^)]*)\)", ptx)
    found = []
    for match in _PARAMETER.finditer(entry[1] if entry else ""):
        each = int(_BITS.findall(match["type"])[0]) // 8
        found.append((each * int(match["count"] or 1), match["count"] is not None))
    return found


def _corrected(parameter: Parameter, byte_size: int, in_bytes: bool) -> Parameter:
    if parameter.byte_size == byte_size:
        return parameter
    if parameter.kind == "pointer" and not in_bytes:  # the size of a reference is that of what it refers to
        return replace(parameter, byte_size=byte_size)
    if parameter.kind == "struct" or in_bytes:
        return replace(
            parameter, kind="struct", byte_size=byte_size, is_pointer=False, signed=False, element=None,
            pointee_type=None, pointee_bytes=None,
        )  # fmt: skip
    return replace(parameter, kind="unknown", byte_size=byte_size, is_pointer=False, signed=False, element=None)
