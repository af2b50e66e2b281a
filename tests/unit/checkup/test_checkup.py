"""The doctor: what it finds in installs that are broken in one way each, and how it says so in 80 columns."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kerncast import checkup, cli, confinement, requirements
from kerncast.checkup import Checkup, report, toolchain
from kerncast.compile import ToolStatus, wheels
from kerncast.report.as_json import doctor_object
from kerncast.report.files.toolchain import doctor_lines
from kerncast.requirements import Requirement, fits, install_command, missing_for, package_at_fault, parse_requirement

Patch = pytest.MonkeyPatch


def good(name: str, *, optional: bool = False) -> ToolStatus:
    return ToolStatus(name, "1.0", found=True, needed_for="something", cure=None, is_optional=optional)


def bad(name: str, *, optional: bool = False) -> ToolStatus:
    return ToolStatus(name, None, False, "something", f"Install {name}.", optional, command=f"pip install '{name}'")


HEALTHY = Checkup((good("Python"), good("numpy")), (good("libclang"),), (good("ncu", optional=True),), (good("saxpy"),))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("libclang<19,>=18.1.1", Requirement("libclang", "<19,>=18.1.1", None)),
        ('cuda-core>=1.2; extra == "gpu"', Requirement("cuda-core", ">=1.2", "gpu")),
        ("jinja2 (>=3)", Requirement("jinja2", ">=3", None)),
        ('kerncast[gpu,sass]; extra == "dev"', Requirement("kerncast", "", "dev")),
        ('tomli>=2; python_version < "3.11" and extra == "x"', Requirement("tomli", ">=2", "x")),
        ("numpy", Requirement("numpy", "", None)),
    ],
)
def test_a_requirement_is_read(line: str, expected: Requirement) -> None:
    assert parse_requirement(line) == expected


@pytest.mark.parametrize(
    ("version", "versions", "expected"),
    [
        ("12.9.86", "==12.9.86", True), ("12.9.86", "==12.9", False), ("2.0", ">=2", True), ("1.26", ">=2.0", False),
        ("18.1.1", "<19,>=18.1.1", True), ("19", "<19", False), ("3.1", "!=3.1", False), ("1.4.2", "~=1.4", True),
        ("2.0", "~=1.4", False), ("0", "", True), ("2024.1+local", ">=2024.1", True),
    ],
)  # fmt: skip
def test_versions_are_compared_by_their_numbers(version: str, versions: str, expected: bool) -> None:
    assert fits(version, versions) is expected


def test_what_is_required_stands_in_the_packages_own_metadata() -> None:
    found = {each.name: each for each in requirements.requirements()}
    assert {"numpy", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu11"} <= found.keys()
    assert not {"pytest", "ruff", "kerncast"} & found.keys()
    assert found["nvidia-cuda-nvrtc-cu11"].extra == "kepler"


def test_the_command_names_the_extra_or_the_version(monkeypatch: Patch) -> None:
    monkeypatch.setattr(requirements, "_pip", lambda: "pip")
    wanted = [Requirement("numpy", ">=2.0", None), Requirement("a", "", "gpu"), Requirement("b", "", "gpu")]
    assert install_command(wanted) == "pip install 'numpy>=2.0' 'kerncast[gpu]'"
    assert requirements.how_to_install("ncu-report") == "pip install 'kerncast[ncu]'"
    assert requirements.how_to_install("unheard-of") == "pip install 'unheard-of'"


def test_pip_is_that_of_this_python(monkeypatch: Patch, tmp_path: Path) -> None:
    for name in ("python", "pip"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert requirements._pip() == "pip"
    (tmp_path / "pip").unlink()
    assert requirements._pip() == "python -m pip"
    monkeypatch.setenv("PATH", "/nowhere")
    assert requirements._pip() == f"{tmp_path}/python -m pip"


def test_a_module_that_is_missing_is_no_defect(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(requirements, "installed_version", lambda name: None if name == "rich" else "1")
    assert [each.name for each in missing_for("sklearn")] == ["scikit-learn", "rich"]
    assert missing_for("kerncast") == missing_for("nonsense") == ()

    def failing(_arguments: list[str]) -> int:
        raise ModuleNotFoundError("No module named 'numpy.core'", name="numpy.core")

    monkeypatch.setattr("kerncast.cli.application.run", failing)
    with pytest.raises(SystemExit) as ended:
        cli.main(["gpus"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("kerncast: needed, and not installed: numpy, rich. Install with: ")
    assert said.endswith("pip install 'numpy>=2.0' 'rich>=13.7'\n")


def test_an_old_python_is_told_so(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert report.python_status().trouble == "3.11 or newer is needed"
    with pytest.raises(SystemExit) as ended:
        cli.main(["gpus"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "kerncast: needs Python 3.11 or newer, and this is 3.9\n"


def test_packages_that_are_missing_old_or_torn(monkeypatch: Patch) -> None:
    versions = {"numpy": None, "scipy": "0.9", "pandas": "99.0"}
    monkeypatch.setattr(report, "installed_version", lambda name: versions.get(name, "1000"))
    monkeypatch.setattr(report, "is_importable", lambda module: module != "pandas")
    found = {each.name: each for each in report.package_statuses({"libclang"}) if not each.found}
    assert {name: each.trouble for name, each in found.items() if name in versions} == {
        "numpy": None,
        "scipy": "version 0.9 is installed, and >=1.14 is needed",
        "pandas": "version 99.0 is installed, but Python does not find pandas",
    }
    assert str(found["scipy"].command).endswith("pip install 'scipy>=1.14'")
    assert str(found["pandas"].command).endswith("--force-reinstall")


@pytest.mark.parametrize(
    ("system", "processor", "expected"),
    [
        ("linux", "x86_64", True), ("linux", "aarch64", True), ("win32", "AMD64", True), ("darwin", "arm64", False),
        ("linux", "riscv64", False), ("win32", "ARM64", False),
    ],
)  # fmt: skip
def test_systems_without_a_compiler_wheel(monkeypatch: Patch, system: str, processor: str, expected: bool) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: processor)
    assert wheels.has_compiler_wheels() is expected
    cure = wheels.cure_for_missing("nvidia-cuda-nvrtc-cu12")
    assert ("pip install" in cure) is expected
    assert ("profiles and declared counts work here" in cure) is not expected
    assert "pip install" in wheels.cure_for_broken("libclang")


def no_smoke(monkeypatch: Patch) -> None:
    monkeypatch.setattr(toolchain, "_smoke_compile", lambda: good("compile"))
    monkeypatch.setattr(toolchain, "_loaded", lambda status, _part: status)


def test_a_compiler_of_another_version(monkeypatch: Patch) -> None:
    no_smoke(monkeypatch)
    monkeypatch.setattr(toolchain, "installed_version", lambda _name: "12.4.99")
    found = {each.name: each for each in toolchain.toolchain_report()}
    compiler = found["nvidia-cuda-nvrtc-cu12"]
    assert (compiler.found, compiler.version) == (False, "12.4.99")
    assert compiler.trouble == "version 12.4.99 is installed, and ==12.9.86 is needed"
    assert str(compiler.command).endswith("pip install 'nvidia-cuda-nvrtc-cu12==12.9.86'")


def test_header_wheels_that_are_missing(monkeypatch: Patch) -> None:
    no_smoke(monkeypatch)
    monkeypatch.setattr(toolchain, "installed_version", lambda _name: None)
    monkeypatch.setattr(toolchain, "package_folders", lambda _name: ())
    missing = {each.name: each for each in toolchain.toolchain_report() if not each.found}
    required = {name for name, each in missing.items() if not each.is_optional}
    assert required == {"nvidia-cuda-runtime-cu12", "nvidia-cuda-cccl-cu12", "nvidia-cuda-crt"}
    assert missing.keys() - required == {"nvidia-curand-cu12"}
    assert all(each.trouble is None for each in missing.values())
    assert str(missing["nvidia-cuda-crt"].command).endswith("pip install 'nvidia-cuda-crt==13.5.37'")


@pytest.mark.parametrize(
    ("part", "trouble"),
    [("12", "is not installed"), ("libclang", "libclang cannot be loaded (gone)"), ("x", "loading it ended by signal")],
)
def test_a_library_that_does_not_load(monkeypatch: Patch, part: str, trouble: str) -> None:
    reply = None if part == "x" else {"error": [trouble, None, None]}
    ended = SimpleNamespace(reply=reply, said="", how="by signal SIGSEGV")
    monkeypatch.setattr(toolchain, "ask", lambda *_args, **_more: ended)
    found = toolchain._loaded(good("libclang"), part)
    assert not found.found
    assert str(found.trouble).startswith(trouble)
    assert str(found.command).endswith("--force-reinstall")


def test_a_library_that_does_not_end(monkeypatch: Patch) -> None:
    def hanging(*_args: object, **_more: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(toolchain, "ask", hanging)
    assert toolchain._loaded(good("libclang"), "libclang").trouble == "it did not load within 60 s"


def test_the_cache_of_a_place_that_cannot_be_written_to(monkeypatch: Patch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "file"))
    found = report.cache_status()
    assert (found.found, found.is_optional) == (False, True)
    assert found.trouble == f"{tmp_path}/file/compiled: File exists"
    assert "KERNCAST_CACHE=FOLDER" in str(found.cure)
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "cache"))
    assert report.cache_status().version == f"{tmp_path}/cache/compiled, 0 B of 268 MB"
    monkeypatch.setenv("KERNCAST_CACHE", "off")
    assert report.cache_status().version == "KERNCAST_CACHE is off"
    monkeypatch.setenv("KERNCAST_CACHE_MB", "lots")
    assert report.cache_status().trouble == "KERNCAST_CACHE_MB='lots' is not a size"


def test_memory_is_that_of_the_container(monkeypatch: Patch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(report, "_LIMIT_FILES", (str(limit), str(tmp_path / "none")))
    whole_machine = report.memory_bytes()
    limit.write_text("max\n", encoding="ascii")
    assert report.memory_bytes() == whole_machine
    limit.write_text("500000000\n", encoding="ascii")
    assert report.memory_bytes() == 500_000_000
    assert str(report.machine_status().trouble).endswith("500 MB of memory: large kernels may not compile")
    assert report.machine_status().is_optional


def test_a_simulator_that_is_not_compiled_or_not_kept(monkeypatch: Patch, tmp_path: Path) -> None:
    import kerncast.models.sm.simulate as module

    monkeypatch.setattr(module, "is_prepared", lambda: False)
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path))
    assert report.simulator_status().version == "compiled now, once"
    monkeypatch.setenv("KERNCAST_CACHE", "off")
    assert str(report.simulator_status().version).startswith("compiled by every forecast, some 10 s long")
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNCAST_CACHE", str(tmp_path / "file"))
    found = report.simulator_status()
    assert "KERNCAST_CACHE=FOLDER" in str(found.cure)
    assert (found.found, found.is_optional) == (False, True)
    monkeypatch.setitem(sys.modules, "kerncast.models.sm.simulate", None)
    found = report.simulator_status()
    assert (found.found, found.is_optional) == (False, False)


def test_a_simulation_whose_result_is_known_is_computed() -> None:
    assert report.tried(good("simulator")).version == "1.0, and right where the result is known"


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        ("import sys; sys.exit('Answer(1) in place of Answer(2)')", "failed: Answer(1) in place of Answer(2)"),
        ("import os; os.abort()", "failed: it ended with status -6"),
    ],
)
def test_a_simulator_that_is_wrong_is_not_ready(monkeypatch: Patch, code: str, trouble: str) -> None:
    monkeypatch.setattr(report, "_KNOWN_CASE", code)
    found = report.tried(good("simulator"))
    assert (found.found, found.is_optional, found.command) == (False, False, "kerncast cache --clear")
    assert str(found.trouble).endswith(trouble)
    assert not patched(monkeypatch, (good("libclang"),), found).is_healthy


@pytest.mark.parametrize(
    ("stdout", "stderr", "trouble"),
    [("", "one\nkerncast: two\n", "two"), ("", "", "it ended with status 3"), ('{"predictions": []}', "x", "x")],
)
def test_a_forecast_that_fails_is_said(monkeypatch: Patch, stdout: str, stderr: str, trouble: str) -> None:
    done = SimpleNamespace(stdout=stdout, stderr=stderr, returncode=3)
    monkeypatch.setattr(report, "_run", lambda: done)
    assert report.forecast_status().trouble == trouble


def patched(monkeypatch: Patch, tools: tuple[ToolStatus, ...], simulation: ToolStatus) -> Checkup:
    monkeypatch.setattr(report, "toolchain_report", lambda: tools)
    monkeypatch.setattr(report, "package_statuses", lambda _known: ())
    monkeypatch.setattr(report, "simulator_status", lambda: simulation)
    monkeypatch.setattr(report, "tried", lambda simulator: simulator)
    monkeypatch.setattr(report, "forecast_status", lambda: good("forecast"))
    return checkup.check_up()


def test_a_forecast_is_tried_only_where_it_can_succeed(monkeypatch: Patch) -> None:
    found = patched(monkeypatch, (good("libclang"), bad("sass", optional=True)), good("simulator"))
    assert (found.is_healthy, found.here[-1].name) == (True, "forecast")
    found = patched(monkeypatch, (bad("libclang"),), good("simulator"))
    assert (found.is_healthy, found.sources_work, found.counts_work) == (False, False, True)
    assert found.here[-1].name == "simulator"
    found = patched(monkeypatch, (good("libclang"),), bad("simulator"))
    assert (found.is_healthy, found.counts_work, found.here[-1].name) == (False, True, "simulator")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Ready: forecasts work, from sources, profiles, measured times and counts."),
        ({"compiler": (bad("libclang"),)}, "forecasts from sources do not work; those from profiles and declared"),
        ({"packages": (good("Python"), bad("numpy"))}, "forecasts do not work until what is required is mended"),
        ({"optional": (bad("ncu", optional=True),)}, "Not available without the optional parts: something."),
    ],
)
def test_the_last_sentence_says_what_works(changes: dict[str, tuple[ToolStatus, ...]], words: str) -> None:
    text = "\n".join(doctor_lines(replace(HEALTHY, **changes)))
    assert words in re.sub(r"\s+", " ", text)


def test_its_words_fit_80_columns_and_commands_stay_whole() -> None:
    command = "pip install '" + "very-" * 20 + "long>=1'"
    broken = replace(bad("libclang"), trouble="it cannot be loaded " * 10, command=command)
    no_command = replace(bad("nvrtc"), command=None, cure="There is none for this system. " * 5)
    lines = list(doctor_lines(replace(HEALTHY, compiler=(broken, no_command))))
    assert [line for line in lines if len(line) > 80] == [f"          {command}"]
    assert lines[2:5] == ["Required", "  ok      Python 1.0", "  ok      packages: numpy 1.0"]
    assert lines[5].startswith("  broken  libclang: it cannot be loaded")


def test_the_fields_of_its_json() -> None:
    found = doctor_object(replace(HEALTHY, optional=(bad("ncu", optional=True),)))
    assert list(found) == ["healthy", "works", "parts"]
    assert found["works"] == {"sources": True, "counts": True}
    assert found["parts"][3] == {
        "name": "ncu", "found": False, "version": None, "needed_for": "something", "trouble": None,
        "cure": "Install ncu.", "command": "pip install 'ncu'", "is_optional": True,
    }  # fmt: skip


def test_a_failing_import_of_ours_is_a_defect() -> None:
    with pytest.raises(ImportError) as caught:
        from kerncast.units import nothing  # type: ignore[attr-defined]  # noqa: F401
    assert package_at_fault(caught.value) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the process with limits")
def test_limits_that_do_not_hold_are_named(monkeypatch: Patch) -> None:
    assert not report.limits_status().trouble or "it has other files" in str(report.limits_status().trouble)
    monkeypatch.setattr(confinement, "_see_only", lambda *_: None)
    found = report.limits_status()
    assert not found.found
    assert found.is_optional
    assert str(found.trouble).endswith("but it has other files, other programs")
    monkeypatch.setattr(report, "is_possible", lambda: False)
    assert "kerncast's own process" in str(report.limits_status().trouble)
