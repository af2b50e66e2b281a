/* Memory, copies and fills of the CUDA driver. Part of libcuda.so. */
#include <string.h>

#include "driver.h"

/* --- allocations --- */

static int give(CUdeviceptr *place, size_t bytes, int kind) {
  uint64_t address;
  if (!place || !bytes) return KC_INVALID_VALUE;
  int error = kc_allocate(bytes, kind, &address);
  if (!error) *place = address;
  return error;
}

CUresult cuMemAlloc(CUdeviceptr *place, size_t bytes) { ANSWER(give(place, bytes, KC_DEVICE_MEMORY)); }

static int give_rows(CUdeviceptr *place, size_t *pitch, size_t width, size_t rows) {
  if (!pitch) return KC_INVALID_VALUE;
  *pitch = (width + KC_PITCH - 1) / KC_PITCH * KC_PITCH;
  return give(place, *pitch * rows, KC_DEVICE_MEMORY);
}

CUresult cuMemAllocPitch(CUdeviceptr *place, size_t *pitch, size_t width, size_t height, unsigned element_bytes) {
  bool is_element = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
  ANSWER(is_element ? give_rows(place, pitch, width, height) : KC_INVALID_VALUE);
}

CUresult cuMemAllocManaged(CUdeviceptr *place, size_t bytes, unsigned flags) {
  ANSWER(flags < CU_MEM_ATTACH_GLOBAL || flags > CU_MEM_ATTACH_HOST ? KC_INVALID_VALUE
                                                                     : give(place, bytes, KC_MANAGED));
}

static int give_pinned(void **place, size_t bytes) {
  CUdeviceptr address;
  int error = place ? give(&address, bytes, KC_PINNED) : KC_INVALID_VALUE;
  if (!error) *place = (void *)(uintptr_t)address;
  return error;
}

CUresult cuMemAllocHost(void **place, size_t bytes) { ANSWER(give_pinned(place, bytes)); }

CUresult cuMemHostAlloc(void **place, size_t bytes, unsigned flags) {
  ANSWER(flags > 7 ? KC_INVALID_VALUE : give_pinned(place, bytes));
}

/* Work of the device that may use the memory is waited for; a capture allows no waiting, but may allow this. */
static int take_back(CUdeviceptr address) {
  int error = kc_is_capturing() ? KC_OK : kc_wait_device();
  return error ? error : kc_free_kind(address, 1u << KC_DEVICE_MEMORY | 1u << KC_MANAGED);
}

CUresult cuMemFree(CUdeviceptr address) { ANSWER(address ? take_back(address) : KC_OK); }

CUresult cuMemFreeHost(void *pointer) {
  ANSWER(pointer ? kc_free_kind((uint64_t)(uintptr_t)pointer, 1u << KC_PINNED) : KC_INVALID_VALUE);
}

static int get_memory(size_t *free_bytes, size_t *total_bytes) {
  if (!free_bytes || !total_bytes) return KC_INVALID_VALUE;
  kc_memory(free_bytes, total_bytes);
  return KC_OK;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total_bytes) { ANSWER(get_memory(free_bytes, total_bytes)); }

static int range_of(CUdeviceptr *start, size_t *bytes, CUdeviceptr address) {
  struct kc_range range;
  if (!kc_find(address, &range)) return KC_SYMBOL_NOT_FOUND;
  if (start) *start = range.address;
  if (bytes) *bytes = range.bytes;
  return KC_OK;
}

CUresult cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr address) {
  ANSWER(range_of(start, bytes, address));
}

/* --- the host's memory --- */

CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned flags) {
  ANSWER(flags & CU_MEMHOSTREGISTER_IOMEMORY ? kc_missing("CU_MEMHOSTREGISTER_IOMEMORY")
                                             : kc_register_host(pointer, bytes));
}
OLD_NAME("cuMemHostRegister", cuMemHostRegister);

CUresult cuMemHostUnregister(void *pointer) { ANSWER(kc_unregister_host(pointer)); }

