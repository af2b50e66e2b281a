"""Real front ends, where they are installed, against NumPy and torch; CuPy's stand-in always."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kerncast
from kerncast.child_process import is_possible
from kerncast.gpu import load_gpu
from kerncast.read.launches import load_launches
from kerncast.scripts.session import Recorded, Script, record_script

pytestmark = pytest.mark.skipif(not is_possible(), reason="scripts run on Linux only")
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed (extra triton, 1 GB)")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
needs_numba = pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")

CUPY = '''
import cupy as cp
axpy = cp.RawKernel(r"""
extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += TIMES * a * x[i];
}
""", "axpy", options=("-DTIMES=3", "--std=c++14"))
n = 1000
x, y = cp.arange(n, dtype=cp.float32), cp.ones(n, dtype=cp.float32)
axpy((4,), (256,), (x, y, cp.float32(2), cp.int32(n)))
cp.testing.assert_array_equal(cp.asnumpy(y), 1 + 6 * cp.asnumpy(x))
'''
NUMBA = """
import numpy as np
from numba import cuda, float32

@cuda.jit
def block_sum(x, out):
    part = cuda.shared.array(256, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    n = 128
    while n > 0:
        if t < n:
            part[t] += part[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])

@cuda.jit
def scale(a, b, f):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        b[i, j] = a[i, j] * f

x = np.random.default_rng(0).random(10_000, dtype=np.float32)
out = cuda.to_device(np.zeros(1, np.float32))
block_sum[40, 256](cuda.to_device(x), out)
np.testing.assert_allclose(out.copy_to_host()[0], x.sum(), rtol=1e-4)
a = np.arange(64.0 * 48).reshape(64, 48)
b = np.zeros_like(a)
scale[(4, 3), (16, 16)](a, b, 2.5)
assert (b == a * 2.5).all()
"""
TRITON = """
import torch, triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 64}, num_warps=1)], key=["n"])
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=own) + tl.load(y_ptr + at, mask=own), mask=own)

n = 98432
x, y = torch.rand(n, device="cuda"), torch.rand(n).cuda()
assert x.is_cuda and x.device == torch.device("cuda", 0) and torch.cuda.get_device_capability() == (8, 0)
out = torch.empty_like(x)
add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
torch.testing.assert_close(out, x + y)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
for _ in range(10):
    add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
end.record()
assert 0.01 < start.elapsed_time(end) < 0.1
"""
MODULE = """
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, n, f, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * f, mask=at < n)
"""


def recorded(folder: Path, text: str) -> Recorded:
    (folder / "script.py").write_text(text, encoding="utf-8")
    found = record_script(Script(folder / "script.py"), load_gpu("a100-sxm-80gb"), folder / "out.kc")
    assert found.failed is None
    return found


@pytest.mark.parametrize("imported", ["import cupy as cp", "import sys, cupy as cp", "import sys; import cupy as cp"])
def test_raw_kernels_of_cupy_run_on_arrays_of_numpy(imported: str, tmp_path: Path) -> None:
    (launch,) = load_launches(recorded(tmp_path, CUPY.replace("import cupy as cp", imported)).recording)
    assert (launch.kernel, launch.grid, launch.block) == ("axpy", (4, 1, 1), (256, 1, 1))


@needs_numba
def test_kernels_of_numba_are_those_of_numpy(tmp_path: Path) -> None:
    one, other = load_launches(recorded(tmp_path, NUMBA).recording)
    assert (one.kernel, one.grid, other.kernel, other.block) == ("block_sum", (40, 1, 1), "scale", (16, 16, 1))


@needs_triton
@needs_torch
def test_triton_is_compiled_for_the_gpu_and_tuned_by_forecast(tmp_path: Path) -> None:
    found = recorded(tmp_path, TRITON)
    (launch,) = load_launches(found.recording)
    (tuning,) = found.tunings
    assert tuning.chosen is not None
    assert tuning.chosen.config.startswith("BLOCK: 1024")
    assert (launch.kernel, launch.grid, launch.block) == ("add", (97, 1, 1), (128, 1, 1))


class Tensor:
    """What Triton takes for a tensor where there is no torch."""

    def __init__(self, data: npt.NDArray[np.float32]) -> None:
        self.data, self.dtype, self.nbytes = data, "float32", data.nbytes

    def data_ptr(self) -> int:
        return self.data.ctypes.data


@needs_triton
def test_launches_of_this_program_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doubling.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # unset, Triton 3.9 warns
    double = import_module("doubling").double

    x = np.arange(1000, dtype=np.float32)
    (launch,) = kerncast.record(lambda: double[(1,)](Tensor(x), 1000, 2.0, BLOCK=1024), "a100-sxm-80gb")
    np.testing.assert_array_equal(x, 2 * np.arange(1000, dtype=np.float32))
    (forecast,) = kerncast.predict(launch, "a100-sxm-80gb")
    assert 1e-6 < forecast.seconds < 1e-5


TUNED = """
@triton.autotune([triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 64}, num_warps=1)], key=["n"])
@triton.jit
def tuned(x_ptr, n, f, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * f, mask=at < n)
"""


@needs_triton
def test_launchers_of_triton_are_compiled_and_tuned_for_each_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tripling.py").write_text(MODULE + TUNED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # unset, Triton 3.9 warns
    module = import_module("tripling")

    x = np.arange(2**20, dtype=np.float32)
    args = {"x_ptr": Tensor(x), "n": x.size, "f": 3.0}
    both = kerncast.predict(module.double[(1024,)], ["a100-sxm-80gb", "h100-sxm"], args={**args, "BLOCK": 1024})
    compiled = [case.profile.resources for case in both.forecast.profiled]
    assert [each.architecture for each in compiled if each] == ["sm_80", "sm_90a"]
    assert kerncast.predict(module.double[(1024,)], "h100-sxm", args={**args, "BLOCK": 1024})[0] == both[1]
    launched = [
        (len(found), found[0].seconds)
        for found in (_of(module.tuned, args, gpu) for gpu in ("a100-sxm-80gb", "h100-sxm"))
    ]
    assert launched == [(1, both[0].seconds), (1, both[1].seconds)]
    np.testing.assert_array_equal(x, np.arange(2**20, dtype=np.float32))


def _of(kernel: Any, args: dict[str, Any], gpu: str) -> kerncast.Forecasts:
    return kerncast.predict(kernel[lambda meta: (-(-args["n"] // meta["BLOCK"]),)], gpu, args=args)


@needs_numba
def test_launchers_of_numba_are_evidence_in_this_program() -> None:
    cuda = import_module("numba.cuda")

    @cuda.jit  # type: ignore[untyped-decorator]
    def scale(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], f: float) -> None:
        i = cuda.grid(1)
        if i < a.size:
            b[i] = a[i] * f

    a = np.arange(100_000, dtype=np.float32)
    b = np.zeros_like(a)
    kerncast.record(lambda: scale[400, 256](a, b, 2.5), "h100-sxm")
    np.testing.assert_array_equal(b, a * 2.5)
    b[:] = 0
    by_block = kerncast.predict(scale[391, 256], ["a100-sxm-80gb", "h100-sxm"], args=(a, b, 2.5))
    assert len(by_block) == 2
    assert not b.any()
    assert kerncast.predict(scale.forall(100_000), ["a100-sxm-80gb", "h100-sxm"], args=(a, b, 2.5)) == by_block
