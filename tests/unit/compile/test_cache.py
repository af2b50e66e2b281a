"""Compiling with the cache: the same result in every field, and a new compilation whenever something changes."""

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerncast.child_process import Ended, ask
from kerncast.compile import (
    CompiledKernel,
    CompileRequest,
    Limits,
    architecture_for,
    compile_request,
    compiler,
)
from kerncast.compile.cache import Store, cache_place, remembered
from kerncast.compile.nouns import CompileReply, KernelReply
from kerncast.compile.targets import CompileJob
from kerncast.errors import CompileError
from kerncast.typed_json import from_json, to_json
from tests.helpers.profiles import RESOURCES

SOURCE = """#include "wide.h"
#include <absent_on_purpose.h>
#pragma that_no_compiler_knows
template <int N> __global__ void k(WIDE *p) { p[threadIdx.x] = N + ADD; }
template <int N> __global__ void other(WIDE *p) { p[threadIdx.x] = N; }
void host(float *p) { k<3><<<1, 32>>>(p); }
"""
REQUEST = CompileRequest(Path("k.cu"), ("sm_70",), kernel="k<3>", defines=(("ADD", "4"),), include_dirs=(Path("inc"),))

Counted = list[dict[str, Any]]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out a source with a header, and a cache of its own."""
    (tmp_path / "inc").mkdir()
    (tmp_path / "k.cu").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "inc" / "wide.h").write_text("#define WIDE float\n", encoding="utf-8")
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "k.cu"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return the requests that reach a compiler's process from now on."""
    requests: Counted = []

    def counting(module: str, request: dict[str, Any], **more: Any) -> Ended:
        requests.append(request)
        return ask(module, request, **more)

    monkeypatch.setattr(compiler, "ask", counting)
    return requests


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Answer instead of a compiler, in no time, and return what was asked for."""
    requests: Counted = []

    def answering(_module: str, request: dict[str, Any], **_more: Any) -> Ended:
        requests.append(request)
        text = Path(request["source"]).read_text(encoding="utf-8")
        targets = from_json(CompileJob, request["job"]).targets
        kernels = (CompiledKernel("k", "k", each.architecture, text, RESOURCES, None) for each in targets)
        return Ended({"result": to_json(CompileReply(tuple(KernelReply(each, (), ()) for each in kernels)))}, 0, "")

    monkeypatch.setattr(compiler, "ask", answering)
    return requests


def request_for(source: Path, **changes: Any) -> CompileRequest:
    return replace(REQUEST, source=source, include_dirs=(source.parent / "inc",), **changes)


def entries() -> list[Path]:
    folder = cache_place().folder
    assert folder is not None
    return list(folder.rglob("*.entry"))


def test_what_is_remembered_equals_what_is_compiled_in_every_field(source: Path, asked: Counted) -> None:
    request = request_for(source, architectures=("sm_70", "sm_90"))
    plain = compile_request(request, use_cache=False)
    assert entries() == []
    first, second = compile_request(request), compile_request(request)
    assert first == second == plain
    assert plain.log
    assert "absent_on_purpose.h" in [caveat.subject for caveat in plain.kernels[0].caveats]
    assert plain.kernels[0].cubin == second.kernels[0].cubin != b""
    assert plain.kernels[0].signature == second.kernels[0].signature is not None
    assert (len(asked), len(entries())) == (2, 2)


def test_only_the_architecture_that_is_missing_is_compiled(source: Path, asked: Counted) -> None:
    one = compile_request(request_for(source, architectures=("sm_80",)))
    both = compile_request(request_for(source, architectures=("sm_90", "sm_80", "sm_90")))
    jobs = [from_json(CompileJob, each["job"]) for each in asked]
    assert [[each.architecture for each in job.targets] for job in jobs] == [["sm_80"], ["sm_90"]]
    assert [kernel.architecture for kernel in both.kernels] == ["sm_90", "sm_80", "sm_90"]
    assert both.kernels[1] == one.kernels[0]


CHANGES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "a byte of the source": lambda folder: write(folder / "k.cu", SOURCE + " "),
    "a byte of a header": lambda folder: write(folder / "inc" / "wide.h", "#define WIDE float \n"),
    "a header before the one that was read": lambda folder: write(folder / "wide.h", "#define WIDE int\n"),
    "a header that was missing": lambda folder: write(folder / "inc" / "absent_on_purpose.h", ""),
    "a header before one of a wheel": lambda folder: write(folder / "cuda_fp16.h", ""),
    "a header that went away": lambda folder: remove(folder / "inc" / "wide.h"),
    "a macro": lambda _folder: {"defines": (("ADD", "5"),)},
    "one more macro": lambda _folder: {"defines": (("ADD", "4"), ("X", ""))},
    "the order of macros": lambda _folder: {"defines": (("X", "1"), ("ADD", "4"))},
    "a folder": lambda folder: {"include_dirs": (folder / "inc", folder)},
    "the order of folders": lambda folder: {"include_dirs": (folder, folder / "inc")},
    "the standard": lambda _folder: {"standard": "c++14"},
    "fast mathematics": lambda _folder: {"fast_math": True},
    "the kernel": lambda _folder: {"kernel": "k<4>"},
    "the architecture": lambda _folder: {"architectures": ("sm_75",)},
}


def write(path: Path, text: str) -> dict[str, Any]:
    path.write_text(text, encoding="utf-8")
    return {}


def remove(path: Path) -> dict[str, Any]:
    path.unlink()
    return {}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_anything_compiles_anew(source: Path, fake: Counted, what: str) -> None:
    compile_request(request_for(source))
    compile_request(request_for(source))
    assert len(fake) == 1
    changes = CHANGES[what](source.parent)
    compile_request(replace(request_for(source), **changes))
    assert len(fake) == 2


def test_limits_change_nothing(source: Path, fake: Counted) -> None:
    compile_request(request_for(source))
    compile_request(request_for(source, limits=Limits(seconds=5)))
    assert len(fake) == 1


@pytest.mark.parametrize("name", ["FORMAT", "__version__", "_code_digest", "_versions", "library_paths"])
def test_another_version_of_anything_compiles_anew(
    source: Path, fake: Counted, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    remembered._tools.cache_clear()
    compile_request(request_for(source))
    remembered._tools.cache_clear()
    compile_request(request_for(source))
    assert len(fake) == 1
    other = {
        "FORMAT": 2,
        "__version__": "9.9",
        "_code_digest": lambda: "other",
        "_versions": lambda: iter([("libclang", "1.0")]),
        "library_paths": lambda _major: (source,),
    }[name]
    monkeypatch.setattr(remembered, name, other)
    remembered._tools.cache_clear()
    compile_request(request_for(source))
    remembered._tools.cache_clear()
    assert len(fake) == 2


def test_a_relative_path_means_another_file_elsewhere(
    source: Path, fake: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = source.parent / "elsewhere"
    (elsewhere / "inc").mkdir(parents=True)
    for name in ("k.cu", "inc/wide.h"):
        (elsewhere / name).write_bytes((source.parent / name).read_bytes())
    for folder in (source.parent, elsewhere, source.parent):
        monkeypatch.chdir(folder)
        compile_request(REQUEST)
    assert len(fake) == 2


def test_a_source_that_changes_while_it_is_compiled_is_not_remembered(
    source: Path, fake: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering = vars(compiler)["ask"]

    def changing(module: str, request: dict[str, Any], **more: Any) -> Ended:
        write(source.parent / "inc" / "wide.h", "#define WIDE double\n")
        ended: Ended = answering(module, request, **more)
        return ended

    monkeypatch.setattr(compiler, "ask", changing)
    compile_request(request_for(source))
    assert (len(fake), entries()) == (1, [])


@pytest.mark.parametrize("line", ["#define NAME <wide.h>\n#include NAME\n", "// __TIME__\n"])
def test_what_cannot_be_known_is_not_remembered(source: Path, fake: Counted, line: str) -> None:
    write(source, line + SOURCE)
    for _ in range(2):
        compile_request(request_for(source))
    assert (len(fake), entries()) == (2, [])


def test_errors_are_not_remembered(source: Path, asked: Counted) -> None:
    for _ in range(2):
        with pytest.raises(CompileError, match="no kernel 'missing'"):
            compile_request(request_for(source, kernel="missing"))
    assert (len(asked), entries()) == (2, [])


def test_a_missing_header_that_only_a_wheel_names_is_not_remembered(
    source: Path, fake: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering = vars(compiler)["ask"]

    def emptying(module: str, request: dict[str, Any], **more: Any) -> Ended:
        ended: Ended = answering(module, request, **more)
        (kernel,) = from_json(CompileReply, ended.reply["result"]).kernels
        emptied = CompileReply((replace(kernel, emptied=("inside/a/wheel.h",)),))
        return replace(ended, reply={"result": to_json(emptied)})

    monkeypatch.setattr(compiler, "ask", emptying)
    compile_request(request_for(source))
    assert (len(fake), entries()) == (1, [])


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"no zlib", zlib.compress(b"no JSON"), zlib.compress(b"[]"), zlib.compress(b"{}"), zlib.compress(b"\xff"),
        zlib.compress(b'{"kernel": 1}')[:-3], zlib.compress(b"[" * 200_000), zlib.compress(b" " * (129 * 2**20), 1),
    ],
    ids=range(9),
)  # fmt: skip
def test_an_entry_that_cannot_be_read_is_compiled_anew(source: Path, fake: Counted, payload: bytes) -> None:
    first = compile_request(request_for(source))
    (path,) = entries()
    place = cache_place()
    assert place.folder is not None
    Store(place.folder, place.most_bytes).save(path.stem, payload)
    assert compile_request(request_for(source)) == first
    assert len(fake) == 2
    assert compile_request(request_for(source)) == first
    assert len(fake) == 2


@pytest.mark.parametrize("where", ["off", "/proc/kerncast", "k.cu/below/a/file"])
def test_without_a_place_everything_works(
    source: Path, fake: Counted, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(source.parent)
    monkeypatch.setenv("KERNCAST_CACHE", where)
    for _ in range(2):
        assert compile_request(request_for(source)).kernels[0].ptx == SOURCE
    assert len(fake) == 2


def test_the_key_holds_every_field_of_a_request(source: Path) -> None:
    """A field that is added later counts without a thought; these do not, and why is known."""
    assert remembered._IRRELEVANT == ("limits", "architectures")
    target = architecture_for("sm_35")
    key = remembered.entry_key(request_for(source), target, "")
    assert key == remembered.entry_key(request_for(source), target, "")
    assert key != remembered.entry_key(request_for(source), replace(target, options=("-x",)), "")
    assert key != remembered.entry_key(request_for(source), replace(target, caveats=()), "") or not target.caveats
    assert json.dumps(key)
