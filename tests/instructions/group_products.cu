// A product of 64 x 32 sums by four warps; its tiles are filled by ordinary stores, and swizzled by 128 bytes.
#include <cuda_fp16.h>

constexpr int depth = 64;

__device__ void fill(__half* tile, const __half* from, int rows) {
    for (int i = threadIdx.x; i < rows * depth; i += blockDim.x) {
        int row = i / depth, column = i % depth;
        tile[row * depth + ((column / 8) ^ (row % 8)) * 8 + column % 8] = from[i];
    }
}

__device__ unsigned long long described(const void* tile) {
    unsigned long long at = __cvta_generic_to_shared(tile);
    return at >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__global__ void product(const __half* a, const __half* b, float* c) {
    __shared__ alignas(1024) __half left[64 * depth], right[32 * depth];
    fill(left, a, 64);
    fill(right, b, 32);
    __syncthreads();
    float sums[16];
    asm volatile("wgmma.fence.sync.aligned;");
#pragma unroll
    for (int k = 0; k < depth / 16; k++) {
        asm volatile(
            "{.reg .pred goes_on; setp.ne.b32 goes_on, %18, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, goes_on, 1, 1, 0, 0;}"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]),
              "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]),
              "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15])
            : "l"(described(left) + 2 * k), "l"(described(right) + 2 * k), "r"(k));
    }
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < 16; i++) c[(row + i / 2 % 2 * 8) * 32 + i / 4 * 8 + column + i % 2] = sums[i];
}
