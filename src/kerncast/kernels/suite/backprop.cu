// One hidden layer of a perceptron: the forward pass to 16 hidden units and the update of its weights.
// Equivalent of Rodinia's backprop. Each block has 16 inputs times 16 hidden units; the sum over its inputs halves the
// active rows step by step. The step widths come from powf, and the learning rate and the momentum are double.
#define TILE 16

__global__ void backprop_layerforward(const float *input, float *weights, float *partial_sums, int hidden)
{
    __shared__ float node[TILE];
    __shared__ float product[TILE][TILE];
    const int column = threadIdx.x, row = threadIdx.y;
    const int unit = TILE * blockIdx.y + row + 1; // row 0 holds the bias
    const int weight = unit * (hidden + 1) + column + 1;

    if (column == 0)
        node[row] = input[unit];
    __syncthreads();
    product[row][column] = weights[weight];
    __syncthreads();
    product[row][column] *= node[row];
    __syncthreads();

    for (int level = 1; level <= __log2f(TILE); ++level) {
        const int width = __powf(2, level);
        if (row % width == 0)
            product[row][column] += product[row + width / 2][column];
        __syncthreads();
    }

    weights[weight] = product[row][column];
    __syncthreads();
    if (column == 0)
        partial_sums[blockIdx.y * hidden + row] = product[0][row];
}

__global__ void backprop_adjust_weights(const float *delta, int hidden, const float *layer, float *weights,
                                        float *previous)
{
    constexpr double rate = 0.3, momentum = 0.3;
    const int column = threadIdx.x + 1;
    const int unit = TILE * blockIdx.y + threadIdx.y + 1;
    const int weight = unit * (hidden + 1) + column;

    weights[weight] += rate * delta[column] * layer[unit] + momentum * previous[weight];
    previous[weight] = rate * delta[column] * layer[unit] + momentum * previous[weight];
    __syncthreads();

    if (threadIdx.y == 0 && blockIdx.y == 0) { // the bias
        weights[column] += rate * delta[column] + momentum * previous[column];
        previous[column] = rate * delta[column] + momentum * previous[column];
    }
}
