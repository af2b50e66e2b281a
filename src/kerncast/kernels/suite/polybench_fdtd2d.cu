// One time step of a finite-difference time-domain solver in two dimensions: two electric fields, then the magnetic.
// Equivalent of PolyBench-GPU's FDTD-2D. Streaming with two or four neighbours; ex has one column more than the others.
__global__ void polybench_fdtd2d_ey(const float *source, const float *hz, float *ey, int rows, int columns, int step)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const int here = row * columns + column;
    if (row >= rows || column >= columns)
        return;
    if (row == 0)
        ey[here] = source[step];
    else
        ey[here] -= 0.5f * (hz[here] - hz[here - columns]);
}

__global__ void polybench_fdtd2d_ex(const float *hz, float *ex, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const int here = row * columns + column;
    if (row < rows && column > 0 && column < columns)
        ex[row * (columns + 1) + column] -= 0.5f * (hz[here] - hz[here - 1]);
}

__global__ void polybench_fdtd2d_hz(const float *ex, const float *ey, float *hz, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const int here = row * columns + column;
    if (row >= rows || column >= columns)
        return;
    const float *left = ex + row * (columns + 1) + column;
    hz[here] -= 0.7f * (left[1] - left[0] + ey[here + columns] - ey[here]);
}
