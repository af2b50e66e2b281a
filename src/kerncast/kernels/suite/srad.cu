// Speckle-reducing anisotropic diffusion of an image: expand, statistics, diffusion coefficients, update, compress.
// Equivalent of Rodinia's srad_v1. One thread per pixel of a column-major image; the row numbers of the neighbours
// are loaded from index arrays; the sums are a tree that keeps ever fewer threads of all warps busy.
#define THREADS 512

__global__ void srad_extract(long count, float *image)
{
    const int pixel = blockIdx.x * THREADS + threadIdx.x;
    if (pixel < count)
        image[pixel] = exp(image[pixel] / 255);
}

__global__ void srad_prepare(long count, const float *image, float *sums, float *squares)
{
    const int pixel = blockIdx.x * THREADS + threadIdx.x;
    if (pixel < count) {
        sums[pixel] = image[pixel];
        squares[pixel] = image[pixel] * image[pixel];
    }
}

// Sum `count` elements that stand `stride` apart; each block's sums replace its first element.
__global__ void srad_reduce(int count, int stride, float *sums, float *squares)
{
    __shared__ float sum[THREADS], square[THREADS];
    const int tx = threadIdx.x, start = blockIdx.x * THREADS;
    const int mine = min(count - start, THREADS);
    int whole = 1; // the power of two that a tree can sum
    while (2 * whole <= mine)
        whole *= 2;

    if (tx < mine) {
        sum[tx] = sums[(start + tx) * stride];
        square[tx] = squares[(start + tx) * stride];
    }
    __syncthreads();

    for (int width = 2; width <= whole; width *= 2) {
        if ((tx + 1) % width == 0 && tx < whole) {
            sum[tx] += sum[tx - width / 2];
            square[tx] += square[tx - width / 2];
        }
        __syncthreads();
    }

    if (tx == whole - 1) { // one thread adds what the tree left out
        for (int i = start + whole; i < start + mine; ++i) {
            sum[tx] += sums[i * stride];
            square[tx] += squares[i * stride];
        }
        sums[start * stride] = sum[tx];
        squares[start * stride] = square[tx];
    }
}

// The index arrays hold the line's own number, so that `iota` fills them.
__global__ void srad_coefficients(int rows, int columns, long count, const int *north, const int *south,
                                  const int *east, const int *west, float *to_north, float *to_south, float *to_east,
                                  float *to_west, float q0_squared, float *coefficients, const float *image)
{
    const int pixel = blockIdx.x * THREADS + threadIdx.x;
    const int row = pixel % rows, column = pixel / rows;
    if (pixel >= count)
        return;

    const float here = image[pixel];
    const float n = image[max(north[row] - 1, 0) + rows * column] - here;
    const float s = image[min(south[row] + 1, rows - 1) + rows * column] - here;
    const float w = image[row + rows * max(west[column] - 1, 0)] - here;
    const float e = image[row + rows * min(east[column] + 1, columns - 1)] - here;

    const float gradient = (n * n + s * s + w * w + e * e) / (here * here);
    const float laplacian = (n + s + w + e) / here;
    const float numerator = 0.5 * gradient - (1.0 / 16.0) * (laplacian * laplacian);
    const float denominator = 1 + 0.25 * laplacian;
    const float q_squared = numerator / (denominator * denominator);
    const float excess = (q_squared - q0_squared) / (q0_squared * (1 + q0_squared));
    float coefficient = 1.0 / (1.0 + excess);
    if (coefficient < 0)
        coefficient = 0;
    else if (coefficient > 1)
        coefficient = 1;

    to_north[pixel] = n;
    to_south[pixel] = s;
    to_west[pixel] = w;
    to_east[pixel] = e;
    coefficients[pixel] = coefficient;
}

__global__ void srad_update(float step, int rows, int columns, long count, const int *south, const int *east,
                            const float *to_north, const float *to_south, const float *to_east, const float *to_west,
                            const float *coefficients, float *image)
{
    const int pixel = blockIdx.x * THREADS + threadIdx.x;
    const int row = pixel % rows, column = pixel / rows;
    if (pixel >= count)
        return;

    const float here = coefficients[pixel];
    const float below = coefficients[min(south[row] + 1, rows - 1) + rows * column];
    const float right = coefficients[row + rows * min(east[column] + 1, columns - 1)];
    const float divergence = here * to_north[pixel] + below * to_south[pixel] + here * to_west[pixel]
                             + right * to_east[pixel];
    image[pixel] += 0.25 * step * divergence;
}

__global__ void srad_compress(long count, float *image)
{
    const int pixel = blockIdx.x * THREADS + threadIdx.x;
    if (pixel < count)
        image[pixel] = log(image[pixel]) * 255;
}
