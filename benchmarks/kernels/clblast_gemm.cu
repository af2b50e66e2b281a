// Equivalent of the matrix product of CLBlast (its kernel 0) that Kernel Tuner tunes: C = alpha A B + beta C in FP32.
// A lies as size_k rows of size_m, B as size_k rows of size_n, C as size_n rows of size_m. The tuning parameters are
// macros: MWG, NWG, KWG (a block's tile of C, and the depth that it works on at once), MDIMC, NDIMC (threads), MDIMA,
// NDIMB (threads side by side when the tiles of A and B are copied), KWI (unrolled steps of the depth), VWM, VWN
// (floats of a vector of A and C, and of B), STRM, STRN (whether a thread's vectors lie a row of threads apart or next
// to each other) and SA, SB (whether the tile of A, of B goes through shared memory).

#define OUTPUTS_M (MWG / MDIMC) // of a thread
#define OUTPUTS_N (NWG / NDIMC)
#define TILE_M (MWG / VWM) // vectors
#define TILE_N (NWG / VWN)

struct alignas(32) Eight {
    float4 low, high;
};

template <int FLOATS> struct VectorOf;
template <> struct VectorOf<1> { using type = float; };
template <> struct VectorOf<2> { using type = float2; };
template <> struct VectorOf<4> { using type = float4; };
template <> struct VectorOf<8> { using type = Eight; };

using VectorM = VectorOf<VWM>::type;
using VectorN = VectorOf<VWN>::type;

__device__ __forceinline__ void unpack(float *to, float from) { *to = from; }

__device__ __forceinline__ void unpack(float *to, float2 from)
{
    to[0] = from.x;
    to[1] = from.y;
}

__device__ __forceinline__ void unpack(float *to, float4 from)
{
    to[0] = from.x;
    to[1] = from.y;
    to[2] = from.z;
    to[3] = from.w;
}

__device__ __forceinline__ void unpack(float *to, Eight from)
{
    unpack(to, from.low);
    unpack(to + 4, from.high);
}

__device__ __forceinline__ void pack(float &to, const float *from) { to = *from; }

__device__ __forceinline__ void pack(float2 &to, const float *from) { to = make_float2(from[0], from[1]); }

__device__ __forceinline__ void pack(float4 &to, const float *from)
{
    to = make_float4(from[0], from[1], from[2], from[3]);
}

__device__ __forceinline__ void pack(Eight &to, const float *from)
{
    pack(to.low, from);
    pack(to.high, from + 4);
}

// Where in a tile the number-th of a thread's vectors lies, when each of the threads in a row has so many.
template <bool STRIDED, int THREADS, int EACH> __device__ __forceinline__ int place(int thread, int number)
{
    return STRIDED ? thread + number * THREADS : thread * EACH + number;
}

// All threads of the block copy KWG rows of a tile to shared memory.
template <int TILE, int ACROSS, bool STRIDED, typename Vector>
__device__ __forceinline__ void copy_tile(Vector *tile, const Vector *__restrict__ matrix, int width, int thread)
{
    constexpr int EACH = TILE / ACROSS, ROWS_EACH = KWG * ACROSS / (MDIMC * NDIMC);
    const int column = thread % ACROSS, row = thread / ACROSS;

#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int k = 0; k < ROWS_EACH; ++k) {
            const int m = place<STRIDED, ACROSS, EACH>(column, i), depth = row * ROWS_EACH + k;
            tile[depth * TILE + m] = matrix[depth * width + m];
        }
    }
}

extern "C" __global__ void __launch_bounds__(MDIMC * NDIMC)
clblast_gemm(int size_m, int size_n, int size_k, float alpha, float beta, const VectorM *__restrict__ A,
             const VectorN *__restrict__ B, VectorM *C, int offset_b, int offset_c)
{
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int width_m = size_m / VWM, width_n = size_n / VWN;
    const int first_m = blockIdx.x * TILE_M, first_n = blockIdx.y * TILE_N;
    float sums[OUTPUTS_N][OUTPUTS_M];

    B += offset_b;
    C += offset_c;
#if SA
    __shared__ VectorM tile_a[KWG * TILE_M];
#endif
#if SB
    __shared__ VectorN tile_b[KWG * TILE_N];
#endif
#if SA || SB
    volatile int thread = ty * MDIMC + tx; // as in the original; the compiler still keeps it in a register
#endif

#pragma unroll
    for (int n = 0; n < OUTPUTS_N; ++n)
#pragma unroll
        for (int m = 0; m < OUTPUTS_M; ++m)
            sums[n][m] = 0.0f;

    for (int start = 0; start < size_k; start += KWG) {
#if SA
        copy_tile<TILE_M, MDIMA, STRM>(tile_a, A + start * width_m + first_m, width_m, thread);
#endif
#if SB
        copy_tile<TILE_N, NDIMB, STRN>(tile_b, B + start * width_n + first_n, width_n, thread);
#endif
#if SA || SB
        __syncthreads();
#endif
        for (int inner = 0; inner < KWG; inner += KWI) {
#pragma unroll
            for (int step = 0; step < KWI; ++step) {
                const int depth = inner + step;
                float a[OUTPUTS_M], b[OUTPUTS_N];

#pragma unroll
                for (int i = 0; i < OUTPUTS_M / VWM; ++i) {
                    const int m = place<STRM, MDIMC, OUTPUTS_M / VWM>(tx, i);
#if SA
                    unpack(a + i * VWM, tile_a[depth * TILE_M + m]);
#else
                    unpack(a + i * VWM, A[(start + depth) * width_m + first_m + m]);
#endif
                }
#pragma unroll
                for (int i = 0; i < OUTPUTS_N / VWN; ++i) {
                    const int n = place<STRN, NDIMC, OUTPUTS_N / VWN>(ty, i);
#if SB
                    unpack(b + i * VWN, tile_b[depth * TILE_N + n]);
#else
                    unpack(b + i * VWN, B[(start + depth) * width_n + first_n + n]);
#endif
                }
#pragma unroll
                for (int n = 0; n < OUTPUTS_N; ++n)
#pragma unroll
                    for (int m = 0; m < OUTPUTS_M; ++m)
                        sums[n][m] += a[m] * b[n];
            }
        }
#if SA || SB
        __syncthreads();
#endif
    }

#pragma unroll
    for (int n = 0; n < OUTPUTS_N; ++n) {
#pragma unroll
        for (int i = 0; i < OUTPUTS_M / VWM; ++i) {
            const int column = first_m + place<STRM, MDIMC, OUTPUTS_M / VWM>(tx, i);
            const int row = (first_n + place<STRN, NDIMC, OUTPUTS_N / VWN>(ty, n / VWN)) * VWN + n % VWN;
            VectorM *const result = &C[row * width_m + column];
            float values[VWM];

#pragma unroll
            for (int lane = 0; lane < VWM; ++lane)
                values[lane] = alpha * sums[n][i * VWM + lane];
            if (beta != 0.0f) {
                float before[VWM];
                unpack(before, *result);
#pragma unroll
                for (int lane = 0; lane < VWM; ++lane)
                    values[lane] += beta * before[lane];
            }
            VectorM packed;
            pack(packed, values);
            *result = packed;
        }
    }
}
