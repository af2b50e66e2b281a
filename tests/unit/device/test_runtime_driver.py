"""The interface of the driver: contexts, modules, launches, look-ups."""

from pathlib import Path

from kerncast.device.wire import Message
from kerncast.launch import PixelBox, TensorTiles, tiles_of
from tests.helpers.runtime_libraries import libraries, program
from tests.helpers.stub_device import OWN_PLACE, StubDevice, run_on
from tests.unit.device.test_runtime_launches import SCALE

MODULES = r"""
#include <cuda.h>
int main(void) {
  CUcontext context, found;
  CUmodule module;
  CUfunction function;
  CUdevice device;
  int count = 4, value;
  SAY(cuDeviceGetCount(&count));
  MUST(cuInit(0));
  MUST(cuDeviceGet(&device, 0));
  SAY(cuDeviceGet(&device, 1));
  char name[16];
  MUST(cuDeviceGetName(name, sizeof name, 0));
  puts(name);
  CUdeviceptr numbers;
  SAY(cuMemAlloc(&numbers, 16));
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  MUST(cuCtxGetCurrent(&found));
  SAY(found == context);
  unsigned flags;
  MUST(cuDevicePrimaryCtxGetState(0, &flags, &value));
  SAY(value);
  MUST(cuModuleLoadData(&module, ".version 8.0 // a text"));
  SAY(cuModuleGetFunction(&function, module, "absent"));
  MUST(cuModuleGetFunction(&function, module, "scale"));
  CUfunction same;
  MUST(cuModuleGetFunction(&same, module, "scale"));
  SAY(same == function);
  CUdeviceptr place;
  size_t bytes;
  MUST(cuModuleGetGlobal(&place, &bytes, module, "table"));
  printf("place %llu %zu\n", (unsigned long long)place, bytes);
  SAY(cuModuleGetGlobal(&place, &bytes, module, "nothing"));
  MUST(cuMemsetD32(place, 7, 2));
  MUST(cuMemcpyDtoH(name, place, 8));
  SAY(name[4]);
  int host[4] = {1, 2, 3, 4};
  MUST(cuMemAlloc(&numbers, 16));
  MUST(cuMemcpyHtoD(numbers, host, 16));
  count = 4;
  void *arguments[] = {&numbers, &count};
  MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0));
  struct { CUdeviceptr numbers; int count; } packed = {numbers, 4};
  size_t size = sizeof packed;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra));
  CUlaunchConfig wish = {1, 1, 1, 1, 1, 1, 0, 0, NULL, 0};
  MUST(cuLaunchKernelEx(&wish, function, arguments, NULL));
  MUST(cuMemcpyDtoH(host, numbers, 16));
  SAY(host[3]);
  SAY(cuLaunchKernel(function, 1, 1, 1, 2000, 1, 1, 0, 0, arguments, 0));
  SAY(cuLaunchKernel((CUfunction)host, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0));
  size_t offset;
  MUST(cuFuncGetParamInfo(function, 1, &offset, &size));
  SAY(offset * 10 + size);
  SAY(cuFuncGetParamInfo(function, 2, &offset, &size));
  CUdeviceptr pointer;
  MUST(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, numbers + 4));
  SAY(pointer - numbers);
  SAY(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, (CUdeviceptr)host));
  int machine_code[16] = {0x464C457F};
  SAY(cuModuleLoadData(&module, machine_code));
  SAY(cuMemFree(numbers));
  SAY(cuMemFree(numbers));
  return 0;
}
"""


def test_modules_are_loaded_and_their_kernels_launched(tmp_path: Path) -> None:
    with StubDevice(kernels={"scale": SCALE}, symbols={"table": 64}) as device:
        ended = run_on(device, program(tmp_path, MODULES), libraries())
    lines = [line for line in ended.stdout.splitlines() if not line.endswith(" numbers")]
    words = [line.rsplit(" ", 1)[-1] for line in lines]
    assert words == [
        "3", "101", "T4", "201", "1", "1", "500", "1", "64", "500", "7", "32", "1", "400", "84", "1", "4", "1",
        "209", "0", "1",
    ], ended.stdout + ended.stderr  # fmt: skip
    assert f"place {OWN_PLACE} 64" in lines
    assert len({each.parameters for each in device.launches}) == 1
    assert len(device.launches) == 3
    assert device.said(Message.MISSING) == [b"a module of machine code (a cubin)"]


