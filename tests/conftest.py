"""What several tests share: sources of small kernels, the command line, and a cache of compiled kernels."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A machine that is busy with something else must not fail a property test.
settings.register_profile("kerncast", deadline=None)
settings.load_profile("kerncast")

ROOT = Path(__file__).parent.parent
KERNELS = ROOT / "examples" / "kernels"

_CACHE = "KERNCAST_CACHE"
_OWN_CACHE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Let no test use the user's cache: all processes of one session share a new one."""
    if not hasattr(config, "workerinput"):
        config.stash[_OWN_CACHE] = os.environ[_CACHE] = tempfile.mkdtemp(prefix="kerncast-test-cache-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the session's cache."""
    if _OWN_CACHE in config.stash:
        shutil.rmtree(config.stash[_OWN_CACHE], ignore_errors=True)


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kerncast(tmp_path: Path) -> Run:
    """Run the command line in an empty folder and return what it did."""

    def run(*arguments: object, timeout: float = 90) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kerncast", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False, encoding="utf-8"
        )

    return run


@pytest.fixture(params=["native", "reference"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the helpers of the engines' tests execute on one engine, then on the other."""
    from tests.helpers import execute_helpers

    monkeypatch.setattr(execute_helpers, "ENGINE", request.param)
    return str(request.param)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a text file into the empty folder and return its path."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file
