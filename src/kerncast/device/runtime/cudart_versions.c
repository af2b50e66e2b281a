/* Entry points whose form depends on the version of CUDA. Part of libcudart.so. */
#include <string.h>

#include "cudart.h"

/* --- properties of the device --- */

#define AT(field) offsetof(struct cudaDeviceProp, field)

/* Properties that are an attribute, by where they lie in the structure of CUDA 12. */
static const struct {
  size_t offset;
  enum cudaDeviceAttr attribute;
} numbers[] = {
  {AT(regsPerBlock), cudaDevAttrMaxRegistersPerBlock},
  {AT(warpSize), cudaDevAttrWarpSize},
  {AT(maxThreadsPerBlock), cudaDevAttrMaxThreadsPerBlock},
  {AT(maxThreadsDim[0]), cudaDevAttrMaxBlockDimX},
  {AT(maxThreadsDim[1]), cudaDevAttrMaxBlockDimY},
  {AT(maxThreadsDim[2]), cudaDevAttrMaxBlockDimZ},
  {AT(maxGridSize[0]), cudaDevAttrMaxGridDimX},
  {AT(maxGridSize[1]), cudaDevAttrMaxGridDimY},
  {AT(maxGridSize[2]), cudaDevAttrMaxGridDimZ},
  {AT(clockRate), cudaDevAttrClockRate},
  {AT(major), cudaDevAttrComputeCapabilityMajor},
  {AT(minor), cudaDevAttrComputeCapabilityMinor},
  {AT(deviceOverlap), cudaDevAttrGpuOverlap},
  {AT(multiProcessorCount), cudaDevAttrMultiProcessorCount},
  {AT(kernelExecTimeoutEnabled), cudaDevAttrKernelExecTimeout},
  {AT(integrated), cudaDevAttrIntegrated},
  {AT(canMapHostMemory), cudaDevAttrCanMapHostMemory},
  {AT(computeMode), cudaDevAttrComputeMode},
  {AT(maxTexture1D), cudaDevAttrMaxTexture1DWidth},
  {AT(maxTexture1DMipmap), cudaDevAttrMaxTexture1DMipmappedWidth},
  {AT(maxTexture1DLinear), cudaDevAttrMaxTexture1DLinearWidth},
  {AT(maxTexture2D[0]), cudaDevAttrMaxTexture2DWidth},
  {AT(maxTexture2D[1]), cudaDevAttrMaxTexture2DHeight},
  {AT(maxTexture2DMipmap[0]), cudaDevAttrMaxTexture2DMipmappedWidth},
  {AT(maxTexture2DMipmap[1]), cudaDevAttrMaxTexture2DMipmappedHeight},
  {AT(maxTexture2DLinear[0]), cudaDevAttrMaxTexture2DLinearWidth},
  {AT(maxTexture2DLinear[1]), cudaDevAttrMaxTexture2DLinearHeight},
  {AT(maxTexture2DLinear[2]), cudaDevAttrMaxTexture2DLinearPitch},
  {AT(maxTexture2DGather[0]), cudaDevAttrMaxTexture2DGatherWidth},
  {AT(maxTexture2DGather[1]), cudaDevAttrMaxTexture2DGatherHeight},
  {AT(maxTexture3D[0]), cudaDevAttrMaxTexture3DWidth},
  {AT(maxTexture3D[1]), cudaDevAttrMaxTexture3DHeight},
  {AT(maxTexture3D[2]), cudaDevAttrMaxTexture3DDepth},
  {AT(maxTexture3DAlt[0]), cudaDevAttrMaxTexture3DWidthAlt},
  {AT(maxTexture3DAlt[1]), cudaDevAttrMaxTexture3DHeightAlt},
  {AT(maxTexture3DAlt[2]), cudaDevAttrMaxTexture3DDepthAlt},
  {AT(maxTextureCubemap), cudaDevAttrMaxTextureCubemapWidth},
  {AT(maxTexture1DLayered[0]), cudaDevAttrMaxTexture1DLayeredWidth},
  {AT(maxTexture1DLayered[1]), cudaDevAttrMaxTexture1DLayeredLayers},
  {AT(maxTexture2DLayered[0]), cudaDevAttrMaxTexture2DLayeredWidth},
  {AT(maxTexture2DLayered[1]), cudaDevAttrMaxTexture2DLayeredHeight},
  {AT(maxTexture2DLayered[2]), cudaDevAttrMaxTexture2DLayeredLayers},
  {AT(maxTextureCubemapLayered[0]), cudaDevAttrMaxTextureCubemapLayeredWidth},
  {AT(maxTextureCubemapLayered[1]), cudaDevAttrMaxTextureCubemapLayeredLayers},
  {AT(maxSurface1D), cudaDevAttrMaxSurface1DWidth},
  {AT(maxSurface2D[0]), cudaDevAttrMaxSurface2DWidth},
  {AT(maxSurface2D[1]), cudaDevAttrMaxSurface2DHeight},
  {AT(maxSurface3D[0]), cudaDevAttrMaxSurface3DWidth},
  {AT(maxSurface3D[1]), cudaDevAttrMaxSurface3DHeight},
  {AT(maxSurface3D[2]), cudaDevAttrMaxSurface3DDepth},
  {AT(maxSurface1DLayered[0]), cudaDevAttrMaxSurface1DLayeredWidth},
  {AT(maxSurface1DLayered[1]), cudaDevAttrMaxSurface1DLayeredLayers},
  {AT(maxSurface2DLayered[0]), cudaDevAttrMaxSurface2DLayeredWidth},
  {AT(maxSurface2DLayered[1]), cudaDevAttrMaxSurface2DLayeredHeight},
  {AT(maxSurface2DLayered[2]), cudaDevAttrMaxSurface2DLayeredLayers},
  {AT(maxSurfaceCubemap), cudaDevAttrMaxSurfaceCubemapWidth},
  {AT(maxSurfaceCubemapLayered[0]), cudaDevAttrMaxSurfaceCubemapLayeredWidth},
  {AT(maxSurfaceCubemapLayered[1]), cudaDevAttrMaxSurfaceCubemapLayeredLayers},
  {AT(concurrentKernels), cudaDevAttrConcurrentKernels},
  {AT(ECCEnabled), cudaDevAttrEccEnabled},
  {AT(pciBusID), cudaDevAttrPciBusId},
  {AT(pciDeviceID), cudaDevAttrPciDeviceId},
  {AT(pciDomainID), cudaDevAttrPciDomainId},
  {AT(tccDriver), cudaDevAttrTccDriver},
  {AT(asyncEngineCount), cudaDevAttrAsyncEngineCount},
  {AT(unifiedAddressing), cudaDevAttrUnifiedAddressing},
  {AT(memoryClockRate), cudaDevAttrMemoryClockRate},
  {AT(memoryBusWidth), cudaDevAttrGlobalMemoryBusWidth},
  {AT(l2CacheSize), cudaDevAttrL2CacheSize},
  {AT(persistingL2CacheMaxSize), cudaDevAttrMaxPersistingL2CacheSize},
  {AT(maxThreadsPerMultiProcessor), cudaDevAttrMaxThreadsPerMultiProcessor},
  {AT(streamPrioritiesSupported), cudaDevAttrStreamPrioritiesSupported},
  {AT(globalL1CacheSupported), cudaDevAttrGlobalL1CacheSupported},
  {AT(localL1CacheSupported), cudaDevAttrLocalL1CacheSupported},
  {AT(regsPerMultiprocessor), cudaDevAttrMaxRegistersPerMultiprocessor},
  {AT(managedMemory), cudaDevAttrManagedMemory},
  {AT(isMultiGpuBoard), cudaDevAttrIsMultiGpuBoard},
  {AT(multiGpuBoardGroupID), cudaDevAttrMultiGpuBoardGroupID},
  {AT(hostNativeAtomicSupported), cudaDevAttrHostNativeAtomicSupported},
  {AT(singleToDoublePrecisionPerfRatio), cudaDevAttrSingleToDoublePrecisionPerfRatio},
  {AT(pageableMemoryAccess), cudaDevAttrPageableMemoryAccess},
  {AT(concurrentManagedAccess), cudaDevAttrConcurrentManagedAccess},
  {AT(computePreemptionSupported), cudaDevAttrComputePreemptionSupported},
  {AT(canUseHostPointerForRegisteredMem), cudaDevAttrCanUseHostPointerForRegisteredMem},
  {AT(cooperativeLaunch), cudaDevAttrCooperativeLaunch},
  {AT(cooperativeMultiDeviceLaunch), cudaDevAttrCooperativeMultiDeviceLaunch},
  {AT(pageableMemoryAccessUsesHostPageTables), cudaDevAttrPageableMemoryAccessUsesHostPageTables},
  {AT(directManagedMemAccessFromHost), cudaDevAttrDirectManagedMemAccessFromHost},
  {AT(maxBlocksPerMultiProcessor), cudaDevAttrMaxBlocksPerMultiprocessor},
  {AT(accessPolicyMaxWindowSize), cudaDevAttrMaxAccessPolicyWindowSize},
  {AT(hostRegisterSupported), cudaDevAttrHostRegisterSupported},
  {AT(sparseCudaArraySupported), cudaDevAttrSparseCudaArraySupported},
  {AT(hostRegisterReadOnlySupported), cudaDevAttrHostRegisterReadOnlySupported},
  {AT(timelineSemaphoreInteropSupported), cudaDevAttrTimelineSemaphoreInteropSupported},
  {AT(memoryPoolsSupported), cudaDevAttrMemoryPoolsSupported},
  {AT(gpuDirectRDMASupported), cudaDevAttrGPUDirectRDMASupported},
  {AT(clusterLaunch), cudaDevAttrClusterLaunch},
};

