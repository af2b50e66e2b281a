// The sum of each block's elements, two per thread, by a tree in dynamic shared memory. The reduce_sum of the suite of
// 16 kernels (docs/suite.md): in the tree's last five steps one warp works with 16, 8, 4, 2 and 1 threads.
__global__ void reduce_sum(const float *values, float *partial, int n)
{
    extern __shared__ float sums[];
    const int thread = threadIdx.x;
    const int first = 2 * blockIdx.x * blockDim.x + thread, second = first + blockDim.x;

    float sum = first < n ? values[first] : 0.0f;
    if (second < n)
        sum += values[second];
    sums[thread] = sum;
    __syncthreads();

    for (int width = blockDim.x / 2; width > 0; width /= 2) {
        if (thread < width)
            sums[thread] += sums[thread + width];
        __syncthreads();
    }
    if (thread == 0)
        partial[blockIdx.x] = sums[0];
}