static int device_pointer(CUdeviceptr *found, void *pointer, unsigned flags) {
  if (!found || flags) return KC_INVALID_VALUE;
  *found = kc_device_address(pointer);
  return *found ? KC_OK : KC_INVALID_VALUE;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *found, void *pointer, unsigned flags) {
  ANSWER(device_pointer(found, pointer, flags));
}

static int host_flags(unsigned *flags, void *pointer) {
  struct kc_range range;
  if (!flags || !kc_device_address(pointer)) return KC_INVALID_VALUE;
  if (kc_find((uint64_t)(uintptr_t)pointer, &range) && range.kind != KC_PINNED && range.kind != KC_REGISTERED)
    return KC_INVALID_VALUE;
  *flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP; /* as all of it is */
  return KC_OK;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer) { ANSWER(host_flags(flags, pointer)); }

/* --- hints: all memory is where it is needed --- */

static int check_range(CUdeviceptr address, size_t bytes) {
  struct kc_range range;
  if (!kc_find(address, &range)) return KC_INVALID_VALUE;
  return bytes <= range.address + range.bytes - address ? KC_OK : KC_INVALID_VALUE;
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  (void)device, (void)stream;
  ANSWER(check_range(address, bytes));
}
PER_THREAD(cuMemPrefetchAsync, ptsz);

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation place, unsigned flags,
                               CUstream stream) {
  (void)place, (void)flags, (void)stream;
  ANSWER(check_range(address, bytes));
}
PER_THREAD(cuMemPrefetchAsync_v2, ptsz);

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) {
  (void)advice, (void)device;
  ANSWER(check_range(address, bytes));
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation place) {
  (void)advice, (void)place;
  ANSWER(check_range(address, bytes));
}

/* --- attributes of pointers --- */

struct place {
  CUdeviceptr address, device_address;
  struct kc_range range;
  bool is_of_device; /* rather than the host's own, which has been registered */
};

static int find_place(CUdeviceptr address, struct place *found) {
  *found = (struct place){address, kc_device_address(kc_pointer_to(address)), {0}, false};
  if (!found->device_address) return KC_INVALID_VALUE;
  found->is_of_device = kc_find(address, &found->range);
  if (!found->is_of_device) kc_find(found->device_address, &found->range);
  return KC_OK;
}

static bool is_on_host(const struct place *place) {
  return place->range.kind == KC_PINNED || place->range.kind == KC_REGISTERED;
}

/* Answers whose size is that of a pointer. */
static int wide_attribute(CUpointer_attribute attribute, const struct place *place, uint64_t *value) {
  bool host_may_use = is_on_host(place) || place->range.kind == KC_MANAGED;
  switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *value = (uint64_t)(uintptr_t)kc_primary_context(); return KC_OK;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *value = place->device_address; return KC_OK;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: *value = place->address; return host_may_use ? KC_OK : KC_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *value = place->range.address; return KC_OK;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *value = place->range.bytes; return KC_OK;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *value = 0; return KC_OK;
    default: return KC_NOT_SUPPORTED;
  }
}

static int narrow_attribute(CUpointer_attribute attribute, const struct place *place, unsigned *value) {
  switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *value = is_on_host(place) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return KC_OK;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *value = place->range.kind == KC_MANAGED; return KC_OK;
    case CU_POINTER_ATTRIBUTE_MAPPED: *value = 1; return KC_OK;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *value = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE; return KC_OK;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: *value = 0; return KC_OK;
    default: return KC_NOT_SUPPORTED;
  }
}

static int pointer_attribute(void *to, CUpointer_attribute attribute, CUdeviceptr address) {
  struct place place;
  uint64_t wide;
  unsigned narrow;
  int error = to ? find_place(address, &place) : KC_INVALID_VALUE;
  if (error) return error;
  error = wide_attribute(attribute, &place, &wide);
  if (!error) memcpy(to, &wide, sizeof wide);
  if (error != KC_NOT_SUPPORTED) return error;
  error = narrow_attribute(attribute, &place, &narrow);
  if (!error) memcpy(to, &narrow, attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED ? sizeof(bool) : sizeof narrow);
  return error == KC_NOT_SUPPORTED ? KC_INVALID_VALUE : error;
}

