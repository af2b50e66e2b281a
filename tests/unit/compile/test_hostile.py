"""Sources that try to hang, crash or starve the compiler end as a CompileError of the parent."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from kerncast import child_process
from kerncast.child_process import Ended
from kerncast.compile import Limits, compile_source, compiler
from kerncast.errors import CompileError
from tests.helpers.inspection import kernels_of

pytestmark = pytest.mark.usefixtures("own_compiler_process")

KERNEL = "__global__ void k(int *p) { *p = 1; }\n"
GIB = 2**30

HOSTILE = {
    "a header without end": '#include "/dev/zero"\n' + KERNEL,
    "a random header without end": '#include "/dev/urandom"\n' + KERNEL,
    "a header that includes itself": '#include "k.cu"\n' + KERNEL,
    "a folder as a header": '#include "/"\n' + KERNEL,
    "templates without end": (
        "template <int N> struct A { static constexpr int v = A<N + 1>::v + A<N + 2>::v; };\n"
        "__global__ void k(int *p) { *p = A<0>::v; }\n"
    ),
    "functions of templates without end": (
        "template <class T> __device__ int f(T t) { return f(&t); }\n__global__ void k(int *p) { *p = f(1); }\n"
    ),
    "macros that double": (
        "#define A0 x x\n"
        + "".join(f"#define A{i + 1} A{i} A{i}\n" for i in range(40))
        + "__global__ void k(int *p) { int x = A40; }\n"
    ),
    "a constant expression without end": (
        "constexpr int f(int n) { while (true) n++; return n; }\n"
        "__global__ void k(int *p) { constexpr int x = f(1); *p = x; }\n"
    ),
    "a huge array in registers": (
        "template <int N> __device__ __forceinline__ void f(int *p) { f<N - 1>(p); f<N - 2>(p); p[N]++; }\n"
        "template <> __device__ void f<1>(int *) {}\ntemplate <> __device__ void f<0>(int *) {}\n"
        "__global__ void k(int *p) { f<40>(p); }\n"
    ),
    "a text that never ends": '__global__ void k(int *p) { const char *s = "' + "x" * 100_000,
    "a zero byte": "__global__ void k(int *p)\0 { *p = 1; }\n",
    "an unfinished comment": KERNEL + "/* ",
    "an unfinished condition": "#if 1\n__global__ void k(int *p) { *p = nothing; }\n",
    "no text at all but brackets": "}}}}}}))))",
    "assembly that is none": '__global__ void k(int *p) { asm("nonsense.u32 %0;" : "=r"(*p)); }\n',
    "a kernel in a kernel": "__global__ void k(int *p) { __global__ void q(int *r); q<<<1, 1>>>(p); }\n",
    "an error of the user's": "#error stop here\n" + KERNEL,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_source_is_an_error(tmp_path: Path, what: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(HOSTILE[what], encoding="utf-8")
    begin = time.monotonic()
    with pytest.raises(CompileError) as caught:
        compile_source(path, architectures=["sm_70"], limits=Limits(seconds=1, memory_bytes=2 * GIB))
    assert time.monotonic() - begin < 60
    message = str(caught.value)
    assert str(path) in message
    assert len(message) < 5000


@pytest.mark.parametrize(
    "body", ["*p = " + "(" * 200_000 + "1" + ")" * 200_000 + ";", "{" * 100_000 + "}" * 100_000, "*p += 1;" * 20_000]
)
def test_an_extreme_but_valid_source_is_compiled_or_an_error(tmp_path: Path, body: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(f"__global__ void k(int *p) {{ {body} }}\n", encoding="utf-8")
    try:
        compiled = compile_source(path, architectures=["sm_70"], limits=Limits(seconds=3))
    except CompileError:
        return
    assert compiled.kernels[0].mangled == "_Z1kPi"


def test_a_pipe_as_a_header_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    monkeypatch.setattr(child_process, "_WALL_PER_CPU_SECOND", 1.0)
    os.mkfifo(tmp_path / "pipe.h")
    path = tmp_path / "k.cu"
    path.write_text('#include "pipe.h"\n' + KERNEL, encoding="utf-8")
    with pytest.raises(CompileError, match="did not end within 1 s"):
        compile_source(path, architectures=["sm_70"], limits=Limits(seconds=1))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_bytes(bytes(range(1, 256)) * 50)
    with pytest.raises(CompileError):
        compile_source(path, architectures=["sm_70"])


def test_latin_1_in_comments_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    host = 'void h() { k<<<1, 2>>>("\xf6"); }\n'.encode("latin-1")
    path.write_bytes(b"// Gr\xf6\xdfe\n" + KERNEL.encode() + host)
    assert [each.name for each in kernels_of(path)] == ["k"]
    assert compile_source(path, architectures=["sm_70"]).kernels[0].mangled == "_Z1kPi"


def test_a_byte_order_mark_and_windows_lines_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_bytes(b"\xef\xbb\xbf#include <cstdio>\r\nint host() {\r\n return 1; }\r\n" + KERNEL.encode())
    assert compile_source(path, architectures=["sm_70"]).kernels[0].mangled == "_Z1kPi"


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_bytes(b"// " + b"x" * (16 * 2**20))
    with pytest.raises(CompileError, match="it holds more than 16 MiB"):
        compile_source(path, architectures=["sm_70"])


@pytest.mark.parametrize(
    "reply",
    [
        [], 5, "error", {}, {"result": None}, {"result": {}}, {"result": {"CompileReply": 1}}, {"error": "none"},
        {"result": {"CompileReply": [[]]}}, {"result": {"CompileReply": [[{"KernelReply": [1, [], []]}]]}},
        {"error": [1, 2, 3]}, {"error": []},
    ],
)  # fmt: skip
def test_a_broken_child_is_an_error_with_a_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: Any) -> None:
    monkeypatch.setattr(compiler, "ask", lambda *_args, **_more: Ended(reply, 0, ""))
    (tmp_path / "k.cu").write_text(KERNEL, encoding="utf-8")
    with pytest.raises(CompileError, match=r"cannot be read.*kerncast doctor"):
        compile_source(tmp_path / "k.cu", architectures=["sm_70"])
