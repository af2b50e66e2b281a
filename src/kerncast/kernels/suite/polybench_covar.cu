// The (unscaled) covariance matrix of the columns of a table, in three kernels. Equivalent of PolyBench-GPU's COVAR.
// Rows and columns count from 1 as in the benchmark, which misaligns rows. In the last kernel a thread's work shrinks
// with its number, and few threads do all of it.
__global__ void polybench_covar_mean(const float *data, float *mean, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x + 1, pitch = columns + 1;
    if (column > columns)
        return;
    mean[column] = 0.0f;
    for (int i = 1; i <= rows; ++i)
        mean[column] += data[i * pitch + column];
    mean[column] /= rows;
}

__global__ void polybench_covar_centre(float *data, const float *mean, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x + 1, row = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (row <= rows && column <= columns)
        data[row * (columns + 1) + column] -= mean[column];
}

__global__ void polybench_covar_products(const float *data, float *covariance, int rows, int columns)
{
    const int first = blockIdx.x * blockDim.x + threadIdx.x + 1, pitch = columns + 1;
    if (first > columns)
        return;
    for (int second = first; second <= columns; ++second) {
        covariance[first * pitch + second] = 0.0f;
        for (int i = 1; i <= rows; ++i)
            covariance[first * pitch + second] += data[i * pitch + first] * data[i * pitch + second];
        covariance[second * pitch + first] = covariance[first * pitch + second];
    }
}
