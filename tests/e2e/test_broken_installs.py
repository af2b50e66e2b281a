"""The command line in installs that are broken: what it says, never a traceback."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import kerncast
from kerncast.compile.headers import package_folders
from tests.helpers.caches import new_cache
from tests.helpers.places import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="makes a broken install of links")

SAXPY = ROOT / "examples" / "saxpy.toml"
PARTS = ("cuda_runtime", "cuda_cccl", "cu13", "cuda_nvrtc")

#: Runs the command line where some modules cannot be imported.
BLOCKED = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None
from kerncast.cli import main
main(sys.argv[1:])
"""


def overlay(folder: Path, broken: Sequence[str]) -> None:
    """Make packages that come before the installed ones: links to them, but for those that are to be broken."""
    (folder / "nvidia").mkdir(parents=True)
    (folder / "nvidia" / "__init__.py").touch()
    for part in PARTS:
        if part not in broken:
            (folder / "nvidia" / part).symlink_to(package_folders(f"nvidia.{part}")[0])
    if "cuda_nvrtc" in broken:
        library = folder / "nvidia" / "cuda_nvrtc" / "lib"
        library.mkdir(parents=True)
        for name in ("libnvrtc.so.12", "libnvrtc-builtins.so.12.9"):
            (library / name).write_bytes(b"\x7fELF of another machine")
    if "libclang" in broken:
        (folder / "clang").mkdir()
        for path in package_folders("clang")[0].glob("*.py"):
            shutil.copy(path, folder / "clang")  # a link would lead to the library
    if "clang" in broken:
        (folder / "clang").mkdir()
        (folder / "clang" / "__init__.py").touch()


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(kerncast.__path__[0]).parent)
    path = os.pathsep.join([str(folder), root])
    environment = {**os.environ, "PYTHONPATH": path, "KERNCAST_CACHE": str(new_cache(folder / "cache"))}
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_doctor_names_every_broken_part(tmp_path: Path) -> None:
    overlay(tmp_path, ["cuda_nvrtc", "libclang", "cu13"])
    done = run(tmp_path, "-m", "kerncast", "doctor", "--json")
    assert done.returncode == 2, done.stderr
    found = json.loads(done.stdout)
    assert (found["healthy"], found["works"]) == (False, {"sources": False, "counts": True})
    broken = {part["name"]: part for part in found["parts"] if not (part["found"] or part["is_optional"])}
    assert broken.keys() == {"nvidia-cuda-nvrtc-cu12", "libclang", "nvidia-cuda-crt", "compile for sm_70"}
    assert "the CUDA compiler NVRTC cannot be loaded (" in broken["nvidia-cuda-nvrtc-cu12"]["trouble"]
    assert "libclang cannot be loaded (" in broken["libclang"]["trouble"]
    assert broken["nvidia-cuda-crt"]["trouble"] == "version 13.5.37 is not whole"
    for name in ("nvidia-cuda-nvrtc-cu12", "libclang", "nvidia-cuda-crt"):
        assert " install '" in broken[name]["command"]
        assert broken[name]["command"].endswith("--force-reinstall")


@pytest.mark.parametrize(
    ("broken", "said", "package"),
    [
        ("cuda_nvrtc", "the CUDA compiler NVRTC cannot be loaded (", "'nvidia-cuda-nvrtc-cu12==12.9.86'"),
        ("clang", "libclang cannot be loaded (", "'libclang"),
    ],
)
def test_a_forecast_says_the_same_cure(tmp_path: Path, broken: str, said: str, package: str) -> None:
    overlay(tmp_path, [broken])
    done = run(tmp_path, "-m", "kerncast", "predict", str(SAXPY), "--gpu", "t4", "--quiet")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert f"install {package}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["typer", "numpy"])
def test_a_package_that_cannot_be_imported(tmp_path: Path, module: str) -> None:
    done = run(tmp_path, "-c", BLOCKED, module, "predict", str(SAXPY), "--gpu", "t4", "--quiet")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"kerncast: needed, and not installed: {module}. Install with: ")


@pytest.mark.parametrize(("module", "package"), [("clang", "libclang"), ("llvmlite", "llvmlite")])
def test_a_package_that_refuses_to_work_is_named(tmp_path: Path, module: str, package: str) -> None:
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text('raise ImportError("needs another version")\n', encoding="utf-8")
    done = run(tmp_path, "-m", "kerncast", "predict", str(SAXPY), "--gpu", "t4", "--quiet")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"kerncast: {package} cannot be loaded (needs another version). Install {package} anew: " in done.stderr


def test_the_doctor_without_numpy(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", BLOCKED, "numpy", "doctor")
    assert done.returncode == 2
    assert "broken  numpy: version" in done.stdout
    assert "Not ready: forecasts do not work until what is required is mended." in done.stdout
    assert "Traceback" not in done.stderr
