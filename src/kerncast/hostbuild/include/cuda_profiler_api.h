/* Marks for a profiler: there is none. Source: CUDA Runtime API, "Profiler Control". */
#ifndef KERNCAST_CUDA_PROFILER_API_H
#define KERNCAST_CUDA_PROFILER_API_H

#include <cuda_runtime_api.h>

#if defined(__cplusplus)
extern "C" {
#endif
extern cudaError_t CUDARTAPI cudaProfilerStart(void);
extern cudaError_t CUDARTAPI cudaProfilerStop(void);
#if defined(__cplusplus)
}
#endif

#endif
