/* Initialisation, errors, devices and contexts of the CUDA driver. Part of libcuda.so. */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* --- beginning and errors --- */

static bool is_initialised;

int kc_driver_begin(void) {
  if (!is_initialised && !kc_has_begun()) return KC_NOT_INITIALIZED;
  int error = kc_begin();
  return error ? error : kc_lasting_error();
}

int kc_driver_begin_in_context(void) {
  int error = kc_driver_begin();
  return error || kc_current_context() ? error : KC_INVALID_CONTEXT;
}

CUresult kc_driver_end(int error) {
  switch (error) {
    case KC_INVALID_CONFIGURATION:
    case KC_INVALID_PITCH: return CUDA_ERROR_INVALID_VALUE;
    case KC_INVALID_SYMBOL: return CUDA_ERROR_NOT_FOUND;
    case KC_INVALID_DEVICE_FUNCTION: return CUDA_ERROR_INVALID_HANDLE;
    default: return (CUresult)error;
  }
}

CUresult cuInit(unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  int error = kc_begin();
  is_initialised = !error;
  return kc_driver_end(error);
}

CUresult cuDriverGetVersion(int *version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = KC_DRIVER_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = kc_error_name((int)error, true) ? kc_error_text((int)error) : NULL;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = kc_error_name((int)error, true);
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuProfilerStart(void) { ANSWER(KC_OK); }

CUresult cuProfilerStop(void) { ANSWER(KC_OK); }

/* --- looking entry points up --- */

/* From which version of CUDA on a name stands for its second, third or fourth form; all others do since CUDA 3.2. */
static const struct {
  const char *name;
  int form, version;
} newer_forms[] = {
  {"cuCtxCreate", 3, 11040},
  {"cuCtxCreate", 4, 12050},
  {"cuCtxGetDevice", 2, 13000},
  {"cuCtxSynchronize", 2, 13000},
  {"cuDeviceGetUuid", 2, 11040},
  {"cuDevicePrimaryCtxRelease", 2, 11000},
  {"cuDevicePrimaryCtxReset", 2, 11000},
  {"cuDevicePrimaryCtxSetFlags", 2, 11000},
  {"cuIpcOpenMemHandle", 2, 11000},
  {"cuEventElapsedTime", 2, 12080},
  {"cuGetProcAddress", 2, 12000},
  {"cuGraphAddDependencies", 2, 12030},
  {"cuGraphAddKernelNode", 2, 12000},
  {"cuGraphAddNode", 2, 12030},
  {"cuGraphExecKernelNodeSetParams", 2, 12000},
  {"cuGraphExecUpdate", 2, 12000},
  {"cuGraphGetEdges", 2, 12030},
  {"cuGraphInstantiate", 2, 11000},
  {"cuGraphKernelNodeGetParams", 2, 12000},
  {"cuGraphKernelNodeSetParams", 2, 12000},
  {"cuGraphNodeGetDependencies", 2, 12030},
  {"cuGraphNodeGetDependentNodes", 2, 12030},
  {"cuGraphRemoveDependencies", 2, 12030},
  {"cuMemAdvise", 2, 12020},
  {"cuMemcpy3DBatchAsync", 2, 13000},
  {"cuMemcpyBatchAsync", 2, 13000},
  {"cuMemPrefetchAsync", 2, 12020},
  {"cuStreamBatchMemOp", 2, 11070},
  {"cuStreamBeginCapture", 2, 10010},
  {"cuStreamGetCaptureInfo", 2, 11030},
  {"cuStreamGetCaptureInfo", 3, 12030},
  {"cuStreamGetCtx", 2, 12050},
  {"cuStreamUpdateCaptureDependencies", 2, 12030},
  {"cuStreamWaitValue32", 2, 11070},
  {"cuStreamWaitValue64", 2, 11070},
  {"cuStreamWriteValue32", 2, 11070},
  {"cuStreamWriteValue64", 2, 11070},
};

static int version_of_form(const char *name, int form) {
  for (size_t i = 0; i < sizeof newer_forms / sizeof *newer_forms; i++)
    if (newer_forms[i].form == form && !strcmp(newer_forms[i].name, name)) return newer_forms[i].version;
  return 3020;
}

/* This library as the loader knows it. */
static void *own_library(void) {
  static void *_Atomic library;
  Dl_info own;
  if (!library && dladdr((const void *)newer_forms, &own)) library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  return library;
}

static void *find_entry_point(const char *name, int version) {
  char full[128];
  void *library = own_library(), *found = NULL;
  /* With CUDA 12 this name came to stand for another function. */
  if (version >= 12000 && !strcmp(name, "cuGraphInstantiate")) name = "cuGraphInstantiateWithFlags";
  for (int form = 4; form >= 2 && library && !found; form--) {
    if (snprintf(full, sizeof full, "%s_v%d", name, form) >= (int)sizeof full) return NULL;
    if (version >= version_of_form(name, form)) found = dlsym(library, full);
  }
  if (!found && library) found = dlsym(library, name);
  /* What another library defines is none of ours. */
  Dl_info own, other;
  bool is_own = found && dladdr(found, &other) && dladdr((const void *)newer_forms, &own);
  return is_own && own.dli_fbase == other.dli_fbase ? found : NULL;
}

static bool is_entry_point(const char *name) { return name && name[0] == 'c' && name[1] == 'u'; }

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  (void)flags; /* whose default stream: there is one */
  if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
  *function = is_entry_point(name) ? find_entry_point(name, version) : NULL;
  if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

/* Tables of undocumented functions, by which libraries of NVIDIA's tell its driver from others: there are none. */
CUresult cuGetExportTable(const void **table, const CUuuid *name) {
  (void)name;
  if (table) *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}

/* --- the device --- */

static int tell_number(int *place, int value) {
  if (!place) return KC_INVALID_VALUE;
  *place = value;
  return KC_OK;
}

CUresult cuDeviceGet(CUdevice *device, int number) {
  ANSWER_ANYWHERE(number ? KC_INVALID_DEVICE : tell_number(device, 0));
}

CUresult cuDeviceGetCount(int *count) { ANSWER_ANYWHERE(tell_number(count, 1)); }

static int device_name(char *name, int room) {
  if (!name || room < 1) return KC_INVALID_VALUE;
  snprintf(name, (size_t)room, "%s", kc_device()->name);
  return KC_OK;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : device_name(name, room));
}

