"""The whole check-up: what is required, what is optional, what this machine offers."""

import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import kerncast
from kerncast.checkup.toolchain import toolchain_report
from kerncast.child_process import EndedError, Room, alone, is_possible
from kerncast.compile import ToolStatus
from kerncast.compile.cache import cache_place, cache_report
from kerncast.compile.cache.store import FOLDER_VARIABLE, store_in
from kerncast.errors import KerncastError
from kerncast.requirements import (
    Requirement,
    fits,
    how_to_install,
    installed_version,
    is_importable,
    package_at_fault,
    requirements,
)
from kerncast.units import GIGA, format_bytes, format_seconds

#: Memory that a forecast of a small kernel was seen to need, compiler and simulator together.
_LEAST_MEMORY_BYTES = 1.0 * GIGA
#: Limits of a container, cgroup versions 2 and 1 (Linux documentation, admin-guide/cgroup-v2 and cgroup-v1/memory).
_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_status() -> ToolStatus:
    """Say how many cores there are, and how much memory."""
    memory = memory_bytes()
    cores = core_count()
    said = f"{cores} core{'s' if cores > 1 else ''}"
    if memory is not None:
        said += f", {format_bytes(memory)} of memory"
    if memory is None or memory >= _LEAST_MEMORY_BYTES:
        return ToolStatus("machine", said, True, "everything", None, is_optional=True)
    trouble = f"{said}: large kernels may not compile"
    cure = f"Give the container or the virtual machine {format_bytes(_LEAST_MEMORY_BYTES)} or more."
    return ToolStatus("machine", said, False, "everything", cure, is_optional=True, trouble=trouble)


def core_count() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Return the memory of the machine or its container; None where the system does not say."""
    found = []
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in _LIMIT_FILES:
        with suppress(ValueError, OSError):
            found.append(int(Path(name).read_text(encoding="ascii")))
    return min((each for each in found if each > 0), default=None)


def cache_status() -> ToolStatus:
    """Say where compiled kernels are remembered."""
    name, needed_for = "cache of compiled kernels", "compiling a source once only"
    try:
        report = cache_report()
    except KerncastError as error:
        return ToolStatus(name, None, False, needed_for, error.cure, is_optional=True, trouble=error.what)
    if report.is_used:
        held = f"{format_bytes(report.usage.bytes)} of {format_bytes(report.most_bytes)}"
        return ToolStatus(name, f"{report.folder}, {held}", True, needed_for, None, is_optional=True)
    if report.folder is None:
        return ToolStatus(name, report.why_not, True, needed_for, None, is_optional=True)
    cure = "Name a folder that you can write to: export KERNCAST_CACHE=FOLDER"
    trouble = f"{report.folder}: {report.why_not}"
    return ToolStatus(name, None, False, needed_for, cure, is_optional=True, trouble=trouble)


_OLDEST_PYTHON = (3, 11)


def python_status() -> ToolStatus:
    """Say whether this Python is new enough."""
    wanted = ".".join(map(str, _OLDEST_PYTHON))
    found = sys.version_info[:2] >= _OLDEST_PYTHON
    cure = None if found else f"Install Python {wanted} or newer, and kerncast with it."
    trouble = None if found else f"{wanted} or newer is needed"
    return ToolStatus("Python", platform.python_version(), found, "everything", cure, trouble=trouble)


def package_statuses(known: Collection[str]) -> tuple[ToolStatus, ...]:
    """Say of each required package, without those that are known already, whether it is there."""
    wanted = [each for each in requirements() if each.extra is None and each.name not in known]
    return tuple(_status(each) for each in wanted)


def _status(wanted: Requirement) -> ToolStatus:
    version = installed_version(wanted.name)
    trouble, command = None, wanted.command
    if version is not None and not fits(version, wanted.versions):
        trouble = f"version {version} is installed, and {wanted.versions} is needed"
    elif version is not None and not is_importable(wanted.module):
        trouble = f"version {version} is installed, but Python does not find {wanted.module}"
        command += " --force-reinstall"
    if version is not None and trouble is None:
        return ToolStatus(wanted.name, version, True, "everything", None)
    cure = f"Install {wanted.name}: {command}"
    return ToolStatus(wanted.name, version, False, "everything", cure, trouble=trouble, command=command)


_NAME, _NEEDED_FOR = "simulator", "the model simulation"


def simulator_status() -> ToolStatus:
    """Say whether numba has compiled the simulator, and whether the cache can keep it."""
    try:
        from kerncast.models.sm.simulate import is_prepared  # noqa: PLC0415  numba may be missing

        cache, is_off = cache_status(), cache_place().folder is None
        prepared = cache.found and is_prepared()
    except (ImportError, OSError, KerncastError) as error:
        package = (package_at_fault(error) if isinstance(error, ImportError) else None) or "numba"
        command = f"{how_to_install(package)} --force-reinstall"
        cure = f"Install {package} anew: {command}"
        return ToolStatus(_NAME, None, False, _NEEDED_FOR, cure, trouble=str(error), command=command)
    if not cache.found:
        trouble = "it cannot be kept, so that every forecast compiles it, some 10 s long"
        return ToolStatus(_NAME, None, False, _NEEDED_FOR, cache.cure, is_optional=True, trouble=trouble)
    said = "compiled" if prepared else _COMPILED_EACH_TIME if is_off else _COMPILED_NOW
    return ToolStatus(_NAME, said, True, _NEEDED_FOR, None, is_optional=True)


_COMPILED_NOW = "compiled now, once"
_COMPILED_EACH_TIME = "compiled by every forecast, some 10 s long, for nothing is remembered"
#: What is kept was checked when it was read: a wrong answer is numba's, LLVM's or the CPU's.
_CLEAR = "kerncast cache --clear"
_KNOWN_CASE = "import sys; from kerncast.models.sm.simulate import wrong_answer; sys.exit(wrong_answer())"


def tried(simulator: ToolStatus) -> ToolStatus:
    """Let the simulator simulate what has a known result, in a process of its own: code that is wrong may end it."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = _child(folder, "-c", _KNOWN_CASE)
    except subprocess.TimeoutExpired:
        trouble = f"a small simulation did not end within {_MOST_SECONDS:.0f} s"
    else:
        if done.returncode == 0:
            said = f"{simulator.version}, and right where the result is known"
            return replace(simulator, version=said) if simulator.found else simulator
        said = done.stderr.strip() or f"it ended with status {done.returncode}"
        trouble = f"a simulation whose result is known failed: {said.splitlines()[-1]}"
    cure = f"Remove what is kept, so that it is compiled anew: {_CLEAR}"
    return ToolStatus(_NAME, None, False, _NEEDED_FOR, cure, trouble=trouble, command=_CLEAR)


