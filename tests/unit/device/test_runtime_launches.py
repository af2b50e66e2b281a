"""Launches: what a program registers, how kernels get their parameters, and which errors it sees."""

import struct
from pathlib import Path

import pytest

from kerncast.device.wire import LaunchAsked, Message, done
from tests.helpers.runtime_libraries import libraries, program
from tests.helpers.stub_device import Kernel, Memory, StubDevice, run_on


def doubled(memory: Memory, launch: LaunchAsked) -> bytes:
    """Double numbers, as the kernel ``scale`` would."""
    address, count = struct.unpack("<Qi", launch.parameters)
    numbers = struct.unpack(f"<{count}i", memory.read(address, 4 * count))
    memory.write(address, struct.pack(f"<{count}i", *(2 * each for each in numbers)))
    return done(0, 1e-3, f"{count} numbers\n")


SCALE = Kernel(((0, 8), (8, 4)), doubled, shared_bytes=1024)

LAUNCHES = r"""
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, struct CUstream_st *);
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
int main(void) {
  registered();
  int *numbers, host[4] = {1, 2, 3, 4}, count = 4;
  MUST(cudaMalloc((void **)&numbers, 16));
  MUST(cudaMemcpy(numbers, host, 16, cudaMemcpyHostToDevice));
  void *arguments[] = {&numbers, &count};
  /* As the stub of a kernel that nvcc makes. */
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
  SAY(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
  __cudaPushCallConfiguration((dim3){2, 3, 1}, (dim3){64, 2, 1}, 512, 0);
  MUST(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
  MUST(cudaLaunchKernel(scale, grid, block, arguments, shared, stream));
  printf("said by the host\n");
  MUST(cudaMemcpy(host, numbers, 16, cudaMemcpyDeviceToHost));
  SAY(host[3]);
  /* By all handles of the kernel. */
  cudaFunction_t function;
  MUST(cudaGetFuncBySymbol(&function, scale));
  cudaLaunchAttribute cooperative = {.id = cudaLaunchAttributeCooperative, .val = {.cooperative = 1}};
  cudaLaunchConfig_t wish = {ONE, ONE, 0, 0, &cooperative, 1};
  MUST(cudaLaunchKernelExC(&wish, (void *)function, arguments));
  MUST(cudaMemcpy(host, numbers, 16, cudaMemcpyDeviceToHost));
  SAY(host[3]);
  const char *name;
  MUST(cudaFuncGetName(&name, scale));
  puts(name);
  struct cudaFuncAttributes found;
  MUST(cudaFuncGetAttributes(&found, scale));
  SAY(found.numRegs * 100000 + found.sharedSizeBytes);
  SAY(found.maxDynamicSharedSizeBytes);
  SAY(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  SAY(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 64512));
  int blocks;
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 256, 0));
  SAY(blocks);
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 256, 40000));
  SAY(blocks);
  return 0;
}
"""


def test_launches_arrive_as_they_were_asked(tmp_path: Path) -> None:
    with StubDevice(kernels={"scale": SCALE}) as device:
        ended = run_on(device, program(tmp_path, LAUNCHES), libraries())
    lines = ended.stdout.splitlines()
    assert [lines[0].rsplit(" ")[-1], *lines[1:3]] == ["52", "4 numbers", "said by the host"]
    assert [line.rsplit(" ", 1)[-1] for line in lines[3:]] == [
        "8", "numbers", "16", "scale", "3201024", "48128", "1", "0", "4", "1"
    ]  # fmt: skip
    first, second = device.launches
    assert (first.grid, first.block, first.shared_bytes) == ((2, 3, 1), (64, 2, 1), 512)
    assert not first.is_cooperative
    assert second.is_cooperative
    assert first.parameters == second.parameters


ERRORS = r"""
int main(void) {
  registered();
  int number = 0;
  void *address = &number, *arguments[] = {&address, &number};
  SAY(cudaLaunchKernel(scale, ONE, (dim3){1025, 1, 1}, arguments, 0, 0));
  SAY(cudaPeekAtLastError());
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
  SAY(cudaLaunchKernel(scale, (dim3){0, 1, 1}, ONE, arguments, 0, 0));
  SAY(cudaLaunchKernel(scale, ONE, ONE, arguments, 1 << 20, 0));
  SAY(cudaLaunchKernel(scale, ONE, ONE, NULL, 0, 0));
  SAY(cudaLaunchKernel(absent, ONE, ONE, arguments, 0, 0));
  SAY(cudaLaunchKernel(main, ONE, ONE, arguments, 0, 0));
  SAY(cudaLaunchKernel(scale, ONE, ONE, arguments, 0, (cudaStream_t)arguments));
  SAY(cudaLaunchCooperativeKernel(scale, (dim3){1000, 1, 1}, (dim3){1024, 1, 1}, arguments, 0, 0));
  SAY(cudaSetDevice(1));
  puts(cudaGetErrorString(cudaErrorInvalidDevice));
  puts(cudaGetErrorName(cudaGetLastError()));
  puts(cudaGetErrorString((cudaError_t)12345));
  SAY(cudaDeviceSynchronize());
  /* A bad address leaves an error that stays, until the device is reset. */
  SAY(cudaLaunchKernel(slow, ONE, ONE, arguments, 0, 0));
  SAY(cudaMalloc(&address, 4));
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
  SAY(cudaDeviceReset());
  SAY(cudaMalloc(&address, 4));
  SAY(cudaGetLastError());
  return 0;
}
"""


