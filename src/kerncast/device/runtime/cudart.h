/* What the files of libcudart.so share. All of them begin with cudart, and the library is built of these alone, on top
 * of libkerncast_device.so; KC_CUDA_MAJOR says for which version of CUDA: 11, 12 or 13. */
#ifndef KERNCAST_CUDART_H
#define KERNCAST_CUDART_H

#include <cuda_runtime_api.h>

#include "core.h"
#include "device.h"

/* Each interface is named as this version of CUDA names it, not as its headers rename it. */
#undef cudaGetDeviceProperties
#undef cudaStreamGetCaptureInfo
#undef cudaSignalExternalSemaphoresAsync
#undef cudaWaitExternalSemaphoresAsync

/* Connects to the device, and makes it the one of this thread. Returns the error that all entry points then return. */
int kc_runtime_begin(void);
/* Notes an error for cudaGetLastError; returns it. */
cudaError_t kc_runtime_end(int error);

/* The body of an entry point: what it asks for is only done where there is a device that works. */
#define ANSWER(call)                                      \
  do {                                                    \
    int error_ = kc_runtime_begin();                      \
    return kc_runtime_end(error_ ? error_ : (int)(call)); \
  } while (0)

/* The same interface with another default stream, of which there is but one here: suffix ptsz or ptds. */
#define PER_THREAD(name, suffix) extern __typeof__(name) name##_##suffix __attribute__((alias(#name)))

/* CUDA 13 gives the old name to what CUDA 12 calls the second or third version. */
#define NAME_IN_13(name, newer) \
  extern __typeof__(newer) name##_13 __asm__(#name) __attribute__((alias(#newer)))

static inline kc_stream *kc_stream_of(cudaStream_t stream) { return (kc_stream *)stream; }

/* A stream that is there, or an error. */
static inline int kc_check_stream(cudaStream_t stream) {
  return kc_is_stream((kc_stream *)stream) ? KC_OK : KC_INVALID_HANDLE;
}

/* cudart_kernels.c: the kernel of a function of the host, or of any of CUDA's handles; NULL for none. */
kc_function *kc_kernel_of(const void *function);
/* The function of the host that stands for a kernel, or the kernel itself. */
void *kc_host_function_of(kc_function *function);
/* The memory of a variable that the program was compiled with. */
int kc_symbol_of(const void *symbol, uint64_t *address, size_t *bytes);

/* cudart_arrays.c: a box of an array, whose places and sizes count texels. */
struct kc_array_box {
  char *corner;
  size_t texel, pitch, slice;
};
int kc_box_of_array(cudaArray_const_t array, struct cudaPos place, struct cudaExtent size, struct kc_array_box *box);

/* cudart_memory.c: the rows that a copy in three dimensions moves. */
struct kc_copy_of_rows {
  void *to;
  const void *from;
  struct kc_rows rows;
};
int kc_read_copy(const struct cudaMemcpy3DParms *given, struct kc_copy_of_rows *copy);
/* Whether the sides of a copy are what its kind says. */
int kc_check_kind(const void *to, const void *from, enum cudaMemcpyKind kind);

#endif
