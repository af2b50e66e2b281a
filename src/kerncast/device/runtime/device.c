/* Attributes, limits and contexts of the device. Part of libkerncast_device.so. */
#include "device.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

/* --- attributes --- */

/* The same on all devices since compute capability 6.0. Limits of textures and surfaces are told although neither is
 * executed. What is left out is 0: not there. */
static const struct {
  int attribute, value;
} of_all[] = {
  {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
  {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
  {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
  {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
  {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
  {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
  {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
  {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
  {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
  {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
  {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
  {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
  {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
  {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
  {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
  {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
  {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
  {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048},
  {CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, 1},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, 8192},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, 8192},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, 32768},
  {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 2046},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 131072},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 65536},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, 16384},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, 16384},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, 16384},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, 2048},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, 2048},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 2046},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 32768},
  {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 32768},
  {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
  {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
  {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
  {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
  {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
  {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
  {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
  {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
  {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
  {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
  {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
  {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
  {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1},
};

#define FIELD(name) offsetof(struct kc_device, name)
static const struct {
  int attribute;
  size_t offset;
} of_this[] = {
  {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, FIELD(shared_per_block)},
  {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, FIELD(registers_per_block)},
  {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, FIELD(clock_khz)},
  {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, FIELD(multiprocessors)},
  {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, FIELD(memory_clock_khz)},
  {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, FIELD(bus_bits)},
  {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, FIELD(l2_bytes)},
  {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, FIELD(threads_per_multiprocessor)},
  {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, FIELD(major)},
  {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, FIELD(minor)},
  {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, FIELD(shared_per_multiprocessor)},
  {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, FIELD(registers_per_multiprocessor)},
  {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, FIELD(shared_per_block_optin)},
  {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, FIELD(blocks_per_multiprocessor)},
  {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, FIELD(reserved_shared)},
};

/* Devices for data centres have half as many units of double precision as of single; others have few. */
static int single_to_double(void) {
  const struct kc_device *device = kc_device();
  if (device->major == 3) return device->minor ? 3 : 24;
  if (device->minor == 0 && device->major >= 6 && device->major <= 10) return 2;
  return device->major < 8 ? 32 : 64;
}

int kc_attribute(int attribute, int *value) {
  /* Every attribute that CUDA 13 knows lies below: what this one does not know is not there. */
  if (!value || attribute < 1 || attribute > 200) return KC_INVALID_VALUE;
  *value = attribute == CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO ? single_to_double() : 0;
  if (attribute == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) *value = kc_device()->major >= 9;
  for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
    if (of_all[i].attribute == attribute) *value = of_all[i].value;
  for (size_t i = 0; i < sizeof of_this / sizeof *of_this; i++)
    if (of_this[i].attribute == attribute) memcpy(value, (const char *)kc_device() + of_this[i].offset, sizeof *value);
  return KC_OK;
}

/* --- limits: kept, since a program may ask for what it has set; none of them binds here --- */

static size_t limits[] = {
  [CU_LIMIT_STACK_SIZE] = 1024,
  [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
  [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
  [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
  [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
  [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 128,
  [CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0,
};

static bool is_limit(int limit) { return limit >= 0 && (size_t)limit < sizeof limits / sizeof *limits; }

int kc_limit(int limit, size_t *value) {
  if (!value) return KC_INVALID_VALUE;
  if (!is_limit(limit)) return KC_UNSUPPORTED_LIMIT;
  *value = limits[limit];
  return KC_OK;
}

int kc_set_limit(int limit, size_t value) {
  if (!is_limit(limit)) return KC_UNSUPPORTED_LIMIT;
  /* There is no part of the second cache that can be set aside. */
  if (limit != CU_LIMIT_PERSISTING_L2_CACHE_SIZE) limits[limit] = value;
  return KC_OK;
}

/* --- contexts --- */

struct kc_context {
  unsigned flags;
  unsigned long long number;
  struct kc_context *next;
};

static struct kc_context primary = {.number = 1};
static struct kc_context *contexts = &primary;
static unsigned long long context_count = 1;
static int primary_holders;

enum { MOST_CONTEXTS = 64 };
static _Thread_local kc_context *stack[MOST_CONTEXTS];
static _Thread_local int stack_height;

kc_context *kc_primary_context(void) { return &primary; }

int kc_hold_primary(int change) {
  kc_lock();
  primary_holders += change;
  if (primary_holders < 0) primary_holders = 0;
  int holders = primary_holders;
  kc_unlock();
  return holders;
}

kc_context *kc_new_context(unsigned flags) {
  kc_context *context = calloc(1, sizeof *context);
  kc_lock();
  *context = (kc_context){flags, ++context_count, primary.next};
  primary.next = context;
  kc_unlock();
  return context;
}

bool kc_is_context(const kc_context *context) {
  bool found = false;
  kc_lock();
  for (const kc_context *each = contexts; each && !found; each = each->next) found = each == context;
  kc_unlock();
  return found;
}

int kc_end_context(kc_context *context) {
  if (context == &primary || !kc_is_context(context)) return KC_INVALID_CONTEXT;
  if (kc_current_context() == context) kc_pop_context(NULL);
  kc_lock();
  kc_context *before = contexts;
  while (before->next != context) before = before->next;
  before->next = context->next;
  kc_unlock();
  free(context);
  return KC_OK;
}

unsigned kc_context_flags(const kc_context *context) { return context->flags; }

void kc_set_context_flags(kc_context *context, unsigned flags) { context->flags = flags; }

unsigned long long kc_context_number(const kc_context *context) { return context->number; }

kc_context *kc_current_context(void) { return stack_height ? stack[stack_height - 1] : NULL; }

void kc_set_current_context(kc_context *context) {
  if (!context) kc_pop_context(NULL);
  else if (stack_height) stack[stack_height - 1] = context;
  else kc_push_context(context);
}

int kc_push_context(kc_context *context) {
  if (!kc_is_context(context)) return KC_INVALID_CONTEXT;
  if (stack_height == MOST_CONTEXTS) return KC_INVALID_VALUE;
  stack[stack_height++] = context;
  return KC_OK;
}

int kc_pop_context(kc_context **context) {
  if (!stack_height) return KC_INVALID_CONTEXT;
  stack_height--;
  if (context) *context = stack[stack_height];
  return KC_OK;
}
