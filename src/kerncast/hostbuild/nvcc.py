"""The stand-in for nvcc, as the program of a toolkit: takes nvcc's command line, compiles host code only.

Source of its outputs: NVIDIA CUDA Compiler Driver NVCC 12.9, and what CMake's modules look for in them
(CMakeDetermineCUDACompiler, FindCUDAToolkit).
"""

import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kerncast.bounded_file import read_bytes
from kerncast.errors import CompileError, InputError, KerncastError
from kerncast.hostbuild.compiling import (
    OUTPUT,
    Compiled,
    Unit,
    compile_command,
    compile_units,
    object_of,
    own_folders,
    preprocessed,
    remarks_on,
)
from kerncast.hostbuild.host_compilers import CUDA_RELEASE, CUDA_VERSION, Toolchain, run_tool, toolchain
from kerncast.hostbuild.nvcc_options import (
    DEFAULT_ARCHITECTURE,
    CommandLine,
    DependencyOptions,
    Language,
    Phase,
    parse_command_line,
)
from kerncast.hostbuild.program import BuildRequest, build_program, is_first_link
from kerncast.hostbuild.rewriting import absolute
from kerncast.hostbuild.runtime import runtime_libraries
from kerncast.hostbuild.toolkit import ARCHITECTURE_VARIABLE, TOOLKIT_VARIABLE, toolkit_folder
from kerncast.launch import DEFAULT_STANDARD
from kerncast.printable import printable_lines
from kerncast.replaced_file import replacing

_VERSION = f"""\
nvcc: NVIDIA (R) Cuda compiler driver, played by kerncast: host code is compiled now, kernels at their first launch
Cuda compilation tools, release {CUDA_VERSION}, V{CUDA_RELEASE}
"""
_HELP = f"Options are those of nvcc {CUDA_VERSION}: see NVIDIA's documentation.\n"
#: What nvcc compiles for where a command line names no architecture.
_DEFAULT_ARCHITECTURE = "52"
_PRINTS = frozenset({"-v", "--verbose", "-dryrun", "--dryrun"})


def main(words: Sequence[str] | None = None) -> int:
    """Do what a command line of nvcc asks for; returns the exit status."""
    try:
        given = sys.argv[1:] if words is None else words
        return _run([*_flags("NVCC_PREPEND_FLAGS"), *given, *_flags("NVCC_APPEND_FLAGS")])
    except KerncastError as error:
        _say(f"nvcc fatal   : {error}")
        return 1
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130


def _flags(name: str) -> list[str]:
    """Return the options in a variable of the environment."""
    try:
        return shlex.split(os.environ.get(name, ""))
    except ValueError as error:
        raise InputError(f"an open quote ({error})", where=name, cure="Close it.") from None


def _run(words: Sequence[str]) -> int:
    toolkit = _toolkit()
    try:
        line = parse_command_line(words)
    except InputError:
        if _PRINTS & set(words):  # CMake asks so, with an input that is none
            _tell(_variables(toolkit))
        raise
    if {"version", "help"} & line.shows:
        _print(_VERSION if "version" in line.shows else _HELP)
        return 0
    is_told = bool({"verbose", "dryrun"} & line.shows)
    if is_told:
        _tell(_variables(toolkit))
    if not line.inputs:
        raise InputError("No input files specified", cure="Name sources or objects.")
    for remark in line.remarks:
        _say(f"nvcc warning : {remark}")
    tools = toolchain()
    if is_told:
        _tell(_steps(line, tools, toolkit))
    if "dryrun" in line.shows:
        return 0
    return _do(replace(line, code=replace(line.code, architecture=_architecture())), tools, toolkit)


def _architecture() -> int:
    """Return the architecture of the GPU that the program is built for, whatever its Makefile says."""
    named = os.environ.get(ARCHITECTURE_VARIABLE, "")
    return int(named) if named.isdecimal() else DEFAULT_ARCHITECTURE


def _toolkit() -> Path:
    named = os.environ.get(TOOLKIT_VARIABLE)
    return Path(named) if named else toolkit_folder(runtime_libraries().folder)


