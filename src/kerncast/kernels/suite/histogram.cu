// How often each of 256 values occurs. The histogram of the suite of 16 kernels (docs/suite.md): a histogram per block
// in shared memory, by atomics, is added to the one in global memory, by atomics again.
constexpr int BINS = 256;

__global__ void histogram(const unsigned *values, unsigned *counts, int n)
{
    __shared__ unsigned block_counts[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        block_counts[bin] = 0;
    __syncthreads();

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&block_counts[values[i] % BINS], 1u);
    __syncthreads();

    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        atomicAdd(&counts[bin], block_counts[bin]);
}
