// One time step of Lagrangian hydrodynamics in one dimension, in five kernels, in double precision. Equivalent in one
// dimension of the Lagrangian step of CloverLeaf: a staggered mesh with artificial viscosity. Short streaming kernels
// that read a neighbour's value, and a reduction to the smallest stable step per block.

// Zones lie between nodes; node i is the left end of zone i. The gas is ideal.
__global__ void hydro1d_state(const double *density, const double *energy, double *pressure, double *sound,
                              double gamma, int zones)
{
    const int zone = blockIdx.x * blockDim.x + threadIdx.x;
    if (zone >= zones)
        return;
    const double p = (gamma - 1.0) * density[zone] * energy[zone];
    pressure[zone] = p;
    sound[zone] = sqrt(gamma * p / density[zone]);
}

// Only zones that are being compressed resist.
__global__ void hydro1d_viscosity(const double *velocity, const double *density, const double *sound, double *viscosity,
                                  double linear, double quadratic, int zones)
{
    const int zone = blockIdx.x * blockDim.x + threadIdx.x;
    if (zone >= zones)
        return;
    const double jump = velocity[zone + 1] - velocity[zone];
    double q = 0.0;
    if (jump < 0.0)
        q = density[zone] * jump * (quadratic * jump - linear * sound[zone]);
    viscosity[zone] = q;
}

// The ends are walls.
__global__ void hydro1d_accelerate(const double *pressure, const double *viscosity, const double *mass,
                                   double *velocity, double dt, int zones)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node > zones)
        return;
    if (node == 0 || node == zones) {
        velocity[node] = 0.0;
        return;
    }
    const double left = pressure[node - 1] + viscosity[node - 1], right = pressure[node] + viscosity[node];
    velocity[node] += dt * (left - right) / (0.5 * (mass[node - 1] + mass[node]));
}

// New places go to a second array, as the neighbour still reads the old one.
__global__ void hydro1d_move(const double *place, double *next, const double *velocity, const double *mass,
                             const double *pressure, const double *viscosity, double *density, double *energy,
                             double dt, int zones)
{
    const int zone = blockIdx.x * blockDim.x + threadIdx.x;
    if (zone >= zones)
        return;
    const double left = place[zone] + dt * velocity[zone], right = place[zone + 1] + dt * velocity[zone + 1];
    next[zone] = left;
    if (zone == zones - 1)
        next[zones] = right;
    const double work = (pressure[zone] + viscosity[zone]) * dt * (velocity[zone + 1] - velocity[zone]);
    energy[zone] = fmax(energy[zone] - work / mass[zone], 0.0);
    density[zone] = mass[zone] / (right - left);
}

// The smallest time a signal takes through a zone, over each block's share of the zones.
__global__ void hydro1d_timestep(const double *place, const double *velocity, const double *sound, double *smallest,
                                 double courant, int zones)
{
    __shared__ double least[256];
    const int t = threadIdx.x, all = gridDim.x * blockDim.x;
    double step = 1e30;
    for (int zone = blockIdx.x * blockDim.x + t; zone < zones; zone += all) {
        const double jump = fabs(velocity[zone + 1] - velocity[zone]);
        step = fmin(step, courant * (place[zone + 1] - place[zone]) / (sound[zone] + jump));
    }
    least[t] = step;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half)
            least[t] = fmin(least[t], least[t + half]);
        __syncthreads();
    }
    if (t == 0)
        smallest[blockIdx.x] = least[0];
}
