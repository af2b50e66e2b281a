// x1 += A y1 and x2 += A^T y2 for a square matrix. Equivalent of PolyBench-GPU's MVT.
// One row or one column per thread: the first hardly coalesces, the second does. Sums in global memory.
__global__ void polybench_mvt_rows(const float *A, float *x1, const float *y1, int size)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < size)
        for (int j = 0; j < size; ++j)
            x1[row] += A[row * size + j] * y1[j];
}

__global__ void polybench_mvt_columns(const float *A, float *x2, const float *y2, int size)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < size)
        for (int i = 0; i < size; ++i)
            x2[column] += A[i * size + column] * y2[i];
}
