// Asks NVIDIA's own cuda_occupancy.h how many blocks fit on an SM, for random and for edge configurations.
// Prints tests/golden/occupancy.csv. The header is only included: nothing of it is part of this project.
#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "cuda_occupancy.h"

namespace {

constexpr int kConfigurations = 450;

// Limits as the programming guide gives them; the header takes them from the device.
struct Device {
  int major, minor, threads_per_sm, registers_per_thread;
  size_t shared_per_sm, shared_optin, shared_reserved;
};

constexpr Device kDevices[] = {
    {3, 0, 2048, 63, 48 << 10, 48 << 10, 0},         {3, 5, 2048, 255, 48 << 10, 48 << 10, 0},
    {5, 2, 2048, 255, 96 << 10, 48 << 10, 0},        {6, 0, 2048, 255, 64 << 10, 48 << 10, 0},
    {7, 0, 2048, 255, 96 << 10, 96 << 10, 0},        {7, 5, 1024, 255, 64 << 10, 64 << 10, 0},
    {8, 0, 2048, 255, 164 << 10, 163 << 10, 1 << 10}, {8, 6, 1536, 255, 100 << 10, 99 << 10, 1 << 10},
    {8, 9, 1536, 255, 100 << 10, 99 << 10, 1 << 10},  {9, 0, 2048, 255, 228 << 10, 227 << 10, 1 << 10},
};

struct Request {
  int threads, registers, barriers;
  size_t static_shared, dynamic_shared;
};

// The generator's raw output is the same on every platform; a distribution's is not.
int below(std::mt19937 &random, int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); }

Request draw(std::mt19937 &random, const Device &device) {
  Request request{};
  switch (below(random, 4)) {
    case 0: request.threads = 1 + below(random, 1100); break;  // some are over the limit of 1024
    case 1: request.threads = 32 << below(random, 6); break;
    default: request.threads = 32 * (1 + below(random, 32)); break;
  }
  // Two thirds are of the size that compilers give; the rest may be anything.
  const int end = below(random, 3) ? std::min(97, device.registers_per_thread + 1) : device.registers_per_thread + 1;
  request.registers = below(random, end);
  const int optin = static_cast<int>(device.shared_optin);
  switch (below(random, 5)) {
    case 0: break;
    case 1: request.static_shared = below(random, 4096); break;
    case 2: request.static_shared = below(random, 49153); break;
    case 3: request.dynamic_shared = below(random, optin + 2048); break;
    default:
      request.static_shared = below(random, 16384);
      request.dynamic_shared = optin - 256 * below(random, 3) + below(random, 3) - 1 - request.static_shared;
  }
  request.barriers = below(random, 4) ? 1 : below(random, 17);
  return request;
}

cudaOccDeviceProp properties_of(const Device &device) {
  cudaOccDeviceProp properties;
  properties.computeMajor = device.major;
  properties.computeMinor = device.minor;
  properties.maxThreadsPerBlock = 1024;
  properties.maxThreadsPerMultiprocessor = device.threads_per_sm;
  properties.regsPerBlock = 65536;
  properties.regsPerMultiprocessor = 65536;
  properties.warpSize = 32;
  properties.sharedMemPerBlock = 48 << 10;
  properties.sharedMemPerMultiprocessor = device.shared_per_sm;
  properties.numSms = 1;
  properties.sharedMemPerBlockOptin = device.shared_optin;
  properties.reservedSharedMemPerBlock = device.shared_reserved;
  return properties;
}

std::string text(int limit) { return limit == INT_MAX ? "" : std::to_string(limit); }

void record(const Device &device, const Request &request) {
  const cudaOccDeviceProp properties = properties_of(device);
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = INT_MAX;
  attributes.numRegs = request.registers;
  attributes.sharedSizeBytes = request.static_shared;
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = request.dynamic_shared;
  attributes.numBlockBarriers = request.barriers;
  const cudaOccDeviceState state;
  cudaOccResult result;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state, request.threads,
                                              request.dynamic_shared) != CUDA_OCC_SUCCESS) {
    std::fprintf(stderr, "cuda_occupancy.h refuses compute capability %d.%d\n", device.major, device.minor);
    std::exit(1);
  }
  std::printf("%d.%d,%d,%d,%zu,%zu,%d,%d,%s,%s,%s,%s,%s\n", device.major, device.minor, request.threads,
              request.registers, request.static_shared, request.dynamic_shared, request.barriers,
              result.activeBlocksPerMultiprocessor, text(result.blockLimitWarps).c_str(),
              text(result.blockLimitRegs).c_str(), text(result.blockLimitSharedMem).c_str(),
              text(result.blockLimitBlocks).c_str(), text(result.blockLimitBarriers).c_str());
}

}  // namespace

int main() {
  std::printf("cc,threads,registers,static_shared,dynamic_shared,barriers,blocks,");
  std::printf("warps_limit,registers_limit,shared_limit,blocks_limit,barriers_limit\n");
  std::mt19937 random(20240607);
  for (const Device &device : kDevices) {
    for (int i = 0; i < kConfigurations; ++i) record(device, draw(random, device));
    // What a full SM takes, and one register more.
    for (int registers : {32, 33, 40, 41, 64, 65, 128, 129, 168, 255})
      record(device, {1024, std::min(registers, device.registers_per_thread), 1, 0, 0});
  }
}
