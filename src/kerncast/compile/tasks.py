"""The tasks of the child process: parse, take out host code, choose the kernel, compile."""

import codecs
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerncast.bounded_file import read_bytes
from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import assembler, diagnostics, nvrtc, selection
from kerncast.compile.cubin import read_resources
from kerncast.compile.headers import PRELUDE_NAME, header_folders, memory_headers, wheel_of_header
from kerncast.compile.nouns import (
    SOURCE_FILE,
    CompiledKernel,
    CompileReply,
    CompileRequest,
    DeviceVariable,
    KernelReply,
    KernelSignature,
    Parameter,
    SourceListing,
)
from kerncast.compile.nvrtc import load_part
from kerncast.compile.selection import Choice
from kerncast.compile.targets import CompileJob, Target
from kerncast.compile.wheels import cure_for_missing
from kerncast.errors import CompileError
from kerncast.typed_json import from_json

_PARAMETER = re.compile(r"\.param\s[^,)]*?\.(?P<type>[bsuf]\d+)\s[^,)]*?(?:\[(?P<count>\d+)\])?\s*(?:,|$)")
_BITS = re.compile(r"\d+")


def with_sizes(signature: KernelSignature, ptx: str, mangled: str) -> KernelSignature:
    """Return the signature with the sizes in the PTX, where they differ from what the parser took them for.

    The parser does not know every type, and takes one that it does not know for an int.
    """
    sizes = _sizes(ptx, mangled)
    if len(sizes) != len(signature.parameters):  # a parameter pack
        return signature
    corrected = tuple(_corrected(p, *size) for p, size in zip(signature.parameters, sizes, strict=True))
    return replace(signature, parameters=corrected)


def _sizes(ptx: str, mangled: str) -> list[tuple[int, bool]]:
    """Return the bytes of each parameter, and whether it is passed as bytes."""
    entry = re.search(rf"\.entry\s+{re.escape(mangled)}\s*\(([^)]*)\)", ptx)
    found = []
    for match in _PARAMETER.finditer(entry[1] if entry else ""):
        each = int(_BITS.findall(match["type"])[0]) // 8
        found.append((each * int(match["count"] or 1), match["count"] is not None))
    return found


def _corrected(parameter: Parameter, byte_size: int, in_bytes: bool) -> Parameter:
    if parameter.byte_size == byte_size:
        return parameter
    if parameter.kind == "pointer" and not in_bytes:  # the size of a reference is that of what it refers to
        return replace(parameter, byte_size=byte_size)
    if parameter.kind == "struct" or in_bytes:
        return replace(
            parameter, kind="struct", byte_size=byte_size, is_pointer=False, signed=False, element=None,
            pointee_type=None, pointee_bytes=None,
        )  # fmt: skip
    return replace(parameter, kind="unknown", byte_size=byte_size, is_pointer=False, signed=False, element=None)


#: No source and no PTX of a kernel is longer; one that is has a wrong name or comes from an attacker.
_MOST_BYTES = 16 * 2**20

#: Headers that may be missing in one source before its author must be asked.
_MOST_EMPTIED = 32

#: Makes functions without annotation device functions.
_DEFAULT_DEVICE = "-default-device"
#: Makes int64_t a long, which the headers of libcu++ do not allow.
_INT64_IS_LONG = "-DKERNCAST_INT64_IS_LONG=1"
_UNKNOWN_TO_CUDA11 = "c++20"


@dataclass(frozen=True, slots=True)
class _Analysis:
    """The result of parsing one source for one architecture with libclang."""

    unit: nvrtc.Unit
    signatures: tuple[KernelSignature, ...] | None
    """signatures of the kernels; None where libclang is not installed"""
    options: tuple[str, ...]
    depends_on_architecture: bool
    instance: Callable[[str, KernelSignature], KernelSignature | None]
    variables: tuple[DeviceVariable, ...] = ()
    as_written: nvrtc.Unit | None = None
    """the source with its headers as they are in folders that know NVRTC, where there are such"""


def do(task: str, job: Any) -> CompileReply | SourceListing | str:
    """Do one task of the parent's: compile, list or load."""
    if task == "compile":
        return compile_targets(from_json(CompileJob, job))
    if task == "list":
        return list_kernels(from_json(CompileRequest, job))
    return load_part(job)


