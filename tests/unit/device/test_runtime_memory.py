"""Memory of the virtual GPU as a program sees it: allocations, copies, fills, pointers."""

import struct
from pathlib import Path

from kerncast.device.wire import MemoryKind, Message
from tests.helpers.runtime_libraries import libraries, program
from tests.helpers.stub_device import Kernel, StubDevice, run_on

COPIES = r"""
int main(void) {
  registered();
  char from[96], to[96] = {0};
  for (int i = 0; i < 96; i++) from[i] = (char)i;
  char *box, *plain;
  size_t pitch;
  MUST(cudaMallocPitch((void **)&box, &pitch, 12, 8));
  SAY(pitch);
  MUST(cudaMalloc((void **)&plain, 96));
  /* 2 slices of 3 rows of 8 bytes, out of rows of 12 and slices of 4 rows, into pitched memory and back. */
  struct cudaMemcpy3DParms copy = {.srcPtr = {from, 12, 12, 4}, .dstPtr = {box, pitch, 12, 4},
                                   .srcPos = {1, 1, 0}, .extent = {8, 3, 2}, .kind = cudaMemcpyHostToDevice};
  MUST(cudaMemcpy3D(&copy));
  struct cudaMemcpy3DParms back = {.srcPtr = {box, pitch, 12, 4}, .dstPtr = {to, 12, 12, 4},
                                   .dstPos = {1, 1, 0}, .extent = {8, 3, 2}, .kind = cudaMemcpyDeviceToHost};
  MUST(cudaMemcpy3D(&back));
  int wrong = 0;
  for (int z = 0; z < 2; z++)
    for (int y = 0; y < 4; y++)
      for (int x = 0; x < 12; x++) {
        int at = (z * 4 + y) * 12 + x;
        wrong += to[at] != (x >= 1 && x < 9 && y >= 1 ? from[at] : 0);
      }
  SAY(wrong);
  MUST(cudaMemset2D(box, pitch, 7, 5, 8));
  MUST(cudaMemcpy2D(plain, 12, box, pitch, 12, 8, cudaMemcpyDeviceToDevice));
  MUST(cudaMemcpy(to, plain, 96, cudaMemcpyDefault));
  wrong = 0;
  for (int i = 0; i < 96; i++) wrong += (to[i] == 7) != (i % 12 < 5);
  SAY(wrong);
  SAY(cudaMemcpy(plain, from, 97, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(plain + 200, from, 1, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(to, from, 1, cudaMemcpyDeviceToHost));
  SAY(cudaMemcpy(to, from, 1, (enum cudaMemcpyKind)9));
  SAY(cudaMemset(plain, 0, 97));
  SAY(cudaMemset(to, 0, 1));
  SAY(cudaMemcpy2D(plain, 4, from, 12, 8, 2, cudaMemcpyHostToDevice));
  int value = 5, found = 0;
  MUST(cudaMemcpyToSymbol(&shadow, &value, 4, 0, cudaMemcpyHostToDevice));
  MUST(cudaMemcpyFromSymbol(&found, &shadow, 4, 0, cudaMemcpyDeviceToHost));
  SAY(found);
  SAY(cudaMemcpyToSymbol(&shadow, &value, 4, 1, cudaMemcpyHostToDevice));
  SAY(cudaMemcpyToSymbol(&value, &value, 4, 0, cudaMemcpyHostToDevice));
  return 0;
}
"""


def test_copies_and_fills_move_what_they_should(tmp_path: Path) -> None:
    with StubDevice() as device:
        done = run_on(device, program(tmp_path, COPIES), libraries())
    numbers = [int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()]
    assert numbers == [512, 0, 0, 1, 1, 1, 21, 1, 1, 12, 5, 1, 13], done.stdout
    # Each is one message, however many rows and slices it has; the variable is asked for before it is written.
    assert [struct.unpack_from("<dQQQI", each)[3:] for each in device.said(Message.COPY)] == [
        (48, 1), (48, 2), (96, 3), (96, 2), (4, 1), (4, 2)
    ]  # fmt: skip
    assert len(device.said(Message.FILL)) == 1
    assert len(device.said(Message.SYMBOL)) == 1


