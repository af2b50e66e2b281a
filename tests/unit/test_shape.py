"""The code stays small enough to see, units are converted in one place, and the wheel holds every file."""

import ast
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from tests.helpers.places import ROOT

PACKAGE = ROOT / "src" / "kerncast"
FILES = sorted(PACKAGE.rglob("*.py"))

MOST_LINES_OF_A_FUNCTION = 60
MOST_PARAMETERS = 6  # five, and self

#: The commands of the command line have one parameter per option.
COMMANDS = {"command"}


def functions(path: Path) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.FunctionDef)]


def length(function: ast.FunctionDef) -> int:
    doc = ast.get_docstring(function)
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines - (len(doc.splitlines()) + 1 if doc else 0)


def test_functions_are_short() -> None:
    long = {
        f"{p.name}:{f.name}": length(f)
        for p in FILES
        for f in functions(p)
        if length(f) > MOST_LINES_OF_A_FUNCTION and f.name not in COMMANDS
    }
    assert long == {}


def test_parameters_are_few() -> None:
    many = {
        f"{p.name}:{f.name}": count
        for p in FILES
        for f in functions(p)
        if (count := len(f.args.args) + len(f.args.kwonlyargs)) > MOST_PARAMETERS and f.name not in COMMANDS
    }
    assert many == {}


def test_units_are_converted_in_one_place() -> None:
    """Powers of ten and of 1024 that convert units stand in units.py alone."""
    wrong = [
        f"{path.name}:{node.lineno} {node.value}"
        for path in FILES
        if path.name != "units.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, float)
        and node.value in {1e9, 1e6, 1e12, 1e-9, 1e-6}
    ]
    assert wrong == []


def test_names_are_not_drawers() -> None:
    assert not [p for p in FILES if any(word in p.stem for word in ("util", "helper", "manager", "misc", "common"))]


def test_a_wheel_holds_every_file_that_is_no_code() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["kerncast"]
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".py")
    names = [path.relative_to(PACKAGE).as_posix() for path in files if path.parent.name != "__pycache__"]
    # In setuptools ** stands for any folders, none among them.
    left_out = [
        name
        for name in names
        if not any(fnmatch(name, each) or fnmatch(name, each.replace("**/", "")) for each in patterns)
    ]
    assert names
    assert left_out == []
