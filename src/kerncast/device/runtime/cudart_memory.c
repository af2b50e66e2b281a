/* Memory, copies and fills of the CUDA runtime. Part of libcudart.so. */
#include <string.h>

#include "cudart.h"
#include "graphs.h"

static uint64_t address_of(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

static void *pointer_to(uint64_t address) { return (void *)(uintptr_t)address; }

/* --- allocations --- */

static int give(void **pointer, size_t bytes, int kind) {
  uint64_t address;
  if (!pointer) return KC_INVALID_VALUE;
  int error = kc_allocate(bytes, kind, &address);
  *pointer = error ? NULL : pointer_to(address);
  return error;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) { ANSWER(give(pointer, bytes, KC_DEVICE_MEMORY)); }

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned flags) {
  ANSWER(bytes && flags - 1 < 2 ? give(pointer, bytes, KC_MANAGED) : KC_INVALID_VALUE); /* global or host */
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes) { ANSWER(give(pointer, bytes, KC_PINNED)); }

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  ANSWER(flags > 7 ? KC_INVALID_VALUE : give(pointer, bytes, KC_PINNED));
}

static int give_rows(void **pointer, size_t *pitch, size_t width, size_t rows) {
  if (!pitch) return KC_INVALID_VALUE;
  *pitch = (width + KC_PITCH - 1) / KC_PITCH * KC_PITCH;
  return give(pointer, *pitch * rows, KC_DEVICE_MEMORY);
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
  ANSWER(give_rows(pointer, pitch, width, height));
}

static int give_box(struct cudaPitchedPtr *found, struct cudaExtent extent) {
  if (!found) return KC_INVALID_VALUE;
  found->xsize = extent.width;
  found->ysize = extent.height;
  return give_rows(&found->ptr, &found->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *found, struct cudaExtent extent) { ANSWER(give_box(found, extent)); }

/* Work of the device that may use the memory is waited for; a capture allows no waiting, but may allow this. */
static int take_back(void *pointer) {
  if (!pointer) return KC_OK;
  int error = kc_is_capturing() ? KC_OK : kc_wait_device();
  return error ? error : kc_free_kind(address_of(pointer), 1u << KC_DEVICE_MEMORY | 1u << KC_MANAGED);
}

cudaError_t cudaFree(void *pointer) { ANSWER(take_back(pointer)); }

cudaError_t cudaFreeHost(void *pointer) { ANSWER(kc_free_kind(address_of(pointer), 1u << KC_PINNED)); }

static int get_memory(size_t *free_bytes, size_t *total_bytes) {
  if (!free_bytes || !total_bytes) return KC_INVALID_VALUE;
  kc_memory(free_bytes, total_bytes);
  return KC_OK;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) { ANSWER(get_memory(free_bytes, total_bytes)); }

/* --- the host's memory --- */

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags) {
  if (flags & cudaHostRegisterIoMemory) ANSWER(kc_missing("cudaHostRegisterIoMemory"));
  ANSWER(kc_register_host(pointer, bytes));
}

cudaError_t cudaHostUnregister(void *pointer) { ANSWER(kc_unregister_host(pointer)); }

static int device_pointer(void **found, void *pointer, unsigned flags) {
  if (!found || flags) return KC_INVALID_VALUE;
  *found = pointer_to(kc_device_address(pointer));
  return *found ? KC_OK : KC_INVALID_VALUE;
}

cudaError_t cudaHostGetDevicePointer(void **found, void *pointer, unsigned flags) {
  ANSWER(device_pointer(found, pointer, flags));
}

static int host_flags(unsigned *flags, void *pointer) {
  struct kc_range range;
  if (!flags || !kc_device_address(pointer)) return KC_INVALID_VALUE;
  if (kc_find(address_of(pointer), &range) && range.kind != KC_PINNED && range.kind != KC_REGISTERED)
    return KC_INVALID_VALUE;
  *flags = cudaHostAllocPortable | cudaHostAllocMapped; /* as all of it is */
  return KC_OK;
}

