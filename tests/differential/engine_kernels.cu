// Kernels of the differential suite: each stands for one thing that CUDA programs do.
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

KERNEL saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

#define TILE 8
KERNEL matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

__constant__ float weights[9] = {0.0625f, 0.125f, 0.0625f, 0.125f, 0.25f, 0.125f, 0.0625f, 0.125f, -0.0625f};
KERNEL conv3x3(const float *in, float *out, int w, int h) {
    __shared__ float tile[10][18];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    for (int dy = threadIdx.y; dy < 10; dy += 8)
        for (int dx = threadIdx.x; dx < 18; dx += 16) {
            int sx = (int)blockIdx.x * 16 + dx - 1, sy = (int)blockIdx.y * 8 + dy - 1;
            tile[dy][dx] = sx >= 0 && sy >= 0 && sx < w && sy < h ? in[sy * w + sx] : 0.0f;
        }
    __syncthreads();
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) sum += weights[i * 3 + j] * tile[threadIdx.y + i][threadIdx.x + j];
    out[y * w + x] = sum;
}

KERNEL reduce(const float *x, float *sums, int n) {
    extern __shared__ float part[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

KERNEL histogram(const unsigned char *data, unsigned *bins, int n) {
    __shared__ unsigned local[16];
    if (threadIdx.x < 16) local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i] & 15], 1u);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

KERNEL transpose(const float *in, float *out, int w, int h) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    for (int j = 0; j < 16; j += 4)
        if (x < w && y + j < h) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    for (int j = 0; j < 16; j += 4)
        if (x < h && y + j < w) out[(y + j) * h + x] = tile[threadIdx.x][threadIdx.y + j];
}

KERNEL divergent(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = in[i], sum = 0;
    for (int k = 0; k < v % 7; k++) {
        if ((v + k) % 3 == 0) continue;
        if (k > 4) break;
        for (int m = 0; m < (v & 3); m++) sum += m * k + (v ^ m);
        if (sum > 5000) {
            out[i] = -sum;
            return;
        }
    }
    if (v & 1) {
        if (v & 2) sum *= 3;
        else sum -= v;
    } else if (v % 5 == 0) {
        do sum += v--;
        while (v % 4);
    }
    switch (v % 6) {
        case 0: sum += 11; break;
        case 1: sum ^= 0x55; break;
        case 2: sum = sum * 7 + 1;  // falls through
        case 3: sum -= 13; break;
        case 4: sum = ~sum; break;
        default: sum <<= 1;
    }
    out[i] = sum;
}

KERNEL many_cases(const unsigned *in, unsigned *out) {
    unsigned v = in[threadIdx.x], r = v;
    switch (v & 15) {
        case 0: r += out[threadIdx.x]; break;
        case 1: r *= 3; break;
        case 2: r = __popc(r); break;
        case 3: r = __brev(r); break;
        case 4: r = __clz(r); break;
        case 5: r = r / (threadIdx.x + 1); break;
        case 6: r = r % (threadIdx.x + 3); break;
        case 7: r = __funnelshift_l(r, v * 7, v); break;
        case 8: r = __byte_perm(r, v * 5, 0x2143); break;
        case 9: r = __umulhi(r, v * 0x9E3779B9u); break;
        case 10: r = __usad(r, 77, 5); break;
        case 11: r = min(r, 12345u); break;
        case 12: r = (unsigned)__ffs(r); break;
        case 13: r = (unsigned)(signed char)r; break;
        default: r = (unsigned)(short)r;
    }
    out[threadIdx.x] = r;
}

KERNEL shuffle_reduce(const float *x, float *sums) {
    float v = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int s = 16; s > 0; s >>= 1) v += __shfl_down_sync(0xffffffffu, v, s);
    float all = __shfl_sync(0xffffffffu, v, 0);
    float up = __shfl_up_sync(0xffffffffu, all + threadIdx.x, 3, 8);
    float other = __shfl_xor_sync(0xffffffffu, up, 5);
    sums[blockIdx.x * blockDim.x + threadIdx.x] = other;
}

