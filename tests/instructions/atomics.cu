// Every atomic function of CUDA C++, for all types and scopes that an architecture has.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define SCOPES(name) \
    template <class T, class... U> __device__ T name##_everywhere(T* p, U... v) { \
        return name(p, v...) + name##_block(p, v...) + name##_system(p, v...); \
    }
#if __CUDA_ARCH__ >= 600
SCOPES(atomicAdd)
SCOPES(atomicSub)
SCOPES(atomicMin)
SCOPES(atomicMax)
SCOPES(atomicInc)
SCOPES(atomicDec)
SCOPES(atomicExch)
SCOPES(atomicAnd)
SCOPES(atomicOr)
SCOPES(atomicXor)
SCOPES(atomicCAS)
#define CALL(name, ...) name##_everywhere(__VA_ARGS__)
#else
#define CALL(name, ...) name(__VA_ARGS__)
#endif

extern "C" __global__ void words(unsigned* u, int* i, unsigned long long* w, long long* s, float* f)
{
    unsigned t = threadIdx.x;
    u[t + 32] = CALL(atomicAdd, u, t) + CALL(atomicSub, u + 1, t) + CALL(atomicMin, u + 2, t) + CALL(atomicMax, u + 3, t)
        + CALL(atomicInc, u + 4, t) + CALL(atomicDec, u + 5, t) + CALL(atomicExch, u + 6, t) + CALL(atomicAnd, u + 7, t)
        + CALL(atomicOr, u + 8, t) + CALL(atomicXor, u + 9, t) + CALL(atomicCAS, u + 10, t, t + 1);
    i[t + 32] = CALL(atomicAdd, i, (int)t) + CALL(atomicSub, i + 1, (int)t) + CALL(atomicMin, i + 2, -(int)t)
        + CALL(atomicMax, i + 3, (int)t) + CALL(atomicExch, i + 4, (int)t) + CALL(atomicAnd, i + 5, (int)t)
        + CALL(atomicOr, i + 6, (int)t) + CALL(atomicXor, i + 7, (int)t) + CALL(atomicCAS, i + 8, 0, (int)t);
    w[t + 32] = CALL(atomicAdd, w, 1ull << t) + CALL(atomicExch, w + 1, 2ull) + CALL(atomicCAS, w + 2, 0ull, 5ull)
        + CALL(atomicMin, w + 3, 3ull) + CALL(atomicMax, w + 4, 9ull) + CALL(atomicAnd, w + 5, 7ull)
        + CALL(atomicOr, w + 6, 1ull) + CALL(atomicXor, w + 7, 1ull);
    s[t + 32] = CALL(atomicMin, s, -(long long)t) + CALL(atomicMax, s + 1, (long long)t);
    f[t + 32] = CALL(atomicAdd, f, 1.5f) + CALL(atomicExch, f + 1, 2.5f);
}

// Results that nobody reads, and shared memory.
extern "C" __global__ void reductions(unsigned* u, unsigned long long* w, long long* s, float* f)
{
    __shared__ unsigned here[8];
    __shared__ unsigned long long wide[4];
    if (threadIdx.x < 8) here[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < 4) wide[threadIdx.x] = threadIdx.x;
    __syncthreads();
    unsigned t = threadIdx.x;
    atomicAdd(here, t), atomicMin(here + 1, t), atomicMax(here + 2, t), atomicInc(here + 3, 20u), atomicDec(here + 4, 20u);
    atomicAnd(here + 5, ~t), atomicOr(here + 6, t), atomicXor(here + 7, t);
    atomicAdd(wide, 3ull), atomicMax(wide + 1, (unsigned long long)t), atomicExch(wide + 2, 4ull);
    atomicCAS(wide + 3, 3ull, 7ull);
    atomicAdd(u, t), atomicMin(u + 1, t), atomicMax(u + 2, t), atomicInc(u + 3, 9u), atomicDec(u + 4, 9u);
    atomicAnd(u + 5, t), atomicOr(u + 6, t), atomicXor(u + 7, t);
    atomicAdd(w, 1ull), atomicMax((long long*)s, 5ll), atomicMin((long long*)s + 1, -5ll), atomicAdd(f, 0.5f);
    __syncthreads();
    if (t < 8) u[8 + t] = here[t];
    if (t < 4) w[8 + t] = wide[t];
}

extern "C" __global__ void generic(unsigned* u, float* f, int which)
{
    __shared__ unsigned here[2];
    if (threadIdx.x < 2) here[threadIdx.x] = 0;
    __syncthreads();
    unsigned* p = which ? here : u;
    atomicAdd(p, 1u);
    u[2 + threadIdx.x] = atomicMax(p + 1, threadIdx.x);
    atomicAdd(f, 1.0f);
    __syncthreads();
    if (threadIdx.x == 0) u[1] = p[0];
}

#if __CUDA_ARCH__ >= 600
extern "C" __global__ void floats(double* d, __half2* h2, double* old)
{
    old[threadIdx.x] = CALL(atomicAdd, d, 1.25);
    atomicAdd(d + 1, 0.5);
    atomicAdd(h2, __floats2half2_rn(1.0f, -1.0f));
    __half2 found = atomicAdd(h2 + 1, __floats2half2_rn(1.0f, 2.0f));
    old[threadIdx.x] += __low2float(found);
}
#endif

#if __CUDA_ARCH__ >= 700
extern "C" __global__ void halves(__half* h, __nv_bfloat16* b, __nv_bfloat162* b2, unsigned short* c, float* old)
{
    __half one = atomicAdd(h, __float2half(0.5f));
    __nv_bfloat16 two = atomicAdd(b, __float2bfloat16(0.25f));
    __nv_bfloat162 three = atomicAdd(b2, __floats2bfloat162_rn(1.0f, 2.0f));
    unsigned short four = atomicCAS(c, (unsigned short)threadIdx.x, (unsigned short)(threadIdx.x + 1));
    old[threadIdx.x] = __half2float(one) + __bfloat162float(two) + __low2float(three) + four;
    atomicAdd(h + 1, __float2half(0.5f)), atomicAdd(b + 1, __float2bfloat16(0.5f));
    atomicAdd(b2 + 1, __floats2bfloat162_rn(1.0f, 2.0f));
}
#endif

#if __CUDA_ARCH__ >= 900
struct alignas(16) Pair { unsigned long long low, high; };

extern "C" __global__ void vectors(float2* f2, float4* f4, float* old)
{
    float2 a = atomicAdd(f2, make_float2(1.0f, 2.0f));
    float4 b = atomicAdd(f4, make_float4(1.0f, 2.0f, 3.0f, 4.0f));
    old[threadIdx.x] = a.x + a.y + b.x + b.y + b.z + b.w;
    atomicAdd(f2 + 1, make_float2(0.5f, 0.25f));
    atomicAdd(f4 + 1, make_float4(1.0f, 2.0f, 3.0f, 4.0f));
    float2 c = atomicAdd_block(f2 + 2, make_float2(1.0f, 2.0f));
    float4 d = atomicAdd_system(f4 + 2, make_float4(1.0f, 2.0f, 3.0f, 4.0f));
    old[threadIdx.x] += c.x + d.w;
}

extern "C" __global__ void wide(Pair* p, Pair* old)
{
    Pair mine{threadIdx.x, ~0ull};
    old[threadIdx.x] = atomicExch(p, mine);
    old[threadIdx.x + 32] = atomicCAS(p + 1, Pair{threadIdx.x, 0}, Pair{threadIdx.x + 1, 0});
    Pair third = atomicCAS_block(p + 2, Pair{0, 0}, mine);
    atomicExch_system(p + 3, third);
}
#endif
