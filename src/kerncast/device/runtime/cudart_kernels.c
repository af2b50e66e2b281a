/* What compiled programs register, launches, attributes of kernels, libraries of kernels. Part of libcudart.so.
 *
 * Programs register all their code before they begin; many never use it. So nothing is done with it before its first
 * use, and a program may fork until then. */
#include <stdlib.h>
#include <string.h>

#include "cudart.h"
#include "graphs.h"
#include "kernels.h"

/* --- what is registered --- */

struct variable {
  const void *host; /* the host's shadow of it; of a managed one, where the program wants its address */
  const char *name;
  size_t bytes;
  bool is_managed, is_asked_for;
  bool lies_here; /* host and device see the same memory, which is the program's own */
  uint64_t address;
  struct variable *next;
};

struct image {
  const void *code;
  bool is_loaded;
  int module;
  struct variable *variables;
  struct image *next;
};

struct kernel {
  const void *host;
  const char *name;
  struct image *image;
  kc_function *function;
  struct kernel *next;
};

enum { BUCKETS = 4096 };
static struct image *images;
static struct kernel *kernels[BUCKETS];

static struct kernel **bucket_of(const void *host) {
  return &kernels[((uintptr_t)host >> 4) * 2654435761u / 16 % BUCKETS];
}

void **__cudaRegisterFatBinary(void *code) {
  struct image *image = calloc(1, sizeof *image);
  kc_lock();
  *image = (struct image){.code = code, .next = images};
  images = image;
  kc_unlock();
  return (void **)image;
}


