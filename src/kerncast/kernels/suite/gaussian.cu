// Step `pivot` of a Gaussian elimination of a * x = b: the multipliers, then the rows below the pivot.
// Equivalent of Rodinia's gaussian. Both kernels walk down columns of a row-major matrix, so that the threads of a warp
// touch different rows; the second has blocks of 16 threads, which leaves half of every warp empty.
__global__ void gaussian_fan1(float *multipliers, const float *a, int size, int pivot)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= size - 1 - pivot)
        return;
    const int row = thread + pivot + 1;
    multipliers[size * row + pivot] = a[size * row + pivot] / a[size * pivot + pivot];
}

__global__ void gaussian_fan2(const float *multipliers, float *a, float *b, int size, int pivot)
{
    const int down = blockIdx.x * blockDim.x + threadIdx.x;
    const int right = blockIdx.y * blockDim.y + threadIdx.y;
    if (down >= size - 1 - pivot || right >= size - pivot)
        return;

    const int row = down + pivot + 1, column = right + pivot;
    a[size * row + column] -= multipliers[size * row + pivot] * a[size * pivot + column];
    if (right == 0)
        b[row] -= multipliers[size * row + column] * b[pivot];
}
