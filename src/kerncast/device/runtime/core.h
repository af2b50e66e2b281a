/* The virtual GPU as its interfaces see it: memory, modules, kernels, streams and the clock.
 *
 * Everything here may be called from any thread. Addresses of the device are addresses of this process. */
#ifndef KERNCAST_CORE_H
#define KERNCAST_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* Errors by the numbers of cudaError_t, which those of CUresult agree with where both exist. */
enum kc_error {
  KC_OK = 0,
  KC_INVALID_VALUE = 1,
  KC_OUT_OF_MEMORY = 2,
  KC_NOT_INITIALIZED = 3,
  KC_INVALID_CONFIGURATION = 9,
  KC_INVALID_PITCH = 12,
  KC_INVALID_SYMBOL = 13,
  KC_INVALID_DEVICE_FUNCTION = 98,
  KC_NO_DEVICE = 100,
  KC_INVALID_DEVICE = 101,
  KC_INVALID_IMAGE = 200,
  KC_INVALID_CONTEXT = 201,
  KC_NO_BINARY = 209,
  KC_UNSUPPORTED_LIMIT = 215,
  KC_FILE_NOT_FOUND = 301,
  KC_INVALID_HANDLE = 400,
  KC_SYMBOL_NOT_FOUND = 500,
  KC_NOT_READY = 600,
  KC_ILLEGAL_ADDRESS = 700,
  KC_TOO_MANY_RESOURCES = 701,
  KC_PEER_NOT_ENABLED = 705,
  KC_ALREADY_REGISTERED = 712,
  KC_NOT_REGISTERED = 713,
  KC_COOPERATIVE_TOO_LARGE = 720,
  KC_NOT_SUPPORTED = 801,
  KC_CAPTURE_UNSUPPORTED = 900,
  KC_CAPTURE_INVALIDATED = 901,
  KC_CAPTURE_MERGE = 902,
  KC_CAPTURE_UNMATCHED = 903,
  KC_CAPTURE_UNJOINED = 904,
  KC_CAPTURE_ISOLATION = 905,
  KC_CAPTURE_IMPLICIT = 906,
  KC_CAPTURED_EVENT = 907,
  KC_CAPTURE_WRONG_THREAD = 908,
  KC_GRAPH_UPDATE_FAILED = 910,
  KC_INVALID_CLUSTER_SIZE = 912,
};

typedef struct kc_stream kc_stream;
typedef struct kc_event kc_event;
typedef struct kc_function kc_function;

/* Connects to the server at the first call. Returns KC_OK, or the error that every entry point then returns. */
int kc_begin(void);
/* Whether that has been done; it does nothing. */
bool kc_has_begun(void);
const struct kc_device *kc_device(void);
/* One lock for all that threads share; a thread that has it may take it again. */
void kc_lock(void);
void kc_unlock(void);
/* The error that a launch has left for good, as after an illegal address. */
int kc_lasting_error(void);
void kc_forget_lasting_error(void);
/* Tells the server, once for each name, that a program asked for what is not there. Returns KC_NOT_SUPPORTED. */
int kc_missing(const char *name);
void kc_note(const char *text);

/* --- memory --- */
struct kc_range {
  uint64_t address, bytes;
  int kind; /* enum kc_kind */
};
int kc_allocate(size_t bytes, int kind, uint64_t *address);
int kc_free(uint64_t address);
/* Frees all that the program has allocated; what belongs to its modules stays. */
void kc_free_all(void);
/* Finds the allocation that holds an address; false for the host's own memory. */
bool kc_find(uint64_t address, struct kc_range *range);
void kc_memory(size_t *free_bytes, size_t *total_bytes);
/* Puts pages of the host's own memory under device addresses, with what they hold, and back. */
int kc_register_host(void *host, size_t bytes);
int kc_unregister_host(void *host);
/* The device's address of registered memory; the address itself for all other memory of the device, 0 for the rest. */
uint64_t kc_device_address(const void *host);

/* One plain copy, in the order of its stream. */
int kc_copy(void *to, const void *from, size_t bytes, kc_stream *stream, bool waits);
/* Rows of `width` bytes, of which every one begins a pitch after the last; `waits` as for kc_copy. Where there are
 * several slices of so many rows, every one begins so many bytes after the last. */
