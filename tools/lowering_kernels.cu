// What each PTX instruction becomes, for those that the programs of the suite seldom or never have: one short kernel per
// kind of arithmetic, conversion, access or exchange. tools/calibrate_lowering.py runs them; nothing else does.
#include <cuda_fp16.h>

#define OPERATION(T, name, expression)                                                                                \
    __global__ void name(const T *a, const T *b, T *c)                                                                \
    {                                                                                                                 \
        const int i = threadIdx.x + blockIdx.x * blockDim.x;                                                          \
        const T x = a[i], y = b[i];                                                                                   \
        c[i] = (T)(expression);                                                                                       \
    }

OPERATION(double, div_f64, x / (y + 1.0))
OPERATION(double, rcp_f64, 1.0 / (x + 1.0))
OPERATION(double, sqrt_f64, sqrt(x))
OPERATION(double, rsqrt_f64, rsqrt(x + 1.0))
OPERATION(double, minmax_f64, fmin(x, y) + fmax(x, 0.5))
OPERATION(double, sel_f64, x < y ? x * 2.0 : y)
OPERATION(double, cvt_f64,
          (double)(int)(x * 100.0) + (double)(float)y + (double)(long long)(y * 10.0) + (double)(unsigned)(x * 5))
OPERATION(float, div_f32, x / (y + 1.0f))
OPERATION(float, fdiv_f32, __fdividef(x, y + 1.0f))
OPERATION(float, rcp_f32, 1.0f / (x + 1.0f))
OPERATION(float, sqrt_f32, sqrtf(x))
OPERATION(float, rsqrt_f32, rsqrtf(x + 1.0f))
OPERATION(float, fast_f32, __expf(x) + __logf(y + 1.0f) + __sinf(x) + __cosf(y))
OPERATION(float, minmax_f32, fminf(x, y) + fmaxf(x, 0.5f))
OPERATION(float, cvt_f32,
          (float)(int)(x * 100.0f) + (float)(unsigned)(y * 10.0f) + (float)(long long)(x * 7.0f) + rintf(x) +
          floorf(y) + truncf(x * 3) + ceilf(y * 5))
OPERATION(float, exp_f32, expf(x) + logf(y + 1.0f) + powf(x + 1.0f, y))
OPERATION(float, copy_f32, copysignf(x, y) + fabsf(x - y) + (isnan(x) ? 1.0f : y))
OPERATION(int, div_s32, x / (y + 1))
OPERATION(int, rem_s32, x % (y + 1))
OPERATION(unsigned, div_u32, x / (y + 1))
OPERATION(unsigned, rem_u32, x % (y + 1))
OPERATION(long long, div_s64, x / (y + 1))
OPERATION(long long, rem_s64, x % (y + 1))
OPERATION(unsigned long long, div_u64, x / (y + 1))
OPERATION(unsigned long long, rem_u64, x % (y + 1))
OPERATION(long long, arith_s64, (x * y + x) ^ ((x << 3) - (y >> 5)))
OPERATION(long long, cmp_s64, (x < y ? x : y) + (x == 5 ? 1 : 2) + max(x, 7ll))
OPERATION(unsigned long long, hi_u64, __umul64hi(x, y) + (x & y | ~x))
OPERATION(int, bits_s32, __popc(x) + __clz(y) + __ffs(x) + __brev(y))
OPERATION(unsigned, prmt_u32, __byte_perm(x, y, 0x3412) + __funnelshift_l(x, y, x & 31) + __usad(x, y, 3u))
OPERATION(int, hi_s32, __mulhi(x, y) + min(x, y) + max(x, 3) + abs(y) + __mul24(x, y))
OPERATION(unsigned, hi_u32,
          __umulhi(x, y) + min(x, y) + max(x, 3u) + (x >> (y & 31)) + (x << (y & 31)) + ((x >> 7) & 31))
#if __CUDA_ARCH__ >= 610
OPERATION(int, dp4a, __dp4a(x, y, 3))
#endif
OPERATION(int, sel_s32, x > y ? x : 3)
OPERATION(unsigned char, u8, x + y)
OPERATION(short, s16, x * y + 3)
OPERATION(unsigned short, u16, (x >> 3) + (x < y ? x : y))

#if __CUDA_ARCH__ >= 530
__global__ void half_scalar(const __half *a, const __half *b, __half *c)
{
    const int i = threadIdx.x;
    const __half x = a[i], y = b[i];
    c[i] = __hadd(__hmul(x, y), __hfma(x, y, x));
    if (__hlt(x, y))
        c[i + 32] = __float2half(__half2float(x) * 2.0f);
}

__global__ void half_packed(const __half2 *a, const __half2 *b, __half2 *c)
{
    const int i = threadIdx.x;
    const __half2 x = a[i], y = b[i];
    c[i] = __hadd2(__hmul2(x, y), __hfma2(x, y, x));
}

