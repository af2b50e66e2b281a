// Heat in a bar, to equilibrium: a whole program with a loop that its own results end.
//   kerncast run examples/programs/heat.cu --gpu h100-sxm --gpu t4 -- 1048576 200
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void step(const float *now, float *next, int n, float rate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float left = now[i > 0 ? i - 1 : i], right = now[i < n - 1 ? i + 1 : i];
  next[i] = now[i] + rate * (left - 2 * now[i] + right);
}

__global__ void largest_change(const float *now, const float *next, int n, int *largest) {
  float mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    mine = fmaxf(mine, fabsf(now[i] - next[i]));
  for (int lane = 16; lane; lane /= 2) mine = fmaxf(mine, __shfl_down_sync(~0u, mine, lane));
  // Floats that are not negative are in the order of their bits.
  if (threadIdx.x % 32 == 0) atomicMax(largest, __float_as_int(mine));
}

static void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(error));
  exit(1);
}

int main(int count, char **words) {
  int n = count > 1 ? atoi(words[1]) : 1 << 20, steps = 0, most = count > 2 ? atoi(words[2]) : 100;
  std::vector<float> bar(n);
  for (int i = 0; i < n; i++) bar[i] = i % 64 < 32 ? 1.f : 0.f;
  float *now, *next, change = 1;
  int *largest;
  check(cudaMalloc(&now, n * sizeof(float)));
  check(cudaMalloc(&next, n * sizeof(float)));
  check(cudaMalloc(&largest, sizeof(int)));
  check(cudaMemcpy(now, bar.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  auto begin = std::chrono::steady_clock::now();
  for (; steps < most && change > 1e-3f; steps++) {
    step<<<(n + 255) / 256, 256>>>(now, next, n, 0.25f);
    if (steps % 10 == 9) {
      check(cudaMemset(largest, 0, sizeof(int)));
      largest_change<<<256, 256>>>(now, next, n, largest);
      check(cudaMemcpy(&change, largest, sizeof(int), cudaMemcpyDeviceToHost));
    }
    std::swap(now, next);
  }
  check(cudaDeviceSynchronize());
  double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  std::vector<float> found(n);
  check(cudaMemcpy(found.data(), now, n * sizeof(float), cudaMemcpyDeviceToHost));
  double before = 0, after = 0;
  for (int i = 0; i < n; i++) before += bar[i], after += found[i];
  bool is_kept = fabs(after / before - 1) < 1e-5;
  printf("%s: %d steps in %.3f ms, %.1f GB/s\n", is_kept ? "PASS" : "FAIL: heat was lost", steps, ms,
         8e-6 * n * steps / ms);
  return is_kept ? 0 : 1;
}
