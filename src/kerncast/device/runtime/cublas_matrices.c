/* Levels 2 and 3 of cuBLAS: matrices. Part of libcublas.so. */
#include "cublas_calls.h"

#define H cublasHandle_t h
typedef cuComplex C;
typedef cuDoubleComplex Z;
typedef cublasOperation_t Op;
typedef cublasFillMode_t Fill;
typedef cublasDiagType_t Diag;
typedef cublasSideMode_t Side;

#define EACH_REAL(DO) DO(S, float, float) DO(D, double, double)
#define EACH_COMPLEX(DO) DO(C, C, float) DO(Z, Z, double)
#define EACH(DO) EACH_REAL(DO) EACH_COMPLEX(DO)
#define NAME(L, rest) "cublas" #L #rest "_v2"

/* --- level 2 --- */

#define GENERAL(L, T, R)                                                                                             \
  cublasStatus_t cublas##L##gemv_v2(H, Op op, int m, int n, const T *alpha, const T *a, int lda, const T *x,          \
                                    int incx, const T *beta, T *y, int incy) {                                        \
    return kc_blas(h, NAME(L, gemv), "iiispipispi", op, m, n, BY(alpha), a, lda, x, incx, BY(beta), y, incy);         \
  }                                                                                                                  \
  cublasStatus_t cublas##L##gbmv_v2(H, Op op, int m, int n, int kl, int ku, const T *alpha, const T *a, int lda,      \
                                    const T *x, int incx, const T *beta, T *y, int incy) {                            \
    return kc_blas(h, NAME(L, gbmv), "iiiiispipispi", op, m, n, kl, ku, BY(alpha), a, lda, x, incx, BY(beta), y,      \
                   incy);                                                                                            \
  }
EACH(GENERAL)

#define TRIANGULAR(L, name, T)                                                                                       \
  cublasStatus_t cublas##L##tr##name##_v2(H, Fill uplo, Op op, Diag diag, int n, const T *a, int lda, T *x,           \
                                          int incx) {                                                                 \
    return kc_blas(h, NAME(L, tr##name), "iiiipipi", uplo, op, diag, n, a, lda, x, incx);                             \
  }                                                                                                                  \
  cublasStatus_t cublas##L##tb##name##_v2(H, Fill uplo, Op op, Diag diag, int n, int k, const T *a, int lda, T *x,    \
                                          int incx) {                                                                 \
    return kc_blas(h, NAME(L, tb##name), "iiiiipipi", uplo, op, diag, n, k, a, lda, x, incx);                         \
  }                                                                                                                  \
  cublasStatus_t cublas##L##tp##name##_v2(H, Fill uplo, Op op, Diag diag, int n, const T *ap, T *x, int incx) {       \
    return kc_blas(h, NAME(L, tp##name), "iiiippi", uplo, op, diag, n, ap, x, incx);                                  \
  }
#define BOTH_TRIANGULAR(L, T, R) TRIANGULAR(L, mv, T) TRIANGULAR(L, sv, T)
EACH(BOTH_TRIANGULAR)

#define SYMMETRIC(L, name, T)                                                                                        \
  cublasStatus_t cublas##L##name##_v2(H, Fill uplo, int n, const T *alpha, const T *a, int lda, const T *x,           \
                                      int incx, const T *beta, T *y, int incy) {                                      \
    return kc_blas(h, NAME(L, name), "iispipispi", uplo, n, BY(alpha), a, lda, x, incx, BY(beta), y, incy);           \
  }
SYMMETRIC(S, symv, float)
SYMMETRIC(D, symv, double)
SYMMETRIC(C, symv, C)
SYMMETRIC(Z, symv, Z)
SYMMETRIC(C, hemv, C)
SYMMETRIC(Z, hemv, Z)

#define BANDED(L, name, T)                                                                                           \
  cublasStatus_t cublas##L##name##_v2(H, Fill uplo, int n, int k, const T *alpha, const T *a, int lda, const T *x,    \
                                      int incx, const T *beta, T *y, int incy) {                                      \
    return kc_blas(h, NAME(L, name), "iiispipispi", uplo, n, k, BY(alpha), a, lda, x, incx, BY(beta), y, incy);       \
  }
BANDED(S, sbmv, float)
BANDED(D, sbmv, double)
BANDED(C, hbmv, C)
BANDED(Z, hbmv, Z)

#define PACKED(L, name, T)                                                                                           \
  cublasStatus_t cublas##L##name##_v2(H, Fill uplo, int n, const T *alpha, const T *ap, const T *x, int incx,         \
                                      const T *beta, T *y, int incy) {                                                \
    return kc_blas(h, NAME(L, name), "iisppispi", uplo, n, BY(alpha), ap, x, incx, BY(beta), y, incy);                \
  }
PACKED(S, spmv, float)
PACKED(D, spmv, double)
PACKED(C, hpmv, C)
PACKED(Z, hpmv, Z)

#define OUTER(L, name, T)                                                                                            \
  cublasStatus_t cublas##L##name##_v2(H, int m, int n, const T *alpha, const T *x, int incx, const T *y, int incy,    \
                                      T *a, int lda) {                                                                \
    return kc_blas(h, NAME(L, name), "iispipipi", m, n, BY(alpha), x, incx, y, incy, a, lda);                         \
  }
