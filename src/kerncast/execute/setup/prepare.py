"""Get a launch ready to run: the program linked, its memory laid out and filled, its parameters packed."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, InputError, MachineLimitError
from kerncast.execute.sampling.sample import Budget
from kerncast.execute.setup.arena import GLOBAL_BASE, Arena, Touched, addressable, check_room
from kerncast.execute.setup.arguments import (
    ELEMENT_DTYPES,
    BoundArgument,
    GlobalValue,
    bind_arguments,
    copied_data,
    fill_argument,
    kept_bytes_of,
    match_globals,
    own_buffers,
    pack_parameters,
    unset_remarks,
)
from kerncast.execute.setup.dataflow import own_pointers
from kerncast.execute.setup.layout import Program, link
from kerncast.execute.setup.paged import is_free
from kerncast.execute.setup.state import Setting
from kerncast.execute.setup.supported import check_operands, check_pairs, check_supported, in_clusters
from kerncast.execute.setup.textures import OBJECT_BYTES, object_of
from kerncast.launch import Buffer, Launch, Memory, Value
from kerncast.ptx import Module, Variable, parse_ptx, source_name
from kerncast.recording.contents import CHUNK_BYTES, joined
from kerncast.recording.recording_files import contents_of
from kerncast.traces import Allocation
from kerncast.units import GIB, format_bytes


def prepare(kernel: CompiledKernel, launch: Launch, budget: Budget) -> Setting:
    """Return a launch ready to run.

    Raises LaunchError for arguments that do not fit, NotExecutedError for an instruction that is not covered and
    BudgetExceededError for buffers that are too large.
    """
    function = program_of(kernel, launch).function
    check_supported(function)
    check_operands(function)
    return laid_out(kernel, launch, budget)


def laid_out(kernel: CompiledKernel, launch: Launch, budget: Budget) -> Setting:
    """Return a launch with its memory, whether or not its instructions are covered; raises as ``prepare`` does."""
    linked = program_of(kernel, launch)
    launch = in_clusters(launch, linked.function, linked.target)
    check_pairs(launch, linked.function)
    if launch.memory is not None:
        return _with_workspace(kernel, _as_recorded(linked, launch, launch.memory, budget))
    bound = bind_arguments(launch, linked.function.parameters, kernel.signature)
    values = match_globals(launch, linked.globals, kernel.variables)
    program, arena, addresses = _prepare_memory(linked, bound, launch, values, budget)
    for name, data in copied_data(values, linked.globals, kernel.variables).items():
        _write(arena, program.addresses[name], np.frombuffer(data, np.uint8))
    parameters = pack_parameters(bound, addresses, list(program.parameters.values()))
    remarks = unset_remarks(values, linked.globals, kernel.variables)
    touched = Touched(arena)
    buffers = own_buffers(bound)
    setting = Setting(linked, program, launch, arena, parameters, budget, touched, bound, buffers, remarks)
    return _with_workspace(kernel, setting)


def program_of(kernel: CompiledKernel, launch: Launch) -> Program:
    """Return the program of a kernel; that of a cooperative launch does not know yet where its blocks meet."""
    return linked_program(with_workspace(kernel.ptx, 0) if launch.cooperative else kernel.ptx, kernel.mangled)


def _with_workspace(kernel: CompiledKernel, setting: Setting) -> Setting:
    """Return a setting whose program knows where the blocks of a cooperative launch meet: the last allocation."""
    if not setting.launch.cooperative or not has_workspace(kernel.ptx):
        return setting
    place = setting.arena.allocations[-1]
    linked = linked_program(with_workspace(kernel.ptx, place.address), kernel.mangled)
    return replace(setting, linked=linked, program=replace(linked, addresses=setting.program.addresses))


#: Registers that hold the address of a grid's workspace: of CUDA's cooperative groups, a size and a barrier.
#: Source: cooperative_groups/details/driver_abi.h of CUDA 12.9.
_OF_WORKSPACE = re.compile(r"%envreg([12])\b")
WORKSPACE_BYTES = 8
_WORKSPACE = "where blocks of the grid meet"


def has_workspace(ptx: str) -> bool:
    """Whether PTX asks where blocks of a grid wait for one another."""
    return _OF_WORKSPACE.search(ptx) is not None


def with_workspace(ptx: str, address: int) -> str:
    """Return PTX with the address of the workspace; 0 for a launch that is not cooperative, which has none."""
    halves = {"1": address >> 32, "2": address & 0xFFFFFFFF}
    return _OF_WORKSPACE.sub(lambda found: str(halves[found[1]]), ptx)


@lru_cache(maxsize=32)
def linked_program(ptx: str, mangled: str) -> Program:
    """Return the program of a kernel; equal texts give the same object, because launches repeat."""
    return link(_parsed(ptx), mangled)


@lru_cache(maxsize=2)
def _parsed(ptx: str) -> Module:
    """Return a text, parsed: the kernels of one source come one after the other."""
    return parse_ptx(ptx)


def contents(setting: Setting) -> dict[str, npt.NDArray[Any]]:
    """Return what the buffers hold, by the names of the arguments; they are the arena's first allocations."""
    held = {}
    values = (one.argument for one in setting.arguments if isinstance(one.argument.value, Buffer))
    for argument, allocation in zip(values, setting.arena.allocations, strict=False):
        assert isinstance(argument.value, Buffer)
        dtype = np.dtype(ELEMENT_DTYPES[argument.value.element])
        held[argument.name] = setting.arena.bytes_of(allocation).view(dtype).reshape(argument.value.shape)
    return held