def test_errors_are_those_of_cuda(tmp_path: Path) -> None:
    broken = Kernel((), lambda *_: done(700))
    with StubDevice(kernels={"scale": SCALE, "slow": broken}) as device:
        ended = run_on(device, program(tmp_path, ERRORS), libraries())
    lines = [line.rsplit(" ", 1)[-1] if line.startswith("cuda") else line for line in ended.stdout.splitlines()]
    assert lines == [
        "9", "9", "9", "0", "9", "1", "1", "209", "98", "400", "720", "101", "invalid device ordinal",
        "cudaErrorInvalidDevice", "unrecognized error code", "0", "700", "700", "700", "700", "0", "0", "0",
    ]  # fmt: skip
    assert len(device.launches) == 1


LAZY = r"""
int main(void) {
  registered();
  return 0;
}
"""


def test_nothing_is_said_before_the_first_use(tmp_path: Path) -> None:
    with StubDevice() as device:
        ended = run_on(device, program(tmp_path, LAZY), libraries())
    assert ended.returncode == 0
    assert device.messages == []


def test_a_module_is_told_once_with_its_variables(tmp_path: Path) -> None:
    with StubDevice(kernels={"scale": SCALE}) as device:
        run_on(device, program(tmp_path, LAUNCHES), libraries())
    assert [data[8:] for data in device.said(Message.MODULE)] == [b".version 8.0\n"]
    assert [data[20:] for data in device.said(Message.VARIABLE)] == [b"variable"]


def test_without_a_server_there_is_no_device(tmp_path: Path) -> None:
    device = StubDevice()
    ended = run_on(device, program(tmp_path, ERRORS), libraries())
    assert ended.stdout.splitlines()[0].endswith(" 100")
    assert "cannot be reached" in ended.stderr


CLUSTERS = r"""
int main(void) {
  registered();
  int *numbers, count = 1;
  MUST(cudaMalloc((void **)&numbers, 16));
  void *arguments[] = {&numbers, &count};
  cudaLaunchAttribute size = {.id = cudaLaunchAttributeClusterDimension, .val = {.clusterDim = {2, 1, 1}}};
  cudaLaunchConfig_t wish = {{8, 2, 1}, ONE, 0, 0, &size, 1};
  SAY(cudaLaunchKernelExC(&wish, scale, arguments));
  size.val.clusterDim.x = 4, size.val.clusterDim.y = 2;
  SAY(cudaLaunchKernelExC(&wish, scale, arguments));
  size.val.clusterDim.x = 8;
  SAY(cudaLaunchKernelExC(&wish, scale, arguments));
  SAY(cudaFuncSetAttribute(scale, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  SAY(cudaLaunchKernelExC(&wish, scale, arguments));
  size.val.clusterDim.x = 3;
  SAY(cudaLaunchKernelExC(&wish, scale, arguments));
  size.val.clusterDim.x = 0;
  SAY(cudaLaunchKernelExC(&wish, scale, arguments));
  int has;
  SAY(cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, 0));
  SAY(has);
  return 0;
}
"""


@pytest.mark.parametrize(("gpu", "expected"), [
    ("h100-sxm", ["0", "0", "912", "0", "0", "912", "912", "0", "1"]),
    ("rtx-4090", ["801", "801", "912", "0", "801", "912", "912", "0", "0"]),
])  # fmt: skip
def test_launches_name_their_clusters(tmp_path: Path, gpu: str, expected: list[str]) -> None:
    with StubDevice(kernels={"scale": SCALE}, gpu=gpu) as device:
        ended = run_on(device, program(tmp_path, CLUSTERS), libraries())
    assert [line.rsplit(" ", 1)[-1] for line in ended.stdout.splitlines() if "numbers" not in line] == expected
    clusters = [(2, 1, 1), (4, 2, 1), (8, 2, 1)] if gpu == "h100-sxm" else []
    assert [each.cluster for each in device.launches] == clusters