OUTER(S, ger, float)
OUTER(D, ger, double)
OUTER(C, geru, C)
OUTER(C, gerc, C)
OUTER(Z, geru, Z)
OUTER(Z, gerc, Z)

#define RANK_1(L, name, T, A)                                                                                        \
  cublasStatus_t cublas##L##name##_v2(H, Fill uplo, int n, const A *alpha, const T *x, int incx, T *a, int lda) {     \
    return kc_blas(h, NAME(L, name), "iispipi", uplo, n, BY(alpha), x, incx, a, lda);                                 \
  }
RANK_1(S, syr, float, float)
RANK_1(D, syr, double, double)
RANK_1(C, syr, C, C)
RANK_1(Z, syr, Z, Z)
RANK_1(C, her, C, float)
RANK_1(Z, her, Z, double)

#define PACKED_1(L, name, T, A)                                                                                      \
  cublasStatus_t cublas##L##name##_v2(H, Fill uplo, int n, const A *alpha, const T *x, int incx, T *ap) {             \
    return kc_blas(h, NAME(L, name), "iispip", uplo, n, BY(alpha), x, incx, ap);                                      \
  }
PACKED_1(S, spr, float, float)
PACKED_1(D, spr, double, double)
PACKED_1(C, hpr, C, float)
PACKED_1(Z, hpr, Z, double)

#define RANK_2(L, name, T)                                                                                           \
  cublasStatus_t cublas##L##name##_v2(H, Fill uplo, int n, const T *alpha, const T *x, int incx, const T *y,          \
                                      int incy, T *a, int lda) {                                                      \
    return kc_blas(h, NAME(L, name), "iispipipi", uplo, n, BY(alpha), x, incx, y, incy, a, lda);                      \
  }
RANK_2(S, syr2, float)
RANK_2(D, syr2, double)
RANK_2(C, syr2, C)
RANK_2(Z, syr2, Z)
RANK_2(C, her2, C)
RANK_2(Z, her2, Z)

#define PACKED_2(L, name, T)                                                                                         \
  cublasStatus_t cublas##L##name##_v2(H, Fill uplo, int n, const T *alpha, const T *x, int incx, const T *y,          \
                                      int incy, T *ap) {                                                              \
    return kc_blas(h, NAME(L, name), "iispipip", uplo, n, BY(alpha), x, incx, y, incy, ap);                           \
  }
PACKED_2(S, spr2, float)
PACKED_2(D, spr2, double)
PACKED_2(C, hpr2, C)
PACKED_2(Z, hpr2, Z)

