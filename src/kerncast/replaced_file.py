"""Writes a file whole, or leaves it as it was: a full disk, a crash or a kill never leaves half of one."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kerncast.errors import InputError

#: Bytes of a name that a file system takes are 255 or more.
_LONGEST_STEM = 80


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the place to write a file to; it takes the file's place at the end of the block, and is removed on failure.

    Devices and pipes are written to as they are, links lead to what is replaced, and a file keeps its permissions.
    Raises InputError for an OSError, within the block too.
    """
    try:
        is_whole = path.is_file() or not path.exists()
        # A pipe behind /dev/stdout has no place that its links lead to.
        target = Path(os.path.realpath(path)) if is_whole else path
        stem = os.fsdecode(os.fsencode(target.name)[:_LONGEST_STEM])
        partial = target.with_name(f".{stem}.{secrets.token_hex(8)}.partial")
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
