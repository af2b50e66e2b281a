// Equivalents of the vector and matrix kernels of gpuperfpredict: the same operations on the same types in the same
// loops, so that counters taken from the originals can be held against ours.

#ifdef TILE
#define BLOCK_WIDTH TILE  // the originals' block is a constant of the build
#else
#define TILE 16
#define BLOCK_WIDTH blockDim.x
#endif

__global__ void vectorAdd(const float *a, const float *b, float *c, int n)
{
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

__global__ void matrix_sum_coalesced(float *a, float *b, float *c, int size)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    const int element = row * size + column;
    if (element < size * size)
        c[element] = a[element] + b[element];
}

__global__ void matMul_gpu(float *a, float *b, float *c, int size)
{
    const int column = blockIdx.x * BLOCK_WIDTH + threadIdx.x, row = blockIdx.y * BLOCK_WIDTH + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < size; ++k)
        sum += a[row * size + k] * b[k * size + column];
    c[row * size + column] = sum;
}

__global__ void matMul_gpu_uncoalesced(float *a, float *b, float *c, int size)
{
    const int row = blockIdx.x * BLOCK_WIDTH + threadIdx.x, column = blockIdx.y * BLOCK_WIDTH + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < size; ++k)
        sum += a[row * size + k] * b[k * size + column];
    c[row * size + column] = sum;
}

__global__ void matMul_gpu_sharedmem(float *a, float *b, float *c, int size)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0.0f;
    for (int tile = 0; tile < size / TILE; ++tile) {
        tileA[y][x] = a[row * size + (tile * TILE + x)];
        tileB[y][x] = b[column + (tile * TILE + y) * size];
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += tileA[y][k] * tileB[k][x];
        __syncthreads();
    }
    c[row * size + column] = sum;
}

#ifndef DOT_THREADS
#define DOT_THREADS 256
#endif

__global__ void dotProd(float *a, float *b, float *partial, int n)
{
    __shared__ float sums[DOT_THREADS];
    const int thread = threadIdx.x;
    float sum = 0.0f;
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x)
        sum += a[i] * b[i];
    sums[thread] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half != 0; half /= 2) {  // signed, as in the original: rounds towards zero
        if (thread < half)
            sums[thread] += sums[thread + half];
        __syncthreads();
    }
    if (thread == 0)
        partial[blockIdx.x] = sums[0];
}

#define CHUNK 4096      // elements that a block holds in shared memory
#define PER_THREAD 32   // of these, what one thread scans
#define SCANNERS 128    // threads that scan
#define RESULTS 5       // numbers that each thread leaves

__device__ int *load_chunk(int *values, int per_block, int chunk)
{
    __shared__ int held[CHUNK + 1];  // the last scanner reads one element further
    const int warp = threadIdx.x / 32, per_thread = per_block / blockDim.x;
    int from = blockIdx.x * per_block + warp * per_thread + (threadIdx.x - warp * 32) + chunk * 32;
    int to = threadIdx.x;
    for (int done = 0; done < CHUNK; done += blockDim.x) {
        held[to] = values[from];
        to += blockDim.x;
        from += per_thread * 4;
    }
    return held;
}

// The largest sum of neighbours. Every scanner reads one element past its part, as in the original.
__global__ void subSeqMax(int *values, int *results, int per_thread, int per_block)
{
    __shared__ int *volatile where;  // a pointer in shared memory makes the accesses through it generic
    int best_start, best_end, start, end, best = 0, sum = 0;
    const int first = threadIdx.x * PER_THREAD;

    for (int chunk = 0; chunk < per_block / CHUNK; chunk++) {
        where = load_chunk(values, per_block, chunk);
        __syncthreads();
        const int *held = where;
        if (threadIdx.x < SCANNERS) {
            best_start = best_end = start = end = first - 1;
            for (int i = first - 1; i < first + PER_THREAD; i++) {
                if (i == best_end) {
                    end++;
                    sum += held[i + 1];
                    if (sum < 0) {
                        sum = 0;
                        end = -1;
                    }
                    start = end == 0 ? 0 : start;
                    if (held[i + 1] > 0) {
                        best_end++;
                        best += held[i + 1];
                        best_start = best_end == 0 ? 0 : best_start;
                    }
                } else if (sum + held[i + 1] > best) {
                    end++;
                    if (best_start == -1)
                        end = start = i + 1;
                    sum += held[i + 1];
                    best_start = start;
                    best_end = end;
                    best = sum;
                } else if (sum + held[i + 1] > 0) {
                    end++;
                    if (sum == 0)
                        start = end = i + 1;
                    sum += held[i + 1];
                } else {
                    start = end = i + 2;
                    sum = 0;
                }
            }
        }
    }

    if (threadIdx.x < SCANNERS) {
        const int *held = where;
        int *mine = results + (blockIdx.x * blockDim.x + threadIdx.x) * RESULTS;
        mine[0] = mine[1] = mine[2] = mine[3] = mine[4] = -1;
        mine[2] = best;

        int prefix = 0, largest = 0;
        if (best_start > first - 1) {
            for (int i = 0; i < best_start; i++) {
                prefix += held[i];
                if (prefix > largest)
                    largest = prefix;
            }
            mine[0] = largest == 0 ? 0 : largest;
            mine[1] = largest == 0 ? prefix : prefix - largest;
        }

        int suffix = 0, largest_suffix = 0;
        if (best_end < first + PER_THREAD) {
            for (int i = first + PER_THREAD - 1; i > best_end; i--) {
                suffix += held[i];
                if (suffix > largest_suffix)
                    largest_suffix = suffix;
            }
            mine[3] = largest_suffix == 0 ? 0 : largest_suffix;
            mine[4] = largest_suffix == 0 ? largest_suffix : suffix - largest_suffix;
        }
    }
}