static int device_uuid(CUuuid *uuid) {
  if (!uuid) return KC_INVALID_VALUE;
  memcpy(uuid, kc_device()->uuid, sizeof *uuid);
  return KC_OK;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : device_uuid(uuid));
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

static int total_memory(size_t *bytes) {
  size_t free_bytes;
  if (!bytes) return KC_INVALID_VALUE;
  kc_memory(&free_bytes, bytes);
  return KC_OK;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : total_memory(bytes));
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : kc_attribute((int)attribute, value));
}

static int capability(int *major, int *minor) {
  int error = tell_number(major, kc_device()->major);
  return error ? error : tell_number(minor, kc_device()->minor);
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : capability(major, minor));
}

static int old_properties(CUdevprop *found) {
  if (!found) return KC_INVALID_VALUE;
  *found = (CUdevprop){.maxThreadsPerBlock = 1024, .maxThreadsDim = {1024, 1024, 64},
                       .maxGridSize = {2147483647, 65535, 65535}, .totalConstantMemory = 65536, .SIMDWidth = 32,
                       .memPitch = 2147483647, .textureAlign = 512};
  found->sharedMemPerBlock = kc_device()->shared_per_block;
  found->regsPerBlock = kc_device()->registers_per_block;
  found->clockRate = kc_device()->clock_khz;
  return KC_OK;
}

