// A convolution layer: Nn filters over Ni channels, with an activation at the end. The convolution_layer of the report
// on a performance model of convolution (docs/suite.md): a tile of one channel with its halo lies in shared memory, the
// weights come from global memory, blockIdx.z is the filter.
// SIZE is the edge of the output, K that of a filter, BLOCK that of a block; the input is padded by K.
template <int SIZE, int K, int Ni, int Nn, int BLOCK>
__global__ void convolution_layer(const float *synapse, const float *neuron_i, float *neuron_n)
{
    constexpr int PADDED = SIZE + K, TILE = BLOCK + K - 1;
    __shared__ float tile[TILE][TILE];
    const int left = blockIdx.x * BLOCK, top = blockIdx.y * BLOCK;
    const int x = left + threadIdx.x, y = top + threadIdx.y;
    const int filter = blockIdx.z;
    const bool inside = x < SIZE && y < SIZE && filter < Nn;
    float sum = 0.0f;

    for (int channel = 0; channel < Ni; ++channel) {
        for (int dy = threadIdx.y; dy < TILE; dy += BLOCK)
            for (int dx = threadIdx.x; dx < TILE; dx += BLOCK)
                if (top + dy < PADDED && left + dx < PADDED)
                    tile[dy][dx] = neuron_i[(channel * PADDED + top + dy) * PADDED + left + dx];
        __syncthreads();
        if (inside)
            for (int ky = 0; ky < K; ++ky)
                for (int kx = 0; kx < K; ++kx)
                    sum += synapse[((filter * Ni + channel) * K + ky) * K + kx]
                         * tile[threadIdx.y + ky][threadIdx.x + kx];
        __syncthreads();  // the next channel overwrites the tile
    }
    if (inside)
        neuron_n[(filter * SIZE + y) * SIZE + x] = sum > 0.0f ? sum : sum / 4;
}
