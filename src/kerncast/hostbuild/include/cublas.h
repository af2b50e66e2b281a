/* The first interface of cuBLAS, without handles: matrices by letters, results by value. Source: cuBLAS Library User's
 * Guide 12.9, "Using the cuBLAS Legacy API". */
#ifndef KERNCAST_CUBLAS_H
#define KERNCAST_CUBLAS_H

#if defined(KERNCAST_CUBLAS_V2_H)
#error "one source can include cublas.h or cublas_v2.h"
#endif

#include <cublas_v2.h>

/* Here the plain names are the first form's. */
#undef cublasIsamax
#undef cublasIdamax
#undef cublasIcamax
#undef cublasIzamax
#undef cublasIsamin
#undef cublasIdamin
#undef cublasIcamin
#undef cublasIzamin
#undef cublasSasum
#undef cublasDasum
#undef cublasScasum
#undef cublasDzasum
#undef cublasSnrm2
#undef cublasDnrm2
#undef cublasScnrm2
#undef cublasDznrm2
#undef cublasSdot
#undef cublasDdot
#undef cublasCdotu
#undef cublasCdotc
#undef cublasZdotu
#undef cublasZdotc
#undef cublasSaxpy
#undef cublasDaxpy
#undef cublasCaxpy
#undef cublasZaxpy
#undef cublasScopy
#undef cublasDcopy
#undef cublasCcopy
#undef cublasZcopy
#undef cublasSswap
#undef cublasDswap
#undef cublasCswap
#undef cublasZswap
#undef cublasSscal
#undef cublasDscal
#undef cublasCscal
#undef cublasCsscal
#undef cublasZscal
#undef cublasZdscal
#undef cublasSrot
#undef cublasDrot
#undef cublasCrot
#undef cublasCsrot
#undef cublasZrot
#undef cublasZdrot
#undef cublasSrotg
#undef cublasDrotg
#undef cublasCrotg
#undef cublasZrotg
#undef cublasSrotm
#undef cublasDrotm
#undef cublasSrotmg
#undef cublasDrotmg
#undef cublasSgemv
#undef cublasDgemv
#undef cublasCgemv
#undef cublasZgemv
#undef cublasSgbmv
#undef cublasDgbmv
#undef cublasCgbmv
#undef cublasZgbmv
#undef cublasStrmv
#undef cublasDtrmv
#undef cublasCtrmv
#undef cublasZtrmv
#undef cublasStrsv
#undef cublasDtrsv
#undef cublasCtrsv
#undef cublasZtrsv
#undef cublasStbmv
#undef cublasDtbmv
#undef cublasCtbmv
#undef cublasZtbmv
#undef cublasStbsv
#undef cublasDtbsv
#undef cublasCtbsv
#undef cublasZtbsv
#undef cublasStpmv
#undef cublasDtpmv
#undef cublasCtpmv
#undef cublasZtpmv
#undef cublasStpsv
#undef cublasDtpsv
#undef cublasCtpsv
#undef cublasZtpsv
#undef cublasSsymv
#undef cublasDsymv
#undef cublasCsymv
#undef cublasZsymv
#undef cublasChemv
#undef cublasZhemv
#undef cublasSsbmv
#undef cublasDsbmv
#undef cublasChbmv
#undef cublasZhbmv
#undef cublasSspmv
#undef cublasDspmv
#undef cublasChpmv
#undef cublasZhpmv
#undef cublasSger
#undef cublasDger
#undef cublasCgeru
#undef cublasCgerc
#undef cublasZgeru
#undef cublasZgerc
#undef cublasSsyr
#undef cublasDsyr
#undef cublasCsyr
#undef cublasZsyr
#undef cublasCher
#undef cublasZher
#undef cublasSspr
#undef cublasDspr
#undef cublasChpr
#undef cublasZhpr
#undef cublasSsyr2
#undef cublasDsyr2
#undef cublasCsyr2
#undef cublasZsyr2
#undef cublasCher2
#undef cublasZher2
#undef cublasSspr2
#undef cublasDspr2
#undef cublasChpr2
#undef cublasZhpr2
#undef cublasSgemm
#undef cublasDgemm
#undef cublasCgemm
#undef cublasZgemm
#undef cublasSsymm
#undef cublasDsymm
#undef cublasCsymm
#undef cublasZsymm
#undef cublasChemm
#undef cublasZhemm
#undef cublasSsyrk
#undef cublasDsyrk
#undef cublasCsyrk
#undef cublasZsyrk
#undef cublasCherk
#undef cublasZherk
#undef cublasSsyr2k
#undef cublasDsyr2k
#undef cublasCsyr2k
#undef cublasZsyr2k
#undef cublasCher2k
#undef cublasZher2k
#undef cublasStrsm
#undef cublasDtrsm
#undef cublasCtrsm
#undef cublasZtrsm
#undef cublasStrmm
#undef cublasDtrmm
#undef cublasCtrmm
#undef cublasZtrmm

