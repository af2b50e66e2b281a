/* Modules, kernels and launches of the CUDA driver. Part of libcuda.so.
 *
 * A library and a module are the same here, and so are a kernel and a function. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static kc_module *module_of(CUmodule module) { return (kc_module *)module; }

static kc_module *module_of_library(CUlibrary library) { return (kc_module *)library; }

static kc_function *function_of_kernel(CUkernel kernel) { return (kc_function *)kernel; }

/* --- modules --- */

static int open_file(const char *path, kc_module **module) {
  return path && module ? kc_open_module_file(path, module) : KC_INVALID_VALUE;
}

CUresult cuModuleLoad(CUmodule *module, const char *path) { ANSWER(open_file(path, (kc_module **)module)); }

CUresult cuModuleLoadData(CUmodule *module, const void *image) { ANSWER(kc_open_module(image, (kc_module **)module)); }

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
  kc_clear_logs(count, (const int *)options, values);
  ANSWER(kc_open_module(image, (kc_module **)module));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  ANSWER(kc_open_module(image, (kc_module **)module));
}

CUresult cuModuleUnload(CUmodule module) { ANSWER(kc_close_module(module_of(module))); }

static int loading_mode(CUmoduleLoadingMode *mode) {
  if (!mode) return KC_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return KC_OK;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) { ANSWER_ANYWHERE(loading_mode(mode)); }

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  ANSWER(kc_module_function(module_of(module), name, (kc_function **)function));
}

static int variable(CUdeviceptr *place, size_t *bytes, kc_module *module, const char *name) {
  uint64_t address;
  int error = kc_module_variable(module, name, &address, bytes);
  if (!error && place) *place = address;
  return error;
}

CUresult cuModuleGetGlobal(CUdeviceptr *place, size_t *bytes, CUmodule module, const char *name) {
  ANSWER(variable(place, bytes, module_of(module), name));
}

/* --- libraries --- */

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned count,
                           CUlibraryOption *library_options, void **library_values, unsigned library_count) {
  (void)library_options, (void)library_values, (void)library_count;
  kc_clear_logs(count, (const int *)options, values);
  ANSWER_ANYWHERE(kc_open_module(code, (kc_module **)library));
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values,
                               unsigned count, CUlibraryOption *library_options, void **library_values,
                               unsigned library_count) {
  (void)library_options, (void)library_values, (void)library_count;
  kc_clear_logs(count, (const int *)options, values);
  ANSWER_ANYWHERE(open_file(path, (kc_module **)library));
}

CUresult cuLibraryUnload(CUlibrary library) { ANSWER_ANYWHERE(kc_close_module(module_of_library(library))); }

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  ANSWER_ANYWHERE(kc_module_function(module_of_library(library), name, (kc_function **)kernel));
}

static int tell_pointer(void *place, void *pointer) {
  if (!place) return KC_INVALID_VALUE;
  memcpy(place, &pointer, sizeof pointer);
  return pointer ? KC_OK : KC_INVALID_HANDLE;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) { ANSWER(tell_pointer(module, library)); }

CUresult cuLibraryGetGlobal(CUdeviceptr *place, size_t *bytes, CUlibrary library, const char *name) {
  ANSWER(variable(place, bytes, module_of_library(library), name));
}

CUresult cuLibraryGetManaged(CUdeviceptr *place, size_t *bytes, CUlibrary library, const char *name) {
  ANSWER(variable(place, bytes, module_of_library(library), name));
}

/* --- kernels --- */

static int check_function(const kc_function *function) {
  return kc_is_function(function) ? KC_OK : KC_INVALID_HANDLE;
}

static int function_attribute(kc_function *function, CUfunction_attribute attribute, int *value) {
  int error = check_function(function);
  return error ? error : kc_function_attribute(function, (int)attribute, value);
}

static int set_function_attribute(kc_function *function, CUfunction_attribute attribute, int value) {
  int error = check_function(function);
  return error ? error : kc_set_function_attribute(function, (int)attribute, value);
}

static int function_name(const char **name, const kc_function *function) {
  int error = name ? check_function(function) : KC_INVALID_VALUE;
  if (!error) *name = kc_function_name(function);
  return error;
}

