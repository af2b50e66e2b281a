// Gathers elements through an array of indices. The random_access of the suite of 16 kernels (docs/suite.md): the
// indices are read and the results written coalesced, every gathered element comes from a sector of its own.
__global__ void random_access(const float *source, const int *indices, float *target, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        target[i] = source[indices[i]];
}
