/* Arrays, textures and surfaces of the CUDA runtime. Part of libcudart.so.
 *
 * An array is memory of the device whose rows lie one after the other: NVIDIA's order is not documented, and no program
 * sees it. A texture or surface object is 64 bytes in memory of the device, in the coding of execute/setup/textures.py;
 * its handle is their address. */
#include <stdlib.h>
#include <string.h>

#include "cudart.h"
#include "graphs.h"

/* Copies of one row after the other are deprecated, and old programs call them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

struct cudaArray {
  uint64_t address;
  struct cudaChannelFormatDesc format;
  struct cudaExtent extent; /* as it was asked for: 0 for dimensions that are not there */
  unsigned flags;
  size_t texel, pitch, slice;
  struct cudaArray *next;
};

static struct cudaArray *arrays; /* all that there are: a handle may be any pointer */

static bool is_array(cudaArray_const_t array) {
  bool found = false;
  kc_lock();
  for (struct cudaArray *each = arrays; each && !found; each = each->next) found = each == array;
  kc_unlock();
  return found;
}

static size_t at_least_one(size_t extent) { return extent ? extent : 1; }

/* Bytes of a texel; 0 for a format that there is not. */
static size_t texel_bytes(const struct cudaChannelFormatDesc *format) {
  int bits[4] = {format->x, format->y, format->z, format->w}, count = 0;
  if (bits[0] != 8 && bits[0] != 16 && bits[0] != 32) return 0;
  while (count < 4 && bits[count] == bits[0]) count++;
  for (int i = count; i < 4; i++)
    if (bits[i]) return 0;
  bool is_known = format->f == cudaChannelFormatKindSigned || format->f == cudaChannelFormatKindUnsigned ||
                  (format->f == cudaChannelFormatKindFloat && bits[0] != 8);
  return is_known && count != 3 ? (size_t)(bits[0] / 8 * count) : 0;
}

/* --- arrays --- */

static int make_array(cudaArray_t *found, const struct cudaChannelFormatDesc *format, struct cudaExtent extent,
                      unsigned flags) {
  if (!found || !format || !extent.width) return KC_INVALID_VALUE;
  if (flags & ~(unsigned)(cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayTextureGather))
    return kc_missing("arrays of cube maps, sparse and deferred arrays");
  size_t texel = texel_bytes(format);
  if (!texel) return KC_INVALID_VALUE;
  struct cudaArray *array = calloc(1, sizeof *array);
  if (!array) return KC_OUT_OF_MEMORY;
  array->format = *format;
  array->extent = extent;
  array->flags = flags;
  array->texel = texel;
  array->pitch = extent.width * texel;
  array->slice = array->pitch * at_least_one(extent.height);
  int error = kc_allocate(array->slice * at_least_one(extent.depth), KC_DEVICE_MEMORY, &array->address);
  if (error) {
    free(array);
    return error;
  }
  kc_lock();
  array->next = arrays;
  arrays = array;
  kc_unlock();
  *found = array;
  return KC_OK;
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format, size_t width,
                            size_t height, unsigned flags) {
  ANSWER(make_array(array, format, (struct cudaExtent){width, height, 0}, flags));
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format, struct cudaExtent extent,
                              unsigned flags) {
  ANSWER(make_array(array, format, extent, flags));
}

static int end_array(cudaArray_t array) {
  if (!array) return KC_OK;
  if (!is_array(array)) return KC_INVALID_HANDLE;
  int error = kc_is_capturing() ? KC_OK : kc_wait_device();
  if (error) return error;
  kc_lock();
  struct cudaArray **place = &arrays;
  while (*place && *place != array) place = &(*place)->next;
  if (*place) *place = array->next;
  kc_unlock();
  error = kc_free(array->address);
  free(array);
  return error;
}

cudaError_t cudaFreeArray(cudaArray_t array) { ANSWER(end_array(array)); }

static int tell_array(struct cudaChannelFormatDesc *format, struct cudaExtent *extent, unsigned *flags,
                      cudaArray_const_t array) {
  if (!is_array(array)) return KC_INVALID_HANDLE;
  if (format) *format = array->format;
  if (extent) *extent = array->extent;
  if (flags) *flags = array->flags;
  return KC_OK;
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *format, struct cudaExtent *extent, unsigned *flags,
                             cudaArray_t array) {
  ANSWER(tell_array(format, extent, flags, array));
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *format, cudaArray_const_t array) {
  ANSWER(format ? tell_array(format, NULL, NULL, array) : KC_INVALID_VALUE);
}

