"""Threads, forks, and programs that CUDA's runtime is linked into."""

import random
import shutil
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from kerncast.device.wire import LaunchAsked, Message, done
from tests.helpers.runtime_libraries import compiler, libraries, program
from tests.helpers.stub_device import Kernel, Memory, StubDevice, run_on
from tests.unit.device.test_runtime_launches import SCALE

THREADS = r"""
static void *work(void *unused) {
  cudaStream_t stream;
  cudaEvent_t event;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaEventCreate(&event));
  for (int i = 0; i < 25; i++) {
    int *numbers, host[4] = {i, 2, 3, 4}, found[4], count = 4;
    void *arguments[] = {&numbers, &count};
    MUST(cudaMalloc((void **)&numbers, 16));
    MUST(cudaMemcpyAsync(numbers, host, 16, cudaMemcpyHostToDevice, stream));
    MUST(cudaLaunchKernel(scale, ONE, ONE, arguments, 0, stream));
    MUST(cudaEventRecord(event, stream));
    double before = seconds(CLOCK_MONOTONIC);
    MUST(cudaEventSynchronize(event));
    if (seconds(CLOCK_MONOTONIC) < before) exit(8);
    MUST(cudaMemcpy(found, numbers, 16, cudaMemcpyDeviceToHost));
    if (found[0] != 2 * i) exit(7);
    MUST(cudaFree(numbers));
  }
  return cudaSetDevice(3) == cudaErrorInvalidDevice ? NULL : (void *)1;
}
int main(void) {
  registered();
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  SAY(cudaGetLastError()); /* each thread has its own */
  return 0;
}
"""


def test_threads_do_not_disturb_one_another(tmp_path: Path) -> None:
    quiet = Kernel(SCALE.parameters, lambda memory, launch: done(0, 1e-3) if SCALE.run(memory, launch) else b"")
    with StubDevice(kernels={"scale": quiet}) as device:
        ended = run_on(device, program(tmp_path, THREADS), libraries())
    assert (ended.returncode, ended.stdout) == (0, "cudaGetLastError() 0\n"), ended.stderr
    said = Counter(kind for kind, _ in device.messages)
    assert (said[Message.LAUNCH], said[Message.ALLOCATE], said[Message.FREE]) == (100, 101, 100)
    assert (said[Message.HELLO], said[Message.MODULE], said[Message.FUNCTION]) == (1, 1, 1)


FORK = r"""
static void *busy(void *unused) {
  MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, 0));
  return NULL;
}
int main(void) {
  registered();
  pid_t before = fork(); /* nothing has been used yet */
  if (!before) {
    MUST(cudaLaunchKernel(scale, ONE, ONE, (void *[]){&shadow, &shadow}, 0, 0));
    return 0;
  }
  int status;
  waitpid(before, &status, 0);
  SAY(status);
  void *memory;
  MUST(cudaMalloc(&memory, 4));
  pthread_t thread;
  pthread_create(&thread, NULL, busy, NULL);
  usleep(100000); /* the thread is inside by now */
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    alarm(20);
    int wrong = cudaMalloc(&memory, 4) != cudaErrorInitializationError;
    wrong += cudaLaunchKernel(scale, ONE, ONE, NULL, 0, 0) != cudaErrorInitializationError;
    wrong += cudaDeviceSynchronize() != cudaErrorInitializationError;
    wrong += cudaGetLastError() != cudaErrorInitializationError;
    exit(wrong);
  }
  waitpid(child, &status, 0);
  SAY(status);
  pthread_join(thread, NULL);
  SAY(cudaDeviceSynchronize());
  return 0;
}
"""


def test_a_fork_has_no_device_unless_it_is_the_first_to_use_it(tmp_path: Path) -> None:
    def slow(_: Memory, __: LaunchAsked) -> bytes:
        time.sleep(0.3)
        return done(0)

    with StubDevice(kernels={"scale": Kernel(((0, 8), (8, 4))), "slow": Kernel((), slow)}) as device:
        ended = run_on(device, program(tmp_path, FORK), libraries())
    assert [line.rsplit(" ", 1)[-1] for line in ended.stdout.splitlines()] == ["0", "0", "0"], ended.stderr
    assert len(device.said(Message.HELLO)) == 2
    assert len(device.said(Message.GOODBYE)) == 2