def _do(line: CommandLine, tools: Toolchain, toolkit: Path) -> int:
    match line.phase:
        case Phase.PROGRAM:
            _make_program(line, tools, toolkit)
        case Phase.OBJECT:
            _make_objects(line, tools)
        case Phase.ARCHIVE:
            _make_archive(line, tools)
        case Phase.DEVICE_LINK:
            _make_empty_object(line, tools)
        case Phase.DEPENDENCIES:
            _print_dependencies(line, tools)
        case Phase.PREPROCESSED | Phase.PREPROCESSED_FILE:
            _preprocess(line, tools)
        case Phase.DEVICE_CODE:
            _compile_kernels(line)
    return 0


# What is made


def _make_program(line: CommandLine, tools: Toolchain, toolkit: Path) -> None:
    if is_first_link(tools):
        _say("nvcc: builds the library of C++, once: some minutes")
    output = line.output or Path("a.out")
    program = build_program(BuildRequest.of(line, output, toolkit / "lib64"))
    for remark in program.remarks:
        _say(f"nvcc warning : {remark}")
    if line.dependencies is not None:
        for compiled in compile_units(_units(line), tools):
            _write_rule(line.dependencies, compiled, output)


def _units(line: CommandLine) -> list[Unit]:
    return [Unit(each, line.code) for each in line.inputs if each.language != Language.OBJECT]


def _objects(line: CommandLine, tools: Toolchain) -> Iterator[tuple[Unit, Compiled]]:
    units = _units(line)
    for unit in units:
        for remark in remarks_on(unit, tools):
            _say(f"nvcc warning : {remark}")
    yield from zip(units, compile_units(units, tools), strict=True)


def _place_of(line: CommandLine, unit: Unit, suffix: str) -> Path:
    """Return where the output of a source goes."""
    if line.output is not None:
        return line.output
    return (line.output_dir or Path()) / f"{unit.source.path.stem}{suffix}"


def _check_one_output(line: CommandLine) -> None:
    if line.output is not None and len(_units(line)) > 1:
        raise InputError(
            f"one output, {line.output}, is named for {len(_units(line))} sources", cure="Leave -o out, or use -odir."
        )


def _make_objects(line: CommandLine, tools: Toolchain) -> None:
    _check_one_output(line)
    for unit, compiled in _objects(line, tools):
        place = _place_of(line, unit, ".o")
        _write(place, object_of(unit, compiled, tools))
        if line.dependencies is not None:
            _write_rule(line.dependencies, compiled, place)


def _make_archive(line: CommandLine, tools: Toolchain) -> None:
    output = line.output or Path("a.a")
    given = [absolute(each.path) for each in line.inputs if each.language == Language.OBJECT]
    with tempfile.TemporaryDirectory(prefix="kerncast-") as folder:
        for number, (unit, compiled) in enumerate(_objects(line, tools)):
            place = Path(folder) / f"{number}-{unit.source.path.stem}.o"
            place.write_bytes(object_of(unit, compiled, tools))
            given.append(str(place))
        made = Path(folder) / "archive.a"
        _checked([*tools.archiver, "rcs", str(made), *given], "the archive cannot be made")
        _write(output, read_bytes(made, OUTPUT))


def _make_empty_object(line: CommandLine, tools: Toolchain) -> None:
    """Write what stands for linked device code: each source keeps its own kernels."""
    with tempfile.TemporaryDirectory(prefix="kerncast-") as folder:
        source = Path(folder) / "empty.c"
        source.touch()
        made = Path(folder) / "empty.o"
        _checked([*tools.compile_c, "-fPIC", "-c", str(source), "-o", str(made)], "the compiler of C does not work")
        _write(line.output or Path("a_dlink.o"), read_bytes(made, OUTPUT))


def _checked(command: Sequence[str], what: str) -> None:
    finished = run_tool(command)
    if finished.status:
        said = printable_lines(finished.said).strip()
        raise CompileError(f"{what}\n{said}".strip())


def _preprocess(line: CommandLine, tools: Toolchain) -> None:
    for unit in _units(line):
        text = preprocessed(unit, tools)
        if line.phase == Phase.PREPROCESSED and line.output is None:
            _print(text)
        else:
            _write(_place_of(line, unit, f"{unit.source.path.suffix}.cpp.ii"), text.encode())


