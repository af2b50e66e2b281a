"""Keys, texts and paths as TOML writes them."""

import os
import re
from pathlib import Path

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


def toml_key(name: str) -> str:
    """Return a key, in quotes where it needs them.

    >>> toml_key("x"), toml_key("blas::x")
    ('x', '"blas::x"')
    """
    return name if _BARE_KEY.match(name) else toml_text(name)


def toml_text(text: str) -> str:
    r"""Return a text in quotes.

    >>> print(toml_text('a "b"'))
    "a \"b\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped) + '"'


def toml_path(path: Path, folder: Path) -> str:
    """Return a path relative to the folder of the file that it is written into, in quotes."""
    try:
        return toml_text(Path(os.path.relpath(path, folder)).as_posix())
    except ValueError:  # another drive
        return toml_text(path.resolve().as_posix())
