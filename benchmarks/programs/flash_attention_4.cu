// Launches the forward kernel of FlashAttention-4 as CuTe DSL's host code does, and compares with attention in FP64.
//
//     flash_attention_4 FILE.ptx 80|100 BATCH SEQUENCE HEADS MULTIPROCESSORS CAUSAL
//
// docs/modern-kernels.md says how the PTX is made: of f16, with -D DEPTH=64 or 128 here. On sm_100 causal kernels have
// another scheduler, and so other parameters; kernels of up to 128 rows have smaller tiles: neither is launched here.

#include <cuda.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#ifndef DEPTH
#define DEPTH 64
#endif

static void must(CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s: error %d\n", what, static_cast<int>(result));
  std::exit(1);
}
#define MUST(call) must(call, #call)

// Parameters as in the PTX. Modes are (sequence, depth, head, batch); the depth has the stride 1, which is not passed.
struct Tensor {
  uint64_t place;
  int32_t shape[4];
  int64_t strides[3];
};

// Logarithms of the sums, of (sequence, head, batch).
struct Rows {
  uint64_t place;
  int32_t shape[3];
  int64_t strides[2];
};

// What remains of a tensor behind a tensor map.
struct Shape {
  int32_t extents[4];
};

// A division by multiplication: (high(n * multiplier) + (n - high) >> first) >> second.
struct Divisor {
  uint32_t divisor, multiplier;
  uint8_t first, second;
};
static_assert(sizeof(Tensor) == 48 && sizeof(Rows) == 40 && sizeof(Divisor) == 12, "as in the PTX");

static Divisor divisor_of(uint32_t value) {
  int bits = 0;
  while ((1ull << bits) < value) bits++;
  const uint64_t multiplier = (((1ull << bits) - value) << 32) / value + 1;
  return {value, static_cast<uint32_t>(multiplier), static_cast<uint8_t>(std::min(bits, 1)),
          static_cast<uint8_t>(std::max(bits - 1, 0))};
}

struct Problem {
  int batch, sequence, heads, multiprocessors;
  bool causal;
  CUdeviceptr places[4], rows;  // of Q, K, V and O; of the logarithms
  size_t count() const { return static_cast<size_t>(batch) * sequence * heads * DEPTH; }
  size_t at(int b, int s, int h) const { return ((static_cast<size_t>(b) * sequence + s) * heads + h) * DEPTH; }
};

static CUtensorMap map_of(const Problem &p, CUdeviceptr place, cuuint32_t tile) {
  const cuuint64_t sequence = p.sequence, heads = p.heads, batch = p.batch;
  const cuuint64_t extents[] = {DEPTH, sequence, heads, batch};
  const cuuint64_t strides[] = {heads * DEPTH * 2, DEPTH * 2, sequence * heads * DEPTH * 2};
  const cuuint32_t box[] = {64, tile, 1, 1}, steps[] = {1, 1, 1, 1};
  CUtensorMap map;
  MUST(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, reinterpret_cast<void *>(place), extents,
                              strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                              CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

static Rows rows_of(const Problem &p) {
  return {p.rows, {p.sequence, p.heads, p.batch}, {p.sequence, static_cast<int64_t>(p.heads) * p.sequence}};
}

static void allow(CUfunction kernel, unsigned bytes) {
  MUST(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes)));
}

static void launch_sm80(CUfunction kernel, const Problem &p, float scale) {
  const int64_t row = static_cast<int64_t>(p.heads) * DEPTH;
  uint32_t blocks = (p.sequence + 127) / 128, heads = p.heads, batch = p.batch;
  Tensor tensors[4];
  for (int i = 0; i < 4; i++)
    tensors[i] = {p.places[i], {p.sequence, DEPTH, p.heads, p.batch}, {row, DEPTH, p.sequence * row}};
  Rows rows = rows_of(p);
  Divisor one = divisor_of(1);
  void *arguments[] = {&tensors[0], &tensors[1], &tensors[2], &tensors[3], &rows,
                       &scale,      &blocks,     &heads,      &batch,      &one};
  const unsigned bytes = (128 + 2 * 64) * DEPTH * 2;  // of Q, K and V
  allow(kernel, bytes);
  MUST(cuLaunchKernel(kernel, blocks, heads, batch, 128, 1, 1, bytes, nullptr, arguments, nullptr));
}

static void launch_sm100(CUfunction kernel, const Problem &p, float scale) {
  const bool paired = DEPTH == 128 && p.sequence > 256;  // two blocks of a cluster make a product together
  const uint32_t rows_of_tile = paired ? 512 : 256;
  const uint32_t tiles = (p.sequence + rows_of_tile - 1) / rows_of_tile;
  CUtensorMap maps[4];
  Shape shapes[4];
  for (int i = 0; i < 4; i++) {
    maps[i] = map_of(p, p.places[i], i == 1 && paired ? 64 : 128);
    shapes[i] = {{p.sequence, DEPTH, p.heads, p.batch}};
  }
  shapes[2] = {{DEPTH, p.sequence, p.heads, p.batch}};
  Rows rows = rows_of(p);
  Divisor by_tiles = divisor_of(tiles), by_heads = divisor_of(p.heads);
  uint32_t total = tiles * p.heads * p.batch, one = 1;
  alignas(32) char product[64] = {};  // descriptions of the products, which nothing reads
  void *arguments[] = {&shapes[0], &shapes[1], &shapes[2], &shapes[3], &rows,     &maps[0],  &maps[1], &maps[2],
                       &maps[3],   &scale,     product,    product,    &by_tiles, &by_heads, &total,   &one};
  const unsigned bytes = 232448;
  allow(kernel, bytes);
  CUlaunchAttribute cluster = {};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim.x = 2;
  cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
  CUlaunchConfig launch = {};
  launch.gridDimX = std::min<uint32_t>(total * (paired ? 2 : 1), p.multiprocessors);
  launch.gridDimY = launch.gridDimZ = launch.blockDimY = launch.blockDimZ = 1;
  launch.blockDimX = 512;
  launch.sharedMemBytes = bytes;
  launch.attrs = &cluster;
  launch.numAttrs = paired;
  MUST(cuLaunchKernelEx(&launch, kernel, arguments, nullptr));
}

