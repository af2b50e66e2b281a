/* Modules that a program loads itself, attributes of kernels, occupancy. Part of libkerncast_device.so. */
#define _GNU_SOURCE
#include "kernels.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

/* --- modules --- */

struct known_function {
  char *name;
  kc_function *function;
};

struct kc_module {
  int number;
  struct known_function *functions;
  size_t count;
  kc_module *next;
};
static kc_module *modules;

enum { MACHINE_CODE_MAGIC = 0x464C457F };

static bool is_machine_code(const void *image) {
  uint32_t word;
  memcpy(&word, image, sizeof word);
  return word == MACHINE_CODE_MAGIC;
}

int kc_open_module(const void *image, kc_module **module) {
  int number;
  if (!image || !module) return KC_INVALID_VALUE;
  int error = kc_load_module(image, &number);
  if (error) return error;
  if (is_machine_code(image)) {
    kc_missing("a module of machine code (a cubin)");
    return KC_NO_BINARY;
  }
  kc_module *made = calloc(1, sizeof *made);
  kc_lock();
  *made = (kc_module){number, NULL, 0, modules};
  modules = made;
  kc_unlock();
  *module = made;
  return KC_OK;
}

/* Whether a file holds what its head says: what is read of it is read by that. */
static bool is_whole(const unsigned char *data, size_t bytes) {
  uint32_t magic;
  uint16_t head;
  uint64_t rest;
  if (bytes < 16) return bytes > 0;
  memcpy(&magic, data, 4);
  memcpy(&head, data + 6, 2);
  memcpy(&rest, data + 8, 8);
  if (magic == 0x466243B1) return false; /* holds an address of another process */
  if (magic == MACHINE_CODE_MAGIC) return bytes >= 64;
  return magic != 0xBA55ED50 || (rest <= bytes && head <= bytes - rest);
}

int kc_open_module_file(const char *path, kc_module **module) {
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (!file) return KC_FILE_NOT_FOUND;
  fseek(file, 0, SEEK_END);
  long bytes = ftell(file);
  rewind(file);
  unsigned char *data = bytes > 0 ? calloc(1, (size_t)bytes + 16) : NULL;
  bool is_read = data && fread(data, 1, (size_t)bytes, file) == (size_t)bytes;
  fclose(file);
  int error = is_read && is_whole(data, (size_t)bytes) ? kc_open_module(data, module) : KC_INVALID_IMAGE;
  free(data);
  return error;
}

int kc_close_module(kc_module *module) {
  kc_lock();
  kc_module **at = &modules;
  while (*at && *at != module) at = &(*at)->next;
  bool found = *at && module;
  if (found) *at = module->next;
  kc_unlock();
  if (!found) return KC_INVALID_HANDLE;
  /* Its functions stay: graphs may hold them. */
  for (size_t i = 0; i < module->count; i++) free(module->functions[i].name);
  free(module->functions);
  free(module);
  return KC_OK;
}

static kc_function *known_function(const kc_module *module, const char *name) {
  for (size_t i = 0; i < module->count; i++)
    if (!strcmp(module->functions[i].name, name)) return module->functions[i].function;
  return NULL;
}

int kc_module_function(kc_module *module, const char *name, kc_function **function) {
  if (!module || !name || !function) return KC_INVALID_VALUE;
  kc_lock();
  kc_function *found = known_function(module, name);
  if (!found) {
    found = kc_new_function(module->number, name);
    module->functions = realloc(module->functions, (module->count + 1) * sizeof *module->functions);
    module->functions[module->count++] = (struct known_function){strdup(name), found};
  }
  kc_unlock();
  if (kc_describe(found)) return KC_SYMBOL_NOT_FOUND;
  *function = found;
  return KC_OK;
}

int kc_module_variable(kc_module *module, const char *name, uint64_t *address, size_t *bytes) {
  uint64_t place;
  size_t size;
  if (!module || !name) return KC_INVALID_VALUE;
  int error = kc_ask_symbol(module->number, name, &place, &size);
  if (error) return error;
  if (address) *address = place;
  if (bytes) *bytes = size;
  return KC_OK;
}

kc_module *kc_module_of(const kc_function *function) {
  kc_module *found = NULL;
  kc_lock();
  for (kc_module *module = modules; module && !found; module = module->next)
    for (size_t i = 0; i < module->count; i++)
      if (module->functions[i].function == function) found = module;
  kc_unlock();
  return found;
}

void kc_clear_logs(unsigned count, const int *options, void **values) {
  for (unsigned i = 0; i < count && options && values; i++) {
    bool is_buffer = options[i] == CU_JIT_INFO_LOG_BUFFER || options[i] == CU_JIT_ERROR_LOG_BUFFER;
    bool is_size = options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES || options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
    if (is_buffer && values[i]) *(char *)values[i] = 0;
    if (is_size) values[i] = NULL; /* so many bytes were written */
  }
}

/* --- attributes of kernels --- */

