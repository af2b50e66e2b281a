// B = transposed A by way of a tile in shared memory, one element per thread. The shared_transpose of the suite of 16
// kernels (docs/suite.md): reads and writes are coalesced; the spare column keeps a tile's columns free of conflicts.
template <int TILE>
__global__ void shared_transpose(const float *A, float *B, int rows, int columns)
{
    __shared__ float tile[TILE][TILE + 1];
    const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    const int x = threadIdx.x, y = threadIdx.y;

    if (top + y < rows && left + x < columns)
        tile[y][x] = A[(top + y) * columns + left + x];
    __syncthreads();
    if (left + y < columns && top + x < rows)
        B[(left + y) * rows + top + x] = tile[x][y];
}
