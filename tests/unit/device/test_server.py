"""The server of the virtual GPU: what it answers, what it keeps, and what it does with nonsense."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.device.running import Shared
from kerncast.device.wire import Form, MemoryKind, Message, WireError
from kerncast.errors import LaunchError
from kerncast.execute.live import Rules
from kerncast.execute.setup.arena import GLOBAL_BASE
from kerncast.recording import EVENT, EventKind
from tests.helpers.device_program import Program, shared_for, words
from tests.helpers.execute_helpers import compiled

SOURCE = """#include <cstdio>
#define KERNEL extern "C" __global__ void
extern "C" __global__ void scale(const float *x, float *y, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
KERNEL in_place(float *x) { x[threadIdx.x] += 1; }
KERNEL says(long n) { printf("n %ld\\n", n); }
KERNEL gather(const float *x, const long *at, float *y) { y[threadIdx.x] = x[at[threadIdx.x]]; }
__device__ int table[4] = {5, 6, 7, 8};
KERNEL reads_table(int *y) { y[threadIdx.x] = table[threadIdx.x]; }
KERNEL traps(float *x) { asm("trap;"); }
"""
MISSING, FAILED, ADDRESS, TIMEOUT = 801, 719, 700, 702


@contextmanager
def running(folder: Path, *, says_hello: bool = True, seals: bool = True, **options: Any) -> Iterator[Program]:
    """Yield a program and its server."""
    shared = shared_for(folder, **options)
    program = Program(shared, seals=seals)
    try:
        if says_hello:
            assert program.hello().startswith(b"NVIDIA T4\0")
        yield program
    finally:
        program.close()
        shared.capture.close()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with running(tmp_path) as found:
        yield found


@pytest.fixture
def shared(program: Program) -> Shared:
    return program.shared


def load(program: Program, *names: str) -> list[int]:
    """Load the kernels and return their numbers."""
    module = program.load(compiled(SOURCE, "scale", "sm_75").ptx)
    found = [program.function(module, name) for name in names]
    assert all(parameters >= 0 for _, parameters in found)
    return [number for number, _ in found]


def test_a_kernel_runs_on_the_memory_of_the_program(program: Program) -> None:
    (scale,) = load(program, "scale")
    x, y = program.allocate(np.arange(100, dtype=np.float32)), program.allocate(np.zeros(100, np.float32))
    assert program.launch(scale, 4, 32, words(x, y, 100)) == (0, "")
    assert (program.read(y, 100) == 2 * np.arange(100)).all()


def test_what_is_repeated_on_unchanged_memory_is_skipped(program: Program, shared: Shared) -> None:
    scale, in_place = load(program, "scale", "in_place")
    x, y = program.allocate(np.ones(32, np.float32)), program.allocate(np.zeros(32, np.float32))
    for _ in range(3):
        program.launch(scale, 1, 32, words(x, y, 32))
    assert shared.skipped == 2
    program.write(x, np.full(32, 3, np.float32))  # changes what it reads
    program.launch(scale, 1, 32, words(x, y, 32))
    assert program.read(y, 32)[0] == 6
    program.write(y, np.zeros(32, np.float32))  # changes what it has written
    program.launch(scale, 1, 32, words(x, y, 32))
    assert program.read(y, 32)[0] == 6
    assert shared.skipped == 2
    program.launch(in_place, 1, 32, words(x))
    program.launch(in_place, 1, 32, words(x))
    assert program.read(x, 32)[0] == 5
    program.launch(scale, 1, 32, words(x, y, 32))
    assert program.read(y, 32)[0] == 10
    assert shared.skipped == 2
    assert len(shared.capture.launches.rows) == 8


def test_memory_that_the_host_may_write_unseen_is_never_taken_for_unchanged(program: Program, shared: Shared) -> None:
    (scale,) = load(program, "scale")
    x = program.allocate(np.ones(32, np.float32), MemoryKind.MANAGED)
    y = program.allocate(np.zeros(32, np.float32))
    program.launch(scale, 1, 32, words(x, y, 32))
    program.memory[x - GLOBAL_BASE : x - GLOBAL_BASE + 4] = np.frombuffer(np.float32(7).tobytes(), np.uint8)
    program.launch(scale, 1, 32, words(x, y, 32))
    assert program.read(y, 32)[0] == 14
    assert shared.skipped == 0


def test_text_comes_with_the_answer_each_time(program: Program) -> None:
    (says,) = load(program, "says")
    assert [program.launch(says, 1, 1, words(7)) for _ in range(2)] == [(0, "n 7\n")] * 2


def test_variables_hold_their_initial_values_unless_the_host_has_written_them(program: Program) -> None:
    module = program.load(compiled(SOURCE, "scale", "sm_75").ptx)
    y = program.allocate(np.zeros(4, np.int32))
    number, _ = program.function(module, "reads_table")
    program.launch(number, 1, 4, words(y))
    assert program.read(y, 4, "<i4").tolist() == [5, 6, 7, 8]
    other = program.load(compiled(SOURCE, "scale", "sm_75").ptx)
    place = program.allocate(np.zeros(4, np.int32), MemoryKind.VARIABLE)
    program.say(Message.VARIABLE, struct.pack("<iQQ", other, place, 16), b"table")
    program.write(place, np.array([1, 2, 3, 4], np.int32))
    number, _ = program.function(other, "reads_table")
    program.launch(number, 1, 4, words(y))
    assert program.read(y, 4, "<i4").tolist() == [1, 2, 3, 4]


def test_symbols_are_found_with_their_initial_values(program: Program) -> None:
    module = program.load(compiled(SOURCE, "scale", "sm_75").ptx)
    for name, size in (("table", 16), ("nothing", 0)):
        answer = program.say(Message.SYMBOL, struct.pack("<i", module), name.encode(), answers=True)
        address, nbytes = struct.unpack("<QQ", answer)
        assert nbytes == size
        assert bool(address) == bool(size)
        if size:
            assert program.read(address, 4, "<i4").tolist() == [5, 6, 7, 8]


def test_faults_are_errors_of_the_program_and_remarks_for_the_user(program: Program, shared: Shared) -> None:
    scale, traps = load(program, "scale", "traps")
    x = program.allocate(np.ones(32, np.float32))
    assert program.launch(scale, 1, 32, words(x, 0, 32))[0] == ADDRESS
    assert program.launch(traps, 1, 32, words(x))[0] == FAILED
    assert program.launch(99, 1, 32, words(x))[0] == MISSING
    first, second = shared.remarks.texts
    assert first.startswith("scale: ")
    assert "a null pointer" in first
    assert "traps" in second
    assert len(shared.capture.launches.rows) == 0


def test_a_kernel_that_cannot_be_executed_is_not_there(program: Program, shared: Shared) -> None:
    for text, form in (("machine", Form.MACHINE_CODE), ("no ptx", Form.PTX), ("{}", Form.SOURCE)):
        module = program.load(text, form)
        assert program.function(module, "k")[1] == -1
    assert len(shared.remarks.texts) == 3
    assert "machine code only" in shared.remarks.texts[0]


def test_events_are_kept_in_order(program: Program, shared: Shared) -> None:
    (scale,) = load(program, "scale")
    x = program.allocate(np.ones(32, np.float32))
    program.at = 1.5
    program.launch(scale, 1, 32, words(x, x, 32), stream=3)
    program.say(Message.WAIT, struct.pack("<dII", 2.0, 1, 3))
    kinds = [EventKind(int(row["kind"])) for row in shared.capture.events.rows]
    assert kinds == [EventKind.BEGIN, EventKind.ALLOCATE, EventKind.COPY, EventKind.LAUNCH, EventKind.WAIT]
    launch = shared.capture.events.rows[3]
    assert (launch["at"], launch["stream"], launch["value"]) == (1.5, 3, 0)
    assert shared.capture.events.rows.dtype == EVENT


def test_the_memory_that_decides_is_kept_and_no_other(program: Program, shared: Shared) -> None:
    (gather,) = load(program, "gather")
    x, at = program.allocate(np.ones(64, np.float32)), program.allocate(np.arange(32, dtype=np.int64) + 1)
    y = program.allocate(np.zeros(32, np.float32))
    program.launch(gather, 1, 32, words(x, at, y))
    (kept,) = shared.capture.kept()
    chunks = {region.address: bool(region.chunks) for region in kept.memory.regions}
    assert chunks == {x: False, at: True, y: False}
    assert kept.memory.is_whole


def test_launches_that_differ_are_kept_and_those_that_do_not_are_not(program: Program, shared: Shared) -> None:
    (scale,) = load(program, "scale")
    x, y = program.allocate(np.ones(4096, np.float32)), program.allocate(np.zeros(4096, np.float32))
    for number in range(40):
        program.launch(scale, 128, 32, words(x, y, 4096 if number < 20 else 100 * (number - 19)))
    kept = shared.capture.kept()
    assert kept[0].launch == 0
    assert 3 <= len(kept) <= 8
    assert kept[-1].launch >= 20
    work = [int(shared.capture.launches.rows["instructions"][each.launch]) for each in kept]
    assert len(set(work)) == len(work)


def test_no_room_for_memory_is_told(tmp_path: Path) -> None:
    with running(tmp_path, kept_bytes=100) as program:
        (gather,) = load(program, "gather")
        x = program.allocate(np.ones(64, np.float32))
        at = program.allocate(np.random.default_rng(0).integers(0, 64, 32))
        program.launch(gather, 1, 32, words(x, at, x))
        (kept,) = program.shared.capture.kept()
        assert not kept.memory.is_whole
        assert program.shared.capture.lost_memory == 1


def test_a_launch_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    with running(tmp_path, rules=Rules(0.0)) as program:
        (scale,) = load(program, "scale")
        x = program.allocate(np.ones(32, np.float32))
        assert program.launch(scale, 2**20, 32, words(x, x, 32))[0] == TIMEOUT
        assert "stopped after 0 s" in program.shared.remarks.texts[0]


@pytest.mark.parametrize(
    "message",
    [
        struct.pack("<II", 999, 0), struct.pack("<II", Message.LAUNCH, 4) + b"1234",
        struct.pack("<II", Message.ALLOCATE, 2**31), struct.pack("<II", Message.HELLO, 0),
        struct.pack("<II", Message.GOODBYE, 0),
        struct.pack("<IIdQ", Message.FREE, 16, float("nan"), 5),
        struct.pack("<IIdQQI", Message.ALLOCATE, 28, 0.0, 5, 5, 0),
        struct.pack("<IIdQQI", Message.ALLOCATE, 28, 0.0, GLOBAL_BASE, 2**60, 0),
    ],
)  # fmt: skip
def test_nonsense_ends_the_connection(tmp_path: Path, message: bytes) -> None:
    with running(tmp_path) as program:
        program.raw(message)
        with pytest.raises((WireError, LaunchError)):
            program.client.serve()


def test_a_hello_of_another_version_or_with_a_memory_that_may_shrink_is_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    with running(tmp_path / "a", says_hello=False) as program, pytest.raises(WireError, match="no hello"):
        program.hello(protocol=99)
    with running(tmp_path / "b", says_hello=False, seals=False) as program, pytest.raises(WireError, match="size"):
        program.hello()