_GPU = "TITAN V"
_SOURCE = """__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
_ARGUMENTS = (
    "--kernel", "saxpy", "--grid", "4096", "--block", "256", "--arg", "n=1048576", "--arg", "a=2.0",
    "--arg", "x=f32[1048576] random", "--arg", "y=f32[1048576] zeros", "--gpu", _GPU, "--json", "--quiet",
)  # fmt: skip
#: Most seconds of the forecast; a slow machine compiles the simulator, too.
_MOST_SECONDS = 300.0


def forecast_status() -> ToolStatus:
    """Forecast saxpy on one GPU and say how long that took; the compiler works, whatever the cache holds."""
    name = f"forecast of saxpy on {_GPU}"
    begun = time.monotonic()
    try:
        done = _run()
    except subprocess.TimeoutExpired:
        trouble = f"it did not end within {_MOST_SECONDS:.0f} s"
        return ToolStatus(name, None, False, "every source", None, trouble=trouble)
    took = format_seconds(time.monotonic() - begun, 2)
    try:
        seconds = json.loads(done.stdout)["predictions"][0]["seconds"]
    except (ValueError, LookupError, TypeError):
        said = done.stderr.strip() or f"it ended with status {done.returncode}"
        trouble = said.splitlines()[-1].removeprefix("kerncast: ")
        return ToolStatus(name, None, False, "every source", None, trouble=trouble)
    return ToolStatus(name, f"{format_seconds(seconds)}, made in {took}", True, "every source", None)


def _run() -> subprocess.CompletedProcess[str]:
    """Forecast with an empty cache, but for the simulator's machine code."""
    from kerncast.models.sm.simulate import hand_on_machine_code  # noqa: PLC0415  numba may be missing

    with tempfile.TemporaryDirectory() as folder:
        source, cache = Path(folder) / "saxpy.cu", Path(folder) / "cache"
        source.write_text(_SOURCE, encoding="utf-8")
        with suppress(KerncastError):
            hand_on_machine_code(store_in(cache))
        return _child(folder, "-m", "kerncast", "predict", str(source), *_ARGUMENTS, cache=str(cache))


def _child(folder: str, *arguments: str, cache: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run this Python with this kerncast in a folder that holds nothing of the user's."""
    root = str(Path(kerncast.__path__[0]).parent)
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(  # noqa: S603  our own code
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **({FOLDER_VARIABLE: cache} if cache else {})},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_MOST_SECONDS,
        check=False,
    )


def measuring_report() -> tuple[ToolStatus, ...]:
    """Say whether there is a GPU that can be used, and Nsight Compute; forecasts need neither."""
    return _gpu(), _ncu()


def _gpu() -> ToolStatus:
    from kerncast.bench.cuda.driver import cuda_version, load_driver  # noqa: PLC0415  what it imports may be missing

    name, needed_for = "NVIDIA GPU", "kerncast measure (extra gpu)"
    try:
        driver = load_driver()
        count = int(driver.call("cuDeviceGetCount"))
        supported = cuda_version(int(driver.call("cuDriverGetVersion")))
    except KerncastError as error:
        return ToolStatus(name, None, found=False, needed_for=needed_for, cure=error.cure, is_optional=True)
    versions = [f"{count} with a driver for CUDA {supported}"]
    with suppress(importlib.metadata.PackageNotFoundError):
        versions.append(f"cuda-bindings {importlib.metadata.version('cuda-bindings')}")
    cure = None if count else "No GPU is visible: look at CUDA_VISIBLE_DEVICES and nvidia-smi."
    return ToolStatus(name, ", ".join(versions), bool(count), needed_for, cure, is_optional=True)


