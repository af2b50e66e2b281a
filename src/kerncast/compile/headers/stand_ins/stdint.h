#pragma once
#ifndef _LIBCUDACXX___CUDA_CSTDINT_PRELUDE_H
#define KERNCAST_WIDTH(N) \
  typedef int##N##_t int_fast##N##_t; typedef uint##N##_t uint_fast##N##_t; \
  typedef int##N##_t int_least##N##_t; typedef uint##N##_t uint_least##N##_t;
KERNCAST_WIDTH(8) KERNCAST_WIDTH(16) KERNCAST_WIDTH(32) KERNCAST_WIDTH(64)
#undef KERNCAST_WIDTH
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
#define INT8_MIN SCHAR_MIN
#define INT16_MIN SHRT_MIN
#define INT32_MIN INT_MIN
#define INT64_MIN LLONG_MIN
#define INT8_MAX SCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT32_MAX INT_MAX
#define INT64_MAX LLONG_MAX
#define UINT8_MAX UCHAR_MAX
#define UINT16_MAX USHRT_MAX
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULLONG_MAX
#define INT8_C(X) ((int_least8_t) (X))
#define INT16_C(X) ((int_least16_t) (X))
#define INT32_C(X) ((int_least32_t) (X))
#define INT64_C(X) ((int_least64_t) (X))
#define UINT8_C(X) ((uint_least8_t) (X))
#define UINT16_C(X) ((uint_least16_t) (X))
#define UINT32_C(X) ((uint_least32_t) (X))
#define UINT64_C(X) ((uint_least64_t) (X))
#endif
#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define SIZE_MAX ULLONG_MAX
#define PTRDIFF_MAX INT64_MAX