LOOK_UPS = r"""
#include <cuda.h>
static void look(const char *name, int version, void *wanted) {
  void *found = NULL;
  CUdriverProcAddressQueryResult status;
  int error = cuGetProcAddress_v2(name, &found, version, 0, &status);
  printf("%d %d %d\n", error, status, found == wanted);
}
int cuCtxCreate_v2(), cuCtxCreate_v3(), cuCtxCreate_v4(), cuMemAlloc_v2(), cuGraphInstantiateWithFlags();
int main(void) {
  look("cuInit", 2000, cuInit);
  look("cuMemAlloc", 3020, cuMemAlloc_v2);
  look("cuMemAlloc", 12000, cuMemAlloc_v2);
  look("cuCtxCreate", 11000, cuCtxCreate_v2);
  look("cuCtxCreate", 12000, cuCtxCreate_v3);
  look("cuCtxCreate", 13000, cuCtxCreate_v4);
  look("cuGraphInstantiate", 12000, cuGraphInstantiateWithFlags);
  look("cuNothing", 12000, NULL);
  look("printf", 12000, NULL);
  look("cuGetProcAddress", 12000, cuGetProcAddress_v2);
  void *found;
  enum cudaDriverEntryPointQueryResult status;
  SAY(cudaGetDriverEntryPoint("cuInit", &found, 0, &status) * 10 + status);
  SAY(found == (void *)cuInit);
  SAY(cudaGetDriverEntryPoint("cuNothing", &found, 0, &status) * 10 + status);
  return 0;
}
"""


def test_entry_points_are_found_in_the_form_of_their_version(tmp_path: Path) -> None:
    body = LOOK_UPS.replace("int cuCtxCreate_v2()", "int cuNeverCalled()", 1).replace(
        ", cuCtxCreate_v3(), cuCtxCreate_v4(), cuMemAlloc_v2(), cuGraphInstantiateWithFlags();", ";"
    )
    with StubDevice() as device:
        ended = run_on(device, program(tmp_path, body), libraries())
    lines = ended.stdout.splitlines()
    assert lines[:10] == ["0 0 1"] * 7 + ["500 1 1"] * 2 + ["0 0 1"]
    assert [line.rsplit(" ", 1)[-1] for line in lines[10:]] == ["0", "1", "1"]


MIXED = r"""
#include <cuda.h>
int main(void) {
  registered();
  /* The runtime makes the primary context the one of its thread, and the driver goes on with it. */
  CUcontext context = NULL;
  MUST(cudaFree(0));
  MUST(cuCtxGetCurrent(&context));
  SAY(context != NULL);
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  cudaFunction_t function;
  MUST(cudaGetFuncBySymbol(&function, scale));
  int *numbers, count = 1;
  MUST(cudaMalloc((void **)&numbers, 16));
  void *arguments[] = {&numbers, &count};
  MUST(cuLaunchKernel((CUfunction)function, 1, 1, 1, 1, 1, 1, 0, (CUstream)stream, arguments, 0));
  MUST(cuStreamSynchronize((CUstream)stream));
  /* Contexts form a stack in each thread. */
  CUcontext own, other;
  MUST(cuCtxCreate(&own, CU_CTX_SCHED_SPIN, 0));
  unsigned flags;
  MUST(cuCtxGetFlags(&flags));
  SAY(flags);
  MUST(cuCtxPopCurrent(&other));
  SAY(other == own);
  MUST(cuCtxGetCurrent(&other));
  SAY(other == context);
  MUST(cuCtxDestroy(own));
  SAY(cuCtxPushCurrent(own));
  /* PTX is linked by being handed on. */
  CUlinkState state;
  void *image;
  size_t bytes;
  MUST(cuLinkCreate(0, 0, 0, &state));
  MUST(cuLinkAddData(state, CU_JIT_INPUT_PTX, "first", 6, "", 0, 0, 0));
  MUST(cuLinkAddData(state, CU_JIT_INPUT_PTX, "second", 6, "", 0, 0, 0));
  SAY(cuLinkAddData(state, CU_JIT_INPUT_CUBIN, "\177ELF", 4, "", 0, 0, 0));
  MUST(cuLinkComplete(state, &image, &bytes));
  printf("%s", (char *)image);
  MUST(cuLinkDestroy(state));
  const char *text;
  MUST(cuGetErrorName(CUDA_ERROR_NOT_FOUND, &text));
  puts(text);
  SAY(cuGetErrorString((CUresult)12345, &text));
  return 0;
}
"""


