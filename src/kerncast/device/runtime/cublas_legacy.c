/* The first interface of cuBLAS: one handle for all, letters, and results by value. Part of libcublas.so. */
#include <cublas.h>

#include "core.h"

static cublasHandle_t handle;
static cublasStatus_t last;

cublasStatus cublasInit(void) { return handle ? CUBLAS_STATUS_SUCCESS : cublasCreate_v2(&handle); }

cublasStatus cublasShutdown(void) {
  cublasStatus_t status = handle ? cublasDestroy_v2(handle) : CUBLAS_STATUS_SUCCESS;
  handle = NULL;
  return status;
}

/* Tells the last error, and forgets it. */
cublasStatus cublasGetError(void) {
  cublasStatus_t found = last;
  last = CUBLAS_STATUS_SUCCESS;
  return found;
}

cublasStatus cublasAlloc(int n, int element, void **pointer) {
  uint64_t address = 0;
  if (n <= 0 || element <= 0 || !pointer) return CUBLAS_STATUS_INVALID_VALUE;
  if (kc_allocate((size_t)n * (size_t)element, KC_DEVICE_MEMORY, &address)) return CUBLAS_STATUS_ALLOC_FAILED;
  *pointer = (void *)(uintptr_t)address;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus cublasFree(void *pointer) {
  return !pointer || !kc_free((uint64_t)(uintptr_t)pointer) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
}

cublasStatus cublasSetKernelStream(cudaStream_t stream) { return cublasSetStream_v2(handle, stream); }

static void note(cublasStatus_t status) {
  if (status) last = status;
}

/* A letter that means nothing is refused by the function that it is given to. */
static int op_of(char letter) {
  switch (letter) {
    case 'n': case 'N': return CUBLAS_OP_N;
    case 't': case 'T': return CUBLAS_OP_T;
    case 'c': case 'C': return CUBLAS_OP_C;
    default: return -1;
  }
}

static int either(char letter, char first, char second) {
  char upper = letter >= 'a' && letter <= 'z' ? (char)(letter - 'a' + 'A') : letter;
  return upper == first ? 0 : upper == second ? 1 : -1;
}

static int fill_of(char letter) { return either(letter, 'L', 'U'); }
static int diag_of(char letter) { return either(letter, 'N', 'U'); }
static int side_of(char letter) { return either(letter, 'L', 'R'); }

#define REDUCED(name, T, R)                                   \
  R cublas##name(int n, const T *x, int incx) {               \
    R result = 0;                                             \
    note(cublas##name##_v2(handle, n, x, incx, &result));     \
    return result;                                            \
  }
REDUCED(Isamax, float, int)
REDUCED(Isamin, float, int)
REDUCED(Idamax, double, int)
REDUCED(Idamin, double, int)
REDUCED(Icamax, cuComplex, int)
REDUCED(Icamin, cuComplex, int)
REDUCED(Izamax, cuDoubleComplex, int)
REDUCED(Izamin, cuDoubleComplex, int)
REDUCED(Sasum, float, float)
REDUCED(Snrm2, float, float)
REDUCED(Dasum, double, double)
REDUCED(Dnrm2, double, double)
REDUCED(Scasum, cuComplex, float)
REDUCED(Scnrm2, cuComplex, float)
REDUCED(Dzasum, cuDoubleComplex, double)
REDUCED(Dznrm2, cuDoubleComplex, double)

#define DOT(name, T)                                                     \
  T cublas##name(int n, const T *x, int incx, const T *y, int incy) {    \
    T result = {0};                                                      \
    note(cublas##name##_v2(handle, n, x, incx, y, incy, &result));       \
    return result;                                                       \
  }
DOT(Sdot, float)
DOT(Ddot, double)
DOT(Cdotu, cuComplex)
DOT(Cdotc, cuComplex)
DOT(Zdotu, cuDoubleComplex)
DOT(Zdotc, cuDoubleComplex)

#define REST(L, T)                                                                                                    \
  void cublas##L##axpy(int n, T alpha, const T *x, int incx, T *y, int incy) {                                         \
    note(cublas##L##axpy_v2(handle, n, &alpha, x, incx, y, incy));                                                     \
  }                                                                                                                   \
  void cublas##L##copy(int n, const T *x, int incx, T *y, int incy) {                                                  \
    note(cublas##L##copy_v2(handle, n, x, incx, y, incy));                                                             \
  }                                                                                                                   \
  void cublas##L##swap(int n, T *x, int incx, T *y, int incy) {                                                        \
    note(cublas##L##swap_v2(handle, n, x, incx, y, incy));                                                             \
  }                                                                                                                   \
  void cublas##L##scal(int n, T alpha, T *x, int incx) { note(cublas##L##scal_v2(handle, n, &alpha, x, incx)); }       \
  void cublas##L##gemv(char op, int m, int n, T alpha, const T *a, int lda, const T *x, int incx, T beta, T *y,        \
                       int incy) {                                                                                     \
    note(cublas##L##gemv_v2(handle, op_of(op), m, n, &alpha, a, lda, x, incx, &beta, y, incy));                        \
  }                                                                                                                   \
  void cublas##L##gemm(char opa, char opb, int m, int n, int k, T alpha, const T *a, int lda, const T *b, int ldb,     \
                       T beta, T *c, int ldc) {                                                                        \
    note(cublas##L##gemm_v2(handle, op_of(opa), op_of(opb), m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc));          \
  }                                                                                                                   \
  void cublas##L##symm(char side, char uplo, int m, int n, T alpha, const T *a, int lda, const T *b, int ldb, T beta,  \
                       T *c, int ldc) {                                                                                \
    note(cublas##L##symm_v2(handle, side_of(side), fill_of(uplo), m, n, &alpha, a, lda, b, ldb, &beta, c, ldc));       \
  }                                                                                                                   \
  void cublas##L##syrk(char uplo, char op, int n, int k, T alpha, const T *a, int lda, T beta, T *c, int ldc) {        \
    note(cublas##L##syrk_v2(handle, fill_of(uplo), op_of(op), n, k, &alpha, a, lda, &beta, c, ldc));                   \
  }                                                                                                                   \
  void cublas##L##trsm(char side, char uplo, char op, char diag, int m, int n, T alpha, const T *a, int lda, T *b,     \
                       int ldb) {                                                                                      \
    note(cublas##L##trsm_v2(handle, side_of(side), fill_of(uplo), op_of(op), diag_of(diag), m, n, &alpha, a, lda, b,   \
                            ldb));                                                                                     \
  }                                                                                                                   \
  void cublas##L##trmm(char side, char uplo, char op, char diag, int m, int n, T alpha, const T *a, int lda, T *b,     \
                       int ldb) {                                                                                      \
    note(cublas##L##trmm_v2(handle, side_of(side), fill_of(uplo), op_of(op), diag_of(diag), m, n, &alpha, a, lda, b,   \
                            ldb, b, ldb));                                                                             \
  }                                                                                                                   \
  void cublas##L##trsv(char uplo, char op, char diag, int n, const T *a, int lda, T *x, int incx) {                    \
    note(cublas##L##trsv_v2(handle, fill_of(uplo), op_of(op), diag_of(diag), n, a, lda, x, incx));                     \
  }
REST(S, float)
REST(D, double)
REST(C, cuComplex)
REST(Z, cuDoubleComplex)

#define OUTER(L, T)                                                                                          \
  void cublas##L##ger(int m, int n, T alpha, const T *x, int incx, const T *y, int incy, T *a, int lda) {     \
    note(cublas##L##ger_v2(handle, m, n, &alpha, x, incx, y, incy, a, lda));                                  \
  }
OUTER(S, float)
OUTER(D, double)
