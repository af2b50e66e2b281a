// C = A B^T on tensor cores: A is m x k, B is n x k, both FP16 row by row; sums and C are FP32.
//
// A block makes 128 x 128 of C. Tiles of 32 columns of A and B come by asynchronous copies, two ahead of the one that is
// multiplied. Within a row of a tile, pieces of 16 bytes change places, so that ldmatrix meets no bank conflict.
#include <cuda_fp16.h>

constexpr int TILE = 128, DEPTH = 32, STAGES = 3;
constexpr int PIECES = DEPTH / 8;  // pieces of 16 bytes in a row of a tile

__device__ unsigned place(int row, int piece) { return (row * PIECES + (piece ^ (row >> 1 & 3))) * 16; }

__device__ void copy_tile(unsigned to, const half *from, int k) {
  for (int n = threadIdx.x; n < TILE * PIECES; n += blockDim.x) {
    int row = n / PIECES, piece = n % PIECES;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + place(row, piece)),
                 "l"(from + (size_t)row * k + piece * 8));
  }
}

__device__ void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

__device__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Each of 8 warps makes 64 x 32 of the block's 128 x 128.
extern "C" __launch_bounds__(256) __global__ void matmul_tensor(const half *A, const half *B, float *C, int m, int n, int k) {
  __shared__ __align__(128) half tiles[STAGES][2][TILE * DEPTH];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int top = warp / 4 * 64, left = warp % 4 * 32;
  const half *rows = A + (size_t)blockIdx.y * TILE * k, *columns = B + (size_t)blockIdx.x * TILE * k;
  float sums[4][4][4] = {};

  auto fetch = [&](int step) {
    if (step * DEPTH < k) {
      unsigned stage = __cvta_generic_to_shared(tiles[step % STAGES]);
      copy_tile(stage, rows + step * DEPTH, k);
      copy_tile(stage + TILE * DEPTH * 2, columns + step * DEPTH, k);
    }
    asm volatile("cp.async.commit_group;");
  };
  for (int step = 0; step < STAGES - 1; step++) fetch(step);

  for (int step = 0; step * DEPTH < k; step++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    fetch(step + STAGES - 1);
    unsigned a_tile = __cvta_generic_to_shared(tiles[step % STAGES]), b_tile = a_tile + TILE * DEPTH * 2;
#pragma unroll
    for (int part = 0; part < DEPTH / 16; part++) {
      unsigned a[4][4], b[2][4];
#pragma unroll
      for (int i = 0; i < 4; i++) load_matrices(a[i], a_tile + place(top + i * 16 + lane % 16, part * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < 2; j++)
        load_matrices(b[j], b_tile + place(left + j * 16 + lane / 16 * 8 + lane % 8, part * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      for (int half_tile = 0; half_tile < 2; half_tile++) {
        int row = blockIdx.y * TILE + top + i * 16 + half_tile * 8 + lane / 4;
        int column = blockIdx.x * TILE + left + j * 8 + lane % 4 * 2;
        *(float2 *)(C + (size_t)row * n + column) = make_float2(sums[i][j][half_tile * 2], sums[i][j][half_tile * 2 + 1]);
      }
}