static const struct {
  size_t offset;
  enum cudaDeviceAttr attribute;
} sizes[] = {
  {AT(sharedMemPerBlock), cudaDevAttrMaxSharedMemoryPerBlock},
  {AT(memPitch), cudaDevAttrMaxPitch},
  {AT(totalConstMem), cudaDevAttrTotalConstantMemory},
  {AT(textureAlignment), cudaDevAttrTextureAlignment},
  {AT(texturePitchAlignment), cudaDevAttrTexturePitchAlignment},
  {AT(surfaceAlignment), cudaDevAttrSurfaceAlignment},
  {AT(sharedMemPerMultiprocessor), cudaDevAttrMaxSharedMemoryPerMultiprocessor},
  {AT(sharedMemPerBlockOptin), cudaDevAttrMaxSharedMemoryPerBlockOptin},
  {AT(reservedSharedMemPerBlock), cudaDevAttrReservedSharedMemoryPerBlock},
};

static void read_properties(struct cudaDeviceProp *found) {
  const struct kc_device *device = kc_device();
  memset(found, 0, sizeof *found);
  memcpy(found->name, device->name, sizeof found->name);
  memcpy(&found->uuid, device->uuid, sizeof found->uuid);
  found->totalGlobalMem = device->memory_bytes;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    kc_attribute((int)numbers[i].attribute, (int *)(void *)((char *)found + numbers[i].offset));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int value;
    kc_attribute((int)sizes[i].attribute, &value);
    size_t size = (size_t)value;
    memcpy((char *)found + sizes[i].offset, &size, sizeof size);
  }
}

