"""The packages that kerncast's own metadata asks for: which wheels, in which versions, and how to install them."""

import importlib.util
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

_DISTRIBUTION = "kerncast"
_LINE = re.compile(
    r"(?P<name>[\w.-]+)\s*(?:\[[^\]]*\])?\s*(?P<versions>[^;\[]*?)\s*(?:;.*?extra == ['\"](?P<extra>[\w-]+)['\"].*)?\Z"
)
_BOUND = re.compile(r"(==|>=|<=|<|>|!=|~=)\s*([\w.*+!-]+)")

#: What is imported, where it is not named like its package.
_MODULES = {"pyelftools": "elftools", "scikit-learn": "sklearn", "libclang": "clang"}

#: Extras that only developers need.
_OF_DEVELOPERS = frozenset({"test", "lint", "dev"})


@dataclass(frozen=True, slots=True)
class Requirement:
    """One package that kerncast needs, or can use."""

    name: str
    versions: str
    """allowed versions, such as ``>=18.1.1,<19``; empty where any will do"""
    extra: str | None
    """extra that the package belongs to; None where it is required"""

    @property
    def module(self) -> str:
        """Name of the module to import; for wheels that hold no Python, a name that nobody imports."""
        return _MODULES.get(self.name, self.name.replace("-", "_"))

    @property
    def command(self) -> str:
        """The command that installs it."""
        return install_command([self])


def requirements() -> tuple[Requirement, ...]:
    """Return what the installed package says that it needs; nothing where it is used without being installed."""
    from importlib import metadata  # noqa: PLC0415  the compiler's process starts for every source

    try:
        lines = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return ()
    found = (parse_requirement(line) for line in lines)
    return tuple(each for each in found if each.name != _DISTRIBUTION and each.extra not in _OF_DEVELOPERS)


def parse_requirement(line: str) -> Requirement:
    """Return what a line of a package's metadata asks for.

    >>> parse_requirement('nvidia-cuda-nvrtc-cu11==11.8.89; extra == "kepler"')
    Requirement(name='nvidia-cuda-nvrtc-cu11', versions='==11.8.89', extra='kepler')
    """
    match = _LINE.match(line.strip())
    if match is None:
        return Requirement(line, "", None)
    return Requirement(match["name"], match["versions"].strip("() "), match["extra"])


def is_importable(module: str) -> bool:
    """Tell whether there is a module of this name, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def package_of(module: str) -> str:
    """Return the package that a module belongs to, by the modules that kerncast imports.

    >>> package_of("clang.cindex")
    'libclang'
    """
    top = module.partition(".")[0]
    return next((package for package, name in _MODULES.items() if name == top), top)


def package_at_fault(error: ImportError) -> str | None:
    """Return the package that could not be loaded, of those that kerncast asks for; None where the fault is ours.

    A library that refuses to work, or finds another one missing, may not say its own name: then it is where it gave up.
    """
    asked = {each.name for each in requirements()}
    names = (error.name or "", innermost_module(error))
    return next((package for name in names if (package := package_of(name)) in asked), None)


def innermost_module(error: ImportError) -> str:
    """Return the module that gave up."""
    import traceback  # noqa: PLC0415  of almost no command

    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((name for name in reversed(frames) if not name.startswith("importlib")), "")


def missing_for(module: str) -> tuple[Requirement, ...]:
    """Return the package of a module that could not be imported, and the others that are missing like it.

    Nothing for a module that kerncast does not ask for: then the fault is ours.
    """
    known = requirements()
    if module not in {each.module for each in known}:
        return ()
    absent = [each for each in known if each.extra is None and installed_version(each.name) is None]
    named = [each for each in known if each.module == module and each not in absent]
    return (*named, *absent)


def how_to_install(package: str) -> str:
    """Return the command that installs one package in the version that is needed.

    >>> how_to_install("nvidia-cuda-nvrtc-cu11").endswith("pip install 'kerncast[kepler]'")
    True
    """
    found = (each for each in requirements() if _same_name(each.name, package))
    return next(found, Requirement(package, "", None)).command


def install_command(wanted: Sequence[Requirement]) -> str:
    """Return the command that installs several packages."""
    asked = (f"{_DISTRIBUTION}[{each.extra}]" if each.extra else f"{each.name}{each.versions}" for each in wanted)
    return " ".join([f"{_pip()} install", *(f"'{each}'" for each in dict.fromkeys(asked))])


def installed_version(package: str) -> str | None:
    """Return the version of a package that is installed, None where it is not."""
    from importlib import metadata  # noqa: PLC0415  as above

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def fits(version: str, versions: str) -> bool:
    """Tell whether a version is within bounds, by its numbers alone.

    >>> fits("18.1.1", ">=18.1.1,<19"), fits("19.0", ">=18.1.1,<19"), fits("2.10", ">=2.9"), fits("1.0rc1", "==1.0")
    (True, False, True, True)
    """
    return all(_holds(_numbers(version), operator, _numbers(bound)) for operator, bound in _BOUND.findall(versions))


def _holds(version: tuple[int, ...], operator: str, bound: tuple[int, ...]) -> bool:
    pairs = list(zip_longest(version, bound, fillvalue=0))
    ours, theirs = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    return {
        "==": ours == theirs,
        "!=": ours != theirs,
        ">=": ours >= theirs,
        "<=": ours <= theirs,
        ">": ours > theirs,
        "<": ours < theirs,
        "~=": ours >= theirs and version[: len(bound) - 1] == bound[:-1],
    }[operator]


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _same_name(one: str, other: str) -> bool:
    return re.sub(r"[-_.]+", "-", one).lower() == re.sub(r"[-_.]+", "-", other).lower()


def _pip() -> str:
    """Return the command of the pip that belongs to this Python, as short as it can be."""
    import shutil  # noqa: PLC0415  with all its compressors, for a word in a message

    program = Path(sys.executable)
    found = shutil.which("pip")
    if found is not None and Path(found).parent == program.parent:
        return "pip"
    is_known = shutil.which(program.name) == sys.executable
    return f"{program.name if is_known else shlex.quote(sys.executable)} -m pip"
