"""What variables in constant and global memory hold when a kernel starts, beyond their own initial values.

A launch says it; for the rest, literal data that the source's host code copies to a variable counts, with a remark. A
variable that only the host could set is zero, and a remark says that too.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import DeviceVariable, Parameter
from kerncast.errors import LaunchError
from kerncast.execute.setup.arguments import BoundArgument, check_number, fill_buffer, pack_number
from kerncast.launch import ELEMENT_BYTES, Argument, Buffer, Launch, Reference, Struct
from kerncast.ptx import Variable, source_name

Bytes = npt.NDArray[np.uint8]

#: Apart from the places of arguments, so that a variable draws random numbers of its own.
_FIRST_PLACE = 1 << 20
_POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class GlobalValue:
    """What a launch gives one variable."""

    variable: Variable
    declared: DeviceVariable | None
    """None where the source's declaration is unknown"""
    given: Argument
    place: int
    where: str

    @property
    def pointee(self) -> Buffer | None:
        """The buffer that the variable points to, where it is a pointer that is given one."""
        value = self.given.value
        return value if isinstance(value, Buffer) and _is_pointer(self.variable, self.declared) else None

    def write(self, data: Bytes, launch: Launch) -> None:
        """Write the value into the memory of the variable, or of what it points to; raises LaunchError."""
        value = self.given.value
        if isinstance(value, Buffer):
            data[:] = 0
            fill_buffer(data, value, np.random.default_rng([launch.seed, _FIRST_PLACE + self.place]), self.where)
        elif isinstance(value, Struct):
            data[:] = np.frombuffer(value.data, np.uint8)
        elif not isinstance(value, Reference):
            data[:] = np.frombuffer(pack_number(_as_parameter(self), value), np.uint8)


def match_globals(
    launch: Launch, reached: Sequence[Variable], declared: Sequence[DeviceVariable]
) -> tuple[GlobalValue, ...]:
    """Return the values that a launch gives the variables of its kernel; raises LaunchError where they do not fit."""
    values: list[GlobalValue] = []
    for place, given in enumerate(launch.globals):
        where = f"{launch.label}, global {given.name}"
        found = [variable for variable in reached if _means(given.name, variable)]
        exact = [variable for variable in found if source_name(variable.name) == given.name.removeprefix("::")] or found
        if len(exact) > 1:
            names = ", ".join(source_name(variable.name) for variable in exact)
            raise LaunchError(
                "several variables have this name", where=where, cure=f"Write the namespace too: {names}."
            )
        if exact:
            value = GlobalValue(exact[0], _declaration(exact[0], declared), given, place, where)
            if any(other.variable is value.variable for other in values):
                raise LaunchError("this variable is given twice", where=where, cure="Give it once.")
            _check(value)
            values.append(value)
        elif not any(_is_called(each.name, given.name) for each in declared):
            raise _unknown(given.name, where, reached)
    return tuple(values)


def unset_remarks(
    values: Sequence[GlobalValue], reached: Sequence[Variable], declared: Sequence[DeviceVariable]
) -> tuple[Caveat, ...]:
    """Return what is to be said of variables that the launch gives no value and the host would set."""
    remarks = []
    for variable in _left(values, reached):
        known = _declaration(variable, declared) or _as_declared(variable)
        if not known.copies and (not known.is_constant or known.has_initial):
            continue
        name, key = known.name, _key(known.name)
        places = ", ".join(f"{Path(copy.file).name} line {copy.line}" for copy in known.copies[:3])
        if copied(variable, known) is not None:
            remarks.append(Caveat.of(CaveatKind.VARIABLE_COPIED, name, places=places))
        elif places:
            kind = CaveatKind.INITIAL_VALUE_REPLACED if known.has_initial else CaveatKind.VARIABLE_SET_BY_HOST
            remarks.append(Caveat.of(kind, name, places=places, key=key))
        else:
            remarks.append(Caveat.of(CaveatKind.CONSTANT_NEVER_SET, name, key=key))
    return tuple(remarks)


def copied(variable: Variable, declared: DeviceVariable | None) -> bytes | None:
    """Return what the host copies to a variable, where it does so once and the text of the source says what."""
    if declared is None or len(declared.copies) != 1:
        return None
    data = declared.copies[0].data
    return data if data is not None and len(data) == variable.nbytes else None


def copied_data(
    values: Sequence[GlobalValue], reached: Sequence[Variable], declared: Sequence[DeviceVariable]
) -> dict[str, bytes]:
    """Return what the host copies to the variables that the launch gives no value, by their names in PTX."""
    found = {}
    for variable in _left(values, reached):
        data = copied(variable, _declaration(variable, declared))
        if data is not None:
            found[variable.name] = data
    return found


