// Ten kernels, each with one change that slows it down, behind -D PLANTED: benchmarks/score_advice.py asks what is named.

// Each thread scales 8 values: side by side with its neighbours, or a run of its own.
extern "C" __global__ void scale_runs(float *y, const float *x, float a, int n) {
    int threads = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 8; k++) {
#ifdef PLANTED
        int i = t * 8 + k;
#else
        int i = k * threads + t;
#endif
        if (i < n) y[i] = a * x[i];
    }
}

// A thread sums a line of a matrix that lies column by column, or row by row.
extern "C" __global__ void sum_lines(float *y, const float *m, int lines, int length) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= lines) return;
    float sum = 0;
#pragma unroll 16
    for (int j = 0; j < length; j++) {
#ifdef PLANTED
        sum += m[t * length + j];
#else
        sum += m[j * lines + t];
#endif
    }
    y[t] = sum;
}

// Sixteen taps of a filter from constant memory.
__constant__ float taps[16];
extern "C" __global__ void filter16(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 16 > n) return;
    float sum = 0;
#ifdef PLANTED
#pragma unroll 1
#else
#pragma unroll
#endif
    for (int k = 0; k < 16; k++) sum += taps[k] * x[i + k];
    y[i] = sum;
}

// Each thread adds values that lie far apart: the loads are independent.
extern "C" __global__ void far_sums(float *y, const float *x, int n) {
    int threads = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
#ifdef PLANTED
#pragma unroll 1
#else
#pragma unroll 16
#endif
    for (int k = 0; k < 64; k++) sum += x[k * threads + t];
    y[t] = sum;
}

// A block takes the mean from its part of the data: from registers, or reading it again.
extern "C" __global__ void centred(float *y, const float *x, int per_block) {
    __shared__ float sums[256];
    const float *own = x + (size_t)blockIdx.x * per_block;
    float kept[64];
    float sum = 0;
#ifdef PLANTED
    for (int k = threadIdx.x; k < per_block; k += 256) sum += own[k];
#else
#pragma unroll
    for (int k = 0; k < 64; k++) sum += kept[k] = own[k * 256 + threadIdx.x];
#endif
    sums[threadIdx.x] = sum;
    for (int s = 128; s > 0; s /= 2) {
        __syncthreads();
        if (threadIdx.x < s) sums[threadIdx.x] += sums[threadIdx.x + s];
    }
    __syncthreads();
    float mean = sums[0] / per_block;
    float *out = y + (size_t)blockIdx.x * per_block;
#ifdef PLANTED
    for (int k = threadIdx.x; k < per_block; k += 256) out[k] = own[k] - mean;
#else
#pragma unroll
    for (int k = 0; k < 64; k++) out[k * 256 + threadIdx.x] = kept[k] - mean;
#endif
}

// A value and a neighbour: within the block's own part, or half a grid away, where somebody else reads it later.
extern "C" __global__ void pairs(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
#ifdef PLANTED
    int other = i < n / 2 ? i + n / 2 : i - n / 2;
#else
    int other = i ^ 1;
#endif
    y[i] = x[i] + 2 * x[other];
}

// Random reads, whose latency resident warps hide; a table in shared memory that is larger than its use.
extern "C" __global__ void gather(float *y, const float *x, const int *at, int n) {
#ifdef PLANTED
    __shared__ float table[10240];
#else
    __shared__ float table[32];
#endif
    if (threadIdx.x < 32) table[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[at[at[at[i]]]] + table[i & 31];
}

// A long chain of dependent arithmetic.
extern "C" __global__ void iterate(float *y, const float *x, int turns, int n) {
#ifdef PLANTED
    __shared__ float table[11264];
#else
    __shared__ float table[32];
#endif
    if (threadIdx.x < 32) table[threadIdx.x] = 0.5f + threadIdx.x;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i], c = table[i & 31];
#pragma unroll 16
    for (int k = 0; k < turns; k++) v = v * v + c;
    y[i] = v;
}

// A tile goes through shared memory, with or without a column that keeps its columns in different banks.
extern "C" __global__ void transpose(float *y, const float *x, int n) {
#ifdef PLANTED
    __shared__ float tile[32][32];
#else
    __shared__ float tile[32][33];
#endif
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = x[(j + k) * n + i];
    __syncthreads();
    i = blockIdx.y * 32 + threadIdx.x, j = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) y[(j + k) * n + i] = tile[threadIdx.x][threadIdx.y + k];
}

// Each thread has a counter array in shared memory: next to one another by counter, or by thread.
extern "C" __global__ void count_own(int *y, const unsigned char *x, int per_thread) {
    __shared__ int counts[32 * 128];
#ifdef PLANTED
#define OWN(c) counts[threadIdx.x * 32 + (c)]
#else
#define OWN(c) counts[(c) * 128 + threadIdx.x]
#endif
    for (int c = 0; c < 32; c++) OWN(c) = 0;
    int threads = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < per_thread; k++) OWN((x[k * threads + t] + k) & 15)++;
    int sum = 0;
    for (int c = 0; c < 32; c++) sum += OWN(c) * c;
    y[t] = sum;
}
