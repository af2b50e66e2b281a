"""The parent's side: ask a child process to compile, with limits, and turn its reply into values."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kerncast
from kerncast.compile.nouns import (
    CompiledKernel,
    CompiledSource,
    CompileRequest,
    KernelSignature,
    LaunchSite,
    Limits,
    Parameter,
    SourceSummary,
)
from kerncast.compile.targets import Target, architecture_for
from kerncast.errors import CompileError
from kerncast.kernel_profile import Resources

#: With more architectures than this, two children share them: NVRTC compiles one at a time in a process.
_MOST_IN_ONE_CHILD = 2

#: Variables by which a toolkit or a C compiler elsewhere on the machine could change what is compiled.
_FOREIGN = (
    "CUDA",
    "NVCC",
    "NVRTC",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBCLANG",
    "CCC_",
    "CLANG",
)

#: Time beyond the limit for the child to start and to report.
_GRACE_SECONDS = 2.0


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


def compile_request(request: CompileRequest) -> CompiledSource:
    """Compile what a request asks for; raises CompileError."""
    if not request.architectures:
        raise ValueError("no architecture is asked for")
    targets = [architecture_for(each) for each in request.architectures]
    if len(targets) > _MOST_IN_ONE_CHILD:
        with ThreadPoolExecutor(2) as pool:
            # Interleaved, so that old and new architectures, which differ in cost, are shared evenly.
            replies = list(pool.map(lambda part: _compile(request, part), (targets[::2], targets[1::2])))
    else:
        replies = [_compile(request, targets)]
    kernels = {each["architecture"]: _kernel(each) for reply in replies for each in reply["kernels"]}
    log = tuple(dict.fromkeys(line for reply in replies for line in reply["log"]))
    return CompiledSource(request.source, tuple(kernels[target.architecture] for target in targets), log)


def inspect_source(
    source: Path | str, *, defines: Sequence[tuple[str, str]] = (), limits: Limits | None = None
) -> SourceSummary:
    """List the kernels of a source and the launches in its host code; raises CompileError."""
    request = CompileRequest(Path(source), (), defines=tuple(defines), limits=limits or Limits())
    reply = _run_task("inspect", request)
    return SourceSummary(
        kernels=tuple(_signature(each) for each in reply["kernels"]),
        launches=tuple(LaunchSite(**each) for each in reply["launches"]),
    )


def _run_task(task: str, request: CompileRequest, **more: Any) -> dict[str, Any]:
    """Have a child process do one task on the source of a request."""
    if not request.source.is_file():
        what = "is no file" if request.source.exists() else "no such file"
        raise CompileError(what, where=str(request.source), cure="Check the path.")
    message = {
        "task": task,
        "source": str(request.source),
        "kernel": request.kernel,
        "defines": [list(pair) for pair in request.defines],
        "include_dirs": [str(folder) for folder in request.include_dirs],
        "standard": request.standard,
        "memory_bytes": request.limits.memory_bytes,
        "seconds": request.limits.seconds,
        **more,
    }
    reply = _exchange(json.dumps(message), request)
    if "error" in reply:
        what, where, cure = reply["error"]
        raise CompileError(what, where=where, cure=cure)
    result: dict[str, Any] = reply["result"]
    return result


def _compile(request: CompileRequest, targets: Sequence[Target]) -> dict[str, Any]:
    rows = [
        {
            "architecture": target.architecture,
            "compiled_for": target.compiled_for,
            "number": target.number,
            "toolkit": target.toolkit,
            "options": target.options,
            "caveats": target.caveats,
        }
        for target in targets
    ]
    return _run_task("compile", request, targets=rows)


def _exchange(message: str, request: CompileRequest) -> dict[str, Any]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kerncast.compile.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    with process:
        try:
            out, said = process.communicate(message, timeout=request.limits.seconds + _GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise _too_slow(request) from None
        except BaseException:
            process.kill()
            raise
    try:
        reply: dict[str, Any] = json.loads(out)
    except ValueError:
        raise _abnormal(process.returncode, said, request) from None
    else:
        return reply


def _too_slow(request: CompileRequest) -> CompileError:
    return CompileError(
        f"the compiler did not end within {request.limits.seconds:g} s",
        where=str(request.source),
        cure="Look for templates or macros that expand without end, or allow more time.",
    )


def _abnormal(status: int, said: str, request: CompileRequest) -> CompileError:
    if status == -getattr(signal, "SIGXCPU", 0):
        return _too_slow(request)
    how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    lines = said.strip().splitlines()
    last = f": {lines[-1][:300]}" if lines else ""
    return CompileError(
        f"the compiler ended {how}{last}",
        where=str(request.source),
        cure="It may have needed more memory than it was allowed:"
        " look for templates, macros or includes that expand without end.",
    )


def _environment() -> dict[str, str]:
    """Return the environment of the child: without foreign toolkits, and with this package in its path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    root = str(Path(kerncast.__path__[0]).parent)
    kept["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [kept.get("PYTHONPATH")])])
    return kept


def _kernel(reply: dict[str, Any]) -> CompiledKernel:
    return CompiledKernel(
        kernel=reply["kernel"],
        mangled=reply["mangled"],
        architecture=reply["architecture"],
        ptx=reply["ptx"],
        resources=Resources(**reply["resources"]),
        signature=_signature(reply["signature"]) if reply["signature"] else None,
        caveats=tuple(reply["caveats"]),
        cubin=base64.b64decode(reply["cubin"]),
    )


def _signature(reply: dict[str, Any]) -> KernelSignature:
    return KernelSignature(
        name=reply["name"],
        parameters=tuple(Parameter(**each) for each in reply["parameters"]),
        is_template=reply["is_template"],
        template_parameters=tuple(reply["template_parameters"]),
        line=reply["line"],
    )
