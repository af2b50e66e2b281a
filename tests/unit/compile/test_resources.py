"""Resources from the machine code, against the log of the assembler and against sizes worked out by hand."""

import re
from pathlib import Path

import pytest

from kerncast.compile import compile_source, nvrtc
from kerncast.compile.cubin import read_resources, read_spills
from kerncast.errors import CompileError

KERNELS = b"""
__device__ __noinline__ float helper(float x) {
    float t[4];
    for (int i = 0; i < 4; i++) t[i] = sinf(x + i);
    return t[(int)x & 3];
}
extern "C" {
__global__ void plain(float *x) { x[threadIdx.x] *= 2; }
__global__ void tiled(const float *a, float *c, int n) {
    __shared__ float ta[16][16], tb[16][16];
    int t = threadIdx.y, u = threadIdx.x;
    ta[t][u] = a[t * n + u]; tb[t][u] = a[u * n + t];
    __syncthreads();
    float s = 0; for (int k = 0; k < 16; k++) s += ta[t][k] * tb[k][u];
    c[t * n + u] = s;
}
__global__ void __launch_bounds__(128, 8) bounded(double *x) {
    double v[48];
    for (int i = 0; i < 48; i++) v[i] = x[i * 128 + threadIdx.x];
    for (int r = 0; r < 8; r++)
        for (int i = 0; i < 48; i++) v[i] = v[i] * v[(i + 7) % 48] + v[(i + 13) % 48];
    for (int i = 0; i < 48; i++) x[i * 128 + threadIdx.x] = v[i];
}
__global__ void stack(const int *x, int *y, int n) {
    int t[64];
    for (int i = 0; i < n; i++) t[x[i]] = i;
    y[threadIdx.x] = t[x[threadIdx.x]];
}
__global__ void calls(float *x) { x[0] = helper(x[1]); }
__global__ void dynamic(float *x) {
    extern __shared__ float d[];
    d[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[0] = d[5];
}
}
"""
NAMES = {"plain", "tiled", "bounded", "stack", "calls", "dynamic"}

ARCHITECTURES = [(11, 35), (12, 50), (12, 61), (12, 70), (12, 80), (12, 90), (12, 120)]

LOG_OF_KERNEL = re.compile(
    r"Compiling entry function '(\w+)' for 'sm_\d+'\n.*?Function properties for \1\n"
    r".*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
    r".*?Used (\d+) registers([^\n]*)",
    re.DOTALL,
)


def compiled(toolkit: int, number: int) -> nvrtc.Image:
    compiler = nvrtc.load(toolkit)
    if compiler is None:
        pytest.skip(f"{nvrtc.wheel(toolkit)} is not installed")
    return compiler.compile(nvrtc.Unit(KERNELS, "k.cu", {}), [f"-arch=sm_{number}", "-std=c++17", "--ptxas-options=-v"])


@pytest.mark.parametrize(("toolkit", "number"), ARCHITECTURES)
def test_machine_code_and_log_agree(toolkit: int, number: int) -> None:
    image = compiled(toolkit, number)
    resources = read_resources(image.cubin, image.log, f"sm_{number}")
    said = {row[0]: row[1:] for row in LOG_OF_KERNEL.findall(image.log)}
    assert set(resources) == NAMES == set(said)
    for name, found in resources.items():
        frame, stores, loads, registers, rest = said[name]
        assert found.registers_per_thread == int(registers)
        assert found.local_bytes_per_thread == int(frame)
        assert (found.spill_store_bytes, found.spill_load_bytes) == (int(stores), int(loads))
        shared = re.search(r"(\d+) bytes smem", rest)
        assert found.static_shared_bytes == (int(shared[1]) if shared else 0)
        barriers = re.search(r"used (\d+) barriers", rest)
        if barriers:
            assert found.barriers == int(barriers[1])


@pytest.mark.parametrize(("toolkit", "number"), ARCHITECTURES)
def test_sizes_known_by_hand(toolkit: int, number: int) -> None:
    image = compiled(toolkit, number)
    found = read_resources(image.cubin, image.log, f"sm_{number}")
    assert found["tiled"].static_shared_bytes == 2 * 16 * 16 * 4
    assert found["dynamic"].static_shared_bytes == 0
    assert found["stack"].local_bytes_per_thread == 64 * 4
    assert found["bounded"].max_threads_per_block == 128
    assert found["plain"].max_threads_per_block is None
    assert (found["plain"].barriers, found["tiled"].barriers) == (0, 1)
    # 8 blocks of 128 threads share 65536 registers: 64 for each thread, too few for 48 doubles.
    assert found["bounded"].registers_per_thread <= 64
    assert found["bounded"].spill_store_bytes > 0
    # Instructions are 8 bytes long before sm_70 and 16 bytes since.
    assert all(each.code_bytes % (16 if number >= 70 else 8) == 0 < each.code_bytes for each in found.values())
    assert {each.architecture for each in found.values()} == {f"sm_{number}"}


def test_spills_of_a_called_function_are_not_the_kernels() -> None:
    log = """ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 10 registers, used 2 barriers, 360 bytes cmem[0]
ptxas info    : Function properties for helper
ptxas         .     0 bytes stack frame, 100 bytes spill stores, 200 bytes spill loads
"""
    (spills,) = read_spills(log).values()
    assert (spills.store_bytes, spills.load_bytes, spills.barriers) == (4, 8, 2)


def test_spills_for_want_of_setmaxnreg_are_not_the_kernels() -> None:
    # What nvJitLink 12.9 says of FlashAttention-4 for sm_100a; ptxas 13.4 takes 8 bytes of stack and 128 registers.
    log = """ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility across \
compilation units.
ptxas info    : Compiling entry function 'k' for 'sm_100a'
ptxas info    : Function properties for k
ptxas         .     464 bytes stack frame, 748 bytes spill stores, 1000 bytes spill loads
ptxas info    : Used 128 registers, used 16 barriers
"""
    (spills,) = read_spills(log).values()
    assert (spills.store_bytes, spills.load_bytes, spills.barriers) == (0, 0, 16)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"no machine code", b"\x7fELF" + bytes(200)])
def test_damaged_machine_code_is_an_error(data: bytes) -> None:
    with pytest.raises(CompileError):
        read_resources(data, "", "sm_70")


def test_every_truncation_of_real_machine_code_is_an_error_or_a_result() -> None:
    image = compiled(12, 80)
    for size in range(0, len(image.cubin), max(1, len(image.cubin) // 150)):
        try:
            read_resources(image.cubin[:size], image.log, "sm_80")
        except CompileError:
            continue


def test_registers_of_sm_30_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    body = KERNELS.decode().replace("__launch_bounds__(128, 8)", "")
    path.write_text(body, encoding="utf-8")
    old, new = compile_source(path, architectures=["sm_30", "sm_35"], kernel="bounded").kernels
    if nvrtc.load(11) is None:
        pytest.skip("the extra kepler is not installed")
    assert old.resources.registers_per_thread <= 63 < new.resources.registers_per_thread
    assert old.resources.architecture == "sm_35"
    assert old.caveats[0].subject == "sm_30"
    assert new.caveats == ()
