// Rates of 32-bit atomic additions in global and shared memory whose results nobody uses.
//
// Where the addresses lie follows from arguments. The compiler can thus not know that a warp's lanes share an address,
// for which it would add up the warp first and send one addition; and `one`, an argument too, keeps it from an
// instruction that only counts. The hardware may still join the lanes of a warp: that is part of what is measured.
// Limited by the atomic units of L2, or of the SM for shared memory. The totals have a closed form, so it can be
// checked that nothing was lost.

#define UNROLL 8

// Lane l of warp w adds to target[l * lane_stride + w * warp_stride]; `rounds` x UNROLL additions per thread.
extern "C" __global__ void atomic_global(unsigned *target, unsigned lane_stride, unsigned warp_stride, unsigned one,
                                         int rounds) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned *at = target + (thread % 32 * lane_stride + thread / 32 * warp_stride);
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) asm volatile("red.global.add.u32 [%0], %1;" :: "l"(at), "r"(one) : "memory");
    }
}

// Thread t of each block adds to its shared word t * stride; the sum over the block's words is written.
extern "C" __global__ void atomic_shared(unsigned *total, unsigned stride, unsigned one, int rounds) {
    __shared__ unsigned words[256];
    words[threadIdx.x] = 0;
    __syncthreads();
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(words + threadIdx.x * stride));
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) asm volatile("red.shared.add.u32 [%0], %1;" :: "r"(at), "r"(one) : "memory");
    }
    __syncthreads();
    total[blockIdx.x * blockDim.x + threadIdx.x] = words[threadIdx.x];
}
