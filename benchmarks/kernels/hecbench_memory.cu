// Equivalents of kernels of HeCBench that move data: transposes, strides, atomics, reductions, barriers.
// The measured compiler, clang, left loops whose step is not one and loops with a barrier as they were: ONE_BY_ONE.
#define ONE_BY_ONE _Pragma("unroll 1")

// matrixT: tiles of 16 x 16
#define TILE 16

__global__ void copy(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    const int at = blockIdx.x * TILE + threadIdx.x + width * (blockIdx.y * TILE + threadIdx.y);
    out[at] = in[at];
}

__global__ void copySharedMem(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    __shared__ float tile[TILE][TILE];
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    const int at = x + width * y;
    if (x < width && y < height)
        tile[threadIdx.y][threadIdx.x] = in[at];
    __syncthreads();
    if (x < height && y < width)
        out[at] = tile[threadIdx.y][threadIdx.x];
}

__global__ void transposeNaive(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    out[y + height * x] = in[x + width * y];
}

// A tile is read along rows, kept with so many columns, and written along rows, transposed inside or not.
template <int columns, bool inside>
__device__ void move_tile(float *out, const float *in, int to, int from)
{
    __shared__ float tile[TILE][columns];
    tile[threadIdx.y][threadIdx.x] = in[from];
    __syncthreads();
    out[to] = inside ? tile[threadIdx.x][threadIdx.y] : tile[threadIdx.y][threadIdx.x];
}

__device__ int in_tile(int tile_x, int tile_y, int pitch)
{
    return tile_x * TILE + threadIdx.x + (tile_y * TILE + threadIdx.y) * pitch;
}

__global__ void transposeCoalesced(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    move_tile<TILE, true>(
        out, in, in_tile(blockIdx.y, blockIdx.x, height), in_tile(blockIdx.x, blockIdx.y, width));
}

__global__ void transposeNoBankConflicts(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    move_tile<TILE + 1, true>(
        out, in, in_tile(blockIdx.y, blockIdx.x, height), in_tile(blockIdx.x, blockIdx.y, width));
}

__global__ void transposeCoarseGrained(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    move_tile<TILE + 1, false>(
        out, in, in_tile(blockIdx.y, blockIdx.x, height), in_tile(blockIdx.x, blockIdx.y, width));
}

__global__ void transposeFineGrained(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    const int at = in_tile(blockIdx.x, blockIdx.y, width);
    move_tile<TILE + 1, true>(out, in, at, at);
}

__global__ void transposeDiagonal(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    int x, y;
    if (width == height) {
        y = blockIdx.x;
        x = (blockIdx.x + blockIdx.y) % gridDim.x;
    } else {
        const int number = blockIdx.x + gridDim.x * blockIdx.y;
        y = number % gridDim.y;
        x = (number / gridDim.y + y) % gridDim.x;
    }
    move_tile<TILE + 1, true>(out, in, in_tile(y, x, height), in_tile(x, y, width));
}

// tensorT: a tile in shared memory is written in another order of its three dimensions
#define TENSOR_TILE 5900

__global__ void tensor_transpose(const int dim_in, const int dim_out, const int tiles, const int tile_size,
                                 const int *shape_in, const int *shape_out, const float *inverse_in,
                                 const float *inverse_out, const int *stride_in, const int *stride_local,
                                 const int *stride_out, const double *in, double *out)
{
    __shared__ double tile[TENSOR_TILE];
    ONE_BY_ONE
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        int rest = number, first = 0;
        ONE_BY_ONE
        for (int d = 0; d < dim_in; d++) {
            const int quotient = rest * inverse_in[d];
            first += stride_in[d] * (rest - quotient * shape_in[d]);
            rest = quotient;
        }
        ONE_BY_ONE
        for (int i = threadIdx.x; i < tile_size; i += blockDim.x)
            tile[i] = in[i + number * tile_size];
        __syncthreads();
        ONE_BY_ONE
        for (int i = threadIdx.x; i < tile_size; i += blockDim.x) {
            int to = 0, from = 0;
            rest = i;
            ONE_BY_ONE
            for (int d = 0; d < dim_out; d++) {
                const int quotient = rest * inverse_out[d];
                const int index = rest - quotient * shape_out[d];
                to += stride_out[d] * index;
                from += stride_local[d] * index;
                rest = quotient;
            }
            out[first + to] = tile[from];
        }
        __syncthreads();
    }
}

