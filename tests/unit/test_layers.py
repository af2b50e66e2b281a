"""Imports go one way, and the path of a forecast imports nothing heavy."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.places import FILES, PACKAGE, nodes_of

#: From the bottom to the top; rooms of one layer may import one another, verbs may not.
LAYERS = (
    {
        "errors",
        "units",
        "version",
        "remembered",
        "child_process",
        "confinement",
        "requirements",
        "caveats",
        "typed_json",
        "replaced_file",
        "printable",
        "bounded_file",
    },
    {
        "gpu",
        "launch",
        "recording",
        "operators",
        "ptx",
        "traces",
        "profiles",
        "measurements",
        "observation",
        "prediction",
    },
    {"occupancy", "metrics"},
    {"compile"},
    {"machine", "read", "hostbuild"},
    {"execute"},
    {"models"},
    {"forecast"},
    {"bench"},
    {"device"},
    {"scripts"},
    {"checkup"},
    {"studies"},
    {"report"},
    {"api"},
    {"web"},
    {"cli"},
)
VERBS = {"compile", "machine", "read", "hostbuild", "execute"}
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports_of(path: Path) -> set[str]:
    """Return the parts of kerncast that a file imports, those for type checkers too."""
    found = set()
    for node in nodes_of(path):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"kerncast.{alias.name}" for alias in node.names]
            names = inside if node.module == "kerncast" else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("kerncast.")}
    return found


#: The way of an execution and the memory around it, of which the first still asks the second.
IN_A_CIRCLE = {
    "kerncast.execute.sampling.executed",
    "kerncast.execute.recording.neighbours",
    "kerncast.execute.recording.window",
}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {name_of(path): path for path in FILES}


def runtime_imports(module: str) -> Iterator[tuple[str, str]]:
    """Yield the modules and names that a module imports when it runs, at its top or in a function."""
    waiting: list[ast.AST] = [ast.parse(MODULES[module].read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        else:
            waiting += ast.iter_child_nodes(node)


@cache
def exports(package: str) -> Mapping[str, str]:
    """Return where the names of a package are from, for type checkers too: some packages import late."""
    found = [n for n in nodes_of(MODULES[package]) if isinstance(n, ast.ImportFrom)]
    return {alias.asname or alias.name: n.module or "" for n in found for alias in n.names}


def defining_module(module: str, name: str) -> str | None:
    """Return the module of kerncast that an imported name is defined in."""
    if f"{module}.{name}" in MODULES:
        return f"{module}.{name}"
    while module in MODULES and MODULES[module].name == "__init__.py" and name in exports(module):
        module = exports(module)[name]
    return module if module in MODULES else None


def in_a_circle(imports: Mapping[str, set[str]]) -> set[str]:
    """Return the modules that import themselves, by however many steps."""
    found = set()
    for start in imports:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = imports[waiting.pop()] - seen
            seen |= new
            waiting += new
        found |= seen & {start}
    return found


def part_of(path: Path) -> str:
    """Return the module or folder below kerncast that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def test_every_part_has_a_layer() -> None:
    parts = {part_of(path) for path in FILES} - {"__init__", "__main__"}
    assert parts == set(RANK)


def test_imports_go_one_way() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in FILES
        if (part := part_of(path)) in RANK
        for name in imports_of(path)
        if RANK[name] > RANK[part] or (RANK[name] == RANK[part] and part in VERBS and name != part)
    ]
    assert wrong == []


def test_models_know_nothing_of_the_executor() -> None:
    wrong = [path.name for path in (PACKAGE / "models").rglob("*.py") if "execute" in imports_of(path)]
    assert wrong == []


def test_no_layer_stands_twice() -> None:
    assert not any(a & b for a, b in pairwise(LAYERS))


def test_modules_import_in_no_circle() -> None:
    imports = {
        module: {found for each in runtime_imports(module) if (found := defining_module(*each)) is not None} - {module}
        for module in MODULES
    }
    assert in_a_circle(imports) <= IN_A_CIRCLE


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Return what a forecast and its report on the terminal import."""
    code = (
        "import sys, kerncast, kerncast.cli.application, kerncast.forecast.forecast, kerncast.report.forecast.terminal;"
        "kerncast.predict; kerncast.profile; print(*sys.modules)"
    )
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("heavy", ["sklearn", "pandas", "matplotlib", "scipy", "jinja2", "numba"])
def test_a_forecast_imports_nothing_heavy(heavy: str, imported: set[str]) -> None:
    assert "kerncast.forecast" in imported
    assert heavy not in imported


def test_importing_the_package_or_the_help_imports_no_numpy() -> None:
    code = "import sys, kerncast, kerncast.cli.application; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
