"""Maps of tensors, by which a block copies a box of one between global and shared memory.

The 128 bytes of NVIDIA's CUtensorMap are not documented; those here are in a coding of our own, which the virtual
driver, launch files and recorded scripts share. Source of the fields: CUDA Driver API 12.9, cuTensorMapEncodeTiled and
cuTensorMapEncodeIm2col.
"""

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kerncast.errors import LaunchError

MAP_BYTES = 128
#: Offset in the bytes at which the address of the tensor stands.
ADDRESS_PLACE = 8
_MAGIC = 0x314D544B  # "KTM1"
_LAYOUT = struct.Struct("<IBBBBQ4Q5I5IB3B3h3h")
_MOST_RANK, _MOST_BOX, _STRIDE_UNIT = 5, 256, 16
_MOST_PIXELS, _MOST_STEP = 1024, 8
#: Bits of a corner in each dimension, by the number of dimensions.
_CORNER_BITS = {1: 16, 2: 8, 3: 5}
#: Types of elements by the driver's numbers.
ELEMENTS = ("u8", "u16", "u32", "i32", "u64", "i64", "f16", "f32", "f64", "bf16", "f32", "f32", "f32")
_BYTES = {"u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8}
_NUMBER = {name: ELEMENTS.index(name) for name in _BYTES} | {"i8": 0, "i16": 1}
#: Bytes of a row that are swizzled, by the driver's numbers.
SWIZZLES = (0, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class PixelBox:
    """Where the corner of a filter moves over images (im2col): in W, H and D, as far as there are such dimensions.

    A copy takes so many of its places, one after the other, from image to image: rows first.
    """

    lower: tuple[int, ...]
    """first place"""
    upper: tuple[int, ...]
    """last place, from the last pixel on"""
    steps: tuple[int, ...]
    """pixels from one place to the next"""

    def counts(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return the number of places in each dimension of images of a size."""
        whole = zip(extents, self.lower, self.upper, self.steps, strict=True)
        return tuple((extent - 1 + upper - lower) // step + 1 for extent, lower, upper, step in whole)

    def fault(self, extents: Sequence[int]) -> str:
        """Say why the driver refuses it for images of a size; empty: it does not."""
        rank = len(extents)
        if not len(self.lower) == len(self.upper) == len(self.steps) == rank or rank not in _CORNER_BITS:
            return "images have 3 to 5 dimensions, and corners and steps two less"
        most = 1 << _CORNER_BITS[rank] - 1
        if not all(-most <= each < most for each in (*self.lower, *self.upper)):
            return f"a corner is below {-most} or above {most - 1}"
        if not all(1 <= each <= _MOST_STEP for each in self.steps):
            return f"a step is below 1 or above {_MOST_STEP}"
        return "" if min(self.counts(extents)) > 0 else "its corners leave no place for a filter"


@dataclass(frozen=True, slots=True)
class TensorTiles:
    """A tensor in global memory and the box of it that one copy moves; dimensions from the innermost on."""

    element: str
    """type of the elements, one of ELEMENTS"""
    shape: tuple[int, ...]
    """elements in each dimension"""
    strides: tuple[int, ...]
    """bytes from one element to the next, in each dimension but the innermost"""
    box: tuple[int, ...]
    """elements of the box in each dimension; of images the channels of a pixel, and pixels"""
    swizzle: int = 0
    """bytes of a row in shared memory whose pieces of 16 bytes change places: 32, 64 or 128; 0: none"""
    fills_nan: bool = False
    """whether what lies outside the tensor reads as NaN instead of 0"""
    address: int = 0
    pixels: PixelBox | None = None
    """of images, whose pixels are copied as columns; None: boxes are copied"""

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return _BYTES[self.element]

    @property
    def box_bytes(self) -> int:
        """Bytes of the box in shared memory."""
        total = self.element_bytes
        for extent in self.box:
            total *= extent
        return total

    def coded(self) -> bytes:
        """Return the 128 bytes of the map; raises LaunchError for what no map can say."""
        wrong = self.fault()
        if wrong:
            raise LaunchError(f"no tensor map is possible: {wrong}", cure="See docs/launch-file.md, tensor maps.")
        left = _MOST_RANK - len(self.shape)
        head = (_MAGIC, _NUMBER[self.element], len(self.shape), SWIZZLES.index(self.swizzle), self.fills_nan)
        strides = (*self.strides, *(0,) * left)
        sizes = (*self.shape, *(1,) * left, *self.box, *(1,) * (_MOST_RANK - len(self.box)))
        images: tuple[int, ...] = (0,) * 10
        if self.pixels is not None:
            zeros = (0,) * (3 - len(self.pixels.lower))
            images = (1, *self.pixels.steps, *zeros, *self.pixels.lower, *zeros, *self.pixels.upper, *zeros)
        return _LAYOUT.pack(*head, self.address, *strides, *sizes, *images).ljust(MAP_BYTES, b"\0")

    def fault(self) -> str:
        """Say why the driver refuses such a map; empty: it does not."""
        rank = len(self.shape)
        wanted = rank if self.pixels is None else 2
        if not 1 <= rank <= _MOST_RANK or len(self.box) != wanted or len(self.strides) != rank - 1:
            return "it has 1 to 5 dimensions, and a box of as many, or of images of pixels and channels"
        if not all(0 < extent < 1 << 32 for extent in self.shape):
            return "an extent is below 1 or above 2^32 - 1"
        wrong = self._fault_of_box()
        if wrong:
            return wrong
        row = self.box[0] * self.element_bytes
        if row % _STRIDE_UNIT or self.address % _STRIDE_UNIT or any(n % _STRIDE_UNIT for n in self.strides):
            return "a row of the box, a stride or the address is no multiple of 16 bytes"
        if any(n >= 1 << 40 for n in self.strides):
            return "a stride is 2^40 bytes or more"
        return "a row of the box is wider than its swizzle" if self.swizzle and row > self.swizzle else ""

    def _fault_of_box(self) -> str:
        box = self.box
        if self.pixels is not None:
            wrong = self.pixels.fault(self.shape[1:-1])
            if wrong or not 0 < box[1] <= _MOST_PIXELS:
                return wrong or f"a copy takes 1 to {_MOST_PIXELS} pixels"
            box = box[:1]
        is_good = all(0 < extent <= _MOST_BOX for extent in box)
        return "" if is_good else "an extent of the box is below 1 or above 256"

    @property
    def options(self) -> str:
        """What a launch file says of the map, beside the tensor."""
        box = f"box = [{', '.join(map(str, reversed(self.box)))}]"
        swizzle = f", swizzle = {self.swizzle}B" if self.swizzle else ""
        images = ""
        if self.pixels is not None:
            for name, each in (("lower", self.pixels.lower), ("upper", self.pixels.upper), ("step", self.pixels.steps)):
                images += f", {name} = [{', '.join(map(str, reversed(each)))}]"
        return f"{box}{images}{swizzle}{', outside = nan' if self.fills_nan else ''}"

    def at(self, address: int) -> "TensorTiles":
        """Return the same map of a tensor elsewhere."""
        return replace(self, address=address)


def tiles_of(data: bytes) -> TensorTiles | None:
    """Return the map that 128 bytes hold; None where they hold none."""
    magic, number, rank, swizzle, fills_nan, address, *rest = _LAYOUT.unpack_from(data)
    if magic != _MAGIC or number >= len(ELEMENTS) or not 1 <= rank <= _MOST_RANK or swizzle >= len(SWIZZLES):
        return None
    strides, shape, box, images = rest[: rank - 1], rest[4 : 4 + rank], rest[9 : 9 + rank], rest[14:]
    pixels = None
    if images[0]:
        steps, lower, upper = (tuple(images[first:][: max(rank - 2, 0)]) for first in (1, 4, 7))
        pixels, box = PixelBox(lower, upper, steps), box[:2]
    found = TensorTiles(
        ELEMENTS[number], tuple(shape), tuple(strides), tuple(box), SWIZZLES[swizzle], bool(fills_nan), address, pixels
    )
    return None if found.fault() else found


_TEXT = re.compile(r"\s*tensormap\s*\(\s*(\w+\s*\[[^\]]*\][^,(]*(?:\([^)]*\)\s*)?)(,.*)\)\s*", re.DOTALL)
_OPTION = re.compile(r"\s*,\s*(\w+)\s*=\s*(\[[-\d,\s]*\]|\w+)")
_CURE = (
    'Write "tensormap(f16[1024, 4096] random, box = [64, 64], swizzle = 128B)": a box of as many dimensions as the '
    "tensor; swizzle = none | 32B | 64B | 128B; outside = zero | nan. Of images (im2col) the box has pixels and "
    "channels; lower = [-1, -1], upper = [-1, -1] and step = [1, 1] say where a filter's corner moves."
)


@dataclass(frozen=True, slots=True)
class MapOptions:
    """What a launch file says of a tensor map, beside the tensor."""

    box: tuple[int, ...]
    """from the outermost dimension on"""
    swizzle: int = 0
    fills_nan: bool = False
    pixels: PixelBox | None = None

    def of(self, element: str, shape: Sequence[int], where: str) -> TensorTiles:
        """Return the map of a tensor without gaps, whose shape begins with the outermost dimension."""
        inner = tuple(reversed(shape))
        known = {"i8": "u8", "i16": "u16"}.get(element, element)
        strides, width = [], _BYTES.get(known, 0)
        for extent in inner[:-1]:
            width *= extent
            strides.append(width)
        box = tuple(reversed(self.box))
        found = TensorTiles(known, inner, tuple(strides), box, self.swizzle, self.fills_nan, pixels=self.pixels)
        wrong = found.fault() if known in _BYTES else f"{element or 'it'} is no element type of tensor maps"
        if wrong:
            raise LaunchError(f"no tensor map is possible: {wrong}", where=where, cure=_CURE)
        return found


def parse_tensor_map(text: str, where: str) -> tuple[str, MapOptions] | None:
    """Return the buffer of ``tensormap(BUFFER, box = […], …)``, and the rest; None for another text."""
    if not text.lstrip().startswith("tensormap"):
        return None
    match = _TEXT.fullmatch(text)
    options = dict(_OPTION.findall(match[2])) if match else {}
    swizzles = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
    swizzle, outside = options.get("swizzle", "none"), options.get("outside", "zero")
    is_known = swizzle in swizzles and outside in {"zero", "nan"} and set(options) <= _OPTIONS
    images = set(options) & _IMAGES
    is_known &= not images or images >= {"lower", "upper"}
    is_known &= match is None or not _TOO_LONG.search(match[2])
    if match is None or "box" not in options or not is_known or _OPTION.sub("", match[2]).strip():
        raise LaunchError(f"{text!r} is no tensor map", where=where, cure=_CURE)
    box = _numbers(options["box"])
    pixels = None
    if images:
        lower, upper = (_numbers(options[name])[::-1] for name in ("lower", "upper"))
        pixels = PixelBox(lower, upper, _numbers(options.get("step", ""))[::-1] or (1,) * len(lower))
    return match[1].strip(), MapOptions(box, swizzles[swizzle], outside == "nan", pixels)


#: Digits of a number that no map has; Python refuses to read thousands of them.
_TOO_LONG = re.compile(r"\d{20}")
_IMAGES = {"lower", "upper", "step"}
_OPTIONS = {"box", "swizzle", "outside"} | _IMAGES


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"-?\d+", text))
