// One plane of a convolution in three dimensions, one point per thread. Equivalent of PolyBench-GPU's 3DCONV, whose
// host launches one such kernel per plane. The stencil is lopsided: 11 points for 15 weights, as in the benchmark.
__global__ void polybench_3dconv(const float *A, float *B, int planes, int rows, int columns, int plane)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (plane < 1 || plane >= planes - 1 || row < 1 || row >= rows - 1 || column < 1 || column >= columns - 1)
        return;

    const int area = rows * columns, here = plane * area + row * columns + column;
    const float *before = A + here - area, *same = A + here, *after = A + here + area;

    float sum = 2.0f * before[-columns - 1] + 4.0f * after[-columns - 1];
    sum += 5.0f * before[-columns - 1] + 7.0f * after[-columns - 1];
    sum += -8.0f * before[-columns - 1] + 10.0f * after[-columns - 1];
    sum += -3.0f * same[-columns] + 6.0f * same[0] - 9.0f * same[columns];
    sum += 2.0f * before[-columns + 1] + 4.0f * after[-columns + 1];
    sum += 5.0f * before[1] + 7.0f * after[1];
    sum += -8.0f * before[columns + 1] + 10.0f * after[columns + 1];
    B[here] = sum;
}