enum { BYTES_OF_11 = AT(hostRegisterSupported), BYTES_OF_13 = 1008, NUMA_ID_OF_13 = 760, HOST_NUMA_ID_OF_13 = 768 };

/* CUDA 13 has left eight properties out, and moved the others up: from where to where in the structure of CUDA 12 they
 * go on, and where they begin in that of CUDA 13. */
static const struct {
  size_t from, stop, to;
} moved_in_13[] = {
  {AT(name), AT(clockRate), 0},
  {AT(totalConstMem), AT(deviceOverlap), 352},
  {AT(multiProcessorCount), AT(kernelExecTimeoutEnabled), 384},
  {AT(integrated), AT(computeMode), 388},
  {AT(maxTexture1D), AT(maxTexture1DLinear), 396},
  {AT(maxTexture2D), AT(memoryClockRate), 404},
  {AT(memoryBusWidth), AT(sharedMemPerMultiprocessor), 592},
  {AT(sharedMemPerMultiprocessor), AT(singleToDoublePrecisionPerfRatio), 624},
  {AT(pageableMemoryAccess), AT(cooperativeMultiDeviceLaunch), 652},
  {AT(sharedMemPerBlockOptin), AT(reserved), 672},
};

static void write_as_13(char *to, const struct cudaDeviceProp *found) {
  static const int nowhere = -1;
  memset(to, 0, BYTES_OF_13);
  for (size_t i = 0; i < sizeof moved_in_13 / sizeof *moved_in_13; i++)
    memcpy(to + moved_in_13[i].to, (const char *)found + moved_in_13[i].from,
           moved_in_13[i].stop - moved_in_13[i].from);
  memcpy(to + NUMA_ID_OF_13, &nowhere, sizeof nowhere);
  memcpy(to + HOST_NUMA_ID_OF_13, &nowhere, sizeof nowhere);
}

static int properties(struct cudaDeviceProp *to, int device, int major) {
  struct cudaDeviceProp found;
  if (!to) return KC_INVALID_VALUE;
  if (device) return KC_INVALID_DEVICE;
  read_properties(&found);
  if (major == 13) write_as_13((char *)to, &found);
  else memcpy(to, &found, major == 11 ? (size_t)BYTES_OF_11 : sizeof found);
  return KC_OK;
}

/* In the library of CUDA 12 the old name serves programs of CUDA 11. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *to, int device) {
  ANSWER(properties(to, device, KC_CUDA_MAJOR == 13 ? 13 : 11));
}

cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *to, int device) { ANSWER(properties(to, device, 12)); }

/* --- attributes of pointers and kernels --- */

static int pointer_attributes(struct cudaPointerAttributes *found, const void *pointer) {
  struct kc_range range;
  uint64_t address = (uint64_t)(uintptr_t)pointer, registered = kc_device_address(pointer);
  if (!found) return KC_INVALID_VALUE;
  /* The structure of CUDA 13 ends with eight words more. */
  memset(found, 0, sizeof *found + (KC_CUDA_MAJOR >= 13 ? 64 : 0));
  found->hostPointer = (void *)pointer;
  if (!registered) {
    found->type = cudaMemoryTypeUnregistered;
    found->device = cudaInvalidDeviceId;
    return KC_OK;
  }
  found->devicePointer = (void *)(uintptr_t)registered;
  found->type = cudaMemoryTypeHost;
  if (!kc_find(address, &range)) return KC_OK;
  if (range.kind == KC_MANAGED) found->type = cudaMemoryTypeManaged;
  if (range.kind != KC_DEVICE_MEMORY && range.kind != KC_VARIABLE_MEMORY) return KC_OK;
  found->type = cudaMemoryTypeDevice;
  found->hostPointer = NULL;
  return KC_OK;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *found, const void *pointer) {
  ANSWER(pointer_attributes(found, pointer));
}
