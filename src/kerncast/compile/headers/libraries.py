"""Stand-ins for libraries that only host code calls; the kernels of a source that uses them compile without."""

from kerncast.compile.headers.cpp import opaque

#: cub's host side does not compile under NVRTC, its block and warp algorithms do.
_CUB = (
    "block/block_reduce block/block_scan block/block_load block/block_store block/block_radix_sort"
    " block/block_exchange block/block_discontinuity block/block_histogram warp/warp_reduce warp/warp_scan"
)

#: The headers of Thrust that do not compile under NVRTC: containers and algorithms that host code calls.
_THRUST = (
    "host_vector device_vector universal_vector device_ptr universal_ptr device_malloc device_free device_new"
    " device_delete device_allocator device_malloc_allocator device_new_allocator device_reference universal_allocator"
    " memory execution_policy adjacent_difference binary_search copy count equal extrema fill find for_each gather"
    " generate inner_product logical merge mismatch partition random reduce remove replace reverse scan scatter"
    " sequence set_operations shuffle sort swap system_error tabulate transform transform_reduce transform_scan"
    " uninitialized_copy uninitialized_fill unique zip_function system/cuda/execution_policy async/copy async/for_each"
    " async/reduce async/scan async/sort async/transform random/linear_congruential_engine"
    " random/uniform_int_distribution random/uniform_real_distribution random/normal_distribution"
)

_THRUST_TYPES = "host_vector device_vector universal_vector device_ptr universal_ptr device_allocator device_reference"

_HOST_ONLY = (
    "cuda.h cuda_profiler_api.h cudaProfiler.h nvToolsExt.h nvtx3/nvToolsExt.h cublas_v2.h cublas.h cublasLt.h"
    " cufft.h cusparse.h cusparse_v2.h cusolverDn.h cudnn.h nccl.h curand.h nvml.h helper_cuda.h"
    " helper_functions.h helper_timer.h helper_string.h helper_image.h exception.h"
    " cuda_gl_interop.h cuda_egl_interop.h cuda_vdpau_interop.h cudaGL.h cudaEGL.h"
)

_COMPLEX_FUNCTIONS = (
    "abs acos acosh arg asin asinh atan atanh conj cos cosh exp log log10 norm polar pow proj sin sinh sqrt tan tanh"
)

#: Thrust's complex numbers as libcu++ has them; Thrust's own need streams of the host.
_THRUST_COMPLEX = f"""#pragma once
#ifdef KERNCAST_PARSE
namespace thrust {{ template <class T> struct alignas(2 * sizeof(T)) complex {{ T parts[2]; }}; }}
#else
#include <cuda/std/complex>
namespace thrust {{
template <class T> using complex = ::cuda::std::complex<T>;
{" ".join(f"using ::cuda::std::{name};" for name in _COMPLEX_FUNCTIONS.split())}
}}
#endif
"""

#: Names under which a source may include a stand-in, and its text.
HEADERS: tuple[tuple[str, str], ...] = (
    (_HOST_ONLY, "#pragma once\n"),
    (
        " ".join(f"thrust/{name}.h" for name in _THRUST.split()),
        opaque("", _THRUST_TYPES, namespace="thrust"),
    ),
    ("thrust/complex.h", _THRUST_COMPLEX),
    ("cub/cub.cuh", "#pragma once\n" + "".join(f'#include "cub/{name}.cuh"\n' for name in _CUB.split())),
)
