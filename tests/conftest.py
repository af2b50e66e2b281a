"""What several tests share: sources of small kernels, the command line, and a cache of compiled kernels."""

import gc
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from kerncast.cli import main
from tests.helpers.browser import started_browser
from tests.helpers.caches import new_cache
from tests.helpers.thorough import THOROUGH, examples

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A machine that is busy with something else must not fail a property test.
settings.register_profile(
    "kerncast", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("kerncast")

ROOT = Path(__file__).parent.parent
KERNELS = ROOT / "examples" / "kernels"

_CACHE = "KERNCAST_CACHE"
_OWN_CACHE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Let no test use the user's cache: all processes of one session share a new one, with the simulator in it."""
    if not hasattr(config, "workerinput"):
        config.stash[_OWN_CACHE] = folder = tempfile.mkdtemp(prefix="kerncast-test-cache-")
        new_cache(Path(folder))
        os.environ[_CACHE] = folder
        # The workers have all processors busy: threads of linear algebra would wait for one another.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only a thorough run tries, unless it is asked for by its name or its marker."""
    if THOROUGH or config.option.markexpr or any("::" in argument for argument in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the session's cache."""
    if _OWN_CACHE in config.stash:
        shutil.rmtree(config.stash[_OWN_CACHE], ignore_errors=True)


Run = Callable[..., subprocess.CompletedProcess[str]]
#: Stops a child that would run for ever; a busy machine needs a minute for what takes a second.
_CHILD_SECONDS = 300


@pytest.fixture
def kerncast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run the command line in this process, in an empty folder, and return what it did."""
    threshold = gc.get_threshold()
    # A command that takes long says so on stderr; how long it takes is up to the machine.
    monkeypatch.setattr("kerncast.cli.shared.output._PATIENCE_SECONDS", 1e6)
    # To fork a process of all tests' memory takes longer than the work; what starts a new process forks as users' do.
    monkeypatch.setattr("kerncast.child_process.is_possible", lambda: False)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(each) for each in arguments]
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with chdir(tmp_path), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main(command)
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(command, ended.value.code, _written(out), _written(err))

    yield run
    gc.set_threshold(*threshold)


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@pytest.fixture
def kerncast_process(tmp_path: Path) -> Run:
    """Run the command line as a process of its own, in an empty folder, and return what it did."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kerncast", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=_CHILD_SECONDS, check=False, encoding="utf-8"
        )

    return run


@pytest.fixture(scope="session", autouse=True)
def _loaded_compilers() -> Iterator[None]:
    """Compile in forks of one process that has loaded the compilers."""
    from kerncast.compile import compiler
    from tests.helpers.compilers import CAN_FORK, Compilers

    compilers = Compilers()
    with pytest.MonkeyPatch.context() as patch:
        if CAN_FORK:
            patch.setattr(compiler, "ask", compilers.ask)
        yield
    compilers.close()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Start a headless Chromium, for the tests of one file: its loop of events stops others that want one."""
    yield from started_browser()


@pytest.fixture
def own_compiler_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a process for each compilation, as users' do."""
    from kerncast.child_process import ask

    monkeypatch.setattr("kerncast.compile.compiler.ask", ask)


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
