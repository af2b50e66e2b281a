// Asks NVIDIA's cuda_occupancy.h, executed as device code, one configuration per thread.
// The header is only included: nothing of it is part of this project.
#include <cuda_occupancy.h>

constexpr int kAsked = 20, kAnswered = 10;

extern "C" __global__ void answer(const int *asked, int *answered, int count) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= count) return;
  const int *q = asked + kAsked * thread;

  cudaOccDeviceProp device;
  device.computeMajor = q[0];
  device.computeMinor = q[1];
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = q[2];
  device.regsPerMultiprocessor = q[3];
  device.regsPerBlock = q[4];
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = q[5];
  device.sharedMemPerBlockOptin = q[6];
  device.reservedSharedMemPerBlock = q[7];
  device.numSms = 1;

  cudaOccFuncAttributes kernel;
  kernel.maxThreadsPerBlock = q[16];
  kernel.numRegs = q[9];
  kernel.sharedSizeBytes = q[10];
  kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  kernel.maxDynamicSharedSizeBytes = q[11];
  kernel.numBlockBarriers = q[12];

  cudaOccDeviceState state;
  state.carveoutConfig = q[13];
  state.cacheConfig = static_cast<cudaOccCacheConfig>(q[14]);

  int *a = answered + kAnswered * thread;
  cudaOccResult result;
  a[0] = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, q[8], q[11]);
  a[1] = result.activeBlocksPerMultiprocessor;
  a[2] = result.blockLimitWarps;
  a[3] = result.blockLimitRegs;
  a[4] = result.blockLimitSharedMem;
  a[5] = result.blockLimitBlocks;
  a[6] = result.blockLimitBarriers;
  a[7] = result.limitingFactors;
  a[8] = a[9] = 0;
  if (q[15]) cudaOccMaxPotentialOccupancyBlockSize(a + 9, a + 8, &device, &kernel, &state, (size_t)q[11]);
}
