/* The connection to the server, modules and kernels. Part of libkerncast_device.so, as every file here whose name does
 * not begin with that of another library: cudart, driver, cublas, cufft or curand. */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "inside.h"

/* --- the connection --- */

static pthread_mutex_t lock;
static pthread_once_t locked_once = PTHREAD_ONCE_INIT;
static enum { UNTRIED, CONNECTED, FAILED, FORKED } state;
static int server = -1, memory_file = -1;
static struct kc_device device;
static int lasting_error;
static unsigned char outgoing[1 << 16];
static size_t outgoing_bytes;

static void make_lock(void) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&lock, &kind);
  pthread_mutexattr_destroy(&kind);
}

static void in_the_child(void) {
  /* Another thread of the parent may have been inside, which is not here to leave. */
  make_lock();
  kc_reset_clock();
  outgoing_bytes = 0;
  /* What the parent has said and heard is its own: as with CUDA, a fork cannot go on with its device. */
  if (state == CONNECTED) {
    close(server);
    state = FORKED;
  }
}

static void prepare_lock(void) {
  make_lock();
  pthread_atfork(NULL, NULL, in_the_child);
}

void kc_lock(void) {
  pthread_once(&locked_once, prepare_lock);
  pthread_mutex_lock(&lock);
}

void kc_unlock(void) { pthread_mutex_unlock(&lock); }

void kc_enter(void) {
  kc_lock();
  kc_stop_clock();
}

void kc_leave(void) {
  kc_start_clock();
  kc_unlock();
}

/* Without its server a program has no GPU; it must not outlive kerncast either. */
static void server_is_gone(void) {
  static const char text[] = "kerncast: the server of the virtual GPU is gone\n";
  if (write(2, text, sizeof text - 1) < 0) { /* nobody listens */
  }
  _exit(97);
}

static void send_all(const void *data, size_t bytes) {
  const unsigned char *at = data;
  while (bytes) {
    ssize_t sent = send(server, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) server_is_gone();
    at += sent;
    bytes -= (size_t)sent;
  }
}

void kc_flush(void) {
  size_t bytes = outgoing_bytes;
  outgoing_bytes = 0;
  send_all(outgoing, bytes);
}

void kc_put(const void *data, size_t bytes) {
  if (outgoing_bytes + bytes > sizeof outgoing) kc_flush();
  if (bytes > sizeof outgoing) {
    send_all(data, bytes);
    return;
  }
  memcpy(outgoing + outgoing_bytes, data, bytes);
  outgoing_bytes += bytes;
}

void kc_head(uint32_t kind, size_t bytes) {
  uint32_t head[2] = {kind, (uint32_t)bytes};
  kc_put(head, sizeof head);
}

void kc_take(void *data, size_t bytes) {
  unsigned char *at = data;
  while (bytes) {
    ssize_t got = recv(server, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) server_is_gone();
    at += got;
    bytes -= (size_t)got;
  }
}

static int connect_to(const char *name) {
  struct sockaddr_un place = {.sun_family = AF_UNIX};
  size_t length = strlen(name);
  if (length + 1 > sizeof place.sun_path) return -1;
  memcpy(place.sun_path + 1, name, length); /* an abstract name: no file is left behind */
  int found = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
  if (found >= 0 && connect(found, (struct sockaddr *)&place, bytes)) {
    close(found);
    return -1;
  }
  return found;
}

/* The first message carries the file that holds the device's memory. */
static int say_hello(uint64_t room) {
  memory_file = memfd_create("kerncast-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory_file < 0 || ftruncate(memory_file, (off_t)room)) return -1;
  /* The server may rely on the size: a file that shrinks would end it. */
  if (fcntl(memory_file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) return -1;
  uint32_t words[4] = {KC_HELLO, 8, KC_PROTOCOL, (uint32_t)getpid()};
  struct iovec data = {words, sizeof words};
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room,
                           .msg_controllen = sizeof control.room};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(head), &memory_file, sizeof(int));
  return sendmsg(server, &message, MSG_NOSIGNAL) == sizeof words ? 0 : -1;
}

