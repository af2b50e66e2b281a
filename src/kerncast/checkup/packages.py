"""Whether Python and the packages that kerncast imports are there, in the versions that it needs."""

import platform
import sys
from collections.abc import Collection

from kerncast.compile import ToolStatus
from kerncast.requirements import Requirement, fits, installed_version, is_importable, requirements

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
