// Two matrix products in a row, C = A B and E = C D, one element per thread. Equivalent of PolyBench-GPU's 2MM.
// As in the benchmark, the sum grows in global memory: the compiler cannot keep it in a register, because the result
// might overlap the factors.
__global__ void polybench_2mm_first(const float *A, const float *B, float *C, int rows, int columns, int inner)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        for (int k = 0; k < inner; ++k)
            C[row * columns + column] += A[row * inner + k] * B[k * columns + column];
}

__global__ void polybench_2mm_second(const float *C, const float *D, float *E, int rows, int columns, int inner)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        for (int k = 0; k < inner; ++k)
            E[row * columns + column] += C[row * inner + k] * D[k * columns + column];
}
