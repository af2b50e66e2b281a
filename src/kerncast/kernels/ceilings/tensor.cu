// Rates of the tensor cores by warp-level matrix products (wmma, which is mma.sync underneath).
//
// Every warp holds one tile of A, TILES tiles of B and TILES accumulators, and multiplies them again and again. The
// compiler cannot remove it: accumulators depend on one another from round to round and are written at the end.
// Limited by the tensor cores, or on compute capability 9.0 by mma.sync itself, which stays well below what wgmma
// reaches. The operands are data (random), since products of zeros need less power and allow a higher clock.

#include <mma.h>

#if __CUDA_ARCH__ >= 700
using namespace nvcuda;

#define TILES 4
#define UNROLL 16

template <typename Element, typename Sum, int M, int N, int K, typename Storage>
__device__ void multiply(const Storage *a, const Storage *b, Sum *out, int rounds) {
    wmma::fragment<wmma::matrix_a, M, N, K, Element, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, M, N, K, Element, wmma::col_major> right[TILES];
    wmma::fragment<wmma::accumulator, M, N, K, Sum> sum[TILES];
    wmma::load_matrix_sync(left, a, K);
    for (int t = 0; t < TILES; ++t) {
        wmma::load_matrix_sync(right[t], b + t * N * K, K);
        wmma::fill_fragment(sum[t], static_cast<Sum>(0));
    }
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int t = 0; t < TILES; ++t) wmma::mma_sync(sum[t], left, right[t], sum[t]);
        }
    }
    for (int t = 1; t < TILES; ++t) {
        for (int i = 0; i < sum[0].num_elements; ++i) sum[0].x[i] += sum[t].x[i];
    }
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    wmma::store_matrix_sync(out + warp * M * N, sum[0], N, wmma::mem_row_major);
}

extern "C" __global__ void __launch_bounds__(512)
tensor_f16(const __half *a, const __half *b, float *out, int rounds) {
    multiply<__half, float, 16, 16, 16>(a, b, out, rounds);
}
#endif

#if __CUDA_ARCH__ >= 720
extern "C" __global__ void __launch_bounds__(512)
tensor_i8(const signed char *a, const signed char *b, int *out, int rounds) {
    multiply<signed char, int, 16, 16, 16>(a, b, out, rounds);
}
#endif

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void __launch_bounds__(512)
tensor_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *out, int rounds) {
    multiply<__nv_bfloat16, float, 16, 16, 16>(a, b, out, rounds);
}

extern "C" __global__ void __launch_bounds__(512)
tensor_tf32(const float *a, const float *b, float *out, int rounds) {
    multiply<wmma::precision::tf32, float, 16, 16, 8>(a, b, out, rounds);
}

extern "C" __global__ void __launch_bounds__(512)
tensor_f64(const double *a, const double *b, double *out, int rounds) {
    multiply<double, double, 8, 8, 4>(a, b, out, rounds);
}
#endif