// histogram: a block counts its pixels of one byte in its own 256 bins, in global or in shared memory
#define BINS 256
#define PART 1024

__global__ void histogram_gmem_atomics(const unsigned char *in, int width, int height, unsigned int *out)
{
    const int thread = threadIdx.x + threadIdx.y * blockDim.x, threads = blockDim.x * blockDim.y;
    unsigned int *bins = out + (blockIdx.x + blockIdx.y * gridDim.x) * PART;
    ONE_BY_ONE
    for (int i = thread; i < BINS; i += threads)
        bins[i] = 0;
    __syncthreads();
    ONE_BY_ONE
    for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < width; x += blockDim.x * gridDim.x)
        ONE_BY_ONE
        for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < height; y += blockDim.y * gridDim.y)
            atomicAdd(&bins[in[y * width + x]], 1);
}

__global__ void histogram_smem_atomics(const unsigned char *in, int width, int height, unsigned int *out)
{
    __shared__ unsigned int bins[BINS + 3];
    const int thread = threadIdx.x + threadIdx.y * blockDim.x, threads = blockDim.x * blockDim.y;
    ONE_BY_ONE
    for (int i = thread; i < BINS + 3; i += threads)
        bins[i] = 0;
    __syncthreads();
    ONE_BY_ONE
    for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < width; x += blockDim.x * gridDim.x)
        ONE_BY_ONE
        for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < height; y += blockDim.y * gridDim.y)
            atomicAdd(&bins[in[y * width + x]], 1);
    __syncthreads();
    out += (blockIdx.x + blockIdx.y * gridDim.x) * PART;
    ONE_BY_ONE
    for (int i = thread; i < BINS; i += threads)
        out[i] = bins[i];
}

// atomicIntrinsics: nine operations on nine words
__global__ void testKernel(int *words)
{
    const int thread = blockDim.x * blockIdx.x + threadIdx.x;
    atomicAdd(&words[0], 10);
    atomicSub(&words[1], 10);
    atomicMax(&words[2], thread);
    atomicMin(&words[3], thread);
    atomicAnd(&words[4], 2 * thread + 7);
    atomicOr(&words[5], 1 << thread);
    atomicXor(&words[6], thread);
    atomicInc((unsigned int *)&words[7], 17);
    atomicDec((unsigned int *)&words[8], 137);
}

// atomicAggregate: lanes of equal address let the first of them add
__global__ void aggregate(int *words, int count)
{
    int *word = words + threadIdx.x % count;
    const int same = __match_any_sync(0xffffffff, (unsigned long long)word);
    const int leader = __ffs(same) - 1;
    int before = 0;
    if (threadIdx.x % warpSize == leader)
        before = atomicAdd(word, __popc(same));
    before = __shfl_sync(same, before, leader);
}

// atomicReduction: sums of so many neighbours per turn, one atomic addition per thread
template <int neighbours>
__device__ void reduce(const int *in, int *out, int length)
{
    int sum = 0;
    ONE_BY_ONE
    for (int i = (blockIdx.x * blockDim.x + threadIdx.x) * neighbours; i < length;
         i += blockDim.x * gridDim.x * neighbours)
#pragma unroll
        for (int k = 0; k < neighbours; k++)
            sum += in[i + k];
    atomicAdd(out, sum);
}

