/* The header that every CUDA source gets first when its host code is compiled: what nvcc's own implicit
 * cuda_runtime.h brings there, on top of LLVM's headers for CUDA. */
#ifndef KERNCAST_CUDA_HOST_H
#define KERNCAST_CUDA_HOST_H

/* Headers of CUDA 13 (crt) name it in their own compiler only. */
#define _NV_RSQRT_SPECIFIER

#include <__clang_cuda_runtime_wrapper.h>

/* Clang reads the blocks of a cluster, and leaves them out of PTX: an annotation takes them to its IR. */
#ifdef __CUDA_ARCH__
#undef __cluster_dims__
#define __cluster_dims__(...) __attribute__((annotate("kerncast cluster", __VA_ARGS__)))
#endif

#include "kerncast_cuda_device.h"

/* nvcc's implicit header includes these, and sources rely on it. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Headers that would take clang for nvcc by the macro below have been read before it. */
#include <cuda/std/__cccl/compiler.h>
#include <nv/target>

/* There is no profiler to tell of CUB's algorithms. */
#define CCCL_DISABLE_NVTX

#define __NVCC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 9
#define __CUDACC_VER_BUILD__ 86

/* Functions of CUDA that host code may call as well; LLVM's headers have them for the device alone.
 * Source: CUDA C++ Programming Guide, "Mathematical Functions"; CUDA Math API, "min" and "max". */
#define KERNCAST_HOST static inline __attribute__((host))
#define KERNCAST_LEAST_AND_MOST(result, first, second)                       \
  KERNCAST_HOST result min(const first a, const second b) {                  \
    return static_cast<result>(a) < static_cast<result>(b) ? static_cast<result>(a) : static_cast<result>(b); \
  }                                                                          \
  KERNCAST_HOST result max(const first a, const second b) {                  \
    return static_cast<result>(a) < static_cast<result>(b) ? static_cast<result>(b) : static_cast<result>(a); \
  }
KERNCAST_LEAST_AND_MOST(int, int, int)
KERNCAST_LEAST_AND_MOST(unsigned, unsigned, unsigned)
KERNCAST_LEAST_AND_MOST(unsigned, int, unsigned)
KERNCAST_LEAST_AND_MOST(unsigned, unsigned, int)
KERNCAST_LEAST_AND_MOST(long, long, long)
KERNCAST_LEAST_AND_MOST(unsigned long, unsigned long, unsigned long)
KERNCAST_LEAST_AND_MOST(unsigned long, long, unsigned long)
KERNCAST_LEAST_AND_MOST(unsigned long, unsigned long, long)
KERNCAST_LEAST_AND_MOST(long long, long long, long long)
KERNCAST_LEAST_AND_MOST(unsigned long long, unsigned long long, unsigned long long)
KERNCAST_LEAST_AND_MOST(unsigned long long, long long, unsigned long long)
KERNCAST_LEAST_AND_MOST(unsigned long long, unsigned long long, long long)
KERNCAST_LEAST_AND_MOST(float, float, float)
KERNCAST_LEAST_AND_MOST(double, double, double)
KERNCAST_LEAST_AND_MOST(double, float, double)
KERNCAST_LEAST_AND_MOST(double, double, float)
#undef KERNCAST_LEAST_AND_MOST

KERNCAST_HOST double rhypot(double x, double y) { return 1 / hypot(x, y); }
KERNCAST_HOST float rhypotf(float x, float y) { return 1 / hypotf(x, y); }
KERNCAST_HOST double norm3d(double x, double y, double z) { return sqrt(x * x + y * y + z * z); }
KERNCAST_HOST float norm3df(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }
KERNCAST_HOST double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
KERNCAST_HOST float rnorm3df(float x, float y, float z) { return 1 / norm3df(x, y, z); }
KERNCAST_HOST double norm4d(double x, double y, double z, double w) {
  return sqrt(x * x + y * y + z * z + w * w);
}
KERNCAST_HOST float norm4df(float x, float y, float z, float w) { return sqrtf(x * x + y * y + z * z + w * w); }
KERNCAST_HOST double rnorm4d(double x, double y, double z, double w) { return 1 / norm4d(x, y, z, w); }
KERNCAST_HOST float rnorm4df(float x, float y, float z, float w) { return 1 / norm4df(x, y, z, w); }
#undef KERNCAST_HOST

/* Atomic functions that are built into nvcc. They are declared for the device, where nothing is compiled of them here.
 * Source: CUDA C++ Programming Guide 12.9, "Atomic Functions". */
#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_CONSUME 1
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4
#define KERNCAST_ATOMIC(result, name)  \
  template <typename T, typename... Rest> \
  __attribute__((device)) result __nv_atomic_##name(T *, Rest...)
KERNCAST_ATOMIC(void, load);
KERNCAST_ATOMIC(T, load_n);
KERNCAST_ATOMIC(void, store);
KERNCAST_ATOMIC(void, store_n);
KERNCAST_ATOMIC(void, exchange);
KERNCAST_ATOMIC(T, exchange_n);
KERNCAST_ATOMIC(bool, compare_exchange);
KERNCAST_ATOMIC(bool, compare_exchange_n);
KERNCAST_ATOMIC(T, fetch_add);
KERNCAST_ATOMIC(T, fetch_sub);
KERNCAST_ATOMIC(T, fetch_and);
KERNCAST_ATOMIC(T, fetch_or);
KERNCAST_ATOMIC(T, fetch_xor);
KERNCAST_ATOMIC(T, fetch_max);
KERNCAST_ATOMIC(T, fetch_min);
KERNCAST_ATOMIC(void, add);
KERNCAST_ATOMIC(void, sub);
KERNCAST_ATOMIC(void, and);
KERNCAST_ATOMIC(void, or);
KERNCAST_ATOMIC(void, xor);
KERNCAST_ATOMIC(void, max);
KERNCAST_ATOMIC(void, min);
#undef KERNCAST_ATOMIC
__attribute__((device)) void __nv_atomic_thread_fence(int order, int scope = __NV_THREAD_SCOPE_SYSTEM);

/* Managed variables: host code names the variable itself, so its memory must become the device's where it lies. Clang
 * takes such a variable for one of the device; all of them lie in a section of their own, which the runtime is told
 * when the program begins. */
#undef __managed__
#define __managed__ __attribute__((device)) __attribute__((section("kerncast_managed")))

extern "C" {
extern char __start_kerncast_managed[] __attribute__((weak, visibility("hidden")));
extern char __stop_kerncast_managed[] __attribute__((weak, visibility("hidden")));
void __kerncastManagedVariables(void *first, size_t bytes) __attribute__((weak));
}

inline __attribute__((host, visibility("hidden"))) bool kerncast_tell_managed_variables() {
  if (__start_kerncast_managed == __stop_kerncast_managed) return false;
  if (!__kerncastManagedVariables) {
    fputs("kerncast: this runtime has no __managed__ variables\n", stderr);
    abort();
  }
  __kerncastManagedVariables(__start_kerncast_managed,
                             static_cast<size_t>(__stop_kerncast_managed - __start_kerncast_managed));
  return true;
}

/* Once for each source, before its own variables begin. */
static __attribute__((constructor(101))) void kerncast_before_all() { kerncast_tell_managed_variables(); }

#endif
