"""Programs in C that call CUDA's libraries: every function by its own name, with operands as the server takes them."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kerncast.recording import EventKind
from tests.helpers.runtime_libraries import compiler, includes, libraries, program
from tests.helpers.served_program import run_served
from tests.unit.device.test_runtime_interface import exported

LIBRARIES = ("libcublas.so.12", "libcufft.so.11", "libcurand.so.10")
_PROTOTYPE = re.compile(
    r"\b(cublasStatus_t|cufftResult|curandStatus_t)\s+(\w+)\s*\(([^()]*(?:\(\*\w+\)\([^()]*\))?[^()]*)\)\s*;"
)


def preprocessed(header: str) -> str:
    command = [compiler(), "-E", "-P", *includes(), "-include", header, "-xc", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("header", "library", "prefix"), [
    ("cublas_v2.h", LIBRARIES[0], "cublas"), ("cublas.h", LIBRARIES[0], "cublas"), ("cufft.h", LIBRARIES[1], "cufft"),
    ("curand.h", LIBRARIES[2], "curand"),
])  # fmt: skip
def test_all_that_the_headers_declare_is_there_and_nothing_else(header: str, library: str, prefix: str) -> None:
    names = set(re.findall(rf"\b({prefix}[A-Z]\w*)\s*\(", preprocessed(header)))
    assert len(names) > 20
    own = exported(libraries() / library)
    assert names - own == set()
    assert {each for each in own if not each.startswith((prefix, f"lib{prefix}"))} == set()


def no_work(parameters: str) -> str | None:
    """Return arguments by which a function of cuBLAS has nothing to do."""
    found = []
    for each in parameters.split(","):
        words = each.replace("const", " ").strip()
        if "cublasHandle_t" in words:
            found.append("handle")
        elif "*" in words or "[]" in words:
            found.append("(void *)place")
        elif re.search(r"\b(lda|ldb|ldc|incx|incy)$", words):
            found.append("1")
        elif "cublasComputeType_t" in words:
            found.append("CUBLAS_COMPUTE_32F")
        elif re.match(r"(?:long long int|int|cublas\w+|cudaDataType)\s+\w+$", words):
            found.append("0")
        else:
            return None
    return ", ".join(found)


def test_each_function_sends_the_operands_that_its_server_takes(tmp_path: Path) -> None:
    text = re.sub(r"\s+", " ", preprocessed("cublas_v2.h"))
    calls = [
        (name, no_work(parameters))
        for _, name, parameters in _PROTOTYPE.findall(text)
        if re.match(r"cublas(I?[SDCZ]|[SDCZ][a-z]|Gemm|Nrm2Ex|AxpyEx|Dot|ScalEx)", name)
        and not re.match(r"cublas(Create|Destroy|Set|Get|Logger)", name)
    ]
    assert len(calls) > 180
    assert [name for name, given in calls if given is None] == []
    lines = "\n".join(f"  TRY({name}, ({given}));" for name, given in calls)
    body = f"""