def _compile_kernels(line: CommandLine) -> None:
    """Write PTX of a source, for programs that load it: the virtual GPU takes nothing else."""
    from kerncast.compile import CompileRequest  # noqa: PLC0415  of almost no command line
    from kerncast.hostbuild.source_code import ptx_of_source  # noqa: PLC0415  as above

    _check_one_output(line)
    for unit in _units(line):
        code = unit.code
        request = CompileRequest(
            Path(unit.path),
            (f"sm_{max(line.architectures or (_DEFAULT_ARCHITECTURE,), key=int)}",),
            defines=code.defines,
            include_dirs=tuple(own_folders((*code.include_dirs, *code.system_include_dirs))),
            standard=code.standard or DEFAULT_STANDARD,
            fast_math=code.fast_math,
        )
        _write(_place_of(line, unit, ".ptx"), ptx_of_source(request).encode())


# What make is told of headers


def _print_dependencies(line: CommandLine, tools: Toolchain) -> None:
    options = line.dependencies or DependencyOptions()
    for unit, compiled in _objects(line, tools):
        rule = _rule(options, compiled, [f"{unit.source.path.stem}.o"])
        place = options.file or line.output
        if place is None:
            _print(rule)
        else:
            _write(place, rule.encode("utf-8", "surrogateescape"))


def _write_rule(options: DependencyOptions, compiled: Compiled, output: Path) -> None:
    rule = _rule(options, compiled, [str(output)])
    _write(options.file or output.with_suffix(".d"), rule.encode("utf-8", "surrogateescape"))


def _rule(options: DependencyOptions, compiled: Compiled, targets: Sequence[str]) -> str:
    """Return the rule that makes an object depend on what its source includes."""
    tools = toolchain()
    folders = tuple(f"{folder}/" for folder in tools.folders)
    files = [each for each in compiled.kept.files if options.with_system or not each.startswith(folders)]
    names = [_escaped(each) for each in files]
    given = options.targets or tuple(map(_escaped, targets))
    rule = " \\\n ".join([f"{' '.join(given)}:", *names]) + "\n"
    return rule + ("".join(f"{name}:\n" for name in names[1:]) if options.has_phony else "")


def _escaped(name: str) -> str:
    return name.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")


# What is printed


def _variables(toolkit: Path) -> Iterator[str]:
    """Yield what nvcc tells of itself; CMake reads TOP, PATH, INCLUDES and LIBRARIES."""
    yield "_NVVM_BRANCH_=nvvm"
    yield "_SPACE_="
    yield "_CUDART_=cudart"
    yield f"_HERE_={toolkit}/bin"
    yield f"_THERE_={toolkit}/bin"
    yield f"TOP={toolkit}"
    yield f"NVVMIR_LIBRARY_DIR={toolkit}/nvvm/libdevice"
    yield f"PATH={os.environ.get('PATH', '')}"
    yield f'INCLUDES="-I{toolkit}/include"'
    yield f"LIBRARIES={_library_words(toolkit)}"


def _library_words(toolkit: Path) -> str:
    return f'"-L{toolkit}/lib64/stubs" "-L{toolkit}/lib64"'


def _steps(line: CommandLine, tools: Toolchain, toolkit: Path) -> Iterator[str]:
    """Yield the commands that nvcc would run, as far as others read them."""
    number = (line.architectures or (_DEFAULT_ARCHITECTURE,))[0]
    for unit in _units(line):
        yield shlex.join(compile_command(unit, tools))
        if unit.source.language == Language.CUDA:
            yield f"cicc -arch compute_{number} {shlex.quote(unit.name)}"
    if line.phase == Phase.PROGRAM:
        objects = " ".join(f'"{each.path.stem}.o"' for each in line.inputs)
        launcher = shlex.join(tools.linker[:1] if tools.cxx is not None else (f"{toolkit}/bin/c++",))
        libraries = f"{_library_words(toolkit)} -lcudadevrt -lcudart_static -lrt -lpthread -ldl"
        yield f'{launcher} -m64 {objects} {libraries} -o "{line.output or "a.out"}"'


def _write(place: Path, content: bytes) -> None:
    with replacing(place) as partial:
        partial.write_bytes(content)


def _print(text: str) -> None:
    # Another program gets a source's text as it is.
    sys.stdout.write(printable_lines(text) if sys.stdout.isatty() else text)


def _tell(lines: Iterable[str]) -> None:
    _say("\n".join(f"#$ {each}" for each in lines))


def _say(text: str) -> None:
    sys.stderr.write(f"{printable_lines(text)}\n")


if __name__ == "__main__":
    sys.exit(main())
