"""Streams, events and the clocks of a program: they show what a GPU would have taken."""

import struct
from pathlib import Path

from kerncast.device.wire import Message, done
from tests.helpers.runtime_libraries import libraries, program
from tests.helpers.stub_device import Kernel, StubDevice, run_on

#: Takes 50 seconds of the GPU, and no time here.
SLOW = {"slow": Kernel((), lambda *_: done(0, 50.0))}

CLOCKS = r"""
#include <sys/time.h>
int main(void) {
  registered();
  MUST(cudaFree(0));
  struct timeval day, later;
  gettimeofday(&day, NULL);
  time_t before = time(NULL);
  clock_t ticks = clock();
  struct timespec moment, after;
  timespec_get(&moment, TIME_UTC);
  double own[3] = {seconds(CLOCK_MONOTONIC), seconds(CLOCK_REALTIME), seconds(CLOCK_PROCESS_CPUTIME_ID)};
  MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, 0));
  printf("%.0f\n", seconds(CLOCK_MONOTONIC) - own[0]); /* a launch does not wait */
  MUST(cudaDeviceSynchronize());
  printf("%.0f\n", seconds(CLOCK_MONOTONIC) - own[0]);
  printf("%.0f\n", seconds(CLOCK_REALTIME) - own[1]);
  printf("%.0f\n", seconds(CLOCK_PROCESS_CPUTIME_ID) - own[2]);
  gettimeofday(&later, NULL);
  printf("%ld\n", (long)(later.tv_sec - day.tv_sec + 1) / 10 * 10);
  printf("%ld\n", (long)(time(NULL) - before + 1) / 10 * 10);
  printf("%.0f\n", (double)(clock() - ticks) / CLOCKS_PER_SEC);
  timespec_get(&after, TIME_UTC);
  printf("%ld\n", (long)(after.tv_sec - moment.tv_sec + 1) / 10 * 10);
  /* Waiting until a moment of this clock takes as long as this clock says. */
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  clock_gettime(CLOCK_REALTIME, &moment);
  moment.tv_nsec += 50000000;
  if (moment.tv_nsec >= 1000000000) moment.tv_sec++, moment.tv_nsec -= 1000000000;
  own[0] = seconds(CLOCK_MONOTONIC);
  pthread_mutex_lock(&mutex);
  SAY(pthread_cond_timedwait(&never, &mutex, &moment));
  double passed = seconds(CLOCK_MONOTONIC) - own[0];
  SAY(passed > 0.04 && passed < 5);
  clock_gettime(CLOCK_MONOTONIC, &moment);
  moment.tv_sec -= 10;
  SAY(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL));
  return 0;
}
"""


def test_the_clocks_of_a_program_show_the_forecast(tmp_path: Path) -> None:
    with StubDevice(kernels=SLOW) as device:
        ended = run_on(device, program(tmp_path, CLOCKS), libraries())
    lines = [line.rsplit(" ", 1)[-1] for line in ended.stdout.splitlines()]
    assert lines == ["0", "50", "50", "50", "50", "50", "50", "50", "110", "1", "0"], ended.stdout + ended.stderr


def test_without_a_virtual_clock_they_show_the_machines(tmp_path: Path) -> None:
    with StubDevice(kernels=SLOW, has_clock=False) as device:
        ended = run_on(device, program(tmp_path, CLOCKS), libraries())
    lines = [line.rsplit(" ", 1)[-1] for line in ended.stdout.splitlines()]
    assert lines == ["0", "0", "0", "0", "0", "0", "0", "0", "110", "1", "0"], ended.stdout + ended.stderr


EVENTS = r"""
int main(void) {
  registered();
  cudaStream_t one, two;
  cudaEvent_t first, last, other, untimed;
  float ms = -1;
  MUST(cudaStreamCreate(&one));
  MUST(cudaStreamCreateWithPriority(&two, cudaStreamNonBlocking, -9));
  int priority;
  unsigned flags;
  MUST(cudaStreamGetPriority(two, &priority));
  MUST(cudaStreamGetFlags(two, &flags));
  SAY(priority * 10 + (int)flags);
  MUST(cudaEventCreate(&first));
  MUST(cudaEventCreate(&last));
  MUST(cudaEventCreate(&other));
  MUST(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  SAY(cudaEventElapsedTime(&ms, first, last));
  SAY(cudaEventQuery(first));
  MUST(cudaEventRecord(first, one));
  MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, one));
  MUST(cudaEventRecord(last, one));
  SAY(cudaEventQuery(last));
  SAY(cudaStreamQuery(one));
  SAY(cudaEventElapsedTime(&ms, first, last));
  /* The other stream does its work meanwhile, unless it waits. */
  MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, two));
  MUST(cudaEventRecord(other, two));
  MUST(cudaEventSynchronize(other));
  MUST(cudaEventElapsedTime(&ms, first, other));
  printf("%.0f\n", ms);
  MUST(cudaStreamWaitEvent(two, last, 0));
  MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, one));
  MUST(cudaEventRecord(last, one));
  MUST(cudaStreamWaitEvent(two, last, 0));
  MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, two));
  MUST(cudaEventRecord(other, two));
  MUST(cudaDeviceSynchronize());
  MUST(cudaEventElapsedTime(&ms, first, other));
  printf("%.0f\n", ms);
  SAY(cudaStreamQuery(two));
  MUST(cudaEventRecord(untimed, one));
  SAY(cudaEventElapsedTime(&ms, first, untimed));
  MUST(cudaStreamDestroy(two));
  SAY(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, two));
  SAY(cudaStreamSynchronize(two));
  SAY(cudaEventDestroy(NULL));
  return 0;
}
"""


def test_streams_overlap_and_events_tell_their_times(tmp_path: Path) -> None:
    with StubDevice(kernels=SLOW) as device:
        ended = run_on(device, program(tmp_path, EVENTS), libraries())
    lines = [line.rsplit(" ", 1)[-1] for line in ended.stdout.splitlines()]
    assert lines == [
        "-49", "400", "0", "600", "600", "600", "50000", "150000", "0", "400", "400", "400", "400"
    ], ended.stdout + ended.stderr  # fmt: skip
    streams = [launch.stream for launch in device.launches]
    assert streams == [1, 2, 1, 2]
    assert [struct.unpack("<IIi", data) for data in device.said(Message.STREAM)] == [(1, 0, 0), (2, 1, -5)]


CALLS = r"""
static int calls;
static void call(void *data) { calls += *(int *)data; }
static void callback(cudaStream_t stream, cudaError_t status, void *data) { calls += status ? 100 : *(int *)data; }
int main(void) {
  int number = 3;
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaLaunchHostFunc(stream, call, &number));
  MUST(cudaStreamAddCallback(stream, callback, &number, 0));
  MUST(cudaStreamSynchronize(stream));
  SAY(calls);
  SAY(cudaLaunchHostFunc(stream, NULL, 0));
  return 0;
}
"""


def test_functions_of_the_host_are_called_in_order(tmp_path: Path) -> None:
    with StubDevice() as device:
        ended = run_on(device, program(tmp_path, CALLS), libraries())
    assert [line.rsplit(" ", 1)[-1] for line in ended.stdout.splitlines()] == ["6", "1"]
