"""Kernel Tuner's files: a tuning problem (T1) as a space, a sweep as results (T4) and as a cache that can be searched.

T1 and T4 are the FAIR auto-tuning schemas, version 1.0.0. As ``tune_kernel_T1`` does, each parameter is a macro,
``block_size_x``, ``_y`` and ``_z`` are the block, and the grid is ProblemSize over the products of GridDivX, Y and Z,
rounded up; without ProblemSize it is GlobalSize, in threads where GlobalSizeType is OpenCL, and the block LocalSize.
Random buffers are uniform in [0, 1), where Kernel Tuner's are normal. Sources: interface.py, util.py (process_cache),
file_utils.py (get_t4_results) and schema/ of Kernel Tuner 1.5.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kerncast.bounded_file import is_file
from kerncast.errors import InputError
from kerncast.launch import BLOCK_PARAMETERS, STANDARDS
from kerncast.read.bounded_text import parse_json, read_text
from kerncast.studies.sweeps.expressions import evaluate
from kerncast.studies.sweeps.point_results import Infeasible, Outcome
from kerncast.studies.sweeps.space import Axis, Derived, Space, parse_setting, space_of
from kerncast.studies.sweeps.sweep import Sweep
from kerncast.units import MIB, MILLISECOND

_MOST_BYTES = 16 * MIB
_AXES = "XYZ"
_CURE = "Give a tuning problem in the T1 format of Kernel Tuner."
_DEFAULT_BLOCK = (256, 1, 1)
#: Elements of T1 by their names in launch files; vectors of several numbers as that many elements.
_ELEMENTS = {
    "bool": ("u8", 1), "int8": ("i8", 1), "uint8": ("u8", 1), "int16": ("i16", 1), "uint16": ("u16", 1),
    "int32": ("i32", 1), "uint32": ("u32", 1), "int64": ("i64", 1), "uint64": ("u64", 1), "half": ("f16", 1),
    "float": ("f32", 1), "double": ("f64", 1),
    **{f"{name}{count}": (element, count) for name, element in (("half", "f16"), ("float", "f32"), ("double", "f64"))
       for count in (2, 4, 8, 16)},
}  # fmt: skip


#: Fields that may be absent, but are of one kind.
_KINDS: Mapping[str, type] = {
    "CompilerOptions": list, "LocalSize": dict, "GlobalSize": dict, "GridDivX": list, "GridDivY": list,
    "GridDivZ": list,
}  # fmt: skip


def problem_space(file: Path, settings: Sequence[str] = (), conditions: Sequence[str] = ()) -> Space:
    """Return the space of a tuning problem; further settings replace or add parameters. Raises InputError."""
    where = str(file)
    problem = parse_json(read_text(file, _MOST_BYTES), where)
    space, kernel = (_object(problem, name, where) for name in ("ConfigurationSpace", "KernelSpecification"))
    if kernel.get("Language") != "CUDA":
        raise InputError(f"its language is {kernel.get('Language')!r}", where=where, cure="Only CUDA can be forecast.")
    _check_kinds(kernel, where)
    axes = [_axis(each, where) for each in _objects(space, "TuningParameters", where)]
    given = {each.name: each for each in map(parse_setting, settings)}
    # A replaced parameter keeps its place: the tuner's keys have the values in this order.
    parameters = {axis.name: axis for axis in axes} | given
    size = _problem_size(kernel, where)
    values = {name: each.values for name, each in parameters.items() if isinstance(each, Axis)}
    lists = {**values, "ProblemSize": size or ()}
    table = {
        "source": str(_kernel_file(kernel, file)),
        "defines": {name: own[0] for name, own in values.items()},
        **_compiler_options(kernel),
        "launch": [{"kernel": _text(kernel, "KernelName", where), "grid": [1, 1, 1], "block": [1, 1, 1],
                    **_arguments(kernel, lists, where)}],
    }  # fmt: skip
    shape = [each for each in _geometry(kernel, size, values.keys()) if each.name not in given]
    told = [_text(each, "Expression", where) for each in _objects(space, "Conditions", where)]
    found = space_of(table, file, [*parameters.values(), *shape], (*told, *conditions))
    return found if size is None else _with_size(found, size)


def _with_size(space: Space, size: tuple[int, ...]) -> Space:
    return Space(
        space.file, space.table, space.axes, space.derived, space.conditions, space.index,
        (("ProblemSize", size),), space.variables,
    )  # fmt: skip


def _object(table: Any, name: str, where: str) -> Mapping[str, Any]:
    found = table.get(name) if isinstance(table, Mapping) else None
    if not isinstance(found, Mapping):
        raise InputError(f"{name} is missing", where=where, cure=_CURE)
    return found


def _objects(table: Mapping[str, Any], name: str, where: str) -> list[Mapping[str, Any]]:
    found = table.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise InputError(f"{name} is no list of objects", where=where, cure=_CURE)
    return found


def _check_kinds(kernel: Mapping[str, Any], where: str) -> None:
    for name, kind in _KINDS.items():
        if not isinstance(kernel.get(name), kind | None):
            what = "list" if kind is list else "object"
            raise InputError(f"{name} is no {what}", where=where, cure=_CURE)


def _text(table: Mapping[str, Any], name: str, where: str) -> str:
    found = table.get(name)
    if not isinstance(found, str) or not found:
        raise InputError(f"{name} is missing", where=where, cure=_CURE)
    return found


def _axis(parameter: Mapping[str, Any], where: str) -> Axis:
    """Return a parameter with its values, which T1 writes as an expression of Python."""
    name = _text(parameter, "Name", where)
    given = parameter.get("Values")
    values = evaluate(given, {}, f"{where}, {name}") if isinstance(given, str) else given
    values = tuple(values) if isinstance(values, list | tuple) else (values,)
    if not values or not all(isinstance(each, bool | int | float | str) for each in values):
        raise InputError(f"{name} has no values", where=where, cure=_CURE)
    return Axis(name, tuple(int(each) if isinstance(each, bool) else each for each in values))


def _problem_size(kernel: Mapping[str, Any], where: str) -> tuple[int, ...] | None:
    given = kernel.get("ProblemSize")
    if given is None:
        return None
    sizes = given if isinstance(given, list) else [given]
    if not 1 <= len(sizes) <= 3 or not all(isinstance(each, int) and each > 0 for each in sizes):
        raise InputError(f"ProblemSize is {str(given)[:40]}", where=where, cure="Write 1 to 3 whole numbers.")
    return tuple(sizes)


def _kernel_file(kernel: Mapping[str, Any], file: Path) -> Path:
    """Return the source, relative to the problem's folder or to the one above, where Kernel Tuner looks, too."""
    name = _text(kernel, "KernelFile", str(file))
    above = Path("..") / name
    return above if not is_file(file.parent / name) and is_file(file.parent / above) else Path(name)


