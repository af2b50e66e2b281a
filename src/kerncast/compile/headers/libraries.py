"""Stand-ins for libraries that only host code calls; the kernels of a source that uses them compile without."""

from kerncast.compile.headers.cpp import opaque

#: cub's host side does not compile under NVRTC, its block and warp algorithms do.
_CUB = (
    "block/block_reduce block/block_scan block/block_load block/block_store block/block_radix_sort"
    " block/block_exchange block/block_discontinuity block/block_histogram warp/warp_reduce warp/warp_scan"
)

_THRUST = (
    "host_vector device_vector device_ptr device_malloc device_free sort reduce scan transform copy fill sequence"
    " generate extrema count inner_product transform_reduce for_each random"
)

_HOST_ONLY = (
    "cuda.h cuda_profiler_api.h cudaProfiler.h nvToolsExt.h nvtx3/nvToolsExt.h cublas_v2.h cublas.h cublasLt.h"
    " cufft.h cusparse.h cusparse_v2.h cusolverDn.h cudnn.h nccl.h curand.h nvml.h helper_cuda.h"
    " helper_functions.h helper_timer.h helper_string.h helper_image.h exception.h"
)

#: Names under which a source may include a stand-in, and its text.
HEADERS: tuple[tuple[str, str], ...] = (
    (_HOST_ONLY, "#pragma once\n"),
    (
        " ".join(f"thrust/{name}.h" for name in _THRUST.split()),
        opaque("", "host_vector device_vector device_ptr", namespace="thrust"),
    ),
    ("cub/cub.cuh", "#pragma once\n" + "".join(f'#include "cub/{name}.cuh"\n' for name in _CUB.split())),
)
