// y = alpha A x + beta B x for square matrices, one row per thread. Equivalent of PolyBench-GPU's GESUMMV.
// Two matrices are read a row apart per lane: poor coalescing, few threads, sums in global memory.
__global__ void polybench_gesummv(const float *A, const float *B, const float *x, float *y, float *Ax, float alpha,
                                  float beta, int size)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= size)
        return;
    for (int j = 0; j < size; ++j) {
        Ax[row] += A[row * size + j] * x[j];
        y[row] += B[row * size + j] * x[j];
    }
    y[row] = alpha * Ax[row] + beta * y[row];
}