__global__ void atomic_reduction(int *in, int *out, int length) { reduce<1>(in, out, length); }
__global__ void atomic_reduction_v2(int *in, int *out, int length) { reduce<2>(in, out, length); }
__global__ void atomic_reduction_v4(int *in, int *out, int length) { reduce<4>(in, out, length); }
__global__ void atomic_reduction_v8(int *in, int *out, int length) { reduce<8>(in, out, length); }
__global__ void atomic_reduction_v16(int *in, int *out, int length) { reduce<16>(in, out, length); }

// channelSum, accuracy: sums of a block, by warps and then by its first thread
template <int warps, int number = 0>
__device__ int sum_of_block(int value, int thread)
{
    // Each number has its own array, so that one sum need not wait for another.
    __shared__ int of_warps[warps];
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_down_sync(0xffffffff, value, distance);
        if (thread % 32 + distance < 32)
            value += other;
    }
    if (thread % 32 == 0)
        of_warps[thread / 32] = value;
    __syncthreads();
    if (thread == 0)
        for (int warp = 1; warp < warps; warp++)
            value += of_warps[warp];
    return value;
}

__global__ void ChannelSumNCHW(const int images, const int channels, const int size, const int *in,
                               int *__restrict__ sums, int *__restrict__ squares)
{
    const int channel = blockIdx.x;
    int sum = 0, square = 0;
    ONE_BY_ONE
    for (int image = threadIdx.x; image < images; image += blockDim.x)
        ONE_BY_ONE
        for (int i = threadIdx.y; i < size; i += blockDim.y) {
            const int value = __ldg(in + (image * channels + channel) * size + i);
            sum += value;
            square += value * value;
        }
    sum = sum_of_block<4>(sum, threadIdx.y);
    square = sum_of_block<4, 1>(square, threadIdx.y);
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        sums[channel] = sum;
        squares[channel] = square;
    }
}

__global__ void ChannelSumNHWC(const int images, const int channels, const int size, const int *in,
                               int *__restrict__ sums, int *__restrict__ squares)
{
    const int channel = blockIdx.x;
    int sum = 0, square = 0;
    ONE_BY_ONE
    for (int i = threadIdx.x; i < images * size; i += blockDim.x) {
        const int value = __ldg(in + i * channels + channel);
        sum += value;
        square += value * value;
    }
    sum = sum_of_block<8>(sum, threadIdx.x);
    square = sum_of_block<8, 1>(square, threadIdx.x);
    if (threadIdx.x == 0) {
        sums[channel] = sum;
        squares[channel] = square;
    }
}

__global__ void accuracy_kernel(const int rows, const int columns, const int top, const float *in, const int *labels,
                                int *right)
{
    int count = 0;
    ONE_BY_ONE
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const int label = labels[row];
        const float of_label = in[row * columns + label];
        int greater = 0;
        ONE_BY_ONE
        for (int column = threadIdx.x; column < columns; column += blockDim.x) {
            const float value = in[row * columns + column];
            if (value > of_label || (value == of_label && column <= label))
                ++greater;
        }
        greater = sum_of_block<8>(greater, threadIdx.x);
        if (greater <= top)
            ++count;
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(right, count);
}

// hwt1d: levels of a Haar transform, each with half the threads of the one before
__global__ void dwtHaar1D(const float *__restrict__ in, float *__restrict__ details, float *__restrict__ averages,
                          const unsigned int levels_left, const unsigned int length, const unsigned int levels_done,
                          const unsigned int most_levels)
{
    extern __shared__ float held[];
    const size_t thread = threadIdx.x, block = blockIdx.x, threads = blockDim.x;
    float first = in[block * threads * 2 + thread], second = in[block * threads * 2 + threads + thread];
    if (levels_done == 0) {
        const float scale = rsqrtf((float)length);
        first *= scale;
        second *= scale;
    }
    held[thread] = first;
    held[threads + thread] = second;
    __syncthreads();

    const unsigned int levels = levels_left > most_levels ? most_levels : levels_left;
    unsigned int active = (1 << levels) / 2, middle = length / 2;
    ONE_BY_ONE
    for (unsigned int level = 0; level < levels; ++level) {
        float even, odd;
        if (thread < active) {
            even = held[2 * thread];
            odd = held[2 * thread + 1];
        }
        __syncthreads();
        if (thread < active) {
            held[thread] = (even + odd) * 0.7071f;
            details[middle + (unsigned int)(block * active + thread)] = (even - odd) * 0.7071f;
            middle >>= 1;
        }
        active >>= 1;
        __syncthreads();
    }
    if (thread == 0)
        averages[block] = held[0];
}

