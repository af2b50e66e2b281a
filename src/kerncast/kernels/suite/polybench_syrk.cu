// C = alpha A A^T + beta C, one element per thread. Equivalent of PolyBench-GPU's SYRK.
// Lanes of a warp read rows of A, a row apart from each other: 32 sectors per request. The sum grows in global memory.
__global__ void polybench_syrk(const float *A, float *C, float alpha, float beta, int size, int inner)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= size || column >= size)
        return;
    C[row * size + column] *= beta;
    for (int k = 0; k < inner; ++k)
        C[row * size + column] += alpha * A[row * inner + k] * A[column * inner + k];
}
