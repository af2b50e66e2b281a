// Equivalent of the convolution layer that a published model of a TITAN V is compared with: one output per thread, one
// output channel per block in z, and for each input channel the block's input with its border in shared memory.
// Macros: NI, NN (channels), NX, NY (outputs), K (filter width and height), BLOCK_X, BLOCK_Y (threads).
// The weights are ordered [NN][NI][K][K], the input [NI][NY + K - 1][NX + K - 1], the output [NN][NY][NX].

#define HELD_X (BLOCK_X + K - 1)
#define HELD_Y (BLOCK_Y + K - 1)
#define INPUT_WIDTH (NX + K - 1)
#define INPUT_HEIGHT (NY + K - 1)

// Leaky rectifier, as the layer's benchmark suite has it.
__device__ float transfer(float x)
{
    return x > 0.0f ? x : x / 4.0f;
}

__global__ void convolution_layer(const float *synapse, const float *neuron_i, float *neuron_n)
{
    __shared__ float held[HELD_Y][HELD_X];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int left = blockIdx.x * blockDim.x, top = blockIdx.y * blockDim.y, n = blockIdx.z;
    const int x = left + tx, y = top + ty;
    float sum = 0.0f;

    for (int i = 0; i < NI; i++) {
        for (int dy = ty; dy < HELD_Y; dy += blockDim.y)
            for (int dx = tx; dx < HELD_X; dx += blockDim.x)
                if (top + dy < INPUT_HEIGHT && left + dx < INPUT_WIDTH)
                    held[dy][dx] = neuron_i[(i * INPUT_HEIGHT + top + dy) * INPUT_WIDTH + left + dx];
        __syncthreads();
        if (x < NX && y < NY && n < NN)
            for (int ky = 0; ky < K; ky++)
                for (int kx = 0; kx < K; kx++)
                    sum += synapse[((n * NI + i) * K + ky) * K + kx] * held[ty + ky][tx + kx];
        __syncthreads();
    }
    if (x < NX && y < NY && n < NN)
        neuron_n[(n * NY + y) * NX + x] = transfer(sum);
}
