"""Machine code of our own: checked before it is loaded, kept in one place, and compiled anew where it is not sound."""

import ast
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import llvmlite
import numba
import numpy as np
import pytest
from numba.core import config

from kerncast.compile.cache import Store, cache_place
from kerncast.compile.cache import store as store_module
from kerncast.errors import InputError, MachineLimitError
from kerncast.models import jit_cache
from kerncast.models.sm.simulate import known_answer, simulate, simulator, state, wrong_answer
from tests.helpers.places import FILES, PACKAGE, nodes_of
from tests.helpers.sm_oracle import Oracle
from tests.helpers.weighted_sum import ARGUMENTS, weighted

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")

#: Compiles a small function with numba's cache pointed elsewhere, and prints its result and whether it was loaded.
CHILD = """
import sys
from kerncast.models import jit_cache
from tests.helpers.weighted_sum import ARGUMENTS, weighted
if len(sys.argv) > 1:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
compiled = jit_cache.jitted(weighted, nogil=True)
print(compiled(*ARGUMENTS), sum(compiled.stats.cache_hits.values()))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


@pytest.fixture
def entry(cache: Path) -> Path:
    called()
    (found,) = cache.glob("?/*.entry")
    return found


def called() -> tuple[float, bool]:
    """Return the result of a new function of numba's, and whether its machine code was kept."""
    compiled = jit_cache.jitted(weighted, nogil=True)
    return compiled(*ARGUMENTS), bool(compiled.stats.cache_hits)


