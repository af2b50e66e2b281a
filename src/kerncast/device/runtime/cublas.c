/* Handles of cuBLAS, how its calls are told to the server, and its transfers. Part of libcublas.so. */
#include <cublas_v2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cublas_calls.h"
#include "operands.h"

#define MAGIC 0x6b63626c
#define MOST_OPERANDS 32
/* Of the memory in which the server leaves results for the host. */
#define SLOT_BYTES 64
#define SLOTS 8

struct cublasContext {
  uint32_t magic;
  kc_stream *stream;
  cublasPointerMode_t pointer_mode;
  cublasAtomicsMode_t atomics_mode;
  cublasMath_t math_mode;
  int multiprocessors;
  uint64_t slots; /* 0 until a result was asked for */
};

static bool is_handle(cublasHandle_t handle) { return handle && handle->magic == MAGIC; }

static cublasStatus_t status_of(int error) {
  if (error <= CUBLAS_STATUS_LICENSE_ERROR) return (cublasStatus_t)error; /* the library's own */
  return error == KC_NO_DEVICE                                       ? CUBLAS_STATUS_NOT_INITIALIZED
         : error == KC_NOT_SUPPORTED || error == KC_CAPTURE_UNSUPPORTED ? CUBLAS_STATUS_NOT_SUPPORTED
                                                                     : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* --- handles --- */

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  if (kc_begin() || kc_lasting_error()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = calloc(1, sizeof **handle);
  if (!*handle) return CUBLAS_STATUS_ALLOC_FAILED;
  (*handle)->magic = MAGIC;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle->slots) kc_free(handle->slots);
  handle->magic = 0;
  free(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
  (void)handle;
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value) {
  static const int parts[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
  if (!value || (unsigned)type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
  *value = parts[type];
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasGetCudartVersion(void) { return 12090; }

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
  (void)workspace, (void)bytes;
  return is_handle(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!kc_is_stream((kc_stream *)stream)) return CUBLAS_STATUS_INVALID_VALUE;
  handle->stream = (kc_stream *)stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!stream) return CUBLAS_STATUS_INVALID_VALUE;
  *stream = (cudaStream_t)handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

/* A setting that is kept, and read again. */
#define SETTING(Name, field, type, most, suffix)                                       \
  cublasStatus_t cublasGet##Name##suffix(cublasHandle_t handle, type *value) {         \
    if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;                      \
    if (!value) return CUBLAS_STATUS_INVALID_VALUE;                                    \
    *value = handle->field;                                                            \
    return CUBLAS_STATUS_SUCCESS;                                                      \
  }                                                                                    \
  cublasStatus_t cublasSet##Name##suffix(cublasHandle_t handle, type value) {          \
    if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;                      \
    if ((int)value < 0 || (int)value > (most)) return CUBLAS_STATUS_INVALID_VALUE;     \
    handle->field = value;                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                      \
  }

SETTING(PointerMode, pointer_mode, cublasPointerMode_t, CUBLAS_POINTER_MODE_DEVICE, _v2)
SETTING(AtomicsMode, atomics_mode, cublasAtomicsMode_t, CUBLAS_ATOMICS_ALLOWED, )
SETTING(MathMode, math_mode, cublasMath_t,
        CUBLAS_TF32_TENSOR_OP_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, )
SETTING(SmCountTarget, multiprocessors, int, 1 << 16, )

#define NAMED(what) \
  case what:        \
    return #what;

const char *cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    NAMED(CUBLAS_STATUS_SUCCESS)
    NAMED(CUBLAS_STATUS_NOT_INITIALIZED)
    NAMED(CUBLAS_STATUS_ALLOC_FAILED)
    NAMED(CUBLAS_STATUS_INVALID_VALUE)
    NAMED(CUBLAS_STATUS_ARCH_MISMATCH)
    NAMED(CUBLAS_STATUS_MAPPING_ERROR)
    NAMED(CUBLAS_STATUS_EXECUTION_FAILED)
    NAMED(CUBLAS_STATUS_INTERNAL_ERROR)
    NAMED(CUBLAS_STATUS_NOT_SUPPORTED)
    NAMED(CUBLAS_STATUS_LICENSE_ERROR)
    default: return "CUBLAS_STATUS_UNKNOWN";
  }
}

