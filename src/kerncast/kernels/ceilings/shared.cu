// Read bandwidth of shared memory, without bank conflicts and with the worst: 32 lanes that want the same bank.
//
// The loads are volatile inline PTX; each round begins at an address known only at run time. What is read is folded by
// XOR and written where the fold is a value that the data never give.
// Limited by the 32 banks of 4 bytes: 128 bytes per cycle and SM; with conflicts a load takes 32 passes.

#define UNROLL 16
#define WORDS_HELD 8192

__device__ void fill(unsigned *words) {
    for (int i = threadIdx.x; i < WORDS_HELD; i += blockDim.x) words[i] = (i * 2654435761u) | 1u;
    __syncthreads();
}

// Each lane reads 16 bytes, next to those of its neighbours; `rounds` x UNROLL loads.
extern "C" __global__ void shared_read(unsigned *out, unsigned stride, int rounds) {
    __shared__ __align__(16) unsigned words[WORDS_HELD];
    fill(words);
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(words));
    unsigned at = threadIdx.x % 32 * 16;
    unsigned fold = 0;
    for (int r = 0; r < rounds; ++r) {
        // Within the first 16 KiB; the loads reach 8 KiB further.
        const unsigned from = base + (at & 0x3fffu);
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
            unsigned x, y, z, w;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(from + k * 512));
            fold ^= (x ^ y) ^ (z ^ w);
        }
        at += stride;
    }
    if (fold == 0xffffffffu) out[0] = fold;
}

// Each lane reads 4 bytes, 128 bytes from those of its neighbours; `rounds` x UNROLL loads.
extern "C" __global__ void shared_conflict(unsigned *out, unsigned stride, int rounds) {
    __shared__ __align__(16) unsigned words[WORDS_HELD];
    fill(words);
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(words)) + threadIdx.x % 32 * 128;
    unsigned at = 0;
    unsigned fold = 0;
    for (int r = 0; r < rounds; ++r) {
        const unsigned from = base + (at & 0x3fffu);
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
            unsigned x;
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from + k * 512));
            fold ^= x;
        }
        at += stride;
    }
    if (fold == 0xffffffffu) out[0] = fold;
}