/* --- copies: places in an array are a byte of a row, and a row --- */

static int place_in(cudaArray_const_t array, size_t x, size_t y, char **place) {
  if (!is_array(array)) return KC_INVALID_HANDLE;
  if (x > array->pitch || y > at_least_one(array->extent.height)) return KC_INVALID_VALUE;
  *place = (char *)(uintptr_t)array->address + y * array->pitch + x;
  return KC_OK;
}

static int check_rows(cudaArray_const_t array, size_t x, size_t y, size_t width, size_t rows) {
  size_t height = at_least_one(array->extent.height);
  return x <= array->pitch && width <= array->pitch - x && y <= height && rows <= height - y ? KC_OK : KC_INVALID_VALUE;
}

static int copy_rows(struct kc_copy_of_rows asked, enum cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  if (asked.rows.width > asked.rows.to_pitch || asked.rows.width > asked.rows.from_pitch) return KC_INVALID_PITCH;
  int error = asked.rows.width && asked.rows.rows ? kc_check_kind(asked.to, asked.from, kind) : KC_OK;
  if (!error) error = kc_check_stream(stream);
  return error ? error : kc_copy_rows(asked.to, asked.from, asked.rows, kc_stream_of(stream), waits);
}

static int rows_to(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t rows,
                   enum cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  char *place;
  int error = place_in(to, x, y, &place);
  if (!error) error = check_rows(to, x, y, width, rows);
  if (error) return error;
  struct kc_copy_of_rows asked = {place, from, {to->pitch, pitch, width, rows, 1, 0, 0}};
  return copy_rows(asked, kind, stream, waits);
}

static int rows_from(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t rows,
                     enum cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  char *place;
  int error = place_in(from, x, y, &place);
  if (!error) error = check_rows(from, x, y, width, rows);
  if (error) return error;
  struct kc_copy_of_rows asked = {to, place, {pitch, from->pitch, width, rows, 1, 0, 0}};
  return copy_rows(asked, kind, stream, waits);
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                size_t height, enum cudaMemcpyKind kind) {
  ANSWER(rows_to(to, x, y, from, pitch, width, height, kind, NULL, true));
}
PER_THREAD(cudaMemcpy2DToArray, ptds);

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                     size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
  ANSWER(rows_to(to, x, y, from, pitch, width, height, kind, stream, false));
}
PER_THREAD(cudaMemcpy2DToArrayAsync, ptsz);

cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                                  size_t height, enum cudaMemcpyKind kind) {
  ANSWER(rows_from(to, pitch, from, x, y, width, height, kind, NULL, true));
}
PER_THREAD(cudaMemcpy2DFromArray, ptds);

cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                       size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
  ANSWER(rows_from(to, pitch, from, x, y, width, height, kind, stream, false));
}
PER_THREAD(cudaMemcpy2DFromArrayAsync, ptsz);

static int between(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x, size_t from_y,
                   size_t width, size_t rows) {
  char *place;
  int error = place_in(from, from_x, from_y, &place);
  if (!error) error = check_rows(from, from_x, from_y, width, rows);
  return error ? error : rows_to(to, to_x, to_y, place, from->pitch, width, rows, cudaMemcpyDeviceToDevice, NULL, true);
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x,
                                     size_t from_y, size_t width, size_t height, enum cudaMemcpyKind kind) {
  (void)kind;
  ANSWER(between(to, to_x, to_y, from, from_x, from_y, width, height));
}
PER_THREAD(cudaMemcpy2DArrayToArray, ptds);

/* What lies behind a place, on into the next rows. */
static int run_of(cudaArray_const_t array, size_t x, size_t y, size_t bytes, char **place) {
  int error = place_in(array, x, y, place);
  if (error) return error;
  return bytes <= array->slice - (y * array->pitch + x) ? KC_OK : KC_INVALID_VALUE;
}

static int run_to(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                  cudaStream_t stream, bool waits) {
  char *place;
  int error = run_of(to, x, y, bytes, &place);
  if (!error && bytes) error = kc_check_kind(place, from, kind);
  if (!error) error = kc_check_stream(stream);
  return error ? error : kc_copy(place, from, bytes, kc_stream_of(stream), waits);
}

static int run_from(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, enum cudaMemcpyKind kind,
                    cudaStream_t stream, bool waits) {
  char *place;
  int error = run_of(from, x, y, bytes, &place);
  if (!error && bytes) error = kc_check_kind(to, place, kind);
  if (!error) error = kc_check_stream(stream);
  return error ? error : kc_copy(to, place, bytes, kc_stream_of(stream), waits);
}

cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
                              enum cudaMemcpyKind kind) {
  ANSWER(run_to(to, x, y, from, bytes, kind, NULL, true));
}
PER_THREAD(cudaMemcpyToArray, ptds);

cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t stream) {
  ANSWER(run_to(to, x, y, from, bytes, kind, stream, false));
}
PER_THREAD(cudaMemcpyToArrayAsync, ptsz);

cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                enum cudaMemcpyKind kind) {
  ANSWER(run_from(to, from, x, y, bytes, kind, NULL, true));
}
PER_THREAD(cudaMemcpyFromArray, ptds);

cudaError_t cudaMemcpyFromArrayAsync(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                     enum cudaMemcpyKind kind, cudaStream_t stream) {
  ANSWER(run_from(to, from, x, y, bytes, kind, stream, false));
}
PER_THREAD(cudaMemcpyFromArrayAsync, ptsz);

static int run_between(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x, size_t from_y,
                       size_t bytes) {
  char *place;
  int error = run_of(from, from_x, from_y, bytes, &place);
  return error ? error : run_to(to, to_x, to_y, place, bytes, cudaMemcpyDeviceToDevice, NULL, true);
}

cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x,
                                   size_t from_y, size_t bytes, enum cudaMemcpyKind kind) {
  (void)kind;
  ANSWER(run_between(to, to_x, to_y, from, from_x, from_y, bytes));
}
PER_THREAD(cudaMemcpyArrayToArray, ptds);

int kc_box_of_array(cudaArray_const_t array, struct cudaPos place, struct cudaExtent size, struct kc_array_box *box) {
  if (!is_array(array)) return KC_INVALID_HANDLE;
  size_t height = at_least_one(array->extent.height), depth = at_least_one(array->extent.depth);
  bool fits = place.x <= array->extent.width && size.width <= array->extent.width - place.x && place.y <= height &&
              size.height <= height - place.y && place.z <= depth && size.depth <= depth - place.z;
  if (!fits) return KC_INVALID_VALUE;
  box->corner = (char *)(uintptr_t)array->address + place.z * array->slice + place.y * array->pitch +
                place.x * array->texel;
  box->texel = array->texel;
  box->pitch = array->pitch;
  box->slice = array->slice;
  return KC_OK;
}

/* --- objects --- */

struct object {
  uint64_t magic, address;
  uint32_t width, height, depth, layers;
  uint64_t pitch, slice;
  uint32_t kind, element_bytes, components, flags;
};
_Static_assert(sizeof(struct object) == 64, "the coding of execute/setup/textures.py");

enum { UNSIGNED_KIND = 0, SIGNED_KIND = 1, FLOAT_KIND = 2 };
enum { IS_LINEAR = 1, IS_NORMALIZED = 2, READS_NORMALIZED = 4, FIRST_MODE_SHIFT = 4 };
#define OBJECT_MAGIC 0x7478654E7243656BULL

static int set_format(struct object *object, const struct cudaChannelFormatDesc *format) {
  size_t texel = texel_bytes(format);
  if (!texel) return KC_INVALID_VALUE;
  object->element_bytes = (uint32_t)format->x / 8;
  object->components = (uint32_t)texel / object->element_bytes;
  object->kind = format->f == cudaChannelFormatKindFloat    ? FLOAT_KIND
                 : format->f == cudaChannelFormatKindSigned ? SIGNED_KIND
                                                            : UNSIGNED_KIND;
  return KC_OK;
}

static int object_of_array(struct object *object, cudaArray_const_t array) {
  if (!is_array(array)) return KC_INVALID_HANDLE;
  bool is_layered = array->flags & cudaArrayLayered;
  object->address = array->address;
  object->width = (uint32_t)array->extent.width;
  object->height = (uint32_t)at_least_one(array->extent.height);
  object->depth = is_layered ? 1 : (uint32_t)at_least_one(array->extent.depth);
  object->layers = is_layered ? (uint32_t)array->extent.depth : 0;
  object->pitch = array->pitch;
  object->slice = array->slice;
  return set_format(object, &array->format);
}

static int object_of_memory(struct object *object, void *pointer, const struct cudaChannelFormatDesc *format,
                            size_t width, size_t height, size_t pitch) {
  uint64_t address = kc_device_address(pointer);
  if (!address || width > UINT32_MAX || height > UINT32_MAX) return KC_INVALID_VALUE;
  object->address = address;
  object->width = (uint32_t)width;
  object->height = (uint32_t)height;
  object->depth = 1;
  object->pitch = pitch;
  object->slice = pitch * height;
  return set_format(object, format);
}

