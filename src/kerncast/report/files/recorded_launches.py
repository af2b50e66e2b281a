"""The launch files that ``kerncast run --export`` writes: launches of a program, with the values that it gave them."""

import hashlib
import math
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel, Parameter, compile_request, request_for
from kerncast.errors import KerncastError, UnsupportedError
from kerncast.execute.setup.prepare import linked_program
from kerncast.gpu import GPU
from kerncast.launch import DEFAULT_STANDARD, ELEMENT_BYTES, FLOAT_ELEMENTS, Launch, Memory, Region
from kerncast.ptx import source_name
from kerncast.recording.contents import CHUNK_BYTES, joined
from kerncast.recording.recording_files import contents_of
from kerncast.replaced_file import replacing
from kerncast.report.files.toml_text import toml_key, toml_path, toml_text

Bytes = npt.NDArray[np.uint8]

_POINTER_BYTES = 8
#: Parameters that a launch file cannot state: it would have to say what the object says.
_OBJECTS = frozenset({"cudaTextureObject_t", "cudaSurfaceObject_t"})
_NUMBERS = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
            "f16": "e", "f32": "f", "f64": "d"}  # fmt: skip
_NUMPY = {"i": "i", "u": "u", "f": "f"}
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Exported:
    """The launch files of a recording."""

    files: tuple[Path, ...]
    """one for each source and its options"""
    launches: int
    left_out: tuple[str, ...]
    """launches that a launch file cannot state, and why"""


def export_launches(launches: Sequence[Launch], gpu: GPU, target: Path) -> Exported:
    """Write launches of a recording as launch files, with a folder for what their buffers held.

    Kernels are compiled for ``gpu``, for the types of their parameters. A launch whose memory holds pointers is left
    out: addresses of one run mean nothing in another one.
    """
    folder = target.with_name(f"{target.stem}-data")
    rooms: dict[tuple[object, ...], list[Launch]] = defaultdict(list)
    for each in launches:
        rooms[each.source, each.defines, each.include_dirs, each.standard, each.fast_math].append(each)
    files, written, left_out = list[Path](), 0, list[str]()
    for own in rooms.values():
        texts = []
        for each in own:
            try:
                texts.append(_launch_text(each, gpu, folder))
            except KerncastError as error:
                left_out.append(f"{each.label}: {error.what}")
        if texts:
            path = target if not files else target.with_name(f"{target.stem}-{len(files) + 1}{target.suffix}")
            _write(path, "\n".join([*_head(own[0], folder), *texts]))
            files.append(path)
            written += len(texts)
    return Exported(tuple(files), written, tuple(left_out))


def _write(path: Path, text: str) -> None:
    with replacing(path) as place:
        place.write_text(text, encoding="utf-8")


def _head(launch: Launch, folder: Path) -> Iterable[str]:
    """Yield what all launches of a file have in common; PTX that a program brought is written beside the buffers."""
    yield "# Launches of a program, as kerncast run recorded them."
    yield f"source = {toml_path(launch.source, folder.parent)}"
    if launch.include_dirs:
        yield f"include = [{', '.join(toml_path(each, folder.parent) for each in launch.include_dirs)}]"
    if launch.defines:
        yield f"defines = {{ {', '.join(f'{toml_key(name)} = {toml_text(value)}' for name, value in launch.defines)} }}"
    if launch.standard != DEFAULT_STANDARD:
        yield f"std = {toml_text(launch.standard)}"
    if launch.fast_math:
        yield "fast_math = true"


def _launch_text(launch: Launch, gpu: GPU, folder: Path) -> str:
    compiled = compile_request(request_for(launch, (gpu.compute_capability,))).kernels[0]
    values = _Values.of(launch, folder)
    lines = ["", f"[[launch]]  # launch {launch.index}, which stands for {launch.count} of the program's"]
    lines += [f"kernel = {toml_text(launch.kernel or compiled.kernel)}", f"grid = {list(launch.grid)}"]
    lines += [f"block = {list(launch.block)}"]
    lines += [f"cluster = {list(launch.cluster)}"] if launch.cluster else []
    lines += [f"shared_bytes = {launch.shared_bytes}"] if launch.shared_bytes else []
    lines += ["cooperative = true"] if launch.cooperative else []
    arguments = list(_arguments(compiled, values))
    lines += ["[launch.args]", *arguments] if arguments else []
    variables = list(_variables(compiled, values))
    lines += ["[launch.globals]", *variables] if variables else []
    values.save()
    return "\n".join(lines) + "\n"


def _arguments(compiled: CompiledKernel, values: "_Values") -> Iterable[str]:
    program = linked_program(compiled.ptx, compiled.mangled)
    parameters = program.function.parameters
    declared: Sequence[Parameter | None] = compiled.signature.parameters if compiled.signature else ()
    if len(declared) != len(parameters):
        declared = [None] * len(parameters)
    names = _names(declared)
    places = [(program.parameters[each.name], each.nbytes) for each in parameters]
    raws = [values.memory.parameters[start : start + nbytes].ljust(nbytes, b"\0") for start, nbytes in places]
    arguments = list(zip(names, declared, raws, strict=True))
    values.find_owners(arguments)
    for name, own, raw in arguments:
        yield f"{name} = {values.text(name, own, raw)}"


def _names(declared: Sequence[Parameter | None]) -> list[str]:
    """Return the names of the arguments: those of the parameters, where all have one of their own."""
    names = [each.name if each else "" for each in declared]
    if len(set(names)) == len(names) and all(_NAME.match(each) for each in names):
        return names
    return [f"argument{n}" for n in range(len(names))]