static int open_device(void) {
  const char *name = getenv("KERNCAST_SERVER"), *room = getenv("KERNCAST_ROOM");
  if (!name || !room) {
    fprintf(stderr, "kerncast: this program uses the virtual GPU: start it by kerncast run\n");
    return KC_NO_DEVICE;
  }
  uint64_t bytes = strtoull(room, NULL, 10);
  server = connect_to(name);
  if (server < 0 || say_hello(bytes)) {
    fprintf(stderr, "kerncast: the server of the virtual GPU cannot be reached\n");
    return KC_NO_DEVICE;
  }
  void *base = mmap((void *)KC_BASE, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                    memory_file, 0);
  if (base != (void *)KC_BASE) {
    fprintf(stderr, "kerncast: the memory of the virtual GPU cannot be mapped: %s\n", strerror(errno));
    return KC_OUT_OF_MEMORY;
  }
  kc_room(bytes);
  kc_take(&device, sizeof device);
  return KC_OK;
}

static void say_goodbye(void) {
  if (state != CONNECTED) return;
  kc_enter();
  double at = kc_host_now();
  kc_head(KC_GOODBYE, 8);
  kc_put(&at, 8);
  kc_flush();
  kc_leave();
}

int kc_begin(void) {
  if (state == CONNECTED) return KC_OK;
  kc_enter();
  if (state == UNTRIED) {
    state = open_device() == KC_OK ? CONNECTED : FAILED;
    if (state == CONNECTED) atexit(say_goodbye);
  }
  kc_leave();
  return state == CONNECTED ? KC_OK : state == FORKED ? KC_NOT_INITIALIZED : KC_NO_DEVICE;
}

bool kc_has_begun(void) { return state == CONNECTED; }

const struct kc_device *kc_device(void) { return &device; }

int kc_memory_file(void) { return memory_file; }

int kc_lasting_error(void) { return lasting_error; }

void kc_forget_lasting_error(void) { lasting_error = KC_OK; }

static void say(uint32_t kind, const char *text) {
  size_t bytes = strlen(text);
  kc_head(kind, bytes);
  kc_put(text, bytes);
}

void kc_note(const char *text) {
  if (kc_begin()) return;
  kc_enter();
  say(KC_NOTE, text);
  kc_leave();
}

int kc_missing(const char *name) {
  static const char *told[256];
  static int count;
  if (kc_begin()) return KC_NOT_SUPPORTED;
  kc_enter();
  int known = 0;
  while (known < count && strcmp(told[known], name)) known++;
  if (known == count && count < 256) {
    told[count++] = name;
    say(KC_MISSING, name);
  }
  kc_leave();
  return KC_NOT_SUPPORTED;
}

/* --- modules and kernels --- */

struct kc_function {
  int number, module;
  char *name;
  _Atomic int known; /* 0: not asked yet, 1: there, -1: not there */
  int dynamic_shared; /* the most that the program allowed */
  bool large_clusters;
  struct kc_function_head head;
  struct kc_parameter *parameters;
};

static int module_count;
static kc_function **functions;
static int function_count, function_room;

static uint16_t word16(const unsigned char *at) {
  uint16_t value;
  memcpy(&value, at, 2);
  return value;
}

static uint32_t word32(const unsigned char *at) {
  uint32_t value;
  memcpy(&value, at, 4);
  return value;
}

static uint64_t word64(const unsigned char *at) {
  uint64_t value;
  memcpy(&value, at, 8);
  return value;
}

/* How long the code is, and of which form: fatbins and machine code say it in their heads, texts end at a zero. */
static enum kc_form form_of(const unsigned char **image, size_t *bytes) {
  const unsigned char *at = *image;
  if (word32(at) == 0x466243B1) { /* what nvcc wraps around a fatbin */
    at = *image = (const unsigned char *)(uintptr_t)word64(at + 8);
  }
  if (word32(at) == 0xBA55ED50) {
    *bytes = word16(at + 6) + word64(at + 8);
    return KC_FATBIN;
  }
  if (word32(at) == 0x464C457F) { /* ELF: what is told of it is that it is there */
    *bytes = 64;
    return KC_MACHINE_CODE;
  }
  *bytes = strlen((const char *)at);
  return strncmp((const char *)at, "KERNCAST SOURCE", 15) ? KC_PTX : KC_SOURCE;
}

