"""NOUN Sampling: how a kernel reads a buffer that it gets as a texture, or as a surface."""

import re
from dataclasses import dataclass

from kerncast.errors import LaunchError

_TEXT = re.compile(
    r"\s*(texture|surface)\s*\(\s*([a-z][a-z0-9]*\s*\[[^\]]*\][^,(]*(?:\([^)]*\)\s*)?)(.*)\)\s*", re.DOTALL
)
_OPTION = re.compile(r"\s*(\w+)\s*=\s*(\w+)\s*")
_CHOICES = {
    "filter": ("point", "linear"), "address": ("clamp", "border", "wrap", "mirror"),
    "coordinates": ("texels", "normalized"), "read": ("element", "normalized"), "channels": ("1", "2", "4"),
    "layered": ("false", "true"),
}  # fmt: skip
_ELEMENTS = ("u8", "i8", "u16", "i16", "u32", "i32", "f16", "f32")
_CURE = (
    'Write "texture(f32[512, 512] random, filter = linear, address = clamp)"; options are '
    + "; ".join(f"{name} = {' | '.join(choices)}" for name, choices in _CHOICES.items())
    + "."
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a texture is read; a surface has no use for most of it."""

    is_surface: bool = False
    filter: str = "point"
    """point or linear"""
    address: str = "clamp"
    """what is read outside: clamp, border (zeros), or with normalised coordinates wrap and mirror"""
    is_normalized: bool = False
    """whether coordinates go from 0 to 1"""
    reads_normalized: bool = False
    """whether integers are read as parts of the largest one"""
    channels: int = 1
    """elements of a texel, which are the last extent of the buffer where they are several"""
    is_layered: bool = False
    """whether the first extent counts layers"""

    def __str__(self) -> str:
        coordinates, read = ("normalized" if each else "" for each in (self.is_normalized, self.reads_normalized))
        return (
            f"filter = {self.filter}, address = {self.address}, coordinates = {coordinates or 'texels'},"
            f" read = {read or 'element'}, channels = {self.channels}, layered = {str(self.is_layered).lower()}"
        )

    def check(self, element: str, shape: tuple[int, ...], where: str) -> None:
        """Raise LaunchError for a buffer that no texture can have."""
        extents = len(shape) - (self.channels > 1) - self.is_layered
        fits = self.channels == 1 or shape[-1] == self.channels
        if element not in _ELEMENTS:
            raise LaunchError(
                f"a texture has no elements of {element}", where=where, cure=f"Known: {', '.join(_ELEMENTS)}."
            )
        if not fits or not 1 <= extents <= 3:
            what = f"{list(shape)} is no shape of {self.channels} channels" + " and layers" * self.is_layered
            raise LaunchError(what, where=where, cure="Give [layers,] [depth,] [height,] width [, channels].")
        can_filter = element[0] == "f" or self.reads_normalized
        if self.filter == "linear" and not can_filter:
            raise LaunchError(f"a linear filter reads no {element}", where=where, cure="Add read = normalized.")
        if self.reads_normalized and (element[0] == "f" or element.endswith("32")):
            cure = "Integers of 8 and 16 bits can be read so."
            raise LaunchError(f"read = normalized is not for {element}", where=where, cure=cure)


def parse_sampling(text: str, where: str) -> tuple[Sampling, str] | None:
    """Return what a text says of a texture or surface, and the text of its buffer; None for another text."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    given: dict[str, str] = {}
    for option in filter(str.strip, match[3].split(",")):
        found = _OPTION.fullmatch(option)
        if found is None or found[2] not in _CHOICES.get(found[1], ()) or found[1] in given:
            raise LaunchError(f"{option.strip()[:60]!r} is no option of a texture", where=where, cure=_CURE)
        given[found[1]] = found[2]
    sampling = Sampling(
        is_surface=match[1] == "surface",
        filter=given.get("filter", "point"),
        address=given.get("address", "clamp"),
        is_normalized=given.get("coordinates") == "normalized",
        reads_normalized=given.get("read") == "normalized",
        channels=int(given.get("channels", "1")),
        is_layered=given.get("layered") == "true",
    )
    if sampling.address in {"wrap", "mirror"} and not sampling.is_normalized:
        what = f"address = {sampling.address} needs coordinates = normalized"
        raise LaunchError(what, where=where, cure="With texels as coordinates CUDA takes it for clamp.")
    return sampling, match[2]