cudaError_t cudaHostGetFlags(unsigned *flags, void *pointer) { ANSWER(host_flags(flags, pointer)); }

/* --- hints: all memory is where it is needed --- */

static int check_range(const void *pointer, size_t bytes) {
  struct kc_range range;
  if (!kc_find(address_of(pointer), &range)) return KC_INVALID_VALUE;
  return bytes <= range.address + range.bytes - address_of(pointer) ? KC_OK : KC_INVALID_VALUE;
}

/* What follows the two first arguments differs from version to version, and is not needed. */
cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, int device) {
  (void)advice;
  (void)device;
  ANSWER(check_range(pointer, bytes));
}

cudaError_t cudaMemAdvise_v2(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice,
                             struct cudaMemLocation place) {
  (void)advice;
  (void)place;
  ANSWER(check_range(pointer, bytes));
}

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, int device, cudaStream_t stream) {
  (void)device;
  (void)stream;
  ANSWER(check_range(pointer, bytes));
}
PER_THREAD(cudaMemPrefetchAsync, ptsz);

cudaError_t cudaMemPrefetchAsync_v2(const void *pointer, size_t bytes, struct cudaMemLocation place, unsigned flags,
                                    cudaStream_t stream) {
  (void)place;
  (void)flags;
  (void)stream;
  ANSWER(check_range(pointer, bytes));
}
PER_THREAD(cudaMemPrefetchAsync_v2, ptsz);

/* --- pools --- */

static kc_pool *pool_of(cudaMemPool_t pool) { return (kc_pool *)pool; }

static int give_from(kc_pool *pool, void **pointer, size_t bytes, cudaStream_t stream) {
  uint64_t address = 0;
  if (!pointer) return KC_INVALID_VALUE;
  int error = kc_allocate_from_pool(pool, bytes, kc_stream_of(stream), &address);
  *pointer = error ? NULL : pointer_to(address);
  return error;
}

cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
  ANSWER(give_from(kc_device_pool(), pointer, bytes, stream));
}
PER_THREAD(cudaMallocAsync, ptsz);

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  ANSWER(give_from(pool_of(pool), pointer, bytes, stream));
}
PER_THREAD(cudaMallocFromPoolAsync, ptsz);

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
  ANSWER(pointer ? kc_free_to_pool(address_of(pointer), kc_stream_of(stream)) : KC_INVALID_VALUE);
}
PER_THREAD(cudaFreeAsync, ptsz);