int kc_function_attribute(kc_function *function, int attribute, int *value) {
  if (!value) return KC_INVALID_VALUE;
  int error = kc_describe(function);
  if (error) return error;
  const struct kc_function_head *head = kc_function_head(function);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = head->most_threads; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = head->shared; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = head->constant; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = head->local; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = head->registers; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = head->ptx_version; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = head->binary_version; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = kc_dynamic_shared(function); break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = -1; break;
    default:
      *value = 0; /* caches, and clusters that the program has not set */
      return attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX ? KC_OK : KC_INVALID_VALUE;
  }
  return KC_OK;
}

int kc_set_function_attribute(kc_function *function, int attribute, int value) {
  int error = kc_describe(function);
  if (error) return error;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value > kc_device()->shared_per_block_optin - kc_function_head(function)->shared) return KC_INVALID_VALUE;
      return kc_allow_dynamic_shared(function, value);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return value < -1 || value > 100 ? KC_INVALID_VALUE : KC_OK;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      kc_allow_large_clusters(function, value);
      return KC_OK;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return KC_OK;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return kc_missing("clusters that an attribute of the function sets");
    default: return KC_INVALID_VALUE;
  }
}

int kc_function_parameter(kc_function *function, size_t index, size_t *offset, size_t *bytes) {
  int error = kc_describe(function);
  if (error) return error;
  if (!offset || index >= (size_t)kc_function_head(function)->parameters) return KC_INVALID_VALUE;
  struct kc_parameter found = kc_function_parameters(function)[index];
  *offset = (size_t)found.offset;
  if (bytes) *bytes = (size_t)found.bytes;
  return KC_OK;
}

/* --- occupancy --- */

int kc_available_shared(kc_function *function, int blocks, int threads, size_t *bytes) {
  int error = kc_describe(function);
  if (error) return error;
  if (!bytes || blocks < 1 || kc_resident_blocks(function, threads, 0) < blocks) return KC_INVALID_VALUE;
  const struct kc_device *device = kc_device();
  int each = device->shared_per_multiprocessor / blocks / 128 * 128 - device->reserved_shared;
  int most = device->shared_per_block_optin;
  int rest = (each < most ? each : most) - kc_function_head(function)->shared;
  *bytes = rest > 0 ? (size_t)rest : 0;
  return KC_OK;
}

int kc_best_block(kc_function *function, struct kc_block_wish wish, int *blocks, int *threads) {
  int error = kc_describe(function);
  if (error) return error;
  if (!blocks || !threads) return KC_INVALID_VALUE;
  int most = kc_function_head(function)->most_threads, best = 0;
  if (wish.most_threads > 0 && wish.most_threads < most) most = wish.most_threads;
  *blocks = *threads = 0;
  /* From the largest block down, as CUDA does: of two that fill the device alike it takes the larger. */
  for (int size = most; size > 0; size = (size - 1) / 32 * 32) {
    size_t shared = wish.shared_for ? wish.shared_for(size) : wish.shared_bytes;
    int resident = kc_resident_blocks(function, size, shared);
    if (resident * size <= best) continue;
    best = resident * size;
    *threads = size;
    *blocks = resident * kc_device()->multiprocessors;
  }
  return KC_OK;
}

/* --- attributes of launches --- */

static int take_cluster(const uint32_t size[3], struct kc_launch_wish *wish) {
  for (int axis = 0; axis < 3; axis++) {
    if (!size[axis] || size[axis] > 16) return KC_INVALID_CLUSTER_SIZE;
    wish->flags |= size[axis] << KC_CLUSTER_SHIFT(axis);
  }
  return KC_OK;
}

static int read_attribute(const CUlaunchAttribute *attribute, struct kc_launch_wish *wish) {
  const CUlaunchAttributeValue *value = &attribute->value;
  switch ((int)attribute->id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      if (value->cooperative) wish->flags |= KC_COOPERATIVE;
      return KC_OK;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      return take_cluster((const uint32_t[3]){value->clusterDim.x, value->clusterDim.y, value->clusterDim.z}, wish);
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: wish->event = (kc_event *)value->programmaticEvent.event; return KC_OK;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      wish->event = (kc_event *)value->launchCompletionEvent.event;
      return KC_OK;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return value->deviceUpdatableKernelNode.deviceUpdatable ? kc_missing("nodes that a device changes") : KC_OK;
    default: return KC_OK; /* priorities, windows of caches, order of memory: they change no result */
  }
}

int kc_read_launch_attributes(const void *attributes, unsigned count, struct kc_launch_wish *wish) {
  const CUlaunchAttribute *each = attributes;
  *wish = (struct kc_launch_wish){0, NULL};
  int error = count && !each ? KC_INVALID_VALUE : KC_OK;
  for (unsigned i = 0; i < count && !error; i++) error = read_attribute(each + i, wish);
  return error;
}

int kc_read_extra(void **extra, struct kc_launch *launch) {
  for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) launch->buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) launch->buffer_bytes = *(const size_t *)extra[1];
    else return KC_INVALID_VALUE;
  }
  return KC_OK;
}
