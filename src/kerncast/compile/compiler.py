"""The parent's side: ask a child process to compile, with limits, and turn its reply into values."""

import re
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from kerncast.bounded_file import opened, read_head
from kerncast.caveats import Caveat
from kerncast.child_process import Ended, ask
from kerncast.compile.build_file import (
    build_options,
    fast_math_caveat,
    folders_caveat,
    folders_of_missing_headers,
    macros_caveats,
    macros_not_given,
)
from kerncast.compile.cache import recall
from kerncast.compile.nouns import SOURCE_FILE, CompiledSource, CompileReply, CompileRequest, KernelReply, Limits
from kerncast.compile.targets import CompileJob, Target, architecture_for
from kerncast.confinement import include_places, source_places
from kerncast.errors import CompileError, InputError
from kerncast.launch import Launch
from kerncast.typed_json import from_json, to_json

_SUFFIXES = {".cu", ".cuh", ".h", ".hpp", ".inc"}
_MOST_FILES = 200
_MOST_BYTES = 2**21
_MOST_NAMED = 3
#: A kernel with its body: attributes and a list of parameters, without what ends a declaration.
_DEFINITION = r"__global__\b[^;{{}}]{{0,200}}?\b{name}\s*\([^;{{}}]{{0,2000}}\)\s*\{{"
_KERNEL = re.compile(rb"\b__global__\b")
_MOST_KERNELS = 200


def with_other_file(error: CompileError, source: Path, kernel: str | None) -> CompileError:
    """Return an error that finds no kernel, with the files beside the source that define it; others as they are."""
    # "is no kernel": the source declares it, and another file defines it.
    if not (error.what.startswith("no kernel") or error.what.endswith(" is not a kernel")):
        return error
    name = (kernel or r"\w+").partition("<")[0].partition("(")[0].strip().rpartition("::")[2]
    if kernel is not None and not name.isidentifier():
        return error
    pattern = re.compile(_DEFINITION.format(name=name).encode())
    files = [file.name for file in _files_beside(source) if _holds(file, pattern)][:_MOST_NAMED]
    if not files:
        return error
    what = f"{name} is defined" if kernel is not None else "Kernels are defined"
    hint = f"{what} in {', '.join(files)}, beside it: give that file."
    return CompileError(error.what, where=error.where, cure=f"{hint} {error.cure or ''}".strip())


def _files_beside(source: Path) -> Iterator[Path]:
    try:
        found = sorted(source.parent.iterdir())[:_MOST_FILES]
    except OSError:
        return
    yield from (file for file in found if file.suffix in _SUFFIXES and file.name != source.name)


def _holds(file: Path, pattern: re.Pattern[bytes]) -> bool:
    try:
        text = read_head(file, _MOST_BYTES)
    except InputError:
        return False
    kernels = islice(_KERNEL.finditer(text), _MOST_KERNELS)
    return any(pattern.match(text, kernel.start()) for kernel in kernels)


#: With more architectures than this, two children share them: NVRTC compiles one at a time in a process.
_MOST_IN_ONE_CHILD = 2


@dataclass(frozen=True, slots=True)
class ChildTask:
    """A task, and the module that does it in a child process."""

    module: str
    name: str


_COMPILER = ChildTask("kerncast.compile.worker", "compile")
#: Time beyond the limit for the child to start and to report.
GRACE_SECONDS = 2.0

Reply = TypeVar("Reply")


def compile_source(
    source: Path | str,
    *,
    architectures: Sequence[str],
    kernel: str | None = None,
    defines: Sequence[tuple[str, str]] = (),
    limits: Limits | None = None,
) -> CompiledSource:
    """Compile one kernel of a source for several architectures; raises CompileError."""
    return compile_request(
        CompileRequest(
            source=Path(source),
            architectures=tuple(architectures),
            kernel=kernel,
            defines=tuple(defines),
            limits=limits or Limits(),
        )
    )


def request_for(launch: Launch, architectures: Sequence[str]) -> CompileRequest:
    """Return the request that compiles the kernel of a launch."""
    return CompileRequest(
        launch.source,
        tuple(architectures),
        kernel=launch.kernel,
        defines=launch.defines,
        include_dirs=launch.include_dirs,
        standard=launch.standard,
        fast_math=launch.fast_math,
    )


def compile_request(request: CompileRequest, *, use_cache: bool = True) -> CompiledSource:
    """Compile what a request asks for, but for what is remembered of an earlier time; raises CompileError."""
    if not request.architectures:
        raise ValueError("no architecture is asked for")
    options = build_options(request.source)
    if options is None:
        return _compile_told(request, use_cache=use_cache)
    added = folders_of_missing_headers(request.source, request.include_dirs, options)
    request = replace(request, include_dirs=(*request.include_dirs, *added))
    caveats = (folders_caveat(options, added),) if added else ()
    if options.fast_math and not request.fast_math and options.file.parent == request.source.parent:
        caveats = (*caveats, fast_math_caveat(options))
    macros = macros_not_given(request, options)
    try:
        return _noted(_compile_told(request, use_cache=use_cache), caveats)
    except CompileError as error:
        if not macros:
            raise
        more = replace(request, defines=(*request.defines, *macros))
        try:
            found = _compile_remembered(more, use_cache=use_cache)
        except CompileError:
            raise error from None
    return _noted(found, (*caveats, *macros_caveats(options, macros)))


