// Forward Fourier transforms of single-precision complex numbers, in the Stockham order that needs no bit reversal.
// Equivalent of the FFT programs of Parboil and SHOC. fft_block keeps a whole transform of 1024 points in shared memory
// and uses radix 4; fft_pass is one radix-2 pass over a long transform in global memory. Sines come from sincosf.
#define POINTS 1024
#define QUARTER (POINTS / 4)

__device__ float2 add(float2 a, float2 b)
{
    return make_float2(a.x + b.x, a.y + b.y);
}

__device__ float2 subtract(float2 a, float2 b)
{
    return make_float2(a.x - b.x, a.y - b.y);
}

__device__ float2 turn(float2 a, float angle)
{
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    return make_float2(a.x * cosine - a.y * sine, a.x * sine + a.y * cosine);
}

// One transform per block of 256 threads; in each of the five passes a thread combines four points.
__global__ void fft_block(const float2 *input, float2 *output)
{
    __shared__ float2 points[POINTS];
    const int t = threadIdx.x, base = blockIdx.x * POINTS;
    float2 a = input[base + t], b = input[base + t + QUARTER];
    float2 c = input[base + t + 2 * QUARTER], d = input[base + t + 3 * QUARTER];

    for (int done = 1; done < POINTS; done *= 4) {
        const int within = t % done;
        const float angle = -6.2831853f * within / (4 * done);
        b = turn(b, angle);
        c = turn(c, 2.0f * angle);
        d = turn(d, 3.0f * angle);
        const float2 even = add(a, c), odd = subtract(a, c), sum = add(b, d), rest = subtract(b, d);
        const float2 quarter = make_float2(rest.y, -rest.x);  // times -i

        const int first = (t - within) * 4 + within;
        __syncthreads();
        points[first] = add(even, sum);
        points[first + done] = add(odd, quarter);
        points[first + 2 * done] = subtract(even, sum);
        points[first + 3 * done] = subtract(odd, quarter);
        __syncthreads();
        a = points[t];
        b = points[t + QUARTER];
        c = points[t + 2 * QUARTER];
        d = points[t + 3 * QUARTER];
    }

    output[base + t] = a;
    output[base + t + QUARTER] = b;
    output[base + t + 2 * QUARTER] = c;
    output[base + t + 3 * QUARTER] = d;
}

// One of log2(points) passes, one butterfly per thread; transforms of length done are complete before it.
__global__ void fft_pass(const float2 *input, float2 *output, int points, int done)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points / 2)
        return;
    const int within = i & (done - 1);
    const float2 a = input[i];
    const float2 b = turn(input[i + points / 2], -3.14159265f * within / done);
    const int first = 2 * (i - within) + within;
    output[first] = add(a, b);
    output[first + done] = subtract(a, b);
}
