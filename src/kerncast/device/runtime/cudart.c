/* Errors, versions and devices of the CUDA runtime. Part of libcudart.so. */
#define _GNU_SOURCE
#include "cudart.h"

#include <dlfcn.h>
#include <string.h>

#include "kernels.h"

/* --- errors --- */

static _Thread_local int last_error;

int kc_runtime_begin(void) {
  int error = kc_begin();
  if (!error) error = kc_lasting_error();
  if (!error && !kc_current_context()) {
    kc_push_context(kc_primary_context());
    kc_hold_primary(1);
  }
  return error;
}

cudaError_t kc_runtime_end(int error) {
  if (error) last_error = error;
  return (cudaError_t)error;
}

cudaError_t cudaGetLastError(void) {
  int error = kc_lasting_error() ? kc_lasting_error() : last_error;
  last_error = KC_OK;
  return (cudaError_t)error;
}

cudaError_t cudaPeekAtLastError(void) {
  return (cudaError_t)(kc_lasting_error() ? kc_lasting_error() : last_error);
}

/* For cudart_missing.c, which knows no cudaError_t. */
int kc_runtime_missing(const char *name) {
  last_error = kc_missing(name);
  return last_error;
}

const char *cudaGetErrorName(cudaError_t error) {
  const char *name = kc_error_name((int)error, false);
  return name ? name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
  const char *text = kc_error_name((int)error, false) ? kc_error_text((int)error) : NULL;
  return text ? text : "unrecognized error code";
}

/* --- versions, the driver, profilers --- */

static int own_version(void) {
  switch (KC_CUDA_MAJOR) {
    case 11: return 11080;
    case 12: return CUDART_VERSION;
    default: return KC_CUDA_MAJOR * 1000;
  }
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  if (!version) return kc_runtime_end(KC_INVALID_VALUE);
  *version = own_version();
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
  if (!version) return kc_runtime_end(KC_INVALID_VALUE);
  *version = KC_DRIVER_VERSION;
  return cudaSuccess;
}

/* Asks our driver, which the search for libraries finds beside this one. */
static int entry_point(const char *symbol, void **function, unsigned version, unsigned long long flags, int *status) {
  typedef int look_up(const char *, void **, int, uint64_t, int *);
  if (!symbol || !function) return KC_INVALID_VALUE;
  *function = NULL;
  if (status) *status = cudaDriverEntryPointSymbolNotFound;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  look_up *found = driver ? (look_up *)dlsym(driver, "cuGetProcAddress_v2") : NULL;
  if (!found) return KC_SYMBOL_NOT_FOUND;
  int error = found(symbol, function, (int)version, flags, status);
  return error == KC_SYMBOL_NOT_FOUND && status ? KC_OK : error;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *status) {
  ANSWER(entry_point(symbol, function, version, flags, (int *)status));
}
PER_THREAD(cudaGetDriverEntryPointByVersion, ptsz);

/* Programs of CUDA 11 leave the last argument out. */
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status) {
  if (KC_CUDA_MAJOR < 12) status = NULL;
  ANSWER(entry_point(symbol, function, (unsigned)own_version(), flags, (int *)status));
}
PER_THREAD(cudaGetDriverEntryPoint, ptsz);

cudaError_t cudaProfilerStart(void) { ANSWER(KC_OK); }

cudaError_t cudaProfilerStop(void) { ANSWER(KC_OK); }

/* --- devices: there is one --- */

static int check_device(int device) { return device ? KC_INVALID_DEVICE : KC_OK; }

cudaError_t cudaGetDeviceCount(int *count) {
  if (!count) return kc_runtime_end(KC_INVALID_VALUE);
  *count = kc_begin() ? 0 : 1;
  ANSWER(KC_OK);
}

cudaError_t cudaSetDevice(int device) { ANSWER(check_device(device)); }

static int choose(int *device) {
  if (!device) return KC_INVALID_VALUE;
  *device = 0;
  return KC_OK;
}

cudaError_t cudaGetDevice(int *device) { ANSWER(choose(device)); }

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *wish) { ANSWER(wish ? choose(device) : 1); }

static int valid_devices(const int *devices, int count) {
  if (count < 0 || (count && !devices)) return KC_INVALID_VALUE;
  for (int i = 0; i < count; i++)
    if (devices[i]) return KC_INVALID_DEVICE;
  return KC_OK;
}

cudaError_t cudaSetValidDevices(int *devices, int count) { ANSWER(valid_devices(devices, count)); }

static int set_flags(unsigned flags) {
  kc_set_context_flags(kc_primary_context(), flags);
  return KC_OK;
}

