"""Functions that launch Triton's kernels in this process, as evidence; Triton is a stand-in with PTX of its own."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerncast
from kerncast.child_process import is_possible
from kerncast.errors import InputError, KernelFault
from tests.helpers.fake_triton import make_triton
from tests.helpers.places import ROOT

pytestmark = pytest.mark.skipif(not is_possible(), reason="kernels are recorded on Linux only")

PTX = ROOT / "tests" / "unit" / "scripts" / "add_kernel.ptx"
SIGNATURE = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
A100, H100 = "a100-sxm-80gb", "h100-sxm"
N = 98432


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    make_triton(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    yield import_module("triton").Kernel("add_kernel", PTX.read_text(encoding="utf-8"), SIGNATURE)
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        del sys.modules[name]


class Arrays:
    def __init__(self) -> None:
        self.x, self.y = np.arange(N, dtype=np.float32), np.full(N, 0.5, np.float32)
        self.out = np.zeros(N, np.float32)


def test_a_launcher_with_its_arguments_is_forecast_and_changes_nothing(add: Any) -> None:
    a = Arrays()
    found = kerncast.predict(add[(97,)], [A100, H100], args=(a.x, a.y, a.out, N, 1024))
    assert [(p.kernel, p.gpu_id) for p in found] == [("add_kernel", A100), ("add_kernel", H100)]
    assert not a.out.any()
    # The bytes of two loads and a store at the full rate of DRAM: no launch from a cold cache is faster.
    (cold,) = kerncast.predict(add[(97,)], A100, args=(a.x, a.y, a.out, N, 1024), timing="cold")
    assert cold.seconds > 2 * 4 * N / kerncast.load_gpu(A100).dram_bytes_per_s
    by_name = {"x": a.x, "y": a.y, "out": a.out, "n": N, "BLOCK": 1024}
    assert kerncast.predict(add[(97,)], [A100, H100], args=by_name) == found


def test_a_function_of_ones_own_sees_the_results(add: Any) -> None:
    a = Arrays()
    found = kerncast.predict(lambda: add[(97,)](a.x, a.y, a.out, N, BLOCK=1024), A100)
    np.testing.assert_array_equal(a.out, a.x + a.y)
    assert tuple(found) == tuple(
        kerncast.predict(kerncast.record(lambda: add[(97,)](a.x, a.y, a.out, N, 1024), A100), A100)
    )


def test_a_launcher_is_profiled_and_compared(add: Any) -> None:
    a = Arrays()
    args = (a.x, a.y, a.out, N, 1024)
    found = kerncast.profile(add[(97,)], A100, args=args)
    # Four warps a block, four vectors of four FP32 numbers for each thread in two loads and a store.
    assert found["launch__grid_size"] == 97
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == -(-N // 8)
    assert len(kerncast.compare(add[(97,)], [A100, "a100-pcie-40gb"], args=args)) == 2
    with pytest.raises(InputError, match="compiled for one architecture"):
        kerncast.compare(add[(97,)], [A100, H100], args=args)


def test_bad_calls(add: Any) -> None:
    a = Arrays()
    with pytest.raises(InputError, match="launches no kernel"):
        kerncast.predict(lambda: None, A100)
    with pytest.raises(InputError, match="no GPU is named"):
        kerncast.predict(lambda: None)
    with pytest.raises(InputError, match=r"compiled for a GPU|none is named"):
        kerncast.profile(add[(97,)], args=(a.x, a.y, a.out, N, 1024))
    with pytest.raises(InputError, match="args belong to a function"):
        kerncast.predict(ROOT / "examples" / "saxpy.toml", A100, args=(1,))
    with pytest.raises(KernelFault, match="out of bounds"):
        kerncast.predict(add[(98,)], A100, args=(a.x, a.y, a.out, N + 64, 1024))
    assert not a.out.any()
    with pytest.raises(ZeroDivisionError):  # an error of the function's own stays what it is
        kerncast.predict(lambda: 1 / 0, A100)
