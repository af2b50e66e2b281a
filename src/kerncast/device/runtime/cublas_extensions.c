/* What cuBLAS has beside BLAS: batches, other formats, sums of matrices, factors. Part of libcublas.so. */
#include "cublas_calls.h"

#define H cublasHandle_t h
typedef cuComplex C;
typedef cuDoubleComplex Z;
typedef cublasOperation_t Op;
typedef cublasFillMode_t Fill;
typedef cublasDiagType_t Diag;
typedef cublasSideMode_t Side;
typedef cudaDataType Type;
/* Half precision, which C has no type for. */
typedef struct {
  uint16_t bits;
} Half;

#define EACH(DO) DO(S, float) DO(D, double) DO(C, C) DO(Z, Z)
#define NAME(L, rest) "cublas" #L #rest

#define BATCHES(L, T)                                                                                                \
  cublasStatus_t cublas##L##gemmBatched(H, Op opa, Op opb, int m, int n, int k, const T *alpha, const T *const a[],   \
                                        int lda, const T *const b[], int ldb, const T *beta, T *const c[], int ldc,   \
                                        int batch) {                                                                  \
    return kc_blas(h, NAME(L, gemmBatched), "iiiiispipispii", opa, opb, m, n, k, BY(alpha), a, lda, b, ldb, BY(beta), \
                   c, ldc, batch);                                                                                    \
  }                                                                                                                  \
  cublasStatus_t cublas##L##gemmStridedBatched(H, Op opa, Op opb, int m, int n, int k, const T *alpha, const T *a,    \
                                               int lda, long long stride_a, const T *b, int ldb, long long stride_b,  \
                                               const T *beta, T *c, int ldc, long long stride_c, int batch) {         \
    return kc_blas(h, NAME(L, gemmStridedBatched), "iiiiispilpilspili", opa, opb, m, n, k, BY(alpha), a, lda,         \
                   stride_a, b, ldb, stride_b, BY(beta), c, ldc, stride_c, batch);                                    \
  }
EACH(BATCHES)
BATCHES(H, Half)

cublasStatus_t cublasHgemm(H, Op opa, Op opb, int m, int n, int k, const Half *alpha, const Half *a, int lda,
                           const Half *b, int ldb, const Half *beta, Half *c, int ldc) {
  return kc_blas(h, "cublasHgemm", "iiiiispipispi", opa, opb, m, n, k, BY(alpha), a, lda, b, ldb, BY(beta), c, ldc);
}

#define OTHERS(L, T)                                                                                                 \
  cublasStatus_t cublas##L##geam(H, Op opa, Op opb, int m, int n, const T *alpha, const T *a, int lda, const T *beta, \
                                 const T *b, int ldb, T *c, int ldc) {                                                \
    return kc_blas(h, NAME(L, geam), "iiiispispipi", opa, opb, m, n, BY(alpha), a, lda, BY(beta), b, ldb, c, ldc);    \
  }                                                                                                                  \
  cublasStatus_t cublas##L##dgmm(H, Side side, int m, int n, const T *a, int lda, const T *x, int incx, T *c,         \
                                 int ldc) {                                                                           \
    return kc_blas(h, NAME(L, dgmm), "iiipipipi", side, m, n, a, lda, x, incx, c, ldc);                               \
  }                                                                                                                  \
  cublasStatus_t cublas##L##trsmBatched(H, Side side, Fill uplo, Op op, Diag diag, int m, int n, const T *alpha,      \
                                        const T *const a[], int lda, T *const b[], int ldb, int batch) {              \
    return kc_blas(h, NAME(L, trsmBatched), "iiiiiispipii", side, uplo, op, diag, m, n, BY(alpha), a, lda, b, ldb,    \
                   batch);                                                                                            \
  }                                                                                                                  \
  cublasStatus_t cublas##L##getrfBatched(H, int n, T *const a[], int lda, int *pivots, int *info, int batch) {        \
    return kc_blas(h, NAME(L, getrfBatched), "ipippi", n, a, lda, pivots, info, batch);                               \
  }                                                                                                                  \
  cublasStatus_t cublas##L##getriBatched(H, int n, const T *const a[], int lda, const int *pivots, T *const c[],      \
                                         int ldc, int *info, int batch) {                                             \
    return kc_blas(h, NAME(L, getriBatched), "ipippipi", n, a, lda, pivots, c, ldc, info, batch);                     \
  }                                                                                                                  \
  cublasStatus_t cublas##L##getrsBatched(H, Op op, int n, int columns, const T *const a[], int lda,                   \
                                         const int *pivots, T *const b[], int ldb, int *info, int batch) {            \
    /* This one's info is the host's, and tells which argument is wrong. */                                           \
    if (info) *info = n < 0 ? -2 : columns < 0 ? -3 : lda < (n > 1 ? n : 1) ? -5 : ldb < (n > 1 ? n : 1) ? -8 : 0;    \
    return kc_blas(h, NAME(L, getrsBatched), "iiipippii", op, n, columns, a, lda, pivots, b, ldb, batch);             \
  }
EACH(OTHERS)

/* --- numbers of several formats --- */

static size_t bytes_of(Type type) {
  switch (type) {
    case CUDA_R_8I: case CUDA_R_8U: return 1;
    case CUDA_R_16F: case CUDA_R_16BF: return 2;
    case CUDA_R_64F: case CUDA_C_32F: return 8;
    case CUDA_C_64F: return 16;
    default: return 4;
  }
}

