// Particles fly through a slab of cells until they are absorbed or leave it; each thread follows whole histories.
// Equivalent of the tracking loop of Quicksilver, with the cross-section look-up of XSBench: a binary search in an
// energy grid. Low warp use, as histories differ in length and in what happens; scattered loads; atomic tallies.

__device__ float uniform(unsigned &state)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return ((state >> 9) + 0.5f) / 8388608.0f;
}

__device__ unsigned first_state(unsigned particle)
{
    unsigned mixed = (particle + 1u) * 2654435761u;
    mixed = (mixed ^ mixed >> 15) * 2246822519u;
    return (mixed ^ mixed >> 13) | 1u;
}

__device__ int find_energy(const float *energies, int points, float energy)
{
    int low = 0, high = points - 1;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (energies[middle] <= energy)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Cross sections per unit of length stand in two tables, one row per material and one column per energy.
__global__ void monte_carlo_transport(const float *energies, const float *absorption, const float *scattering,
                                      const int *material, float *flux, float *absorbed, float *leaked, int points,
                                      int cells, int particles)
{
    const int threads = gridDim.x * blockDim.x;
    for (int particle = blockIdx.x * blockDim.x + threadIdx.x; particle < particles; particle += threads) {
        unsigned state = first_state(particle);
        float energy = uniform(state) * (points - 1), direction = 1.0f, within = 0.0f;  // cells are 1 wide
        int cell = 0;

        while (cell >= 0 && cell < cells) {
            const int low = find_energy(energies, points, energy), entry = material[cell] * points + low;
            const float share = (energy - energies[low]) / (energies[low + 1] - energies[low]);
            const float absorb = absorption[entry] + share * (absorption[entry + 1] - absorption[entry]);
            const float scatter = scattering[entry] + share * (scattering[entry + 1] - scattering[entry]);
            const float to_collision = -logf(uniform(state)) / (absorb + scatter);
            const float to_edge = ((direction > 0.0f ? 1.0f : 0.0f) - within) / direction;

            if (to_edge <= to_collision) {
                atomicAdd(&flux[cell], to_edge);
                within = direction > 0.0f ? 0.0f : 1.0f;
                cell += direction > 0.0f ? 1 : -1;
                continue;
            }
            atomicAdd(&flux[cell], to_collision);
            within += direction * to_collision;
            if (uniform(state) * (absorb + scatter) < absorb) {
                atomicAdd(&absorbed[cell], 1.0f);
                break;
            }
            direction = 2.0f * uniform(state) - 1.0f;
            energy *= 0.25f + 0.75f * uniform(state);
        }
        if (cell < 0 || cell >= cells)
            atomicAdd(&leaked[cell < 0 ? 0 : 1], 1.0f);
    }
}