// interleave: sixteen sums per thread, each in an array of its own
#define MEMBERS 16
#define LENGTH 4096

struct Apart { unsigned int member[MEMBERS][LENGTH]; };

__global__ void add_kernel_non_interleaved(Apart *const to, const Apart *const from, const unsigned int count)
{
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        for (unsigned int turn = 0; turn < LENGTH; turn++)
#pragma unroll
            for (int m = 0; m < MEMBERS; m++)
                to->member[m][i] += from->member[m][i];
}

// matrix-rotate: a thread turns one ring of the matrix
__global__ void rotate_matrix_parallel(float *matrix, const int n)
{
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    if (first >= n / 2)
        return;
    const int last = n - 1 - first;
    ONE_BY_ONE
    for (int i = first; i < last; ++i) {
        const int back = last - (i - first);
        const float top = matrix[first * n + i];
        matrix[first * n + i] = matrix[back * n + first];
        matrix[back * n + first] = matrix[last * n + back];
        matrix[last * n + back] = matrix[i * n + last];
        matrix[i * n + last] = top;
    }
}

// blockAccess: four floats to four bytes
__global__ void to_bytes(const float *__restrict__ in, unsigned char *out, const unsigned int n)
{
    ONE_BY_ONE
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
        const float4 v = reinterpret_cast<const float4 *>(in)[i];
        reinterpret_cast<uchar4 *>(out)[i] = make_uchar4((int)v.x, (int)v.y, (int)v.z, (int)v.w);
    }
}

// floydwarshall: one node
__global__ void floydWarshallPass(unsigned int *__restrict__ distance, unsigned int *__restrict__ path,
                                  const unsigned int nodes, const unsigned int node)
{
    const int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;
    const int k = node;
    const int known = distance[y * nodes + x];
    const int indirect = distance[y * nodes + k] + distance[k * nodes + x];
    if (indirect < known) {
        distance[y * nodes + x] = indirect;
        path[y * nodes + x] = k;
    }
}

// stencil1d: seven neighbours on both sides, by shared memory
#define RADIUS 7

__global__ void stencil_1d(const int *__restrict__ in, int *__restrict__ out)
{
    __shared__ int held[256 + 2 * RADIUS];
    const int i = threadIdx.x + blockIdx.x * blockDim.x, at = threadIdx.x + RADIUS;
    held[at] = in[i];
    if (threadIdx.x < RADIUS) {
        held[at - RADIUS] = i < RADIUS ? 0 : in[i - RADIUS];
        held[at + 256] = in[i + 256];
    }
    __syncthreads();
    int sum = 0;
    for (int k = -RADIUS; k <= RADIUS; k++)
        sum += held[at + k];
    out[i] = sum;
}

// dense-embedding: a block adds a row to all rows of its batch; batches have different lengths
__global__ void dense_esuhm(const float *__restrict__ in, const float *__restrict__ dense, float *out, int columns,
                            const int *__restrict__ offset)
{
    const int batch = blockIdx.x;
    const int range = offset[batch + 1] - offset[batch];
    ONE_BY_ONE
    for (int column = threadIdx.x; column < columns; column += blockDim.x) {
        const float added = dense[batch * columns + column];
        ONE_BY_ONE
        for (int i = column; i < range; i += columns)
            out[offset[batch] + i] = in[offset[batch] + i] + added;
    }
}

