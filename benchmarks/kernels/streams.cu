// One element a thread, read or scaled, in blocks that the size of shared memory keeps to two on each SM.
// Equivalents of the streams that gpu-benches times at each occupancy.
extern __shared__ double unused[];

extern "C" __global__ void stream_read(double *out, const double *__restrict__ in, int n, int never)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (never)
        unused[threadIdx.x] = in[threadIdx.x];
    const double found = in[i];
    if (never || found == 123.0)
        out[i] = found + unused[i];
}

extern "C" __global__ void stream_scale(double *out, const double *__restrict__ in, int n, int never)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (never)
        unused[threadIdx.x] = in[threadIdx.x];
    out[i] = in[i] * 1.2;
    if (never)
        out[i] = unused[i];
}
