// Equivalent of the two-dimensional convolution that Kernel Tuner tunes, with its tuning parameters as macros:
// block_size_x, block_size_y (threads), tile_size_x, tile_size_y (outputs per thread), filter_width, filter_height,
// image_width, image_height (outputs), read_only (loads through the read-only cache), use_padding (columns that keep
// the rows of narrow blocks on different banks), use_shmem (whether a block's input is copied to shared memory) and
// zero_outside (whether what lies outside of the input is zero or left out: the newer and the older version).
// The weights lie in constant memory, as in all measured configurations.

#define BLOCK_OUTPUTS_X (block_size_x * tile_size_x)
#define BLOCK_OUTPUTS_Y (block_size_y * tile_size_y)
#define BORDER_X (filter_width / 2 * 2)
#define BORDER_Y (filter_height / 2 * 2)
#define INPUT_WIDTH (image_width + BORDER_X)
#define INPUT_HEIGHT (image_height + BORDER_Y)
#define HELD_X (BLOCK_OUTPUTS_X + BORDER_X)
#define HELD_Y (BLOCK_OUTPUTS_Y + BORDER_Y)
#define RAGGED (image_height % BLOCK_OUTPUTS_Y != 0 || image_width % BLOCK_OUTPUTS_X != 0)

// A row is as long as the block is wide, modulo the 32 banks, so that the next row of threads takes the next banks.
#if use_padding && block_size_x % 32 != 0 && (HELD_X - block_size_x) % 32 != 0
#define ROW (HELD_X + ((32 - (HELD_X - block_size_x)) & 31))
#else
#define ROW HELD_X
#endif

#if read_only
#define LOAD(element) __ldg(&(element))
#else
#define LOAD(element) (element)
#endif

__constant__ float weights[33 * 33];

__global__ void convolution_kernel(float *output, float *input, float *filter)
{
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int left = blockIdx.x * BLOCK_OUTPUTS_X, top = blockIdx.y * BLOCK_OUTPUTS_Y;

#if use_shmem
    __shared__ float held[HELD_Y][ROW];
#pragma unroll
    for (int row = ty; row < HELD_Y; row += block_size_y) {
#pragma unroll
        for (int column = tx; column < HELD_X; column += block_size_x) {
            const bool inside = !RAGGED || (top + row < INPUT_HEIGHT && left + column < INPUT_WIDTH);
#if zero_outside
            held[row][column] = inside ? LOAD(input[(top + row) * INPUT_WIDTH + left + column]) : 0.0f;
#else
            if (inside)
                held[row][column] = LOAD(input[(top + row) * INPUT_WIDTH + left + column]);
#endif
        }
    }
    __syncthreads();
#endif

    float sum[tile_size_y][tile_size_x];
#pragma unroll
    for (int y = 0; y < tile_size_y; y++)
#pragma unroll
        for (int x = 0; x < tile_size_x; x++)
            sum[y][x] = 0.0f;

#pragma unroll
    for (int i = 0; i < filter_height; i++)
#pragma unroll
        for (int j = 0; j < filter_width; j++)
#pragma unroll
            for (int y = 0; y < tile_size_y; y++)
#pragma unroll
                for (int x = 0; x < tile_size_x; x++) {
                    const int row = ty + y * block_size_y, column = tx + x * block_size_x;
#if use_shmem
                    const float value = held[row + i][column + j];
#else
                    // The original compares the output's place with the input's size: it reads rows past the end.
                    const bool inside = !RAGGED || (top + row < INPUT_HEIGHT && left + column < INPUT_WIDTH);
                    const float value = inside ? LOAD(input[(top + row + i) * INPUT_WIDTH + left + column + j]) : 0.0f;
#endif
                    sum[y][x] += value * weights[i * filter_width + j];
                }

#pragma unroll
    for (int y = 0; y < tile_size_y; y++) {
#pragma unroll
        for (int x = 0; x < tile_size_x; x++) {
            const int row = top + ty + y * block_size_y, column = left + tx + x * block_size_x;
#if RAGGED
            if (row < image_height && column < image_width)
#endif
                output[row * image_width + column] = sum[y][x];
        }
    }
}
