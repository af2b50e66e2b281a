"""Machine code that numba makes of our functions, kept in the store of compiled kernels and nowhere else.

numba's own cache is pickle without a checksum, in a folder that anybody may own. Here nothing is unpickled or loaded
before the store has found it whole (SHA-256) and ours (owner, and nobody else may write to it).
"""

import hashlib
import pickle
import re
import sys
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import compiler, config, serialize
from numba.core.dispatcher import Dispatcher

import kerncast
from kerncast.compile.cache import Store, cache_place
from kerncast.version import __version__

# How numba asks for compiled code is its interface ``numba.core.caching._Cache``, by the names of its methods. The
# checksum protects from damage: a bit that flipped, a file that was cut. The owner rule protects from other people, who
# can make a checksum, too. What is stored is pickle around an object file: whoever may write it may run code, with
# pickle or without.

#: Version of what is stored; that of another one counts as absent.
_FORMAT = 1
#: Nothing that is compiled here is larger: the simulator takes 2 MB.
_MOST_BYTES = 64 * 2**20
_LEVEL = 6
#: Settings of numba's that change the code which it makes, from its environment or its file .numba_config.yaml.
_SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "USING_SVML", "DEBUGINFO_DEFAULT")
#: What numba, LLVM and pickle raise for content that they do not know; it was whole, so that they have changed.
_UNKNOWN = (
    zlib.error, pickle.UnpicklingError, EOFError, ImportError, AttributeError, LookupError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
# What numba has no types for.
_COMPILED: Any = compiler.CompileResult
_DUMPS: Any = serialize.dumps
_IMPORTED = re.compile(r"^\s*from (kerncast\.[\w.]+) import", re.MULTILINE)


def jitted(function: Callable[..., Any], **options: Any) -> Any:
    """Return a function that numba compiles at its first call, unless its machine code is kept.

    ``options`` are numba's. The function's name and all files that its module imports are part of the key.
    """
    compiled: Any = numba.njit(**options)(function)
    if _is_compiled(compiled):
        compiled._cache = KeptCode(function, options)  # noqa: SLF001  numba has no other way to bring a cache along
    return compiled


def is_ready(compiled: Any, arguments: Iterable[object]) -> bool:
    """Tell whether the machine code for such arguments is loaded or kept."""
    if not _is_compiled(compiled) or compiled.signatures:
        return True
    store = _store()
    return store is not None and store.holds(_key_of(compiled, arguments))


def hand_on(compiled: Any, arguments: Iterable[object], store: Store) -> None:
    """Copy the machine code for such arguments, where it is kept, into another store."""
    kept = _store()
    if kept is not None and _is_compiled(compiled):
        key = _key_of(compiled, arguments)
        payload = kept.load(key)
        if payload is not None:
            store.save(key, payload)


def _is_compiled(function: object) -> bool:
    """Whether numba compiles a function: ``NUMBA_DISABLE_JIT`` leaves it as it is."""
    return isinstance(function, Dispatcher)


def _key_of(compiled: Any, arguments: Iterable[object]) -> str:
    kept: KeptCode = compiled._cache  # noqa: SLF001  ours
    return kept.key(tuple(map(compiled.typeof_pyval, arguments)), compiled.targetctx.codegen())


class KeptCode:
    """The machine code of one function, for each type of arguments: what numba takes for a cache of its own."""

    cache_path = None

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        texts = [path.read_bytes() for path in made_of(Path(function.__code__.co_filename))]
        self._facts = (
            str(_FORMAT), function.__module__, function.__qualname__, repr(sorted(options.items())),
            *(hashlib.sha256(text).hexdigest() for text in texts),
            __version__, sys.version, numba.__version__, llvmlite.__version__, np.__version__,
            repr([getattr(config, name, None) for name in _SETTINGS]),
        )  # fmt: skip

    def key(self, signature: object, codegen: Any) -> str:
        """Return a SHA-256 over all that decides the code: our files, versions, settings, CPU and its features."""
        digest = hashlib.sha256()
        for text in (*self._facts, repr(signature), repr(codegen.magic_tuple())):
            digest.update(f"{len(text)} ".encode() + text.encode())
        return digest.hexdigest()

    def load_overload(self, signature: object, context: Any) -> Any:
        """Return what is kept for a signature; None where it is to be compiled."""
        store = _store()
        if store is None:
            return None
        context.refresh()
        key = self.key(signature, context.codegen())
        payload = store.load(key)
        if payload is None:
            return None
        try:
            return _COMPILED._rebuild(context, *_unpacked(payload))  # noqa: SLF001  as numba's own cache does
        except _UNKNOWN:
            store.drop(key)
            return None

    def save_overload(self, signature: object, result: Any) -> None:
        """Keep what numba has compiled, where that is possible."""
        store = _store()
        # Such code holds addresses of this process.
        if store is None or result.lifted or result.library.has_dynamic_globals:
            return
        data = _DUMPS(result._reduce())  # noqa: SLF001  as numba's own cache does
        store.save(self.key(signature, result.codegen), zlib.compress(data, _LEVEL))

    def enable(self) -> None:
        """Do nothing: ``KERNCAST_CACHE`` says whether anything is kept."""

    disable = flush = enable


def _store() -> Store | None:
    place = cache_place()
    return None if place.folder is None else Store(place.folder, place.most_bytes)


def _unpacked(payload: bytes) -> tuple[Any, ...]:
    """Return what a payload holds that the store has found whole and ours."""
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(payload, _MOST_BYTES)
    if not unpacker.eof:
        raise ValueError("the machine code goes on for too long, or ends too soon")
    found: tuple[Any, ...] = pickle.loads(data)  # noqa: S301  checked by the store, as the top of this file says
    return found


def made_of(file: Path) -> list[Path]:
    """Return a file of this package and all files of it that its import statements lead to, however far."""
    root = Path(kerncast.__path__[0]).parent
    found, left = {file}, [file]
    while left:
        for name in _IMPORTED.findall(left.pop().read_text(encoding="utf-8")):
            place = root.joinpath(*name.split("."))
            for each in (place.with_suffix(".py"), place / "__init__.py"):
                if each not in found and each.is_file():
                    found.add(each)
                    left.append(each)
    return sorted(found)
