// A blur of an image and the sum of its pixels, with the host code that such files have.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define TILE 16
#define CHECK(call) do { if ((call) != cudaSuccess) { fprintf(stderr, "failed\n"); exit(1); } } while (0)

__constant__ float weights[9];

__global__ void blur(const float *in, float *out, int width, int height) {
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  float sum = 0;
  for (int j = -1; j <= 1; j++)
    for (int i = -1; i <= 1; i++) sum += weights[(j + 1) * 3 + i + 1] * in[(y + j) * width + x + i];
  out[y * width + x] = sum;
}

template <class T, int BLOCK> __global__ void sum(const T *in, T *out, int n) {
  __shared__ T part[BLOCK];
  int i = blockIdx.x * BLOCK + threadIdx.x;
  part[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

__global__ void scale(float *x, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}

static int divide_up(int a, int b) { return (a + b - 1) / b; }

template <class T> void total(const T *image, int n) {
  const int block = 256;
  T *result;
  CHECK(cudaMalloc(&result, sizeof(T)));
  CHECK(cudaMemset(result, 0, sizeof(T)));
  sum<T, block><<<divide_up(n, block), block>>>(image, result, n);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    printf("usage: %s width height\n", argv[0]);
    return 1;
  }
  const int width = atoi(argv[1]), height = atoi(argv[2]);
  std::vector<float> host(width * height, 1.0f), table(9, 1.0f / 9);
  const size_t bytes = host.size() * sizeof(float);
  float *in, *out;
  CHECK(cudaMalloc((void **)&in, bytes));
  CHECK(cudaMalloc((void **)&out, bytes));
  CHECK(cudaMemcpy(in, host.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyToSymbol(weights, table.data(), sizeof(weights)));

  dim3 block(TILE, TILE);
  dim3 grid(divide_up(width, TILE), divide_up(height, TILE));
  for (int pass = 0; pass < 10; pass++) blur<<<grid, block>>>(in, out, width, height);
  total(out, width * height);

  float by;
  if (scanf("%f", &by) == 1) scale<<<divide_up(width * height, 256), 256>>>(out, width * height, by);
  return 0;
}
