/* Memory that is allocated and freed in the order of streams. Part of libkerncast_device.so.
 *
 * Pools only keep what a program has set of them: memory comes from the device at once and goes back at once. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "graphs.h"
#include "inside.h"

struct kc_pool {
  int reuse[3]; /* three rules by which memory may be used again: all hold anyway */
  uint64_t threshold, highest;
  struct kc_pool *next;
};

static struct kc_pool first = {.reuse = {1, 1, 1}};
static struct kc_pool *pools = &first, *current = &first;

kc_pool *kc_default_pool(void) { return &first; }

kc_pool *kc_device_pool(void) { return current; }

static bool is_pool(const kc_pool *pool) {
  bool found = false;
  kc_lock();
  for (const kc_pool *each = pools; each && !found; each = each->next) found = each == pool;
  kc_unlock();
  return found;
}

int kc_set_device_pool(kc_pool *pool) {
  if (!is_pool(pool)) return KC_INVALID_VALUE;
  current = pool;
  return KC_OK;
}

kc_pool *kc_new_pool(void) {
  kc_pool *pool = calloc(1, sizeof *pool);
  kc_lock();
  *pool = (kc_pool){{1, 1, 1}, 0, 0, first.next};
  first.next = pool;
  kc_unlock();
  return pool;
}

int kc_end_pool(kc_pool *pool) {
  if (pool == &first || !is_pool(pool)) return KC_INVALID_VALUE;
  kc_lock();
  kc_pool *before = pools;
  while (before->next != pool) before = before->next;
  before->next = pool->next;
  if (current == pool) current = &first;
  kc_unlock();
  free(pool);
  return KC_OK;
}

/* What all pools hold together: they are not told apart. */
static uint64_t used(void) {
  size_t free_bytes, total_bytes;
  kc_memory(&free_bytes, &total_bytes);
  return total_bytes - free_bytes;
}

int kc_pool_attribute(const kc_pool *pool, int attribute, void *value) {
  if (!is_pool(pool) || !value) return KC_INVALID_VALUE;
  uint64_t number;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      memcpy(value, pool->reuse + attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, sizeof(int));
      return KC_OK;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: number = pool->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: number = used(); break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: number = pool->highest; break;
    default: return KC_INVALID_VALUE;
  }
  memcpy(value, &number, sizeof number);
  return KC_OK;
}

int kc_set_pool_attribute(kc_pool *pool, int attribute, const void *value) {
  if (!is_pool(pool) || !value) return KC_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      memcpy(pool->reuse + attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, value, sizeof(int));
      return KC_OK;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: memcpy(&pool->threshold, value, sizeof pool->threshold); return KC_OK;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: memcpy(&pool->highest, value, sizeof pool->highest); return KC_OK;
    default: return KC_INVALID_VALUE;
  }
}

int kc_allocate_from_pool(kc_pool *pool, size_t bytes, kc_stream *stream, uint64_t *address) {
  int error = kc_begin();
  if (error) return error;
  if (!address || !is_pool(pool)) return KC_INVALID_VALUE;
  if (!kc_is_stream(stream)) return KC_INVALID_HANDLE;
  if (kc_take_allocation(bytes, stream, address, &error)) return error;
  error = kc_allocate(bytes, KC_DEVICE_MEMORY, address);
  if (!error && used() > pool->highest) pool->highest = used();
  return error;
}

int kc_free_to_pool(uint64_t address, kc_stream *stream) {
  struct kc_work work = {.kind = KC_FREE_NODE, .memory = {address, 0}};
  int error = kc_begin();
  if (error) return error;
  if (!kc_is_stream(stream)) return KC_INVALID_HANDLE;
  if (kc_take_work(&work, stream, &error)) return error;
  return kc_free_kind(address, 1u << KC_DEVICE_MEMORY);
}

int kc_free_kind(uint64_t address, unsigned kinds) {
  struct kc_range range;
  int error = kc_begin();
  if (error || !address) return error;
  if (!kc_find(address, &range) || range.address != address || !(kinds >> range.kind & 1)) return KC_INVALID_VALUE;
  return kc_is_held_by_graph(address) ? KC_OK : kc_free(address);
}