#: A runtime that is linked in: long enough for jumps, and fatal where it is called.
LINKED_IN = r"""
#define OWN(name) int name() { for (volatile int i = 0; i < 3; i++) abort(); return -1; }
OWN(__cudaRegisterFatBinary) OWN(__cudaRegisterFunction) OWN(cudaMalloc) OWN(cudaThreadExit) OWN(cudaLaunchKernel)
OWN(cudaGetDeviceProperties_v2) OWN(cudaDeviceSynchronize)
int cudaOfTheProgram(int value) { for (volatile int i = 0; i < 3; i++) value++; return value; }
static void scale(void) { __asm__ volatile("# scale"); }
static struct { int magic, version; const void *code; void *rest; } wrapped = {0x466243B1, 1, ".version 8.0\n", 0};
struct size { unsigned x, y, z; };
int main(int count, char **arguments) {
  if (count > 1) return 0;
  void *module = (void *)(intptr_t)((long (*)(void *))__cudaRegisterFatBinary)(&wrapped);
  ((void (*)(void *, void *, void *, const char *, int, void *, void *, void *, void *, void *))
      __cudaRegisterFunction)(module, scale, 0, "scale", -1, 0, 0, 0, 0, 0);
  void *memory;
  int error = cudaMalloc(&memory, (size_t)16), number = 0;
  struct size one = {1, 1, 1};
  void *parameters[] = {&memory, &number};
  error += ((int (*)(void *, struct size, struct size, void **, size_t, void *))cudaLaunchKernel)(
      scale, one, one, parameters, 0, 0);
  printf("%d %d\n", error + cudaDeviceSynchronize(), cudaOfTheProgram(4));
  return 0;
}
"""


def linked_in(folder: Path, *options: str) -> Path:
    """Build a program with a runtime of its own."""
    source, output = folder / "own.c", folder / "own"
    heads = "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
    source.write_text(heads + LINKED_IN, encoding="utf-8")
    subprocess.run([compiler(), "-w", "-O0", *options, source, "-o", output], check=True)
    return output


@pytest.mark.parametrize("options", [["-no-pie"], ["-pie", "-fPIE"]], ids=["fixed", "movable"])
def test_a_runtime_that_is_linked_in_is_led_to_ours(options: list[str], tmp_path: Path) -> None:
    with StubDevice(kernels={"scale": SCALE}) as device:
        ended = run_on(device, linked_in(tmp_path, *options), libraries())
    assert ended.stdout.splitlines()[-1:] == ["0 7"], (ended.returncode, ended.stderr)
    assert len(device.launches) == 1


def test_nothing_is_changed_without_a_server(tmp_path: Path) -> None:
    environment = {"LD_PRELOAD": str(libraries() / "libkerncast_device.so")}
    ended = subprocess.run([linked_in(tmp_path)], env=environment, capture_output=True, check=False)
    assert ended.returncode == -6
    assert ended.stderr == b""


def test_a_stripped_program_is_told_only_where_it_holds_code_of_the_device(tmp_path: Path) -> None:
    found = linked_in(tmp_path)
    stripped, marked = tmp_path / "stripped", tmp_path / "marked"
    objcopy = Path(compiler()).with_name("objcopy")
    if not objcopy.exists():
        pytest.skip("this machine has no objcopy")
    section = f".nv_fatbin={tmp_path / 'own.c'}"
    subprocess.run([objcopy, "--strip-all", found, stripped], check=True)
    subprocess.run([objcopy, "--add-section", section, stripped, marked], check=True)
    with StubDevice() as device:
        quiet, told = (run_on(device, each, libraries(), "only begin") for each in (stripped, marked))
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert told.returncode == 0
    assert "marked cannot run on the virtual GPU" in told.stderr
    assert told.stderr.count("\n") == 1


def test_any_file_is_read_within_its_bounds(tmp_path: Path) -> None:
    """The system starts a program by other tables than those that are read here, which may hold anything."""
    found = linked_in(tmp_path)
    data = found.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 0x28)
    count = (len(data) - table) // 64
    chance = random.Random(4)  # noqa: S311  a test of chance
    with StubDevice() as device:
        for number in range(30):
            broken = bytearray(data)
            for _ in range(chance.randrange(1, 6)):
                place = table + 64 * chance.randrange(count) + chance.choice((0, 4, 16, 24, 32, 40, 56))
                value = chance.choice((0, 1, 2, 3, 11, 1 << 20, 2**31, 2**63, 2**64 - 8, chance.randrange(2**64)))
                struct.pack_into("<Q", broken, min(place, len(broken) - 8), value)
            if number % 5 == 0:
                struct.pack_into("<Q", broken, 0x28, chance.randrange(2**64))
                struct.pack_into("<H", broken, 0x3C, 65535)
            path = tmp_path / f"broken{number}"
            path.write_bytes(broken)
            shutil.copymode(found, path)
            ended = run_on(device, path, libraries(), "only begin")
            assert ended.returncode == 0, (number, ended.stderr)
