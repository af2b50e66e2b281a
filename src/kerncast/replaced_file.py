"""Writes a file whole, or leaves it as it was: a full disk, a crash or a kill never leaves half of one."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kerncast.errors import InputError

_LONGEST_STEM = 80


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the place to write a file to; it takes the file's place at the end of the block, and is removed on failure.

    Devices and pipes are written to as they are, links lead to what is replaced, and a file keeps its permissions.
    Raises InputError for an OSError, within the block too.
    """
    try:
        target = Path(os.path.realpath(path))
        is_whole = target.is_file() or not target.exists()
        partial = target.with_name(f".{target.name[:_LONGEST_STEM]}.{secrets.token_hex(8)}.partial")
    except (OSError, ValueError) as error:  # a name with a null character, links in a circle
        raise _unwritable(path, error) from None
    try:
        yield partial if is_whole else target
        if is_whole:
            if target.exists():
                shutil.copymode(target, partial)
            partial.replace(target)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError | ValueError) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    cure = "Choose another place: a file in a folder that you may write to."
    return InputError(f"cannot be written ({reason})", where=str(path), cure=cure)
