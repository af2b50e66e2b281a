"""The compilers that are found, and what they may take."""

import os
import sys
import time
from pathlib import Path

import pytest

from kerncast.errors import CompileError, InputError
from kerncast.hostbuild import host_compilers as module
from kerncast.hostbuild.host_compilers import Limits, c_compilers, run_tool, toolchain
from tests.helpers.host_builds import needs_system, needs_wheels


@pytest.fixture
def no_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the compilers of the system."""
    monkeypatch.setenv("PATH", str(tmp_path))


@needs_wheels
@needs_system
def test_a_compiler_of_the_system_links_and_its_library_is_used() -> None:
    tools = toolchain()
    assert tools.cxx is not None
    assert tools.linker == (str(tools.cxx),)
    assert not any("libcxx" in folder for folder in tools.folders)
    assert any(Path(folder, "vector").exists() for folder in tools.folders)


@needs_wheels
@pytest.mark.usefixtures("no_system")
def test_zig_does_it_alone_with_its_own_libraries() -> None:
    tools = toolchain()
    assert tools.cxx is None
    assert tools.linker[:2] == (str(tools.zig), "c++")
    assert any("libcxx" in folder for folder in tools.folders)
    assert not any(folder.startswith(("/usr/include", "/usr/lib/gcc")) for folder in tools.folders)
    assert any(word.startswith("-D_LIBCPP_") for word in tools.cuda)


@needs_wheels
def test_no_toolkit_of_this_machine_is_asked() -> None:
    """Clang would make code for the version that it finds in /usr/local, and for an old one where it finds none."""
    words = toolchain().cuda
    assert "--cuda-path=/nonexistent" in words
    assert "-target-sdk-version=12.9" in words


@needs_wheels
def test_a_stand_in_is_no_compiler_of_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path))
    folder = tmp_path / "hostbuild" / "toolkit" / "x" / "bin"
    folder.mkdir(parents=True)
    (folder / "c++").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "c++").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder))
    assert toolchain().cxx is None


def test_missing_wheels_are_named_with_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "package_folders", lambda _: ())
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"ziglang.*kerncast\[run\]"):
        module._toolchain.__wrapped__("", "/nowhere")
    with pytest.raises(InputError, match="no C compiler"):
        c_compilers()


def test_tools_see_few_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCC_OVERRIDE_OPTIONS", "+-DHIDDEN")
    monkeypatch.setenv("CPATH", "/somewhere")
    out = run_tool([sys.executable, "-c", "import os; print(*sorted(os.environ))"]).out
    assert "CCC_OVERRIDE_OPTIONS" not in out
    assert {"CPATH", "LC_ALL", "ZIG_LOCAL_CACHE_DIR"} <= set(out.split())


def test_tools_are_ended_with_all_that_they_started(tmp_path: Path) -> None:
    file = tmp_path / "child"
    with pytest.raises(CompileError, match="did not end within 2 s"):
        run_tool(["sh", "-c", f"sleep 60 & echo $! > {file}; wait"], Limits(seconds=2.0))
    status = Path(f"/proc/{int(file.read_text(encoding='utf-8'))}/status")
    for _ in range(200):  # it was killed, and may take a moment
        if is_over(status):
            return
        time.sleep(0.05)
    pytest.fail("what the tool had started goes on")


def is_over(status: Path) -> bool:
    try:
        return "(zombie)" in status.read_text(encoding="utf-8")
    except OSError:
        return True


def test_tools_get_no_more_memory_than_they_may() -> None:
    finished = run_tool(
        [sys.executable, "-c", "import time; time.sleep(0.3); bytearray(2**32)"], Limits(memory_bytes=2**30)
    )
    assert finished.status != 0
    assert "MemoryError" in finished.said


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(CompileError, match="cannot be run"):
        run_tool([os.devnull])