/* --- level 3 --- */

#define PRODUCT(L, T, R)                                                                                             \
  cublasStatus_t cublas##L##gemm_v2(H, Op opa, Op opb, int m, int n, int k, const T *alpha, const T *a, int lda,      \
                                    const T *b, int ldb, const T *beta, T *c, int ldc) {                              \
    return kc_blas(h, NAME(L, gemm), "iiiiispipispi", opa, opb, m, n, k, BY(alpha), a, lda, b, ldb, BY(beta), c,      \
                   ldc);                                                                                             \
  }                                                                                                                  \
  cublasStatus_t cublas##L##trsm_v2(H, Side side, Fill uplo, Op op, Diag diag, int m, int n, const T *alpha,          \
                                    const T *a, int lda, T *b, int ldb) {                                             \
    return kc_blas(h, NAME(L, trsm), "iiiiiispipi", side, uplo, op, diag, m, n, BY(alpha), a, lda, b, ldb);           \
  }                                                                                                                  \
  cublasStatus_t cublas##L##trmm_v2(H, Side side, Fill uplo, Op op, Diag diag, int m, int n, const T *alpha,          \
                                    const T *a, int lda, const T *b, int ldb, T *c, int ldc) {                        \
    return kc_blas(h, NAME(L, trmm), "iiiiiispipipi", side, uplo, op, diag, m, n, BY(alpha), a, lda, b, ldb, c,       \
                   ldc);                                                                                             \
  }
EACH(PRODUCT)

#define SYMMETRIC_PRODUCT(L, name, T)                                                                                \
  cublasStatus_t cublas##L##name##_v2(H, Side side, Fill uplo, int m, int n, const T *alpha, const T *a, int lda,     \
                                      const T *b, int ldb, const T *beta, T *c, int ldc) {                            \
    return kc_blas(h, NAME(L, name), "iiiispipispi", side, uplo, m, n, BY(alpha), a, lda, b, ldb, BY(beta), c, ldc);  \
  }
SYMMETRIC_PRODUCT(S, symm, float)
SYMMETRIC_PRODUCT(D, symm, double)
SYMMETRIC_PRODUCT(C, symm, C)
SYMMETRIC_PRODUCT(Z, symm, Z)
SYMMETRIC_PRODUCT(C, hemm, C)
SYMMETRIC_PRODUCT(Z, hemm, Z)

#define RANK_K(L, name, T, A)                                                                                        \
  cublasStatus_t cublas##L##name##_v2(H, Fill uplo, Op op, int n, int k, const A *alpha, const T *a, int lda,         \
                                      const A *beta, T *c, int ldc) {                                                 \
    return kc_blas(h, NAME(L, name), "iiiispispi", uplo, op, n, k, BY(alpha), a, lda, BY(beta), c, ldc);              \
  }
RANK_K(S, syrk, float, float)
RANK_K(D, syrk, double, double)
RANK_K(C, syrk, C, C)
RANK_K(Z, syrk, Z, Z)
RANK_K(C, herk, C, float)
RANK_K(Z, herk, Z, double)

#define RANK_2K(L, name, T, B)                                                                                       \
  cublasStatus_t cublas##L##name##_v2(H, Fill uplo, Op op, int n, int k, const T *alpha, const T *a, int lda,         \
                                      const T *b, int ldb, const B *beta, T *c, int ldc) {                            \
    return kc_blas(h, NAME(L, name), "iiiispipispi", uplo, op, n, k, BY(alpha), a, lda, b, ldb, BY(beta), c, ldc);    \
  }
RANK_2K(S, syr2k, float, float)
RANK_2K(D, syr2k, double, double)
RANK_2K(C, syr2k, C, C)
RANK_2K(Z, syr2k, Z, Z)
RANK_2K(C, her2k, C, float)
RANK_2K(Z, her2k, Z, double)
