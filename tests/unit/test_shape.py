"""The code stays small enough to see, units are converted in one place, and the wheel holds every file."""

import ast
import tomllib
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

from tests.helpers.places import FILES, PACKAGE, ROOT, nodes_of

MOST_LINES_OF_A_FUNCTION = 40
MOST_PARAMETERS = 5  # beside self
MOST_FILES = 547
MOST_FILES_OF_A_FOLDER = 16
MOST_FILES_OF_A_NAME = 2

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: The commands of the command line have one parameter per option, and so have the verbs of the library and Launch.of.
COMMANDS = {"command"}
VERBS = {"verbs.py": {"predict", "profile", "compare", "occupancy", "sensitivity"}, "launch.py": {"of"}}


def functions(path: Path) -> list[Function]:
    """Return the functions and methods of a file, without the commands of the command line."""
    return [n for n in nodes_of(path) if isinstance(n, Function) and n.name not in COMMANDS]


def length(function: Function) -> int:
    doc = ast.get_docstring(function)
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines - (len(doc.splitlines()) + 1 if doc else 0)


def parameters(function: Function) -> int:
    every = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return len([each for each in every if each.arg not in {"self", "cls"}])


def test_functions_are_short() -> None:
    lengths = {f"{p.name}:{f.name}": length(f) for p in FILES for f in functions(p)}
    assert {name for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == set()


def test_parameters_are_few() -> None:
    counts = {
        f"{p.name}:{f.name}": parameters(f)
        for p in FILES
        for f in functions(p)
        if f.name not in VERBS.get(p.name, set())
    }
    assert {name: count for name, count in counts.items() if count > MOST_PARAMETERS} == {}


def test_files_are_few() -> None:
    assert len(FILES) <= MOST_FILES


def test_a_folder_can_be_seen_at_once() -> None:
    by_folder = defaultdict(set)
    for path in FILES:
        by_folder[path.parent].add(path.name)
    assert {str(folder) for folder, names in by_folder.items() if len(names) > MOST_FILES_OF_A_FOLDER} == set()


def test_a_file_is_known_by_its_name() -> None:
    by_name = defaultdict(set)
    for path in FILES:
        if path.name != "__init__.py":
            by_name[path.stem].add(path.parent)
    assert {name for name, folders in by_name.items() if len(folders) > MOST_FILES_OF_A_NAME} == set()


def test_units_are_converted_in_one_place() -> None:
    """Powers of ten and of 1024 that convert units stand in units.py alone."""
    wrong = [
        f"{path.name}:{node.lineno} {node.value}"
        for path in FILES
        if path.name != "units.py"
        for node in nodes_of(path)
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