CUresult cuDeviceGetProperties(CUdevprop *found, CUdevice device) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : old_properties(found));
}

static int bus_name(char *name, int room) {
  if (!name || room < (int)sizeof KC_PCI_NAME) return KC_INVALID_VALUE;
  memcpy(name, KC_PCI_NAME, sizeof KC_PCI_NAME);
  return KC_OK;
}

CUresult cuDeviceGetPCIBusId(char *name, int room, CUdevice device) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : bus_name(name, room));
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *name) {
  ANSWER_ANYWHERE(!name || strcmp(name, KC_PCI_NAME) ? KC_INVALID_DEVICE : tell_number(device, 0));
}

CUresult cuDeviceCanAccessPeer(int *answer, CUdevice device, CUdevice peer) {
  ANSWER_ANYWHERE(device || peer ? KC_INVALID_DEVICE : tell_number(answer, 0));
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer) {
  (void)attribute, (void)device, (void)peer;
  ANSWER_ANYWHERE(value ? KC_INVALID_DEVICE : KC_INVALID_VALUE); /* it takes two that differ */
}

/* --- the primary context --- */

static kc_context *context_of(CUcontext context) { return (kc_context *)context; }

static int tell_context(CUcontext *place, kc_context *context) {
  if (!place) return KC_INVALID_VALUE;
  *place = (CUcontext)context;
  return KC_OK;
}

static int retain_primary(CUcontext *context) {
  int error = tell_context(context, kc_primary_context());
  if (!error) kc_hold_primary(1);
  return error;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : retain_primary(context));
}

static int release_primary(void) {
  if (!kc_hold_primary(0)) return KC_INVALID_CONTEXT;
  kc_hold_primary(-1);
  return KC_OK;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : release_primary());
}
OLD_NAME("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease);

static int reset_primary(void) {
  int error = kc_lasting_error() ? KC_OK : kc_wait_device();
  if (error) return error;
  kc_free_all();
  kc_forget_lasting_error();
  return KC_OK;
}

/* An error that otherwise stays for good ends with the context. */
CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  int error = kc_begin();
  return kc_driver_end(error ? error : kc_check_device(device) ? KC_INVALID_DEVICE : reset_primary());
}
OLD_NAME("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset);

static int set_flags(kc_context *context, unsigned flags) {
  kc_set_context_flags(context, flags);
  return KC_OK;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : set_flags(kc_primary_context(), flags));
}
OLD_NAME("cuDevicePrimaryCtxSetFlags", cuDevicePrimaryCtxSetFlags);

static int primary_state(unsigned *flags, int *is_active) {
  if (!flags) return KC_INVALID_VALUE;
  *flags = kc_context_flags(kc_primary_context());
  return tell_number(is_active, kc_hold_primary(0) > 0);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *is_active) {
  ANSWER_ANYWHERE(kc_check_device(device) ? KC_INVALID_DEVICE : primary_state(flags, is_active));
}

/* --- contexts --- */

static int make_context(CUcontext *context, unsigned flags, CUdevice device) {
  if (!context) return KC_INVALID_VALUE;
  if (device) return KC_INVALID_DEVICE;
  kc_context *made = kc_new_context(flags);
  *context = (CUcontext)made;
  return kc_push_context(made);
}

CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device) {
  ANSWER_ANYWHERE(make_context(context, flags, device));
}
OLD_NAME("cuCtxCreate", cuCtxCreate);

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *wishes, int count, unsigned flags, CUdevice device) {
  (void)wishes;
  ANSWER_ANYWHERE(count ? kc_missing("contexts on a part of the device") : make_context(context, flags, device));
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *wish, unsigned flags, CUdevice device) {
  bool is_special = wish && (wish->numExecAffinityParams || wish->cigParams);
  ANSWER_ANYWHERE(is_special ? kc_missing("contexts on a part of the device") : make_context(context, flags, device));
}

