"""Compiles kernels for one machine: each once, and ahead of the time when they are needed."""

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from kerncast.compile import CompiledKernel, CompileRequest, compile_request, request_for
from kerncast.launch import Launch
from kerncast.measurement import Machine

#: Compilers at a time: each takes some 200 MB.
_MOST_COMPILERS = 8


def compiled_for(launch: Launch, machine: Machine) -> CompiledKernel:
    """Compile a launch's kernel for a machine, once; raises CompileError."""
    return _compiled(_request(launch, machine))


@contextmanager
def compiling_ahead(launches: Iterable[Launch], machine: Machine) -> Iterator[None]:
    """Compile the kernels of launches on other cores while the first are measured already.

    What fails is left to say so in its turn. At the end, what has not begun to compile is dropped.
    """
    requests = dict.fromkeys(_request(launch, machine) for launch in launches)
    # Half of the cores are left to what queues launches, which must not be late.
    pool = ThreadPoolExecutor(max(1, min((os.cpu_count() or 1) // 2, _MOST_COMPILERS)))
    for request in requests:
        pool.submit(_compiled, request)
    try:
        yield
    finally:
        pool.shutdown(cancel_futures=True)


def code_sha256(kernel: CompiledKernel) -> str:
    """Return a digest of a kernel's code: of its PTX without the lines that name files and places in them."""
    lines = (line for line in kernel.ptx.splitlines() if not line.lstrip().startswith((".file", ".loc", "//")))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _request(launch: Launch, machine: Machine) -> CompileRequest:
    return request_for(launch, [machine.compute_capability])


@cache
def _lock_of(_request: CompileRequest) -> threading.Lock:
    return threading.Lock()


@cache
def _compiled_once(request: CompileRequest) -> CompiledKernel:
    return compile_request(request).kernels[0]


def _compiled(request: CompileRequest) -> CompiledKernel:
    """Compile what a request asks for, in one thread only: another waits for its result."""
    with _lock_of(request):
        return _compiled_once(request)
