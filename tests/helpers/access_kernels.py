"""Kernels that access memory once, at offsets that a table gives, and tables of offsets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.launch import Launch
from tests.helpers.execute_helpers import launch, ptx_kernel

LANES = np.arange(32)
OUT = -1
"""the offset of a lane that takes no part"""
ROOM = 32 * 33 * 16
"""bytes of the buffer, or of the shared array, that offsets point into"""
OWN = 64
"""bytes of local memory of each thread"""
REGISTERS = {"f64": "d", "f32": "f", "u32": "r", "u16": "h", "u8": "h", "b64": "x", "u64": "x", "b16": "h"}

Offsets = npt.NDArray[Any]


def accessing(instruction: str) -> CompiledKernel:
    """Return a kernel whose thread i runs one instruction at byte ``at[i]``, unless that is negative.

    The instruction is written with {p} for the address of the memory.
    """
    return ptx_kernel(
        f""".entry k(.param .u64 at, .param .u64 data) {{
        .reg .pred %p<2>; .reg .b16 %h<5>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .f64 %d<5>; .reg .b64 %rd<9>, %x<9>;
        .shared .align 16 .b8 tile[{ROOM}]; .local .align 16 .b8 own[{OWN}];
        ld.param.u64 %rd1, [at]; ld.param.u64 %rd2, [data];
        mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
        mad.wide.u32 %rd1, %r1, 4, %rd1; ld.global.s32 %r4, [%rd1]; cvt.s64.s32 %rd3, %r4;
        mov.u64 %rd4, tile; mov.u64 %rd5, own; add.u64 %rd2, %rd2, %rd3; add.u64 %rd4, %rd4, %rd3;
        add.u64 %rd5, %rd5, %rd3; setp.ge.s32 %p1, %r4, 0; @%p1 {instruction} ret; }}"""
    )


def access(name: str, vector: int = 1) -> str:
    """Return a load, store or reduction in the space and of the type that its name says, such as ld.shared.f32."""
    _, space, *_, kind = name.split(".")
    address = {"global": "[%rd2]", "shared": "[%rd4]", "local": "[%rd5]"}[space]
    registers = [f"%{REGISTERS[kind]}{n}" for n in range(1, vector + 1)]
    value = f"{{{', '.join(registers)}}}" if vector > 1 else registers[0]
    name = name.removesuffix(kind) + f"v{vector}.{kind}" if vector > 1 else name
    return f"{name} {value}, {address};" if name.startswith("ld") else f"{name} {address}, {value};"


def launch_of(rows: Sequence[Offsets], folder: Path) -> Launch:
    """Return a launch of a kernel of ``accessing`` with one block per row of offsets."""
    path = folder / "at.npy"
    np.save(path, np.array(rows, np.int32))
    shape = f"{len(rows)},{len(rows[0])}"
    return launch(len(rows), len(rows[0]), at=f"i32[{shape}] file({path})", data=f"u8[{ROOM}]")


def requests_of(row: Offsets, size: int) -> list[list[tuple[int, int, int]]]:
    """Return the requests of a block, as the oracle takes them; warps that take no part are left out."""
    warps = [row[start : start + 32] for start in range(0, len(row), 32)]
    found = [[(lane, int(at), size) for lane, at in enumerate(warp) if at >= 0] for warp in warps]
    return [request for request in found if request]


def patterns(size: int, room: int) -> list[Offsets]:
    """Return blocks of 40 threads: strides, broadcasts, permutations, random, with some lanes or all."""
    rng = np.random.default_rng(size)
    places = room // size
    thread = np.arange(40)
    full = [thread * k % places for k in (0, 1, 2, 3, 8, 31, 32, 33)]
    others = (thread // 2, thread // 4, thread ^ 1, 39 - thread, thread + 1, thread % 2, thread & ~2)
    full += [row % places for row in others]
    full += [rng.integers(0, min(most, places), 40) for most in (2, 9, 40, 500, 10**9) for _ in range(3)]
    some = [np.where(rng.random(40) < share, row, OUT) for row in full for share in (0.0, 0.1, 0.5, 0.9)]
    halves = [np.where(thread % 32 < 16, row, OUT) for row in full]
    pairs = [np.where(thread & bit, row, OUT) for row in full for bit in (1, 2)]
    rows: list[Offsets] = [np.where(row < 0, OUT, row * size) for row in (*full, *some, *halves, *pairs)]
    return rows
