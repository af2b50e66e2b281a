// y = A^T (A x) in two kernels. Equivalent of PolyBench-GPU's ATAX.
// The first walks along a row per thread, so that a warp's loads are a row apart and hardly coalesce; the second walks
// down a column per thread and coalesces fully. Few threads, long loops, sums in global memory.
__global__ void polybench_atax_rows(const float *A, const float *x, float *Ax, int rows, int columns)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows)
        for (int j = 0; j < columns; ++j)
            Ax[row] += A[row * columns + j] * x[j];
}

__global__ void polybench_atax_columns(const float *A, const float *Ax, float *y, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < columns)
        for (int i = 0; i < rows; ++i)
            y[column] += A[i * columns + column] * Ax[i];
}