int kc_load_module(const void *image, int *module) {
  int error = kc_begin();
  if (error) return error;
  if (!image) return KC_INVALID_VALUE;
  const unsigned char *at = image;
  size_t bytes;
  uint32_t form = form_of(&at, &bytes);
  kc_enter();
  int32_t number = *module = module_count++;
  kc_head(KC_MODULE, 8 + bytes);
  kc_put(&number, 4);
  kc_put(&form, 4);
  kc_put(at, bytes);
  kc_leave();
  return KC_OK;
}

int kc_place_variable(int module, const char *name, size_t bytes, bool is_managed, uint64_t *address) {
  int error = kc_allocate_variable(bytes, is_managed, address);
  if (!error) kc_tell_variable(module, name, bytes, *address);
  return error;
}

void kc_tell_variable(int module, const char *name, size_t bytes, uint64_t address) {
  size_t length = strlen(name);
  int32_t number = module;
  uint64_t fields[2] = {address, bytes};
  kc_enter();
  kc_head(KC_VARIABLE, 20 + length);
  kc_put(&number, 4);
  kc_put(fields, 16);
  kc_put(name, length);
  kc_leave();
}

int kc_ask_symbol(int module, const char *name, uint64_t *address, size_t *bytes) {
  int error = kc_begin();
  if (error) return error;
  int32_t number = module;
  uint64_t found[2];
  kc_enter();
  kc_head(KC_SYMBOL, 4 + strlen(name));
  kc_put(&number, 4);
  kc_put(name, strlen(name));
  kc_flush();
  kc_take(found, sizeof found);
  kc_leave();
  *address = found[0];
  *bytes = found[1];
  if (!found[0]) return KC_SYMBOL_NOT_FOUND;
  kc_know(found[0], found[1]);
  return KC_OK;
}

kc_function *kc_new_function(int module, const char *name) {
  kc_function *function = calloc(1, sizeof *function);
  function->module = module;
  function->name = strdup(name);
  kc_enter();
  if (function_count == function_room) {
    function_room = function_room ? 2 * function_room : 64;
    functions = realloc(functions, (size_t)function_room * sizeof *functions);
  }
  function->number = function_count;
  functions[function_count++] = function;
  kc_leave();
  return function;
}

bool kc_is_function(const void *pointer) {
  bool found = false;
  kc_lock();
  for (int i = 0; i < function_count && !found; i++) found = functions[i] == pointer;
  kc_unlock();
  return found;
}

int kc_describe(kc_function *function) {
  int error = kc_begin();
  if (error || function->known > 0) return error;
  kc_enter();
  if (!function->known) {
    int32_t numbers[2] = {function->number, function->module};
    kc_head(KC_FUNCTION, 8 + strlen(function->name));
    kc_put(numbers, 8);
    kc_put(function->name, strlen(function->name));
    kc_flush();
    kc_take(&function->head, sizeof function->head);
    int count = function->head.parameters;
    if (count > 0) {
      function->parameters = calloc((size_t)count, sizeof *function->parameters);
      kc_take(function->parameters, (size_t)count * sizeof *function->parameters);
    }
    /* Last, since others look at this without the lock. */
    function->known = count < 0 ? -1 : 1;
  }
  kc_leave();
  return function->known < 0 ? KC_INVALID_DEVICE_FUNCTION : KC_OK;
}

const char *kc_function_name(const kc_function *function) { return function->name; }

const struct kc_function_head *kc_function_head(const kc_function *function) { return &function->head; }

const struct kc_parameter *kc_function_parameters(const kc_function *function) { return function->parameters; }

int kc_dynamic_shared(const kc_function *function) {
  int rest = device.shared_per_block - function->head.shared;
  return function->dynamic_shared > rest ? function->dynamic_shared : rest;
}