static int parameter(kc_function *function, size_t index, size_t *offset, size_t *bytes) {
  int error = check_function(function);
  return error ? error : kc_function_parameter(function, index, offset, bytes);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) { ANSWER(tell_pointer(function, kernel)); }

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
  ANSWER_ANYWHERE(tell_pointer(library, kc_module_of(function_of_kernel(kernel))));
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  ANSWER_ANYWHERE(device ? KC_INVALID_DEVICE : function_attribute(function_of_kernel(kernel), attribute, value));
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  ANSWER_ANYWHERE(device ? KC_INVALID_DEVICE : set_function_attribute(function_of_kernel(kernel), attribute, value));
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device) {
  (void)config; /* a hint */
  ANSWER_ANYWHERE(device ? KC_INVALID_DEVICE : check_function(function_of_kernel(kernel)));
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) {
  ANSWER_ANYWHERE(function_name(name, function_of_kernel(kernel)));
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes) {
  ANSWER_ANYWHERE(parameter(function_of_kernel(kernel), index, offset, bytes));
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  ANSWER(function_attribute(kc_function_of(function), attribute, value));
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  ANSWER(set_function_attribute(kc_function_of(function), attribute, value));
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  (void)config; /* a hint */
  ANSWER(check_function(kc_function_of(function)));
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
  (void)config; /* a hint, which only devices of 2012 took */
  ANSWER(check_function(kc_function_of(function)));
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
  ANSWER(tell_pointer(module, kc_module_of(kc_function_of(function))));
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
  ANSWER(function_name(name, kc_function_of(function)));
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes) {
  ANSWER(parameter(kc_function_of(function), index, offset, bytes));
}

static int is_loaded(CUfunctionLoadingState *state, kc_function *function) {
  int error = state ? check_function(function) : KC_INVALID_VALUE;
  if (!error) *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return error;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
  ANSWER(is_loaded(state, kc_function_of(function)));
}

CUresult cuFuncLoad(CUfunction function) { ANSWER(check_function(kc_function_of(function))); }

/* --- occupancy --- */

static int resident_blocks(int *blocks, kc_function *function, int threads, size_t shared_bytes) {
  int error = blocks && threads > 0 ? check_function(function) : KC_INVALID_VALUE;
  if (!error) *blocks = kc_resident_blocks(function, threads, shared_bytes);
  return error;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared_bytes) {
  ANSWER(resident_blocks(blocks, kc_function_of(function), threads, shared_bytes));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                              size_t shared_bytes, unsigned flags) {
  ANSWER(flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE
             ? KC_INVALID_VALUE
             : resident_blocks(blocks, kc_function_of(function), threads, shared_bytes));
}

static int best_block(kc_function *function, struct kc_block_wish wish, int *blocks, int *threads) {
  int error = check_function(function);
  return error ? error : kc_best_block(function, wish, blocks, threads);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads, CUfunction function,
                                          CUoccupancyB2DSize shared_for, size_t shared_bytes, int most_threads) {
  struct kc_block_wish wish = {shared_for, shared_bytes, most_threads};
  ANSWER(best_block(kc_function_of(function), wish, blocks, threads));
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *blocks, int *threads, CUfunction function,
                                                   CUoccupancyB2DSize shared_for, size_t shared_bytes,
                                                   int most_threads, unsigned flags) {
  struct kc_block_wish wish = {shared_for, shared_bytes, most_threads};
  ANSWER(flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE
             ? KC_INVALID_VALUE
             : best_block(kc_function_of(function), wish, blocks, threads));
}

static int available_shared(size_t *bytes, kc_function *function, int blocks, int threads) {
  int error = check_function(function);
  return error ? error : kc_available_shared(function, blocks, threads, bytes);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int threads) {
  ANSWER(available_shared(bytes, kc_function_of(function), blocks, threads));
}

/* --- launches --- */

static int do_launch(struct kc_launch *launch, void **extra) {
  int error = check_function(launch->function);
  if (!error && !kc_is_stream(launch->stream)) error = KC_INVALID_HANDLE;
  if (!error && launch->arguments && extra) error = KC_INVALID_VALUE;
  if (!error) error = kc_read_extra(extra, launch);
  return error ? error : kc_launch(launch);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **arguments,
                        void **extra) {
  struct kc_launch launch = {kc_function_of(function), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                             shared_bytes, 0, kc_stream_of(stream), arguments, NULL, 0};
  ANSWER(do_launch(&launch, extra));
}
PER_THREAD(cuLaunchKernel, ptsz);

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void **arguments) {
  struct kc_launch launch = {kc_function_of(function), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                             shared_bytes, KC_COOPERATIVE, kc_stream_of(stream), arguments, NULL, 0};
  ANSWER(do_launch(&launch, NULL));
}
PER_THREAD(cuLaunchCooperativeKernel, ptsz);

