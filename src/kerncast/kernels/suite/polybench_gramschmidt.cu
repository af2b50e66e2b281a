// Step k of the Gram-Schmidt decomposition A = Q R, in three kernels. Equivalent of PolyBench-GPU's GRAMSCHMIDT.
// One thread alone computes the norm of column k; then one thread per row scales the column, with a stride of a row;
// then one thread per later column removes the column's share, with full coalescing.
__global__ void polybench_gramschmidt_norm(const float *A, float *R, int rows, int columns, int k)
{
    if (blockIdx.x * blockDim.x + threadIdx.x != 0)
        return;
    float squares = 0.0f;
    for (int i = 0; i < rows; ++i)
        squares += A[i * columns + k] * A[i * columns + k];
    R[k * columns + k] = sqrtf(squares);
}

__global__ void polybench_gramschmidt_scale(const float *A, const float *R, float *Q, int rows, int columns, int k)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows)
        Q[row * columns + k] = A[row * columns + k] / R[k * columns + k];
}

__global__ void polybench_gramschmidt_remove(float *A, float *R, const float *Q, int rows, int columns, int k)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column <= k || column >= columns)
        return;
    R[k * columns + column] = 0.0f;
    for (int i = 0; i < rows; ++i)
        R[k * columns + column] += Q[i * columns + k] * A[i * columns + column];
    for (int i = 0; i < rows; ++i)
        A[i * columns + column] -= Q[i * columns + k] * R[k * columns + column];
}
