"""Where the tests find what is not theirs."""

import ast
import tomllib
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


def required_packages() -> list[str]:
    """Return the packages that pyproject.toml says kerncast needs, each with its versions."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(settings["project"]["dependencies"])


PACKAGE = ROOT / "src" / "kerncast"
FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the syntax of a file, in no order."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
