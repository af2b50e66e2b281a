// Eight products C = A B of square FP32 matrices, row after row in memory: each step changes one thing of the step before.
// The size is a multiple of 128, so that no step needs edges. docs/product-ladder.md says what each step is about.

#define SIDE 32        // threads of a block along each axis, and the tile of step 3
#define LINE_TILE 64   // block tile of step 4
#define BLOCK_TILE 128 // block tile of steps 5 to 8
#define DEPTH 8        // columns of A and rows of B that a block holds at once in steps 4 to 8
#define RESULTS 8      // results of a thread along each axis

// 1: neighbours of a warp have neighbouring rows, so that they read A and write C a whole row apart.
extern "C" __global__ void product_column(const float *__restrict__ A, const float *__restrict__ B,
                                          float *__restrict__ C, int size)
{
    const int row = blockIdx.x * SIDE + threadIdx.x, column = blockIdx.y * SIDE + threadIdx.y;
    float sum = 0.0f;

    for (int k = 0; k < size; ++k)
        sum += A[row * size + k] * B[k * size + column];
    C[row * size + column] = sum;
}

// 2: neighbours of a warp have neighbouring columns.
extern "C" __global__ void product_coalesced(const float *__restrict__ A, const float *__restrict__ B,
                                             float *__restrict__ C, int size)
{
    const int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
    float sum = 0.0f;

    for (int k = 0; k < size; ++k)
        sum += A[row * size + k] * B[k * size + column];
    C[row * size + column] = sum;
}

// 3: a block keeps a tile of each matrix in shared memory.
extern "C" __global__ void product_shared(const float *__restrict__ A, const float *__restrict__ B,
                                          float *__restrict__ C, int size)
{
    __shared__ float tileA[SIDE][SIDE], tileB[SIDE][SIDE];
    const int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
    float sum = 0.0f;

    for (int start = 0; start < size; start += SIDE) {
        tileA[threadIdx.y][threadIdx.x] = A[row * size + start + threadIdx.x];
        tileB[threadIdx.y][threadIdx.x] = B[(start + threadIdx.y) * size + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SIDE; ++k)
            sum += tileA[threadIdx.y][k] * tileB[k][threadIdx.x];
        __syncthreads();
    }
    C[row * size + column] = sum;
}

// 4: a thread computes eight results of one column: what it reads of B serves all of them.
extern "C" __global__ void __launch_bounds__(512)
product_line(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int size)
{
    __shared__ float tileA[LINE_TILE][DEPTH], tileB[DEPTH][LINE_TILE];
    const int thread = threadIdx.x, column = thread % LINE_TILE, first = thread / LINE_TILE * RESULTS;
    const int fromA = blockIdx.y * LINE_TILE * size + thread / DEPTH * size + thread % DEPTH;
    const int fromB = thread / LINE_TILE * size + blockIdx.x * LINE_TILE + column;
    float sums[RESULTS] = {};

    for (int start = 0; start < size; start += DEPTH) {
        tileA[thread / DEPTH][thread % DEPTH] = A[fromA + start];
        tileB[thread / LINE_TILE][column] = B[fromB + start * size];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            const float b = tileB[k][column];
#pragma unroll
            for (int i = 0; i < RESULTS; ++i)
                sums[i] += tileA[first + i][k] * b;
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < RESULTS; ++i)
        C[(blockIdx.y * LINE_TILE + first + i) * size + blockIdx.x * LINE_TILE + column] = sums[i];
}

