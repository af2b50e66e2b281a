// Potentials and forces between particles in neighbouring boxes, one box per block, one particle per thread.
// Equivalent of Rodinia's lavaMD. The neighbour's particles pass through shared memory; each pair costs a double
// exponential. 28 of the 128 threads are idle. The list of neighbours is computed, not loaded.
#define PARTICLES 100

struct Particle {
    double v, x, y, z;
};

__global__ void lavamd_forces(const int *box_number, const Particle *positions, const double *charges,
                              Particle *forces, double alpha, int boxes_x, int boxes_y, int boxes_z)
{
    __shared__ Particle home[PARTICLES], other[PARTICLES];
    __shared__ double charge[PARTICLES];
    const double factor = 2.0 * alpha * alpha;
    const int box = blockIdx.x;
    const int x = box % boxes_x, y = box / boxes_x % boxes_y, z = box / (boxes_x * boxes_y);
    const int first = box_number[box] * PARTICLES;

    for (int i = threadIdx.x; i < PARTICLES; i += blockDim.x)
        home[i] = positions[first + i];
    __syncthreads();

    for (int shift = 0; shift < 27; ++shift) {
        const int nx = x + shift % 3 - 1, ny = y + shift / 3 % 3 - 1, nz = z + shift / 9 - 1;
        if (nx < 0 || nx >= boxes_x || ny < 0 || ny >= boxes_y || nz < 0 || nz >= boxes_z)
            continue;

        const int start = box_number[(nz * boxes_y + ny) * boxes_x + nx] * PARTICLES;
        for (int i = threadIdx.x; i < PARTICLES; i += blockDim.x) {
            other[i] = positions[start + i];
            charge[i] = charges[start + i];
        }
        __syncthreads();

        for (int i = threadIdx.x; i < PARTICLES; i += blockDim.x) {
            for (int j = 0; j < PARTICLES; ++j) {
                const double distance = home[i].v + other[j].v
                                        - (home[i].x * other[j].x + home[i].y * other[j].y + home[i].z * other[j].z);
                const double potential = exp(-factor * distance);
                const double force = 2 * potential;
                forces[first + i].v += charge[j] * potential;
                forces[first + i].x += charge[j] * (force * (home[i].x - other[j].x));
                forces[first + i].y += charge[j] * (force * (home[i].y - other[j].y));
                forces[first + i].z += charge[j] * (force * (home[i].z - other[j].z));
            }
        }
        __syncthreads();
    }
}
