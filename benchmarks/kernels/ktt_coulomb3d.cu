// Equivalent of the direct Coulomb sum that the Kernel Tuning Toolkit tunes, with its tuning parameters as macros:
// Z_ITERATIONS (points per thread), INNER_UNROLL_FACTOR (0 leaves unrolling to the compiler), USE_SOA (one array for
// each coordinate). The original's VECTOR_SIZE is 1 in all measured configurations and left out. The measured kernels
// were compiled with -use_fast_math, which changes one operation of theirs: the reciprocal square root.

__device__ float fast_rsqrt(float x)
{
    float root;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}

__global__ void directCoulombSum(const float4 *atoms, const float *atomX, const float *atomY, const float *atomZ,
                                 const float *atomCharge, int count, float spacing, int size, float *energy)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = (blockIdx.z * blockDim.z + threadIdx.z) * Z_ITERATIONS;
    if (x >= size || y >= size || z >= size)
        return;
    const int slice = size * size;
    const int point = slice * z + size * y + x;
    const float pointX = spacing * x, pointY = spacing * y, pointZ = spacing * z;

    float sums[Z_ITERATIONS];
    for (int i = 0; i < Z_ITERATIONS; i++)
        sums[i] = 0.0f;

    for (int atom = 0; atom < count; atom++) {
#if USE_SOA
        const float dx = pointX - atomX[atom], dy = pointY - atomY[atom], charge = atomCharge[atom];
        float dz = pointZ - atomZ[atom];
#else
        const float dx = pointX - atoms[atom].x, dy = pointY - atoms[atom].y, charge = atoms[atom].w;
        float dz = pointZ - atoms[atom].z;
#endif
#if INNER_UNROLL_FACTOR > 0
#pragma unroll INNER_UNROLL_FACTOR
#endif
        for (int i = 0; i < Z_ITERATIONS; i++) {
            sums[i] += charge * fast_rsqrt(dx * dx + dy * dy + dz * dz);
            dz += spacing;
        }
    }

    for (int i = 0; i < Z_ITERATIONS; i++)
        if (z + i < size)
            energy[point + slice * i] += sums[i];
}