__global__ void dense_esuhm2(const float *__restrict__ in, const float *__restrict__ dense, float *out, int columns,
                             const int *__restrict__ offset)
{
    const int batch = blockIdx.x;
    const int start = offset[batch], range = offset[batch + 1] - start;
    ONE_BY_ONE
    for (int column = threadIdx.x; column < columns; column += blockDim.x) {
        const float added = dense[batch * columns + column];
        ONE_BY_ONE
        for (int i = column; i < range; i += columns)
            out[start + i] = in[start + i] + added;
    }
}

// gamma-correction: pixels of four bytes
struct Pixel { unsigned char blue, green, red, alpha; };

__global__ void gamma_correction(Pixel *pixels)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float v = (0.3f * pixels[i].red + 0.59f * pixels[i].green + 0.11f * pixels[i].blue) / 255.0f;
    const unsigned char corrected = (unsigned char)(255.0f * v * v);
    pixels[i].blue = corrected;
    pixels[i].green = corrected;
    pixels[i].red = corrected;
    pixels[i].alpha = corrected;
}

// maxpool3d: the largest of 2 x 2
__global__ void maxpool3d(const float *in, float *out, const int step_x, const int step_y, const int pool_width,
                          const int pool_height, const int in_width, const int in_height, const int out_width,
                          const int out_height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x >= out_width || y >= out_height)
        return;
    float largest = 0.0f;
    ONE_BY_ONE
    for (int row = 0; row < pool_height; row++) {
        const int first = (z * in_height + step_y * y + row) * in_width + step_x * x;
        ONE_BY_ONE
        for (int column = 0; column < pool_width; column++)
            largest = fmaxf(largest, in[first + column]);
    }
    out[(z * out_height + y) * out_width + x] = largest;
}

// tensorAccessor: a thread per row of a matrix
__global__ void raw_accessor_kernel(const long long rows, const long long columns, float *__restrict__ product,
                                    const float *__restrict__ matrix, const float *__restrict__ vector)
{
    const long long row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float sum = 0.0f;
        for (long long column = 0; column < columns; column++)
            sum += matrix[row * columns + column] * vector[column];
        product[row] = sum;
    }
}

