// One 4-bit digit of a radix sort of 32-bit keys: count the digits of every tile, scan the counts, scatter the keys.
// Equivalent of the sort of SHOC and the CUDA samples. Counting uses shared atomics; scattering first sorts its tile in
// shared memory bit by bit, so that equal digits leave as coalesced runs.

// A bucket is one digit of one tile; buckets stand digit by digit.
#define THREADS 256
#define TILE (4 * THREADS)
#define DIGITS 16

__global__ void radix_count(const uint4 *keys, unsigned *counts, int shift)
{
    __shared__ unsigned found[DIGITS];
    const int t = threadIdx.x;
    if (t < DIGITS)
        found[t] = 0;
    __syncthreads();
    const uint4 four = keys[blockIdx.x * THREADS + t];
    atomicAdd(&found[four.x >> shift & DIGITS - 1], 1u);
    atomicAdd(&found[four.y >> shift & DIGITS - 1], 1u);
    atomicAdd(&found[four.z >> shift & DIGITS - 1], 1u);
    atomicAdd(&found[four.w >> shift & DIGITS - 1], 1u);
    __syncthreads();
    if (t < DIGITS)
        counts[t * gridDim.x + blockIdx.x] = found[t];
}

// The sum of the values of all threads before this one, and of all threads.
__device__ unsigned scan_exclusive(unsigned value, unsigned &total)
{
    __shared__ unsigned warp_sums[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned sum = value;
    for (int distance = 1; distance < 32; distance *= 2) {
        const unsigned below = __shfl_up_sync(0xffffffff, sum, distance);
        if (lane >= distance)
            sum += below;
    }
    __syncthreads();  // all have read the sums of the call before
    if (lane == 31)
        warp_sums[warp] = sum;
    __syncthreads();
    unsigned before = 0;
    total = 0;
    for (int i = 0; i < THREADS / 32; ++i) {
        if (i == warp)
            before = total;
        total += warp_sums[i];
    }
    return before + sum - value;
}

// One block turns counts into offsets, in place.
__global__ void radix_scan(unsigned *counts, int buckets)
{
    unsigned carry = 0;
    for (int start = 0; start < buckets; start += THREADS) {
        const int bucket = start + threadIdx.x;
        const unsigned count = bucket < buckets ? counts[bucket] : 0;
        unsigned total;
        const unsigned before = scan_exclusive(count, total);
        if (bucket < buckets)
            counts[bucket] = carry + before;
        carry += total;
    }
}

// Offsets count in units of room: 1 for scanned counts, or the capacity of a bucket where all have the same.
__global__ void radix_scatter(const uint4 *keys, const unsigned *offsets, unsigned *sorted, int shift, unsigned room)
{
    __shared__ unsigned tile[TILE], starts[DIGITS];
    const int t = threadIdx.x;
    const uint4 four = keys[blockIdx.x * THREADS + t];
    unsigned key[4] = {four.x, four.y, four.z, four.w};

    for (int bit = shift; bit < shift + 4; ++bit) {
        unsigned zeros = 0, all_zeros;
        for (int i = 0; i < 4; ++i)
            zeros += ~key[i] >> bit & 1;
        unsigned zero_place = scan_exclusive(zeros, all_zeros);
        unsigned one_place = all_zeros + 4 * t - zero_place;
        for (int i = 0; i < 4; ++i)
            tile[key[i] >> bit & 1 ? one_place++ : zero_place++] = key[i];
        __syncthreads();
        for (int i = 0; i < 4; ++i)
            key[i] = tile[4 * t + i];
    }

    for (int place = t; place < TILE; place += THREADS) {
        const unsigned digit = tile[place] >> shift & DIGITS - 1;
        if (place == 0 || digit != (tile[place - 1] >> shift & DIGITS - 1))
            starts[digit] = place;
    }
    __syncthreads();
    for (int place = t; place < TILE; place += THREADS) {
        const unsigned digit = tile[place] >> shift & DIGITS - 1;
        sorted[offsets[digit * gridDim.x + blockIdx.x] * room + place - starts[digit]] = tile[place];
    }
}
