// The correlation matrix of the columns of a table, in four kernels. Equivalent of PolyBench-GPU's CORR.
// Rows and columns count from 1 as in the benchmark, so that rows are one float longer than a power of two and straddle
// sectors. In the last kernel a thread's work shrinks with its number, and few threads do all of it.
__global__ void polybench_corr_mean(const float *data, float *mean, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x + 1, pitch = columns + 1;
    if (column > columns)
        return;
    mean[column] = 0.0f;
    for (int i = 1; i <= rows; ++i)
        mean[column] += data[i * pitch + column];
    mean[column] /= rows;
}

__global__ void polybench_corr_deviation(const float *data, const float *mean, float *deviation, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x + 1, pitch = columns + 1;
    if (column > columns)
        return;
    deviation[column] = 0.0f;
    for (int i = 1; i <= rows; ++i)
        deviation[column] += (data[i * pitch + column] - mean[column]) * (data[i * pitch + column] - mean[column]);
    deviation[column] = sqrtf(deviation[column] / rows);
    if (deviation[column] <= 0.005f)  // a constant column must not be divided by
        deviation[column] = 1.0f;
}

__global__ void polybench_corr_standardise(float *data, const float *mean, const float *deviation, int rows,
                                           int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x + 1, row = blockIdx.y * blockDim.y + threadIdx.y + 1;
    const int here = row * (columns + 1) + column;
    if (row > rows || column > columns)
        return;
    data[here] -= mean[column];
    data[here] /= sqrtf((float)rows) * deviation[column];
}

__global__ void polybench_corr_products(const float *data, float *correlation, int rows, int columns)
{
    const int first = blockIdx.x * blockDim.x + threadIdx.x + 1, pitch = columns + 1;
    if (first >= columns)
        return;
    correlation[first * pitch + first] = 1.0f;
    for (int second = first + 1; second <= columns; ++second) {
        correlation[first * pitch + second] = 0.0f;
        for (int i = 1; i <= rows; ++i)
            correlation[first * pitch + second] += data[i * pitch + first] * data[i * pitch + second];
        correlation[second * pitch + first] = correlation[first * pitch + second];
    }
}