KINDS = r"""
static int type_of(const void *pointer) {
  struct cudaPointerAttributes found;
  MUST(cudaPointerGetAttributes(&found, pointer));
  return found.type * 100 + (found.devicePointer == pointer) * 10 + (found.hostPointer == pointer);
}
int main(void) {
  char *device, *pinned, *managed, own[64];
  size_t before, after, total;
  MUST(cudaMemGetInfo(&before, &total));
  MUST(cudaMalloc((void **)&device, 1 << 20));
  MUST(cudaMemGetInfo(&after, &total));
  SAY(before - after);
  SAY(cudaMalloc((void **)&pinned, total));
  MUST(cudaMallocHost((void **)&pinned, 64));
  MUST(cudaMallocManaged((void **)&managed, 64, cudaMemAttachGlobal));
  strcpy(pinned, "seen by both");
  SAY(type_of(device + 100));
  SAY(type_of(pinned));
  SAY(type_of(managed));
  SAY(type_of(own));
  SAY(cudaFree(pinned));
  SAY(cudaFreeHost(device));
  SAY(cudaFree(device + 1));
  SAY(cudaFree(managed));
  SAY(cudaFree(NULL));
  void *alias;
  char *page = aligned_alloc(4096, 8192);
  strcpy(page + 5000, "of the host");
  MUST(cudaHostRegister(page + 4096, 4096, 0));
  SAY(cudaHostRegister(page + 4096, 4096, 0));
  MUST(cudaHostGetDevicePointer(&alias, page + 5000, 0));
  SAY(strcmp(alias, "of the host"));
  strcpy(alias, "of the device");
  SAY(strcmp(page + 5000, "of the device"));
  SAY(type_of(page + 5000));
  MUST(cudaHostUnregister(page + 4096));
  SAY(strcmp(page + 5000, "of the device"));
  SAY(cudaHostUnregister(page + 4096));
  SAY(cudaHostGetDevicePointer(&alias, own, 0));
  int *ordered;
  MUST(cudaMallocAsync((void **)&ordered, 64, 0));
  MUST(cudaFreeAsync(ordered, 0));
  MUST(cudaDeviceReset());
  MUST(cudaMemGetInfo(&after, &total));
  SAY(before - after);
  return 0;
}
"""


def test_each_kind_of_memory_is_known(tmp_path: Path) -> None:
    with StubDevice() as device:
        done = run_on(device, program(tmp_path, KINDS), libraries())
    numbers = [int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()]
    assert numbers == [
        1 << 20, 2, 210, 111, 311, 1, 1, 1, 1, 0, 0, 712, 0, 0, 101, 0, 713, 1, 0
    ], done.stdout + done.stderr  # fmt: skip
    kinds = [struct.unpack_from("<dQQI", each)[3] for each in device.said(Message.ALLOCATE)]
    assert kinds == [MemoryKind.DEVICE, MemoryKind.PINNED, MemoryKind.MANAGED, MemoryKind.REGISTERED, MemoryKind.DEVICE]


PARAMETERS = r"""
int main(void) {
  registered();
  char *page = aligned_alloc(4096, 4096);
  MUST(cudaHostRegister(page, 4096, 0));
  void *alias, *place = page + 8;
  MUST(cudaHostGetDevicePointer(&alias, place, 0));
  int number = 3;
  void *arguments[] = {&place, &number};
  MUST(cudaLaunchKernel(add, ONE, ONE, arguments, 0, 0));
  printf("%llu\n", (unsigned long long)alias);
  return 0;
}
"""


def test_a_registered_pointer_reaches_the_kernel_as_the_devices(tmp_path: Path) -> None:
    with StubDevice(kernels={"add": Kernel(((0, 8), (8, 4)))}) as device:
        done = run_on(device, program(tmp_path, PARAMETERS), libraries())
    assert device.launches[0].parameters == struct.pack("<Qi", int(done.stdout), 3)