KERNEL shuffle_widths(const int *x, int *y) {
    int v = x[threadIdx.x], lane = threadIdx.x & 31;
    y[threadIdx.x] = __shfl_down_sync(0xffffffffu, v, 3, 8);
    y[threadIdx.x + 64] = __shfl_xor_sync(0xffffffffu, v, 12, 8);
    y[threadIdx.x + 128] = __shfl_sync(0xffffffffu, v, lane * 3, 4);
    y[threadIdx.x + 192] = __shfl_up_sync(0xffffffffu, v, 5, 16);
    y[threadIdx.x + 256] = __shfl_down_sync(0xffffffffu, v, lane & 7, 16);
}

KERNEL votes(const int *in, unsigned *out) {
    int v = in[threadIdx.x];
    unsigned ballot = __ballot_sync(0xffffffffu, v > 10);
    unsigned r = __popc(ballot & ((1u << (threadIdx.x & 31)) - 1));
    r += 100 * __any_sync(0xffffffffu, v == 3) + 200 * __all_sync(0xffffffffu, v >= 0);
    if (threadIdx.x & 1) r += 1000 * __popc(__ballot_sync(0xaaaaaaaau, v & 4));
    __syncwarp();
    r += 10000 * __syncthreads_count(v & 1) + 1000000 * __syncthreads_or(v == 7) + 2000000 * __syncthreads_and(v < 99);
    r ^= __match_any_sync(0xffffffffu, v & 3);
    out[threadIdx.x] = r;
}

struct Pair { short count; double scale; int table[5]; };
KERNEL struct_argument(Pair p, int n, double *out) {
    int i = threadIdx.x;
    if (i < n) out[i] = p.scale * p.table[i % 5] + p.count;
}

KERNEL doubles(const double *x, double *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double v = x[i];
    y[i] = pow(v, 2.5) + exp(-v) / (1.0 + sqrt(v)) - fma(v, v, 1e-3);
}

KERNEL special_functions(const float *x, float *y) {
    int i = threadIdx.x;
    float v = x[i];
    y[i] = sinf(v) * expf(-v) + logf(v + 1.0f) + rsqrtf(v + 0.5f) + tanhf(v) + powf(v, 1.5f) + fmodf(v * 7, 1.25f);
}

KERNEL integer_division(const int *a, const int *b, long long *out) {
    int i = threadIdx.x;
    long long wide = (long long)a[i] * 1000003, divisor = b[i];
    out[i] = a[i] / b[i] + a[i] % b[i] * 3 + wide / divisor + wide % divisor + (unsigned)a[i] / 7u
             + (unsigned long long)wide % (unsigned)b[i];
}

KERNEL vector_loads(const float4 *x, float2 *y, uchar4 *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = x[i];
    y[i] = make_float2(v.x + v.z, v.y * v.w);
    z[i] = make_uchar4(v.x * 50, v.y * 60, v.z * 70, 255);
}

KERNEL local_array(const int *in, int *out) {
    int stack[16];
    for (int k = 0; k < 16; k++) stack[k] = in[(threadIdx.x + k) & 63] + k;
    for (int k = 0; k < 8; k++) {
        int a = (in[threadIdx.x] + k) & 15, b = stack[a] & 15;
        int swap = stack[a];
        stack[a] = stack[b];
        stack[b] = swap;
    }
    int sum = 0;
    for (int k = 0; k < 16; k++) sum = sum * 31 + stack[(k + threadIdx.x) & 15];
    out[threadIdx.x] = sum;
}

struct Three { int a; float b; int c; };
__device__ __noinline__ Three mixed(int a, Three t) {
    if (a & 1) return {t.c, t.b * 2, a};
    for (int k = 0; k < (a & 7); k++) t.a += k;
    return t;
}
__device__ __noinline__ int twice(int a, Three t) { return mixed(a, mixed(a + 1, t)).a; }
KERNEL device_functions(const int *in, int *out) {
    Three t = {in[threadIdx.x], 1.5f, (int)threadIdx.x};
    out[threadIdx.x] = twice(in[threadIdx.x], t) + (int)mixed(in[threadIdx.x] >> 1, t).b;
}

