"""What the entry of a kernel in PTX says of its launches: parameters, block and cluster."""

import re
from dataclasses import dataclass

from kerncast.errors import InputError
from kerncast.launch import Extent
from kerncast.ptx import TYPE_BITS

_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?:\.ptr[^,\[\]]*?\s)?(?P<name>[\w$]+)\s*(?:\[(?P<count>\d+)\])?\s*$"
)
_EXTENT = re.compile(r"\.(reqntid|maxntid|reqnctapercluster)\s+(\d+)\s*(?:,\s*(\d+)\s*)?(?:,\s*(\d+)\s*)?")
_COMMENT = re.compile(r"//[^\n]*")


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel, as its launches see it."""

    parameters: tuple[int, ...]
    """bytes of each parameter"""
    places: tuple[int, ...]
    """offset of each parameter in the parameter block"""
    block: Extent | None
    """threads of a block, where the kernel fixes them or has a limit"""
    cluster: Extent = (1, 1, 1)

    @property
    def nbytes(self) -> int:
        """Size of the parameter block."""
        return self.places[-1] + self.parameters[-1] if self.places else 0


def entry_in(ptx: str, name: str) -> Entry:
    """Return what the entry of a kernel says; raises InputError where there is none of this name.

    >>> entry_in(".entry k(.param .u32 a, .param .align 64 .b8 m[128]) .reqntid 64 { ret; }", "k").places
    (0, 64)
    """
    found = re.search(rf"\.entry\s+{re.escape(name)}\s*(?:\(([^)]*)\))?([^{{;]*)", ptx)
    if found is None:
        raise InputError(f"its PTX has no kernel {name[:80]!r}", cure="Report it: kernels are named by their compiler.")
    sizes, places, position = [], [], 0
    for text in filter(str.strip, _COMMENT.sub("", found[1] or "").split(",")):
        nbytes, alignment = _size(text)
        position = -(-position // alignment) * alignment
        sizes.append(nbytes)
        places.append(position)
        position += nbytes
    extents = {kind: (int(x), int(y or 1), int(z or 1)) for kind, x, y, z in _EXTENT.findall(found[2])}
    block = extents.get("reqntid") or extents.get("maxntid")
    return Entry(tuple(sizes), tuple(places), block, extents.get("reqnctapercluster", (1, 1, 1)))


def _size(text: str) -> tuple[int, int]:
    """Return bytes and alignment of a parameter."""
    found = _PARAMETER.search(text.strip())
    bits = TYPE_BITS.get(found["type"]) if found else None
    if found is None or bits is None:
        raise InputError(f"{text.strip()[:80]!r} in its PTX is no parameter that is known", cure="Report it.")
    each = max(bits // 8, 1)
    return each * int(found["count"] or 1), int(found["align"] or each)
