// B = transposed A, one element per thread. The naive_transpose of the suite of 16 kernels (docs/suite.md): rows are
// read coalesced, columns are written with a stride of a whole row.
__global__ void naive_transpose(const float *A, float *B, int rows, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        B[column * rows + row] = A[row * columns + column];
}