// 5: a thread computes 8 x 8 results: 16 values from shared memory serve 64 multiply-adds. From here on the compiler is
// asked for at most 128 registers, so that a handful more do not halve the resident warps.
extern "C" __global__ void __launch_bounds__(256, 2)
product_square(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int size)
{
    __shared__ float tileA[BLOCK_TILE][DEPTH], tileB[DEPTH][BLOCK_TILE];
    const int thread = threadIdx.x, row = thread / 16 * RESULTS, column = thread % 16 * RESULTS;
    const float *fromA = A + (blockIdx.y * BLOCK_TILE + thread / DEPTH) * size + thread % DEPTH;
    const float *fromB = B + thread / BLOCK_TILE * size + blockIdx.x * BLOCK_TILE + thread % BLOCK_TILE;
    float sums[RESULTS][RESULTS] = {};

    for (int start = 0; start < size; start += DEPTH) {
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            tileA[part * 32 + thread / DEPTH][thread % DEPTH] = fromA[part * 32 * size + start];
            tileB[part * 2 + thread / BLOCK_TILE][thread % BLOCK_TILE] = fromB[(part * 2 + start) * size];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float a[RESULTS], b[RESULTS];
#pragma unroll
            for (int i = 0; i < RESULTS; ++i) {
                a[i] = tileA[row + i][k];
                b[i] = tileB[k][column + i];
            }
#pragma unroll
            for (int i = 0; i < RESULTS; ++i)
#pragma unroll
                for (int j = 0; j < RESULTS; ++j)
                    sums[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    float *to = C + (blockIdx.y * BLOCK_TILE + row) * size + blockIdx.x * BLOCK_TILE + column;
#pragma unroll
    for (int i = 0; i < RESULTS; ++i)
#pragma unroll
        for (int j = 0; j < RESULTS; ++j)
            to[i * size + j] = sums[i][j];
}

typedef float (*WideTile)[BLOCK_TILE];

// A is turned on its way into shared memory, so that the rows of a thread lie side by side there.
static __device__ void keep(WideTile tileA, WideTile tileB, float4 a, float4 b)
{
    const int thread = threadIdx.x, row = thread / 2, depth = thread % 2 * 4;

    tileA[depth][row] = a.x;
    tileA[depth + 1][row] = a.y;
    tileA[depth + 2][row] = a.z;
    tileA[depth + 3][row] = a.w;
    *(float4 *)&tileB[thread / 32][thread % 32 * 4] = b;
}

static __device__ const float4 *place_in_a(const float *A, int size)
{
    return (const float4 *)(A + (blockIdx.y * BLOCK_TILE + threadIdx.x / 2) * size + threadIdx.x % 2 * 4);
}

static __device__ const float4 *place_in_b(const float *B, int size)
{
    return (const float4 *)(B + threadIdx.x / 32 * size + blockIdx.x * BLOCK_TILE + threadIdx.x % 32 * 4);
}

// The results of a thread lie in four squares of 4 x 4, `gapA` rows and `gapB` columns from corner to corner.
static __device__ void multiply(WideTile tileA, WideTile tileB, int row, int gapA, int column, int gapB,
                                float (&sums)[RESULTS][RESULTS])
{
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
        const float4 a0 = *(const float4 *)&tileA[k][row], a1 = *(const float4 *)&tileA[k][row + gapA];
        const float4 b0 = *(const float4 *)&tileB[k][column], b1 = *(const float4 *)&tileB[k][column + gapB];
        const float a[RESULTS] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
        const float b[RESULTS] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
        for (int i = 0; i < RESULTS; ++i)
#pragma unroll
            for (int j = 0; j < RESULTS; ++j)
                sums[i][j] += a[i] * b[j];
    }
}

static __device__ void store(float *C, int size, int row, int gapA, int column, int gapB,
                             const float (&sums)[RESULTS][RESULTS])
{
    float *to = C + (blockIdx.y * BLOCK_TILE + row) * size + blockIdx.x * BLOCK_TILE + column;

#pragma unroll
    for (int i = 0; i < RESULTS; ++i) {
        float *line = to + (i / 4 * gapA + i % 4) * size;
        *(float4 *)line = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        *(float4 *)(line + gapB) = make_float4(sums[i][4], sums[i][5], sums[i][6], sums[i][7]);
    }
}

// 6: four values per load and store, and A transposed in shared memory; a thread has the same results as in step 5.
extern "C" __global__ void __launch_bounds__(256, 2)
product_float4(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int size)
{
    __shared__ __align__(16) float tileA[DEPTH][BLOCK_TILE], tileB[DEPTH][BLOCK_TILE];
    const int row = threadIdx.x / 16 * RESULTS, column = threadIdx.x % 16 * RESULTS;
    const float4 *fromA = place_in_a(A, size), *fromB = place_in_b(B, size);
    float sums[RESULTS][RESULTS] = {};

    for (int start = 0; start < size; start += DEPTH) {
        keep(tileA, tileB, fromA[start / 4], fromB[start / 4 * size]);
        __syncthreads();
        multiply(tileA, tileB, row, 4, column, 4, sums);
        __syncthreads();
    }
    store(C, size, row, 4, column, 4, sums);
}

// Warps lie 2 x 4 in the block, each on 64 x 32 results; lanes lie 8 x 4 in the warp, side by side in each quarter.
static __device__ int row_of_lane()
{
    return threadIdx.x / 128 * 64 + threadIdx.x % 32 / 4 * 4;
}

static __device__ int column_of_lane()
{
    return threadIdx.x / 32 % 4 * 32 + threadIdx.x % 4 * 4;
}

// 7: the lanes of a warp share a compact tile, whose values they read from shared memory without bank conflicts.
extern "C" __global__ void __launch_bounds__(256, 2)
product_warp(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int size)
{
    __shared__ __align__(16) float tileA[DEPTH][BLOCK_TILE], tileB[DEPTH][BLOCK_TILE];
    const int row = row_of_lane(), column = column_of_lane();
    const float4 *fromA = place_in_a(A, size), *fromB = place_in_b(B, size);
    float sums[RESULTS][RESULTS] = {};

    for (int start = 0; start < size; start += DEPTH) {
        keep(tileA, tileB, fromA[start / 4], fromB[start / 4 * size]);
        __syncthreads();
        multiply(tileA, tileB, row, 32, column, 16, sums);
        __syncthreads();
    }
    store(C, size, row, 32, column, 16, sums);
}

// 8: the next tile travels to registers while this one is multiplied, then to the other half of shared memory.
extern "C" __global__ void __launch_bounds__(256, 2)
product_double(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int size)
{
    __shared__ __align__(16) float tileA[2][DEPTH][BLOCK_TILE], tileB[2][DEPTH][BLOCK_TILE];
    const int row = row_of_lane(), column = column_of_lane();
    const float4 *fromA = place_in_a(A, size), *fromB = place_in_b(B, size);
    float sums[RESULTS][RESULTS] = {};
    int now = 0;

    keep(tileA[0], tileB[0], fromA[0], fromB[0]);
    __syncthreads();
    for (int start = DEPTH; start < size; start += DEPTH) {
        const float4 a = fromA[start / 4], b = fromB[start / 4 * size];

        multiply(tileA[now], tileB[now], row, 32, column, 16, sums);
        now ^= 1;
        keep(tileA[now], tileB[now], a, b);
        __syncthreads();
    }
    multiply(tileA[now], tileB[now], row, 32, column, 16, sums);
    store(C, size, row, 32, column, 16, sums);
}