// Products and sums that nothing takes in.
__global__ void half_alone(const __half *a, const __half *b, __half *c)
{
    const int i = threadIdx.x;
    const __half x = a[i], y = b[i];
    c[i] = __hmul(x, y);
    c[i + 32] = __hadd(x, y);
    c[i + 64] = __hsub(x, y);
    c[i + 96] = __hneg(y);
}

__global__ void half_packed_alone(const __half2 *a, const __half2 *b, __half2 *c)
{
    const int i = threadIdx.x;
    const __half2 x = a[i], y = b[i];
    c[i] = __hmul2(x, y);
    c[i + 32] = __hadd2(x, y);
    c[i + 64] = __hsub2(x, y);
    c[i + 96] = __hneg2(y);
}
#endif

__global__ void exchange(const int *a, int *c)
{
    const int i = threadIdx.x;
    int x = a[i];
    x += __shfl_down_sync(~0u, x, 16);
    x += __shfl_xor_sync(~0u, x, 8);
    x += __shfl_sync(~0u, x, x & 7);
    x += __shfl_up_sync(~0u, x, 4);
    c[i] = x + __ballot_sync(~0u, x & 1) + __any_sync(~0u, x > 4) + __all_sync(~0u, x > 2) + __activemask();
    __syncwarp();
    c[i + 64] = x;
}

__global__ void atomics(int *a, int *c, float *f, unsigned long long *u)
{
    __shared__ int held[64];
    const int i = threadIdx.x;
    held[i] = i;
    __syncthreads();
    atomicAdd(a + (i & 7), 1);
    atomicAdd(f + (i & 7), 1.0f);
    atomicMax(a + 8 + (i & 7), i);
    atomicAdd(u + (i & 7), 2ull);
    atomicAdd(&held[i & 7], 3);
    atomicMin(&held[i & 3], 1);
    int old = atomicCAS(a + 20, 3, i);
    old += atomicExch(a + 24 + (i & 7), i);
    old += atomicAdd(a + 32 + (i & 7), 5);
    __threadfence();
    __syncthreads();
    c[i] = held[i] + old;
}

__global__ void widths(const float4 *a, float4 *c, const float2 *b, float2 *d, const unsigned char *e, short *f)
{
    __shared__ float4 held[64];
    const int i = threadIdx.x;
    held[i] = a[i];
    __syncthreads();
    float4 v = held[(i * 7) & 31];
    v.x += 1;
    c[i] = v;
    float2 w = b[i];
    w.y *= 2;
    d[i] = w;
    f[i] = e[i] + 1;
}

__constant__ float table[256];

__global__ void constants(const int *a, float *c)
{
    c[threadIdx.x] = table[a[threadIdx.x] & 255] + table[7];
}

__global__ void local_array(const int *a, float *c)
{
    float v[16];
    const int i = threadIdx.x;
    for (int j = 0; j < 16; j++)
        v[j] = a[(i + j) & 31];
    float sum = 0;
    for (int j = 0; j < 8; j++)
        sum += v[a[(i + j) & 31] & 15];
    c[i] = sum;
}

__global__ void cases(const int *a, int *c)
{
    const int i = threadIdx.x;
    int x = a[i];
    switch (x & 7) {
    case 0: x *= 3; break;
    case 1: x += c[i + 32]; break;
    case 2: x ^= 77; break;
    case 3: x = x * x; break;
    case 4: x = c[i + 64] - 1; break;
    case 5: x = 9; break;
    case 6: x >>= 2; break;
    default: x <<= 1;
    }
    c[i] = x;
}

__global__ void float_functions(const float *a, float *c)
{
    const int i = threadIdx.x;
    c[i] = sinf(a[i]) + cosf(a[i]) + tanhf(a[i]);
}

__global__ void double_functions(const double *a, double *c)
{
    const int i = threadIdx.x;
    c[i] = exp(a[i]) + log(a[i] + 1.0) + sin(a[i]);
}

// What -use_fast_math makes of functions: denormal numbers are zero.
#define APPROXIMATE(name, instruction)                                                                                \
    __global__ void name(const float *a, float *c)                                                                    \
    {                                                                                                                 \
        float result;                                                                                                 \
        asm(instruction " %0, %1;" : "=f"(result) : "f"(a[threadIdx.x]));                                             \
        c[threadIdx.x] = result;                                                                                      \
    }

APPROXIMATE(approx_rsqrt, "rsqrt.approx.ftz.f32")
APPROXIMATE(approx_sqrt, "sqrt.approx.ftz.f32")
APPROXIMATE(approx_rcp, "rcp.approx.ftz.f32")
APPROXIMATE(approx_ex2, "ex2.approx.ftz.f32")
APPROXIMATE(approx_lg2, "lg2.approx.ftz.f32")
APPROXIMATE(approx_sin, "sin.approx.ftz.f32")
APPROXIMATE(approx_cos, "cos.approx.ftz.f32")

__global__ void approx_div(const float *a, const float *b, float *c)
{
    float result;
    asm("div.full.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(a[threadIdx.x]), "f"(b[threadIdx.x]));
    c[threadIdx.x] = result;
}
