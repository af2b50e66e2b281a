"""Machine code to text, by NVIDIA's disassembler from a wheel: no driver and no toolkit is needed.

The wheel nvidia-cuda-nvdisasm is optional (extra ``sass``) and knows sm_75 and newer. It runs as a child process with
a limit on time: the machine code comes from a user's source.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from kerncast.compile.headers import package_folders
from kerncast.compile.sass import MachineRoutine, parse_listing

WHEEL = "nvidia-cuda-nvdisasm"
#: The wheel refuses older machine code ("deprecated").
_FIRST_ARCHITECTURE = 75
_SECONDS = 30.0
#: The largest program of the suite has 0.1 MiB; a listing is about 20 times as long.
_MOST_BYTES = 8 * 2**20
_MOST_TEXT = 256 * 2**20
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Disassembly:
    """The routines of one cubin, or why there are none."""

    routines: Mapping[str, MachineRoutine] = field(default_factory=dict)
    """by mangled name"""
    problem: str = ""
    """empty where it succeeded"""


def disassembler() -> Path | None:
    """Return the path of nvdisasm, or None where its wheel is not installed."""
    name = "nvdisasm.exe" if sys.platform == "win32" else "nvdisasm"
    paths = (folder / "bin" / name for folder in package_folders("nvidia.cu13"))
    return next((path for path in paths if path.is_file()), None)


@lru_cache(maxsize=32)
def disassemble(cubin: bytes, architecture: str) -> Disassembly:
    """Return the machine code of a cubin; what goes wrong is in the reply, as an estimate can take its place."""
    program = disassembler()
    number = int("".join(filter(str.isdigit, architecture)) or 0)
    if program is None:
        return Disassembly(problem=f"{WHEEL} is not installed")
    if number < _FIRST_ARCHITECTURE:
        return Disassembly(problem=f"there is no disassembler for {architecture}")
    if not 0 < len(cubin) <= _MOST_BYTES:
        return Disassembly(problem=f"{len(cubin)} bytes of machine code are none, or too many")
    try:
        routines = parse_listing(_listing(program, cubin))
    except subprocess.TimeoutExpired:
        return Disassembly(problem=f"the disassembler did not end within {_SECONDS:g} s")
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return Disassembly(problem=f"the disassembler failed: {said.strip()[:_LONGEST_REASON]}")
    return Disassembly(routines) if routines else Disassembly(problem="the disassembler's output holds no code")


def _listing(program: Path, cubin: bytes) -> str:
    """Run nvdisasm on a file of its own; ``-gp`` asks for the lines of the PTX."""
    with tempfile.TemporaryDirectory(prefix="kerncast-") as folder:
        code, text = Path(folder) / "code.cubin", Path(folder) / "listing"
        code.write_bytes(cubin)
        with text.open("wb") as out:
            subprocess.run(  # noqa: S603  the program of a wheel, on a file of ours
                [str(program), "-c", "-gp", str(code)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=_SECONDS,
                check=True,
                text=True,
                errors="replace",
                env={
                    name: value for name, value in os.environ.items() if name in {"SYSTEMROOT", "TEMP", "TMP", "TMPDIR"}
                },
            )
        with text.open(encoding="utf-8", errors="replace") as listing:
            return listing.read(_MOST_TEXT)