static int tell_pool(cudaMemPool_t *found, kc_pool *pool, int device) {
  if (!found) return KC_INVALID_VALUE;
  if (device) return KC_INVALID_DEVICE;
  *found = (cudaMemPool_t)pool;
  return KC_OK;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
  ANSWER(tell_pool(pool, kc_default_pool(), device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) { ANSWER(tell_pool(pool, kc_device_pool(), device)); }

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  ANSWER(device ? KC_INVALID_DEVICE : kc_set_device_pool(pool_of(pool)));
}

static int make_pool(cudaMemPool_t *pool, const struct cudaMemPoolProps *wish) {
  if (!pool || !wish) return KC_INVALID_VALUE;
  if (wish->handleTypes) return kc_missing("pools of memory that processes share");
  if (wish->location.type != cudaMemLocationTypeDevice) return kc_missing("pools of memory of the host");
  return tell_pool(pool, wish->location.id ? NULL : kc_new_pool(), wish->location.id);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *wish) {
  ANSWER(make_pool(pool, wish));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { ANSWER(kc_end_pool(pool_of(pool))); }

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
  ANSWER(kc_set_pool_attribute(pool_of(pool), (int)attribute, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
  ANSWER(kc_pool_attribute(pool_of(pool), (int)attribute, value));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  (void)bytes; /* nothing is kept that could be given back */
  ANSWER(pool ? KC_OK : KC_INVALID_VALUE);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *wishes, size_t count) {
  if (!pool || (count && !wishes)) ANSWER(KC_INVALID_VALUE);
  for (size_t i = 0; i < count; i++)
    if (wishes[i].location.id) ANSWER(KC_INVALID_DEVICE);
  ANSWER(KC_OK);
}

static int pool_access(enum cudaMemAccessFlags *flags, cudaMemPool_t pool, const struct cudaMemLocation *place) {
  if (!flags || !pool || !place) return KC_INVALID_VALUE;
  *flags = place->id ? cudaMemAccessFlagsProtNone : cudaMemAccessFlagsProtReadWrite;
  return KC_OK;
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool, struct cudaMemLocation *place) {
  ANSWER(pool_access(flags, pool, place));
}

/* --- copies --- */

int kc_check_kind(const void *to, const void *from, enum cudaMemcpyKind kind) {
  if ((unsigned)kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to_device && !kc_device_address(to)) return KC_INVALID_VALUE;
  return from_device && !kc_device_address(from) ? KC_INVALID_VALUE : KC_OK;
}

/* When the host goes on: `waits` for copies of its own pages, which is all that CUDA promises. */
static int copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  int error = bytes ? kc_check_kind(to, from, kind) : KC_OK;
  if (!error) error = kc_check_stream(stream);
  return error ? error : kc_copy(to, from, bytes, kc_stream_of(stream), waits);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  ANSWER(copy(to, from, bytes, kind, NULL, true));
}
PER_THREAD(cudaMemcpy, ptds);

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  ANSWER(copy(to, from, bytes, kind, stream, false));
}
PER_THREAD(cudaMemcpyAsync, ptsz);

static int check_peers(int one, int other) { return one || other ? KC_INVALID_DEVICE : KC_OK; }

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes) {
  int error = check_peers(to_device, from_device);
  ANSWER(error ? error : copy(to, from, bytes, cudaMemcpyDeviceToDevice, NULL, true));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  int error = check_peers(to_device, from_device);
  ANSWER(error ? error : copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, false));
}

static int copy_rows(struct kc_copy_of_rows asked, enum cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  bool is_empty = !asked.rows.width || !asked.rows.rows;
  if (asked.rows.width > asked.rows.to_pitch || asked.rows.width > asked.rows.from_pitch) return KC_INVALID_PITCH;
  int error = is_empty ? KC_OK : kc_check_kind(asked.to, asked.from, kind);
  if (!error) error = kc_check_stream(stream);
  return error ? error : kc_copy_rows(asked.to, asked.from, asked.rows, kc_stream_of(stream), waits);
}

static struct kc_copy_of_rows flat(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                   size_t height) {
  return (struct kc_copy_of_rows){to, from, {to_pitch, from_pitch, width, height, 1, 0, 0}};
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind) {
  ANSWER(copy_rows(flat(to, to_pitch, from, from_pitch, width, height), kind, NULL, true));
}
PER_THREAD(cudaMemcpy2D, ptds);

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
  ANSWER(copy_rows(flat(to, to_pitch, from, from_pitch, width, height), kind, stream, false));
}
PER_THREAD(cudaMemcpy2DAsync, ptsz);

/* Where the first byte of a box lies. */
static char *corner(struct cudaPitchedPtr box, struct cudaPos place) {
  return (char *)box.ptr + (place.z * box.ysize + place.y) * box.pitch + place.x;
}

