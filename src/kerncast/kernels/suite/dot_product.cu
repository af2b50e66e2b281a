// The dot product of each block's part of two vectors, two elements per thread, by a tree in dynamic shared memory. The
// dot_product of the suite of 16 kernels (docs/suite.md): reduce_sum with twice the loads.
__global__ void dot_product(const float *A, const float *B, float *partial, int n)
{
    extern __shared__ float sums[];
    const int thread = threadIdx.x;
    const int first = 2 * blockIdx.x * blockDim.x + thread, second = first + blockDim.x;

    float sum = first < n ? A[first] * B[first] : 0.0f;
    if (second < n)
        sum += A[second] * B[second];
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
