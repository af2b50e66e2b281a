// Sparse matrix times vector with compressed rows, one thread or one warp per row. Equivalent of SHOC's Spmv.
// The scalar kernel diverges with the rows' lengths and hardly coalesces; the vector kernel coalesces and shuffles.

// Row r starts at row_slot[r] * slack and has row_length[r] entries: a launch file can fill these two arrays, and they
// cost the same two loads as the usual offsets of a row and its successor.
__global__ void spmv_csr_scalar(const int *row_slot, const int *row_length, const int *column, const float *value,
                                const float *x, float *y, int rows, int slack)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const int begin = row_slot[row] * slack, end = begin + row_length[row];
    float sum = 0.0f;
    for (int entry = begin; entry < end; ++entry)
        sum += value[entry] * x[column[entry]];
    y[row] = sum;
}

__global__ void spmv_csr_vector(const int *row_slot, const int *row_length, const int *column, const float *value,
                                const float *x, float *y, int rows, int slack)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const int begin = row_slot[row] * slack, end = begin + row_length[row];
    float sum = 0.0f;
    for (int entry = begin + lane; entry < end; entry += 32)
        sum += value[entry] * x[column[entry]];
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (lane == 0)
        y[row] = sum;
}
