// Sums of pseudo-random numbers: six integer instructions for two fused multiply-adds, as in noise textures and Monte
// Carlo. Warp instructions cannot be issued faster, however many FP32 lanes an SM has.
__global__ void noise(float *sums, unsigned seed, int terms)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = (i + 1) * 2654435761u ^ seed;
    float sum = 0.0f;
    for (int k = 0; k < terms; ++k) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        const float u = __uint_as_float(state >> 9 | 0x3f800000u);  // in [1, 2)
        sum = fmaf(u, u, sum);
        sum = fmaf(sum, 0.5f, u);
    }
    sums[i] = sum;
}
