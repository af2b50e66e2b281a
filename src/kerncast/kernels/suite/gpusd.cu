// Standard deviations of all pairs of vectors, leaving out elements where either vector has a NaN.
// Written for the description in the gpuSD report: block (bx, by) handles the pair (vectsA[bx], vectsB[by]).
// Only NUMTHREADS threads of a block work, whatever its size; the others take part in the barriers.

#ifndef NUMTHREADS
#define NUMTHREADS 16
#endif

__global__ void gpuSD(const float *vectsA, size_t na, const float *vectsB, size_t nb, size_t dim,
                      const float *means, const float *numPairs, float *sds)
{
    __shared__ float meanA, meanB, n, threadSumsA[NUMTHREADS], threadSumsB[NUMTHREADS];
    const size_t tx = threadIdx.x, bx = blockIdx.x, by = blockIdx.y;
    const bool works = tx < NUMTHREADS && threadIdx.y == 0;

    if (bx >= na || by >= nb)
        return;

    const size_t pair = bx * nb + by;
    if (tx == 0 && works) {
        meanA = means[2 * pair];
        meanB = means[2 * pair + 1];
        n = numPairs[pair];
    }
    __syncthreads();

    if (works) {
        float sumA = 0.0f, sumB = 0.0f;
        for (size_t offset = tx; offset < dim; offset += NUMTHREADS) {
            const float a = vectsA[bx * dim + offset], b = vectsB[by * dim + offset];
            if (!(isnan(a) || isnan(b))) {
                const float termA = a - meanA, termB = b - meanB;
                sumA += termA * termA;
                sumB += termB * termB;
            }
        }
        threadSumsA[tx] = sumA;
        threadSumsB[tx] = sumB;
    }
    __syncthreads();

    for (size_t stride = NUMTHREADS / 2; stride > 0; stride /= 2) {
        if (works && tx < stride) {
            threadSumsA[tx] += threadSumsA[tx + stride];
            threadSumsB[tx] += threadSumsB[tx + stride];
        }
        __syncthreads();
    }

    if (tx == 0 && works) {
        sds[2 * pair] = sqrtf(threadSumsA[0] / (n - 1.0f));
        sds[2 * pair + 1] = sqrtf(threadSumsB[0] / (n - 1.0f));
    }
}