def _variables(compiled: CompiledKernel, values: "_Values") -> Iterable[str]:
    elements = {each.name: each.element for each in compiled.variables}
    starts = {each.address: each for each in values.memory.regions}
    used = {each.name for each in linked_program(compiled.ptx, compiled.mangled).globals}
    for name, address in values.memory.variables:
        region = starts.get(address)
        if name in used and region is not None and region.chunks:
            plain = source_name(name)
            yield f"{toml_key(plain)} = {values.buffer(region, 0, elements.get(plain) or 'u8')}"


@dataclass(frozen=True, slots=True)
class _Owner:
    """The argument that has the buffer of an allocation."""

    name: str
    address: int
    element: str


@dataclass(slots=True)
class _Values:
    """What a launch saw of memory, as the values of a launch file."""

    memory: Memory
    contents: Mapping[str, bytes]
    folder: Path
    owners: dict[int, _Owner] = field(default_factory=dict)
    """argument that has the buffer, by the address of the allocation"""
    arrays: dict[Path, npt.NDArray[np.generic]] = field(default_factory=dict)
    """files to write"""

    @classmethod
    def of(cls, launch: Launch, folder: Path) -> "_Values":
        memory = launch.memory
        assert memory is not None
        wanted = {digest for region in memory.regions for digest in region.chunks if digest}
        return cls(memory, contents_of(memory.file, wanted) if wanted else {}, folder)

    def find_owners(self, arguments: Sequence[tuple[str, Parameter | None, bytes]]) -> None:
        """Find the argument that has the buffer of an allocation: the first of those that point lowest into it."""
        for name, declared, raw in arguments:
            address, region = self._pointed(declared, raw)
            known = None if region is None else self.owners.get(region.address)
            if region is not None and (known is None or address < known.address):
                element = (declared and declared.element) or "u8"
                nbytes = region.nbytes - (address - region.address)
                self.owners[region.address] = _Owner(
                    name, address, element if nbytes % ELEMENT_BYTES[element] == 0 else "u8"
                )

    def _pointed(self, declared: Parameter | None, raw: bytes) -> tuple[int, Region | None]:
        address = int.from_bytes(raw, "little")
        may_point = len(raw) == _POINTER_BYTES and (declared is None or declared.is_pointer)
        return address, self.region_of(address) if may_point else None

    def region_of(self, address: int) -> Region | None:
        """Return the allocation that an address lies in."""
        return next((each for each in self.memory.regions if 0 <= address - each.address < max(1, each.nbytes)), None)

    def text(self, name: str, declared: Parameter | None, raw: bytes) -> str:
        """Return an argument; raises UnsupportedError for one that a launch file cannot state."""
        address, region = self._pointed(declared, raw)
        if declared is not None and declared.type_text in _OBJECTS:
            raise UnsupportedError(f"{name} is an object of a texture or surface")
        if region is not None:
            return self._pointer(name, region, address)
        if declared is not None and declared.is_pointer:
            if address:
                raise UnsupportedError(f"{name} points to memory that is not the GPU's")
            return "0"
        if declared is not None and declared.element in _NUMBERS and declared.kind in {"integer", "float", "bool"}:
            number = struct.unpack(f"<{_NUMBERS[declared.element]}", raw[: ELEMENT_BYTES[declared.element]])[0]
            return repr(bool(number)).lower() if declared.kind == "bool" else _number(number)
        self.refuse_addresses(np.frombuffer(raw, np.uint8), name)
        return toml_text(f"bytes({raw.hex()})")

    def _pointer(self, name: str, region: Region, address: int) -> str:
        """Return the buffer that an argument points to, or the place in that of another one."""
        owner = self.owners[region.address]
        offset, width = address - owner.address, ELEMENT_BYTES[owner.element]
        if owner.name == name:
            return self.buffer(region, owner.address - region.address, owner.element)
        if offset % width:
            raise UnsupportedError(f"{name} points between two elements of {owner.name}")
        return toml_text(f"&{owner.name}[{offset // width}]")

    def buffer(self, region: Region, offset: int, element: str) -> str:
        """Return a buffer with what memory held from an offset on: zeros, a file, or chance where it was not kept."""
        width = ELEMENT_BYTES[element]
        count = max(1, (region.nbytes - offset) // width)
        if not region.chunks:
            return (
                toml_text(f"{element}[{count}] {'random' if element in FLOAT_ELEMENTS else 'zeros'}") + "  # not kept"
            )
        if not any(region.chunks):
            return toml_text(f"{element}[{count}] zeros")
        held = np.zeros(max(region.nbytes, len(region.chunks) * CHUNK_BYTES), np.uint8)
        joined(region.chunks, self.contents, held)
        data = held[offset : offset + count * width]
        self.refuse_addresses(data, region.name)
        path = self.folder / f"{hashlib.sha256(data.tobytes()).hexdigest()[:16]}-{element}.npy"
        self.arrays[path] = data.view(f"<{_NUMPY[element[0]]}{width}")
        return toml_text(f"{element}[{count}] file({self.folder.name}/{path.name})")

    def refuse_addresses(self, data: Bytes, name: str) -> None:
        """Raise UnsupportedError for memory that holds an address of this run."""
        words = data[: len(data) // _POINTER_BYTES * _POINTER_BYTES].view("<u8")
        for each in self.memory.regions:
            if ((words >= each.address) & (words < each.address + max(1, each.nbytes))).any():
                raise UnsupportedError(f"{name} holds a pointer, which a launch file cannot state")

    def save(self) -> None:
        """Write the files that the launch names."""
        for path, data in self.arrays.items():
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as place, place.open("wb") as stream:
                np.save(stream, data)


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else toml_text(repr(value))
