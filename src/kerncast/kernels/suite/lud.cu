// One step of a blocked LU decomposition in place, without pivoting: diagonal tile, its row and column, the rest.
// Equivalent of Rodinia's lud. The first kernel is one block of 16 threads; the second has one warp per block, whose
// halves do different work one after the other; the third is a small matrix product in shared memory.
#define TILE 16

// Rodinia's build asks for approximate division (-use_fast_math).
#ifdef FAST_DIVISION
#define QUOTIENT(a, b) __fdividef(a, b)
#else
#define QUOTIENT(a, b) ((a) / (b))
#endif

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
            tile[tx][i] = QUOTIENT(tile[tx][i], tile[i][i]);
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
            beside[lane][i] = QUOTIENT(beside[lane][i], diagonal[i][i]);
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

__global__ void lud_internal(float *matrix, int size, int offset)
{
    __shared__ float above[TILE][TILE], beside[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = offset + (blockIdx.y + 1) * TILE + ty;
    const int column = offset + (blockIdx.x + 1) * TILE + tx;

    above[ty][tx] = matrix[(offset + ty) * size + column];
    beside[ty][tx] = matrix[row * size + offset + tx];
    __syncthreads();

    float sum = 0.0f;
    for (int i = 0; i < TILE; ++i)
        sum += beside[ty][i] * above[i][tx];
    matrix[row * size + column] -= sum;
}