CUresult cuPointerGetAttribute(void *to, CUpointer_attribute attribute, CUdeviceptr address) {
  ANSWER(pointer_attribute(to, attribute, address));
}

/* For memory that is the host's alone this answers with nothing, instead of an error. */
static int pointer_attributes(unsigned count, const CUpointer_attribute *attributes, void **to, CUdeviceptr address) {
  static const int nowhere = -2;
  if (!attributes || !to) return KC_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    uint64_t wide;
    struct place none = {0};
    if (!to[i]) return KC_INVALID_VALUE;
    if (!pointer_attribute(to[i], attributes[i], address)) continue;
    bool is_wide = wide_attribute(attributes[i], &none, &wide) != KC_NOT_SUPPORTED;
    memset(to[i], 0, is_wide ? sizeof wide : attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ? 1 : sizeof nowhere);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) memcpy(to[i], &nowhere, sizeof nowhere);
  }
  return KC_OK;
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **to, CUdeviceptr address) {
  ANSWER(pointer_attributes(count, attributes, to, address));
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address) {
  struct place place;
  /* Whether copies wait for one another: they do. */
  bool is_valid = value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
  ANSWER(is_valid ? find_place(address, &place) : KC_INVALID_VALUE);
}

/* --- pools --- */

static kc_pool *pool_of(CUmemoryPool pool) { return (kc_pool *)pool; }

static int give_from(kc_pool *pool, CUdeviceptr *place, size_t bytes, CUstream stream) {
  uint64_t address = 0;
  if (!place) return KC_INVALID_VALUE;
  int error = kc_allocate_from_pool(pool, bytes, kc_stream_of(stream), &address);
  if (!error) *place = address;
  return error;
}

CUresult cuMemAllocAsync(CUdeviceptr *place, size_t bytes, CUstream stream) {
  ANSWER(give_from(kc_device_pool(), place, bytes, stream));
}
PER_THREAD(cuMemAllocAsync, ptsz);

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *place, size_t bytes, CUmemoryPool pool, CUstream stream) {
  ANSWER(give_from(pool_of(pool), place, bytes, stream));
}
PER_THREAD(cuMemAllocFromPoolAsync, ptsz);

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  ANSWER(address ? kc_free_to_pool(address, kc_stream_of(stream)) : KC_INVALID_VALUE);
}
PER_THREAD(cuMemFreeAsync, ptsz);

static int tell_pool(CUmemoryPool *place, kc_pool *pool, CUdevice device) {
  if (!place) return KC_INVALID_VALUE;
  if (device) return KC_INVALID_DEVICE;
  *place = (CUmemoryPool)pool;
  return KC_OK;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  ANSWER_ANYWHERE(tell_pool(pool, kc_default_pool(), device));
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
  ANSWER_ANYWHERE(tell_pool(pool, kc_device_pool(), device));
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  ANSWER_ANYWHERE(device ? KC_INVALID_DEVICE : kc_set_device_pool(pool_of(pool)));
}

static int make_pool(CUmemoryPool *pool, const CUmemPoolProps *wish) {
  if (!pool || !wish) return KC_INVALID_VALUE;
  if (wish->handleTypes) return kc_missing("pools of memory that processes share");
  if (wish->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return kc_missing("pools of memory of the host");
  return tell_pool(pool, wish->location.id ? NULL : kc_new_pool(), wish->location.id);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *wish) { ANSWER_ANYWHERE(make_pool(pool, wish)); }

CUresult cuMemPoolDestroy(CUmemoryPool pool) { ANSWER_ANYWHERE(kc_end_pool(pool_of(pool))); }

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  ANSWER_ANYWHERE(kc_set_pool_attribute(pool_of(pool), (int)attribute, value));
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  ANSWER_ANYWHERE(kc_pool_attribute(pool_of(pool), (int)attribute, value));
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
  (void)bytes; /* nothing is kept that could be given back */
  ANSWER_ANYWHERE(pool ? KC_OK : KC_INVALID_VALUE);
}

static int set_pool_access(CUmemoryPool pool, const CUmemAccessDesc *wishes, size_t count) {
  if (!pool || (count && !wishes)) return KC_INVALID_VALUE;
  for (size_t i = 0; i < count; i++)
    if (wishes[i].location.id) return KC_INVALID_DEVICE;
  return KC_OK;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *wishes, size_t count) {
  ANSWER_ANYWHERE(set_pool_access(pool, wishes, count));
}