cudaError_t cudaSetDeviceFlags(unsigned flags) { ANSWER(set_flags(flags)); }

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  if (device) ANSWER(KC_INVALID_DEVICE);
  ANSWER(flags & cudaInitDeviceFlagsAreValid ? set_flags(device_flags) : KC_OK);
}

static int get_flags(unsigned *flags) {
  if (!flags) return KC_INVALID_VALUE;
  /* Memory of the host can always be mapped. */
  *flags = kc_context_flags(kc_primary_context()) | cudaDeviceMapHost;
  return KC_OK;
}

cudaError_t cudaGetDeviceFlags(unsigned *flags) { ANSWER(get_flags(flags)); }

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  ANSWER(check_device(device) ? KC_INVALID_DEVICE : kc_attribute((int)attribute, value));
}

static int bus_name(char *name, int room) {
  if (!name || room < (int)sizeof KC_PCI_NAME) return KC_INVALID_VALUE;
  memcpy(name, KC_PCI_NAME, sizeof KC_PCI_NAME);
  return KC_OK;
}

cudaError_t cudaDeviceGetPCIBusId(char *name, int room, int device) {
  ANSWER(check_device(device) ? KC_INVALID_DEVICE : bus_name(name, room));
}

static int device_at(int *device, const char *name) {
  if (!device || !name) return KC_INVALID_VALUE;
  /* The domain and the function may be left out. */
  if (strcmp(name, KC_PCI_NAME) && strcmp(name, "01:00.0") && strcmp(name, "0000:01:00")) return KC_INVALID_DEVICE;
  return choose(device);
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *name) { ANSWER(device_at(device, name)); }

static int reset(void) {
  int error = kc_lasting_error() ? KC_OK : kc_wait_device();
  if (error) return error;
  kc_free_all();
  kc_forget_lasting_error();
  return KC_OK;
}

/* An error that otherwise stays for good ends with the device. */
cudaError_t cudaDeviceReset(void) {
  int error = kc_begin();
  return kc_runtime_end(error ? error : reset());
}

cudaError_t cudaThreadExit(void) { return cudaDeviceReset(); }

cudaError_t cudaDeviceSynchronize(void) { ANSWER(kc_wait_device()); }

cudaError_t cudaThreadSynchronize(void) { ANSWER(kc_wait_device()); }

/* --- limits and hints --- */

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) { ANSWER(kc_set_limit((int)limit, value)); }

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) { ANSWER(kc_limit((int)limit, value)); }

cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value) { ANSWER(kc_set_limit((int)limit, value)); }

cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit) { ANSWER(kc_limit((int)limit, value)); }

/* Of how one memory is shared out among caches no result depends: kept, since a program may ask for it. */
static enum cudaFuncCache cache_config = cudaFuncCachePreferNone;
static enum cudaSharedMemConfig bank_config = cudaSharedMemBankSizeFourByte;

static int set_cache(enum cudaFuncCache config) {
  cache_config = config;
  return KC_OK;
}

static int get_cache(enum cudaFuncCache *config) {
  if (!config) return KC_INVALID_VALUE;
  *config = cache_config;
  return KC_OK;
}

static int set_banks(enum cudaSharedMemConfig config) {
  /* Only devices of 2012 could do otherwise: the others take the call and keep four bytes. */
  return (int)config < 0 || config > cudaSharedMemBankSizeEightByte ? KC_INVALID_VALUE : KC_OK;
}

static int get_banks(enum cudaSharedMemConfig *config) {
  if (!config) return KC_INVALID_VALUE;
  *config = bank_config;
  return KC_OK;
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config) { ANSWER(set_cache(config)); }

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config) { ANSWER(get_cache(config)); }

cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config) { ANSWER(set_cache(config)); }

cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *config) { ANSWER(get_cache(config)); }

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config) { ANSWER(set_banks(config)); }

cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config) { ANSWER(get_banks(config)); }

cudaError_t cudaCtxResetPersistingL2Cache(void) { ANSWER(KC_OK); }

/* --- other devices: there are none --- */

static int can_access_peer(int *answer, int device, int peer) {
  if (!answer) return KC_INVALID_VALUE;
  *answer = 0;
  return device || peer ? KC_INVALID_DEVICE : KC_OK;
}

cudaError_t cudaDeviceCanAccessPeer(int *answer, int device, int peer) {
  ANSWER(can_access_peer(answer, device, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  ANSWER(flags ? KC_INVALID_VALUE : ((void)peer, KC_INVALID_DEVICE));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) { ANSWER(peer ? KC_INVALID_DEVICE : KC_PEER_NOT_ENABLED); }

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int device, int peer) {
  (void)attribute;
  (void)device;
  (void)peer;
  ANSWER(value ? KC_INVALID_DEVICE : KC_INVALID_VALUE); /* it takes two that differ */
}
