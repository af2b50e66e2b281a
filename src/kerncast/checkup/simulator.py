"""Whether the simulator of an SM is compiled: the first forecast waits for that."""

from kerncast.compile import ToolStatus
from kerncast.errors import KerncastError
from kerncast.requirements import how_to_install, package_at_fault

_NAME, _NEEDED_FOR = "simulator", "the model simulation"


def simulator_status() -> ToolStatus:
    """Say whether numba has compiled the simulator, and whether it can keep it."""
    try:
        from kerncast.models.sm.simulate import is_prepared, kept_in  # noqa: PLC0415  numba may be missing

        prepared, folder = is_prepared(), kept_in()
    except (ImportError, OSError, KerncastError) as error:
        package = (package_at_fault(error) if isinstance(error, ImportError) else None) or "numba"
        command = f"{how_to_install(package)} --force-reinstall"
        cure = f"Install {package} anew: {command}"
        return ToolStatus(_NAME, None, False, _NEEDED_FOR, cure, trouble=str(error), command=command)
    if folder is None:
        trouble = "numba finds no folder to keep it in, so that every forecast compiles it, some 10 s long"
        cure = "Name a folder that you can write to: export NUMBA_CACHE_DIR=FOLDER"
        return ToolStatus(_NAME, None, False, _NEEDED_FOR, cure, is_optional=True, trouble=trouble)
    said = "compiled" if prepared else "not compiled yet: the first forecast does it, once, some 10 s long"
    return ToolStatus(_NAME, said, True, _NEEDED_FOR, None, is_optional=True)