void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int most_threads,
                            uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid_size, int *warp_size) {
  (void)device, (void)most_threads, (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp_size;
  struct kernel *kernel = calloc(1, sizeof *kernel), **bucket = bucket_of(host);
  kc_lock();
  *kernel = (struct kernel){host, name, (struct image *)handle, NULL, *bucket};
  *bucket = kernel;
  kc_unlock();
}

static void register_variable(void **handle, const void *host, const char *name, size_t bytes, bool is_managed) {
  struct image *image = (struct image *)handle;
  struct variable *variable = calloc(1, sizeof *variable);
  kc_lock();
  *variable = (struct variable){.host = host, .name = name, .bytes = bytes, .is_managed = is_managed,
                                .next = image->variables};
  image->variables = variable;
  kc_unlock();
}

/* Managed variables of programs that clang has compiled: host code names the variable itself, so that its pages become
 * the device's where they lie. Called for each source before its code is registered. */
void __kerncastManagedVariables(void *first, size_t bytes) {
  int error = kc_register_host(first, bytes);
  if (error && error != KC_ALREADY_REGISTERED) kc_note("managed variables have no memory that the GPU sees");
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int is_extern, size_t bytes,
                       int is_constant, int is_global) {
  (void)device, (void)is_extern, (void)is_constant, (void)is_global;
  register_variable(handle, host, name, bytes, false);
  ((struct image *)handle)->variables->lies_here = kc_device_address(host) != 0;
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int is_extern, size_t bytes,
                              int is_constant, int is_global) {
  (void)device, (void)is_extern, (void)is_constant, (void)is_global;
  register_variable(handle, host, name, bytes, true);
}

static void forget_kernels(const struct image *image) {
  for (int i = 0; i < BUCKETS; i++)
    for (struct kernel **at = &kernels[i]; *at;) {
      struct kernel *kernel = *at;
      if (kernel->image != image) {
        at = &kernel->next;
        continue;
      }
      *at = kernel->next;
      free(kernel);
    }
}

/* A library that is closed takes its code with it; variables stay, as others may still have their addresses. */
void __cudaUnregisterFatBinary(void **handle) {
  struct image *image = (struct image *)handle, **at = &images;
  kc_lock();
  while (*at && *at != image) at = &(*at)->next;
  if (*at) {
    *at = image->next;
    forget_kernels(image);
    while (image->variables) {
      struct variable *variable = image->variables;
      image->variables = variable->next;
      free(variable);
    }
    free(image);
  }
  kc_unlock();
}

/* Textures and surfaces by reference: kernels that use them cannot be executed, and say so. */
void __cudaRegisterTexture(void **handle, const void *host, const void **device, const char *name, int dimensions,
                           int is_normalised, int is_extern) {
  (void)handle, (void)host, (void)device, (void)name, (void)dimensions, (void)is_normalised, (void)is_extern;
}

void __cudaRegisterSurface(void **handle, const void *host, const void **device, const char *name, int dimensions,
                           int is_extern) {
  (void)handle, (void)host, (void)device, (void)name, (void)dimensions, (void)is_extern;
}

/* --- first use --- */

static const struct variable *placed_before(const struct image *image, const struct variable *variable) {
  for (const struct variable *each = image->variables; each; each = each->next)
    if (each->address && !strcmp(each->name, variable->name)) return each;
  return NULL;
}

/* Several files of a program register one variable, if they are linked on the device. */
static int place(const struct image *image, struct variable *variable) {
  const struct variable *same = placed_before(image, variable);
  int error = KC_OK;
  if (same) variable->address = same->address;
  else if (variable->lies_here) {
    variable->address = kc_device_address(variable->host);
    kc_tell_variable(image->module, variable->name, variable->bytes, variable->address);
  } else error = kc_place_variable(image->module, variable->name, variable->bytes, variable->is_managed,
                                 &variable->address);
  if (!error && variable->is_managed) *(void **)(uintptr_t)variable->host = (void *)(uintptr_t)variable->address;
  return error;
}

/* Asks for a variable, so that its memory holds its initial value before the host reads or writes there. */
static int ask_for(const struct image *image, struct variable *variable) {
  uint64_t address;
  size_t bytes;
  if (variable->is_asked_for) return KC_OK;
  int error = kc_ask_symbol(image->module, variable->name, &address, &bytes);
  variable->is_asked_for = !error;
  return error;
}

static int load(struct image *image) {
  int error = KC_OK;
  kc_lock();
  if (!image->is_loaded) {
    error = kc_load_module(image->code, &image->module);
    image->is_loaded = !error;
    for (struct variable *each = image->variables; each && !error; each = each->next) error = place(image, each);
    for (struct variable *each = image->variables; each && !error; each = each->next)
      if (each->is_managed || each->lies_here) ask_for(image, each);
  }
  kc_unlock();
  return error;
}

/* The host may read a variable that lies here before it calls anything. */
void __cudaRegisterFatBinaryEnd(void **handle) {
  struct image *image = (struct image *)handle;
  bool is_read = false;
  for (const struct variable *each = image->variables; each; each = each->next) is_read |= each->lies_here;
  if (is_read) load(image);
}

char __cudaInitModule(void **handle) { return (char)!load((struct image *)handle); }

kc_function *kc_kernel_of(const void *host) {
  kc_function *found = NULL;
  kc_lock();
  struct kernel *kernel = *bucket_of(host);
  while (kernel && kernel->host != host) kernel = kernel->next;
  if (kernel && !kernel->function && !load(kernel->image))
    kernel->function = kc_new_function(kernel->image->module, kernel->name);
  if (kernel) found = kernel->function;
  else if (kc_is_function(host)) found = (kc_function *)host;
  kc_unlock();
  return found;
}

void *kc_host_function_of(kc_function *function) {
  void *found = function;
  kc_lock();
  for (int i = 0; i < BUCKETS; i++)
    for (const struct kernel *each = kernels[i]; each; each = each->next)
      if (each->function == function) found = (void *)each->host;
  kc_unlock();
  return found;
}

/* The program names a managed variable by its address, which it has from here. */
static bool is_named(const struct variable *variable, const void *symbol) {
  return variable->host == symbol || (variable->is_managed && variable->address == (uint64_t)(uintptr_t)symbol);
}

int kc_symbol_of(const void *symbol, uint64_t *address, size_t *bytes) {
  int error = KC_INVALID_SYMBOL;
  bool is_found = false;
  kc_lock();
  for (struct image *image = images; image && !is_found; image = image->next)
    for (struct variable *each = image->variables; each && !is_found; each = each->next) {
      if (!is_named(each, symbol)) continue;
      is_found = true;
      error = load(image);
      if (!error) error = ask_for(image, each);
      *address = each->address;
      *bytes = each->bytes;
    }
  kc_unlock();
  return error;
}

/* --- launches --- */

struct configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

enum { MOST_CONFIGURATIONS = 64 };
static _Thread_local struct configuration configurations[MOST_CONFIGURATIONS];
static _Thread_local int configuration_count;

/* Between <<<...>>> and the stub of the kernel, whose arguments may launch kernels too. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream) {
  if (configuration_count == MOST_CONFIGURATIONS) return 1;
  configurations[configuration_count++] = (struct configuration){grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream) {
  if (!configuration_count) return kc_runtime_end(cudaErrorMissingConfiguration);
  struct configuration found = configurations[--configuration_count];
  *grid = found.grid;
  *block = found.block;
  *shared_bytes = found.shared_bytes;
  *(cudaStream_t *)stream = found.stream;
  return cudaSuccess;
}

static int launch(kc_function *function, const struct configuration *how, void **arguments, uint32_t flags) {
  if (!function) return KC_INVALID_DEVICE_FUNCTION;
  if (how->shared_bytes > UINT32_MAX) return KC_INVALID_VALUE;
  int error = kc_check_stream(how->stream);
  if (error) return error;
  struct kc_launch launch = {.function = function, .grid = {how->grid.x, how->grid.y, how->grid.z},
                             .block = {how->block.x, how->block.y, how->block.z},
                             .shared_bytes = (uint32_t)how->shared_bytes, .flags = flags,
                             .stream = kc_stream_of(how->stream), .arguments = arguments};
  error = kc_launch(&launch);
  /* It is a kernel, but none that this device can execute. */
  return error == KC_INVALID_DEVICE_FUNCTION ? KC_NO_BINARY : error;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  struct configuration how = {grid, block, shared_bytes, stream};
  ANSWER(launch(kc_kernel_of(kernel), &how, arguments, 0));
}
PER_THREAD(cudaLaunchKernel, ptsz);

cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                        size_t shared_bytes, cudaStream_t stream) {
  struct configuration how = {grid, block, shared_bytes, stream};
  ANSWER(launch(kc_kernel_of(kernel), &how, arguments, KC_COOPERATIVE));
}
PER_THREAD(cudaLaunchCooperativeKernel, ptsz);

static int launch_as_wished(const cudaLaunchConfig_t *wish, const void *kernel, void **arguments) {
  struct kc_launch_wish found;
  if (!wish) return KC_INVALID_VALUE;
  int error = kc_read_launch_attributes(wish->attrs, wish->numAttrs, &found);
  if (error) return error;
  struct configuration how = {wish->gridDim, wish->blockDim, wish->dynamicSmemBytes, wish->stream};
  error = launch(kc_kernel_of(kernel), &how, arguments, found.flags);
  return error || !found.event ? error : kc_record(found.event, kc_stream_of(wish->stream));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *wish, const void *kernel, void **arguments) {
  ANSWER(launch_as_wished(wish, kernel, arguments));
}
PER_THREAD(cudaLaunchKernelExC, ptsz);

static int find_kernel(void **found, const void *kernel) {
  if (!found) return KC_INVALID_VALUE;
  *found = kc_kernel_of(kernel);
  return *found ? KC_OK : KC_INVALID_DEVICE_FUNCTION;
}

cudaError_t cudaGetKernel(cudaKernel_t *found, const void *kernel) { ANSWER(find_kernel((void **)found, kernel)); }

cudaError_t __cudaGetKernel(cudaKernel_t *found, const void *kernel) { ANSWER(find_kernel((void **)found, kernel)); }

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *found, const void *kernel) {
  ANSWER(find_kernel((void **)found, kernel));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  struct configuration how = {grid, block, shared_bytes, stream};
  ANSWER(launch((kc_function *)kernel, &how, arguments, 0));
}
PER_THREAD(__cudaLaunchKernel, ptsz);

/* --- attributes --- */

/* A kernel that can be asked about, or an error. */
static int described(const void *host, kc_function **function) {
  *function = kc_kernel_of(host);
  if (!*function) return KC_INVALID_DEVICE_FUNCTION;
  return kc_describe(*function) ? KC_NO_BINARY : KC_OK;
}

static int function_attributes(struct cudaFuncAttributes *found, const void *host) {
  kc_function *function;
  if (!found) return KC_INVALID_VALUE;
  int error = described(host, &function);
  if (error) return error;
  const struct kc_function_head *head = kc_function_head(function);
  /* The structure of CUDA 11 ends before clusters. */
  memset(found, 0, KC_CUDA_MAJOR < 12 ? offsetof(struct cudaFuncAttributes, clusterDimMustBeSet) : sizeof *found);
  found->sharedSizeBytes = (size_t)head->shared;
  found->constSizeBytes = (size_t)head->constant;
  found->localSizeBytes = (size_t)head->local;
  found->maxThreadsPerBlock = head->most_threads;
  found->numRegs = head->registers;
  found->ptxVersion = head->ptx_version;
  found->binaryVersion = head->binary_version;
  found->maxDynamicSharedSizeBytes = kc_dynamic_shared(function);
  found->preferredShmemCarveout = -1;
  return KC_OK;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *found, const void *kernel) {
  ANSWER(function_attributes(found, kernel));
}

