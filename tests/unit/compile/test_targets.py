"""Which NVRTC compiles for what, what the toolchain report says, and which headers work."""

import subprocess
import sys
from pathlib import Path

import pytest

import kerncast
from kerncast.caveats import Caveat, CaveatKind
from kerncast.checkup.toolchain import toolchain_report
from kerncast.compile import architecture_for, compile_source, headers, nvrtc, targets
from kerncast.errors import CompileError

needs_kepler = pytest.mark.skipif(nvrtc.library_paths(11) is None, reason="the extra kepler is not installed")


@pytest.mark.parametrize(
    ("asked", "compiled_for"),
    [
        ("7.0", "sm_70"),
        ("sm_86", "sm_86"),
        ("sm_90a", "sm_90a"),
        ("89", "sm_89"),
    ],
)
def test_architectures_of_nvrtc_12(asked: str, compiled_for: str) -> None:
    target = architecture_for(asked)
    assert (target.architecture, target.compiled_for, target.toolkit) == (compiled_for, compiled_for, 12)
    assert target.caveats == ()


@pytest.mark.parametrize(("asked", "compiled_for"), [("12.0", "sm_120a"), ("10.3", "sm_103a"), ("9.0", "sm_90a")])
def test_code_for_exactly_this_architecture(asked: str, compiled_for: str) -> None:
    """Instructions such as wgmma are in code for sm_90a only (PTX ISA 8.8, section 11.1.2)."""
    target = architecture_for(asked)
    assert (target.architecture, target.compiled_for) == (compiled_for.removesuffix("a"), compiled_for)


def test_thor_has_two_numbers() -> None:
    target = architecture_for("11.0")
    assert (target.architecture, target.compiled_for, target.caveats) == ("sm_110", "sm_101a", ())


def test_the_lists_are_those_of_the_compilers() -> None:
    new = nvrtc.load(12)
    assert new is not None
    assert new.architectures == targets._CUDA12
    assert new.version == "12.9"


@needs_kepler
def test_the_lists_are_those_of_the_old_compiler() -> None:
    old = nvrtc.load(11)
    assert old is not None
    assert tuple(n for n in old.architectures if n < 50) == targets._CUDA11_ONLY
    assert old.version == "11.8"


@needs_kepler
@pytest.mark.parametrize(
    ("asked", "compiled_for", "options"),
    [("3.5", "sm_35", ()), ("3.7", "sm_37", ()), ("3.0", "sm_35", ("-maxrregcount=63",)), ("3.2", "sm_35", ())],
)
def test_kepler_with_the_extra(asked: str, compiled_for: str, options: tuple[str, ...]) -> None:
    target = architecture_for(asked)
    assert (target.toolkit, target.compiled_for, target.options) == (11, compiled_for, options)
    assert bool(target.caveats) == (target.architecture != compiled_for)


def test_kepler_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "library_paths", lambda _major: None)
    target = architecture_for("sm_35")
    assert (target.toolkit, target.compiled_for) == (12, "sm_50")
    assert (target.caveats[0].kind, target.caveats[0].subject) == (CaveatKind.COMPILED_WITHOUT_KEPLER, "sm_35")


def test_an_architecture_between_known_ones_takes_the_nearest_older() -> None:
    target = architecture_for("8.8")
    assert target.compiled_for == "sm_87"
    assert target.caveats[0] == Caveat.of(CaveatKind.COMPILED_FOR_NEAREST, "sm_88", compiled_for=target.compiled_for)


@pytest.mark.parametrize("asked", ["", "volta", "sm_", "2.0", "sm_21", "7", "-70", "sm_70; rm"])
def test_what_is_no_architecture(asked: str) -> None:
    with pytest.raises(CompileError):
        architecture_for(asked)


def test_toolchain_report_is_complete_here() -> None:
    report = {status.name: status for status in toolchain_report()}
    assert {"nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu11", "libclang", "compile for sm_70"} <= set(report)
    assert all(s.found and s.cure is None for s in report.values() if not s.is_optional)
    assert report["nvidia-cuda-nvrtc-cu12"].version == "12.9.86"


def test_toolchain_report_without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerncast.checkup.toolchain.library_paths", lambda _major: None)
    report = {status.name: status for status in toolchain_report()}
    missing = report["nvidia-cuda-nvrtc-cu12"]
    assert (missing.found, missing.trouble) == (False, "version 12.9.86 is not whole")
    assert str(missing.command).endswith("pip install 'nvidia-cuda-nvrtc-cu12==12.9.86' --force-reinstall")


def test_packages_that_are_not_installed_have_no_folders() -> None:
    assert headers.package_folders("nvidia.none") == ()
    assert headers.package_folders("none_at_all.none") == ()


@pytest.mark.parametrize(
    "include",
    [
        "cuda_fp16.h",
        "cuda_bf16.h",
        "mma.h",
        "cooperative_groups.h",
        "cuda_runtime.h",
        "math_constants.h",
        "cub/cub.cuh",
    ],
)
@pytest.mark.parametrize("architecture", ["sm_70", pytest.param("sm_35", marks=needs_kepler)])
def test_headers_of_the_wheels_compile(tmp_path: Path, include: str, architecture: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(f"#include <{include}>\n__global__ void k(int *p) {{ *p = 1; }}\n", encoding="utf-8")
    assert compile_source(path, architectures=[architecture]).kernels[0].mangled == "_Z1kPi"


def test_all_stand_ins_together_compile_with_the_library_headers(tmp_path: Path) -> None:
    names = [*headers.stand_ins(), "cuda/std/cstdint", "cuda/std/climits", "cuda/std/type_traits", "cuda_fp16.h"]
    text = "".join(f"#include <{name}>\n" for name in names if not name.startswith("cub/"))
    text += """__global__ void k(float *x, std::array<int, 4> a) {
    static_assert(sizeof(int64_t) == 8 && sizeof(std::uint16_t) == 2 && INT_MAX == 2147483647);
    static_assert(std::is_same<uint8_t, unsigned char>::value && std::is_integral_v<long>);
    static_assert(std::numeric_limits<int>::min() == INT_MIN && std::numeric_limits<short>::max() == 32767);
    static_assert(std::numeric_limits<float>::epsilon() == FLT_EPSILON && std::numeric_limits<unsigned>::digits == 32);
    static_assert(UINT64_MAX == 18446744073709551615ULL && LONG_MIN < 0 && CHAR_BIT == 8);
    assert(x != NULL);
    constexpr float top = INFINITY;
    x[0] = std::max(std::sqrt(x[1]), FLT_MAX) + M_PI + a[1] + offsetof(float2, y) + top;
    x[1] = std::isnan(x[2]) ? NAN : DBL_MAX;
    std::swap(x[3], x[4]);
    uint u = std::abs(-3); size_t n = u; ptrdiff_t d = n;
    printf("%ld", (long)d);
}
"""
    path = tmp_path / "k.cu"
    path.write_text(text, encoding="utf-8")
    kernel = compile_source(path, architectures=["sm_80"]).kernels[0]
    assert kernel.signature is not None
    assert kernel.signature.parameters[1].byte_size == 16


def test_the_worker_starts_fast_and_without_numpy() -> None:
    root = str(Path(kerncast.__path__[0]).parent)
    done = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", "-m", "kerncast.compile.worker"],
        input="",
        env={"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no request on stdin" in done.stderr
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "kerncast.errors" in imported
    assert not imported & {"numpy", "numba", "pandas", "typer", "rich", "matplotlib"}
