// Arithmetic rates: every thread runs CHAINS independent chains of one instruction, UNROLL x CHAINS in each round.
//
// The compiler cannot remove or shorten a chain: each value depends on the one before, the constants are arguments, and
// the last values are written. With 8 chains and a full SM, latency is covered many times.
// Limited by the pipe of the instruction. The iterations x * x + c with c = -1.9 are chaotic and stay within (-2, 2):
// all bits of the operands change, as in real work (power), and nothing becomes infinite or denormal. They read one
// register twice, so no register bank conflicts.

#define CHAINS 8
#define UNROLL 32

template <typename Value, typename Step>
__device__ void run_chains(Value (&x)[CHAINS], int rounds, Step step) {
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int k = 0; k < CHAINS; ++k) x[k] = step(x[k]);
        }
    }
}

// A start in [0, 1) that differs between chains and threads.
__device__ float start(int chain) { return static_cast<float>(threadIdx.x * CHAINS + chain) * 0x1p-14f; }

extern "C" __global__ void fma_f32(float *out, float c, int rounds) {
    float x[CHAINS];
    for (int k = 0; k < CHAINS; ++k) x[k] = start(k);
    run_chains(x, rounds, [c](float v) { return __fmaf_rn(v, v, c); });
    out[blockIdx.x * blockDim.x + threadIdx.x] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

extern "C" __global__ void fma_f64(double *out, double c, int rounds) {
    double x[CHAINS];
    for (int k = 0; k < CHAINS; ++k) x[k] = start(k);
    run_chains(x, rounds, [c](double v) { return __fma_rn(v, v, c); });
    out[blockIdx.x * blockDim.x + threadIdx.x] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

#if __CUDA_ARCH__ >= 530
// `c` holds two halves.
extern "C" __global__ void fma_f16x2(unsigned *out, unsigned c, int rounds) {
    unsigned x[CHAINS];
    // 0x3800 and up is a half in [0.5, 1).
    for (int k = 0; k < CHAINS; ++k) x[k] = 0x38003a00u + (threadIdx.x % 32 * CHAINS + k) * 0x10001u;
    run_chains(x, rounds, [c](unsigned v) {
        unsigned next;
        asm("fma.rn.f16x2 %0, %1, %1, %2;" : "=r"(next) : "r"(v), "r"(c));
        return next;
    });
    out[blockIdx.x * blockDim.x + threadIdx.x] = ((x[0] ^ x[1]) ^ (x[2] ^ x[3])) ^ ((x[4] ^ x[5]) ^ (x[6] ^ x[7]));
}
#endif

// Values of a chain add up in turn, since the compiler would merge two additions to one value. From compute capability
// 7.0 to 9.0 it would also send half of them to the multiplier (IMAD.IADD), which takes two addends but not three.
// There an operation has three (IADD3), so that all go to the integer pipe. Inline PTX keeps the compiler from algebra.
__device__ unsigned added(unsigned x, unsigned y, unsigned z) {
#if __CUDA_ARCH__ >= 700 && __CUDA_ARCH__ < 1000
    asm("{ .reg .u32 t; sub.u32 t, %1, %2; add.u32 %0, %0, t; }" : "+r"(x) : "r"(y), "r"(z));
#else
    asm("add.u32 %0, %0, %1;" : "+r"(x) : "r"(y));
#endif
    return x;
}

// A round has 33 x CHAINS operations.
extern "C" __global__ void add_i32(unsigned *out, unsigned seed, int rounds) {
    unsigned x[CHAINS], y[CHAINS], z[CHAINS];
    for (int k = 0; k < CHAINS; ++k) {
        x[k] = seed * (threadIdx.x + k);
        y[k] = seed ^ (threadIdx.x * CHAINS + k);
        z[k] = seed + x[k];
    }
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int u = 0; u < 33 / 3; ++u) {
#pragma unroll
            for (int k = 0; k < CHAINS; ++k) x[k] = added(x[k], y[k], z[k]);
#pragma unroll
            for (int k = 0; k < CHAINS; ++k) y[k] = added(y[k], z[k], x[k]);
#pragma unroll
            for (int k = 0; k < CHAINS; ++k) z[k] = added(z[k], x[k], y[k]);
        }
    }
    unsigned fold = 0;
    for (int k = 0; k < CHAINS; ++k) fold ^= x[k] ^ y[k] ^ z[k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = fold;
}

extern "C" __global__ void mad_i32(unsigned *out, unsigned c, int rounds) {
    unsigned x[CHAINS];
    for (int k = 0; k < CHAINS; ++k) x[k] = threadIdx.x * CHAINS + k;
    run_chains(x, rounds, [c](unsigned v) { return v * v + c; });
    out[blockIdx.x * blockDim.x + threadIdx.x] = ((x[0] ^ x[1]) ^ (x[2] ^ x[3])) ^ ((x[4] ^ x[5]) ^ (x[6] ^ x[7]));
}

// x becomes 2^-x, which goes to 0.641; the sign costs nothing. The ftz form needs no scaling around the instruction.
extern "C" __global__ void ex2_f32(float *out, int rounds) {
    float x[CHAINS];
    for (int k = 0; k < CHAINS; ++k) x[k] = start(k);
    run_chains(x, rounds, [](float v) {
        float next;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(next) : "f"(-v));
        return next;
    });
    out[blockIdx.x * blockDim.x + threadIdx.x] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

// x becomes 1 / sqrt(x), which goes to 1.
extern "C" __global__ void rsqrt_f32(float *out, int rounds) {
    float x[CHAINS];
    for (int k = 0; k < CHAINS; ++k) x[k] = 0.5f + start(k);
    run_chains(x, rounds, [](float v) {
        float next;
        asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(next) : "f"(v));
        return next;
    });
    out[blockIdx.x * blockDim.x + threadIdx.x] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}