/* Of alpha and beta, by the format of the products and of what they are added to. */
static Type scale_of(cublasComputeType_t compute, Type result) {
  bool is_complex = result == CUDA_C_32F || result == CUDA_C_64F;
  switch (compute) {
    case CUBLAS_COMPUTE_16F: case CUBLAS_COMPUTE_16F_PEDANTIC: return CUDA_R_16F;
    case CUBLAS_COMPUTE_64F: case CUBLAS_COMPUTE_64F_PEDANTIC: return is_complex ? CUDA_C_64F : CUDA_R_64F;
    case CUBLAS_COMPUTE_32I: case CUBLAS_COMPUTE_32I_PEDANTIC: return CUDA_R_32I;
    default: return is_complex ? CUDA_C_32F : CUDA_R_32F;
  }
}

cublasStatus_t cublasGemmEx(H, Op opa, Op opb, int m, int n, int k, const void *alpha, const void *a, Type atype, int lda,
                            const void *b, Type btype, int ldb, const void *beta, void *c, Type ctype, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  (void)algorithm;
  Type scale = scale_of(compute, ctype);
  size_t bytes = bytes_of(scale);
  return kc_blas(h, "cublasGemmEx", "iiiiiiispiipiispii", scale, compute, opa, opb, m, n, k, alpha, bytes, a, atype, lda,
                 b, btype, ldb, beta, bytes, c, ctype, ldc);
}

cublasStatus_t cublasGemmBatchedEx(H, Op opa, Op opb, int m, int n, int k, const void *alpha, const void *const a[],
                                   Type atype, int lda, const void *const b[], Type btype, int ldb, const void *beta,
                                   void *const c[], Type ctype, int ldc, int batch, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algorithm) {
  (void)algorithm;
  Type scale = scale_of(compute, ctype);
  size_t bytes = bytes_of(scale);
  return kc_blas(h, "cublasGemmBatchedEx", "iiiiiiispiipiispiii", scale, compute, opa, opb, m, n, k, alpha, bytes, a,
                 atype, lda, b, btype, ldb, beta, bytes, c, ctype, ldc, batch);
}

cublasStatus_t cublasGemmStridedBatchedEx(H, Op opa, Op opb, int m, int n, int k, const void *alpha, const void *a,
                                          Type atype, int lda, long long stride_a, const void *b, Type btype, int ldb,
                                          long long stride_b, const void *beta, void *c, Type ctype, int ldc,
                                          long long stride_c, int batch, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algorithm) {
  (void)algorithm;
  Type scale = scale_of(compute, ctype);
  size_t bytes = bytes_of(scale);
  return kc_blas(h, "cublasGemmStridedBatchedEx", "iiiiiiispiilpiilspiili", scale, compute, opa, opb, m, n, k, alpha,
                 bytes, a, atype, lda, stride_a, b, btype, ldb, stride_b, beta, bytes, c, ctype, ldc, stride_c, batch);
}

cublasStatus_t cublasSgemmEx(H, Op opa, Op opb, int m, int n, int k, const float *alpha, const void *a, Type atype,
                             int lda, const void *b, Type btype, int ldb, const float *beta, void *c, Type ctype,
                             int ldc) {
  return kc_blas(h, "cublasSgemmEx", "iiiiiiispiipiispii", CUDA_R_32F, CUBLAS_COMPUTE_32F, opa, opb, m, n, k, BY(alpha),
                 a, atype, lda, b, btype, ldb, BY(beta), c, ctype, ldc);
}

cublasStatus_t cublasNrm2Ex(H, int n, const void *x, Type xtype, int incx, void *result, Type rtype, Type execution) {
  return kc_blas(h, "cublasNrm2Ex", "ipiirii", n, x, xtype, incx, result, bytes_of(rtype), rtype, execution);
}

cublasStatus_t cublasAxpyEx(H, int n, const void *alpha, Type alphatype, const void *x, Type xtype, int incx, void *y,
                            Type ytype, int incy, Type execution) {
  return kc_blas(h, "cublasAxpyEx", "iispiipiii", n, alphatype, alpha, bytes_of(alphatype), x, xtype, incx, y, ytype,
                 incy, execution);
}

cublasStatus_t cublasDotEx(H, int n, const void *x, Type xtype, int incx, const void *y, Type ytype, int incy,
                           void *result, Type rtype, Type execution) {
  return kc_blas(h, "cublasDotEx", "ipiipiirii", n, x, xtype, incx, y, ytype, incy, result, bytes_of(rtype), rtype,
                 execution);
}

cublasStatus_t cublasDotcEx(H, int n, const void *x, Type xtype, int incx, const void *y, Type ytype, int incy,
                            void *result, Type rtype, Type execution) {
  return kc_blas(h, "cublasDotcEx", "ipiipiirii", n, x, xtype, incx, y, ytype, incy, result, bytes_of(rtype), rtype,
                 execution);
}

cublasStatus_t cublasScalEx(H, int n, const void *alpha, Type alphatype, void *x, Type xtype, int incx, Type execution) {
  return kc_blas(h, "cublasScalEx", "iispiii", n, alphatype, alpha, bytes_of(alphatype), x, xtype, incx, execution);
}