def check_needs_none(launch: Launch, reached: Sequence[Variable], declared: Sequence[DeviceVariable]) -> None:
    """Raise LaunchError where a kernel reads variables that are more than their initial values: a GPU's are not set."""
    values = match_globals(launch, reached, declared)
    names = [source_name(value.variable.name) for value in values]
    names += [source_name(name) for name in copied_data(values, reached, declared)]
    if names:
        raise LaunchError(
            f"the kernel reads {', '.join(names)}, and variables cannot be set on a GPU yet",
            where=launch.label,
            cure="Pass what they hold as arguments, or give them initial values in the source.",
        )


def _left(values: Sequence[GlobalValue], reached: Sequence[Variable]) -> list[Variable]:
    given = {value.variable.name for value in values}
    return [variable for variable in reached if variable.name not in given]


def _declaration(variable: Variable, declared: Sequence[DeviceVariable]) -> DeviceVariable | None:
    name = source_name(variable.name)
    found = [each for each in declared if each.name == name]
    return found[0] if len(found) == 1 else None


def _as_declared(variable: Variable) -> DeviceVariable:
    """Return what the PTX alone tells of a variable, such as of a template's; one inside a function no host can set."""
    is_local = variable.name.startswith("_ZZ")
    has_initial = bool(variable.initial or variable.relocations) or is_local
    return DeviceVariable(
        source_name(variable.name), variable.space == "const", variable.type, None, variable.nbytes, has_initial, line=0
    )


def _means(name: str, variable: Variable) -> bool:
    return name == variable.name or _is_called(source_name(variable.name), name)


def _is_called(qualified: str, name: str) -> bool:
    short = name.removeprefix("::")
    return qualified == short or qualified.endswith(f"::{short}")


def _unknown(name: str, where: str, reached: Sequence[Variable]) -> LaunchError:
    names = sorted({source_name(variable.name) for variable in reached if "$" not in variable.name})
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}? " if near else ""
    used = f"It uses {', '.join(names[:20])}." if names else "It uses none."
    return LaunchError("the kernel uses no such variable", where=where, cure=hint + used)


def _check(value: GlobalValue) -> None:
    variable, given = value.variable, value.given.value
    size = variable.nbytes
    if isinstance(given, Buffer):
        if value.pointee is not None:
            return
        if given.nbytes != size:
            raise _wrong_size(value, given.nbytes)
        _check_element(value, given)
    elif isinstance(given, Struct):
        if len(given.data) != size:
            raise _wrong_size(value, len(given.data))
    elif isinstance(given, Reference):
        raise LaunchError(
            f"{given} is given for a variable", where=value.where, cure="Only arguments may share a buffer."
        )
    elif variable.count != 1 or (variable.type == "b8" and size != 1):
        raise LaunchError(
            f"a number is given for {_described(value)}",
            where=value.where,
            cure='Give "f32[25] random" or "bytes(hex)".',
        )
    elif _is_pointer(variable, value.declared):
        if given != 0:
            cure = 'Give a buffer such as "f32[1024] random", or 0.'
            raise LaunchError("a pointer is given neither a buffer nor 0", where=value.where, cure=cure)
    else:
        check_number(_as_parameter(value), given, value.where)


def _check_element(value: GlobalValue, given: Buffer) -> None:
    """Refuse elements of another width, or floats for integers, where the source says what the variable holds."""
    element = value.declared.element if value.declared else None
    is_alike = element is None or (
        ELEMENT_BYTES[element] == ELEMENT_BYTES[given.element] and (element[0] == "f") == (given.element[0] == "f")
    )
    if not is_alike:
        raise LaunchError(
            f"{given.element} is given for {_described(value)}",
            where=value.where,
            cure=f"Give elements of type {element}.",
        )


def _wrong_size(value: GlobalValue, nbytes: int) -> LaunchError:
    return LaunchError(
        f"{nbytes} bytes are given for {_described(value)}", where=value.where, cure="Give as many bytes as it has."
    )


def _described(value: GlobalValue) -> str:
    text = f"{value.declared.type_text}, " if value.declared else ""
    return f"a variable of {text}{value.variable.nbytes} bytes"


def _is_pointer(variable: Variable, declared: DeviceVariable | None) -> bool:
    """Whether a variable is one pointer."""
    is_word = variable.count == 1 and variable.nbytes == _POINTER_BYTES
    return is_word and declared is not None and declared.type_text.removesuffix("const").rstrip().endswith("*")


def _as_parameter(value: GlobalValue) -> BoundArgument:
    """Return the value as if it were passed to a parameter of the variable's type."""
    declared = value.declared
    element = declared.element if declared else None
    if declared is None or element is None:
        return BoundArgument(value.given, value.variable, None)
    kind = "bool" if declared.type_text.endswith("bool") else "float" if element[0] == "f" else "integer"
    return BoundArgument(
        value.given,
        value.variable,
        Parameter(
            declared.name, declared.type_text, kind, declared.byte_size, is_pointer=False, is_const=False,
            signed=element[0] == "i", element=element, pointee_type=None, pointee_bytes=None,
        ),
    )  # fmt: skip


def _key(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'
