// A 3 x 3 convolution of a matrix, one point per thread, the edge left as it is. Equivalent of PolyBench-GPU's 2DCONV.
// The nine weights are constants in the code; neighbours come through the caches, not through shared memory.
__global__ void polybench_2dconv(const float *A, float *B, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < 1 || row >= rows - 1 || column < 1 || column >= columns - 1)
        return;

    const float *above = A + (row - 1) * columns + column;
    const float *middle = above + columns;
    const float *below = middle + columns;
    B[row * columns + column] = 0.2f * above[-1] - 0.3f * above[0] + 0.4f * above[1]
                              + 0.5f * middle[-1] + 0.6f * middle[0] + 0.7f * middle[1]
                              - 0.8f * below[-1] - 0.9f * below[0] + 0.1f * below[1];
}