def compile_targets(job: CompileJob) -> CompileReply:
    """Compile one kernel of one source for each target of the job."""
    request = job.request
    source = str(request.source)
    text = _read(source)
    if request.source.suffix == PTX_SUFFIX:
        return CompileReply(tuple(_assemble(request, target, text) for target in job.targets))
    analysis: _Analysis | None = None
    kernels = []
    for target in job.targets:
        if analysis is None or analysis.depends_on_architecture:
            analysis = _analyse(request, target.number, text)
        choice = selection.choose(request.kernel, analysis.signatures, source)
        kernels.append(_compile(request, target, analysis, choice))
    return CompileReply(tuple(kernels))


def _compile(request: CompileRequest, target: Target, analysis: _Analysis, choice: Choice) -> KernelReply:
    source = str(request.source)
    compiler = nvrtc.load(target.toolkit)
    if compiler is None:
        wheel = nvrtc.wheel(target.toolkit)
        raise CompileError("the CUDA compiler NVRTC is not installed", cure=cure_for_missing(wheel))
    options = _options(request, target)
    try:
        choice, (image, emptied) = _best_image(compiler, analysis, options, choice)
    except nvrtc.NvrtcError as error:
        raise diagnostics.compile_error(error, source, choice) from None
    if len(image.ptx) > _MOST_BYTES:
        raise CompileError(f"the code is larger than {_MOST_BYTES // 2**20} MiB", where=source, cure="Unroll less.")
    resources = read_resources(image.cubin, image.log, target.compiled_for)
    mangled = selection.entry(choice, image.lowered, tuple(resources), source)
    signature = choice.signature
    if signature is not None and signature.is_template and choice.expression:
        signature = analysis.instance(choice.expression, signature) or signature
    if signature is not None:
        signature = with_sizes(signature, image.ptx, mangled)
    compiled = CompiledKernel(
        kernel=choice.kernel or mangled,
        mangled=mangled,
        architecture=target.architecture,
        ptx=image.ptx,
        resources=resources[mangled],
        signature=signature,
        caveats=(*target.caveats, *(Caveat(CaveatKind.HEADER_MISSING, name) for name in emptied)),
        cubin=image.cubin,
        variables=analysis.variables,
    )
    return KernelReply(compiled, tuple(diagnostics.warnings(image.log)), emptied)


#: How the names of sources end that are PTX already.
PTX_SUFFIX = ".ptx"


def _assemble(request: CompileRequest, target: Target, text: bytes) -> KernelReply:
    """Make machine code of one kernel of a source in PTX."""
    source, ptx = str(request.source), text.split(b"\0", 1)[0].decode("utf-8", "replace")
    names = assembler.entries_of(ptx)
    mangled = selection.entry_named(request.kernel, names, source)
    assembled = assembler.assemble(ptx.encode(), assembler.variant_for(ptx, target.compiled_for), source)
    resources = read_resources(assembled.cubin, assembled.log, target.compiled_for)
    if mangled not in resources:
        raise CompileError(f"the assembler made no code of {mangled}", where=source)
    compiled = CompiledKernel(
        kernel=request.kernel or mangled, mangled=mangled, architecture=target.architecture, ptx=ptx,
        resources=resources[mangled], signature=None, caveats=target.caveats, cubin=assembled.cubin,
    )  # fmt: skip
    return KernelReply(compiled, (), ())


def _best_image(
    compiler: nvrtc.Nvrtc, analysis: _Analysis, options: list[str], choice: Choice
) -> tuple[Choice, tuple[nvrtc.Image, tuple[str, ...]]]:
    """Compile with the headers as they are, where they know NVRTC, or else without their host code."""
    if analysis.as_written is None:
        return _chosen_image(compiler, analysis, options, choice)
    # Such libraries include libcu++, whose integers of 64 bits are long long.
    as_written = replace(analysis, unit=analysis.as_written)
    try:
        return _chosen_image(compiler, as_written, [each for each in options if each != _INT64_IS_LONG], choice)
    except nvrtc.NvrtcError as error:
        try:
            return _chosen_image(compiler, analysis, options, choice)
        except nvrtc.NvrtcError as other:
            # Headers that must not lose their host code, or must, make many errors of their own.
            raise min(error, other, key=lambda each: diagnostics.count_errors(each.log)) from None


