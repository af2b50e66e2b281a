"""Kernels and variables of a source are found by the names that the program registers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kerncast.compile import compile_source
from kerncast.device.demangling import function_name
from kerncast.device.modules import Function, Modules, common_name, plain_name
from kerncast.device.wire import Form
from kerncast.errors import KernelFault
from kerncast.execute.live import Call, LiveMemory, Rules
from kerncast.execute.setup.arena import GLOBAL_BASE
from kerncast.gpu import resolve_gpu
from kerncast.hostbuild.compiling import ASKS_FOR_CLANG

#: What only one source sees, and int64_t, have one name in the program, by clang, and another one in PTX, by NVRTC.
SOURCE = """
static __constant__ int c[2];
namespace { __device__ int g = 9; struct Five { static constexpr int value = 5; };
template <class T> __global__ void hidden(int *p) { p[0] = c[1]; p[1] = g; p[2] = T::value; g = 10; } }
#include <cstdint>
static __global__ void plain(int64_t *p) { *(int *)p = g; }
"""
HIDDEN = "_ZN12_GLOBAL__N_16hiddenINS_4FiveEEEvPi"
PLACE = 1 << 27


@pytest.fixture
def memory() -> LiveMemory:
    found = LiveMemory(np.zeros(PLACE + 4096, np.uint8))
    for at, name in ((0, "c"), (512, "g"), (1024, "p")):
        found.add(GLOBAL_BASE + PLACE + at, 16, name)
    return found


def test_what_only_one_source_sees_is_found(tmp_path: Path, memory: LiveMemory) -> None:
    modules = loaded(tmp_path, SOURCE, memory)
    modules.place(1, "_ZL1c", GLOBAL_BASE + PLACE, 8)
    modules.place(1, "_ZN12_GLOBAL__N_11gE", GLOBAL_BASE + PLACE + 512, 4)
    memory.bytes_at(GLOBAL_BASE + PLACE, 8)[:] = np.array([3, 4], np.int32).view(np.uint8)
    modules.written_by_host(GLOBAL_BASE + PLACE)
    assert launched(modules.function(1, 1, HIDDEN), memory) == [4, 9, 5]
    assert launched(modules.function(2, 1, "_ZL5plainPl"), memory) == [10, 9, 5]


#: To nvcc on Linux, uint64_t is unsigned long, for which CUDA has no atomicAdd.
ADDS = """
#include <cstdint>
static inline __device__ uint64_t atomicAdd(uint64_t *at, uint64_t value) {
  return ::atomicAdd(reinterpret_cast<unsigned long long *>(at), value);
}
__global__ void count(uint64_t *p) { ::atomicAdd(p, uint64_t(1)); }
"""


def test_64_bit_integers_are_those_of_host_code(tmp_path: Path, memory: LiveMemory) -> None:
    modules = loaded(tmp_path, ADDS, memory)
    assert launched(modules.function(1, 1, "_Z5countPm"), memory)[0] == 1


#: Clang's PTX stands behind the source, for kernels that NVRTC cannot find there.
BOTH = """
.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b64 r) __nv_cbrt (.param .b64 x);
.visible .entry _Z4ownsPi(.param .u64 p) { .param .b64 r; .param .b64 x; call (r), __nv_cbrt, (x); ret; }
.visible .entry _ZN3cub4hersEPi(.param .u64 p) {
  .reg .b64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a], 6; ret;
}
"""


def test_kernels_are_compiled_from_the_source_where_they_can_be(tmp_path: Path, memory: LiveMemory) -> None:
    modules = loaded(tmp_path, "__global__ void owns(int *p) { *p = cbrt(125.0); }", memory, BOTH)
    own, hers = modules.function(1, 1, "_Z4ownsPi"), modules.function(2, 1, "_ZN3cub4hersEPi")
    assert launched(own, memory)[0] == 5
    assert launched(hers, memory)[0] == 6
    assert modules.origin_of(own).request is not None
    # What is recorded of it links: no other kernel of the text is in it.
    assert modules.origin_of(hers).ptx.count(".entry") == 1


def test_a_refusal_by_nvrtc_names_the_other_compiler(tmp_path: Path, memory: LiveMemory) -> None:
    found = loaded(tmp_path, "__global__ void k(int *p) { *p = unknown; }", memory).function(1, 1, "_Z1kPi")
    assert found.refusal is not None
    assert "unknown" in found.refusal.what
    assert found.refusal.cure is not None
    assert f"-D {ASKS_FOR_CLANG}=1" in found.refusal.cure


def loaded(folder: Path, text: str, memory: LiveMemory, ptx: str = "") -> Modules:
    source = folder / "one.cu"
    source.write_text(text, encoding="utf-8")
    told = {"source": str(source), "defines": [], "include_dirs": [], "standard": "c++17", "fast_math": False}
    modules = Modules(resolve_gpu("T4")[0], memory, GLOBAL_BASE, lambda _: None)
    tag = f"KERNCAST SOURCE {json.dumps(told)}"
    form, code = (Form.PTX, f"// {tag}\n{ptx}") if ptx else (Form.SOURCE, tag)
    modules.load(1, form, code.encode() + b"\0")
    return modules


def launched(function: Function, memory: LiveMemory) -> list[int]:
    assert function.kernel is not None, function.refusal
    pointer = (GLOBAL_BASE + PLACE + 1024).to_bytes(8, "little")
    function.kernel.launch(Call((1, 1, 1), (1, 1, 1), 0, pointer), memory, Rules())
    found: list[int] = memory.bytes_at(GLOBAL_BASE + PLACE + 1024, 12).view(np.int32).tolist()
    return found


GRID = """
#include <cooperative_groups.h>
extern "C" __global__ void turns(int *p, int *q) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    for (int round = 0; round < 3; round++) {
        p[i] = i + round;
        cooperative_groups::this_grid().sync();
        q[i] += p[n - 1 - i];
        cooperative_groups::this_grid().sync();
    }
}
"""


def test_blocks_of_a_cooperative_launch_wait_for_one_another(tmp_path: Path) -> None:
    (tmp_path / "grid.cu").write_text(GRID, encoding="utf-8")
    ptx = compile_source(tmp_path / "grid.cu", architectures=["sm_75"]).kernels[0].ptx
    memory = LiveMemory(np.zeros(PLACE + 8192, np.uint8))
    p, q = GLOBAL_BASE + PLACE, GLOBAL_BASE + PLACE + 4096
    memory.add(p, 1024, "p")
    memory.add(q, 1024, "q")
    modules = Modules(resolve_gpu("T4")[0], memory, GLOBAL_BASE, lambda _: None)
    modules.load(1, Form.PTX, ptx.encode() + b"\0")
    call = Call((8, 1, 1), (32, 1, 1), 0, p.to_bytes(8, "little") + q.to_bytes(8, "little"), is_cooperative=True)
    turns = modules.function(1, 1, "turns")
    for _ in range(2):
        kernel = turns.kernel_for(call)
        assert kernel is not None
        kernel.launch(call, memory, Rules(60.0))
    others = 255 - np.arange(256)
    assert (memory.bytes_at(q, 1024).view(np.int32) == 2 * (3 * others + 3)).all()
    plain = turns.kernel_for(replace(call, is_cooperative=False))
    assert plain is not None
    with pytest.raises(KernelFault):  # as CUDA's own headers end a launch that is not cooperative
        plain.launch(replace(call, is_cooperative=False), memory, Rules(60.0))


def test_names_of_two_sources_stay_apart() -> None:
    assert common_name("_ZN1a1cE") != common_name("_ZN1b1cE")
    assert common_name("_ZN12_GLOBAL__N_11cE") != common_name("c")
    assert plain_name(HIDDEN) == "hidden<Five>"


@pytest.mark.parametrize(
    "mangled",
    [
        "_ZN2ns6reduceIfLj256ELb1EEEvPT_", "_Z1fIPFivEA3_iLin5ELs3EEvT_", "_ZN12_GLOBAL__N_11aIiEEvT_",
        "_Z1gISt4pairIiSaIcEEJifPKcEEvv", "_ZN7cutlassL6KernelIiEEvi", "_Z1fIN2ns1AILNS0_1EE2EEES2_EvT_",
        "_Z1hILm7ELx9ERVKdOSsEvv", "_ZN1a1bIiE1cINS_1dIS1_EEEEvv",
    ],
)  # fmt: skip
def test_names_are_taken_apart_as_by_the_library_of_c(mangled: str) -> None:
    assert function_name(mangled) == plain_name(mangled).replace(" >", ">")


def test_a_name_is_taken_apart_however_long_it_is() -> None:
    mangled = "_Z1fI" + "3abc" * 1000 + "EvT_"
    assert plain_name(mangled) == f"f<{', '.join(['abc'] * 1000)}>"


@pytest.mark.parametrize(
    "mangled",
    ["main", "_Z", "_ZN1a", "_Z9f", "_Z1fIS9_EvT_", "_Z1fI" + "P" * 100000, "_Z1fIXadL_Z1gvEEEvv", "_Z1fIL_Z1gvEEvv"],
)
def test_what_is_no_name_has_none(mangled: str) -> None:
    assert function_name(mangled) is None
