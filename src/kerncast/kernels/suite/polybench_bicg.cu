// The two products of the biconjugate gradient method, s = A^T r and q = A p. Equivalent of PolyBench-GPU's BICG.
// One column or one row per thread: the first coalesces, the second does not. Sums in global memory.
__global__ void polybench_bicg_columns(const float *A, const float *r, float *s, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < columns) {
        s[column] = 0.0f;
        for (int i = 0; i < rows; ++i)
            s[column] += A[i * columns + column] * r[i];
    }
}

__global__ void polybench_bicg_rows(const float *A, const float *p, float *q, int rows, int columns)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        q[row] = 0.0f;
        for (int j = 0; j < columns; ++j)
            q[row] += A[row * columns + j] * p[j];
    }
}
