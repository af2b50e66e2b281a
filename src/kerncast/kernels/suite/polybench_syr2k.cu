// C = alpha (A B^T + B A^T) + beta C, one element per thread. Equivalent of PolyBench-GPU's SYR2K.
// Two of the four loads in a step are a row apart per lane: 32 sectors per request. The sum grows in global memory.
__global__ void polybench_syr2k(const float *A, const float *B, float *C, float alpha, float beta, int size, int inner)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= size || column >= size)
        return;
    C[row * size + column] *= beta;
    for (int k = 0; k < inner; ++k)
        C[row * size + column] += alpha * A[row * inner + k] * B[column * inner + k]
                                + alpha * B[row * inner + k] * A[column * inner + k];
}
