// Products of matrices by nvcuda::wmma, a tile for one warp: D = 2 A B + C by the elements of the fragments.
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

typedef wmma::precision::tf32 tf32_number;
enum Way { GLOBAL, SHARED, GENERIC };
template <bool BY_ROW> struct layout { typedef wmma::row_major type; };
template <> struct layout<false> { typedef wmma::col_major type; };

// Matrices lie row by row or column by column; A and B pass through shared memory tile by tile, or come from global.
template <int M, int N, int K, class T, class S, bool A_ROW, bool B_ROW, bool C_ROW, Way WAY, class Raw>
__device__ void product(const Raw *a, const Raw *b, const S *c, S *d, int k) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, typename layout<A_ROW>::type> left;
  wmma::fragment<wmma::matrix_b, M, N, K, T, typename layout<B_ROW>::type> right;
  wmma::fragment<wmma::accumulator, M, N, K, S> sum, before;
  __shared__ __align__(32) Raw tiles[WAY == GLOBAL ? 1 : M * K + K * N];
  const int lda = A_ROW ? k : M, ldb = B_ROW ? N : k;
  wmma::fill_fragment(sum, S(0));
  for (int at = 0; at < k; at += K) {
    const Raw *from_a = a + (A_ROW ? at : at * M), *from_b = b + (B_ROW ? at * N : at);
    if (WAY == GLOBAL) {
      wmma::load_matrix_sync(left, from_a, lda);
      wmma::load_matrix_sync(right, from_b, ldb);
    } else {
      for (int i = threadIdx.x; i < M * K; i += 32) tiles[i] = A_ROW ? from_a[i / K * lda + i % K] : from_a[i];
      for (int i = threadIdx.x; i < K * N; i += 32) tiles[M * K + i] = B_ROW ? from_b[i] : from_b[i / K * ldb + i % K];
      __syncwarp();
      const Raw *at_a = WAY == GENERIC && k < 0 ? a : tiles, *at_b = WAY == GENERIC && k < 0 ? b : tiles + M * K;
      wmma::load_matrix_sync(left, at_a, A_ROW ? K : M);
      wmma::load_matrix_sync(right, at_b, B_ROW ? N : K);
      __syncwarp();
    }
    wmma::mma_sync(sum, left, right, sum);
  }
  const wmma::layout_t order = C_ROW ? wmma::mem_row_major : wmma::mem_col_major;
  wmma::load_matrix_sync(before, c, C_ROW ? N : M, order);
  for (int i = 0; i < sum.num_elements; i++) sum.x[i] = sum.x[i] * S(2) + before.x[i];
  wmma::store_matrix_sync(d, sum, C_ROW ? N : M, order);
}

#define ENTRY extern "C" __global__
#define KERNEL(name, M, N, K, T, S, A_ROW, B_ROW, C_ROW, WAY, Raw)                                             \
  ENTRY void name(const Raw *a, const Raw *b, const S *c, S *d, int k) {                                       \
    product<M, N, K, T, S, A_ROW, B_ROW, C_ROW, WAY, Raw>(a, b, c, d, k);                                      \
  }

KERNEL(f16_square, 16, 16, 16, half, float, true, true, true, GLOBAL, half)
KERNEL(f16_shared, 16, 16, 16, half, float, false, false, false, SHARED, half)
KERNEL(f16_tall, 32, 8, 16, half, half, true, false, true, SHARED, half)
KERNEL(f16_wide, 8, 32, 16, half, half, false, true, false, GLOBAL, half)
KERNEL(f16_wide_shared, 8, 32, 16, half, float, true, true, true, SHARED, half)
KERNEL(bf16_square, 16, 16, 16, __nv_bfloat16, float, false, true, true, GENERIC, __nv_bfloat16)
KERNEL(bf16_tall, 32, 8, 16, __nv_bfloat16, float, true, true, false, GLOBAL, __nv_bfloat16)
KERNEL(bf16_wide, 8, 32, 16, __nv_bfloat16, float, true, false, true, SHARED, __nv_bfloat16)
KERNEL(tf32, 16, 16, 8, tf32_number, float, true, true, true, GLOBAL, float)
KERNEL(tf32_shared, 16, 16, 8, tf32_number, float, false, false, false, SHARED, float)
KERNEL(f64, 8, 8, 4, double, double, true, true, true, GLOBAL, double)
KERNEL(f64_shared, 8, 8, 4, double, double, false, false, false, SHARED, double)
KERNEL(s8_square, 16, 16, 16, signed char, int, true, false, true, GLOBAL, signed char)
KERNEL(s8_tall, 32, 8, 16, signed char, int, false, true, false, SHARED, signed char)
KERNEL(u8_square, 16, 16, 16, unsigned char, int, false, true, true, GENERIC, unsigned char)
KERNEL(u8_wide, 8, 32, 16, unsigned char, int, true, true, false, GLOBAL, unsigned char)

using namespace wmma::experimental;
typedef wmma::fragment<wmma::accumulator, 8, 8, 128, int> bit_sums;
typedef wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> bit_rows;
typedef wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> bit_columns;

template <class D, class A, class B> __device__ void multiply(D &d, A &a, B &b, bool) { wmma::mma_sync(d, a, b, d); }
__device__ void multiply(bit_sums &d, bit_rows &a, bit_columns &b, bool by_and) {
  if (by_and)
    wmma::bmma_sync(d, a, b, d, bmmaBitOpAND);
  else
    wmma::bmma_sync(d, a, b, d, bmmaBitOpXOR);
}

template <class T, int K> __device__ void packed(const int *a, const int *b, int *d, int k, bool by_and) {
  wmma::fragment<wmma::matrix_a, 8, 8, K, T, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 8, 8, K, T, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 8, 8, K, int> sum;
  wmma::fill_fragment(sum, 7);
  const int per = K == 128 ? 32 : 8;
  for (int at = 0; at < k; at += K) {
    wmma::load_matrix_sync(left, a + at / per, k);
    wmma::load_matrix_sync(right, b + at / per, k);
    multiply(sum, left, right, by_and);
  }
  wmma::store_matrix_sync(d, sum, 8, wmma::mem_row_major);
}

extern "C" __global__ void s4(const int *a, const int *b, int *d, int k) {
  packed<precision::s4, 32>(a, b, d, k, false);
}
extern "C" __global__ void u4(const int *a, const int *b, int *d, int k) {
  packed<precision::u4, 32>(a, b, d, k, false);
}
extern "C" __global__ void b1_xor(const int *a, const int *b, int *d, int k) {
  packed<precision::b1, 128>(a, b, d, k, false);
}
extern "C" __global__ void b1_and(const int *a, const int *b, int *d, int k) {
  packed<precision::b1, 128>(a, b, d, k, true);
}