/* Where one side of a copy is an array, its size is told in texels. */
static int read_copy_of_array(const struct cudaMemcpy3DParms *given, struct kc_copy_of_rows *copy) {
  struct kc_array_box to = {0}, from = {0};
  struct cudaExtent size = given->extent;
  int error = KC_OK;
  if (given->dstArray) error = kc_box_of_array(given->dstArray, given->dstPos, size, &to);
  if (!error && given->srcArray) error = kc_box_of_array(given->srcArray, given->srcPos, size, &from);
  if (error) return error;
  struct cudaPitchedPtr a = given->dstPtr, b = given->srcPtr;
  if (!given->dstArray) to = (struct kc_array_box){corner(a, given->dstPos), from.texel, a.pitch, a.pitch * a.ysize};
  if (!given->srcArray) from = (struct kc_array_box){corner(b, given->srcPos), to.texel, b.pitch, b.pitch * b.ysize};
  if (to.texel != from.texel || !to.corner || !from.corner) return KC_INVALID_VALUE;
  *copy = (struct kc_copy_of_rows){
      to.corner, from.corner,
      {to.pitch, from.pitch, size.width * to.texel, size.depth ? size.height : 0, size.depth, to.slice, from.slice}};
  return KC_OK;
}

int kc_read_copy(const struct cudaMemcpy3DParms *given, struct kc_copy_of_rows *copy) {
  if (!given) return KC_INVALID_VALUE;
  if (given->srcArray || given->dstArray) return read_copy_of_array(given, copy);
  struct cudaExtent size = given->extent;
  struct cudaPitchedPtr to = given->dstPtr, from = given->srcPtr;
  if (!to.ptr || !from.ptr) return size.width && size.height && size.depth ? KC_INVALID_VALUE : KC_OK;
  *copy = (struct kc_copy_of_rows){
      corner(to, given->dstPos), corner(from, given->srcPos),
      {to.pitch, from.pitch, size.width, size.depth ? size.height : 0, size.depth, to.pitch * to.ysize,
       from.pitch * from.ysize}};
  return KC_OK;
}

static int copy_box(const struct cudaMemcpy3DParms *given, cudaStream_t stream, bool waits) {
  struct kc_copy_of_rows asked = {0};
  int error = kc_read_copy(given, &asked);
  return error ? error : copy_rows(asked, given->kind, stream, waits);
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *given) { ANSWER(copy_box(given, NULL, true)); }
PER_THREAD(cudaMemcpy3D, ptds);

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *given, cudaStream_t stream) {
  ANSWER(copy_box(given, stream, false));
}
PER_THREAD(cudaMemcpy3DAsync, ptsz);

static int copy_peers(const struct cudaMemcpy3DPeerParms *given, cudaStream_t stream, bool waits) {
  if (!given) return KC_INVALID_VALUE;
  if (given->srcDevice || given->dstDevice) return KC_INVALID_DEVICE;
  struct cudaMemcpy3DParms same = {given->srcArray, given->srcPos, given->srcPtr, given->dstArray,
                                   given->dstPos,   given->dstPtr, given->extent, cudaMemcpyDefault};
  return copy_box(&same, stream, waits);
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *given) { ANSWER(copy_peers(given, NULL, true)); }
PER_THREAD(cudaMemcpy3DPeer, ptds);

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *given, cudaStream_t stream) {
  ANSWER(copy_peers(given, stream, false));
}
PER_THREAD(cudaMemcpy3DPeerAsync, ptsz);

/* --- copies of variables --- */

/* A part of a variable, which has to lie within it. */
static int part_of(const void *symbol, size_t bytes, size_t offset, void **place) {
  uint64_t address;
  size_t size;
  int error = kc_symbol_of(symbol, &address, &size);
  if (error) return error;
  if (offset > size || bytes > size - offset) return KC_INVALID_VALUE;
  *place = pointer_to(address + offset);
  return KC_OK;
}

/* What the host's side may be follows from the kind, which names the variable's side too. */
static int copy_to_symbol(const void *symbol, size_t offset, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                          cudaStream_t stream, bool waits) {
  void *to;
  int error = part_of(symbol, bytes, offset, &to);
  if (error) return error;
  if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost) return cudaErrorInvalidMemcpyDirection;
  return copy(to, from, bytes, kind, stream, waits);
}

