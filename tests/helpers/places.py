"""Where the tests find what is not theirs."""

import tomllib
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


def required_packages() -> list[str]:
    """Return the packages that pyproject.toml says kerncast needs, each with its versions."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(settings["project"]["dependencies"])