def _prepare_memory(
    program: Program,
    bound: tuple[BoundArgument, ...],
    launch: Launch,
    values: Sequence[GlobalValue],
    budget: Budget,
) -> tuple[Program, Arena, list[int]]:
    """Set up global memory: buffers in the order of the arguments, the module's variables, what these point to.

    Returns what the kernel gets for each buffer, too: its address, or that of the object of a texture.
    """
    arguments = [one.argument for one in bound]
    sizes = [(each.name, each.value.nbytes) for each in arguments if isinstance(each.value, Buffer)]
    sizes += [(source_name(variable.name), variable.nbytes) for variable in program.globals]
    sizes += [(each.given.name, pointee.nbytes) for each in values if (pointee := each.pointee)]
    sampled = [(each.name, each.value) for each in arguments if _is_sampled(each.value)]
    sizes += [(f"object of {name}", OBJECT_BYTES) for name, _ in sampled]
    sizes += [(_WORKSPACE, WORKSPACE_BYTES)] * launch.cooperative
    arena = Arena.for_buffers(sizes)
    given = [(each.name, each.value) for each in arguments if isinstance(each.value, Buffer)]
    given += [(each.given.name, each.given.value) for each in values if isinstance(each.given.value, Buffer)]
    arena.kept_bytes = _kept_bytes(given, launch, budget, repeats=arena.repeats)
    places = iter(arena.allocations)
    for position, argument in enumerate(arguments):
        if isinstance(argument.value, Buffer):
            fill_argument(arena.bytes_of(next(places)), launch, position, argument, repeats=arena.repeats)
    variables = {variable.name: (variable, next(places)) for variable in program.globals}
    addresses = {name: place.address for name, (_, place) in variables.items()}
    program = replace(program, addresses={**program.addresses, **addresses})
    for variable, place in variables.values():
        initialise(arena.bytes_of(place), variable, program)
    for value in values:
        _, place = variables[value.variable.name]
        if value.pointee is not None:
            pointer, place = place, next(places)
            arena.bytes_of(pointer)[:] = np.frombuffer(place.address.to_bytes(8, "little"), np.uint8)
        value.write(arena.bytes_of(place), launch, repeats=arena.repeats)
    addresses = {name: place.address for (name, _), place in zip(given, arena.allocations, strict=False)}
    for (name, buffer), place in zip(sampled, places, strict=False):
        assert isinstance(buffer, Buffer)
        arena.bytes_of(place)[:] = np.frombuffer(object_of(buffer, addresses[name]).packed(), np.uint8)
        addresses[name] = place.address
    return program, arena, [addresses[each.name] for each in arguments if isinstance(each.value, Buffer)]


def _is_sampled(value: Value) -> bool:
    return isinstance(value, Buffer) and value.sampling is not None


def _kept_bytes(buffers: list[tuple[str, Buffer]], launch: Launch, budget: Budget, *, repeats: bool) -> int:
    """Return the memory that the values of buffers take before any block runs.

    Raises BudgetExceededError where they are over the budget, MachineLimitError where the machine has less.
    """
    kept = {name: kept_bytes_of(buffer, repeats=repeats) for name, buffer in buffers}
    total = sum(kept.values())
    if total <= budget.memory_bytes and is_free(total):
        return total
    name, buffer = max(buffers, key=lambda each: kept[each[0]])
    need = f"the values of the buffers need {format_bytes(total)}"
    where = f"{launch.label}, argument {name}"
    what = f"{need}, most of them {buffer}"
    fills = "zeros, random or randint" if repeats else "zeros"
    cheaper = f"Fill it with {fills}, of which only what is touched takes memory"
    if total > budget.memory_bytes:
        what += f", over the memory budget of {format_bytes(budget.memory_bytes)}"
        raise BudgetExceededError(what, where=where, cure=f"{cheaper}, or add --memory {-(-total // GIB) + 1}GiB.")
    raise MachineLimitError(f"{what}, more than is free", where=where, cure=f"{cheaper}, or use a smaller problem.")