typedef cublasStatus_t cublasStatus;

#if defined(__cplusplus)
extern "C" {
#endif

cublasStatus cublasInit(void);
cublasStatus cublasShutdown(void);
cublasStatus cublasGetError(void);
cublasStatus cublasAlloc(int n, int elemSize, void **devicePtr);
cublasStatus cublasFree(void *devicePtr);
cublasStatus cublasSetKernelStream(cudaStream_t stream);
int cublasIsamax(int n, const float *x, int incx);
int cublasIsamin(int n, const float *x, int incx);
int cublasIdamax(int n, const double *x, int incx);
int cublasIdamin(int n, const double *x, int incx);
int cublasIcamax(int n, const cuComplex *x, int incx);
int cublasIcamin(int n, const cuComplex *x, int incx);
int cublasIzamax(int n, const cuDoubleComplex *x, int incx);
int cublasIzamin(int n, const cuDoubleComplex *x, int incx);
float cublasSasum(int n, const float *x, int incx);
float cublasSnrm2(int n, const float *x, int incx);
double cublasDasum(int n, const double *x, int incx);
double cublasDnrm2(int n, const double *x, int incx);
float cublasScasum(int n, const cuComplex *x, int incx);
float cublasScnrm2(int n, const cuComplex *x, int incx);
double cublasDzasum(int n, const cuDoubleComplex *x, int incx);
double cublasDznrm2(int n, const cuDoubleComplex *x, int incx);
float cublasSdot(int n, const float *x, int incx, const float *y, int incy);
double cublasDdot(int n, const double *x, int incx, const double *y, int incy);
cuComplex cublasCdotu(int n, const cuComplex *x, int incx, const cuComplex *y, int incy);
cuComplex cublasCdotc(int n, const cuComplex *x, int incx, const cuComplex *y, int incy);
cuDoubleComplex cublasZdotu(int n, const cuDoubleComplex *x, int incx, const cuDoubleComplex *y, int incy);
cuDoubleComplex cublasZdotc(int n, const cuDoubleComplex *x, int incx, const cuDoubleComplex *y, int incy);
void cublasSaxpy(int n, float alpha, const float *x, int incx, float *y, int incy);
void cublasScopy(int n, const float *x, int incx, float *y, int incy);
void cublasSswap(int n, float *x, int incx, float *y, int incy);
void cublasSscal(int n, float alpha, float *x, int incx);
void cublasSgemv(char trans, int m, int n, float alpha, const float *A, int lda, const float *x, int incx,
    float beta, float *y, int incy);
void cublasSgemm(char transa, char transb, int m, int n, int k, float alpha, const float *A, int lda,
    const float *B, int ldb, float beta, float *C, int ldc);
void cublasSsymm(char side, char uplo, int m, int n, float alpha, const float *A, int lda, const float *B, int ldb,
    float beta, float *C, int ldc);
void cublasSsyrk(char uplo, char trans, int n, int k, float alpha, const float *A, int lda, float beta, float *C,
    int ldc);
void cublasStrsm(char side, char uplo, char transa, char diag, int m, int n, float alpha, const float *A, int lda,
    float *B, int ldb);
void cublasStrmm(char side, char uplo, char transa, char diag, int m, int n, float alpha, const float *A, int lda,
    float *B, int ldb);
void cublasStrsv(char uplo, char trans, char diag, int n, const float *A, int lda, float *x, int incx);
void cublasDaxpy(int n, double alpha, const double *x, int incx, double *y, int incy);
void cublasDcopy(int n, const double *x, int incx, double *y, int incy);
void cublasDswap(int n, double *x, int incx, double *y, int incy);
void cublasDscal(int n, double alpha, double *x, int incx);
void cublasDgemv(char trans, int m, int n, double alpha, const double *A, int lda, const double *x, int incx,
    double beta, double *y, int incy);
void cublasDgemm(char transa, char transb, int m, int n, int k, double alpha, const double *A, int lda,
    const double *B, int ldb, double beta, double *C, int ldc);
void cublasDsymm(char side, char uplo, int m, int n, double alpha, const double *A, int lda, const double *B,
    int ldb, double beta, double *C, int ldc);
void cublasDsyrk(char uplo, char trans, int n, int k, double alpha, const double *A, int lda, double beta,
    double *C, int ldc);
void cublasDtrsm(char side, char uplo, char transa, char diag, int m, int n, double alpha, const double *A, int lda,
    double *B, int ldb);
void cublasDtrmm(char side, char uplo, char transa, char diag, int m, int n, double alpha, const double *A, int lda,
    double *B, int ldb);
void cublasDtrsv(char uplo, char trans, char diag, int n, const double *A, int lda, double *x, int incx);
void cublasCaxpy(int n, cuComplex alpha, const cuComplex *x, int incx, cuComplex *y, int incy);
void cublasCcopy(int n, const cuComplex *x, int incx, cuComplex *y, int incy);
void cublasCswap(int n, cuComplex *x, int incx, cuComplex *y, int incy);
void cublasCscal(int n, cuComplex alpha, cuComplex *x, int incx);
void cublasCgemv(char trans, int m, int n, cuComplex alpha, const cuComplex *A, int lda, const cuComplex *x,
    int incx, cuComplex beta, cuComplex *y, int incy);
void cublasCgemm(char transa, char transb, int m, int n, int k, cuComplex alpha, const cuComplex *A, int lda,
    const cuComplex *B, int ldb, cuComplex beta, cuComplex *C, int ldc);
void cublasCsymm(char side, char uplo, int m, int n, cuComplex alpha, const cuComplex *A, int lda,
    const cuComplex *B, int ldb, cuComplex beta, cuComplex *C, int ldc);
void cublasCsyrk(char uplo, char trans, int n, int k, cuComplex alpha, const cuComplex *A, int lda, cuComplex beta,
    cuComplex *C, int ldc);
void cublasCtrsm(char side, char uplo, char transa, char diag, int m, int n, cuComplex alpha, const cuComplex *A,
    int lda, cuComplex *B, int ldb);
void cublasCtrmm(char side, char uplo, char transa, char diag, int m, int n, cuComplex alpha, const cuComplex *A,
    int lda, cuComplex *B, int ldb);
void cublasCtrsv(char uplo, char trans, char diag, int n, const cuComplex *A, int lda, cuComplex *x, int incx);
void cublasZaxpy(int n, cuDoubleComplex alpha, const cuDoubleComplex *x, int incx, cuDoubleComplex *y, int incy);
void cublasZcopy(int n, const cuDoubleComplex *x, int incx, cuDoubleComplex *y, int incy);
void cublasZswap(int n, cuDoubleComplex *x, int incx, cuDoubleComplex *y, int incy);
void cublasZscal(int n, cuDoubleComplex alpha, cuDoubleComplex *x, int incx);
void cublasZgemv(char trans, int m, int n, cuDoubleComplex alpha, const cuDoubleComplex *A, int lda,
    const cuDoubleComplex *x, int incx, cuDoubleComplex beta, cuDoubleComplex *y, int incy);
void cublasZgemm(char transa, char transb, int m, int n, int k, cuDoubleComplex alpha, const cuDoubleComplex *A,
    int lda, const cuDoubleComplex *B, int ldb, cuDoubleComplex beta, cuDoubleComplex *C, int ldc);
void cublasZsymm(char side, char uplo, int m, int n, cuDoubleComplex alpha, const cuDoubleComplex *A, int lda,
    const cuDoubleComplex *B, int ldb, cuDoubleComplex beta, cuDoubleComplex *C, int ldc);
void cublasZsyrk(char uplo, char trans, int n, int k, cuDoubleComplex alpha, const cuDoubleComplex *A, int lda,
    cuDoubleComplex beta, cuDoubleComplex *C, int ldc);
void cublasZtrsm(char side, char uplo, char transa, char diag, int m, int n, cuDoubleComplex alpha,
    const cuDoubleComplex *A, int lda, cuDoubleComplex *B, int ldb);
void cublasZtrmm(char side, char uplo, char transa, char diag, int m, int n, cuDoubleComplex alpha,
    const cuDoubleComplex *A, int lda, cuDoubleComplex *B, int ldb);
void cublasZtrsv(char uplo, char trans, char diag, int n, const cuDoubleComplex *A, int lda, cuDoubleComplex *x,
    int incx);
void cublasSger(int m, int n, float alpha, const float *x, int incx, const float *y, int incy, float *A, int lda);
void cublasDger(int m, int n, double alpha, const double *x, int incx, const double *y, int incy, double *A,
    int lda);

#if defined(__cplusplus)
}
#endif

#endif
