// A blur with its host code: weights in constant memory, a template, a macro.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>

namespace image {

constexpr int RADIUS = 2;
__constant__ float weights[2 * RADIUS + 1];
__constant__ float gain;

template <typename T, int RADIUS_Y>
__global__ void blur(const T *in, T *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int dy = -RADIUS_Y; dy <= RADIUS_Y; dy++)
        for (int dx = -RADIUS; dx <= RADIUS; dx++) {
            int near_x = min(max(x + dx, 0), width - 1), near_y = min(max(y + dy, 0), height - 1);
            sum += weights[dx + RADIUS] * weights[dy + RADIUS] * in[near_y * width + near_x];
        }
    out[y * width + x] = T(gain * sum);
}

}  // namespace image

int main(int argc, char **argv) {
    const int width = 1920, height = 1080;
    const float weights[] = {0.06f, 0.24f, 0.40f, 0.24f, 0.06f};
    float gain = argc > 1 ? 2 : 1;
    std::vector<float> picture(width * height, 1.0f);
    float *in, *out;
    cudaMalloc(&in, picture.size() * sizeof(float));
    cudaMalloc(&out, picture.size() * sizeof(float));
    cudaMemcpy(in, picture.data(), picture.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(image::weights, weights, sizeof(weights));
    cudaMemcpyToSymbol(image::gain, &gain, sizeof(gain));
    dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
    image::blur<float, 2><<<grid, block>>>(in, out, width, height);
    cudaMemcpy(picture.data(), out, picture.size() * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%f\n", picture[0]);
    return 0;
}