static int pool_access(CUmemAccess_flags *flags, CUmemoryPool pool, const CUmemLocation *place) {
  if (!flags || !pool || !place) return KC_INVALID_VALUE;
  *flags = place->id ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return KC_OK;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *place) {
  ANSWER_ANYWHERE(pool_access(flags, pool, place));
}

/* --- copies --- */

static bool is_known(CUdeviceptr address) { return kc_device_address(kc_pointer_to(address)); }

/* Where a side is named as one of the device, it has to be one. */
static int copy(void *to, const void *from, size_t bytes, CUstream stream, bool waits) {
  int error = kc_check_stream(stream);
  return error ? error : kc_copy(to, from, bytes, kc_stream_of(stream), waits);
}

static int to_device(CUdeviceptr to, const void *from, size_t bytes, CUstream stream, bool waits) {
  return !bytes || is_known(to) ? copy((void *)kc_pointer_to(to), from, bytes, stream, waits) : KC_INVALID_VALUE;
}

static int to_host(void *to, CUdeviceptr from, size_t bytes, CUstream stream, bool waits) {
  return !bytes || is_known(from) ? copy(to, kc_pointer_to(from), bytes, stream, waits) : KC_INVALID_VALUE;
}

static int within_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (bytes && (!is_known(to) || !is_known(from))) return KC_INVALID_VALUE;
  return copy((void *)kc_pointer_to(to), kc_pointer_to(from), bytes, stream, false);
}

static int anywhere(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool waits) {
  return copy((void *)kc_pointer_to(to), kc_pointer_to(from), bytes, stream, waits);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { ANSWER(anywhere(to, from, bytes, NULL, true)); }
PER_THREAD(cuMemcpy, ptds);

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ANSWER(anywhere(to, from, bytes, stream, false));
}
PER_THREAD(cuMemcpyAsync, ptsz);

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
  (void)to_context, (void)from_context;
  ANSWER(within_device(to, from, bytes, NULL));
}
PER_THREAD(cuMemcpyPeer, ptds);

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes, CUstream stream) {
  (void)to_context, (void)from_context;
  ANSWER(within_device(to, from, bytes, stream));
}
PER_THREAD(cuMemcpyPeerAsync, ptsz);

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  ANSWER(to_device(to, from, bytes, NULL, true));
}
PER_THREAD(cuMemcpyHtoD, ptds);

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  ANSWER(to_device(to, from, bytes, stream, false));
}
PER_THREAD(cuMemcpyHtoDAsync, ptsz);

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) { ANSWER(to_host(to, from, bytes, NULL, true)); }
PER_THREAD(cuMemcpyDtoH, ptds);

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ANSWER(to_host(to, from, bytes, stream, false));
}
PER_THREAD(cuMemcpyDtoHAsync, ptsz);

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) { ANSWER(within_device(to, from, bytes, NULL)); }
PER_THREAD(cuMemcpyDtoD, ptds);

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ANSWER(within_device(to, from, bytes, stream));
}
PER_THREAD(cuMemcpyDtoDAsync, ptsz);

/* One side of a copy in two or three dimensions: where its first byte lies. */
struct side {
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  size_t x, y, z, pitch, height;
};

static int corner(const struct side *side, char **place) {
  const void *start = side->type == CU_MEMORYTYPE_HOST ? side->host : kc_pointer_to(side->device);
  if (side->type == CU_MEMORYTYPE_ARRAY) return kc_missing("copies of arrays");
  if (side->type == CU_MEMORYTYPE_DEVICE && !is_known(side->device)) return KC_INVALID_VALUE;
  *place = (char *)start + (side->z * side->height + side->y) * side->pitch + side->x;
  return KC_OK;
}

