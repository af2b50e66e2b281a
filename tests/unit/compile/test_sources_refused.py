"""What sources of CUDA programs include and call: executed, or refused by name."""

from pathlib import Path

import numpy as np
import pytest

from kerncast.compile import compile_source
from kerncast.compile.headers import cure_for_header, package_folders
from kerncast.errors import CompileError, UnsupportedError
from kerncast.requirements import Requirement
from tests.helpers.execute_helpers import launch, run

needs_curand = pytest.mark.skipif(not package_folders("nvidia.curand"), reason="the extra curand is not installed")

GRID_SYNC = """#include <cooperative_groups.h>
__global__ void k(float *x) { cooperative_groups::this_grid().sync(); x[0] = 1; }
"""
CUBE = "__global__ void k(float *x, cudaTextureObject_t t) { x[0] = texCubemap<float>(t, 0.5f, 0.5f, 0.5f); }\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GRID_SYNC, r"Blocks wait for one another in cooperative launches: cooperative = true"),
        (CUBE, r"PTX instruction tex\.cube\S+ is not supported"),
    ],
)
def test_what_is_not_executed_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(text, encoding="utf-8")
    kernel = compile_source(path, architectures=["sm_70"]).kernels[0]
    others = {"t": 0} if "Texture" in text else {}
    with pytest.raises(UnsupportedError, match=said):
        run(kernel, launch(1, 32, x="f32[256] zeros", **others))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("texture<float, 2> t;\n__global__ void k(float *x) { x[0] = tex2D(t, 0, 0); }\n", "use texture objects"),
        (
            "__global__ void child(int *x) { *x = 1; }\n__global__ void k(int *x) { child<<<1, 1>>>(x); }\n",
            "A kernel that launches kernels is not covered",
        ),
        ("__device__ int f(int);\n__global__ void k(int *x) { *x = f(3); }\n", "defined in another file"),
        ('#include "mine.h"\n__global__ void k(int *x) { *x = 1; }\n', r'the header "mine\.h" cannot be found'),
        (
            "#include <nowhere.h>\n__global__ void k(int *x) { *x = NOWHERE; }\n",
            r'the header "nowhere\.h" cannot be found',
        ),
    ],
)
def test_what_does_not_compile_has_a_cure(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CompileError, match=said):
        compile_source(path, architectures=["sm_70"], kernel="k")


def test_complex_numbers_of_thrust(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "#include <thrust/complex.h>\n"
        "__global__ void k(float *x, thrust::complex<float> a) {\n"
        "  thrust::complex<float> b = a * a + thrust::exp(thrust::complex<float>(0, 0));\n"
        "  x[0] = b.real(); x[1] = b.imag(); x[2] = thrust::abs(a);\n"
        "}\n",
        encoding="utf-8",
    )
    kernel = compile_source(path, architectures=["sm_70"]).kernels[0]
    three_four = np.array([3, 4], np.float32).tobytes().hex()
    out = run(kernel, launch(1, 1, x="f32[3] zeros", a=f"bytes({three_four})")).memory["x"]
    assert out.tolist() == [-6, 24, 5]


@needs_curand
def test_random_numbers_of_philox(tmp_path: Path) -> None:
    """Random123's known answers for Philox4x32-10, all of whose counter and key is zero."""
    path = tmp_path / "k.cu"
    path.write_text(
        "#include <curand.h>\n#include <curand_kernel.h>\n"
        "__global__ void k(unsigned *x, curandState *unused) {\n"
        "  curandStatePhilox4_32_10_t state;\n  curand_init(0, 0, 0, &state);\n"
        "  uint4 v = curand4(&state);\n  x[0] = v.x; x[1] = v.y; x[2] = v.z; x[3] = v.w;\n}\n",
        encoding="utf-8",
    )
    kernel = compile_source(path, architectures=["sm_70"]).kernels[0]
    assert kernel.signature is not None
    assert kernel.signature.parameters[1].pointee_bytes == 48  # of curandStateXORWOW
    out = run(kernel, launch(1, 1, x="u32[4] zeros", unused=0)).memory["x"]
    assert [f"{value:08x}" for value in out] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


def test_the_wheel_of_curand_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerncast.compile.headers.HEADER_WHEELS", ())
    wanted = Requirement("nvidia-curand-cu12", "", "curand")
    monkeypatch.setattr("kerncast.requirements.requirements", lambda: (wanted,))
    cure = cure_for_header("curand_kernel.h")
    assert cure.startswith("Install nvidia-curand-cu12: ")
    assert cure.endswith("pip install 'kerncast[curand]'")
