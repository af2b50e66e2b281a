// Convolves an image with a 3 x 3 filter where the filter fits, one pixel per thread. The conv2d_3x3 of the suite of
// 16 kernels (docs/suite.md): pixels and weights come from global memory; neighbours share most of them in the caches.
constexpr int WIDTH = 3;

__global__ void conv2d_3x3(const float *image, const float *weights, float *filtered, int height, int width)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > width - WIDTH || y > height - WIDTH)
        return;

    float sum = 0.0f;
    for (int dy = 0; dy < WIDTH; ++dy)
        for (int dx = 0; dx < WIDTH; ++dx)
            sum += weights[dy * WIDTH + dx] * image[(y + dy) * width + x + dx];
    filtered[y * width + x] = sum;
}
