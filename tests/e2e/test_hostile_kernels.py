"""Kernels that try to crash, stall or starve the process that executes them: each ends with an error, or as PTX says.

All attacks run in one child process with a limit of memory, so that a crash is a failed test and not the end of all.
"""

import contextlib
import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.helpers.places import ROOT

GIB = 2**30
HEAD = (
    ".reg .b32 %r<100>; .reg .pred %p<10>; .reg .b64 %d<10>; .reg .f32 %f<10>; .reg .b16 %h<10>; .reg .b8 %b<10>;"
    " ld.param.u64 %d1, [x]; mov.u32 %r1, %tid.x;"
)
CHILD = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30,) * 2)
from tests.helpers.execute_helpers import launch, ptx_kernel
from kerncast.errors import KerncastError
from kerncast.execute import Budget, execute
for line in sys.stdin:
    attack = json.loads(line)
    kernel = ptx_kernel(attack["outside"] + ".visible .entry k(.param .u64 x) {" + attack["body"] + " ret; }")
    where = launch(attack["grid"], attack["block"], attack["shared"], x=attack["x"])
    begin = time.process_time()
    try:
        trace, _ = execute(kernel, where, Budget(**{"seconds": 60, "block_steps": 10**6, **attack["budget"]}))
        found = {"error": "", "text": "; ".join(each.kind for each in trace.remarks)}
        found["x"] = trace.memory["x"].tolist() if "x" in trace.memory else []
    except KerncastError as error:
        name = type(error).__name__.replace("MachineLimit", "BudgetExceeded").replace("NotExecuted", "Unsupported")
        found = {"error": name, "text": str(error), "x": []}
    found["cpu_seconds"] = time.process_time() - begin
    print(json.dumps(found), flush=True)