def test_the_runtime_and_the_driver_are_one_device(tmp_path: Path) -> None:
    with StubDevice(kernels={"scale": SCALE}) as device:
        ended = run_on(device, program(tmp_path, MIXED), libraries())
    lines = [line.rsplit(" ", 1)[-1] for line in ended.stdout.splitlines() if not line.endswith(" numbers")]
    assert lines == ["1", "1", "1", "1", "201", "801", "first", "second", "CUDA_ERROR_NOT_FOUND", "1"]
    assert [launch.stream for launch in device.launches] == [1]


TENSOR_MAP = r"""
#include <cuda.h>
int main(void) {
  MUST(cuInit(0));
  CUcontext context;
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  CUtensorMap map;
  cuuint64_t extents[] = {64, 32, 3}, strides[] = {128, 4096};
  cuuint32_t box[] = {32, 16, 1}, steps[] = {1, 1, 1}, wide[] = {64, 16, 1}, two[] = {1, 2, 1};
#define ENCODE(box, steps, interleave) \
  cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, (void *)0x100000000200, extents, strides, box, \
    steps, interleave, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
  MUST(ENCODE(box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE));
  for (unsigned n = 0; n < sizeof map; n++) printf("%02x", ((unsigned char *)&map)[n]);
  puts("");
  SAY(ENCODE(wide, steps, CU_TENSOR_MAP_INTERLEAVE_NONE));
  SAY(ENCODE(box, two, CU_TENSOR_MAP_INTERLEAVE_NONE));
  SAY(ENCODE(box, steps, CU_TENSOR_MAP_INTERLEAVE_16B));
  cuuint64_t images[] = {32, 9, 14, 3}, apart[] = {64, 576, 8064};
  int lower[] = {-1, -2}, upper[] = {-3, 1}, small[] = {-10, 0}, many[] = {-200, 0};
  cuuint32_t moves[] = {1, 2, 3, 1}, along[] = {1, 1, 1, 2};
#define COLUMNS(upper, moves, pixels) \
  cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, (void *)0x100000000200, images, apart, lower, \
    upper, 16, pixels, moves, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, \
    CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
  MUST(COLUMNS(upper, moves, 1024));
  for (unsigned n = 0; n < sizeof map; n++) printf("%02x", ((unsigned char *)&map)[n]);
  puts("");
  SAY(COLUMNS(small, moves, 64));
  SAY(COLUMNS(many, moves, 64));
  SAY(COLUMNS(upper, along, 64));
  SAY(COLUMNS(upper, moves, 1025));
}
"""


def test_tensor_maps_are_coded_as_launch_files_do(tmp_path: Path) -> None:
    with StubDevice() as device:
        ended = run_on(device, program(tmp_path, TENSOR_MAP), libraries())
    words = [line.rsplit(" ", 1)[-1] for line in ended.stdout.splitlines()]
    tiles = TensorTiles("f16", (64, 32, 3), (128, 4096), (32, 16, 1), 64, address=0x100000000200)
    places = PixelBox((-1, -2), (-3, 1), (2, 3))
    images = TensorTiles(
        "bf16", (32, 9, 14, 3), (64, 576, 8064), (16, 1024), 32, fills_nan=True, address=0x100000000200, pixels=places
    )
    expected = [tiles.coded().hex(), "1", "801", "801", images.coded().hex(), "1", "1", "1", "1"]
    assert words == expected, ended.stdout + ended.stderr
    assert tiles_of(images.coded()) == images
