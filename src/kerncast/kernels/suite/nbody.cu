// One step of a gravitational N-body simulation, all pairs, one body per thread. Equivalent of the n-body program of
// the CUDA samples. A block loads positions into shared memory tile by tile; every thread reads the same body of the
// tile at the same time (broadcast). Bound by arithmetic and the reciprocal square root.
#ifndef TILE
#define TILE 256
#endif

__device__ float3 pull(float3 acceleration, float4 here, float4 there, float softening)
{
    const float dx = there.x - here.x, dy = there.y - here.y, dz = there.z - here.z;
    const float distance2 = dx * dx + dy * dy + dz * dz + softening;
    const float inverse = rsqrtf(distance2);
    const float strength = there.w * inverse * inverse * inverse;
    acceleration.x += dx * strength;
    acceleration.y += dy * strength;
    acceleration.z += dz * strength;
    return acceleration;
}

// The fourth component of a position is the mass. New positions go to a second array: other blocks still read the old.
__global__ void nbody_step(const float4 *position, float4 *next, float4 *velocity, int bodies, float dt,
                           float softening)
{
    __shared__ float4 tile[TILE];
    const int body = blockIdx.x * TILE + threadIdx.x;
    const float4 here = position[body];
    float3 acceleration = make_float3(0.0f, 0.0f, 0.0f);

    for (int start = 0; start < bodies; start += TILE) {
        tile[threadIdx.x] = position[start + threadIdx.x];
        __syncthreads();
#pragma unroll 32
        for (int i = 0; i < TILE; ++i)
            acceleration = pull(acceleration, here, tile[i], softening);
        __syncthreads();
    }

    float4 speed = velocity[body];
    speed.x += acceleration.x * dt;
    speed.y += acceleration.y * dt;
    speed.z += acceleration.z * dt;
    velocity[body] = speed;
    next[body] = make_float4(here.x + speed.x * dt, here.y + speed.y * dt, here.z + speed.z * dt, here.w);
}