const char *cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "the operation succeeded";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "there is no handle of the library";
    case CUBLAS_STATUS_ALLOC_FAILED: return "there was no memory";
    case CUBLAS_STATUS_INVALID_VALUE: return "an argument has no valid value";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "the architecture of the device lacks a feature";
    case CUBLAS_STATUS_MAPPING_ERROR: return "memory of the device cannot be accessed";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the work on the device failed";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the operation is not supported";
    case CUBLAS_STATUS_LICENSE_ERROR: return "there is no license";
    default: return "the status is unknown";
  }
}

static cublasLogCallback logged;

cublasStatus_t cublasLoggerConfigure(int is_on, int to_stdout, int to_stderr, const char *file) {
  (void)is_on, (void)to_stdout, (void)to_stderr, (void)file;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetLoggerCallback(cublasLogCallback callback) {
  logged = callback;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetLoggerCallback(cublasLogCallback *callback) {
  if (!callback) return CUBLAS_STATUS_INVALID_VALUE;
  *callback = logged;
  return CUBLAS_STATUS_SUCCESS;
}

/* --- calls --- */

/* A result that the host waits for. */
struct result {
  void *to;
  uint64_t from;
  size_t bytes;
};

struct call {
  cublasHandle_t handle;
  struct kc_operand operands[MOST_OPERANDS];
  int count;
  struct result results[SLOTS];
  int result_count;
  int error;
};

static void add(struct call *call, struct kc_operand operand) { call->operands[call->count++] = operand; }

/* Memory of the device that the host can read, for one result. */
static uint64_t slot(struct call *call) {
  cublasHandle_t handle = call->handle;
  if (!handle->slots && kc_allocate(SLOT_BYTES * SLOTS, KC_PINNED, &handle->slots)) {
    handle->slots = 0;
    call->error = CUBLAS_STATUS_ALLOC_FAILED;
    return 0;
  }
  return handle->slots + (uint64_t)call->result_count * SLOT_BYTES;
}

static void add_scalar(struct call *call, char letter, void *pointer, size_t bytes) {
  if (!pointer) call->error = CUBLAS_STATUS_INVALID_VALUE;
  if (call->error) return;
  if (call->handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
    add(call, kc_pointer(pointer));
  } else if (letter == 's' && bytes <= 16) {
    add(call, kc_scalar(pointer, bytes));
  } else {
    uint64_t place = slot(call);
    if (!place) return;
    if (letter != 'r') memcpy((void *)(uintptr_t)place, pointer, bytes);
    add(call, (struct kc_operand){KC_POINTER, 8, {.address = place}});
    call->results[call->result_count++] = (struct result){letter == 's' ? NULL : pointer, place, bytes};
  }
}

static void add_all(struct call *call, const char *form, va_list given) {
  for (; *form && !call->error; form++) {
    switch (*form) {
      case 'i': add(call, kc_integer(va_arg(given, int))); break;
      case 'l': add(call, kc_integer(va_arg(given, long long))); break;
      case 'p': add(call, kc_pointer(va_arg(given, const void *))); break;
      default: {
        void *pointer = va_arg(given, void *);
        add_scalar(call, *form, pointer, va_arg(given, size_t));
      }
    }
  }
}

static void take_results(const struct call *call) {
  if (!call->result_count) return;
  kc_wait_stream(call->handle->stream);
  for (int i = 0; i < call->result_count; i++) {
    struct result each = call->results[i];
    if (each.to) memcpy(each.to, (const void *)(uintptr_t)each.from, each.bytes);
  }
}

cublasStatus_t kc_blas(cublasHandle_t handle, const char *name, const char *form, ...) {
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  struct call call = {.handle = handle};
  va_list given;
  va_start(given, form);
  kc_lock(); /* threads may share a handle, and with it the memory of results */
  add_all(&call, form, given);
  va_end(given);
  cublasStatus_t status = (cublasStatus_t)call.error;
  if (!status)
    status = status_of(kc_library(name, call.operands, (size_t)call.count * sizeof *call.operands, handle->stream));
  if (!status) take_results(&call);
  kc_unlock();
  return status;
}

/* --- transfers --- */

static cublasStatus_t moved(int error) {
  return !error ? CUBLAS_STATUS_SUCCESS : error == KC_NO_DEVICE ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_MAPPING_ERROR;
}

/* A vector is a matrix of one row, with a leading dimension of its increment. */
static cublasStatus_t move(struct kc_rows rows, const void *from, void *to, cudaStream_t stream, bool waits) {
  if (!rows.width || !rows.rows) return CUBLAS_STATUS_SUCCESS;
  if (rows.width == rows.from_pitch && rows.width == rows.to_pitch)
    rows = (struct kc_rows){rows.width * rows.rows, rows.width * rows.rows, rows.width * rows.rows, 1, 0, 0, 0};
  return moved(kc_copy_rows(to, from, rows, (kc_stream *)stream, waits));
}

static cublasStatus_t move_vector(int n, int element, const void *from, int from_step, void *to, int to_step,
                                  cudaStream_t stream, bool waits) {
  if (n < 0 || element <= 0 || from_step <= 0 || to_step <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  size_t bytes = (size_t)element;
  return move((struct kc_rows){bytes * (size_t)to_step, bytes * (size_t)from_step, bytes, (size_t)n, 0, 0, 0}, from, to,
              stream, waits);
}

static cublasStatus_t move_matrix(int rows, int columns, int element, const void *from, int from_ld, void *to,
                                  int to_ld, cudaStream_t stream, bool waits) {
  if (rows < 0 || columns < 0 || element <= 0 || from_ld < rows || to_ld < rows || from_ld < 1 || to_ld < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  size_t bytes = (size_t)element;
  return move((struct kc_rows){bytes * (size_t)to_ld, bytes * (size_t)from_ld, bytes * (size_t)rows, (size_t)columns, 0,
                               0, 0},
              from, to, stream, waits);
}

cublasStatus_t cublasSetVector(int n, int element, const void *x, int incx, void *y, int incy) {
  return move_vector(n, element, x, incx, y, incy, NULL, true);
}
cublasStatus_t cublasGetVector(int n, int element, const void *x, int incx, void *y, int incy) {
  return move_vector(n, element, x, incx, y, incy, NULL, true);
}
cublasStatus_t cublasSetMatrix(int rows, int columns, int element, const void *a, int lda, void *b, int ldb) {
  return move_matrix(rows, columns, element, a, lda, b, ldb, NULL, true);
}
cublasStatus_t cublasGetMatrix(int rows, int columns, int element, const void *a, int lda, void *b, int ldb) {
  return move_matrix(rows, columns, element, a, lda, b, ldb, NULL, true);
}
cublasStatus_t cublasSetVectorAsync(int n, int element, const void *x, int incx, void *y, int incy, cudaStream_t stream) {
  return move_vector(n, element, x, incx, y, incy, stream, false);
}
cublasStatus_t cublasGetVectorAsync(int n, int element, const void *x, int incx, void *y, int incy, cudaStream_t stream) {
  return move_vector(n, element, x, incx, y, incy, stream, false);
}
cublasStatus_t cublasSetMatrixAsync(int rows, int columns, int element, const void *a, int lda, void *b, int ldb,
                                    cudaStream_t stream) {
  return move_matrix(rows, columns, element, a, lda, b, ldb, stream, false);
}
cublasStatus_t cublasGetMatrixAsync(int rows, int columns, int element, const void *a, int lda, void *b, int ldb,
                                    cudaStream_t stream) {
  return move_matrix(rows, columns, element, a, lda, b, ldb, stream, false);
}
