// C = A * B for square matrices whose size is a multiple of TILE, with tiles in shared memory.
template <int TILE>
__global__ void matmul_tiled(const float *A, const float *B, float *C, int size)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;

    for (int start = 0; start < size; start += TILE) {
        tileA[threadIdx.y][threadIdx.x] = A[row * size + start + threadIdx.x];
        tileB[threadIdx.y][threadIdx.x] = B[(start + threadIdx.y) * size + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += tileA[threadIdx.y][k] * tileB[k][threadIdx.x];
        __syncthreads();
    }
    C[row * size + column] = sum;
}