#include <cublas_v2.h>
#pragma GCC diagnostic ignored "-Wincompatible-pointer-types"
#define TRY(name, given) if ((status = name given)) printf("%s: %d\\n", #name, status), wrong = 1
int main(void) {{
  cublasHandle_t handle;
  int status, wrong = 0;
  char *place;
  MUST(cudaMallocHost((void **)&place, 4096));
  memset(place, 0, 4096);
  MUST(cublasCreate(&handle));
{lines}
  MUST(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
{lines}
  puts("all");
}}
"""
    said, shared = run_served(program(tmp_path, body, also=LIBRARIES), tmp_path)
    assert said == "all\n"
    assert shared.remarks.texts == ()


#: Prints the numbers of an array as a line of JSON.
SHOW = r"""
#define SHOW(array, count) \
  do { \
    printf("["); \
    for (int i = 0; i < (int)(count); i++) printf("%s%.17g", i ? ", " : "", (double)(array)[i]); \
    printf("]\n"); \
  } while (0)
"""


def arrays(said: str) -> list[list[float]]:
    return [json.loads(line) for line in said.splitlines()]


BLAS = (
    SHOW
    + r"""
#include <cublas_v2.h>
int main(void) {
  enum { M = 3, N = 2, K = 4 };
  double a[M * K], b[K * N], c[M * N], *da, *db, *dc, *dx, norm = 0, alpha = 2, beta = 3;
  for (int i = 0; i < M * K; i++) a[i] = i + 1;
  for (int i = 0; i < K * N; i++) b[i] = i * i;
  for (int i = 0; i < M * N; i++) c[i] = -i;
  MUST(cudaMalloc((void **)&da, sizeof a));
  MUST(cudaMalloc((void **)&db, sizeof b));
  MUST(cudaMalloc((void **)&dc, sizeof c));
  MUST(cudaMalloc((void **)&dx, 8));
  cublasHandle_t handle;
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  MUST(cublasCreate(&handle));
  MUST(cublasSetStream(handle, stream));
  MUST(cublasSetMatrix(M, K, 8, a, M, da, M));
  MUST(cublasSetVector(K * N, 8, b, 1, db, 1));
  MUST(cublasSetMatrixAsync(M, N, 8, c, M, dc, M, stream));
  MUST(cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &alpha, da, M, db, K, &beta, dc, M));
  MUST(cublasGetMatrix(M, N, 8, dc, M, c, M));
  SHOW(c, M * N);
  /* A result of the host, and one of the device that is the next call's factor. */
  MUST(cublasDnrm2(handle, M * N, dc, 1, &norm));
  SHOW(&norm, 1);
  MUST(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
  MUST(cublasDdot(handle, 3, da, 1, da, 1, dx));
  MUST(cublasDscal(handle, 2, dx, da, 2));
  MUST(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
  MUST(cublasGetVector(2, 8, da, 2, a, 1));
  SHOW(a, 2);
  double r = 3, z = 4, cosine, sine;
  MUST(cublasDrotg(handle, &r, &z, &cosine, &sine));
  double found[] = {r, cosine, sine};
  SHOW(found, 3);
  double wrong[] = {
      cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &alpha, da, M - 1, db, K, &beta, dc, M),
      cublasDgemm(NULL, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &alpha, da, M, db, K, &beta, dc, M),
      cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, NULL, da, M, db, K, &beta, dc, M),
      cublasSetVector(4, 8, a, 0, da, 1), cublasSetVector(100, 8, a, 1, da, 1),
      cublasDnrm2(handle, 100, dc, 1, &norm), cudaDeviceSynchronize(), cublasDnrm2(handle, 1, dc, 1, &norm)};
  SHOW(wrong, 8);
}
"""
)


def test_a_program_multiplies_matrices(tmp_path: Path) -> None:
    said, shared = run_served(program(tmp_path, BLAS, also=LIBRARIES), tmp_path)
    a = np.arange(1.0, 13).reshape(4, 3).T
    b = (np.arange(8.0) ** 2).reshape(2, 4).T
    wanted = 2 * a @ b - 3 * np.arange(6.0).reshape(2, 3).T
    product, norm, scaled, rotation, wrong = arrays(said)
    assert product == wanted.T.ravel().tolist()
    assert norm == pytest.approx([np.linalg.norm(wanted)])
    assert scaled == [14, 42]
    assert rotation == pytest.approx([5, 0.6, 0.8])
    # Invalid values, no handle, memory that cannot be mapped, and a bad address, after which nothing goes on.
    assert wrong == [7, 1, 7, 7, 11, 13, 700, 13]
    assert [each.function for each in shared.library_calls] == [
        "cublasDgemm_v2", "cublasDnrm2_v2", "cublasDdot_v2", "cublasDscal_v2", "cublasDrotg_v2"
    ]  # fmt: skip
    events = shared.capture.events.rows
    assert (events["kind"] == EventKind.LIBRARY).sum() == 5
    assert (events["stream"][events["kind"] == EventKind.LIBRARY] > 0).all()
    assert "800 bytes" in " ".join(shared.remarks.texts)


LEGACY = (
    SHOW
    + r"""
