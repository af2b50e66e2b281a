// C = alpha A B + beta C, one element per thread, without tiles. Equivalent of PolyBench-GPU's GEMM.
// As in the benchmark, the sum grows in global memory, with a load and a store of C in every step.
__global__ void polybench_gemm(const float *A, const float *B, float *C, float alpha, float beta, int rows, int columns,
                               int inner)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || column >= columns)
        return;
    C[row * columns + column] *= beta;
    for (int k = 0; k < inner; ++k)
        C[row * columns + column] += alpha * A[row * inner + k] * B[k * columns + column];
}
