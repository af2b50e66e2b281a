/* Checks of errors and the choice of a device, as programs made after NVIDIA's samples use them. */
#ifndef COMMON_HELPER_CUDA_H_
#define COMMON_HELPER_CUDA_H_

#include <cuda_runtime.h>
#include <helper_string.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef MAX
#define MAX(a, b) (a > b ? a : b)
#endif

template <typename Status>
void check(Status status, const char *function, const char *file, int line) {
  if (!status) return;
  fprintf(stderr, "CUDA error at %s:%d code=%d (%s) \"%s\"\n", file, line, (int)status,
          cudaGetErrorName((cudaError_t)status), function);
  exit(EXIT_FAILURE);
}

inline void __getLastCudaError(const char *message, const char *file, int line) {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s(%d): error of CUDA: %s: (%d) %s\n", file, line, message, (int)error, cudaGetErrorString(error));
  exit(EXIT_FAILURE);
}

inline void __printLastCudaError(const char *message, const char *file, int line) {
  cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    fprintf(stderr, "%s(%d): error of CUDA: %s: (%d) %s\n", file, line, message, (int)error,
            cudaGetErrorString(error));
}

#define checkCudaErrors(value) check((value), #value, __FILE__, __LINE__)
#define getLastCudaError(message) __getLastCudaError(message, __FILE__, __LINE__)
#define printLastCudaError(message) __printLastCudaError(message, __FILE__, __LINE__)

inline int ftoi(float value) { return value >= 0 ? (int)(value + 0.5f) : (int)(value - 0.5f); }

/* Lanes for numbers of single precision in a multiprocessor. Source: CUDA C++ Programming Guide, "Compute
 * Capabilities". */
inline int _ConvertSMVer2Cores(int major, int minor) {
  switch (major * 10 + minor) {
    case 30: case 32: case 35: case 37: return 192;
    case 60: case 70: case 72: case 75: case 80: return 64;
    default: return 128;
  }
}

inline const char *_ConvertSMVer2ArchName(int major, int minor) {
  switch (major) {
    case 3: return "Kepler";
    case 5: return "Maxwell";
    case 6: return "Pascal";
    case 7: return minor == 5 ? "Turing" : "Volta";
    case 8: return minor == 9 ? "Ada" : "Ampere";
    case 9: return "Hopper";
    default: return "Blackwell";
  }
}

inline int gpuDeviceInit(int device) {
  int count = 0;
  checkCudaErrors(cudaGetDeviceCount(&count));
  if (device < 0) device = 0;
  if (device >= count) {
    fprintf(stderr, "there is no device %d of CUDA: %d are here\n", device, count);
    exit(EXIT_FAILURE);
  }
  checkCudaErrors(cudaSetDevice(device));
  return device;
}

inline int gpuGetMaxGflopsDeviceId() { return gpuDeviceInit(0); }

inline int findCudaDevice(int argc, const char **argv) {
  bool is_named = checkCmdLineFlag(argc, argv, "device");
  int device = gpuDeviceInit(is_named ? getCmdLineArgumentInt(argc, argv, "device") : 0), major = 0, minor = 0;
  checkCudaErrors(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  checkCudaErrors(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  printf("GPU Device %d: \"%s\" with compute capability %d.%d\n\n", device, _ConvertSMVer2ArchName(major, minor), major,
         minor);
  return device;
}

inline bool checkCudaCapabilities(int major, int minor) {
  int device = 0, found_major = 0, found_minor = 0;
  checkCudaErrors(cudaGetDevice(&device));
  checkCudaErrors(cudaDeviceGetAttribute(&found_major, cudaDevAttrComputeCapabilityMajor, device));
  checkCudaErrors(cudaDeviceGetAttribute(&found_minor, cudaDevAttrComputeCapabilityMinor, device));
  return found_major > major || (found_major == major && found_minor >= minor);
}

#endif