def _chosen_image(
    compiler: nvrtc.Nvrtc, analysis: _Analysis, options: list[str], choice: Choice
) -> tuple[Choice, tuple[nvrtc.Image, tuple[str, ...]]]:
    """Compile; a kernel whose name a function of the headers has, too, is named by its type."""
    try:
        return choice, _image(compiler, analysis, options, choice)
    except nvrtc.NvrtcError as error:
        other = selection.told_by_type(choice) if diagnostics.OVERLOADED in error.log else None
        if other is None:
            raise
    return other, _image(compiler, analysis, options, other)


def _image(
    compiler: nvrtc.Nvrtc, analysis: _Analysis, options: list[str], choice: Choice
) -> tuple[nvrtc.Image, tuple[str, ...]]:
    """Compile, with an empty header in the place of each that is missing; the second value names those."""
    unit = analysis.unit
    emptied: list[str] = []
    first: nvrtc.NvrtcError | None = None
    while True:
        try:
            return _compile_unit(compiler, replace(analysis, unit=unit), options, choice), tuple(emptied)
        except nvrtc.NvrtcError as error:
            missing = diagnostics.missing_header(error.log)
            if missing and (wheel_of_header(missing) or Path(missing).is_absolute() or _is_own(missing, unit.text)):
                raise
            # What follows from an empty header says less than that it is missing.
            first = first or error
            if missing is None or missing in emptied or len(emptied) == _MOST_EMPTIED:
                raise first from None
            emptied.append(missing)
            unit = replace(unit, headers={**unit.headers, missing: b"#pragma once\n"})


def _is_own(header: str, text: bytes) -> bool:
    """Return whether the source itself names a header in quotes: a file of the user's, whose path is a mistake."""
    return re.search(rb'^\s*#\s*include\s*"' + re.escape(header.encode()) + rb'"', text, re.MULTILINE) is not None


def _compile_unit(compiler: nvrtc.Nvrtc, analysis: _Analysis, options: list[str], choice: Choice) -> nvrtc.Image:
    names = [choice.expression] if choice.expression else []
    first = [*options, *analysis.options]
    if _INT64_IS_LONG in first:  # asked for, so that kernels see what host code sees; the next best is the default
        try:
            return compiler.compile(analysis.unit, first, names)
        except nvrtc.NvrtcError:
            first = [each for each in first if each != _INT64_IS_LONG]
    try:
        return compiler.compile(analysis.unit, first, names)
    except nvrtc.NvrtcError as error:
        more = _second_try(error.log, first)
        if not more:
            raise
        try:
            return compiler.compile(analysis.unit, [*first, *more], names)
        except nvrtc.NvrtcError:
            raise error from None


def _second_try(log: str, options: list[str]) -> list[str]:
    """Return the options with which a source may compile that did not, by what the compiler said."""
    if diagnostics.missing_header(log):
        return []
    more = [_INT64_IS_LONG] if diagnostics.mixes_longs(log) else []
    if diagnostics.HOST_CODE in log and _DEFAULT_DEVICE not in options:
        # What is left of host code (made by a macro, say) may compile as device code, which nobody calls.
        more.append(_DEFAULT_DEVICE)
    return more


def _options(request: CompileRequest, target: Target) -> list[str]:
    folders = [request.source.parent, *request.include_dirs, *header_folders()]
    options = [
        f"-arch={target.compiled_for}",
        f"-std={request.standard}",
        "-lineinfo",
        "--device-int128",
        "--ptxas-options=-v",
        *(["--use_fast_math"] if request.fast_math else []),
        f"--pre-include={PRELUDE_NAME}",
        *target.options,
        *(f"-D{name}={value}" for name, value in request.defines),
        *(f"-I{folder}" for folder in folders),
    ]
    if target.toolkit == 11:
        if request.standard == _UNKNOWN_TO_CUDA11:
            raise CompileError(
                f"the compiler for {target.compiled_for}, NVRTC 11.8, does not know {_UNKNOWN_TO_CUDA11}",
                where=str(request.source),
                cure="Choose an older version of C++, or a newer GPU.",
            )
        # The fp16 headers of 12.9 rely on it and include it only under NVRTC 12.3 and newer.
        options.append("--pre-include=nv/target")
    return options