static int launch_as_wished(const CUlaunchConfig *wish, kc_function *function, void **arguments, void **extra) {
  struct kc_launch_wish found;
  if (!wish) return KC_INVALID_VALUE;
  int error = kc_read_launch_attributes(wish->attrs, wish->numAttrs, &found);
  if (error) return error;
  struct kc_launch launch = {function, {wish->gridDimX, wish->gridDimY, wish->gridDimZ},
                             {wish->blockDimX, wish->blockDimY, wish->blockDimZ}, wish->sharedMemBytes, found.flags,
                             kc_stream_of(wish->hStream), arguments, NULL, 0};
  error = do_launch(&launch, extra);
  return error || !found.event ? error : kc_record(found.event, launch.stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *wish, CUfunction function, void **arguments, void **extra) {
  ANSWER(launch_as_wished(wish, kc_function_of(function), arguments, extra));
}
PER_THREAD(cuLaunchKernelEx, ptsz);

/* --- linking: texts of PTX are handed on, one behind the other --- */

struct link {
  char *text;
  size_t bytes;
};

static int make_link(CUlinkState *state, unsigned count, CUjit_option *options, void **values) {
  if (!state) return KC_INVALID_VALUE;
  kc_clear_logs(count, (const int *)options, values);
  *state = calloc(1, sizeof(struct link));
  return KC_OK;
}

CUresult cuLinkCreate(unsigned count, CUjit_option *options, void **values, CUlinkState *state) {
  ANSWER(make_link(state, count, options, values));
}
OLD_NAME("cuLinkCreate", cuLinkCreate);

static int add_text(struct link *link, CUjitInputType type, const void *data, size_t bytes) {
  if (!link || !data || !bytes) return KC_INVALID_VALUE;
  if (type == CU_JIT_INPUT_LIBRARY) {
    /* Mostly that of launches by kernels, which cooperating ones are linked with although they need none of it. */
    kc_note("a library of device code was left out when PTX was linked");
    return KC_OK;
  }
  if (type != CU_JIT_INPUT_PTX) return kc_missing("linking of anything but PTX");
  bytes = strnlen(data, bytes);
  link->text = realloc(link->text, link->bytes + bytes + 16);
  memcpy(link->text + link->bytes, data, bytes);
  link->bytes += bytes;
  link->text[link->bytes++] = '\n';
  memset(link->text + link->bytes, 0, 8);
  return KC_OK;
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name,
                       unsigned count, CUjit_option *options, void **values) {
  (void)name, (void)count, (void)options, (void)values;
  ANSWER(add_text((struct link *)state, type, data, bytes));
}
OLD_NAME("cuLinkAddData", cuLinkAddData);

static int add_file(struct link *link, CUjitInputType type, const char *path) {
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (!file) return KC_FILE_NOT_FOUND;
  fseek(file, 0, SEEK_END);
  long bytes = ftell(file);
  rewind(file);
  char *data = bytes > 0 ? malloc((size_t)bytes) : NULL;
  bool is_read = data && fread(data, 1, (size_t)bytes, file) == (size_t)bytes;
  fclose(file);
  int error = is_read ? add_text(link, type, data, (size_t)bytes) : KC_INVALID_IMAGE;
  free(data);
  return error;
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned count, CUjit_option *options,
                       void **values) {
  (void)count, (void)options, (void)values;
  ANSWER(add_file((struct link *)state, type, path));
}
OLD_NAME("cuLinkAddFile", cuLinkAddFile);

static int complete_link(const struct link *link, void **image, size_t *bytes) {
  if (!link || !image) return KC_INVALID_VALUE;
  if (!link->text) return KC_INVALID_IMAGE;
  *image = link->text;
  if (bytes) *bytes = link->bytes + 1;
  return KC_OK;
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes) {
  ANSWER(complete_link((const struct link *)state, image, bytes));
}

static int end_link(struct link *link) {
  if (!link) return KC_INVALID_VALUE;
  free(link->text);
  free(link);
  return KC_OK;
}

CUresult cuLinkDestroy(CUlinkState state) { ANSWER(end_link((struct link *)state)); }
