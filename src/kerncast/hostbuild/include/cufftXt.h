/* The part of cuFFT's second interface that is computed here: plans by formats, on one GPU. Source: cuFFT API
 * Reference 12, "cufftXtMakePlanMany". */
#ifndef KERNCAST_CUFFTXT_H
#define KERNCAST_CUFFTXT_H

#include <cufft.h>
#include <library_types.h>

#if defined(__cplusplus)
extern "C" {
#endif

cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long int *n, long long int *inembed,
                                long long int istride, long long int idist, cudaDataType inputtype,
                                long long int *onembed, long long int ostride, long long int odist,
                                cudaDataType outputtype, long long int batch, size_t *workSize,
                                cudaDataType executiontype);
cufftResult cufftXtGetSizeMany(cufftHandle plan, int rank, long long int *n, long long int *inembed,
                               long long int istride, long long int idist, cudaDataType inputtype,
                               long long int *onembed, long long int ostride, long long int odist,
                               cudaDataType outputtype, long long int batch, size_t *workSize,
                               cudaDataType executiontype);
cufftResult cufftXtExec(cufftHandle plan, void *input, void *output, int direction);

#if defined(__cplusplus)
}
#endif

#endif