static int read_sides(const struct side *to, const struct side *from, struct kc_rows rows, struct kc_work *work) {
  char *target = NULL, *source = NULL;
  int error = corner(to, &target);
  if (!error) error = corner(from, &source);
  if (error) return error;
  /* A single row needs no pitch. */
  if (rows.rows > 1 && (rows.width > rows.to_pitch || rows.width > rows.from_pitch)) return KC_INVALID_VALUE;
  *work = (struct kc_work){.kind = KC_COPY_NODE, .copy = {target, source, rows}};
  return KC_OK;
}

int kc_read_box(const CUDA_MEMCPY3D *given, struct kc_work *work) {
  if (!given) return KC_INVALID_VALUE;
  struct side to = {given->dstMemoryType, given->dstHost, given->dstDevice, given->dstXInBytes,
                    given->dstY,          given->dstZ,    given->dstPitch,  given->dstHeight};
  struct side from = {given->srcMemoryType, given->srcHost, given->srcDevice, given->srcXInBytes,
                      given->srcY,          given->srcZ,    given->srcPitch,  given->srcHeight};
  struct kc_rows rows = {given->dstPitch, given->srcPitch,        given->WidthInBytes,
                         given->Depth ? given->Height : 0,       given->Depth,
                         given->dstPitch * given->dstHeight,      given->srcPitch * given->srcHeight};
  return read_sides(&to, &from, rows, work);
}

static int read_flat(const CUDA_MEMCPY2D *given, struct kc_work *work) {
  if (!given) return KC_INVALID_VALUE;
  struct side to = {given->dstMemoryType, given->dstHost, given->dstDevice, given->dstXInBytes,
                    given->dstY,          0,              given->dstPitch,  0};
  struct side from = {given->srcMemoryType, given->srcHost, given->srcDevice, given->srcXInBytes,
                      given->srcY,          0,              given->srcPitch,  0};
  struct kc_rows rows = {given->dstPitch, given->srcPitch, given->WidthInBytes, given->Height, 1, 0, 0};
  return read_sides(&to, &from, rows, work);
}

static int do_copy(int error, const struct kc_work *work, CUstream stream, bool waits) {
  if (!error) error = kc_check_stream(stream);
  return error ? error
               : kc_copy_rows(work->copy.to, work->copy.from, work->copy.rows, kc_stream_of(stream), waits);
}

static int copy_flat(const CUDA_MEMCPY2D *given, CUstream stream, bool waits) {
  struct kc_work work;
  int error = read_flat(given, &work);
  return do_copy(error, &work, stream, waits);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *given) { ANSWER(copy_flat(given, NULL, true)); }
PER_THREAD(cuMemcpy2D, ptds);

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *given) { ANSWER(copy_flat(given, NULL, true)); }
PER_THREAD(cuMemcpy2DUnaligned, ptds);

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *given, CUstream stream) { ANSWER(copy_flat(given, stream, false)); }
PER_THREAD(cuMemcpy2DAsync, ptsz);

static int copy_box(const CUDA_MEMCPY3D *given, CUstream stream, bool waits) {
  struct kc_work work;
  int error = kc_read_box(given, &work);
  return do_copy(error, &work, stream, waits);
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D *given) { ANSWER(copy_box(given, NULL, true)); }
PER_THREAD(cuMemcpy3D, ptds);

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *given, CUstream stream) { ANSWER(copy_box(given, stream, false)); }
PER_THREAD(cuMemcpy3DAsync, ptsz);

/* As the one above, but that its sides name contexts where that has words that are reserved. */
static int copy_peers(const CUDA_MEMCPY3D_PEER *given, CUstream stream, bool waits) {
  CUDA_MEMCPY3D same;
  _Static_assert(sizeof same == sizeof *given, "the two are laid out alike");
  if (!given) return KC_INVALID_VALUE;
  memcpy(&same, given, sizeof same);
  return copy_box(&same, stream, waits);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *given) { ANSWER(copy_peers(given, NULL, true)); }
PER_THREAD(cuMemcpy3DPeer, ptds);

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *given, CUstream stream) {
  ANSWER(copy_peers(given, stream, false));
}
PER_THREAD(cuMemcpy3DPeerAsync, ptsz);

/* --- fills: the host never waits for them --- */

