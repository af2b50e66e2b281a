// C = A * B for square matrices, one element per thread. The matmul_naive of the suite of 16 kernels (docs/suite.md):
// all operands come from global memory, and only the caches reuse them.
__global__ void matmul_naive(const float *A, const float *B, float *C, int size)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= size || column >= size)
        return;

    float sum = 0.0f;
    for (int k = 0; k < size; ++k)
        sum += A[row * size + k] * B[k * size + column];
    C[row * size + column] = sum;
}