def _compiler_options(kernel: Mapping[str, Any]) -> dict[str, Any]:
    options = [str(each) for each in kernel.get("CompilerOptions") or ()]
    standards = [each for option in options for each in STANDARDS if option in {f"-std={each}", f"--std={each}"}]
    return {"fast_math": any(each.lstrip("-") == "use_fast_math" for each in options), **(
        {"std": standards[-1]} if standards else {}
    )}  # fmt: skip


def _geometry(kernel: Mapping[str, Any], size: tuple[int, ...] | None, names: Any) -> Iterator[Derived]:
    """Yield block and grid as settings that follow from the parameters."""
    local = kernel.get("LocalSize") or {}
    blocks = []
    for place, axis in enumerate(_AXES):
        own = BLOCK_PARAMETERS[place]
        default = str(_DEFAULT_BLOCK[place]) if size else str(local.get(axis, 1))
        text = own if own in names else default
        blocks.append(text)
        yield Derived(f"block.{axis.lower()}", text)
    for place, axis in enumerate(_AXES):
        if size is None:
            text = str((kernel.get("GlobalSize") or {}).get(axis, 1))
            is_threads = kernel.get("GlobalSizeType") == "OpenCL"
            yield Derived(f"grid.{axis.lower()}", f"ceil(({text}) / ({blocks[place]}))" if is_threads else text)
            continue
        given = kernel.get(f"GridDiv{axis}")
        divisors = [str(each) for each in given] if given else [blocks[place]]
        known = [each for each in divisors if each in names or each not in BLOCK_PARAMETERS]
        elements = size[place] if place < len(size) else 1
        product = " * ".join(f"({each})" for each in known) or "1"
        yield Derived(f"grid.{axis.lower()}", f"ceil({elements} / ({product}))" if place < len(size) else "1")
    yield Derived("shared_bytes", str(kernel.get("SharedMemory") or 0))


