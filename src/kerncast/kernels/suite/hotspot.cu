// Heat in a chip: `steps` time steps of a 5-point stencil on temperatures with a power map.
// Equivalent of Rodinia's hotspot. Each block loads a tile with a halo of `steps` cells and computes all steps in
// shared memory while its valid part shrinks, so that outer threads idle more and more. Sums are in double.
#define TILE 16
#define AMBIENT 80.0f

__global__ void hotspot_steps(int steps, const float *power, const float *before, float *after, int columns, int rows,
                              int border, float capacity, float resist_x, float resist_y, float resist_z, float step)
{
    __shared__ float heat[TILE][TILE], source[TILE][TILE], result[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const float scale = step / capacity;
    const float per_x = 1 / resist_x, per_y = 1 / resist_y, per_z = 1 / resist_z;

    const int inner = TILE - 2 * steps;
    const int top = inner * blockIdx.y - border, left = inner * blockIdx.x - border;
    const int row = top + ty, column = left + tx;
    const int cell = row * columns + column;
    const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
    if (inside) {
        heat[ty][tx] = before[cell];
        source[ty][tx] = power[cell];
    }
    __syncthreads();

    // Neighbours, held inside the chip: its edges reflect.
    const int north = max(ty - 1, max(-top, 0)), south = min(ty + 1, min(rows - 1 - top, TILE - 1));
    const int west = max(tx - 1, max(-left, 0)), east = min(tx + 1, min(columns - 1 - left, TILE - 1));

    bool computed = false;
    for (int i = 0; i < steps; ++i) {
        computed = inside && tx > i && tx < TILE - 1 - i && ty > i && ty < TILE - 1 - i;
        if (computed) {
            const float here = heat[ty][tx];
            result[ty][tx] = here + scale * (source[ty][tx]
                                             + (heat[south][tx] + heat[north][tx] - 2.0 * here) * per_y
                                             + (heat[ty][east] + heat[ty][west] - 2.0 * here) * per_x
                                             + (AMBIENT - here) * per_z);
        }
        __syncthreads();
        if (i == steps - 1)
            break;
        if (computed)
            heat[ty][tx] = result[ty][tx];
        __syncthreads();
    }
    if (computed)
        after[cell] = result[ty][tx];
}
