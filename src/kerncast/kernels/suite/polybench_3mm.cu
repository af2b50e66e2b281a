// Three matrix products, E = A B, F = C D and G = E F, one element per thread. Equivalent of PolyBench-GPU's 3MM.
// As in the benchmark, the sums grow in global memory, with a load and a store in every step.
__global__ void polybench_3mm_first(const float *A, const float *B, float *E, int rows, int columns, int inner)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        for (int k = 0; k < inner; ++k)
            E[row * columns + column] += A[row * inner + k] * B[k * columns + column];
}

__global__ void polybench_3mm_second(const float *C, const float *D, float *F, int rows, int columns, int inner)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        for (int k = 0; k < inner; ++k)
            F[row * columns + column] += C[row * inner + k] * D[k * columns + column];
}

__global__ void polybench_3mm_third(const float *E, const float *F, float *G, int rows, int columns, int inner)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        for (int k = 0; k < inner; ++k)
            G[row * columns + column] += E[row * inner + k] * F[k * columns + column];
}