def child(*arguments: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    command = [sys.executable, "-c", CHILD, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Let nothing be compiled or unpickled; returns what tells whether the loader refused what is kept."""

    def unpickled(_: bytes) -> None:
        raise AssertionError("what is damaged was unpickled")

    monkeypatch.setattr(jit_cache, "_unpacked", unpickled)
    compiled = jit_cache.jitted(weighted, nogil=True)
    signature = tuple(map(compiled.typeof_pyval, ARGUMENTS))
    return lambda: compiled._cache.load_overload(signature, compiled.targetctx) is None


def test_what_was_compiled_is_loaded(cache: Path) -> None:
    assert not jit_cache.is_ready(jit_cache.jitted(weighted, nogil=True), ARGUMENTS)
    assert called() == (12.0, False)
    assert jit_cache.is_ready(jit_cache.jitted(weighted, nogil=True), ARGUMENTS)
    assert called() == (12.0, True)
    assert Store(cache, 2**28).usage().entries == 1


def test_each_flipped_bit_and_each_cut_is_refused_before_anything_is_loaded(
    entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, random, is_refused = entry.read_bytes(), Random(0), refused(monkeypatch)  # noqa: S311  reproducible
    places = random.sample(range(8 * len(whole)), 500)
    damages = [whole[: at // 8] + bytes([whole[at // 8] ^ 1 << at % 8]) + whole[at // 8 + 1 :] for at in places]
    damages += [whole[:size] for size in (0, 1, 16, 17, 48, 49, len(whole) - 1)] + [whole + b"x", whole[:99] + whole]
    damages += [whole[: random.randrange(len(whole))] for _ in range(100)]
    for damaged in damages:
        entry.parent.mkdir(exist_ok=True)
        entry.write_bytes(damaged)
        entry.chmod(0o600)
        assert is_refused()
        assert not entry.exists()


def test_what_is_damaged_is_compiled_anew_and_kept(entry: Path) -> None:
    entry.write_bytes(entry.read_bytes()[:-1])
    assert called() == (12.0, False)
    assert called() == (12.0, True)


@pytest.mark.parametrize("payload", [b"no zlib", b"x\x9c\x03\x00\x00\x00\x00\x01"], ids=["no zlib", "nothing in zlib"])
def test_a_sound_entry_that_numba_cannot_read_is_compiled_anew(entry: Path, payload: bytes) -> None:
    place = cache_place()
    assert place.folder is not None
    Store(place.folder, place.most_bytes).save(entry.stem, payload)
    assert called() == (12.0, False)
    assert called() == (12.0, True)


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_to_is_refused(entry: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    entry.chmod(mode)
    assert refused(monkeypatch)()


@posix
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_neither_read_nor_written(cache: Path, entry: Path, mode: int) -> None:
    entry_bytes = entry.read_bytes()
    cache.chmod(mode)
    assert [called(), called()] == [(12.0, False)] * 2
    assert entry.read_bytes() == entry_bytes


@posix
def test_a_file_or_a_folder_of_somebody_else_is_refused(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_refused = refused(monkeypatch)
    for foreign in (entry, entry.parents[1]):
        inode = foreign.stat().st_ino
        monkeypatch.setattr(store_module, "is_foreign", lambda found, inode=inode: found.st_ino == inode)
        assert is_refused()


@pytest.mark.parametrize(
    ("name", "value"), [("KERNCAST_CACHE", "off"), ("KERNCAST_CACHE", "/proc/kerncast"), ("KERNCAST_CACHE_MB", "0")]
)
def test_without_a_cache_it_is_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert [called(), called()] == [(12.0, False)] * 2
    assert not cache.exists()


def test_without_a_home_it_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KERNCAST_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "nowhere")
    monkeypatch.setattr(sys, "platform", "linux")
    assert called() == (12.0, False)
    assert list(tmp_path.iterdir()) == []


def test_a_size_that_is_none_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNCAST_CACHE_MB", "lots")
    with pytest.raises(InputError, match="is not a size"):
        called()
    assert not cache.exists()


@posix
def test_a_full_disk_loses_nothing_but_what_would_have_been_kept(cache: Path) -> None:
    assert child("512") == "12.0 0"
    assert list(cache.glob("?/*")) == []
    assert [called(), called()] == [(12.0, False), (12.0, True)]


def test_a_folder_that_cannot_be_written_to_is_still_read(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **_more: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("open", "utime", "replace", "unlink", "mkdir"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, r=real, n=name: r(*a) if n == "open" and is_read(a) else read_only())
    assert called() == (12.0, True)
    monkeypatch.undo()
    monkeypatch.setenv("KERNCAST_CACHE", str(entry.parents[2]))
    entry.unlink()
    monkeypatch.setattr(store_module, "_write", read_only)
    assert called() == (12.0, False)
    assert not entry.exists()


def is_read(arguments: tuple[Any, ...]) -> bool:
    """Whether ``os.open`` is asked to read only."""
    return not arguments[1] & (os.O_WRONLY | os.O_RDWR)


def numba_files() -> set[Path]:
    return {path for kind in ("nbi", "nbc") for path in PACKAGE.parents[1].rglob(f"*.{kind}")}


def test_the_cache_of_numba_is_neither_read_nor_written(cache: Path, tmp_path: Path) -> None:
    before, theirs = numba_files(), tmp_path / "theirs"
    theirs.mkdir()
    assert child(NUMBA_CACHE_DIR=str(theirs), NUMBA_CACHE_LOCATOR_CLASSES="no.such.Locator") == "12.0 0"
    assert (list(theirs.iterdir()), numba_files()) == ([], before)
    assert called() == (12.0, True), "what one process keeps another one loads, whatever numba's settings for a cache"
    assert len(list(cache.glob("?/*.entry"))) == 1


def test_the_key_is_of_everything_that_decides_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class Codegen:
        def __init__(self, *facts: str) -> None:
            self.facts = facts

        def magic_tuple(self) -> tuple[str, ...]:
            return self.facts

    here = Codegen("x86_64", "znver4", "+avx2")

    def key(codegen: Codegen = here, signature: str = "(int64,)", **options: Any) -> str:
        return jit_cache.KeptCode(weighted, options).key(signature, codegen)

    keys = [key(), key(signature="(float64,)"), key(nogil=True)]
    keys += [key(Codegen("x86_64", "skylake", "+avx2")), key(Codegen("x86_64", "znver4", ""))]
    for of, name in (
        (numba, "__version__"), (llvmlite, "__version__"), (np, "__version__"), (sys, "version"),
        (jit_cache, "__version__"), (config, "OPT"), (jit_cache, "_FORMAT"),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(of, name, "9.9")
            keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda _self: b"changed")
        keys.append(key())
    assert len(set(keys)) == len(keys) == 13
    assert key() == keys[0]


def test_what_is_compiled_is_compiled_again_when_any_of_its_files_changes() -> None:
    folder = Path(simulator.__file__).parent
    found = set(jit_cache.made_of(folder / "sm_loop.py"))
    own = {folder / name for name in ("__init__.py", "simulator.py", "known_answer.py")}
    assert set(folder.glob("*.py")) - own <= found
    assert {
        folder.parent / "micro_ops.py",
        folder.parent / "results.py",
        folder.parents[2] / "traces" / "execution.py",
    } <= found


#: What numba writes code by, beside ``cache=True``: its own cache, and its compiler ahead of time.
_OTHER_WAYS = {
    "enable_caching",
    "FunctionCache",
    "IndexDataCacheFile",
    "make_library_cache",
    "pycc",
    "cfunc",
    "vectorize",
}
_MAY_COMPILE = {"jit_cache.py", "state.py"}


def test_numba_keeps_nothing_by_itself() -> None:
    wrong = []
    for path in FILES:
        for node in nodes_of(path) if "numba" in path.read_text(encoding="utf-8") else ():
            names = {getattr(node, field, None) for field in ("attr", "id", "name", "module")}
            is_asked = isinstance(node, ast.keyword) and node.arg == "cache" and ast.unparse(node.value) == "True"
            if is_asked or names & _OTHER_WAYS or (names & {"jit", "njit"} and path.name not in _MAY_COMPILE):
                wrong.append(f"{path.name}: {ast.unparse(node)}")
    assert wrong == []


def test_the_known_answer_is_that_of_the_simulation_cycle_by_cycle() -> None:
    case = known_answer.program(), known_answer.trace(), known_answer.sm(), known_answer.RESIDENT
    oracle = Oracle(*case).run()
    stalls = sum(map(sum, oracle.stalls))
    sectors = oracle.l2_read + oracle.l2_write
    finish = tuple(map(float, oracle.finish))
    expected = known_answer.Answer(finish, oracle.issued, stalls, oracle.l1_hits, sectors, oracle.dram_sectors)
    assert expected == known_answer.KNOWN
    assert wrong_answer() is None


def test_another_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_answer, "simulate", lambda program, trace, sm, _: simulate(program, trace, sm, 1))
    assert "in place of Answer(finish_cycles=(696.0, 1156.0, 1681.0)" in str(wrong_answer())


def test_only_memory_for_its_tables_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A MemoryError of code that is broken is no word about this machine's memory."""

    def missing(*_: object) -> None:
        raise MemoryError

    case = known_answer.program(), known_answer.trace(), known_answer.sm(), 1
    with monkeypatch.context() as patch:
        patch.setattr(state, "state_of", missing)
        with pytest.raises(MachineLimitError, match="needs more memory than is free"):
            simulate(*case)
    monkeypatch.setattr(simulator, "_loop", lambda: missing)
    with pytest.raises(MemoryError):
        simulate(*case)
