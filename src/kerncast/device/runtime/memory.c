/* The memory of the device: allocations in one mapped file, copies, and the host's own memory put under it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside.h"

#define ALIGNMENT 512
/* Nothing lies between two allocations, so that an access past an end is found. */
#define GAP 512
/* Below lies what the server places: variables of modules that only it has read. */
#define FIRST (KC_BASE + (UINT64_C(64) << 20))
#define PAGE 4096
/* Smaller copies are not worth the question whether memory is left. */
#define LARGE (1 << 20)

static struct kc_range *ranges;
static size_t range_count, range_room;
static uint64_t address_space, device_bytes;
/* No gap below this place is as large as the one that was looked for last, of so many bytes. */
static size_t hint_place;
static uint64_t hint_bytes;

struct registered {
  void *host;
  size_t bytes; /* whole pages */
  uint64_t address;
};
static struct registered *registered;
static size_t registered_count;

void kc_room(uint64_t bytes) { address_space = bytes; }

static uint64_t up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

static uint64_t higher(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* How many allocations begin at an address or before it. */
static size_t place_of(uint64_t address) {
  size_t low = 0, high = range_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ranges[middle].address <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void tell(uint32_t kind, uint64_t address, uint64_t bytes, uint32_t memory_kind) {
  double at = kc_host_now();
  kc_head(kind, kind == KC_FREE ? 16 : 28);
  kc_put(&at, 8);
  kc_put(&address, 8);
  if (kind == KC_FREE) return;
  kc_put(&bytes, 8);
  kc_put(&memory_kind, 4);
}

/* What an allocation is here, and what the server is told. */
struct kinds {
  int own, told;
};

/* Finds the lowest gap that is large enough; returns the place in the list, or -1. */
static long gap_for(uint64_t bytes, uint64_t alignment, uint64_t *address) {
  size_t place = bytes >= hint_bytes && alignment == ALIGNMENT ? hint_place : 0;
  uint64_t at = up(FIRST, alignment);
  if (place) at = higher(at, up(ranges[place - 1].address + ranges[place - 1].bytes + GAP, alignment));
  for (; place < range_count && at + bytes + GAP > ranges[place].address; place++)
    at = higher(at, up(ranges[place].address + ranges[place].bytes + GAP, alignment));
  if (at + bytes + GAP > KC_BASE + address_space) return -1;
  *address = at;
  return (long)place;
}

static void put_range(size_t place, struct kc_range range) {
  if (range_count == range_room) {
    range_room = range_room ? 2 * range_room : 256;
    ranges = realloc(ranges, range_room * sizeof *ranges);
  }
  memmove(ranges + place + 1, ranges + place, (range_count++ - place) * sizeof *ranges);
  ranges[place] = range;
}

static int insert(uint64_t bytes, uint64_t alignment, struct kinds kinds, uint64_t *address) {
  /* More than there is, and more than what sums of addresses can hold. */
  if (bytes > address_space) return KC_OUT_OF_MEMORY;
  long place = gap_for(bytes, alignment, address);
  if (place < 0) return KC_OUT_OF_MEMORY;
  put_range((size_t)place, (struct kc_range){*address, bytes, kinds.own});
  if (alignment == ALIGNMENT) {
    hint_place = (size_t)place;
    hint_bytes = bytes;
  }
  tell(KC_ALLOCATE, *address, bytes, (uint32_t)kinds.told);
  return KC_OK;
}

void kc_know(uint64_t address, uint64_t bytes) {
  kc_enter();
  size_t place = place_of(address);
  if (!place || (ranges[place - 1].address != address && address >= ranges[place - 1].address + ranges[place - 1].bytes)) {
    put_range(place, (struct kc_range){address, bytes, KC_VARIABLE_MEMORY});
    hint_place = hint_bytes = 0;
    device_bytes += bytes;
  }
  kc_leave();
}

static bool is_on_device(int kind) { return kind == KC_DEVICE_MEMORY || kind == KC_VARIABLE_MEMORY; }

static int allocate(size_t bytes, struct kinds kinds, uint64_t *address) {
  int error = kc_begin();
  if (error) return error;
  *address = 0;
  if (!bytes) return KC_OK;
  kc_enter();
  if (is_on_device(kinds.own) && bytes > kc_device()->memory_bytes - device_bytes) error = KC_OUT_OF_MEMORY;
  if (!error) error = insert(bytes, ALIGNMENT, kinds, address);
  if (!error && is_on_device(kinds.own)) device_bytes += bytes;
  kc_leave();
  return error;
}

int kc_allocate(size_t bytes, int kind, uint64_t *address) {
  return allocate(bytes, (struct kinds){kind, kind}, address);
}

int kc_allocate_variable(size_t bytes, bool is_managed, uint64_t *address) {
  struct kinds kinds = {KC_VARIABLE_MEMORY, is_managed ? KC_MANAGED : KC_VARIABLE_MEMORY};
  return allocate(bytes ? bytes : 1, kinds, address);
}

/* Gives the whole pages of an allocation back to the system. */
static void give_back(uint64_t address, uint64_t bytes) {
  uint64_t first = up(address, PAGE), stop = (address + bytes) / PAGE * PAGE;
  if (stop > first) madvise((void *)first, stop - first, MADV_REMOVE);
}

static int forget(uint64_t address) {
  size_t place = place_of(address);
  if (!place || ranges[place - 1].address != address) return KC_INVALID_VALUE;
  struct kc_range found = ranges[--place];
  if (is_on_device(found.kind)) device_bytes -= found.bytes;
  give_back(found.address, found.bytes);
  memmove(ranges + place, ranges + place + 1, (--range_count - place) * sizeof *ranges);
  hint_place = hint_bytes = 0;
  tell(KC_FREE, address, 0, 0);
  return KC_OK;
}

int kc_free(uint64_t address) {
  int error = kc_begin();
  if (error || !address) return error;
  kc_enter();
  error = forget(address);
  kc_leave();
  return error;
}

void kc_free_all(void) {
  if (kc_begin()) return;
  kc_enter();
  for (size_t place = range_count; place--;)
    if (ranges[place].kind != KC_VARIABLE_MEMORY && ranges[place].kind != KC_REGISTERED) forget(ranges[place].address);
  kc_leave();
}

bool kc_find(uint64_t address, struct kc_range *range) {
  kc_lock();
  size_t place = place_of(address);
  bool found = place && address < ranges[place - 1].address + (ranges[place - 1].bytes ? ranges[place - 1].bytes : 1);
  if (found && range) *range = ranges[place - 1];
  kc_unlock();
  return found;
}

void kc_memory(size_t *free_bytes, size_t *total_bytes) {
  *total_bytes = kc_device()->memory_bytes;
  *free_bytes = *total_bytes - device_bytes;
}

/* --- the host's own memory --- */

/* The pages get another home with what they hold: the host and the device see them under two addresses. */
static int move_pages(void *host, size_t bytes, uint64_t address) {
  memcpy((void *)address, host, bytes);
  void *at = mmap(host, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, kc_memory_file(),
                  (off_t)(address - KC_BASE));
  return at == host ? KC_OK : KC_OUT_OF_MEMORY;
}

/* A page can be at one address of the device only: two ranges that share one cannot both be registered. */
static int check_unregistered(const void *host, uintptr_t first, size_t whole) {
  if (kc_find((uint64_t)(uintptr_t)host, NULL)) return KC_ALREADY_REGISTERED;
  for (size_t i = 0; i < registered_count; i++) {
    uintptr_t other = (uintptr_t)registered[i].host;
    if (first >= other + registered[i].bytes || other >= first + whole) continue;
    if ((uintptr_t)host < other || (uintptr_t)host >= other + registered[i].bytes)
      kc_note("memory of the host was not registered: it shares a page with other registered memory");
    return KC_ALREADY_REGISTERED;
  }
  return KC_OK;
}

int kc_register_host(void *host, size_t bytes) {
  int error = kc_begin();
  if (error) return error;
  if (!host || !bytes || bytes > address_space) return KC_INVALID_VALUE;
  uintptr_t first = (uintptr_t)host / PAGE * PAGE;
  size_t whole = up((uintptr_t)host + bytes, PAGE) - first;
  uint64_t address;
  kc_enter();
  error = check_unregistered(host, first, whole);
  if (!error) error = insert(whole, PAGE, (struct kinds){KC_REGISTERED, KC_REGISTERED}, &address);
  if (!error) error = move_pages((void *)first, whole, address);
  if (!error) {
    registered = realloc(registered, (registered_count + 1) * sizeof *registered);
    registered[registered_count++] = (struct registered){(void *)first, whole, address};
  }
  kc_leave();
  return error;
}

static long registered_at(const void *host) {
  for (size_t i = 0; i < registered_count; i++) {
    uintptr_t first = (uintptr_t)registered[i].host;
    if ((uintptr_t)host >= first && (uintptr_t)host < first + registered[i].bytes) return (long)i;
  }
  return -1;
}

int kc_unregister_host(void *host) {
  int error = kc_begin();
  if (error) return error;
  kc_enter();
  long i = registered_at(host);
  if (i < 0) error = KC_NOT_REGISTERED;
  else {
    struct registered found = registered[i];
    void *at = mmap(found.host, found.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at == found.host) memcpy(found.host, (void *)found.address, found.bytes);
    else error = KC_OUT_OF_MEMORY;
    forget(found.address);
    registered[i] = registered[--registered_count];
  }
  kc_leave();
  return error;
}

uint64_t kc_device_address(const void *host) {
  if (kc_find((uint64_t)(uintptr_t)host, NULL)) return (uint64_t)(uintptr_t)host;
  kc_lock();
  long i = registered_at(host);
  uint64_t found = i < 0 ? 0 : registered[i].address + ((uintptr_t)host - (uintptr_t)registered[i].host);
  kc_unlock();
  return found;
}

void kc_translate(unsigned char *parameters, size_t bytes) {
  if (!registered_count) return;
  for (size_t place = 0; place + 8 <= bytes; place += 8) {
    uint64_t value;
    memcpy(&value, parameters + place, 8);
    long i = registered_at((const void *)(uintptr_t)value);
    if (i < 0) continue;
    value = registered[i].address + (value - (uint64_t)(uintptr_t)registered[i].host);
    memcpy(parameters + place, &value, 8);
  }
}

/* --- copies --- */

/* An access of the device's memory has to lie within one allocation. The host's own memory is its own business. */
static bool is_valid(const void *pointer, uint64_t bytes) {
  uint64_t address = (uint64_t)(uintptr_t)pointer;
  struct kc_range range;
  if (address < KC_BASE || address >= KC_BASE + address_space) return true;
  return kc_find(address, &range) && bytes <= range.address + range.bytes - address;
}

static uint64_t reach(size_t width, size_t rows, size_t pitch, size_t slices, size_t slice) {
  return (slices - 1) * slice + (rows - 1) * pitch + width;
}

/* Whether this machine has room for so much more memory of the device that is touched. */
static bool has_room(const void *to, uint64_t bytes) {
  struct stat found;
  uint64_t address = (uint64_t)(uintptr_t)to;
  if (bytes < LARGE || address < KC_BASE || address >= KC_BASE + address_space) return true;
  if (fstat(kc_memory_file(), &found)) return true;
  if ((uint64_t)found.st_blocks * 512 + bytes <= kc_device()->budget_bytes) return true;
  kc_note("the memory of the GPU that the program touches is over the budget: give more by --memory");
  return false;
}

static bool is_device_side(const void *pointer) {
  struct kc_range range;
  return kc_find((uint64_t)(uintptr_t)pointer, &range) && is_on_device(range.kind);
}

static uint32_t direction(const void *to, const void *from) {
  bool to_device = is_device_side(to), from_device = is_device_side(from);
  if (to_device) return from_device ? KC_DEVICE_TO_DEVICE : KC_HOST_TO_DEVICE;
  return from_device ? KC_DEVICE_TO_HOST : KC_HOST_TO_HOST;
}

/* Memory of the host that is not pinned goes through a buffer of the driver's. */
static double copy_seconds(uint32_t way, bool is_pageable, uint64_t bytes) {
  const struct kc_device *device = kc_device();
  double rates[4] = {0, device->to_device_bytes_per_s, device->to_host_bytes_per_s, device->on_device_bytes_per_s / 2};
  double rate = rates[way] * (is_pageable ? device->pageable : 1);
  return rate > 0 ? device->copy_s + (double)bytes / rate : 0;
}

static void note_copy(void *to, const void *from, uint64_t bytes, kc_stream *stream, bool waits) {
  double at = kc_host_now();
  uint64_t places[3] = {(uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes};
  uint32_t way = direction(to, from);
  /* The host never waits for a copy within the device, and always for one to pages that are not pinned. */
  if (way == KC_DEVICE_TO_DEVICE) waits = false;
  if (way == KC_DEVICE_TO_HOST && !kc_device_address(to)) waits = true;
  bool is_pageable = (way == KC_HOST_TO_DEVICE && !kc_device_address(from)) ||
                     (way == KC_DEVICE_TO_HOST && !kc_device_address(to));
  uint32_t rest[3] = {way, kc_stream_number(stream), waits | (is_pageable ? 2u : 0u)};
  kc_head(KC_COPY, 44);
  kc_put(&at, 8);
  kc_put(places, 24);
  kc_put(rest, 12);
  kc_add_copy(stream, way, copy_seconds(way, is_pageable, bytes));
  if (waits) kc_catch_up(stream);
}

static void move_slice(void *to, const void *from, struct kc_rows rows) {
  if (rows.rows == 1 || (rows.to_pitch == rows.width && rows.from_pitch == rows.width)) {
    memmove(to, from, rows.width * rows.rows);
    return;
  }
  for (size_t row = 0; row < rows.rows; row++)
    memmove((char *)to + row * rows.to_pitch, (const char *)from + row * rows.from_pitch, rows.width);
}

int kc_copy_rows(void *to, const void *from, struct kc_rows rows, kc_stream *stream, bool waits) {
  int error = kc_begin();
  if (!error) error = kc_lasting_error();
  if (!rows.slices) rows.slices = 1;
  uint64_t bytes = (uint64_t)rows.width * rows.rows * rows.slices;
  if (error || !bytes) return error;
  if (!to || !from) return KC_INVALID_VALUE;
  if (!is_valid(to, reach(rows.width, rows.rows, rows.to_pitch, rows.slices, rows.to_slice))) return KC_INVALID_VALUE;
  if (!is_valid(from, reach(rows.width, rows.rows, rows.from_pitch, rows.slices, rows.from_slice)))
    return KC_INVALID_VALUE;
  if (kc_take_copy(to, from, rows, stream, &error)) return error;
  if (!has_room(to, bytes)) return KC_OUT_OF_MEMORY;
  kc_enter();
  for (size_t slice = 0; slice < rows.slices; slice++)
    move_slice((char *)to + slice * rows.to_slice, (const char *)from + slice * rows.from_slice, rows);
  note_copy(to, from, bytes, stream, waits);
  kc_leave();
  return KC_OK;
}

int kc_copy(void *to, const void *from, size_t bytes, kc_stream *stream, bool waits) {
  return kc_copy_rows(to, from, (struct kc_rows){bytes, bytes, bytes, 1, 0, 0, 0}, stream, waits);
}

static void write_elements(void *to, uint32_t value, int element_bytes, size_t count) {
  if (element_bytes == 1) {
    memset(to, (int)value, count);
    return;
  }
  for (size_t i = 0; i < count; i++) memcpy((char *)to + i * (size_t)element_bytes, &value, (size_t)element_bytes);
}

int kc_fill_rows(void *to, struct kc_pattern pattern, kc_stream *stream, bool waits) {
  int error = kc_begin();
  if (!error) error = kc_lasting_error();
  uint64_t width = (uint64_t)pattern.element_bytes * pattern.count, bytes = width * pattern.rows;
  if (error || !bytes) return error;
  struct kc_range range;
  if (!kc_find((uint64_t)(uintptr_t)to, &range)) return KC_INVALID_VALUE;
  if (!is_valid(to, reach(width, pattern.rows, pattern.pitch, 1, 0))) return KC_INVALID_VALUE;
  if (kc_take_fill(to, pattern, stream, &error)) return error;
  if (!has_room(to, bytes)) return KC_OUT_OF_MEMORY;
  kc_enter();
  for (size_t row = 0; row < pattern.rows; row++)
    write_elements((char *)to + row * pattern.pitch, pattern.value, pattern.element_bytes, pattern.count);
  double at = kc_host_now();
  uint64_t places[2] = {(uint64_t)(uintptr_t)to, bytes};
  uint32_t rest[2] = {kc_stream_number(stream), waits};
  kc_head(KC_FILL, 32);
  kc_put(&at, 8);
  kc_put(places, 16);
  kc_put(rest, 8);
  kc_add_copy(stream, KC_DEVICE_TO_DEVICE, copy_seconds(KC_DEVICE_TO_DEVICE, false, bytes));
  if (waits) kc_catch_up(stream);
  kc_leave();
  return KC_OK;
}

int kc_fill(void *to, uint32_t value, int element_bytes, size_t count, kc_stream *stream, bool waits) {
  return kc_fill_rows(to, (struct kc_pattern){value, element_bytes, count, 1, 0}, stream, waits);
}
