"""The compilers of kernels in Python that are here: each is told of the recorder before a script begins."""

import ast
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

from kerncast.errors import InputError
from kerncast.scripts.benchmarks import Benchmarks
from kerncast.scripts.recorder import Recorder

_CURES = {
    "triton": "Install it: pip install 'kerncast[triton]'.",
    "torch": "Install it: pip install torch; its CPU build is enough.",
}
_PLAIN = frozenset({"numpy", "math", "sys", "os", "time", "functools", "itertools", "pathlib", "json", "numba", "cupy"})
#: A script that imports only these needs no torch, and no Triton.
_WITHOUT_TORCH, _WITHOUT_TRITON = _PLAIN | {"triton"}, _PLAIN


def install(text: str, recorder: Recorder, benchmarks: Benchmarks) -> None:
    """Make the recorder the GPU of all front ends that a script may use; raises InputError for one that is not here."""
    named = _imported(text)
    for name, cure in _CURES.items():
        if name in named and find_spec(name) is None:
            raise InputError(f"the script imports {name}, which is not installed", cure=cure)
    if "cupy" in named:
        from kerncast.scripts.cupy_kernels import install as install_cupy  # noqa: PLC0415  few scripts need it

        install_cupy(recorder)
    if "numba" in named:
        from kerncast.scripts.numba_kernels import install as install_numba  # noqa: PLC0415  loads Numba

        install_numba(recorder)
    if named - _WITHOUT_TORCH and find_spec("torch") is not None:
        from kerncast.scripts.cuda_face import wear  # noqa: PLC0415  loads torch

        wear(recorder.shared.settings.gpu, recorder.note_asked, benchmarks)
    if named - _WITHOUT_TRITON and find_spec("triton") is not None:
        from kerncast.scripts.triton_driver import activate, know_by_files  # noqa: PLC0415  loads Triton

        activate(recorder, benchmarks)
        know_by_files()


def _imported(text: str) -> set[str]:
    """Return the packages that a script imports somewhere; none where it is no Python, as running it will tell."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}


@contextmanager
def installed(recorder: Recorder, benchmarks: Benchmarks) -> Iterator[None]:
    """Make the recorder the GPU of the front ends that the program has loaded, for a time."""
    with ExitStack() as stack:
        if "triton" in sys.modules:
            from kerncast.scripts.triton_driver import activated  # noqa: PLC0415  loads Triton

            stack.enter_context(activated(recorder, benchmarks))
        if "numba.cuda.dispatcher" in sys.modules:
            from kerncast.scripts.numba_kernels import installed as installed_numba  # noqa: PLC0415  loads Numba

            stack.enter_context(installed_numba(recorder))
        yield