static int object_of(struct object *object, const struct cudaResourceDesc *from) {
  size_t texel;
  *object = (struct object){.magic = OBJECT_MAGIC};
  switch (from->resType) {
    case cudaResourceTypeArray:
      return object_of_array(object, from->res.array.array);
    case cudaResourceTypeLinear:
      texel = texel_bytes(&from->res.linear.desc);
      if (!texel) return KC_INVALID_VALUE;
      return object_of_memory(object, from->res.linear.devPtr, &from->res.linear.desc,
                              from->res.linear.sizeInBytes / texel, 1, from->res.linear.sizeInBytes);
    case cudaResourceTypePitch2D:
      return object_of_memory(object, from->res.pitch2D.devPtr, &from->res.pitch2D.desc, from->res.pitch2D.width,
                              from->res.pitch2D.height, from->res.pitch2D.pitchInBytes);
    default:
      return kc_missing("textures of mipmapped arrays");
  }
}

static int set_sampling(struct object *object, const struct cudaTextureDesc *how) {
  static const uint32_t modes[4] = {0, 2, 1, 3}; /* wrap, clamp, mirror and border, as the coding numbers them */
  bool has_border = false;
  for (int axis = 0; axis < 3; axis++) {
    unsigned mode = (unsigned)how->addressMode[axis];
    if (mode > 3) return KC_INVALID_VALUE;
    has_border |= mode == cudaAddressModeBorder;
    object->flags |= modes[mode] << (FIRST_MODE_SHIFT + 2 * axis);
  }
  for (int i = 0; i < 4; i++)
    if (has_border && how->borderColor[i] != 0) return kc_missing("border colors other than zero");
  if (how->sRGB) return kc_missing("textures in sRGB");
  if (how->filterMode == cudaFilterModeLinear) object->flags |= IS_LINEAR;
  if (how->normalizedCoords) object->flags |= IS_NORMALIZED;
  if (how->readMode == cudaReadModeNormalizedFloat) object->flags |= READS_NORMALIZED;
  bool reads_whole = object->kind != FLOAT_KIND && how->readMode == cudaReadModeElementType;
  return reads_whole && how->filterMode == cudaFilterModeLinear ? KC_INVALID_VALUE : KC_OK;
}

static int give_object(unsigned long long *handle, const struct object *object) {
  uint64_t address;
  int error = kc_allocate(sizeof *object, KC_DEVICE_MEMORY, &address);
  if (error) return error;
  memcpy((void *)(uintptr_t)address, object, sizeof *object); /* nobody knows of it yet */
  *handle = address;
  return KC_OK;
}

static int make_texture(cudaTextureObject_t *handle, const struct cudaResourceDesc *from,
                        const struct cudaTextureDesc *how, const struct cudaResourceViewDesc *view) {
  struct object object;
  if (!handle || !from || !how) return KC_INVALID_VALUE;
  if (view) return kc_missing("views of a texture's resource");
  int error = object_of(&object, from);
  if (!error) error = set_sampling(&object, how);
  return error ? error : give_object(handle, &object);
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *handle, const struct cudaResourceDesc *from,
                                    const struct cudaTextureDesc *how, const struct cudaResourceViewDesc *view) {
  ANSWER(make_texture(handle, from, how, view));
}

static int make_surface(cudaSurfaceObject_t *handle, const struct cudaResourceDesc *from) {
  struct object object;
  if (!handle || !from || from->resType != cudaResourceTypeArray) return KC_INVALID_VALUE;
  int error = object_of(&object, from);
  return error ? error : give_object(handle, &object);
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *handle, const struct cudaResourceDesc *from) {
  ANSWER(make_surface(handle, from));
}

static int end_object(unsigned long long handle) {
  struct kc_range range;
  if (!handle) return KC_OK;
  if (!kc_find(handle, &range) || range.address != handle || range.bytes < sizeof(struct object))
    return KC_INVALID_VALUE;
  if (((const struct object *)(uintptr_t)handle)->magic != OBJECT_MAGIC) return KC_INVALID_VALUE;
  int error = kc_is_capturing() ? KC_OK : kc_wait_device();
  return error ? error : kc_free(handle);
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t handle) { ANSWER(end_object(handle)); }

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t handle) { ANSWER(end_object(handle)); }