CUresult cuCtxDestroy(CUcontext context) { ANSWER_ANYWHERE(kc_end_context(context_of(context))); }
OLD_NAME("cuCtxDestroy", cuCtxDestroy);

CUresult cuCtxPushCurrent(CUcontext context) { ANSWER_ANYWHERE(kc_push_context(context_of(context))); }
OLD_NAME("cuCtxPushCurrent", cuCtxPushCurrent);

CUresult cuCtxPopCurrent(CUcontext *context) { ANSWER_ANYWHERE(kc_pop_context((kc_context **)context)); }
OLD_NAME("cuCtxPopCurrent", cuCtxPopCurrent);

static int set_current(kc_context *context) {
  if (context && !kc_is_context(context)) return KC_INVALID_CONTEXT;
  kc_set_current_context(context);
  return KC_OK;
}

CUresult cuCtxSetCurrent(CUcontext context) { ANSWER_ANYWHERE(set_current(context_of(context))); }

CUresult cuCtxGetCurrent(CUcontext *context) { ANSWER_ANYWHERE(tell_context(context, kc_current_context())); }

CUresult cuCtxGetDevice(CUdevice *device) { ANSWER(tell_number(device, 0)); }

static int tell_flags(unsigned *flags) {
  if (!flags) return KC_INVALID_VALUE;
  *flags = kc_context_flags(kc_current_context());
  return KC_OK;
}

CUresult cuCtxGetFlags(unsigned *flags) { ANSWER(tell_flags(flags)); }

CUresult cuCtxSetFlags(unsigned flags) { ANSWER(set_flags(kc_current_context(), flags)); }

/* A context that is named, or that of the thread. */
static int known_context(CUcontext context, const kc_context **found) {
  *found = context ? context_of(context) : kc_current_context();
  return *found && kc_is_context(*found) ? KC_OK : KC_INVALID_CONTEXT;
}

static int context_number(CUcontext context, unsigned long long *number) {
  const kc_context *found;
  int error = number ? known_context(context, &found) : KC_INVALID_VALUE;
  if (!error) *number = kc_context_number(found);
  return error;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *number) {
  ANSWER_ANYWHERE(context_number(context, number));
}

static int interface_version(CUcontext context, unsigned *version) {
  const kc_context *found;
  int error = version ? known_context(context, &found) : KC_INVALID_VALUE;
  if (!error) *version = 3020; /* of contexts, not of CUDA */
  return error;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
  ANSWER_ANYWHERE(interface_version(context, version));
}

CUresult cuCtxSynchronize(void) { ANSWER(kc_wait_device()); }

/* CUDA 13 names the context, where before it was that of the thread. */
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
  const kc_context *found;
  int error = known_context(context, &found);
  ANSWER_ANYWHERE(error ? error : tell_number(device, 0));
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  const kc_context *found;
  int error = known_context(context, &found);
  ANSWER_ANYWHERE(error ? error : kc_wait_device());
}

/* --- limits and hints --- */

CUresult cuCtxSetLimit(CUlimit limit, size_t value) { ANSWER(kc_set_limit((int)limit, value)); }

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) { ANSWER(kc_limit((int)limit, value)); }

CUresult cuCtxGetCacheConfig(CUfunc_cache *config) { ANSWER(tell_number((int *)config, CU_FUNC_CACHE_PREFER_NONE)); }

CUresult cuCtxSetCacheConfig(CUfunc_cache config) { ANSWER((int)config > CU_FUNC_CACHE_PREFER_EQUAL); }

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config) {
  ANSWER(tell_number((int *)config, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  ANSWER((int)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
}

CUresult cuCtxResetPersistingL2Cache(void) { ANSWER(KC_OK); }

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  (void)peer;
  ANSWER(flags ? KC_INVALID_VALUE : KC_INVALID_DEVICE);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  (void)peer;
  ANSWER(KC_PEER_NOT_ENABLED);
}
