// DRAM bandwidth by streaming: read, init (write), copy, triad. The buffers are several times larger than L2.
//
// The compiler cannot remove the loads: their sum decides whether something is written, and only the data, which are
// never negative, keep it from that. Nor the stores: the buffers outlive the kernel.
// Limited by the DRAM interface where enough bytes are in flight: UNROLL x 16 per thread. Where they are not (small
// grids, few SMs), another launch shape is better, which is why several are tried.
// `count` is a multiple of UNROLL times the threads of a row of the grid; each row streams through all of the buffers.

#ifndef UNROLL
#define UNROLL 4
#endif

// Sets up buffers: floats in [0.5, 1) whose bits look random, since zeros would need less power.
__device__ uint4 values_of(unsigned index) {
    const unsigned bits = index * 2654435761u;
    return make_uint4(0x3f000000u | (bits & 0x7fffffu), 0x3f000000u | (bits >> 9), 0x3f000000u | (~bits & 0x7fffffu),
                      0x3f000000u | (~bits >> 9));
}

extern "C" __global__ void dram_fill(uint4 *a, unsigned count) {
    const unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) a[i] = values_of(i);
}

extern "C" __global__ void dram_fill_two(uint4 *a, uint4 *b, unsigned count) {
    const unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        a[i] = values_of(i);
        b[i] = values_of(~i);
    }
}

extern "C" __global__ void dram_read(const float4 *a, float *out, unsigned count) {
    const unsigned stride = gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += UNROLL * stride) {
        float4 value[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) value[k] = a[i + k * stride];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) sum += (value[k].x + value[k].y) + (value[k].z + value[k].w);
    }
    if (sum < 0.0f) out[0] = sum;
}

extern "C" __global__ void dram_init(float4 *b, float value, unsigned count) {
    const unsigned stride = gridDim.x * blockDim.x;
    const float4 values = make_float4(value, -value, 0.5f * value, -0.5f * value);
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += UNROLL * stride) {
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) b[i + k * stride] = values;
    }
}

extern "C" __global__ void dram_copy(const float4 *a, float4 *b, unsigned count) {
    const unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += UNROLL * stride) {
        float4 value[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) value[k] = a[i + k * stride];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) b[i + k * stride] = value[k];
    }
}

extern "C" __global__ void dram_triad(const float4 *a, const float4 *b, float4 *c, float factor, unsigned count) {
    const unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += UNROLL * stride) {
        float4 x[UNROLL], y[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
            x[k] = a[i + k * stride];
            y[k] = b[i + k * stride];
        }
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
            c[i + k * stride] = make_float4(x[k].x + factor * y[k].x, x[k].y + factor * y[k].y,
                                            x[k].z + factor * y[k].z, x[k].w + factor * y[k].w);
        }
    }
}
