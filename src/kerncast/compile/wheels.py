"""Advice where a wheel of the compiler is missing or does not load."""

import platform
import sys

from kerncast.requirements import how_to_install

#: Systems that NVIDIA's compiler wheels are made for, as Python names them.
_BUILT_FOR = {"linux": {"x86_64", "aarch64"}, "win32": {"amd64"}}


def has_compiler_wheels() -> bool:
    """Tell whether there is a compiler wheel for this system."""
    return platform.machine().lower() in _BUILT_FOR.get(sys.platform, set())


def no_wheel_here() -> str:
    """Say what works on a system without compiler wheels."""
    system = f"{platform.system()} {platform.machine()}"
    return (
        f"NVIDIA has no compiler wheel for {system}: forecasts from profiles and declared counts work here, those from"
        " sources on Linux (x86-64, aarch64) and Windows."
    )


def install_command(package: str, *, anew: bool = False) -> str | None:
    """Return the command that installs a wheel, None where there is none for this system."""
    if "nvrtc" in package and not has_compiler_wheels():
        return None
    return how_to_install(package) + (" --force-reinstall" if anew else "")


def cure_for_missing(package: str) -> str:
    """Say how a missing wheel may be had."""
    command = install_command(package)
    return f"Install {package}: {command}" if command else no_wheel_here()


def cure_for_broken(package: str) -> str:
    """Say how a wheel that does not load may be mended."""
    command = install_command(package, anew=True)
    return f"Install {package} anew: {command}" if command else no_wheel_here()