#include <cublas.h>
int main(void) {
  float a[4] = {1, 2, 3, 4}, *da;
  MUST(cublasInit());
  MUST(cublasAlloc(4, 4, (void **)&da));
  MUST(cublasSetMatrix(2, 2, 4, a, 2, da, 2));
  float sum = cublasSasum(4, da, 1);
  SHOW(&sum, 1);
  cublasSgemm('n', 'T', 2, 2, 2, 1, da, 2, da, 2, 0, da, 2);
  MUST(cublasGetError());
  cublasStrmm('L', 'U', 'N', 'N', 2, 2, 2, da, 2, da, 2);
  cublasGetMatrix(2, 2, 4, da, 2, a, 2);
  SHOW(a, 4);
  cublasSscal(4, 2, da, 1);
  cublasSgemm('x', 'N', 2, 2, 2, 1, da, 2, da, 2, 0, da, 2);
  double errors[] = {cublasGetError(), cublasGetError(), cublasFree(da), cublasShutdown()};
  SHOW(errors, 4);
}
"""
)


def test_the_first_interface_works_too(tmp_path: Path) -> None:
    said, _ = run_served(program(tmp_path, LEGACY, also=LIBRARIES), tmp_path)
    a = np.array([[1.0, 3], [2, 4]])
    square = a @ a.T
    assert arrays(said) == [[10], (2 * np.triu(square) @ square).T.ravel().tolist(), [7, 0, 0, 0]]


FFT = (
    SHOW
    + r"""
#include <cufft.h>
int main(void) {
  enum { N = 6, BATCH = 2 };
  float x[N * BATCH], *dx;
  cufftComplex *dz, z[(N / 2 + 1) * BATCH], square[9], *ds;
  for (int i = 0; i < N * BATCH; i++) x[i] = i * i % 7;
  MUST(cudaMalloc((void **)&dx, sizeof x));
  MUST(cudaMalloc((void **)&dz, sizeof z));
  MUST(cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice));
  cufftHandle there, back, plan;
  MUST(cufftPlan1d(&there, N, CUFFT_R2C, BATCH));
  MUST(cufftPlan1d(&back, N, CUFFT_C2R, BATCH));
  MUST(cufftExecR2C(there, dx, dz));
  MUST(cudaMemcpy(z, dz, sizeof z, cudaMemcpyDeviceToHost));
  SHOW((float *)z, 2 * (N / 2 + 1) * BATCH);
  MUST(cufftExecC2R(back, dz, dx));
  MUST(cudaMemcpy(x, dx, sizeof x, cudaMemcpyDeviceToHost));
  SHOW(x, N * BATCH);
  for (int i = 0; i < 9; i++) square[i] = make_cuComplex(i, i == 4);
  MUST(cudaMalloc((void **)&ds, sizeof square));
  MUST(cudaMemcpy(ds, square, sizeof square, cudaMemcpyHostToDevice));
  size_t bytes;
  MUST(cufftCreate(&plan));
  MUST(cufftMakePlan2d(plan, 3, 3, CUFFT_C2C, &bytes));
  MUST(cufftExecC2C(plan, ds, ds, CUFFT_FORWARD));
  MUST(cudaMemcpy(square, ds, sizeof square, cudaMemcpyDeviceToHost));
  SHOW((float *)square, 18);
  int rank_4[] = {2, 2, 2, 2};
  double wrong[] = {cufftExecC2C(there, dz, dz, CUFFT_FORWARD), cufftExecC2C(plan, NULL, ds, CUFFT_FORWARD),
                    cufftExecC2C(99, ds, ds, CUFFT_FORWARD), cufftPlan1d(&plan, 0, CUFFT_C2C, 1),
                    cufftPlan1d(&plan, 8, (cufftType)5, 1),
                    cufftPlanMany(&plan, 4, rank_4, 0, 1, 0, 0, 1, 0, CUFFT_C2C, 1),
                    cufftDestroy(there), cufftExecR2C(there, dx, dz), cufftExecC2R(back, dz, (float *)ds + 18)};
  SHOW(wrong, 9);
}
"""
)


def test_a_program_transforms(tmp_path: Path) -> None:
    said, shared = run_served(program(tmp_path, FFT, also=LIBRARIES), tmp_path)
    x = (np.arange(12) ** 2 % 7).astype(float).reshape(2, 6)
    square = np.arange(9).reshape(3, 3) + 1j * np.eye(9)[4].reshape(3, 3)
    there, back, plane, wrong = arrays(said)
    np.testing.assert_allclose(there, np.fft.rfft(x).view(float).ravel(), atol=1e-5)
    np.testing.assert_allclose(back, 6 * x.ravel(), atol=1e-5)
    np.testing.assert_allclose(plane, np.fft.fft2(square).view(float).ravel(), atol=1e-5)
    assert wrong == [4, 4, 1, 8, 3, 4, 0, 1, 6]
    assert [each.function for each in shared.library_calls] == ["cufftExecR2C", "cufftExecC2R", "cufftExecC2C"]


RANDOM = (
    SHOW
    + r"""
