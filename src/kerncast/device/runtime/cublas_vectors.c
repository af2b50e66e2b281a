/* Level 1 of cuBLAS: vectors. Part of libcublas.so. */
#include "cublas_calls.h"

#define H cublasHandle_t h
typedef cuComplex C;
typedef cuDoubleComplex Z;

/* For each type: its letter, its numbers, and the numbers of its absolute values. */
#define EACH_REAL(DO) DO(S, float, float) DO(D, double, double)
#define EACH_COMPLEX(DO) DO(C, C, float) DO(Z, Z, double)
#define EACH(DO) EACH_REAL(DO) EACH_COMPLEX(DO)

#define INDEX(name, T)                                                               \
  cublasStatus_t cublas##name##_v2(H, int n, const T *x, int incx, int *result) {     \
    return kc_blas(h, "cublas" #name "_v2", "ipir", n, x, incx, BY(result));          \
  }
INDEX(Isamax, float)
INDEX(Idamax, double)
INDEX(Icamax, C)
INDEX(Izamax, Z)
INDEX(Isamin, float)
INDEX(Idamin, double)
INDEX(Icamin, C)
INDEX(Izamin, Z)

#define NORM(name, T, R)                                                             \
  cublasStatus_t cublas##name##_v2(H, int n, const T *x, int incx, R *result) {       \
    return kc_blas(h, "cublas" #name "_v2", "ipir", n, x, incx, BY(result));          \
  }
NORM(Sasum, float, float)
NORM(Dasum, double, double)
NORM(Scasum, C, float)
NORM(Dzasum, Z, double)
NORM(Snrm2, float, float)
NORM(Dnrm2, double, double)
NORM(Scnrm2, C, float)
NORM(Dznrm2, Z, double)

#define DOT(name, T)                                                                                     \
  cublasStatus_t cublas##name##_v2(H, int n, const T *x, int incx, const T *y, int incy, T *result) {     \
    return kc_blas(h, "cublas" #name "_v2", "ipipir", n, x, incx, y, incy, BY(result));                   \
  }
DOT(Sdot, float)
DOT(Ddot, double)
DOT(Cdotu, C)
DOT(Cdotc, C)
DOT(Zdotu, Z)
DOT(Zdotc, Z)

#define PLAIN(L, T, R)                                                                                          \
  cublasStatus_t cublas##L##axpy_v2(H, int n, const T *alpha, const T *x, int incx, T *y, int incy) {            \
    return kc_blas(h, "cublas" #L "axpy_v2", "ispipi", n, BY(alpha), x, incx, y, incy);                          \
  }                                                                                                             \
  cublasStatus_t cublas##L##copy_v2(H, int n, const T *x, int incx, T *y, int incy) {                            \
    return kc_blas(h, "cublas" #L "copy_v2", "ipipi", n, x, incx, y, incy);                                      \
  }                                                                                                             \
  cublasStatus_t cublas##L##swap_v2(H, int n, T *x, int incx, T *y, int incy) {                                  \
    return kc_blas(h, "cublas" #L "swap_v2", "ipipi", n, x, incx, y, incy);                                      \
  }
EACH(PLAIN)

#define SCALED(name, T, A)                                                            \
  cublasStatus_t cublas##name##_v2(H, int n, const A *alpha, T *x, int incx) {         \
    return kc_blas(h, "cublas" #name "_v2", "ispi", n, BY(alpha), x, incx);            \
  }
SCALED(Sscal, float, float)
SCALED(Dscal, double, double)
SCALED(Cscal, C, C)
SCALED(Csscal, C, float)
SCALED(Zscal, Z, Z)
SCALED(Zdscal, Z, double)

#define ROTATED(name, T, R, A)                                                                                   \
  cublasStatus_t cublas##name##_v2(H, int n, T *x, int incx, T *y, int incy, const R *c, const A *s) {            \
    return kc_blas(h, "cublas" #name "_v2", "ipipiss", n, x, incx, y, incy, BY(c), BY(s));                        \
  }
ROTATED(Srot, float, float, float)
ROTATED(Drot, double, double, double)
ROTATED(Crot, C, float, C)
ROTATED(Csrot, C, float, float)
ROTATED(Zrot, Z, double, Z)
ROTATED(Zdrot, Z, double, double)

#define ROTATION(L, T, R)                                                             \
  cublasStatus_t cublas##L##rotg_v2(H, T *a, T *b, R *c, T *s) {                       \
    return kc_blas(h, "cublas" #L "rotg_v2", "xxrr", BY(a), BY(b), BY(c), BY(s));      \
  }
EACH(ROTATION)

/* Its parameters are a flag and a matrix of 2 x 2. */
#define MODIFIED(L, T, R)                                                                                        \
  cublasStatus_t cublas##L##rotm_v2(H, int n, T *x, int incx, T *y, int incy, const T *param) {                   \
    return kc_blas(h, "cublas" #L "rotm_v2", "ipipis", n, x, incx, y, incy, param, 5 * sizeof *param);            \
  }                                                                                                              \
  cublasStatus_t cublas##L##rotmg_v2(H, T *d1, T *d2, T *x1, const T *y1, T *param) {                             \
    return kc_blas(h, "cublas" #L "rotmg_v2", "xxxsx", BY(d1), BY(d2), BY(x1), BY(y1), param, 5 * sizeof *param); \
  }
EACH_REAL(MODIFIED)
