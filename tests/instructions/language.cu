// What the language itself brings: memory spaces, cache hints, local arrays, assertions, clocks, barriers, votes.

#include <assert.h>
#include <stdio.h>
#include <cuda_fp16.h>

struct __attribute__((packed)) Packed { char c; int i; double d; short s; };
union Both { float f; unsigned u; unsigned char b[4]; };
struct alignas(32) Eight { float v[8]; };

__constant__ int table[64] = {1, 2, 3};
__device__ int counter;
__device__ float2 pairs[32];

extern "C" __global__ void cache_hints(const float4* x, float4* y, const char* c, char* d, const double2* w, double2* z)
{
    int i = threadIdx.x;
    float4 a = __ldg(x + i), b = __ldcg(x + i), e = __ldca(x + i), f = __ldcs(x + i), g = __ldlu(x + i), h = __ldcv(x + i);
    float4 sum = make_float4(a.x + b.x, e.y + f.y, g.z, h.w);
    __stwb(y + i, sum), __stcg(y + i + 32, sum), __stcs(y + i + 64, sum), __stwt(y + i + 96, sum);
    d[i] = __ldg(c + i) + __ldcs(c + i + 32);
    __stcg(d + i + 32, c[i]);
    z[i] = __ldg(w + i);
}

extern "C" __global__ void wide_access(const Eight* x, Eight* y, const longlong4* p, longlong4* q)
{
    Eight e = x[threadIdx.x];
    for (float& v : e.v) v += 1;
    y[threadIdx.x] = e;
    q[threadIdx.x] = p[threadIdx.x];
}

extern "C" __global__ void local_memory(const int* x, int* y, int n)
{
    int a[40];
    volatile int once[4];
    for (int i = 0; i < n; i++) a[(i * 7) % 40] = x[(i + threadIdx.x) % 64];
    once[threadIdx.x & 3] = a[x[threadIdx.x] & 31];
    int more[16];
    for (int i = 0; i < 16; i++) more[i] = once[i & 3] + i;
    y[threadIdx.x] = more[x[threadIdx.x] & 15] + table[x[threadIdx.x] & 63];
}

extern "C" __global__ void layouts(const Packed* p, Packed* q, const Both* a, Both* b, volatile int* v)
{
    int i = threadIdx.x;
    Packed one = p[i];
    one.d += one.i, one.s ^= one.c;
    q[i] = one;
    Both both = a[i];
    both.b[i & 3] ^= 0x80;
    b[i].f = both.f + 1.0f;
    v[i] = v[i + 32] + 1;
    pairs[i] = make_float2(both.f, (float)counter);
    __builtin_assume(i < 64);
    b[i + 32].u = __float_as_uint(pairs[i].x);
}

extern "C" __global__ void speaks(const int* x, int* y, const char* text)
{
    int i = threadIdx.x;
    y[i] = printf("thread %d of %u: %5.2f %s %c %llx %%\n", i, blockDim.x, x[i] * 0.5, "text", 'c', (long long)x[i] << 20);
    if (i == 0) printf("no arguments\n");
    assert(x[i] >= 0);
    if (x[i] == 1 << 30) __trap();
    if (x[i] == 1 << 29) __brkpt();
}

extern "C" __global__ void fences_and_clocks(int* x, long long* t)
{
    int i = threadIdx.x;
    x[i] = 1;
    __threadfence_block(), __threadfence(), __threadfence_system();
    t[i] = clock() + clock64();
#if __CUDA_ARCH__ >= 700
    __nanosleep(20);
#endif
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    t[i] += now;
    __prof_trigger(1);
    x[i + 32] = __isGlobal(x) + __isShared(x) + __isLocal(x) + __isConstant(x);
    x[i + 64] = (int)__cvta_generic_to_global(x);
}

extern "C" __global__ void barriers(int* x)
{
    int i = threadIdx.x;
    __syncthreads();
    x[i] = __syncthreads_count(i & 1) + __syncthreads_and(i < 64) + __syncthreads_or(i == 70);
    __syncwarp();
    __syncwarp(0xffffffffu);
    asm volatile("barrier.sync 1, 32;" ::: "memory");
    asm volatile("bar.sync 2;" ::: "memory");
    asm volatile("barrier.cta.sync.aligned 3;" ::: "memory");
}

extern "C" __global__ void warp_wide(const unsigned* x, unsigned* y, double* d, __half2* h)
{
    int i = threadIdx.x;
    unsigned all = 0xffffffffu, v = x[i];
    y[i] = __shfl_sync(all, v, 3) + __shfl_up_sync(all, v, 2, 16) + __shfl_down_sync(all, v, 1) + __shfl_xor_sync(all, v, 8);
    d[i] = __shfl_sync(all, d[i], i ^ 1) + (double)__shfl_xor_sync(all, (long long)v, 4);
    h[i] = __shfl_down_sync(all, h[i], 1);
    y[i + 32] = __ballot_sync(all, v & 1) + __all_sync(all, v > 2) + __any_sync(all, v > 9) + __activemask() + __popc(__fns(v, 3, 2));
#if __CUDA_ARCH__ >= 700
    int same;
    y[i + 64] = __match_any_sync(all, v & 3) + __match_all_sync(all, (unsigned long long)v, &same) + same;
    __nanosleep(1);
#endif
#if __CUDA_ARCH__ >= 800
    y[i + 96] = __reduce_add_sync(all, v) + __reduce_min_sync(all, v) + __reduce_max_sync(all, (int)v) + __reduce_and_sync(all, v)
        + __reduce_or_sync(all, v) + __reduce_xor_sync(all, v) + __reduce_min_sync(all, (int)v) + __reduce_add_sync(all, (int)v);
#endif
    unsigned lanes;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lanes));
    y[i] += lanes;
}

extern "C" __global__ void choices(const int* x, int* y)
{
    int i = threadIdx.x, v = x[i], r = 0;
    switch (v) {
    case 0: r = 5; break;
    case 1: r = v * 3; break;
    case 2: r = y[i] + 1; break;
    case 3: r = y[i] * y[i]; break;
    case 4: r = -y[i]; break;
    case 5: r = y[i] >> 3; break;
    case 6: r = y[i] ^ 77; break;
    case 7: r = y[i] % 11; break;
    default: r = y[(i + 1) % 32];
    }
    y[i] = r;
}

extern "C" __global__ void three_way(const float* x, const int* k, float2* y, int* z)
{
    int i = threadIdx.x;
    float a = x[i], b = x[i + 1], c = x[i + 2];
    z[i] = max(max(k[i], k[i + 1]), k[i + 2]) + min(min(k[i], k[i + 1]), k[i + 2]);
    y[i] = make_float2(fmaxf(fmaxf(a, b), c) + fminf(fminf(a, b), c), fmaf(a, b, c));
#if __CUDA_ARCH__ >= 1000
    y[i] = __ffma2_rn(y[i], make_float2(a, b), make_float2(c, a));
    y[i] = __fadd2_rz(y[i], __fmul2_ru(y[i], make_float2(b, b)));
#endif
}

__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int thrice(int x) { return 3 * x; }
typedef int (*Function)(int);
__device__ Function functions[2] = {twice, thrice};

extern "C" __global__ void pointers(const int* x, int* y) { y[threadIdx.x] = functions[x[threadIdx.x] & 1](threadIdx.x); }
