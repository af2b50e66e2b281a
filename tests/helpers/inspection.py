"""The kernels that a source defines, as the compiler's child process reads them."""

from pathlib import Path

from kerncast.compile import CompileRequest, KernelSignature, tasks


def kernels_of(source: Path | str) -> tuple[KernelSignature, ...]:
    """Return the kernels of a source; raises CompileError."""
    request = CompileRequest(Path(source), ())
    found = tasks._analyse(request, 80, tasks._read(str(source))).signatures
    assert found is not None
    return found