static int set_attribute(const void *host, int attribute, int value) {
  kc_function *function;
  int error = described(host, &function);
  return error ? error : kc_set_function_attribute(function, attribute, value);
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
  ANSWER(set_attribute(kernel, (int)attribute, value));
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value,
                                            int device) {
  ANSWER(device ? KC_INVALID_DEVICE : set_attribute(kernel, (int)attribute, value));
}

static int check_kernel(const void *host) { return kc_kernel_of(host) ? KC_OK : KC_INVALID_DEVICE_FUNCTION; }

cudaError_t cudaFuncSetCacheConfig(const void *kernel, enum cudaFuncCache config) {
  (void)config; /* a hint */
  ANSWER(check_kernel(kernel));
}

cudaError_t cudaFuncSetSharedMemConfig(const void *kernel, enum cudaSharedMemConfig config) {
  (void)config; /* a hint, which only devices of 2012 took */
  ANSWER(check_kernel(kernel));
}

static int function_name(const char **name, const void *host) {
  kc_function *function = kc_kernel_of(host);
  if (!name) return KC_INVALID_VALUE;
  if (!function) return KC_INVALID_DEVICE_FUNCTION;
  *name = kc_function_name(function);
  return KC_OK;
}

cudaError_t cudaFuncGetName(const char **name, const void *kernel) { ANSWER(function_name(name, kernel)); }

static int parameter(const void *host, size_t index, size_t *offset, size_t *bytes) {
  kc_function *function;
  int error = described(host, &function);
  return error ? error : kc_function_parameter(function, index, offset, bytes);
}

cudaError_t cudaFuncGetParamInfo(const void *kernel, size_t index, size_t *offset, size_t *bytes) {
  ANSWER(parameter(kernel, index, offset, bytes));
}

/* --- occupancy --- */

static int resident_blocks(int *blocks, const void *host, int threads, size_t shared_bytes) {
  kc_function *function;
  if (!blocks || threads < 1) return KC_INVALID_VALUE;
  int error = described(host, &function);
  if (!error) *blocks = kc_resident_blocks(function, threads, shared_bytes);
  return error;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads,
                                                          size_t shared_bytes) {
  ANSWER(resident_blocks(blocks, kernel, threads, shared_bytes));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads,
                                                                   size_t shared_bytes, unsigned flags) {
  ANSWER(flags > cudaOccupancyDisableCachingOverride ? KC_INVALID_VALUE
                                                      : resident_blocks(blocks, kernel, threads, shared_bytes));
}

static int available_shared(size_t *bytes, const void *host, int blocks, int threads) {
  kc_function *function;
  int error = described(host, &function);
  return error ? error : kc_available_shared(function, blocks, threads, bytes);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *kernel, int blocks, int threads) {
  ANSWER(available_shared(bytes, kernel, blocks, threads));
}

/* All devices here compute in double precision: nothing has to be changed. */
cudaError_t cudaSetDoubleForDevice(double *value) { ANSWER(value ? KC_OK : KC_INVALID_VALUE); }

cudaError_t cudaSetDoubleForHost(double *value) { ANSWER(value ? KC_OK : KC_INVALID_VALUE); }

/* --- libraries of kernels --- */

static kc_module *module_of(cudaLibrary_t library) { return (kc_module *)library; }

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *options, void **values,
                                unsigned count, enum cudaLibraryOption *library_options, void **library_values,
                                unsigned library_count) {
  (void)library_options, (void)library_values, (void)library_count;
  kc_clear_logs(count, (const int *)options, values);
  ANSWER(kc_open_module(code, (kc_module **)library));
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, enum cudaJitOption *options,
                                    void **values, unsigned count, enum cudaLibraryOption *library_options,
                                    void **library_values, unsigned library_count) {
  (void)library_options, (void)library_values, (void)library_count;
  kc_clear_logs(count, (const int *)options, values);
  ANSWER(kc_open_module_file(path, (kc_module **)library));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) { ANSWER(kc_close_module(module_of(library))); }

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
  ANSWER(kc_module_function(module_of(library), name, (kc_function **)kernel));
}

static int library_variable(void **pointer, size_t *bytes, cudaLibrary_t library, const char *name) {
  uint64_t address;
  int error = kc_module_variable(module_of(library), name, &address, bytes);
  if (!error && pointer) *pointer = (void *)(uintptr_t)address;
  return error;
}

cudaError_t cudaLibraryGetGlobal(void **pointer, size_t *bytes, cudaLibrary_t library, const char *name) {
  ANSWER(library_variable(pointer, bytes, library, name));
}

cudaError_t cudaLibraryGetManaged(void **pointer, size_t *bytes, cudaLibrary_t library, const char *name) {
  ANSWER(library_variable(pointer, bytes, library, name));
}
