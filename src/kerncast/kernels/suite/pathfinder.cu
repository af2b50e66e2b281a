// The cheapest ways down a grid of weights: each row adds the least of three neighbours in the row above.
// Equivalent of Rodinia's pathfinder. A block computes `steps` rows of its columns in shared memory; the ghost zones
// at both ends shrink by one column per row, so that the blocks overlap and outer threads idle.
#define WIDTH 256

__global__ void pathfinder_rows(int steps, const int *wall, const int *before, int *after, int columns, int start,
                                int border)
{
    __shared__ int least[WIDTH], result[WIDTH];
    const int tx = threadIdx.x;
    const int left = (WIDTH - 2 * steps) * blockIdx.x - border;
    const int column = left + tx;
    const bool inside = column >= 0 && column < columns;
    const int west = max(tx - 1, max(-left, 0)), east = min(tx + 1, min(columns - 1 - left, WIDTH - 1));

    if (inside)
        least[tx] = before[column];
    __syncthreads();

    bool computed = false;
    for (int i = 0; i < steps; ++i) {
        computed = inside && tx > i && tx < WIDTH - 1 - i;
        if (computed)
            result[tx] = min(min(least[west], least[tx]), least[east]) + wall[columns * (start + i) + column];
        __syncthreads();
        if (i == steps - 1)
            break;
        if (computed)
            least[tx] = result[tx];
        __syncthreads();
    }
    if (computed)
        after[column] = result[tx];
}
