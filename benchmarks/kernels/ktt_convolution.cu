// Equivalent of the two-dimensional convolution that the Kernel Tuning Toolkit tunes, with its tuning parameters as
// macros: BLOCK_SIZE_X, BLOCK_SIZE_Y (threads), TILE_SIZE_X, TILE_SIZE_Y (outputs per thread), IMAGE_WIDTH,
// IMAGE_HEIGHT (outputs), HFS (half of the filter's size) and READ_ONLY (loads through the read-only cache).
// The original's parameter PADDING is read by no line of it: the measured shared memory is the same with and without.

#define FILTER (2 * HFS + 1)
#define BLOCK_OUTPUTS_X (BLOCK_SIZE_X * TILE_SIZE_X)
#define BLOCK_OUTPUTS_Y (BLOCK_SIZE_Y * TILE_SIZE_Y)
#define HELD_X (BLOCK_OUTPUTS_X + 2 * HFS)
#define HELD_Y (BLOCK_OUTPUTS_Y + 2 * HFS)
#define INPUT_WIDTH (IMAGE_WIDTH + 2 * HFS)
#define INPUT_HEIGHT (IMAGE_HEIGHT + 2 * HFS)
#define RAGGED (IMAGE_HEIGHT % BLOCK_OUTPUTS_Y != 0 || IMAGE_WIDTH % BLOCK_OUTPUTS_X != 0)

#if READ_ONLY
#define LOAD(element) __ldg(&(element))
#else
#define LOAD(element) (element)
#endif

__constant__ float weights[33 * 33];

__global__ void Convolution(float *output, float *input, float *filter)
{
    __shared__ float held[HELD_Y][HELD_X];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int left = blockIdx.x * BLOCK_OUTPUTS_X, top = blockIdx.y * BLOCK_OUTPUTS_Y;

#pragma unroll
    for (int row = ty; row < HELD_Y; row += BLOCK_SIZE_Y) {
#pragma unroll
        for (int column = tx; column < HELD_X; column += BLOCK_SIZE_X) {
#if RAGGED
            if (top + row < INPUT_HEIGHT && left + column < INPUT_WIDTH)
#endif
                held[row][column] = LOAD(input[(top + row) * INPUT_WIDTH + left + column]);
        }
    }
    __syncthreads();

    float sum[TILE_SIZE_Y][TILE_SIZE_X];
#pragma unroll
    for (int y = 0; y < TILE_SIZE_Y; y++)
#pragma unroll
        for (int x = 0; x < TILE_SIZE_X; x++)
            sum[y][x] = 0.0f;

#pragma unroll
    for (int i = 0; i < FILTER; i++)
#pragma unroll
        for (int j = 0; j < FILTER; j++)
#pragma unroll
            for (int y = 0; y < TILE_SIZE_Y; y++)
#pragma unroll
                for (int x = 0; x < TILE_SIZE_X; x++)
                    sum[y][x] += held[ty + y * BLOCK_SIZE_Y + i][tx + x * BLOCK_SIZE_X + j] * weights[i * FILTER + j];

#pragma unroll
    for (int y = 0; y < TILE_SIZE_Y; y++) {
#pragma unroll
        for (int x = 0; x < TILE_SIZE_X; x++) {
            const int row = top + ty + y * BLOCK_SIZE_Y, column = left + tx + x * BLOCK_SIZE_X;
#if RAGGED
            if (row < IMAGE_HEIGHT && column < IMAGE_WIDTH)
#endif
                output[row * IMAGE_WIDTH + column] = sum[y][x];
        }
    }
}
