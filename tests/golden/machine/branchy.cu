// Half of each warp takes the branch; the reduction halves its threads; one division by a number of the user's.
extern "C" __global__ void branchy(const float *x, float *y, int n, float scale)
{
    __shared__ float held[64];
    int i = threadIdx.x, at = blockIdx.x * blockDim.x + i;
    float v = x[at];
    if (i & 1)
        for (int k = 0; k < n; ++k)
            v = v * x[k] + __sinf(v);
    held[i] = v;
    for (int half = 32; half > 0; half >>= 1) {
        __syncthreads();
        if (i < half)
            held[i] += held[i + half];
    }
    __syncthreads();
    y[at] = held[0] / scale;
}
