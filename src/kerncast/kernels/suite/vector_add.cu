// C = A + B, one element per thread. The vector_add of the suite of 16 kernels (docs/suite.md): coalesced and bound by
// memory.
__global__ void vector_add(const float *A, const float *B, float *C, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        C[i] = A[i] + B[i];
}