static int fill(CUdeviceptr to, struct kc_pattern pattern, CUstream stream) {
  int error = kc_check_stream(stream);
  if (error) return error;
  if (!pattern.count || !pattern.rows) return KC_OK;
  if (pattern.rows > 1 && pattern.pitch < pattern.count * (size_t)pattern.element_bytes) return KC_INVALID_VALUE;
  uint64_t place = kc_device_address(kc_pointer_to(to));
  if (!place || place % (uint64_t)pattern.element_bytes) return KC_INVALID_VALUE;
  return kc_fill_rows((void *)kc_pointer_to(place), pattern, kc_stream_of(stream), false);
}

static struct kc_pattern row(uint32_t value, int element_bytes, size_t count) {
  return (struct kc_pattern){value, element_bytes, count, 1, 0};
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) { ANSWER(fill(to, row(value, 1, count), NULL)); }
PER_THREAD(cuMemsetD8, ptds);

CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  ANSWER(fill(to, row(value, 2, count), NULL));
}
PER_THREAD(cuMemsetD16, ptds);

CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) { ANSWER(fill(to, row(value, 4, count), NULL)); }
PER_THREAD(cuMemsetD32, ptds);

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  ANSWER(fill(to, row(value, 1, count), stream));
}
PER_THREAD(cuMemsetD8Async, ptsz);

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  ANSWER(fill(to, row(value, 2, count), stream));
}
PER_THREAD(cuMemsetD16Async, ptsz);

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  ANSWER(fill(to, row(value, 4, count), stream));
}
PER_THREAD(cuMemsetD32Async, ptsz);

CUresult cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  ANSWER(fill(to, (struct kc_pattern){value, 1, width, height, pitch}, NULL));
}
PER_THREAD(cuMemsetD2D8, ptds);

CUresult cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  ANSWER(fill(to, (struct kc_pattern){value, 2, width, height, pitch}, NULL));
}
PER_THREAD(cuMemsetD2D16, ptds);

CUresult cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  ANSWER(fill(to, (struct kc_pattern){value, 4, width, height, pitch}, NULL));
}
PER_THREAD(cuMemsetD2D32, ptds);

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  ANSWER(fill(to, (struct kc_pattern){value, 1, width, height, pitch}, stream));
}
PER_THREAD(cuMemsetD2D8Async, ptsz);

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream) {
  ANSWER(fill(to, (struct kc_pattern){value, 2, width, height, pitch}, stream));
}
PER_THREAD(cuMemsetD2D16Async, ptsz);

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                            CUstream stream) {
  ANSWER(fill(to, (struct kc_pattern){value, 4, width, height, pitch}, stream));
}
PER_THREAD(cuMemsetD2D32Async, ptsz);

/* --- tensor maps --- */

enum { KC_MAP_MAGIC = 0x314D544B, KC_MOST_RANK = 5, KC_MOST_BOX = 256, KC_MOST_PIXELS = 1024, KC_MOST_STEP = 8,
       KC_LAST_TYPE = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ };

/* The coding of launch/tensor_maps.py: NVIDIA's own is not documented. */
typedef struct {
  uint32_t magic;
  uint8_t type, rank, swizzle, fills_nan;
  uint64_t address, strides[KC_MOST_RANK - 1];
  uint32_t extents[KC_MOST_RANK], box[KC_MOST_RANK];
  uint8_t is_of_images, steps[KC_MOST_RANK - 2];
  int16_t lower[KC_MOST_RANK - 2], upper[KC_MOST_RANK - 2];
} kc_tensor_map;