#: Variables that the recorded code did not have lie behind all allocations.
_GAP_BYTES = 512


def _as_recorded(linked: Program, launch: Launch, memory: Memory, budget: Budget) -> Setting:
    """Return a launch of a running program, ready to run on the memory that it saw."""
    places = [Allocation(each.name, each.address, each.address - GLOBAL_BASE, each.nbytes) for each in memory.regions]
    known = dict(memory.variables)
    end = max((each.start + each.nbytes for each in places), default=0)
    new, meeting = [], list[Allocation]()
    for variable in linked.globals:
        if variable.name not in known:
            end = -(-(end + _GAP_BYTES) // _GAP_BYTES) * _GAP_BYTES
            known[variable.name] = GLOBAL_BASE + end
            new.append((variable, Allocation(source_name(variable.name), GLOBAL_BASE + end, end, variable.nbytes)))
            end += variable.nbytes
    if launch.cooperative:
        end = -(-(end + _GAP_BYTES) // _GAP_BYTES) * _GAP_BYTES
        meeting = [Allocation(_WORKSPACE, GLOBAL_BASE + end, end, WORKSPACE_BYTES)]
        end += WORKSPACE_BYTES
    _check_order(places, launch)
    arena = Arena(addressable(end + _GAP_BYTES), [*places, *(place for _, place in new), *meeting])
    arena.kept_bytes = _write_chunks(arena, memory, launch, budget)
    program = replace(linked, addresses={**linked.addresses, **known})
    kept = {each.address for each in memory.regions if each.chunks}
    for variable in linked.globals:
        if known[variable.name] not in kept:
            place = next(each for each in arena.allocations if each.address == known[variable.name])
            initialise(arena.bytes_of(place), variable, program)
    parameters = memory.parameters[: linked.parameter_bytes].ljust(linked.parameter_bytes, b"\0")
    buffers = frozenset(own_pointers(linked, parameters, arena))
    remarks = () if memory.is_whole else (Caveat(CaveatKind.MEMORY_NOT_KEPT),)
    return Setting(linked, program, launch, arena, parameters, budget, Touched(arena), (), buffers, remarks)


def _check_order(places: Sequence[Allocation], launch: Launch) -> None:
    """Raise InputError where a recording's allocations overlap, or lie nowhere."""
    ends = [0, *(each.start + max(1, each.nbytes) for each in places)]
    if any(each.start < end or each.nbytes < 0 for each, end in zip(places, ends, strict=False)):
        raise InputError("the recorded allocations overlap", where=launch.label, cure="Record the program again.")


def _write_chunks(arena: Arena, memory: Memory, launch: Launch, budget: Budget) -> int:
    """Write what the launch saw into memory, and return how many bytes that were."""
    wanted = [digest for region in memory.regions for digest in region.chunks if digest]
    nbytes = len(wanted) * CHUNK_BYTES
    check_room(nbytes, budget.memory_bytes, f"{launch.label}: what the launch saw of memory needs")
    contents = contents_of(memory.file, set(wanted)) if wanted else {}
    for region, place in zip(memory.regions, arena.allocations, strict=False):
        if len(region.chunks) * CHUNK_BYTES >= region.nbytes + CHUNK_BYTES:
            raise InputError("it holds more of an allocation than there is", where=str(memory.file))
        joined(region.chunks, contents, arena.bytes_of(place))
    return nbytes


def _write(arena: Arena, address: int, data: npt.NDArray[np.uint8]) -> None:
    place = next(each for each in arena.allocations if each.address == address)
    arena.bytes_of(place)[:] = data


class Addresses(Protocol):
    """Something that knows where variables and functions lie."""

    def address_of(self, name: str) -> int:
        """Return the address of one, by its name in PTX; raises UnsupportedError where it has none."""


def initialise(data: npt.NDArray[np.uint8], variable: Variable, program: Addresses) -> None:
    """Write a module variable's initial value into its zeroed memory."""
    data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
    for relocation in variable.relocations:
        address = program.address_of(relocation.symbol) + relocation.offset >> relocation.shift
        raw = (address & (1 << 8 * relocation.nbytes) - 1).to_bytes(relocation.nbytes, "little")
        data[relocation.position : relocation.position + relocation.nbytes] = np.frombuffer(raw, np.uint8)