int kc_allow_dynamic_shared(kc_function *function, int bytes) {
  if (bytes < 0 || bytes > device.shared_per_block_optin) return KC_INVALID_VALUE;
  function->dynamic_shared = bytes;
  return KC_OK;
}

void kc_allow_large_clusters(kc_function *function, bool allowed) { function->large_clusters = allowed; }

static int smaller(int a, int b) { return a < b ? a : b; }

static int up_to(int value, int step) { return (value + step - 1) / step * step; }

/* As CUDA's occupancy calculator: by blocks, warps, registers (in steps of 256 a warp) and shared memory. */
int kc_resident_blocks(kc_function *function, int threads, size_t dynamic_shared) {
  if (kc_describe(function) || threads < 1 || threads > function->head.most_threads) return 0;
  int warps = (threads + 31) / 32;
  int blocks = smaller(device.blocks_per_multiprocessor, device.threads_per_multiprocessor / 32 / warps);
  int registers = up_to((function->head.registers ? function->head.registers : 1) * 32, 256) * up_to(warps, 4);
  if (registers > device.registers_per_block) return 0;
  blocks = smaller(blocks, device.registers_per_multiprocessor / registers);
  int shared = function->head.shared + (int)dynamic_shared;
  int limit = smaller(kc_dynamic_shared(function) + function->head.shared, device.shared_per_block_optin);
  if (shared > limit) return 0;
  shared = up_to(shared, 128) + device.reserved_shared;
  return shared ? smaller(blocks, device.shared_per_multiprocessor / shared) : blocks;
}

uint64_t kc_most_cooperative_blocks(kc_function *function, int threads, size_t dynamic_shared) {
  return (uint64_t)kc_resident_blocks(function, threads, dynamic_shared) * (uint64_t)device.multiprocessors;
}

/* --- launches and calls --- */

size_t kc_parameter_bytes(const kc_function *function) {
  size_t bytes = 0;
  for (int i = 0; i < function->head.parameters; i++) {
    size_t end = (size_t)function->parameters[i].offset + (size_t)function->parameters[i].bytes;
    if (end > bytes) bytes = end;
  }
  return bytes;
}

uint32_t kc_pack(const struct kc_launch *launch, unsigned char *to, size_t room) {
  const kc_function *function = launch->function;
  uint32_t bytes = 0;
  if (launch->buffer) {
    /* A structure may have room behind the last parameter. */
    if (room > kc_parameter_bytes(function)) room = kc_parameter_bytes(function);
    bytes = (uint32_t)(launch->buffer_bytes < room ? launch->buffer_bytes : room);
    memcpy(to, launch->buffer, bytes);
    return bytes;
  }
  for (int i = 0; i < function->head.parameters; i++) {
    struct kc_parameter each = function->parameters[i];
    uint32_t stop = (uint32_t)(each.offset + each.bytes);
    if (stop > room) break;
    if (stop > bytes) {
      memset(to + bytes, 0, stop - bytes);
      bytes = stop;
    }
    memcpy(to + each.offset, launch->arguments[i], (size_t)each.bytes);
  }
  return bytes;
}

/* A launch without clusters is one with clusters of no size. */
static int check_cluster(const struct kc_launch *launch) {
  if (!(launch->flags & KC_CLUSTER_FLAGS)) return KC_OK;
  uint32_t blocks = 1;
  for (int axis = 0; axis < 3; axis++) {
    uint32_t size = KC_CLUSTER(launch->flags, axis);
    if (!size || launch->grid[axis] % size) return KC_INVALID_CLUSTER_SIZE;
    blocks *= size;
  }
  if (blocks > (launch->function->large_clusters ? 16 : 8)) return KC_INVALID_CLUSTER_SIZE;
  return blocks > 1 && device.major < 9 ? KC_NOT_SUPPORTED : KC_OK;
}

