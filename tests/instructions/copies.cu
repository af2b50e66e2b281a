#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
#define T 16
extern "C" __global__ void gemm(const float *a, const float *b, float *c, int n, int k) {
    __shared__ alignas(16) float as[2][T][T], bs[2][T][T];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, column = blockIdx.x * T + x;
    float sum = 0;
    auto fetch = [&](int step) {
        const int at = step * T;
        __pipeline_memcpy_async(&as[step & 1][y][x], &a[row * k + at + x], 4, at + x < k ? 0 : 4);
        __pipeline_memcpy_async(&bs[step & 1][y][x], &b[(at + y) * n + column], 4, at + y < k ? 0 : 4);
        __pipeline_commit();
    };
    const int steps = (k + T - 1) / T;
    fetch(0);
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) fetch(step + 1); else __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; i < T; ++i) sum += as[step & 1][y][i] * bs[step & 1][i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
extern "C" __global__ void pipe(const float4 *x, float4 *y, int n) {
    extern __shared__ float4 tile[];
    auto p = cuda::make_pipeline();
    const int t = threadIdx.x, d = blockDim.x;
    p.producer_acquire(); cuda::memcpy_async(&tile[t], &x[t], sizeof(float4), p); p.producer_commit();
    for (int i = 0; i < n; ++i) {
        if (i + 1 < n) { p.producer_acquire(); cuda::memcpy_async(&tile[(i + 1 & 1) * d + t], &x[(i + 1) * d + t], cuda::aligned_size_t<16>(16), p); p.producer_commit(); }
        else { p.producer_acquire(); p.producer_commit(); }
        cuda::pipeline_consumer_wait_prior<1>(p);
        float4 v = tile[(i & 1) * d + t];
        v.x *= 2;
        y[i * d + t] = v;
        p.consumer_release();
    }
}

extern "C" __global__ void staged(const int *x, int *y, int n) {
    __shared__ int tile[64];
    auto block = cooperative_groups::this_thread_block();
    cooperative_groups::memcpy_async(block, tile, x + blockIdx.x * blockDim.x, sizeof(int) * blockDim.x);
    cooperative_groups::wait(block);
    y[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void careless(const int *x, int *y, int n) {
    __shared__ int tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    if (n) __pipeline_wait_prior(0); else __pipeline_wait_prior(1);
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
