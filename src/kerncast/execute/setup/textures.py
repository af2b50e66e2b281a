"""Objects of textures and surfaces: what a kernel gets is the address of one in global memory.

The coding is our own: NVIDIA's is not documented, and no kernel looks into it.
"""

import struct
from dataclasses import dataclass
from typing import Any

from kerncast.errors import IllegalAddress
from kerncast.launch import ELEMENT_BYTES, Buffer, Sampling
from kerncast.ptx import Instruction

MAGIC = 0x7478_654E_7243_656B
"""how each object begins"""
OBJECT_BYTES = 64
#: Field: where it begins, and its bytes.
FIELDS = {
    "address": (8, 8), "width": (16, 4), "height": (20, 4), "depth": (24, 4), "layers": (28, 4), "pitch": (32, 8),
    "slice": (40, 8), "kind": (48, 4), "element_bytes": (52, 4), "components": (56, 4), "flags": (60, 4),
}  # fmt: skip
UNSIGNED, SIGNED, FLOAT = 0, 1, 2
IS_LINEAR, IS_NORMALIZED, READS_NORMALIZED = 1, 2, 4
#: Where the address mode of each dimension begins among the flags; wrap and mirror come first.
ADDRESS_SHIFTS = (4, 6, 8)
WRAP, MIRROR, CLAMP, BORDER = 0, 1, 2, 3
MODES = {"wrap": WRAP, "mirror": MIRROR, "clamp": CLAMP, "border": BORDER}
_KINDS = {"u": UNSIGNED, "i": SIGNED, "f": FLOAT}
_LAYOUT = struct.Struct("<QQIIIIQQIIII")


@dataclass(frozen=True, slots=True)
class TextureObject:
    """What an object says, by the names of FIELDS."""

    address: int
    width: int
    height: int
    depth: int
    layers: int
    pitch: int
    slice: int
    kind: int
    element_bytes: int
    components: int
    flags: int

    def packed(self) -> bytes:
        """Return it as it lies in memory."""
        return _LAYOUT.pack(MAGIC, *(getattr(self, name) for name in FIELDS))

    @classmethod
    def unpacked(cls, data: Any) -> "TextureObject | None":
        """Return what lies in memory; None where that is no object."""
        magic, *fields = _LAYOUT.unpack(bytes(data))
        return cls(*fields) if magic == MAGIC else None


def object_of(buffer: Buffer, address: int) -> TextureObject:
    """Return the object of a buffer that lies at an address: rows follow one another, as do layers."""
    shape, sampling = list(buffer.shape), buffer.sampling or Sampling()
    if sampling.channels > 1:
        shape.pop()
    layers = shape.pop(0) if sampling.is_layered else 0
    width, height, depth = (*reversed(shape), 1, 1)[:3]
    nbytes = ELEMENT_BYTES[buffer.element]
    pitch = width * nbytes * sampling.channels
    mode = MODES[sampling.address]
    flags = IS_LINEAR * (sampling.filter == "linear") + IS_NORMALIZED * sampling.is_normalized
    flags += READS_NORMALIZED * sampling.reads_normalized + sum(mode << shift for shift in ADDRESS_SHIFTS)
    return TextureObject(
        address, width, height, depth, layers, pitch, pitch * height, _KINDS[buffer.element[0]], nbytes,
        sampling.channels, flags,
    )  # fmt: skip


OBJECT_FAULTS = frozenset({"texture", "surface"})


def object_fault(name: str, ins: Instruction, place: tuple[str, str], handle: int) -> IllegalAddress:
    """Return the error of a handle that means nothing (texture), or of a place outside (surface).

    The place is the thread and its line.
    """
    thread, where = place
    if name == "texture":
        what = f"{ins.name} by {thread} has the handle {handle:#x}, which is none of a texture or surface"
        cure = 'Pass one as "texture(f32[512, 512] random)", or make it by cudaCreateTextureObject.'
        return IllegalAddress(what, where=where, cure=cure)
    what = f"{ins.name} by {thread} leads out of the surface"
    return IllegalAddress(what, where=where, cure="Check the coordinates: the first one counts bytes.")
