// An FP32 matrix product C = A B of row-major matrices, as a well made kernel of ordinary instructions reaches it.
//
// A block of 256 threads makes 128 x 128 elements of C, a thread 8 x 8 of them in registers: 64 fused multiply-adds for
// 16 values from shared memory. The tiles of A and B (8 deep) are double-buffered: the next ones are on their way from
// global memory while these are multiplied. All global and shared accesses are of 16 bytes.
// Nothing can be removed: all of C is written. Limited by the FP32 pipe and, near it, by issue slots and shared memory.
// rows, columns and depth are multiples of 128.

#define TILE 128
#define DEPTH 8
#define PADDED (TILE + 4)  // The transposed store of A would have bank conflicts without.

extern "C" __global__ void __launch_bounds__(256, 2)
matrix_product(const float *a, const float *b, float *c, int rows, int columns, int depth) {
    __shared__ __align__(16) float tile_a[2][DEPTH][PADDED];
    __shared__ __align__(16) float tile_b[2][DEPTH][TILE];

    const int thread = threadIdx.x;
    // What this thread brings from global memory: 4 elements of a row of A, and 4 of a row of B.
    const int a_row = thread / 2, a_column = thread % 2 * 4;
    const int b_row = thread / 32, b_column = thread % 32 * 4;
    const float *from_a = a + static_cast<size_t>(blockIdx.y * TILE + a_row) * depth + a_column;
    const float *from_b = b + static_cast<size_t>(b_row) * columns + blockIdx.x * TILE + b_column;
    // What it computes: rows y to y + 3 and y + 64 to y + 67 of the block's part, columns likewise.
    const int y = thread / 16 * 4, x = thread % 16 * 4;

    float sum[8][8] = {};
    float4 next_a = *reinterpret_cast<const float4 *>(from_a);
    float4 next_b = *reinterpret_cast<const float4 *>(from_b);

    const int steps = depth / DEPTH;
    for (int step = 0; step < steps; ++step) {
        const int now = step % 2;
        tile_a[now][a_column + 0][a_row] = next_a.x;
        tile_a[now][a_column + 1][a_row] = next_a.y;
        tile_a[now][a_column + 2][a_row] = next_a.z;
        tile_a[now][a_column + 3][a_row] = next_a.w;
        *reinterpret_cast<float4 *>(&tile_b[now][b_row][b_column]) = next_b;
        // One barrier is enough: nobody writes this buffer again before all have passed the next one.
        __syncthreads();
        if (step + 1 < steps) {
            from_a += DEPTH;
            from_b += static_cast<size_t>(DEPTH) * columns;
            next_a = *reinterpret_cast<const float4 *>(from_a);
            next_b = *reinterpret_cast<const float4 *>(from_b);
        }
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float left[8], right[8];
            *reinterpret_cast<float4 *>(&left[0]) = *reinterpret_cast<const float4 *>(&tile_a[now][k][y]);
            *reinterpret_cast<float4 *>(&left[4]) = *reinterpret_cast<const float4 *>(&tile_a[now][k][y + 64]);
            *reinterpret_cast<float4 *>(&right[0]) = *reinterpret_cast<const float4 *>(&tile_b[now][k][x]);
            *reinterpret_cast<float4 *>(&right[4]) = *reinterpret_cast<const float4 *>(&tile_b[now][k][x + 64]);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) sum[i][j] = __fmaf_rn(left[i], right[j], sum[i][j]);
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = blockIdx.y * TILE + y + i % 4 + i / 4 * 64;
        float *to = c + static_cast<size_t>(row) * columns + blockIdx.x * TILE + x;
        *reinterpret_cast<float4 *>(to) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
        *reinterpret_cast<float4 *>(to + 64) = make_float4(sum[i][4], sum[i][5], sum[i][6], sum[i][7]);
    }
}