static int fill_map(kc_tensor_map *map, const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box) {
  static const int bytes_of[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  bool is_of_images = map->is_of_images;
  unsigned row = box[0] * bytes_of[map->type];
  bool is_good = row % 16 == 0 && map->address % 16 == 0 && (!map->swizzle || row <= 16u << map->swizzle);
  for (int axis = 0; axis < KC_MOST_RANK; axis++) {
    bool is_used = axis < map->rank, is_in_box = axis < (is_of_images ? 2 : map->rank);
    unsigned most = is_of_images && axis ? KC_MOST_PIXELS : KC_MOST_BOX;
    map->extents[axis] = is_used ? (uint32_t)extents[axis] : 1;
    map->box[axis] = is_in_box ? box[axis] : 1;
    if (is_used) is_good &= extents[axis] > 0 && extents[axis] < 1ull << 32;
    if (is_in_box) is_good &= box[axis] > 0 && box[axis] <= most;
    if (axis + 1 < map->rank) {
      map->strides[axis] = strides[axis];
      is_good &= strides[axis] % 16 == 0 && strides[axis] < 1ull << 40;
    }
  }
  return is_good ? KC_OK : KC_INVALID_VALUE;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *place, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  (void)promotion;
  bool is_there = place && extents && box && steps && (strides || rank == 1) && rank >= 1 && rank <= KC_MOST_RANK;
  if (!is_there) ANSWER(KC_INVALID_VALUE);
  bool has_steps = false;
  for (unsigned axis = 0; axis < rank; axis++) has_steps |= steps[axis] != 1;
  if (has_steps) ANSWER(kc_missing("cuTensorMapEncodeTiled with element strides"));
  if (interleave) ANSWER(kc_missing("cuTensorMapEncodeTiled with interleaved elements"));
  if ((unsigned)type > KC_LAST_TYPE || (unsigned)swizzle > CU_TENSOR_MAP_SWIZZLE_128B)
    ANSWER(kc_missing("cuTensorMapEncodeTiled with types or swizzles of Blackwell"));
  kc_tensor_map map = {.magic = KC_MAP_MAGIC, .type = (uint8_t)type, .rank = (uint8_t)rank};
  map.swizzle = (uint8_t)swizzle;
  map.fills_nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  map.address = (uint64_t)(uintptr_t)address;
  int error = fill_map(&map, extents, strides, box);
  memset(place, 0, sizeof *place);
  if (!error) memcpy(place, &map, sizeof map);
  ANSWER(error);
}

/* The corners of the places of a filter, which the driver takes in the order of dimensions: W, H, D (as CUTLASS gives
   them). */
static int fill_places(kc_tensor_map *map, const int *lower, const int *upper, const cuuint32_t *steps) {
  int count = map->rank - 2, most = count == 1 ? 1 << 15 : count == 2 ? 1 << 7 : 1 << 4;
  bool is_good = steps[map->rank - 1] == 1;
  for (int axis = 0; axis < count; axis++) {
    map->lower[axis] = (int16_t)lower[axis];
    map->upper[axis] = (int16_t)upper[axis];
    map->steps[axis] = (uint8_t)steps[axis + 1];
    is_good &= lower[axis] >= -most && lower[axis] < most && upper[axis] >= -most && upper[axis] < most;
    is_good &= steps[axis + 1] >= 1 && steps[axis + 1] <= KC_MOST_STEP;
    is_good &= (int64_t)map->extents[axis + 1] - 1 + upper[axis] >= lower[axis];
  }
  return is_good ? KC_OK : KC_INVALID_VALUE;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *place, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                 const cuuint64_t *extents, const cuuint64_t *strides, const int *lower,
                                 const int *upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  (void)promotion;
  bool is_there = place && extents && strides && lower && upper && steps && rank >= 3 && rank <= KC_MOST_RANK;
  if (!is_there) ANSWER(KC_INVALID_VALUE);
  if (interleave) ANSWER(kc_missing("cuTensorMapEncodeIm2col with interleaved elements"));
  if ((unsigned)type > KC_LAST_TYPE || (unsigned)swizzle > CU_TENSOR_MAP_SWIZZLE_128B)
    ANSWER(kc_missing("cuTensorMapEncodeIm2col with types or swizzles of Blackwell"));
  kc_tensor_map map = {.magic = KC_MAP_MAGIC, .type = (uint8_t)type, .rank = (uint8_t)rank, .is_of_images = 1};
  map.swizzle = (uint8_t)swizzle;
  map.fills_nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  map.address = (uint64_t)(uintptr_t)address;
  cuuint32_t box[] = {channels, pixels};
  int error = fill_map(&map, extents, strides, box);
  if (!error) error = fill_places(&map, lower, upper, steps);
  memset(place, 0, sizeof *place);
  if (!error) memcpy(place, &map, sizeof map);
  ANSWER(error);
}