def _arguments(kernel: Mapping[str, Any], lists: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return arguments and variables of constant memory as a launch file has them."""
    args: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for number, each in enumerate(_objects(kernel, "Arguments", where)):
        name = str(each.get("Name") or f"argument{number}")
        value = _value(each, lists, f"{where}, argument {name}")
        if each.get("MemoryType") != "Symbol":
            args[name] = value
        if each.get("MemType") == "Constant" or each.get("MemoryType") == "Symbol":
            constants[name] = value
    return {"args": args, **({"globals": constants} if constants else {})}


def _value(argument: Mapping[str, Any], lists: Mapping[str, Any], where: str) -> Any:
    kind = argument.get("Type")
    if not isinstance(kind, str) or kind not in _ELEMENTS:
        raise InputError(f"its type is {kind!r}", where=where, cure=f"Known: {', '.join(_ELEMENTS)}.")
    fill = argument.get("FillValue", 0)
    if argument.get("MemoryType") == "Scalar":
        if isinstance(fill, bool) or not isinstance(fill, int | float):
            raise InputError("FillValue is no number", where=where, cure=_CURE)
        return fill
    element, width = _ELEMENTS[kind]
    size = argument.get("Size", 1)
    count = evaluate(size, lists, where) if isinstance(size, str) else size
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"its size is {str(count)[:40]}", where=where, cure="Write a whole number or an expression.")
    return f"{element}[{count * width}] {_fill(argument.get('FillType', 'Constant'), fill, where)}"


def _fill(kind: Any, value: Any, where: str) -> str:
    if kind == "Random":
        return "random"
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind != "Constant" or not is_whole:
        cure = "Fill it with Random or a whole number, or write a launch file."
        raise InputError(f"it is filled by {kind!r} with {str(value)[:40]}", where=where, cure=cure)
    return {0: "zeros", 1: "ones"}.get(int(value), f"randint({int(value)}, {int(value) + 1})")


#: What tuners call a configuration without a time.
_INVALIDITY = {
    Infeasible.LAUNCH: "constraints", Infeasible.COMPILE: "compile", Infeasible.FIT: "constraints",
    Infeasible.FAULT: "runtime", Infeasible.BUDGET: "timeout", Infeasible.UNSUPPORTED: "runtime",
    Infeasible.LOST: "runtime",
}  # fmt: skip
_FAILED = {"constraints": "InvalidConfig", "compile": "CompilationFailedConfig"}
_RUNTIME_FAILED = "RuntimeFailedConfig"


def t4_text(found: Sweep) -> str:
    """Return a sweep of one GPU as results in the T4 format; the times are forecasts, in milliseconds."""
    results = []
    for result in found.results:
        (outcome,) = result.outcomes
        times = [outcome.seconds / MILLISECOND] if outcome.seconds is not None else []
        timings = {"compilation_time": 0.0, "framework": 0.0, "search_algorithm": 0.0, "validation": 0.0}
        results.append(
            {
                "configuration": dict(result.point.settings),
                "objectives": ["time"],
                "times": {**timings, "runtimes": times},
                "invalidity": "correct" if times else _invalidity(outcome),
                "correctness": 1,
                "measurements": [{"name": "time", "value": time, "unit": "ms"} for time in times],
            }
        )
    metadata = {"timeunit": "milliseconds", "device": found.gpus[0].name, "origin": "forecast by kerncast"}
    return json.dumps({"schema_version": "1.0.0", "metadata": metadata, "results": results}, indent=1) + "\n"


def _invalidity(outcome: Outcome) -> str:
    assert outcome.infeasible is not None
    return _INVALIDITY[outcome.infeasible]


def cache_text(found: Sweep) -> str:
    """Return a sweep of one GPU as a cache of Kernel Tuner, which its simulation mode searches.

    Compiling costs the search nothing, and a forecast counts as one run of the kernel. The tuner compares problem_size
    with its own where the file has one: that of a launch file is unknown, and left out.
    """
    names = [axis.name for axis in found.space.axes]
    size = dict(found.space.constants).get("ProblemSize")
    head = {
        "device_name": found.gpus[0].name,
        "kernel_name": found.label,
        **({"problem_size": list(size)} if isinstance(size, tuple) else {}),
        "tune_params_keys": names,
        "tune_params": {axis.name: list(axis.values) for axis in found.space.axes},
        "objective": "time",
    }
    entries = ",\n".join(
        f"{json.dumps(','.join(str(value) for _, value in result.point.settings))}: "
        f"{json.dumps(_entry(dict(result.point.settings), result.outcomes[0]))}"
        for result in found.results
    )
    # The tuner takes a file for complete only if it ends in these very characters.
    return f'{json.dumps(head)[:-1]},\n"cache": {{\n{entries}\n}}\n}}'.replace("\n}\n}", "}\n}")


def _entry(settings: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    spent = {"compile_time": 0.0, "verification_time": 0.0, "strategy_time": 0.0, "framework_time": 0.0}
    if outcome.seconds is None:
        failed = _FAILED.get(_invalidity(outcome), _RUNTIME_FAILED)
        return {**settings, "time": failed, "times": [], **spent, "benchmark_time": 0.0}
    time = outcome.seconds / MILLISECOND
    return {**settings, "time": time, "times": [time], **spent, "benchmark_time": time}
