// C = A + B, to which even elements add a series. The vector_add_divergent of the suite of 16 kernels (docs/suite.md):
// even and odd lanes of every warp take different branches, and the odd ones wait while the even ones loop.
constexpr int TERMS = 128;

__global__ void vector_add_divergent(const float *A, const float *B, float *C, float step, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (i % 2 == 0) {
        float series = 0.0f;
#pragma unroll 16  // more, and no loop would be left
        for (int term = 0; term < TERMS; ++term)
            series += step * term;
        C[i] = A[i] + B[i] + series;
    } else {
        C[i] = A[i] + B[i];
    }
}
