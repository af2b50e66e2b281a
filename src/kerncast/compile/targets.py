"""The choice of an NVRTC for each architecture, with a caveat where it compiles for another one."""

import re
from dataclasses import dataclass

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile.nouns import CompileRequest
from kerncast.compile.nvrtc import library_paths, wheel
from kerncast.errors import CompileError

#: Architectures that NVRTC 12.9 and 11.8 compile for (nvrtcGetSupportedArchs).
_CUDA12 = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121)
_CUDA11_ONLY = (35, 37)
#: Thor's architecture was sm_101 before CUDA 13.
_RENAMED = {110: 101}
#: Architectures with instructions that only code for exactly them may hold, as for GPUs that are known it does.
_SPECIFIC = (90, 100, 101, 103, 120, 121)
_OLDEST = 30
_FALLBACK = 50

_ARCHITECTURE = re.compile(r"(?:sm_|compute_)?(\d+)([af]?)")
_CAPABILITY = re.compile(r"(\d+)\.(\d)")


@dataclass(frozen=True, slots=True)
class Target:
    """The architecture and the NVRTC by which one architecture is compiled for."""

    architecture: str
    """architecture asked for, such as sm_30"""
    compiled_for: str
    """architecture that NVRTC compiles for, such as sm_35"""
    toolkit: int
    """major version of NVRTC: 11 or 12"""
    options: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    @property
    def number(self) -> int:
        """The number of the architecture compiled for, such as 70."""
        return int(self.compiled_for.removeprefix("sm_").rstrip("af"))


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One job of the compiler's process."""

    request: CompileRequest
    targets: tuple[Target, ...]


def architecture_for(compute_capability: str) -> Target:
    """Decide how to compile for a compute capability (``7.0``) or an architecture (``sm_70``).

    >>> architecture_for("8.6").compiled_for
    'sm_86'
    """
    text = compute_capability.strip()
    capability = _CAPABILITY.fullmatch(text)
    match = _ARCHITECTURE.fullmatch(capability[1] + capability[2] if capability else text)
    if match is None:
        raise CompileError(
            f"{compute_capability!r} is not an architecture",
            cure="Write it as sm_70 or as the compute capability 7.0.",
        )
    number, suffix = int(match[1]), match[2]
    name = f"sm_{number}{suffix}"
    if number < _OLDEST:
        raise CompileError(
            f"{name} is older than Kepler, and no compiler that can be installed from a wheel makes code for it",
            cure=f"Choose sm_{_OLDEST} or newer.",
        )
    if number in _CUDA12 or number in _RENAMED:
        compiled = _RENAMED.get(number, number)
        return Target(name, f"sm_{compiled}{suffix or 'a' * (compiled in _SPECIFIC)}", toolkit=12)
    return _kepler(number) if number < _FALLBACK else _nearest(number)


def _kepler(number: int) -> Target:
    name = f"sm_{number}"
    if library_paths(11) is None:
        fallback = f"sm_{_FALLBACK}"
        caveat = Caveat.of(CaveatKind.COMPILED_WITHOUT_KEPLER, name, compiled_for=fallback, wheel=wheel(11))
        return Target(name, fallback, toolkit=12, caveats=(caveat,))
    if number in _CUDA11_ONLY:
        return Target(name, name, toolkit=11)
    # sm_30 allows 63 registers per thread, sm_32 and newer 255 (CUDA C++ Programming Guide, technical specifications).
    if number == _OLDEST:
        caveat = Caveat.of(CaveatKind.COMPILED_WITH_FEWER_REGISTERS, name, compiled_for="sm_35", registers=63)
        return Target(name, "sm_35", toolkit=11, options=("-maxrregcount=63",), caveats=(caveat,))
    caveat = Caveat.of(CaveatKind.COMPILED_FOR_OTHER_KEPLER, name, compiled_for="sm_35")
    return Target(name, "sm_35", toolkit=11, caveats=(caveat,))


def _nearest(number: int) -> Target:
    nearest = max(known for known in _CUDA12 if known < number)
    caveat = Caveat.of(CaveatKind.COMPILED_FOR_NEAREST, f"sm_{number}", compiled_for=f"sm_{nearest}")
    return Target(f"sm_{number}", f"sm_{nearest}", toolkit=12, caveats=(caveat,))
