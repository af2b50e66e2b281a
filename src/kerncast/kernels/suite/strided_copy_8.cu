// Copies every eighth element, one per thread. The strided_copy_8 of the suite of 16 kernels (docs/suite.md): each
// element lies in a sector of its own, so that a warp's request takes 32 sectors for 128 bytes.
constexpr int STRIDE = 8;

__global__ void strided_copy_8(const float *source, float *target, int n)
{
    const int i = STRIDE * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        target[i] = source[i];
}