"""


@dataclass(frozen=True)
class Attack:
    """One kernel, and how it has to end."""

    name: str
    body: str
    error: str = ""
    """class of the error; empty where the kernel does nothing wrong"""
    text: str = ""
    """a part of the message, or of the kinds of the remarks"""
    x: Any = "u32[64] zeros"
    grid: Any = 1
    block: int = 32
    shared: int = 0
    outside: str = ""
    """declarations outside of the kernel"""
    budget: dict[str, Any] = field(default_factory=dict)
    cpu_seconds: float = 12
    """so much work it may make at most"""


def outside(name: str, body: str, **more: Any) -> Attack:
    return Attack(name, body, "IllegalAddress", "is out of bounds", **more)


def endless(name: str, body: str, **more: Any) -> Attack:
    return Attack(name, body, "BudgetExceededError", "did not end", **more)


def stopped(name: str, body: str, **more: Any) -> Attack:
    return Attack(name, body, "BudgetExceededError", "stopped after", **more)


def refused(name: str, body: str, **more: Any) -> Attack:
    return Attack(name, body, "UnsupportedError", "supported", **more)


LOCAL = ".local .align 16 .b8 s[64]; "
SHARED = ".shared .align 16 .b8 s[64];"
MIXED = (
    "cvta.shared.u64 %d2, s; st.shared.u64 [s], 7; st.shared.u64 [s+8], 7; st.shared.u64 [s+16], 7;"
    " st.shared.u64 [s+24], 7; setp.gt.u32 %p1, %r1, 15; selp.b64 %d2, %d2, %d1, %p1;"
    " ld.v4.b64 {%d3, %d4, %d5, %d6}, [%d2]; add.u64 %d3, %d3, %d6; mul.wide.u32 %d7, %r1, 8; add.u64 %d7, %d7, %d1;"
    " bar.sync 0; st.global.u64 [%d7], %d3;"
)


def many(count: int, line: str) -> str:
    return "".join(line.replace("A", str(i % 90)).replace("B", str(i * 7 % 90)) for i in range(count))


ADDRESSES = [
    outside("a parameter far away", "ld.param.u32 %r2, [x+1099511627776];"),
    outside("a parameter before the first", "ld.param.u64 %d2, [x+-8];"),
    Attack("a bad parameter that no thread loads", "setp.gt.u32 %p1, %r1, 99; @%p1 ld.param.u64 %d2, [x+-8];"),
    outside("a store to a parameter", "st.param.u64 [x], %d1;"),
    Attack("an atomic on a parameter", "red.param.add.u32 [x], %r1;", "IllegalAddress", "param memory"),
    outside("the end of all addresses", "mov.u64 %d2, -16; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d2];"),
    outside("just before the first buffer", "mov.u64 %d2, 17592186044416; ld.global.u8 %r2, [%d2];"),
    outside("a null pointer and no buffer", "ld.global.u32 %r2, [%d1];", x=0),
    outside("16 bytes of a buffer of 1", "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d1];", x="u8[1] ones"),
    outside("the last lane past the end", "mad.wide.u32 %d2, %r1, 4, %d1; st.global.u32 [%d2+132], %r1;"),
    outside("a symbol with a huge offset", "ld.shared.u32 %r2, [s+18446744073709551612];", outside=SHARED),
    outside("shared memory where none is", "ld.shared.u8 %r2, [0];"),
    outside("local memory where none is", "st.local.u8 [0], %r2;"),
    outside("before local memory", LOCAL + "ld.local.u8 %r2, [s+-1];"),
    outside("around the end of local memory", LOCAL + "mov.u64 %d2, -8; st.local.u64 [%d2], %d1;"),
    Attack("32 bytes from two state spaces", MIXED, x="u64[32] iota", outside=SHARED),
    refused("a reduction into a small register", "bar.red.popc.u32 %b1, 0, %p1; st.global.u8 [%d1], %b1;"),
    refused("two vector widths", "red.global.add.v2.v4.f32 [%d1], {%f1, %f2, %f3, %f4};"),
    Attack("a barrier that is none", "bar.sync 16;", "KernelFault", "barrier"),
    Attack("a branch past its table", "T: .branchtargets E; brx.idx %r1, T; E:", "KernelFault", "branch table"),
    Attack(
        "lanes that are none",
        "shfl.sync.idx.b32 %r2|%p1, %r1, %r1, %r1, %r1; shfl.sync.up.b32 %r2, %r1, -1, -1, -1; match.any.sync.b32 %r3,"
        " %r1, 0; redux.sync.min.s32 %r3, %r1, 0; shfl.sync.bfly.b32 %r2, %r1, 999, 12345, 0;",
    ),
]
ARITHMETIC = [
    Attack(
        "divisions that trap on a CPU",
        "mov.s64 %d2, -9223372036854775808; div.s64 %d3, %d2, -1; rem.s64 %d4, %d2, -1; div.u64 %d4, %d2, 0;"
        " rem.s64 %d5, %d2, 0; div.s32 %r2, -2147483648, -1; rem.s32 %r4, %r1, 0; div.s16 %h1, -32768, -1;"
        " st.global.u64 [%d1], %d3; st.global.u32 [%d1+8], %r2;",
        x="u32[4] zeros",
    ),
    Attack(
        "shifts and fields past the width",
        "shl.b16 %h1, %h2, 4294967295; shr.s64 %d2, %d3, 4294967295; shf.r.clamp.b32 %r2, %r3, %r4, 4294967295;"
        " bfe.s64 %d2, %d3, 255, 255; bfi.b64 %d2, %d3, %d4, 255, 255;",
    ),
    Attack("predicates as numbers", "add.f32 %f1, %p1, %p2; add.f32 %p3, %f1, %f2; mul.wide.s32 %d2, %p1, %p2;"),
    refused("a comparison without an operand", "setp.eq.and.s32 %p1, %r1, %r2; set.eq.xor.s32.s32 %r1, %r2, %r3;"),
]
ENDLESS = [
    endless("nothing", "L: bra L;"),
    endless("a loop that is entered twice", "setp.eq.u32 %p1, %r1, 3; @%p1 bra B; A: bra B; B: bra A;"),
    endless("lanes that part for ever", "A: setp.eq.u32 %p1, %r1, 3; @%p1 bra B; C: bra A; B: bra C;"),
    endless("a table", "T: .branchtargets A, B; A: and.b32 %r2, %r1, 1; brx.idx %r2, T; B: bra A;"),
    endless("waiting for the warp", "A: bar.warp.sync -1; bra A;"),
    endless("waiting for the block", "A: bar.sync 0; bra A;", block=64),
    endless("a lock in a warp", "L: atom.global.cas.b32 %r2, [%d1], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;"),
    endless("a flag that nobody sets", "L: ld.volatile.global.u32 %r2, [%d1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;"),
    Attack(
        "a barrier that others pass by",
        "setp.lt.u32 %p1, %r1, 32; @!%p1 bar.sync 0, 64;",
        "KernelFault",
        "never reach",
        block=64,
    ),
    Attack("a table that leads out", "T: .branchtargets E, F; and.b32 %r2, %r1, 1; brx.idx %r2, T; F: ret; E:"),
    stopped(
        "long bodies in many warps",
        "L: " + many(6000, "sin.approx.f32 %f1, %f2;") + "bra L;",
        block=1024,
        grid=1000,
        budget={"seconds": 1, "block_steps": 10**12},
    ),
]
SIZES = [
    Attack("the largest grid", "mov.u32 %r2, %ctaid.z;", grid=[2**31 - 1, 65535, 65535]),
    Attack("all of the largest grid", "mov.u32 %r2, %ctaid.z;", "BudgetExceededError", "counts of",
           grid=[2**31 - 1, 65535, 65535], budget={"sample_seconds": math.inf}),
    stopped("200 kB of local memory in each thread", ".local .b8 s[204800]; st.local.u8 [s], %r1;", block=1024,
            grid=1000, budget={"seconds": 0.5}),
    Attack("more local memory than there is", ".local .b8 s[1099511627776]; st.local.u8 [s], %r1;",
           "BudgetExceededError", "local memory needs", block=1024),
    Attack("sizes over 32 bits", "ld.shared.u8 %r2, [0];", "BudgetExceededError", "no number of 32 bits",
           shared=2**32 - 1, budget={"memory_bytes": 2**80}),
    Attack("more memory than is free", "ld.shared.u8 %r2, [0];", "BudgetExceededError", "than is free",
           shared=1900 * 2**20, budget={"memory_bytes": 64 * GIB}),
    Attack("a buffer of 2**60 bytes", "ret;", "BudgetExceededError", "buffers need", x="u8[1152921504606846976] zeros"),
    Attack("a block that LLVM takes minutes for at once", many(2000, "lop3.b32 %rA, %rB, %r3, %rA, 0x5b;"),
           budget={"seconds": 300}, cpu_seconds=60),
    Attack("a kernel too large to compile", many(30_000, "lop3.b32 %rA, %rB, %r3, %rA, 0x5b;"), text="interpreted",
           budget={"seconds": 300}, cpu_seconds=60),
    Attack("registers that live across everything", "".join(f"mov.u32 %q{i}, %r1;" for i in range(20_000))
           + "".join(f"@%p1 bra M{i}; M{i}:" for i in range(2000))
           + "".join(f"xor.b32 %r1, %r1, %q{i};" for i in range(20_000)), budget={"seconds": 300}, cpu_seconds=60),
]  # fmt: skip
ATTACKS = {a.name: a for a in (*ADDRESSES, *ARITHMETIC, *ENDLESS, *SIZES)}


def child(code: str, **more: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, text=True, **more)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """Run all attacks, one after the other, and return how those ended that did."""
    lines = [json.dumps({**asdict(a), "body": ".reg .b32 %q<20000>;" + HEAD + a.body}) for a in ATTACKS.values()]
    with child(CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            answers, _ = process.communicate("\n".join(lines), timeout=500)
        except subprocess.TimeoutExpired:
            process.kill()
            answers, _ = process.communicate()
    return dict(zip(ATTACKS, map(json.loads, answers.splitlines()), strict=False))


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_ends_as_it_should(outcomes: dict[str, dict[str, Any]], name: str) -> None:
    attack = ATTACKS[name]
    assert name in outcomes, "the child process crashed or hung, here or earlier"
    found = outcomes[name]
    assert (found["error"], attack.text in found["text"]) == (attack.error, True), found["text"]
    assert found["cpu_seconds"] < attack.cpu_seconds


def test_wide_generic_loads_give_each_lane_its_own(outcomes: dict[str, dict[str, Any]]) -> None:
    # Lanes 0 to 15 read 0, 1, 2, 3 from the buffer, the others four times 7; each stores its first plus its fourth.
    assert outcomes["32 bytes from two state spaces"]["x"] == [3] * 16 + [14] * 16


def test_divisions_give_what_the_hardware_gives(outcomes: dict[str, dict[str, Any]]) -> None:
    words = np.array(outcomes["divisions that trap on a CPU"]["x"], np.uint32)
    assert int(words[:2].view(np.int64)[0]) == np.iinfo(np.int64).min
    assert int(words[2].view(np.int32)) == np.iinfo(np.int32).min


START = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has its children ignore it
from tests.helpers.execute_helpers import launch, ptx_kernel
from kerncast.execute import Budget, execute
def kernel(text):
    return ptx_kernel(".visible .entry k(.param .u64 x) { .reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.u64 %d1, [x];"
                      " mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 4, %d1;" + text + " ret; }")
def total(number):
    text = f"add.u32 %r2, %r1, {number}; st.global.u32 [%d2], %r2;"
    return int(execute(kernel(text), launch(4, 32, x="u32[32] zeros"))[0].memory["x"].sum())
"""


def test_interrupt_ends_generated_code() -> None:
    code = START + (
        "try:\n    print('ready', flush=True)\n"
        "    execute(kernel('L: bra L;'), launch(9, 1024, x=0), Budget(seconds=900, block_steps=10**12))\n"
        "except KeyboardInterrupt:\n    os._exit(7)\n"
    )
    with child(code, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1)  # LLVM has to be loaded and done, because it does not see the signal
        # Python drops an interrupt that falls into the callback of a weak reference: it is sent again.
        for _ in range(60):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
                break
        found = process.poll()
        process.kill()
        assert found == 7, "a third of what the kernel may last"


def test_threads_and_forks_execute_side_by_side() -> None:
    code = START + (
        "found = {}\n"
        "def many(start):\n    found[start] = [total(start + n % 5) for n in range(10)]\n"
        "threads = [threading.Thread(target=many, args=(n,)) for n in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "assert found == {s: [496 + 32 * (s + n % 5) for n in range(10)] for s in range(4)}, found\n"
        "inner = os.fork()\n"
        "if not inner:\n    os._exit(0 if total(1) == 528 and total(99) == 3664 else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]))\n"
    )
    with child(code) as process:
        assert process.wait(timeout=500) == 0