def _ncu() -> ToolStatus:
    from kerncast.bench.counters import find_ncu  # noqa: PLC0415  what it imports may be missing

    name, needed_for = "Nsight Compute", "kerncast measure --ncu"
    try:
        path = find_ncu()
    except KerncastError as error:
        return ToolStatus(name, None, found=False, needed_for=needed_for, cure=error.cure, is_optional=True)
    return ToolStatus(name, path, found=True, needed_for=needed_for, cure=None, is_optional=True)


# The limits under which kernels are compiled, executed and simulated: tried, not assumed.

_LIMITS, _STRANGERS = "limits", "kernels of people whom you do not trust"
_ELSEWHERE = "Forecast strangers' kernels on Linux 5.13 or newer with Landlock, outside of old containers."


def limits_status() -> ToolStatus:
    """Say what a process that works on a kernel cannot do here, after it has tried."""
    if not is_possible():
        trouble = "kernels are executed and simulated in kerncast's own process: only Linux has a process with limits"
        return ToolStatus(_LIMITS, None, False, _STRANGERS, _ELSEWHERE, is_optional=True, trouble=trouble)
    with tempfile.NamedTemporaryFile() as file:
        try:
            held = alone(dict[str, bool], lambda _: _tried(Path(file.name)), Room())
        except EndedError as ended:
            return ToolStatus(
                _LIMITS, None, False, _STRANGERS, _ELSEWHERE, is_optional=True, trouble=f"it ended {ended.how}"
            )
    lacking = [name for name, holds in held.items() if not holds]
    said = "a kernel has no {}".format(", ".join(name for name, holds in held.items() if holds))
    if not lacking:
        return ToolStatus(_LIMITS, said, True, _STRANGERS, None, is_optional=True)
    trouble = f"{said}; but it has {', '.join(lacking)}"
    return ToolStatus(_LIMITS, None, False, _STRANGERS, _ELSEWHERE, is_optional=True, trouble=trouble)


def _tried(outside: Path) -> dict[str, bool]:
    """Return what was refused, by what it would have been."""
    import resource  # noqa: PLC0415  Windows has none

    actions: dict[str, Callable[[], object]] = {
        "other files": outside.read_bytes,
        "network": socket.socket,
        "other programs": lambda: subprocess.run(["/bin/true"], check=False),
    }
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    return {
        **{name: _is_refused(action) for name, action in actions.items()},
        "endless memory": 0 < limit < sys.maxsize,
    }


def _is_refused(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return True
    return False


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Checkup:
    """The findings, in the order in which they are shown."""

    packages: tuple[ToolStatus, ...]
    """Python and the packages that it imports; without these nothing works"""
    compiler: tuple[ToolStatus, ...]
    """compiler and its headers; without these no source can be forecast"""
    optional: tuple[ToolStatus, ...]
    here: tuple[ToolStatus, ...]
    """this machine, its caches, and one forecast from start to end"""

    @property
    def parts(self) -> tuple[ToolStatus, ...]:
        """All findings."""
        return (*self.packages, *self.compiler, *self.optional, *self.here)

    @property
    def counts_work(self) -> bool:
        """Whether profiles and declared counts can be forecast."""
        return _works(self.packages)

    @property
    def sources_work(self) -> bool:
        """Whether sources can be forecast."""
        return _works((*self.packages, *self.compiler, *self.here))

    @property
    def is_healthy(self) -> bool:
        """Whether everything that is required works."""
        return _works(self.parts)


def check_up(progress: Progress | None = None) -> Checkup:
    """Look at every part, and forecast one kernel where all that this needs is there."""
    if progress:
        progress("looking at the compiler", 0, 0)
    tools = toolchain_report()
    compiler = tuple(each for each in tools if not each.is_optional)
    packages = (python_status(), *package_statuses({each.name for each in tools}))
    simulator = simulator_status()
    if _works((*packages, simulator)):
        if progress:
            progress("simulating a case whose result is known", 0, 0)
        simulator = tried(simulator)
    here = [machine_status(), limits_status(), cache_status(), simulator]
    if _works((*packages, *compiler, simulator)):
        if progress:
            progress("forecasting a kernel", 0, 0)
        here.append(forecast_status())
    optional = (*(each for each in tools if each.is_optional), *_measuring())
    return Checkup(packages, compiler, optional, tuple(here))


def _measuring() -> tuple[ToolStatus, ...]:
    try:
        return measuring_report()
    except ImportError:
        return ()


def _works(parts: Sequence[ToolStatus]) -> bool:
    return all(part.found or part.is_optional for part in parts)
