// Read bandwidth of L2 and of L1: every thread reads again and again from a working set that stays in the cache.
//
// The loads are volatile inline PTX with a fixed cache operator, so the compiler neither moves, merges nor widens them;
// each address differs from the one before by a value known only at run time. What is read is folded by XOR, two
// three-input operations for each 16 bytes, and written where the fold is a value that the data never give.
// Limited by the cache, where the threads of a full SM have enough loads in flight.

// Sets up the working set with bits that look random.
extern "C" __global__ void cache_fill(unsigned *set, unsigned count) {
    const unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        set[i] = (i * 2654435761u) | 1u;
    }
}

#define UNROLL 8

// `count` elements of 16 bytes are one working set for all SMs. Every thread steps through it by `stride`, below
// `count`, and wraps around; `rounds` x UNROLL loads. ld.cg passes by L1.
extern "C" __global__ void l2_read(const uint4 *set, unsigned *out, unsigned count, unsigned stride, int rounds) {
    unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) % count;
    unsigned fold = 0;
    for (int r = 0; r < rounds; ++r) {
        uint4 v[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[k].x), "=r"(v[k].y), "=r"(v[k].z), "=r"(v[k].w) : "l"(set + at));
            at += stride;
            if (at >= count) at -= count;
        }
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) fold ^= (v[k].x ^ v[k].y) ^ (v[k].z ^ v[k].w);
    }
    if (fold == 0xffffffffu) out[0] = fold;
}

// All SMs read the same few KiB, so each holds them in its own L1. Before compute capability 7.0 that is the texture
// cache, which is where ld.nc reads through; there ld.ca passes by L1 on some GPUs.
#if __CUDA_ARCH__ >= 700
#define LD_L1 "ld.global.ca"
#else
#define LD_L1 "ld.global.nc"
#endif

#if WORDS == 1
#define LOAD_L1(v, p) asm volatile(LD_L1 ".u32 %0, [%1];" : "=r"((v)[0]) : "l"(p))
#elif WORDS == 2
#define LOAD_L1(v, p) asm volatile(LD_L1 ".v2.u32 {%0, %1}, [%2];" : "=r"((v)[0]), "=r"((v)[1]) : "l"(p))
#else
#undef WORDS
#define WORDS 4
#define LOAD_L1(v, p) \
    asm volatile(LD_L1 ".v4.u32 {%0, %1, %2, %3}, [%4];" \
                 : "=r"((v)[0]), "=r"((v)[1]), "=r"((v)[2]), "=r"((v)[3]) : "l"(p))
#endif

// `count` words, a power of two, of which a warp reads 32 x WORDS at a time; `rounds` x UNROLL loads.
extern "C" __global__ void l1_read(const unsigned *set, unsigned *out, unsigned count, unsigned stride, int rounds) {
    unsigned at = threadIdx.x * WORDS;
    unsigned fold = 0;
    for (int r = 0; r < rounds; ++r) {
        unsigned v[UNROLL][WORDS];
        // The address is reckoned once for all the loads of a round; they follow one another in the set.
        const unsigned *from = set + (at & (count - 1));
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) LOAD_L1(v[k], from + k * 32 * WORDS);
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
#pragma unroll
            for (int w = 0; w < WORDS; ++w) fold ^= v[k][w];
        }
        at += stride;
    }
    if (fold == 0xffffffffu) out[0] = fold;
}
