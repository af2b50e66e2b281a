// The diagonal and the perimeter of the suite's lud with the approximate division that Rodinia's build asks for
// (-use_fast_math). Nothing else of them changes by it.
#define TILE 16

__global__ void lud_diagonal(float *matrix, int size, int offset)
{
    __shared__ float tile[TILE][TILE];
    const int tx = threadIdx.x;
    float *corner = matrix + offset * size + offset;

    for (int i = 0; i < TILE; ++i)
        tile[i][tx] = corner[i * size + tx];
    __syncthreads();

    for (int i = 0; i < TILE - 1; ++i) {
        if (tx > i) { // column i of L
            for (int j = 0; j < i; ++j)
                tile[tx][i] -= tile[tx][j] * tile[j][i];
            tile[tx][i] = __fdividef(tile[tx][i], tile[i][i]);
        }
        __syncthreads();
        if (tx > i) // row i + 1 of U
            for (int j = 0; j <= i; ++j)
                tile[i + 1][tx] -= tile[i + 1][j] * tile[j][tx];
        __syncthreads();
    }

    for (int i = 1; i < TILE; ++i) // the first row has not changed
        corner[i * size + tx] = tile[i][tx];
}

__global__ void lud_perimeter(float *matrix, int size, int offset)
{
    __shared__ float diagonal[TILE][TILE], above[TILE][TILE], beside[TILE][TILE];
    const bool upper = threadIdx.x < TILE;
    const int lane = threadIdx.x % TILE;
    const int away = (blockIdx.x + 1) * TILE;
    float *corner = matrix + offset * size + offset;

    if (upper) {
        for (int i = 0; i < TILE / 2; ++i)
            diagonal[i][lane] = corner[i * size + lane];
        for (int i = 0; i < TILE; ++i)
            above[i][lane] = corner[i * size + away + lane];
    } else {
        for (int i = TILE / 2; i < TILE; ++i)
            diagonal[i][lane] = corner[i * size + lane];
        for (int i = 0; i < TILE; ++i)
            beside[i][lane] = corner[(away + i) * size + lane];
    }
    __syncthreads();

    if (upper) {
        for (int i = 1; i < TILE; ++i)
            for (int j = 0; j < i; ++j)
                above[i][lane] -= diagonal[i][j] * above[j][lane];
    } else {
        for (int i = 0; i < TILE; ++i) {
            for (int j = 0; j < i; ++j)
                beside[lane][i] -= beside[lane][j] * diagonal[j][i];
            beside[lane][i] = __fdividef(beside[lane][i], diagonal[i][i]);
        }
    }
    __syncthreads();

    if (upper) {
        for (int i = 1; i < TILE; ++i)
            corner[i * size + away + lane] = above[i][lane];
    } else {
        for (int i = 0; i < TILE; ++i)
            corner[(away + i) * size + lane] = beside[i][lane];
    }
}
