/* Parameters of the nodes of graphs, as both interfaces have them. Part of libkerncast_device.so. */
#include <string.h>

#include "graphs.h"
#include "kernels.h"

int kc_read_kernel(const void *parameters, kc_function *function, struct kc_work *work) {
  struct kc_kernel_parameters given;
  if (!parameters) return KC_INVALID_VALUE;
  if (!function) return KC_INVALID_DEVICE_FUNCTION;
  memcpy(&given, parameters, sizeof given);
  *work = (struct kc_work){.kind = KC_KERNEL_NODE};
  struct kc_launch *launch = &work->launch;
  launch->function = function;
  memcpy(launch->grid, given.grid, sizeof launch->grid);
  memcpy(launch->block, given.block, sizeof launch->block);
  launch->shared_bytes = given.shared_bytes;
  launch->arguments = given.arguments;
  return given.arguments ? KC_OK : kc_read_extra(given.extra, launch);
}

int kc_read_fill(const void *parameters, struct kc_work *work) {
  struct kc_fill_parameters given;
  if (!parameters) return KC_INVALID_VALUE;
  memcpy(&given, parameters, sizeof given);
  bool is_element = given.element_bytes == 1 || given.element_bytes == 2 || given.element_bytes == 4;
  if (!is_element || !kc_device_address(given.to)) return KC_INVALID_VALUE;
  *work = (struct kc_work){.kind = KC_FILL_NODE};
  work->fill.to = (void *)(uintptr_t)kc_device_address(given.to);
  work->fill.pattern =
      (struct kc_pattern){given.value, (int)given.element_bytes, given.width, given.rows, given.pitch};
  return KC_OK;
}

int kc_read_host(const void *parameters, struct kc_work *work) {
  struct kc_host_parameters given;
  if (!parameters) return KC_INVALID_VALUE;
  memcpy(&given, parameters, sizeof given);
  *work = (struct kc_work){.kind = KC_HOST_NODE, .host = {given.function, given.data}};
  return KC_OK;
}

const struct kc_work *kc_work_of_kind(const kc_node *node, enum kc_node_kind kind) {
  return node && kc_node_work(node)->kind == kind ? kc_node_work(node) : NULL;
}

/* Copies what was found to where the caller wants it, of which nothing is known but its bytes. */
static int tell(void *to, const void *found, size_t bytes) {
  if (!to) return KC_INVALID_VALUE;
  memcpy(to, found, bytes);
  return KC_OK;
}

int kc_tell_kernel(const kc_node *node, void *function, void *parameters) {
  const struct kc_work *work = kc_work_of_kind(node, KC_KERNEL_NODE);
  if (!work) return KC_INVALID_VALUE;
  struct kc_kernel_parameters found = {.function = function, .shared_bytes = work->launch.shared_bytes,
                                       .arguments = work->launch.arguments};
  memcpy(found.grid, work->launch.grid, sizeof found.grid);
  memcpy(found.block, work->launch.block, sizeof found.block);
  return tell(parameters, &found, sizeof found);
}

int kc_tell_fill(const kc_node *node, void *parameters) {
  const struct kc_work *work = kc_work_of_kind(node, KC_FILL_NODE);
  if (!work) return KC_INVALID_VALUE;
  const struct kc_pattern *pattern = &work->fill.pattern;
  struct kc_fill_parameters found = {work->fill.to, pattern->pitch, pattern->value, (uint32_t)pattern->element_bytes,
                                     pattern->count, pattern->rows};
  return tell(parameters, &found, sizeof found);
}

int kc_tell_host(const kc_node *node, void *parameters) {
  const struct kc_work *work = kc_work_of_kind(node, KC_HOST_NODE);
  if (!work) return KC_INVALID_VALUE;
  struct kc_host_parameters found = {work->host.function, work->host.data};
  return tell(parameters, &found, sizeof found);
}

int kc_tell_child(const kc_node *node, kc_graph **child) {
  const struct kc_work *work = kc_work_of_kind(node, KC_CHILD_NODE);
  if (!work || !child) return KC_INVALID_VALUE;
  *child = work->child;
  return KC_OK;
}

int kc_tell_event(const kc_node *node, enum kc_node_kind kind, kc_event **event) {
  const struct kc_work *work = kc_work_of_kind(node, kind);
  if (!work || !event) return KC_INVALID_VALUE;
  *event = work->event;
  return KC_OK;
}

int kc_change_event(kc_node *node, enum kc_node_kind kind, kc_event *event) {
  struct kc_work work = {.kind = kind, .event = event};
  return kc_set_node_work(node, &work);
}

int kc_tell_kind(const kc_node *node, int *kind) {
  if (!node || !kind) return KC_INVALID_VALUE;
  *kind = (int)kc_node_work(node)->kind;
  if (*kind == KC_LIBRARY_NODE) *kind = KC_KERNEL_NODE;
  return KC_OK;
}

int kc_add_free(kc_graph *graph, kc_node *const *after, size_t count, uint64_t address, kc_node **node) {
  struct kc_work work = {.kind = KC_FREE_NODE, .memory = {address, 0}};
  if (!kc_is_held_by_graph(address)) return KC_INVALID_VALUE;
  return kc_add_node(graph, after, count, &work, node);
}

int kc_tell_memory(const kc_node *node, enum kc_node_kind kind, uint64_t *address, size_t *bytes) {
  const struct kc_work *work = kc_work_of_kind(node, kind);
  if (!work || !address) return KC_INVALID_VALUE;
  *address = work->memory.address;
  if (bytes) *bytes = work->memory.bytes;
  return KC_OK;
}
