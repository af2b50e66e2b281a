/* What the files of libcuda.so share. All of them begin with driver, and the library is built of these alone, on top of
 * libkerncast_device.so. They define what CUDA 12 declares, mostly under the newer of two names: cuda.h renames. */
#ifndef KERNCAST_DRIVER_H
#define KERNCAST_DRIVER_H

#include <cuda.h>

#include "core.h"
#include "device.h"
#include "graphs.h"
#include "kernels.h"

/* Connects to the device, once cuInit has been called. Returns the error that all entry points then return. */
int kc_driver_begin(void);
/* The same for what needs a context. */
int kc_driver_begin_in_context(void);
/* An error by the numbers of the driver, which knows fewer than the runtime. */
CUresult kc_driver_end(int error);

/* The body of an entry point: what it asks for is only done where there is a device that works, and a context. */
#define ANSWER(call)                                     \
  do {                                                   \
    int error_ = kc_driver_begin_in_context();           \
    return kc_driver_end(error_ ? error_ : (int)(call)); \
  } while (0)

/* The same for what needs no context. */
#define ANSWER_ANYWHERE(call)                            \
  do {                                                   \
    int error_ = kc_driver_begin();                      \
    return kc_driver_end(error_ ? error_ : (int)(call)); \
  } while (0)

/* The same interface with another default stream, of which there is but one here: suffix ptsz or ptds. */
#define PER_THREAD(name, suffix) PER_THREAD_OF(name, suffix)
#define PER_THREAD_OF(name, suffix) extern __typeof__(name) name##_##suffix __attribute__((alias(#name)))

/* The name that an interface had before the one that cuda.h gives it, for programs that were built then. */
#define OLD_NAME(old, name) OLD_NAME_OF(old, name)
#define OLD_NAME_OF(old, name) extern __typeof__(name) name##_before __asm__(old) __attribute__((alias(#name)))

static inline kc_stream *kc_stream_of(CUstream stream) { return (kc_stream *)stream; }

static inline kc_function *kc_function_of(CUfunction function) { return (kc_function *)function; }

static inline int kc_check_stream(CUstream stream) {
  return kc_is_stream((kc_stream *)stream) ? KC_OK : KC_INVALID_HANDLE;
}

static inline int kc_check_device(CUdevice device) { return device ? KC_INVALID_DEVICE : KC_OK; }

static inline const void *kc_pointer_to(CUdeviceptr address) { return (const void *)(uintptr_t)address; }

/* driver_memory.c: what a copy in three dimensions moves. */
int kc_read_box(const CUDA_MEMCPY3D *given, struct kc_work *work);

#endif
