// Latencies in cycles: each step needs the result of the one before, and one thread (or warp, or block) runs alone.
//
// Cycles per step are read from the SM's clock around the steps and written to `cycles`, so launch overhead is no part
// of them. The compiler can neither remove nor reorder the steps: they depend on one another, the last result is
// written, and both readings of the clock are volatile with a memory clobber. Limited by latency and nothing else: one
// access is under way at a time.

#define UNROLL 32

__device__ long long now() {
    long long ticks;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(ticks) :: "memory");
    return ticks;
}

// --- pointer chase -----------------------------------------------------------------------------------------------

// A bijection of the numbers below 2^bits whose order looks random.
__device__ unsigned shuffle(unsigned value, int bits) {
    const unsigned mask = (1u << bits) - 1;
    const int half = (bits + 1) / 2;
    value = (value * 0x9e3779b1u) & mask;
    value ^= value >> half;
    value = (value * 0x85ebca6bu) & mask;
    value ^= value >> half;
    return value;
}

// Place of the chain's link: within windows of 2^window lines any order, and the windows one after the other.
__device__ unsigned place(unsigned link, int window) {
    return (link >> window << window) + shuffle(link & ((1u << window) - 1), window);
}

// Sets up a chain through all `lines` lines of 128 bytes: each holds the address of the next, and the last that of the
// first. `lines` is a power of two, at least 2^window. `cursor` says where the next chase begins.
extern "C" __global__ void chase_chain(unsigned long long *chain, unsigned long long *cursor, unsigned lines,
                                       int window) {
    const unsigned stride = gridDim.x * blockDim.x;
    const unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned i = first; i < lines; i += stride) {
        const unsigned next = place((i + 1) & (lines - 1), window);
        chain[place(i, window) * 16] = reinterpret_cast<unsigned long long>(chain + next * 16);
    }
    if (first == 0) cursor[0] = reinterpret_cast<unsigned long long>(chain + place(0, window) * 16);
}

#if __CUDA_ARCH__ >= 700
#define LD_L1 "ld.global.ca"
#else
#define LD_L1 "ld.global.nc"
#endif

#define CHASE(load) \
    unsigned long long at = cursor[0]; \
    for (int s = 0; s < warm_steps; ++s) asm volatile(load ".u64 %0, [%0];" : "+l"(at) :: "memory"); \
    const long long began = now(); \
    _Pragma("unroll 1") \
    for (int s = 0; s < steps; s += UNROLL) { \
        _Pragma("unroll") \
        for (int k = 0; k < UNROLL; ++k) asm volatile(load ".u64 %0, [%0];" : "+l"(at) :: "memory"); \
    } \
    /* The clock must not be read before the last load is back. */ \
    if (at == 0) cycles[0] = -1.0f; \
    const long long ended = now(); \
    cursor[0] = at; \
    cycles[0] = static_cast<float>(ended - began) / static_cast<float>(steps);

// L2 and DRAM: ld.cg passes by L1. The next launch goes on where this one ended, so that what it reads in DRAM is not
// in L2 already. `steps` is a multiple of UNROLL.
extern "C" __global__ void chase(const unsigned long long *chain, unsigned long long *cursor, float *cycles,
                                 int warm_steps, int steps) {
    CHASE("ld.global.cg")
}

// L1, or before compute capability 7.0 the texture cache. It is cold when a kernel begins: warm_steps are all lines.
extern "C" __global__ void chase_l1(const unsigned long long *chain, unsigned long long *cursor, float *cycles,
                                    int warm_steps, int steps) {
    CHASE(LD_L1)
}

extern "C" __global__ void chase_shared(float *cycles, unsigned *out, int steps) {
    __shared__ unsigned chain[1024];
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(chain));
    for (unsigned i = 0; i < 1024; ++i) chain[shuffle(i, 10)] = base + 4 * shuffle((i + 1) % 1024, 10);
    unsigned at = base;
    const long long began = now();
#pragma unroll 1
    for (int s = 0; s < steps; s += UNROLL) {
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at) :: "memory");
    }
    if (at == 0) cycles[0] = -1.0f;
    const long long ended = now();
    out[0] = (at - base) / 4;
    cycles[0] = static_cast<float>(ended - began) / static_cast<float>(steps);
}

// --- dependent arithmetic, one warp ------------------------------------------------------------------------------

#define LONG_UNROLL 256  // The loop around it costs some cycles, and a step only 4 to 6.

#define DEPENDENT(step) \
    const long long began = now(); \
    _Pragma("unroll 1") \
    for (int s = 0; s < steps; s += LONG_UNROLL) { \
        _Pragma("unroll") \
        for (int k = 0; k < LONG_UNROLL; ++k) step; \
    } \
    /* The clock must not be read before the last result is there. */ \
    if (x == stop) cycles[0] = -1.0f; \
    const long long ended = now(); \
    out[threadIdx.x] = x; \
    cycles[0] = static_cast<float>(ended - began) / static_cast<float>(steps);

extern "C" __global__ void latency_fma(float *cycles, float *out, float c, float stop, int steps) {
    float x = threadIdx.x * 0x1p-6f;
    DEPENDENT(asm volatile("fma.rn.f32 %0, %0, %0, %1;" : "+f"(x) : "f"(c)))
}

// As in rates.cu: with three addends from compute capability 7.0 to 9.0, so that the integer pipe adds and no other.
__device__ unsigned added(unsigned x, unsigned y, unsigned z) {
#if __CUDA_ARCH__ >= 700 && __CUDA_ARCH__ < 1000
    asm volatile("{ .reg .u32 t; sub.u32 t, %1, %2; add.u32 %0, %0, t; }" : "+r"(x) : "r"(y), "r"(z));
#else
    asm volatile("add.u32 %0, %0, %1;" : "+r"(x) : "r"(y));
#endif
    return x;
}

extern "C" __global__ void latency_iadd(float *cycles, unsigned *out, unsigned seed, unsigned stop, int steps) {
    unsigned x = threadIdx.x, y = seed, z = seed + x;
    DEPENDENT(if (k % 3 == 0) x = added(x, z, y); else if (k % 3 == 1) y = added(y, x, z); else z = added(z, y, x))
}

extern "C" __global__ void latency_mufu(float *cycles, float *out, float stop, int steps) {
    float x = 0.5f + threadIdx.x * 0x1p-6f;
    DEPENDENT(asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x)))
}

// --- barrier and atomics ------------------------------------------------------------------------------------------

// __syncthreads of one block, all of whose warps arrive at once.
extern "C" __global__ void latency_barrier(float *cycles, int steps) {
    __syncthreads();
    const long long began = now();
#pragma unroll 1
    for (int s = 0; s < steps; s += UNROLL) {
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) __syncthreads();
    }
    const long long ended = now();
    if (threadIdx.x == 0) cycles[0] = static_cast<float>(ended - began) / static_cast<float>(steps);
}

// One thread adds what the atomic before returned; the sums wrap around. To an address that is the same for all lanes
// the compiler would add up the warp first, though one lane runs: so it is made to look different.
extern "C" __global__ void latency_atomic(unsigned *target, float *cycles, unsigned one, int steps) {
    unsigned x = one;
    unsigned *at = target + threadIdx.x;
    const long long began = now();
#pragma unroll 1
    for (int s = 0; s < steps; s += UNROLL) {
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
            asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(x) : "l"(at), "r"(x) : "memory");
        }
    }
    if (x == 0xffffffffu) cycles[0] = -1.0f;
    const long long ended = now();
    at[1] = x;
    cycles[0] = static_cast<float>(ended - began) / static_cast<float>(steps);
}
