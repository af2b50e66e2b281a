"""Get a launch ready to run: the program linked, its memory laid out and filled, its parameters packed."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, MachineLimitError
from kerncast.execute.sampling.sample import Budget
from kerncast.execute.setup.arena import Arena, Touched
from kerncast.execute.setup.arguments import (
    ELEMENT_DTYPES,
    BoundArgument,
    GlobalValue,
    bind_arguments,
    copied_data,
    fill_argument,
    kept_bytes_of,
    match_globals,
    pack_parameters,
    unset_remarks,
)
from kerncast.execute.setup.layout import Program, link
from kerncast.execute.setup.paged import is_free
from kerncast.execute.setup.state import Setting
from kerncast.execute.setup.supported import check_operands, check_supported
from kerncast.launch import Buffer, Launch
from kerncast.ptx import Variable, parse_ptx, source_name
from kerncast.units import GIB, format_bytes


def prepare(kernel: CompiledKernel, launch: Launch, budget: Budget) -> Setting:
    """Return a launch ready to run.

    Raises LaunchError for arguments that do not fit, UnsupportedError for an instruction that is not covered and
    BudgetExceededError for buffers that are too large.
    """
    linked = linked_program(kernel.ptx, kernel.mangled)
    bound = bind_arguments(launch, linked.function.parameters, kernel.signature)
    check_supported(linked.function)
    check_operands(linked.function)
    values = match_globals(launch, linked.globals, kernel.variables)
    program, arena = _prepare_memory(linked, bound, launch, values, budget)
    for name, data in copied_data(values, linked.globals, kernel.variables).items():
        _write(arena, program.addresses[name], np.frombuffer(data, np.uint8))
    parameters = pack_parameters(bound, [a.address for a in arena.allocations], list(program.parameters.values()))
    remarks = unset_remarks(values, linked.globals, kernel.variables)
    return Setting(linked, program, launch, arena, parameters, budget, Touched(arena), bound, remarks)


@lru_cache(maxsize=32)
def linked_program(ptx: str, mangled: str) -> Program:
    """Return the program of a kernel; equal texts give the same object, because launches repeat."""
    return link(parse_ptx(ptx), mangled)


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
) -> tuple[Program, Arena]:
    """Set up global memory: buffers in the order of the arguments, the module's variables, what these point to."""
    arguments = [one.argument for one in bound]
    sizes = [(each.name, each.value.nbytes) for each in arguments if isinstance(each.value, Buffer)]
    sizes += [(source_name(variable.name), variable.nbytes) for variable in program.globals]
    sizes += [(each.given.name, pointee.nbytes) for each in values if (pointee := each.pointee)]
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
    return program, arena


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


def _write(arena: Arena, address: int, data: npt.NDArray[np.uint8]) -> None:
    place = next(each for each in arena.allocations if each.address == address)
    arena.bytes_of(place)[:] = data


def initialise(data: npt.NDArray[np.uint8], variable: Variable, program: Program) -> None:
    """Write a module variable's initial value into its zeroed memory."""
    data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
    for relocation in variable.relocations:
        address = program.address_of(relocation.symbol) + relocation.offset >> relocation.shift
        raw = (address & (1 << 8 * relocation.nbytes) - 1).to_bytes(relocation.nbytes, "little")
        data[relocation.position : relocation.position + relocation.nbytes] = np.frombuffer(raw, np.uint8)
