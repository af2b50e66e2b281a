// The header that every source gets first: what nvcc's own implicit cuda_runtime.h brings on Linux.
#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef signed short int16_t;
typedef unsigned short uint16_t;
typedef signed int int32_t;
typedef unsigned int uint32_t;
#ifdef KERNCAST_INT64_IS_LONG
typedef signed long int64_t;
typedef unsigned long uint64_t;
#else
// The libcu++ headers declare them so under NVRTC.
typedef signed long long int64_t;
typedef unsigned long long uint64_t;
#endif
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-SHRT_MAX - 1)
#define SHRT_MAX 0x7fff
#define USHRT_MAX 0xffff
#define INT_MIN (-INT_MAX - 1)
#define INT_MAX 0x7fffffff
#define UINT_MAX 0xffffffff
#define LONG_MIN (-LONG_MAX - 1)
#ifdef __LP64__
#define LONG_MAX LLONG_MAX
#define ULONG_MAX ULLONG_MAX
#else
#define LONG_MAX INT_MAX
#define ULONG_MAX UINT_MAX
#endif
#define LLONG_MIN (-LLONG_MAX - 1)
#define LLONG_MAX 0x7fffffffffffffffLL
#define ULLONG_MAX 0xffffffffffffffffUL
#define INFINITY (1.0f / 0.0f)
#define HUGE_VAL (1.0 / 0.0)
#define HUGE_VALF INFINITY
#define NAN (-(0.0f / 0.0f))
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define RAND_MAX 2147483647
// The storage class register, which C++17 has dropped, means nothing; const has GNU's spellings, too.
#define register
#define __extension__
#define __const__ const
#define __const const
// NVTX would make cub include host code.
#define CCCL_DISABLE_NVTX
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
namespace std {}
// No kernel gets an error code to print, because none calls the runtime; functions for host and device that print one
// have to compile all the same.
static __inline__ __device__ const char *cudaGetErrorString(cudaError_t) { return "a CUDA error"; }
#if __CUDA_ARCH__ >= 900
// What nvcc has for kernels that begin before the one before them has ended.
static __inline__ __device__ void cudaGridDependencySynchronize() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
static __inline__ __device__ void cudaTriggerProgrammaticLaunchCompletion() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#endif
#ifndef KERNCAST_PARSE
#include <cmath>
#endif
