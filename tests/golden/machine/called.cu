// A function that is called, not inlined, from two places, with loops of different lengths.
__device__ __noinline__ float polynomial(float x, int n)
{
    for (int i = 0; i < n; i++)
        x = x * x + 1.0f;
    return x;
}

extern "C" __global__ void called(float *y, int n)
{
    const int i = threadIdx.x;
    y[i] = polynomial(y[i], n) + polynomial(y[i + 32], n + i);
}