// filter: positive numbers one after another; places counted per block (1) or per warp (2)
__global__ void filter(int *__restrict__ to, int *__restrict__ count, const int *__restrict__ from, int n)
{
    __shared__ int of_block;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        of_block = 0;
    __syncthreads();
    int value, place;
    if (i < n) {
        value = from[i];
        if (value > 0)
            place = atomicAdd(&of_block, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        of_block = atomicAdd(count, of_block);
    __syncthreads();
    if (i < n && value > 0)
        to[place + of_block] = value;
    __syncthreads();
}

__global__ void filter2(int *__restrict__ to, int *__restrict__ count, const int *__restrict__ from, int n)
{
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n && from[i] > 0) {
        const unsigned int active = __activemask(), lane = threadIdx.x % 32;
        const int rank = __popc(active & ((1u << lane) - 1)), first = __ffs(active) - 1;
        int before = 0;
        if (rank == 0)
            before = atomicAdd(count, __popc(active));
        to[__shfl_sync(active, before, first) + rank] = from[i];
    }
}

// fwt: Walsh transforms of four numbers, in shared memory (1) or far apart in global memory (2)
__device__ void walsh(float &a, float &b, float &c, float &d)
{
    const float ac = a + c, a_c = a - c, bd = b + d, b_d = b - d;
    a = ac + bd;
    b = ac - bd;
    c = a_c + b_d;
    d = a_c - b_d;
}

__global__ void fwtBatch1Kernel(float *__restrict__ out, const float *__restrict__ in, int log2_length)
{
    extern __shared__ float held[];
    const int length = 1 << log2_length, base = blockIdx.x << log2_length, thread = threadIdx.x;
    ONE_BY_ONE
    for (int i = thread; i < length; i += blockDim.x)
        held[i] = in[base + i];
    ONE_BY_ONE
    for (int stride = length >> 2; stride > 0; stride >>= 2) {
        const int low = thread & (stride - 1);
        const int i = ((thread - low) << 2) + low;
        __syncthreads();
        float a = held[i], b = held[i + stride], c = held[i + 2 * stride], d = held[i + 3 * stride];
        walsh(a, b, c, d);
        held[i] = a;
        held[i + stride] = b;
        held[i + 2 * stride] = c;
        held[i + 3 * stride] = d;
    }
    if (log2_length & 1) {
        __syncthreads();
        ONE_BY_ONE
        for (int pair = thread; pair < length / 2; pair += blockDim.x) {
            const float a = held[2 * pair], b = held[2 * pair + 1];
            held[2 * pair] = a + b;
            held[2 * pair + 1] = a - b;
        }
    }
    __syncthreads();
    ONE_BY_ONE
    for (int i = thread; i < length; i += blockDim.x)
        out[base + i] = held[i];
}

__global__ void fwtBatch2Kernel(float *__restrict__ out, const float *__restrict__ in, int stride)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, length = blockDim.x * gridDim.x * 4;
    const float *from = in + blockIdx.y * length;
    float *to = out + blockIdx.y * length;
    const int low = thread & (stride - 1);
    const int i = ((thread - low) << 2) + low, j = i + stride, k = j + stride, l = k + stride;
    float a = from[i], b = from[j], c = from[k], d = from[l];
    walsh(a, b, c, d);
    to[i] = a;
    to[j] = b;
    to[k] = c;
    to[l] = d;
}

__global__ void modulateKernel(float *__restrict__ a, const float *__restrict__ b, int n)
{
    const float inverse = 1.0f / (float)n;
    ONE_BY_ONE
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        a[i] *= b[i] * inverse;
}

// shuffle: rows of eight turned round, a block each
__global__ void transpose_shfl(float *out, const float *in)
{
    const unsigned int i = blockDim.x * blockIdx.x + threadIdx.x;
    out[i] = __shfl_sync(0xffffffff, in[i], blockDim.x - threadIdx.x - 1);
}

// simpleMultiDevice: a sum per thread
__global__ void reduceKernel(float *sums, const float *in, int n)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    ONE_BY_ONE
    for (int i = thread; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    sums[thread] = sum;
}

// asmooth: a box around each pixel grows until its sum is large enough; each of its pixels gets a share
__global__ void smoothingFilter(int width, int height, int threshold, int most, const float *__restrict__ image,
                                int *__restrict__ box, float *__restrict__ norm)
{
    __shared__ float held[1024];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * blockDim.x + tx, y = blockIdx.y * blockDim.y + ty;
    const int here = ty * blockDim.x + tx, at = y * width + x;
    if (x < width && y < height)
        held[here] = image[at];
    __syncthreads();
    if (x >= width || y >= height)
        return;
    float sum = 0.0f;
    int q = 1, s = 1, pixels = 0;
    ONE_BY_ONE
    while (sum < threshold && q < most) {
        s = q;
        sum = 0.0f;
        pixels = 0;
        ONE_BY_ONE
        for (int dy = -s; dy < s + 1; dy++)
            ONE_BY_ONE
            for (int dx = -s; dx < s + 1; dx++)
                if (x - s >= 0 && x + s < height && y - s >= 0 && y + s < width) {
                    pixels++;
                    if (tx - s >= 0 && tx + s < blockDim.x && ty - s >= 0 && ty + s < blockDim.y)
                        sum += held[here + dy * blockDim.x + dx];
                    else
                        sum += image[at + dy * width + dx];
                }
        q++;
    }
    box[at] = s;
    ONE_BY_ONE
    for (int dy = -s; dy < s + 1; dy++)
        ONE_BY_ONE
        for (int dx = -s; dx < s + 1; dx++)
            if (pixels != 0)
                atomicAdd(&norm[at + dy * width + dx], __fdividef(1.0f, (float)pixels));
}