static int check(const struct kc_launch *launch) {
  static const uint32_t most_block[3] = {1024, 1024, 64}, most_grid[3] = {2147483647, 65535, 65535};
  uint64_t threads = 1;
  for (int axis = 0; axis < 3; axis++) {
    uint32_t grid = launch->grid[axis], block = launch->block[axis];
    if (!grid || grid > most_grid[axis] || !block || block > most_block[axis]) return KC_INVALID_CONFIGURATION;
    threads *= block;
  }
  if (threads > 1024) return KC_INVALID_CONFIGURATION;
  if (threads > (uint64_t)launch->function->head.most_threads) return KC_TOO_MANY_RESOURCES;
  if ((int64_t)launch->shared_bytes > kc_dynamic_shared(launch->function)) return KC_INVALID_VALUE;
  if (launch->function->head.parameters > 0 && !launch->arguments && !launch->buffer) return KC_INVALID_VALUE;
  int error = check_cluster(launch);
  if (error || !(launch->flags & KC_COOPERATIVE)) return error;
  uint64_t most = kc_most_cooperative_blocks(launch->function, (int)threads, launch->shared_bytes);
  uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  return blocks > most ? KC_COOPERATIVE_TOO_LARGE : KC_OK;
}

/* What a kernel printed comes before what the host prints next. */
static void print_text(uint32_t bytes) {
  if (!bytes) return;
  char *text = malloc(bytes);
  kc_take(text, bytes);
  fwrite(text, 1, bytes, stdout);
  free(text);
}

/* After some errors nothing can be asked of the device any more: bad accesses, assertions, endless kernels. */
static bool lasts(int status) {
  return status == KC_ILLEGAL_ADDRESS || status == 702 || status == 710 || (status >= 714 && status <= 719);
}

static int finish(kc_stream *stream, double call_seconds) {
  struct kc_done done;
  kc_flush();
  kc_take(&done, sizeof done);
  print_text(done.text_bytes);
  kc_add_kernel(stream, done.seconds, done.share, call_seconds);
  if (lasts(done.status)) lasting_error = done.status;
  return done.status;
}

int kc_launch(const struct kc_launch *launch) {
  int error = kc_describe(launch->function);
  if (!error) error = lasting_error;
  if (!error) error = check(launch);
  if (error) return error;
  if (kc_take_launch(launch, &error)) return error;
  unsigned char parameters[1 << 15];
  kc_enter();
  uint32_t bytes = kc_pack(launch, parameters, sizeof parameters);
  kc_translate(parameters, bytes);
  double at = kc_host_now();
  int32_t number = launch->function->number;
  uint32_t rest[3] = {launch->shared_bytes, kc_stream_number(launch->stream), launch->flags};
  kc_head(KC_LAUNCH, 8 + 4 + 12 + 12 + 12 + bytes);
  kc_put(&at, 8);
  kc_put(&number, 4);
  kc_put(launch->grid, 12);
  kc_put(launch->block, 12);
  kc_put(rest, 12);
  kc_put(parameters, bytes);
  /* The launch of a graph has been paid for as a whole. */
  error = finish(launch->stream, launch->flags & KC_FROM_GRAPH ? 0 : device.launch_s);
  kc_leave();
  return error;
}

int kc_library(const char *name, const void *operands, size_t bytes, kc_stream *stream) {
  struct kc_library_call call = {name, operands, bytes};
  int error = kc_begin();
  if (!error) error = lasting_error;
  if (error) return error;
  return kc_take_library(&call, stream, &error) ? error : kc_call_library(&call, stream, false);
}

int kc_call_library(const struct kc_library_call *call, kc_stream *stream, bool from_graph) {
  if (lasting_error) return lasting_error;
  kc_enter();
  double at = kc_host_now();
  uint32_t fields[2] = {kc_stream_number(stream), (uint32_t)strlen(call->name)};
  kc_head(KC_LIBRARY, 16 + fields[1] + call->bytes);
  kc_put(&at, 8);
  kc_put(fields, 8);
  kc_put(call->name, fields[1]);
  kc_put(call->operands, call->bytes);
  int error = finish(stream, from_graph ? 0 : device.launch_s);
  kc_leave();
  return error;
}
