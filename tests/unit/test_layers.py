"""Imports go one way, and the path of a forecast imports nothing heavy."""

import ast
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

PACKAGE = ROOT / "src" / "kerncast"

#: From the bottom to the top; rooms of one layer may import one another, verbs may not.
LAYERS = (
    {"errors", "units", "version", "remembered", "child_process", "requirements", "caveats", "typed_json"},
    {"gpu", "launch", "ptx", "traces", "profiles", "measurements", "prediction"},
    {"occupancy", "metrics"},
    {"compile"},
    {"machine", "read"},
    {"hostcode", "execute"},
    {"models"},
    {"forecast"},
    {"bench"},
    {"checkup"},
    {"studies"},
    {"report"},
    {"cli"},
)
VERBS = {"compile", "machine", "read", "hostcode", "execute"}
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports_of(path: Path) -> set[str]:
    """Return the parts of kerncast that a file imports, those for type checkers too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"kerncast.{alias.name}" for alias in node.names]
            names = inside if node.module == "kerncast" else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("kerncast.")}
    return found


def part_of(path: Path) -> str:
    """Return the module or folder below kerncast that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def test_every_part_has_a_layer() -> None:
    parts = {part_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__", "__main__"}
    assert parts == set(RANK)


def test_imports_go_one_way() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in PACKAGE.rglob("*.py")
        if (part := part_of(path)) in RANK
        for name in imports_of(path)
        if RANK[name] > RANK[part] or (RANK[name] == RANK[part] and part in VERBS and name != part)
    ]
    assert wrong == []


def test_no_layer_stands_twice() -> None:
    assert not any(a & b for a, b in pairwise(LAYERS))


@pytest.mark.parametrize("heavy", ["sklearn", "pandas", "matplotlib", "scipy", "jinja2", "numba"])
def test_a_forecast_imports_nothing_heavy(heavy: str) -> None:
    code = (
        "import sys, kerncast, kerncast.cli.application, kerncast.forecast.forecast, kerncast.report.forecast.terminal;"
        "kerncast.predict; kerncast.profile;"
        f"sys.exit({heavy!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_package_or_the_help_imports_no_numpy() -> None:
    code = "import sys, kerncast, kerncast.cli.application; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