__global__ void normalizeFilter(int width, int height, float *__restrict__ image, const float *__restrict__ norm)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        const int at = y * width + x;
        if (norm[at] != 0)
            image[at] = __fdividef(image[at], norm[at]);
    }
}

__global__ void outFilter(int width, int height, const float *__restrict__ image, const int *__restrict__ box,
                          float *__restrict__ out)
{
    __shared__ float held[1024];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * blockDim.x + tx, y = blockIdx.y * blockDim.y + ty;
    const int here = ty * blockDim.x + tx, at = y * width + x;
    if (x < width && y < height)
        held[here] = image[at];
    __syncthreads();
    if (x >= width || y >= height)
        return;
    const int s = box[at];
    float sum = 0.0f;
    int pixels = 0;
    ONE_BY_ONE
    for (int dy = -s; dy < s + 1; dy++)
        ONE_BY_ONE
        for (int dx = -s; dx < s + 1; dx++)
            if (x - s >= 0 && x + s < width && y - s >= 0 && y + s < height) {
                pixels++;
                if (tx - s >= 0 && tx + s < blockDim.x && ty - s >= 0 && ty + s < blockDim.y)
                    sum += held[here + dy * blockDim.y + dx];
                else
                    sum += image[at + dy * height + dx];
            }
    if (pixels != 0)
        out[at] = __fdividef(sum, (float)pixels);
}

// lsqt: an inner product, a sum per block in shared memory; two numbers per thread set to zero or copied
__device__ void sum_of_warp(volatile double *held, int thread)
{
    for (int distance = 32; distance > 0; distance /= 2)
        held[thread] += held[thread + distance];
}

__global__ void gpu_find_inner_product_1(const int n, const double *__restrict__ a_re, const double *__restrict__ a_im,
                                         const double *__restrict__ b_re, const double *__restrict__ b_im,
                                         double *__restrict__ sum_re, double *__restrict__ sum_im, const int offset)
{
    __shared__ double re[256], im[256];
    const int thread = threadIdx.x, i = blockIdx.x * blockDim.x + thread;
    re[thread] = 0.0;
    im[thread] = 0.0;
    if (i < n) {
        const double a = a_re[i], b = a_im[i], c = b_re[i], d = b_im[i];
        re[thread] = a * c + b * d;
        im[thread] = b * c - a * d;
    }
    __syncthreads();
    for (int half = 128; half > 32; half /= 2) {
        if (thread < half) {
            re[thread] += re[thread + half];
            im[thread] += im[thread + half];
        }
        __syncthreads();
    }
    if (thread < 32) {
        sum_of_warp(re, thread);
        sum_of_warp(im, thread);
    }
    if (thread == 0) {
        sum_re[blockIdx.x + offset] = re[0];
        sum_im[blockIdx.x + offset] = im[0];
    }
}

__global__ void gpu_set_zero(const int n, double *__restrict__ re, double *__restrict__ im)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        re[i] = 0.0;
        im[i] = 0.0;
    }
}

// ising: spins of one byte
__global__ void init_spins(signed char *spins, const float *__restrict__ random, const long long nx,
                           const long long ny)
{
    const long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    if (i < nx * ny)
        spins[i] = random[i] < 0.5f ? -1 : 1;
}

// jacobi, babelstream: inner points and vectors copied
#define SIDE 2048

__global__ void swap_data(const float *__restrict__ from, float *__restrict__ to)
{
    const int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;
    if (y >= 1 && y <= SIDE - 2 && x >= 1 && x <= SIDE - 2)
        to[x + y * SIDE] = from[x + y * SIDE];
}

__global__ void copy_kernel(const float *a, float *c)
{
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    c[i] = a[i];
}
