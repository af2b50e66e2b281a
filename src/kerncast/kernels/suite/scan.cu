// Exclusive prefix sum: every block scans its part with a work-efficient tree in shared memory and keeps the part's
// sum; a second kernel adds the scanned sums of the parts. Equivalent of the scan of SHOC and the CUDA samples.
// Half of the threads drop out with every level of the tree; padding avoids bank conflicts.
#define THREADS 256
#define PADDED(i) ((i) + ((i) >> 5))

__global__ void scan_block(const float *input, float *output, float *sums)
{
    __shared__ float tree[PADDED(2 * THREADS)];
    const int t = threadIdx.x, base = blockIdx.x * 2 * THREADS;
    tree[PADDED(t)] = input[base + t];
    tree[PADDED(t + THREADS)] = input[base + t + THREADS];

    int stride = 1;
    for (int nodes = THREADS; nodes > 0; nodes /= 2, stride *= 2) {
        __syncthreads();
        if (t < nodes)
            tree[PADDED(stride * (2 * t + 2) - 1)] += tree[PADDED(stride * (2 * t + 1) - 1)];
    }
    if (t == 0) {
        sums[blockIdx.x] = tree[PADDED(2 * THREADS - 1)];
        tree[PADDED(2 * THREADS - 1)] = 0.0f;
    }
    for (int nodes = 1; nodes <= THREADS; nodes *= 2) {
        stride /= 2;
        __syncthreads();
        if (t < nodes) {
            const int left = PADDED(stride * (2 * t + 1) - 1), right = PADDED(stride * (2 * t + 2) - 1);
            const float kept = tree[left];
            tree[left] = tree[right];
            tree[right] += kept;
        }
    }
    __syncthreads();
    output[base + t] = tree[PADDED(t)];
    output[base + t + THREADS] = tree[PADDED(t + THREADS)];
}

__global__ void scan_add_sums(float *output, const float *scanned_sums)
{
    const int base = blockIdx.x * 2 * THREADS + threadIdx.x;
    const float before = scanned_sums[blockIdx.x];
    output[base] += before;
    output[base + THREADS] += before;
}