#include <curand.h>
int main(void) {
  enum { COUNT = 1000 };
  float first[COUNT], second[COUNT], host[COUNT], *device;
  MUST(cudaMalloc((void **)&device, sizeof first));
  curandGenerator_t one, other;
  MUST(curandCreateGenerator(&one, CURAND_RNG_PSEUDO_DEFAULT));
  MUST(curandSetPseudoRandomGeneratorSeed(one, 1234ULL));
  MUST(curandGenerateUniform(one, device, COUNT / 2));
  MUST(curandGenerateUniform(one, device + COUNT / 2, COUNT / 2));
  MUST(cudaMemcpy(first, device, sizeof first, cudaMemcpyDeviceToHost));
  MUST(curandGenerateNormal(one, device, COUNT, 10, 2));
  MUST(cudaMemcpy(second, device, sizeof second, cudaMemcpyDeviceToHost));
  MUST(curandCreateGeneratorHost(&other, CURAND_RNG_PSEUDO_DEFAULT));
  MUST(curandSetPseudoRandomGeneratorSeed(other, 1234ULL));
  MUST(curandGenerateUniform(other, host, COUNT));
  SAY(memcmp(first, host, sizeof first));
  SHOW(first, COUNT);
  SHOW(second, COUNT);
  SAY(curandGenerateNormal(one, device, 3, 0, 1));
  SAY(curandGenerateLongLong(one, (unsigned long long *)device, 4));
  SAY(curandSetQuasiRandomGeneratorDimensions(one, 3));
  SAY(curandCreateGenerator(&one, (curandRngType_t)7));
  SAY(curandDestroyGenerator(other));
  SAY(curandGenerateUniform(one, device, 10 * COUNT));
}
"""
)


def test_a_program_draws_numbers(tmp_path: Path) -> None:
    said, shared = run_served(program(tmp_path, RANDOM, also=LIBRARIES), tmp_path)
    lines = said.splitlines()
    assert lines[0].endswith(" 0")  # the host's generator and the device's agree, whatever the parts
    uniform, normal = (np.array(json.loads(line)) for line in lines[1:3])
    assert abs(uniform.mean() - 0.5) < 5 / np.sqrt(12 * 1000)
    assert abs(normal.mean() - 10) < 5 * 2 / np.sqrt(1000)
    assert abs(normal.std() - 2) < 0.3
    assert [line.rsplit(" ", 1)[1] for line in lines[3:]] == ["105", "103", "103", "103", "0", "201"]
    # What the host makes for itself is no work of the GPU.
    assert [(each.function, each.nbytes) for each in shared.library_calls] == [
        ("curandGenerateUniform", 2000), ("curandGenerateNormal", 4000)
    ]  # fmt: skip