static int copy_from_symbol(void *to, const void *symbol, size_t offset, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream, bool waits) {
  void *from;
  int error = part_of(symbol, bytes, offset, &from);
  if (error) return error;
  if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost) return cudaErrorInvalidMemcpyDirection;
  return copy(to, from, bytes, kind, stream, waits);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
  ANSWER(copy_to_symbol(symbol, offset, from, bytes, kind, NULL, true));
}
PER_THREAD(cudaMemcpyToSymbol, ptds);

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t stream) {
  ANSWER(copy_to_symbol(symbol, offset, from, bytes, kind, stream, false));
}
PER_THREAD(cudaMemcpyToSymbolAsync, ptsz);

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
  ANSWER(copy_from_symbol(to, symbol, offset, bytes, kind, NULL, true));
}
PER_THREAD(cudaMemcpyFromSymbol, ptds);

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream) {
  ANSWER(copy_from_symbol(to, symbol, offset, bytes, kind, stream, false));
}
PER_THREAD(cudaMemcpyFromSymbolAsync, ptsz);

static int symbol_address(void **found, const void *symbol) {
  return found ? part_of(symbol, 0, 0, found) : KC_INVALID_VALUE;
}

cudaError_t cudaGetSymbolAddress(void **found, const void *symbol) { ANSWER(symbol_address(found, symbol)); }

static int symbol_size(size_t *found, const void *symbol) {
  uint64_t address;
  return found ? kc_symbol_of(symbol, &address, found) : KC_INVALID_VALUE;
}

cudaError_t cudaGetSymbolSize(size_t *found, const void *symbol) { ANSWER(symbol_size(found, symbol)); }

/* --- fills: the host never waits for them --- */

static int fill(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  struct kc_pattern pattern = {(uint32_t)value & 255, 1, width, height, pitch};
  if (!kc_is_stream(kc_stream_of(stream))) return KC_INVALID_HANDLE;
  if (height > 1 && width > pitch) return KC_INVALID_PITCH;
  if (!width || !height) return KC_OK;
  uint64_t place = kc_device_address(to);
  return place ? kc_fill_rows(pointer_to(place), pattern, kc_stream_of(stream), false) : KC_INVALID_VALUE;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) { ANSWER(fill(to, bytes, value, bytes, 1, NULL)); }
PER_THREAD(cudaMemset, ptds);

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  ANSWER(fill(to, bytes, value, bytes, 1, stream));
}
PER_THREAD(cudaMemsetAsync, ptsz);

cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
  ANSWER(fill(to, pitch, value, width, height, NULL));
}
PER_THREAD(cudaMemset2D, ptds);

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  ANSWER(fill(to, pitch, value, width, height, stream));
}
PER_THREAD(cudaMemset2DAsync, ptsz);

static int fill_box(struct cudaPitchedPtr box, int value, struct cudaExtent extent, cudaStream_t stream) {
  /* Slices without a gap between them are rows like all others. */
  if (extent.height == box.ysize || extent.depth == 1)
    return fill(box.ptr, box.pitch, value, extent.width, extent.height * extent.depth, stream);
  int error = KC_OK;
  for (size_t slice = 0; slice < extent.depth && !error; slice++) {
    char *to = (char *)box.ptr + slice * box.ysize * box.pitch;
    error = fill(to, box.pitch, value, extent.width, extent.height, stream);
  }
  return error;
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr box, int value, struct cudaExtent extent) {
  ANSWER(fill_box(box, value, extent, NULL));
}
PER_THREAD(cudaMemset3D, ptds);

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr box, int value, struct cudaExtent extent, cudaStream_t stream) {
  ANSWER(fill_box(box, value, extent, stream));
}
PER_THREAD(cudaMemset3DAsync, ptsz);

/* --- what is in arrays --- */

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind) {
  return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}
