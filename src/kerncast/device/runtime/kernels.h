/* Modules that a program loads itself, and what it may ask and set of kernels. */
#ifndef KERNCAST_KERNELS_H
#define KERNCAST_KERNELS_H

#include "core.h"

typedef struct kc_module kc_module;
/* Both take what kc_load_module takes, and machine code is refused. */
int kc_open_module(const void *image, kc_module **module);
int kc_open_module_file(const char *path, kc_module **module);
int kc_close_module(kc_module *module);
/* The same function each time; KC_SYMBOL_NOT_FOUND where the module has none of this name. */
int kc_module_function(kc_module *module, const char *name, kc_function **function);
int kc_module_variable(kc_module *module, const char *name, uint64_t *address, size_t *bytes);
/* The module that a function was asked of, or NULL. */
kc_module *kc_module_of(const kc_function *function);
/* Sets what a compiler of PTX would write into the options of a load: nothing. */
void kc_clear_logs(unsigned count, const int *options, void **values);

/* By the numbers that cudaFuncAttribute and CUfunction_attribute have in common. */
int kc_function_attribute(kc_function *function, int attribute, int *value);
int kc_set_function_attribute(kc_function *function, int attribute, int value);
int kc_function_parameter(kc_function *function, size_t index, size_t *offset, size_t *bytes);

/* How much dynamic shared memory leaves room for so many blocks on one multiprocessor. */
int kc_available_shared(kc_function *function, int blocks, int threads, size_t *bytes);
/* The block that fills the device best; dynamic shared memory is fixed, or a function of the threads. */
struct kc_block_wish {
  size_t (*shared_for)(int threads);
  size_t shared_bytes;
  int most_threads;
};
int kc_best_block(kc_function *function, struct kc_block_wish wish, int *blocks, int *threads);

/* What the attributes of a launch ask for. They lie in memory as CUlaunchAttribute and cudaLaunchAttribute do. */
struct kc_launch_wish {
  uint32_t flags;
  kc_event *event; /* to be recorded behind the launch */
};
/* Takes the parameters of a launch from a list that ends at 0: 1, their buffer, 2, its size. */
int kc_read_extra(void **extra, struct kc_launch *launch);
int kc_read_launch_attributes(const void *attributes, unsigned count, struct kc_launch_wish *wish);

#endif
