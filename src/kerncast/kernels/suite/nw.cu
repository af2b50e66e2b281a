// Needleman-Wunsch alignment: the tiles of one anti-diagonal of the score matrix, before and after the longest one.
// Equivalent of Rodinia's nw. A block is 16 threads, half a warp; inside its tile it walks the anti-diagonals too,
// with a barrier after each, so that mostly few threads work and columns are read across rows.
#define TILE 16

__device__ void nw_cell(int (*score)[TILE + 1], const int (*match)[TILE], int row, int column, int penalty)
{
    const int diagonal = score[row - 1][column - 1] + match[row - 1][column - 1];
    const int gap = max(score[row][column - 1] - penalty, score[row - 1][column] - penalty);
    score[row][column] = max(diagonal, gap);
}

__device__ void nw_tile(const int *reference, int *scores, int stride, int penalty, int tile_row, int tile_column)
{
    __shared__ int score[TILE + 1][TILE + 1];
    __shared__ int match[TILE][TILE];
    const int tx = threadIdx.x;
    const int corner = stride * TILE * tile_row + TILE * tile_column;
    const int first = corner + stride + 1 + tx;

    if (tx == 0)
        score[0][0] = scores[corner];
    for (int row = 0; row < TILE; ++row)
        match[row][tx] = reference[first + row * stride];
    __syncthreads();
    score[tx + 1][0] = scores[corner + stride * (tx + 1)];
    __syncthreads();
    score[0][tx + 1] = scores[corner + tx + 1];
    __syncthreads();

    for (int active = 0; active < TILE; ++active) {
        if (tx <= active)
            nw_cell(score, match, active - tx + 1, tx + 1, penalty);
        __syncthreads();
    }
    for (int active = TILE - 2; active >= 0; --active) {
        if (tx <= active)
            nw_cell(score, match, TILE - tx, tx + TILE - active, penalty);
        __syncthreads();
    }

    for (int row = 0; row < TILE; ++row)
        scores[first + row * stride] = score[row + 1][tx + 1];
}

// Anti-diagonal `diagonal` (from 1) of the upper left half; one block per tile.
__global__ void nw_forward(const int *reference, int *scores, int stride, int penalty, int diagonal)
{
    nw_tile(reference, scores, stride, penalty, diagonal - 1 - blockIdx.x, blockIdx.x);
}

// The anti-diagonal of `diagonal` tiles of the lower right half; the matrix has `width` tiles a side.
__global__ void nw_backward(const int *reference, int *scores, int stride, int penalty, int diagonal, int width)
{
    nw_tile(reference, scores, stride, penalty, width - 1 - blockIdx.x, width - diagonal + blockIdx.x);
}
