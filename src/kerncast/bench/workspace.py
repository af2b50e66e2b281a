"""One launch on a device: its buffers, filled as the launch file says, and the calls on them."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kerncast.bench.device import Bytes, Call, Copy, Device, Untimed
from kerncast.compile import CompiledKernel
from kerncast.errors import UnsupportedError
from kerncast.execute.setup.arguments import (
    ELEMENT_DTYPES,
    bind_arguments,
    check_needs_none,
    fill_argument,
    pack_parameters,
)
from kerncast.execute.setup.prepare import linked_program
from kerncast.launch import Argument, Buffer, Launch

#: Sets of buffers that are rotated exceed L2 so often: nothing of the first is left when its turn comes again.
_L2_SIZES = 3
#: More sets take too long to make; launches that would need more cannot be rotated.
_MOST_SETS = 256


def sets_to_rotate(nbytes: int, l2_bytes: int) -> int:
    """Return how many sets of buffers of this size together exceed L2; 0 where that would be too many."""
    sets = -(-_L2_SIZES * l2_bytes // max(nbytes, 1)) + 1
    return sets if sets <= _MOST_SETS else 0


def _refuse_tensor_maps(launch: Launch) -> None:
    """Raise UnsupportedError for a tensor map: the driver makes it of a real GPU's memory, in a coding of its own."""
    if any(buffer.tiles is not None for _, buffer in launch.buffers):
        what = "a launch file's tensor maps are not for a real GPU"
        raise UnsupportedError(what, where=launch.label, cure="Let the program itself call cuTensorMapEncodeTiled.")


class Workspace:
    """The buffers of one launch on a device, and what is needed to launch on them; a context manager."""

    def __init__(self, device: Device, kernel: CompiledKernel, launch: Launch) -> None:
        self._device = device
        self._launch = launch
        self._handles = [device.load(kernel)]
        program = linked_program(kernel.ptx, kernel.mangled)
        check_needs_none(launch, program.globals, kernel.variables)
        self._offsets = list(program.parameters.values())
        _refuse_tensor_maps(launch)
        self._bound = bind_arguments(launch, program.function.parameters, kernel.signature)
        self.before = _filled(launch, [one.argument for one in self._bound])
        """contents of the buffers by position of the argument"""
        self._owned: list[int] = []
        self._sets: list[dict[int, int]] = []
        """addresses of the buffers by position of the argument, one mapping per set"""
        self._pristine: dict[int, int] = {}
        """copies of buffers as they were filled, by position of the argument"""

    def __enter__(self) -> Self:
        try:
            self._sets.append(self._upload())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the memory back."""
        while self._owned:
            self._device.free(self._owned.pop())
        while self._handles:
            self._device.unload(self._handles.pop())

    @property
    def nbytes(self) -> int:
        """Bytes of one set of buffers."""
        return sum(data.nbytes for data in self.before.values())

    def contents(self) -> dict[str, npt.NDArray[Any]]:
        """Return the buffers as they were filled, by name."""
        return {self._name(position): self._shaped(position, data) for position, data in self.before.items()}

    def read(self, only: str | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return the buffers as they are on the device now, by name: all, or only one."""
        places = self._sets[0]
        return {
            self._name(position): self._shaped(position, self._device.read(places[position], data.nbytes))
            for position, data in self.before.items()
            if only is None or self._name(position) == only
        }

    def prepare(self, kernel: CompiledKernel, launch: Launch) -> None:
        """Run another launch once, whose buffers are those of the same names here."""
        program = linked_program(kernel.ptx, kernel.mangled)
        bound = bind_arguments(launch, program.function.parameters, kernel.signature)
        places = {self._name(position): address for position, address in self._sets[0].items()}
        addresses = [places[one.argument.name] for one in bound if isinstance(one.argument.value, Buffer)]
        parameters = pack_parameters(bound, addresses, list(program.parameters.values()))
        self._handles.append(self._device.load(kernel))
        call = Call(self._handles[-1], launch.grid, launch.block, launch.shared_bytes, parameters)
        self._device.run([Untimed((call,))])

    def call(self, number: int = 0) -> Call:
        """Return the launch on one set of buffers."""
        places = self._sets[number]
        parameters = pack_parameters(self._bound, [places[position] for position in self.before], self._offsets)
        launch = self._launch
        return Call(self._handles[0], launch.grid, launch.block, launch.shared_bytes, parameters)

    def rotated_calls(self) -> tuple[Call, ...]:
        """Return launches on sets of buffers that together exceed L2; raises BudgetExceededError for lack of memory."""
        for _ in range(sets_to_rotate(self.nbytes, self._device.machine.l2_bytes) - len(self._sets)):
            self._sets.append(self._upload())
        return tuple(self.call(number) for number in range(len(self._sets)))

    def restoring(self, names: Sequence[str], *, every_set: bool = False) -> tuple[Copy, ...]:
        """Return the copies that put buffers of the first set, or of every set, back as they were filled."""
        sets = self._sets if every_set else self._sets[:1]
        copies = []
        for position, data in self.before.items():
            if self._name(position) in names:
                if position not in self._pristine:
                    self._pristine[position] = self._place(position)
                source = self._pristine[position]
                copies += [Copy(places[position], source, data.nbytes) for places in sets]
        return tuple(copies)

    def refill(self) -> None:
        """Fill the first set again."""
        for position, address in self._sets[0].items():
            self._fill(position, address)

    def _upload(self) -> dict[int, int]:
        return {position: self._place(position) for position in self.before}

    def _place(self, position: int) -> int:
        address = self._device.allocate(self.before[position].nbytes)
        self._owned.append(address)
        self._fill(position, address)
        return address

    def _fill(self, position: int, address: int) -> None:
        buffer, data = self._bound[position].argument.value, self.before[position]
        assert isinstance(buffer, Buffer)
        if buffer.fill.kind == "zeros":
            self._device.clear(address, data.nbytes)
        else:
            self._device.write(address, data)

    def _name(self, position: int) -> str:
        return self._bound[position].argument.name

    def _shaped(self, position: int, data: Bytes) -> npt.NDArray[Any]:
        buffer = self._bound[position].argument.value
        assert isinstance(buffer, Buffer)
        return data.view(ELEMENT_DTYPES[buffer.element]).reshape(buffer.shape)


def _filled(launch: Launch, arguments: Sequence[Argument]) -> dict[int, Bytes]:
    """Fill the buffers as the executor does, so that both compute on the same numbers."""
    found = {}
    for position, argument in enumerate(arguments):
        if isinstance(argument.value, Buffer):
            found[position] = np.zeros(argument.value.nbytes, np.uint8)
            fill_argument(found[position], launch, position, argument)
    return found