def _analyse(request: CompileRequest, architecture: int, text: bytes) -> _Analysis:
    if importlib.util.find_spec("clang") is None:
        unit = nvrtc.Unit(text, str(request.source), memory_headers())
        return _Analysis(unit, None, (), False, lambda _name, _template: None)
    from kerncast.compile.source import host_code, parsing, signatures, variables  # noqa: PLC0415

    path = request.source
    folders = (path.parent, *request.include_dirs)
    options = parsing.ParseOptions(architecture, request.standard, request.defines, folders)
    parsed = parsing.parse(path, options)
    if parsed is None:
        raise _unparsed(path)
    headers = host_code.user_headers(parsed, header_folders())
    texts = {name: _read(name) for name in headers} | {str(path): text}
    found = parsing.by_file(parsed)
    codes = host_code.device_codes(parsed, found, texts)
    unannotated = any(code.has_unannotated for code in codes.values())
    main = codes[str(path)]
    included = host_code.included_headers(headers, texts, folders)
    source = host_code.Source(path, main.text)
    in_memory = host_code.headers_in_memory({name: codes[name] for name in headers}, included, source, folders)
    own = {spelling for spelling, _ in included}
    # A header of the user's goes before the stand-in of its name, on disk too.
    provided = {name: each for name, each in memory_headers().items() if name not in own}
    kept = host_code.written_for_nvrtc(texts, headers, request.include_dirs)
    others = {name: codes[name] for name in headers if name not in kept}
    # Those that stay as they are stay on disk, too: there each finds its neighbours, whose names others may have.
    beside = host_code.headers_in_memory(others, [each for each in included if each[1] in others], source, folders)
    return _Analysis(
        unit=nvrtc.Unit(in_memory.source, str(path), provided | in_memory.headers),
        signatures=signatures.kernel_signatures(parsed),
        options=(_DEFAULT_DEVICE,) if unannotated else (),
        depends_on_architecture=any(b"__CUDA_ARCH__" in each for each in texts.values()),
        instance=lambda name, template: signatures.instance_signature(
            parsing.parse(path, options, signatures.instance_text(name)), template
        ),
        variables=variables.device_variables(found, texts),
        as_written=nvrtc.Unit(beside.source, str(path), provided | beside.headers) if kept else None,
    )


#: Decides which kernels #if __CUDA_ARCH__ lets through where no GPU is asked for.
_LISTED_FOR = 80


def list_kernels(request: CompileRequest) -> SourceListing:
    """Return the kernels of a source and the launches that its text writes."""
    if importlib.util.find_spec("clang") is None:
        raise CompileError("libclang is not installed", cure=cure_for_missing("libclang"))
    from kerncast.compile.source import host_code, parsing, signatures, written_launches  # noqa: PLC0415

    path = request.source
    text = _read(str(path))
    options = parsing.ParseOptions(_LISTED_FOR, request.standard, request.defines, (path.parent, *request.include_dirs))
    parsed = parsing.parse(path, options)
    if parsed is None:
        raise _unparsed(path)
    headers = [name for name in host_code.user_headers(parsed, header_folders()) if name != str(path)]
    texts = {str(path): text} | {name: _read(name) for name in headers}
    return SourceListing(signatures.kernel_signatures(parsed), written_launches.written_launches(options, texts))


def _unparsed(path: Path) -> CompileError:
    return CompileError(
        "libclang cannot parse this file", where=str(path), cure="Look for an #include or a macro without end."
    )


def _read(source: str) -> bytes:
    text = read_bytes(source, SOURCE_FILE)
    if text.startswith(codecs.BOM_UTF8):
        text = b"   " + text[3:]
    if b"\0" in text:
        raise CompileError("the file holds a zero byte, so it is not source text", where=source)
    return text
