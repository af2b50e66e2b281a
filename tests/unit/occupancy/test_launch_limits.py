"""A launch that a GPU cannot run is refused with the limit by name, on Kepler, Volta and Hopper."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerncast.compile import CompiledKernel, compile_source, targets
from kerncast.errors import CompileError, LaunchError, Refusal
from kerncast.gpu import load_gpu
from kerncast.occupancy import check_can_run
from kerncast.profiles import Resources
from tests.helpers.execute_helpers import launch

PLAIN = Resources("sm_70", 32, 0, 0, 0, 0, 512, 1, None)
#: Bytes of shared memory that a block may have at most, with the opt-in, and registers that it may have.
#: CUDA C++ Programming Guide, technical specifications per compute capability.
SHARED_BYTES = {"k40": 48 * 1024, "titan-v": 96 * 1024, "h100-sxm": 227 * 1024}


def reason(gpu: str, grid: Any = 2, block: Any = 256, shared: int = 0, **resources: Any) -> str | None:
    try:
        check_can_run(launch(grid, block, shared), replace(PLAIN, **resources), load_gpu(gpu))
    except Refusal as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize("gpu", SHARED_BYTES)
def test_dynamic_shared_memory_up_to_the_limit_of_each_gpu(gpu: str) -> None:
    most = SHARED_BYTES[gpu]
    assert reason(gpu, shared=most) is None
    assert reason(gpu, shared=most - 1024, static_shared_bytes=1024) is None
    said = reason(gpu, shared=most, static_shared_bytes=1024)
    assert said is not None
    assert f"{most + 1024} bytes of shared memory (1024 static, {most} dynamic), over the {most} allowed" in said


@pytest.mark.parametrize("gpu", SHARED_BYTES)
def test_registers_times_threads(gpu: str) -> None:
    assert reason(gpu, block=1024, registers_per_thread=64) is None
    said = reason(gpu, block=1024, registers_per_thread=72)
    assert said is not None
    assert "1024 threads x 72 registers take 73728 registers when rounded up, over the 65536 of a block" in said


def test_kepler_of_compute_capability_3_0_has_63_registers() -> None:
    assert reason("gtx-680", registers_per_thread=63) is None
    assert "a thread has 64 registers, over the 63 allowed" in str(reason("gtx-680", registers_per_thread=64))


@pytest.mark.parametrize("gpu", SHARED_BYTES)
def test_what_the_kernel_declares(gpu: str) -> None:
    assert reason(gpu, block=128, max_threads_per_block=128) is None
    assert "256 threads, over the 128 of the kernel's __launch_bounds__" in str(reason(gpu, max_threads_per_block=128))
    assert reason(gpu, block=[64, 2], required_block=(64, 2, 1)) is None
    wrong = reason(gpu, block=128, required_block=(64, 2, 1))
    assert "the block is [128, 1, 1], not the [64, 2, 1] of its __block_size__" in str(wrong)
    assert reason(gpu, grid=[4, 2], cluster_blocks=(2, 2, 1)) is None
    uneven = reason(gpu, grid=[4, 3], cluster_blocks=(2, 2, 1))
    assert "the grid [4, 3, 1] is not a multiple of the [2, 2, 1] of the kernel's __cluster_dims__" in str(uneven)


@pytest.mark.parametrize(
    ("grid", "block", "said"),
    [
        (1, 2048, "x = 2048, outside 1 to 1024"),
        (1, [1, 1, 65], "z = 65, outside 1 to 64"),
        (1, [64, 32], "2048 threads, over the 1024 that a block of any CUDA GPU can hold"),
        ([1, 65536], 32, "y = 65536, outside 1 to 65535"),
        (2**31, 32, "x = 2147483648, outside 1 to 2147483647"),
        (0, 32, "x = 0, outside 1"),
    ],
)
def test_what_no_gpu_can_run_is_an_error_of_the_launch(grid: Any, block: Any, said: str) -> None:
    with pytest.raises(LaunchError, match=said):
        launch(grid, block)


TEXT = """
extern "C" __global__ void SHAPE k(float *x) { x[threadIdx.x] = 1; }
"""


def compiled(folder: Path, shape: str, architecture: str) -> CompiledKernel:
    path = folder / "k.cu"
    path.write_text(TEXT.replace("SHAPE", shape), encoding="utf-8")
    return compile_source(path, architectures=[architecture]).kernels[0]


@pytest.mark.parametrize("architecture", ["sm_35", "sm_70", "sm_90"])
def test_launch_bounds_are_read(tmp_path: Path, architecture: str) -> None:
    resources = compiled(tmp_path, "__launch_bounds__(96, 2)", architecture).resources
    assert (resources.max_threads_per_block, resources.required_block, resources.cluster_blocks) == (96, None, None)


def test_cluster_and_block_size_are_read(tmp_path: Path) -> None:
    assert compiled(tmp_path, "__cluster_dims__(4, 2, 1)", "sm_90").resources.cluster_blocks == (4, 2, 1)
    assert compiled(tmp_path, "__block_size__((64, 2, 1))", "sm_90").resources.required_block == (64, 2, 1)


def test_clusters_are_refused_by_name_before_hopper(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="__cluster_dims__ is not supported for this GPU architecture"):
        compiled(tmp_path, "__cluster_dims__(4, 2, 1)", "sm_70")


@pytest.mark.parametrize("architecture", ["sm_35", "sm_70", "sm_90"])
def test_static_shared_memory_over_48_kib(tmp_path: Path, architecture: str) -> None:
    path = tmp_path / "k.cu"
    text = (
        "__global__ void k(float *x) { __shared__ float s[12289]; s[threadIdx.x] = 1; __syncthreads(); x[0] = s[7]; }"
    )
    path.write_text(text, encoding="utf-8")
    said = r"kernel k declares 49156 bytes of static shared memory, over the 49152 \(48 KiB\) that any kernel may"
    with pytest.raises(CompileError, match=said):
        compile_source(path, architectures=[architecture])


def test_kepler_without_the_extra_has_the_same_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "library_paths", lambda _major: None)
    kernel = compiled(tmp_path, "__launch_bounds__(96)", "sm_35")
    assert (kernel.caveats[0].subject, kernel.caveats[0].details["compiled_for"]) == ("sm_35", "sm_50")
    for launched, said in (
        (launch(1, 128), "128 threads, over the 96 of the kernel's __launch_bounds__"),
        (launch(1, 96, 48 * 1024 + 4), "49156 bytes of shared memory"),
    ):
        with pytest.raises(Refusal, match=said):
            check_can_run(launched, kernel.resources, load_gpu("k40"))
    check_can_run(launch(1, 96, 48 * 1024), kernel.resources, load_gpu("k40"))