struct kc_rows {
  size_t to_pitch, from_pitch, width, rows;
  size_t slices, to_slice, from_slice; /* 0 slices: 1 */
};
int kc_copy_rows(void *to, const void *from, struct kc_rows rows, kc_stream *stream, bool waits);
/* Rows of `count` elements of 1, 2 or 4 bytes, of which every one begins a pitch after the last. */
struct kc_pattern {
  uint32_t value;
  int element_bytes;
  size_t count, rows, pitch;
};
int kc_fill_rows(void *to, struct kc_pattern pattern, kc_stream *stream, bool waits);
int kc_fill(void *to, uint32_t value, int element_bytes, size_t count, kc_stream *stream, bool waits);

/* --- modules and kernels --- */
/* Takes PTX, a fatbin, the name of a source or machine code, told apart by how it begins; returns its number. */
int kc_load_module(const void *image, int *module);
/* Places a variable of a module, which is managed where the host may use it too. */
int kc_place_variable(int module, const char *name, size_t bytes, bool is_managed, uint64_t *address);
/* The same for one whose memory is there. */
void kc_tell_variable(int module, const char *name, size_t bytes, uint64_t address);
/* Finds a variable. Once it has been asked for, its memory holds what it begins with. */
int kc_ask_symbol(int module, const char *name, uint64_t *address, size_t *bytes);
kc_function *kc_new_function(int module, const char *name);
/* Whether a pointer is one that kc_new_function has returned; it may be any. */
bool kc_is_function(const void *pointer);
/* Asks the server once for what there is to know of a kernel; returns KC_INVALID_DEVICE_FUNCTION for none. */
int kc_describe(kc_function *function);
const char *kc_function_name(const kc_function *function);
const struct kc_function_head *kc_function_head(const kc_function *function);
const struct kc_parameter *kc_function_parameters(const kc_function *function);
int kc_dynamic_shared(const kc_function *function);
int kc_allow_dynamic_shared(kc_function *function, int bytes);
/* Lets clusters of a function have 16 blocks, which not every GPU with clusters runs, or 8 at most. */
void kc_allow_large_clusters(kc_function *function, bool allowed);
/* How many blocks of a geometry one multiprocessor holds. */
int kc_resident_blocks(kc_function *function, int threads, size_t dynamic_shared);

struct kc_launch {
  kc_function *function;
  uint32_t grid[3], block[3], shared_bytes, flags;
  kc_stream *stream;
  void **arguments;     /* one pointer for each parameter, or */
  const void *buffer;   /* all parameters as they lie one after the other */
  size_t buffer_bytes;
};
int kc_launch(const struct kc_launch *launch);
/* The most blocks that a cooperative launch may have: all of them are resident. */
uint64_t kc_most_cooperative_blocks(kc_function *function, int threads, size_t dynamic_shared);
/* A call of a library whose work the server does: the name, and operands as the server unpacks them. */
struct kc_library_call {
  const char *name;
  const void *operands;
  size_t bytes;
};
int kc_library(const char *name, const void *operands, size_t bytes, kc_stream *stream);

/* --- streams, events, the clock --- */
#define KC_LEGACY ((kc_stream *)1)
#define KC_PER_THREAD ((kc_stream *)2)
kc_stream *kc_new_stream(unsigned flags, int priority);
int kc_end_stream(kc_stream *stream);
uint32_t kc_stream_number(const kc_stream *stream);
unsigned kc_stream_flags(const kc_stream *stream);
int kc_stream_priority(const kc_stream *stream);
bool kc_is_stream(const kc_stream *stream);
kc_event *kc_new_event(unsigned flags);
int kc_end_event(kc_event *event);
int kc_record(kc_event *event, kc_stream *stream);
int kc_depend(kc_stream *stream, kc_event *event);
int kc_wait_device(void);
int kc_wait_stream(kc_stream *stream);
int kc_wait_event(kc_event *event);
/* Whether all work has ended by the virtual clock: KC_OK or KC_NOT_READY. */
int kc_query_stream(kc_stream *stream);
int kc_query_event(kc_event *event);
int kc_elapsed_ms(const kc_event *first, const kc_event *last, float *ms);
/* The host's clock: seconds since some moment, without what the virtual GPU took, with what the forecasts say. */
double kc_now(void);
/* How far the clock of the program stands from the machine's, in seconds; 0 without a virtual clock. Needs no lock. */
double kc_clock_shift(void);
/* The same for the time of the processor: while the program waits for its GPU, it spins, as CUDA does. */
double kc_processor_shift(void);

#endif
