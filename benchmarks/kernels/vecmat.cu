// Equivalents, written from their names and signatures, of the vector and matrix kernels of gpuperfpredict.

__global__ void vectorAdd(const float *a, const float *b, float *c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

__global__ void matrix_sum_coalesced(float *a, float *b, float *c, int size)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < size && column < size)
        c[row * size + column] = a[row * size + column] + b[row * size + column];
}

__global__ void matMul_gpu(float *a, float *b, float *c, int size)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < size; ++k)
        sum += a[row * size + k] * b[k * size + column];
    c[row * size + column] = sum;
}

__global__ void matMul_gpu_uncoalesced(float *a, float *b, float *c, int size)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < size; ++k)
        sum += a[row * size + k] * b[k * size + column];
    c[row * size + column] = sum;
}

#ifndef TILE
#define TILE 16
#endif

__global__ void matMul_gpu_sharedmem(float *a, float *b, float *c, int size)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    const int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    float sum = 0.0f;
    for (int start = 0; start < size; start += TILE) {
        tileA[threadIdx.y][threadIdx.x] = a[row * size + start + threadIdx.x];
        tileB[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * size + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += tileA[threadIdx.y][k] * tileB[k][threadIdx.x];
        __syncthreads();
    }
    c[row * size + column] = sum;
}
