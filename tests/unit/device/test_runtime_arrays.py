"""Arrays, textures and surfaces as a program sees them, and a whole program that reads and writes through them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from kerncast.execute.setup.textures import FLOAT, UNSIGNED, TextureObject
from tests.helpers.host_builds import needs_system, needs_wheels
from tests.helpers.runtime_libraries import libraries, program
from tests.helpers.stub_device import StubDevice, run_on

ARRAYS = r"""
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void show(unsigned long long handle) {
  unsigned char object[64];
  memcpy(object, (void *)handle, 64);
  for (int i = 0; i < 64; i++) printf("%02x", object[i]);
  printf("\n");
}
int main(void) {
  struct cudaChannelFormatDesc bytes = {8, 8, 8, 8, cudaChannelFormatKindUnsigned};
  struct cudaChannelFormatDesc floats = {32, 0, 0, 0, cudaChannelFormatKindFloat}, none = {24, 0, 0, 0, 0};
  unsigned char from[96], to[96] = {0};
  for (int i = 0; i < 96; i++) from[i] = (unsigned char)i;
  cudaArray_t flat, deep;
  MUST(cudaMallocArray(&flat, &bytes, 6, 4, 0));
  SAY(cudaMallocArray(&deep, &none, 6, 4, 0));
  MUST(cudaMalloc3DArray(&deep, &floats, (struct cudaExtent){4, 3, 2}, cudaArrayLayered));
  MUST(cudaMemcpy2DToArray(flat, 0, 0, from, 24, 24, 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy2DFromArray(to, 8, flat, 4, 1, 8, 3, cudaMemcpyDeviceToHost));
  SAY(to[0] * 10000 + to[8] * 100 + to[23]);
  MUST(cudaMemcpyFromArray(to, flat, 20, 0, 8, cudaMemcpyDeviceToHost));
  SAY(to[0] * 100 + to[7]);
  SAY(cudaMemcpy2DToArray(flat, 4, 0, from, 24, 24, 4, cudaMemcpyHostToDevice));
  SAY(cudaMemcpyToArray(flat, 0, 3, from, 25, cudaMemcpyHostToDevice));
  SAY(cudaMemcpyToArray((cudaArray_t)from, 0, 0, from, 1, cudaMemcpyHostToDevice));
  struct cudaMemcpy3DParms box = {.srcPtr = {from, 16, 4, 3}, .dstArray = deep, .extent = {4, 3, 2},
                                  .kind = cudaMemcpyHostToDevice};
  MUST(cudaMemcpy3D(&box));
  struct cudaMemcpy3DParms back = {.srcArray = deep, .srcPos = {1, 2, 1}, .dstPtr = {to, 8, 2, 1},
                                   .extent = {2, 1, 1}, .kind = cudaMemcpyDeviceToHost};
  MUST(cudaMemcpy3D(&back));
  SAY(to[0] * 100 + to[7]);
  struct cudaExtent extent;
  MUST(cudaArrayGetInfo(&bytes, &extent, NULL, deep));
  SAY(extent.depth * 100 + (size_t)bytes.x);
  struct cudaResourceDesc of = {.resType = cudaResourceTypeArray, .res.array.array = flat};
  struct cudaTextureDesc how = {.addressMode = {cudaAddressModeMirror, cudaAddressModeBorder, cudaAddressModeClamp},
                                .filterMode = cudaFilterModeLinear, .readMode = cudaReadModeElementType};
  cudaTextureObject_t texture, line;
  SAY(cudaCreateTextureObject(&texture, &of, &how, NULL));
  how.readMode = cudaReadModeNormalizedFloat;
  how.normalizedCoords = 1;
  MUST(cudaCreateTextureObject(&texture, &of, &how, NULL));
  show(texture);
  float *memory;
  MUST(cudaMalloc((void **)&memory, 400));
  struct cudaResourceDesc linear = {.resType = cudaResourceTypeLinear,
                                    .res.linear = {memory, {32, 32, 0, 0, cudaChannelFormatKindFloat}, 400}};
  struct cudaTextureDesc plain = {0};
  MUST(cudaCreateTextureObject(&line, &linear, &plain, NULL));
  show(line);
  of.res.array.array = deep;
  cudaSurfaceObject_t surface;
  MUST(cudaCreateSurfaceObject(&surface, &of));
  show(surface);
  SAY(cudaCreateSurfaceObject(&surface, &linear));
  MUST(cudaDestroyTextureObject(line));
  SAY(cudaDestroyTextureObject(line));
  SAY(cudaDestroyTextureObject((cudaTextureObject_t)memory));
  MUST(cudaFreeArray(flat));
  SAY(cudaFreeArray(flat));
  return 0;
}
"""


def test_arrays_and_what_objects_say(tmp_path: Path) -> None:
    with StubDevice() as device:
        done = run_on(device, program(tmp_path, ARRAYS), libraries())
    lines = done.stdout.splitlines()
    numbers = [int(line.rsplit(" ", 1)[1]) for line in lines if " " in line]
    # Rows begin 24 bytes apart: the box has bytes 28 to 35, 52 to 59 and 76 to 83 of what was copied.
    assert numbers == [1, 285283, 2027, 1, 1, 400, 8491, 232, 1, 1, 1, 1, 400], done.stdout
    flat, line, deep = (TextureObject.unpacked(bytes.fromhex(each)) for each in lines if " " not in each)
    assert flat is not None
    assert line is not None
    assert deep is not None
    assert (flat.width, flat.height, flat.depth, flat.layers, flat.pitch, flat.slice) == (6, 4, 1, 0, 24, 96)
    assert (flat.kind, flat.element_bytes, flat.components, flat.flags) == (
        UNSIGNED,
        1,
        4,
        7 | 1 << 4 | 3 << 6 | 2 << 8,
    )
    assert (line.width, line.height, line.kind, line.components, line.flags) == (50, 1, FLOAT, 2, 0)
    assert (deep.width, deep.height, deep.depth, deep.layers, deep.slice) == (4, 3, 1, 2, 48)


PROGRAM = """
#include <cstdio>
#include <cmath>
__global__ void turned(float *out, int w, int h, float angle, cudaTextureObject_t texture) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float u = (x - w / 2) * cosf(angle) - (y - h / 2) * sinf(angle);
  float v = (y - h / 2) * cosf(angle) + (x - w / 2) * sinf(angle);
  out[y * w + x] = tex2D<float>(texture, u / w + 0.5f, v / h + 0.5f);
}
__global__ void inverted(cudaSurfaceObject_t surface) {
  float v = surf2Dread<float>(surface, threadIdx.x * 4, blockIdx.x);
  surf2Dwrite(1.0f - v, surface, threadIdx.x * 4, blockIdx.x);
}
int main() {
  const int w = 64, h = 32;
  static float image[w * h], found[w * h], *out;
  for (int i = 0; i < w * h; i++) image[i] = (i * 37 % 101) / 101.0f;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  cudaMallocArray(&array, &format, w, h, cudaArraySurfaceLoadStore);
  cudaMemcpy2DToArray(array, 0, 0, image, w * 4, w * 4, h, cudaMemcpyHostToDevice);
  cudaResourceDesc of = {};
  of.resType = cudaResourceTypeArray;
  of.res.array.array = array;
  cudaTextureDesc how = {};
  how.normalizedCoords = true;
  how.filterMode = cudaFilterModeLinear;
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeWrap;
  cudaTextureObject_t texture;
  cudaSurfaceObject_t surface;
  cudaCreateTextureObject(&texture, &of, &how, NULL);
  cudaCreateSurfaceObject(&surface, &of);
  cudaMalloc(&out, sizeof image);
  turned<<<dim3(w / 8, h / 8), dim3(8, 8)>>>(out, w, h, 0.0f, texture);
  inverted<<<h, w>>>(surface);
  cudaMemcpy(found, out, sizeof image, cudaMemcpyDeviceToHost);
  float worst = 0;  // without a turn, each pixel lies in the middle of four texels
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      int a = (x + w - 1) % w, b = (y + h - 1) % h;
      float mean = (image[y * w + x] + image[y * w + a] + image[b * w + x] + image[b * w + a]) / 4;
      worst = fmaxf(worst, fabsf(mean - found[y * w + x]));
    }
  cudaMemcpyFromArray(found, array, 0, 0, sizeof image, cudaMemcpyDeviceToHost);
  for (int i = 0; i < w * h; i++) worst = fmaxf(worst, fabsf(found[i] - (1.0f - image[i])));
  printf("%s %s\\n", worst < 1e-6f ? "PASS" : "FAIL", cudaGetErrorString(cudaGetLastError()));
}
"""


@needs_wheels
@needs_system
def test_a_program_that_turns_an_image(tmp_path: Path) -> None:
    (tmp_path / "turns.cu").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "kerncast", "run", "turns.cu", "--gpu", "t4", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
                          env=dict(os.environ), encoding="utf-8")  # fmt: skip
    assert "PASS no error" in done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert found["refused"] == []
    assert {each["name"] for each in found["kernels"]} == {"turned", "inverted"}