__constant__ int lookup[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int counter = 7;
__device__ int *pointer = &counter;
KERNEL constants(const int *in, int *out) {
    atomicAdd(pointer, lookup[in[threadIdx.x] & 7]);
    __syncthreads();
    out[threadIdx.x] = lookup[(in[threadIdx.x] >> 3) & 7] * 1000 + counter;
}

KERNEL dynamic_shared(const int *in, int *out) {
    extern __shared__ int buffer[];
    short *upper = (short *)&buffer[blockDim.x];
    buffer[threadIdx.x] = in[threadIdx.x];
    upper[threadIdx.x] = (short)(in[threadIdx.x] * 3);
    __syncthreads();
    int other = (threadIdx.x * 7 + 1) % blockDim.x;
    out[threadIdx.x] = buffer[other] - upper[blockDim.x - 1 - other];
}

KERNEL atomics(int *cells, unsigned *order, const int *in) {
    int v = in[threadIdx.x + blockIdx.x * blockDim.x];
    order[threadIdx.x + blockIdx.x * blockDim.x] = (unsigned)atomicAdd(&cells[0], 1);
    atomicMax(&cells[1], v);
    atomicMin(&cells[2], v);
    atomicAnd(&cells[3], ~(1 << (v & 31)));
    atomicOr(&cells[4], 1 << (v & 31));
    atomicXor(&cells[5], v);
    atomicInc((unsigned *)&cells[6], 10);
    atomicDec((unsigned *)&cells[7], 5);
    atomicSub(&cells[8], v);
    atomicAdd((unsigned long long *)&cells[10], (unsigned long long)v << 20);
    int seen = cells[12], assumed;
    do {
        assumed = seen;
        seen = atomicCAS(&cells[12], assumed, assumed * 5 + 1);
    } while (seen != assumed);
}

KERNEL half_arithmetic(const __half *x, __half2 *y, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    __half2 a = __halves2half2(x[2 * i], x[2 * i + 1]), b = __half2half2(x[(i * 5) % (2 * n)]);
    __half2 c = __hfma2(a, b, __hadd2(a, b));
    if (__hgt(x[i], __float2half(0.5f))) c = __hsub2(c, __hmul2(b, b));
    c = __hadd2(c, __hgt2(a, b));
    y[i] = __hmax2(c, __hneg2(b));
}

KERNEL geometry(int *out, int3 size) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
        z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < size.x && y < size.y && z < size.z)
        out[(z * size.y + y) * size.x + x] = x + 100 * y + 10000 * z + 1000000 * (gridDim.x + 2 * gridDim.y + 3 * gridDim.z);
}

KERNEL generic_pointers(const int *in, int *out, int which) {
    __shared__ int tile[64];
    int own[4] = {1, 2, 3, in[threadIdx.x]};
    tile[threadIdx.x] = in[threadIdx.x] * 2;
    __syncthreads();
    volatile const int *p = which == 0 ? in : which == 1 ? tile : own;
    const volatile int *q = threadIdx.x % 3 == 0 ? in : (threadIdx.x % 3 == 1 ? tile : own);
    out[threadIdx.x] = p[threadIdx.x & 3] * 1000 + q[threadIdx.x & 3];
}

KERNEL named_barriers(const int *in, int *out) {
    __shared__ int box[64];
    if (threadIdx.x < 64) {
        box[threadIdx.x] = in[threadIdx.x];
        asm volatile("bar.sync 1, 64;");
        out[threadIdx.x] = box[63 - threadIdx.x];
    } else {
        asm volatile("bar.sync 2, 32;");
        out[threadIdx.x] = -1;
    }
}

KERNEL inline_assembly(const int *in, int *out) {
    int r = in[threadIdx.x];
    for (int k = 0; k < 2; k++)
        asm volatile("{ .reg .pred p; .reg .u32 t; setp.gt.s32 p, %1, 5; mov.u32 t, 3; @p bra SKIP; add.s32 t, t, %1;\n"
                     "SKIP: bfe.s32 t, t, 0, 4; add.s32 %0, %0, t; }" : "+r"(r) : "r"(in[threadIdx.x] + k));
    out[threadIdx.x] = r;
}

template <typename T, int WIDTH> __device__ T scan(T value) {
    for (int s = 1; s < WIDTH; s *= 2) {
        T other = __shfl_up_sync(0xffffffffu, value, s, WIDTH);
        if ((threadIdx.x & (WIDTH - 1)) >= s) value += other;
    }
    return value;
}
template <typename T, int WIDTH> __global__ void scanned(const T *in, T *out) {
    out[threadIdx.x] = scan<T, WIDTH>(in[threadIdx.x]);
}