def _compile_told(request: CompileRequest, *, use_cache: bool) -> CompiledSource:
    """Compile; an error names the file beside the source that holds the kernel, where there is one."""
    try:
        return _compile_remembered(request, use_cache=use_cache)
    except CompileError as error:
        raise with_other_file(error, request.source, request.kernel) from None


def _noted(found: CompiledSource, caveats: tuple[Caveat, ...]) -> CompiledSource:
    return replace(found, kernels=tuple(replace(each, caveats=(*each.caveats, *caveats)) for each in found.kernels))


def _compile_remembered(request: CompileRequest, *, use_cache: bool) -> CompiledSource:
    targets = [architecture_for(each) for each in request.architectures]
    remembered = recall(request) if use_cache else None
    known = {target: remembered.find(target) for target in targets} if remembered else {}
    missing = [target for target in dict.fromkeys(targets) if known.get(target) is None]
    replies = _compile_all(request, missing)
    if remembered and replies:
        remembered.keep(replies.items())
    found = known | replies
    compiled = [each for target in targets if (each := found[target])]
    log = dict.fromkeys(line for each in compiled for line in each.log)
    return CompiledSource(request.source, tuple(each.kernel for each in compiled), tuple(log))


def run_task(
    task: ChildTask, request: CompileRequest, job: Any, reply: type[Reply], *, reads: Sequence[Path] = ()
) -> Reply:
    """Have a child process do one task on the source of a request; raises CompileError.

    ``job`` is what the task is about, ``reply`` the type of its answer, and ``reads`` what it reads beside the source,
    its headers and its folders of headers.
    """
    with opened(request.source, SOURCE_FILE):
        pass  # no child is started for what is no source
    message = {
        "task": task.name,
        "source": str(request.source),
        "job": to_json(job),
        "memory_bytes": request.limits.memory_bytes,
        "seconds": request.limits.seconds,
    }
    answer = _exchange(task.module, message, request, (*_read_by(request), *reads))
    try:
        if "error" not in answer:
            return from_json(reply, answer["result"])
        what, where, cure = from_json(tuple[str, str | None, str | None], answer["error"])
    except (ValueError, KeyError, TypeError):
        raise _senseless(request) from None
    raise CompileError(what, where=where, cure=cure)


def _read_by(request: CompileRequest) -> tuple[Path, ...]:
    folders = (place for each in request.include_dirs for place in include_places(each))
    return (*source_places(request.source), *folders)


def _compile_all(request: CompileRequest, targets: Sequence[Target]) -> dict[Target, KernelReply]:
    """Have children compile for several architectures; returns the reply for each."""
    if len(targets) <= _MOST_IN_ONE_CHILD:
        return _compile(request, targets) if targets else {}
    with ThreadPoolExecutor(2) as pool:
        # Interleaved, so that old and new architectures, which differ in cost, are shared evenly.
        first, second = pool.map(lambda part: _compile(request, part), (targets[::2], targets[1::2]))
    return first | second


def _compile(request: CompileRequest, targets: Sequence[Target]) -> dict[Target, KernelReply]:
    found = run_task(_COMPILER, request, CompileJob(request, tuple(targets)), CompileReply)
    if len(found.kernels) != len(targets):
        raise _senseless(request)
    return dict(zip(targets, found.kernels, strict=True))


def _exchange(module: str, message: dict[str, Any], request: CompileRequest, reads: Sequence[Path]) -> dict[str, Any]:
    try:
        ended = ask(module, message, reads=reads, grace_seconds=GRACE_SECONDS, reads_stderr=True)
    except TimeoutError:
        raise _too_slow(request) from None
    if ended.reply is None:
        raise _abnormal(ended, request)
    reply: dict[str, Any] = ended.reply
    return reply


def _senseless(request: CompileRequest) -> CompileError:
    return CompileError(
        "the compiler's answer cannot be read",
        where=str(request.source),
        cure="Run kerncast doctor to check the compiler.",
    )


def _too_slow(request: CompileRequest) -> CompileError:
    return CompileError(
        f"the compiler did not end within {request.limits.seconds:g} s",
        where=str(request.source),
        cure="Look for templates or macros that expand without end, or allow more time.",
    )


def _abnormal(ended: Ended, request: CompileRequest) -> CompileError:
    if ended.status == -getattr(signal, "SIGXCPU", 0):
        return _too_slow(request)
    lines = ended.said.strip().splitlines()
    last = f": {lines[-1][:300]}" if lines else ""
    return CompileError(
        f"the compiler ended {ended.how}{last}",
        where=str(request.source),
        cure="It may have needed more memory than it was allowed:"
        " look for templates, macros or includes that expand without end.",
    )