// Whether the results are those of a plain computation; what differs by NaN counts as different.
static bool is_right(const Problem &p, const std::vector<float> *values, const std::vector<float> &rows) {
  double worst = 0, largest = 0, worst_row = 0;
  std::vector<double> weights(p.sequence), output(DEPTH);
  const auto note = [](double away, double &most) {
    if (!(away <= most)) most = away;
  };
  for (int b = 0; b < p.batch; b++)
    for (int h = 0; h < p.heads; h++)
      for (int i = 0; i < p.sequence; i++) {
        const int keys = p.causal ? i + 1 : p.sequence;
        double top = -HUGE_VAL, sum = 0;
        std::fill(output.begin(), output.end(), 0.0);
        for (int j = 0; j < keys; j++) {
          double product = 0;
          for (int d = 0; d < DEPTH; d++) product += values[0][p.at(b, i, h) + d] * values[1][p.at(b, j, h) + d];
          weights[j] = product / std::sqrt(DEPTH);
          top = std::max(top, weights[j]);
        }
        for (int j = 0; j < keys; j++) {
          weights[j] = std::exp(weights[j] - top);
          sum += weights[j];
          for (int d = 0; d < DEPTH; d++) output[d] += weights[j] * values[2][p.at(b, j, h) + d];
        }
        for (int d = 0; d < DEPTH; d++) {
          note(std::fabs(values[3][p.at(b, i, h) + d] - output[d] / sum), worst);
          largest = std::max(largest, std::fabs(output[d] / sum));
        }
        note(std::fabs(rows[(b * p.heads + h) * p.sequence + i] - (top + std::log(sum))), worst_row);
      }
  std::printf("error %g of %g: %g; of the logarithms %g\n", worst, largest, worst / largest, worst_row);
  return worst <= 2e-3 * largest && worst_row <= 1e-4;
}

static CUfunction kernel_of(const char *path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string ptx = text.str();
  const size_t start = ptx.find(".entry ") + 7;
  CUmodule module;
  CUfunction kernel;
  MUST(cuModuleLoadData(&module, ptx.c_str()));
  MUST(cuModuleGetFunction(&kernel, module, ptx.substr(start, ptx.find('(', start) - start).c_str()));
  return kernel;
}

int main(int count, char **words) {
  if (count != 8) return std::printf("usage: %s FILE.ptx 80|100 BATCH SEQUENCE HEADS SMS CAUSAL\n", words[0]), 2;
  const bool is_sm80 = std::atoi(words[2]) == 80, causal = words[7][0] == '1';
  Problem p = {std::atoi(words[3]), std::atoi(words[4]), std::atoi(words[5]), std::atoi(words[6]), causal, {}, 0};
  if (!is_sm80 && (causal || p.sequence <= 128)) return std::printf("not of sm_100: see the head of the source\n"), 2;
  CUdevice device;
  CUcontext context;
  MUST(cuInit(0));
  MUST(cuDeviceGet(&device, 0));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  const CUfunction kernel = kernel_of(words[1]);
  std::vector<__half> halves(p.count());
  std::vector<float> values[4], rows(static_cast<size_t>(p.batch) * p.heads * p.sequence, NAN);
  unsigned seed = 1;
  for (int i = 0; i < 4; i++) {
    for (auto &each : halves) {
      float sum = 0;  // of four uniform numbers: nearly normal
      for (int j = 0; j < 4; j++) sum += ((seed = seed * 1664525u + 1013904223u) >> 8) / 16777216.0f - 0.5f;
      each = __float2half(i < 3 ? 1.7f * sum : NAN);
      values[i].push_back(__half2float(each));
    }
    MUST(cuMemAlloc(&p.places[i], p.count() * 2));
    MUST(cuMemcpyHtoD(p.places[i], halves.data(), p.count() * 2));
  }
  MUST(cuMemAlloc(&p.rows, rows.size() * 4));
  MUST(cuMemcpyHtoD(p.rows, rows.data(), rows.size() * 4));
  const float scale = std::sqrt(1.0f / DEPTH) * 1.4426950408889634f;  // of exponents of 2
  is_sm80 ? launch_sm80(kernel, p, scale) : launch_sm100(kernel, p, scale);
  MUST(cuCtxSynchronize());
  MUST(cuMemcpyDtoH(halves.data(), p.places[3], p.count() * 2));
  MUST(cuMemcpyDtoH(rows.data(), p.rows, rows.size() * 4));
  for (size_t i = 0; i < p.count(); i++) values[3][i] = __half2float(halves[i]);
  return is_right(p, values, rows) ? 0 : 1;
}
