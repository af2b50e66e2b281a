/* Graphs of the CUDA runtime. Part of libcudart.so. */
#include <string.h>

#include "cudart.h"
#include "graphs.h"
#include "kernels.h"

static kc_graph *graph_of(cudaGraph_t graph) { return (kc_graph *)graph; }

static kc_node *node_of(cudaGraphNode_t node) { return (kc_node *)node; }

static kc_executable *executable_of(cudaGraphExec_t executable) { return (kc_executable *)executable; }

/* --- making --- */

static int make_graph(cudaGraph_t *graph, unsigned flags) {
  if (!graph || flags) return KC_INVALID_VALUE;
  *graph = (cudaGraph_t)kc_new_graph();
  return KC_OK;
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags) { ANSWER(make_graph(graph, flags)); }

static int end_graph(cudaGraph_t graph) {
  if (!graph) return KC_INVALID_VALUE;
  kc_end_graph(graph_of(graph));
  return KC_OK;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { ANSWER(end_graph(graph)); }

static int copy_graph(cudaGraph_t *copy, cudaGraph_t graph) {
  if (!copy || !graph) return KC_INVALID_VALUE;
  *copy = (cudaGraph_t)kc_copy_graph(graph_of(graph));
  return KC_OK;
}

cudaError_t cudaGraphClone(cudaGraph_t *copy, cudaGraph_t graph) { ANSWER(copy_graph(copy, graph)); }

static int find_in_copy(cudaGraphNode_t *found, cudaGraphNode_t node, cudaGraph_t copy) {
  if (!found) return KC_INVALID_VALUE;
  *found = (cudaGraphNode_t)kc_find_in_copy(node_of(node), graph_of(copy));
  return *found ? KC_OK : KC_INVALID_VALUE;
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *found, cudaGraphNode_t node, cudaGraph_t copy) {
  ANSWER(find_in_copy(found, node, copy));
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) { ANSWER(kc_end_node(node_of(node))); }

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags) {
  (void)flags; /* how much is told: always the same */
  ANSWER(kc_print_graph(graph_of(graph), path));
}

/* --- work of nodes, read from their parameters --- */

static int read_kernel(const void *given, struct kc_work *work) {
  const struct cudaKernelNodeParams *kernel = given;
  return kc_read_kernel(given, kernel ? kc_kernel_of(kernel->func) : NULL, work);
}

static int read_copy(const struct cudaMemcpy3DParms *given, struct kc_work *work) {
  struct kc_copy_of_rows copy = {0};
  int error = kc_read_copy(given, &copy);
  if (!error && copy.to) error = kc_check_kind(copy.to, copy.from, given->kind);
  *work = (struct kc_work){.kind = KC_COPY_NODE, .copy = {copy.to, copy.from, copy.rows}};
  return error;
}

static int read_flat_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, struct kc_work *work) {
  struct kc_rows rows = {bytes, bytes, bytes, 1, 1, 0, 0};
  *work = (struct kc_work){.kind = KC_COPY_NODE, .copy = {to, from, rows}};
  return kc_check_kind(to, from, kind);
}

/* A part of a variable as one side of a copy. */
struct part {
  const void *symbol;
  size_t bytes, offset;
};

static int place_of(struct part part, char **place) {
  uint64_t address;
  size_t bytes;
  int error = kc_symbol_of(part.symbol, &address, &bytes);
  if (error) return error;
  if (part.offset > bytes || part.bytes > bytes - part.offset) return KC_INVALID_VALUE;
  *place = (char *)(uintptr_t)address + part.offset;
  return KC_OK;
}

static int read_to_symbol(struct part to, const void *from, enum cudaMemcpyKind kind, struct kc_work *work) {
  char *place;
  int error = place_of(to, &place);
  return error ? error : read_flat_copy(place, from, to.bytes, kind, work);
}

static int read_from_symbol(void *to, struct part from, enum cudaMemcpyKind kind, struct kc_work *work) {
  char *place;
  int error = place_of(from, &place);
  return error ? error : read_flat_copy(to, place, from.bytes, kind, work);
}

static int read_child(cudaGraph_t child, struct kc_work *work) {
  *work = (struct kc_work){.kind = KC_CHILD_NODE, .child = graph_of(child)};
  return child ? KC_OK : KC_INVALID_VALUE;
}

static int read_event(enum kc_node_kind kind, cudaEvent_t event, struct kc_work *work) {
  *work = (struct kc_work){.kind = kind, .event = (kc_event *)event};
  return event ? KC_OK : KC_INVALID_VALUE;
}

/* --- adding nodes --- */

/* Where a node goes: its graph, and the nodes that it comes after. */
struct target {
  cudaGraphNode_t *node;
  cudaGraph_t graph;
  const cudaGraphNode_t *after;
  size_t count;
};

static int add(struct target target, int error, const struct kc_work *work) {
  return error ? error : kc_add_node(graph_of(target.graph), (kc_node *const *)target.after, target.count, work,
                                     (kc_node **)target.node);
}

static int add_kernel(struct target target, const void *given) {
  struct kc_work work;
  int error = read_kernel(given, &work);
  return add(target, error, &work);
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const struct cudaKernelNodeParams *given) {
  ANSWER(add_kernel((struct target){node, graph, after, count}, given));
}

static int add_copy(struct target target, const struct cudaMemcpy3DParms *given) {
  struct kc_work work;
  int error = read_copy(given, &work);
  return add(target, error, &work);
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const struct cudaMemcpy3DParms *given) {
  ANSWER(add_copy((struct target){node, graph, after, count}, given));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                     size_t count, void *to, const void *from, size_t bytes,
                                     enum cudaMemcpyKind kind) {
  struct kc_work work;
  int error = read_flat_copy(to, from, bytes, kind, &work);
  ANSWER(add((struct target){node, graph, after, count}, error, &work));
}

static int add_copy_to(struct target target, struct part to, const void *from, enum cudaMemcpyKind kind) {
  struct kc_work work;
  int error = read_to_symbol(to, from, kind, &work);
  return add(target, error, &work);
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                           size_t count, const void *symbol, const void *from, size_t bytes,
                                           size_t offset, enum cudaMemcpyKind kind) {
  ANSWER(add_copy_to((struct target){node, graph, after, count}, (struct part){symbol, bytes, offset}, from, kind));
}

static int add_copy_from(struct target target, void *to, struct part from, enum cudaMemcpyKind kind) {
  struct kc_work work;
  int error = read_from_symbol(to, from, kind, &work);
  return add(target, error, &work);
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                             size_t count, void *to, const void *symbol, size_t bytes, size_t offset,
                                             enum cudaMemcpyKind kind) {
  ANSWER(add_copy_from((struct target){node, graph, after, count}, to, (struct part){symbol, bytes, offset}, kind));
}

static int add_fill(struct target target, const void *given) {
  struct kc_work work;
  int error = kc_read_fill(given, &work);
  return add(target, error, &work);
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const struct cudaMemsetParams *given) {
  ANSWER(add_fill((struct target){node, graph, after, count}, given));
}

static int add_host(struct target target, const void *given) {
  struct kc_work work;
  int error = kc_read_host(given, &work);
  return add(target, error, &work);
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                 const struct cudaHostNodeParams *given) {
  ANSWER(add_host((struct target){node, graph, after, count}, given));
}

static int add_child(struct target target, cudaGraph_t child) {
  struct kc_work work;
  int error = read_child(child, &work);
  return add(target, error, &work);
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                       size_t count, cudaGraph_t child) {
  ANSWER(add_child((struct target){node, graph, after, count}, child));
}

static int add_empty(struct target target) {
  struct kc_work work = {.kind = KC_EMPTY_NODE};
  return add(target, KC_OK, &work);
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                  size_t count) {
  ANSWER(add_empty((struct target){node, graph, after, count}));
}

static int add_event(struct target target, enum kc_node_kind kind, cudaEvent_t event) {
  struct kc_work work;
  int error = read_event(kind, event, &work);
  return add(target, error, &work);
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                        size_t count, cudaEvent_t event) {
  ANSWER(add_event((struct target){node, graph, after, count}, KC_RECORD_NODE, event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                      size_t count, cudaEvent_t event) {
  ANSWER(add_event((struct target){node, graph, after, count}, KC_WAIT_NODE, event));
}

static int add_allocation(struct target target, struct cudaMemAllocNodeParams *given) {
  uint64_t address;
  if (!given || !given->bytesize) return KC_INVALID_VALUE;
  int error = kc_add_allocation(graph_of(target.graph), (kc_node *const *)target.after, target.count, given->bytesize,
                                (kc_node **)target.node);
  if (!error) error = kc_tell_memory(node_of(*target.node), KC_ALLOCATE_NODE, &address, NULL);
  if (!error) given->dptr = (void *)(uintptr_t)address;
  return error;
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                     size_t count, struct cudaMemAllocNodeParams *given) {
  ANSWER(add_allocation((struct target){node, graph, after, count}, given));
}

static int add_free(struct target target, void *pointer) {
  return kc_add_free(graph_of(target.graph), (kc_node *const *)target.after, target.count,
                     (uint64_t)(uintptr_t)pointer, (kc_node **)target.node);
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                    size_t count, void *pointer) {
  ANSWER(add_free((struct target){node, graph, after, count}, pointer));
}

/* The work of a node of any kind that has no memory of its own. */
static int read_any(const struct cudaGraphNodeParams *given, struct kc_work *work) {
  switch ((int)given->type) {
    case cudaGraphNodeTypeKernel: return read_kernel(&given->kernel, work);
    case cudaGraphNodeTypeMemcpy: return read_copy(&given->memcpy.copyParams, work);
    case cudaGraphNodeTypeMemset: return kc_read_fill(&given->memset, work);
    case cudaGraphNodeTypeHost: return kc_read_host(&given->host, work);
    case cudaGraphNodeTypeGraph: return read_child(given->graph.graph, work);
    case cudaGraphNodeTypeWaitEvent: return read_event(KC_WAIT_NODE, given->eventWait.event, work);
    case cudaGraphNodeTypeEventRecord: return read_event(KC_RECORD_NODE, given->eventRecord.event, work);
    case cudaGraphNodeTypeEmpty: *work = (struct kc_work){.kind = KC_EMPTY_NODE}; return KC_OK;
    case cudaGraphNodeTypeConditional: return kc_missing("nodes of graphs with a condition");
    default: return kc_missing("nodes of graphs of this kind");
  }
}

static int add_any(struct target target, struct cudaGraphNodeParams *given) {
  struct kc_work work;
  if (!given) return KC_INVALID_VALUE;
  if (given->type == cudaGraphNodeTypeMemAlloc)
    return add_allocation(target, (struct cudaMemAllocNodeParams *)(void *)&given->alloc);
  if (given->type == cudaGraphNodeTypeMemFree) return add_free(target, given->free.dptr);
  int error = read_any(given, &work);
  return add(target, error, &work);
}

cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                const cudaGraphEdgeData *edges, size_t count, struct cudaGraphNodeParams *given) {
  (void)edges;
  ANSWER(add_any((struct target){node, graph, after, count}, given));
}

/* --- asking for and changing parameters --- */

static int tell_kernel(cudaGraphNode_t node, struct cudaKernelNodeParams *found) {
  const struct kc_work *work = kc_work_of_kind(node_of(node), KC_KERNEL_NODE);
  return work ? kc_tell_kernel(node_of(node), kc_host_function_of(work->launch.function), found) : KC_INVALID_VALUE;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *found) {
  ANSWER(tell_kernel(node, found));
}

static struct cudaPitchedPtr box(const void *pointer, size_t pitch, size_t width, size_t height) {
  return (struct cudaPitchedPtr){(void *)pointer, pitch, width, height};
}

static int tell_copy(cudaGraphNode_t node, struct cudaMemcpy3DParms *found) {
  const struct kc_work *work = kc_work_of_kind(node_of(node), KC_COPY_NODE);
  if (!work || !found) return KC_INVALID_VALUE;
  struct kc_rows rows = work->copy.rows;
  size_t from_rows = rows.from_pitch ? rows.from_slice / rows.from_pitch : 0;
  size_t to_rows = rows.to_pitch ? rows.to_slice / rows.to_pitch : 0;
  memset(found, 0, sizeof *found);
  found->srcPtr = box(work->copy.from, rows.from_pitch, rows.width, from_rows ? from_rows : rows.rows);
  found->dstPtr = box(work->copy.to, rows.to_pitch, rows.width, to_rows ? to_rows : rows.rows);
  found->extent = (struct cudaExtent){rows.width, rows.rows, rows.slices ? rows.slices : 1};
  found->kind = cudaMemcpyDefault;
  return KC_OK;
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *found) {
  ANSWER(tell_copy(node, found));
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *found) {
  ANSWER(kc_tell_fill(node_of(node), found));
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *found) {
  ANSWER(kc_tell_host(node_of(node), found));
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *child) {
  ANSWER(kc_tell_child(node_of(node), (kc_graph **)child));
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event) {
  ANSWER(kc_tell_event(node_of(node), KC_RECORD_NODE, (kc_event **)event));
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event) {
  ANSWER(kc_tell_event(node_of(node), KC_WAIT_NODE, (kc_event **)event));
}

static int tell_allocation(cudaGraphNode_t node, struct cudaMemAllocNodeParams *found) {
  uint64_t address;
  size_t bytes;
  int error = found ? kc_tell_memory(node_of(node), KC_ALLOCATE_NODE, &address, &bytes) : KC_INVALID_VALUE;
  if (error) return error;
  memset(found, 0, sizeof *found);
  found->poolProps.allocType = cudaMemAllocationTypePinned;
  found->poolProps.location.type = cudaMemLocationTypeDevice;
  found->bytesize = bytes;
  found->dptr = (void *)(uintptr_t)address;
  return KC_OK;
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *found) {
  ANSWER(tell_allocation(node, found));
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *found) {
  ANSWER(kc_tell_memory(node_of(node), KC_FREE_NODE, found, NULL));
}

/* Nodes and executables alike take new work: a node where no executable is given. */
static int change(cudaGraphExec_t executable, cudaGraphNode_t node, int error, const struct kc_work *work) {
  if (error) return error;
  return executable ? kc_set_executable_work(executable_of(executable), node_of(node), work)
                    : kc_set_node_work(node_of(node), work);
}

static int change_kernel(cudaGraphExec_t executable, cudaGraphNode_t node, const void *given) {
  struct kc_work work;
  int error = read_kernel(given, &work);
  return change(executable, node, error, &work);
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *given) {
  ANSWER(change_kernel(NULL, node, given));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *given) {
  ANSWER(executable ? change_kernel(executable, node, given) : KC_INVALID_VALUE);
}

static int change_copy(cudaGraphExec_t executable, cudaGraphNode_t node, const struct cudaMemcpy3DParms *given) {
  struct kc_work work;
  int error = read_copy(given, &work);
  return change(executable, node, error, &work);
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *given) {
  ANSWER(change_copy(NULL, node, given));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *given) {
  ANSWER(executable ? change_copy(executable, node, given) : KC_INVALID_VALUE);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from, size_t bytes,
                                           enum cudaMemcpyKind kind) {
  struct kc_work work;
  int error = read_flat_copy(to, from, bytes, kind, &work);
  ANSWER(change(NULL, node, error, &work));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node, void *to,
                                               const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  struct kc_work work;
  int error = executable ? read_flat_copy(to, from, bytes, kind, &work) : KC_INVALID_VALUE;
  ANSWER(change(executable, node, error, &work));
}

static int change_copy_to(cudaGraphExec_t executable, cudaGraphNode_t node, struct part to, const void *from,
                          enum cudaMemcpyKind kind) {
  struct kc_work work;
  int error = read_to_symbol(to, from, kind, &work);
  return change(executable, node, error, &work);
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol, const void *from,
                                                 size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
  ANSWER(change_copy_to(NULL, node, (struct part){symbol, bytes, offset}, from, kind));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                     const void *symbol, const void *from, size_t bytes, size_t offset,
                                                     enum cudaMemcpyKind kind) {
  struct part to = {symbol, bytes, offset};
  ANSWER(executable ? change_copy_to(executable, node, to, from, kind) : KC_INVALID_VALUE);
}

static int change_copy_from(cudaGraphExec_t executable, cudaGraphNode_t node, void *to, struct part from,
                            enum cudaMemcpyKind kind) {
  struct kc_work work;
  int error = read_from_symbol(to, from, kind, &work);
  return change(executable, node, error, &work);
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *to, const void *symbol, size_t bytes,
                                                   size_t offset, enum cudaMemcpyKind kind) {
  ANSWER(change_copy_from(NULL, node, to, (struct part){symbol, bytes, offset}, kind));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t executable, cudaGraphNode_t node, void *to,
                                                       const void *symbol, size_t bytes, size_t offset,
                                                       enum cudaMemcpyKind kind) {
  struct part from = {symbol, bytes, offset};
  ANSWER(executable ? change_copy_from(executable, node, to, from, kind) : KC_INVALID_VALUE);
}

static int change_fill(cudaGraphExec_t executable, cudaGraphNode_t node, const void *given) {
  struct kc_work work;
  int error = kc_read_fill(given, &work);
  return change(executable, node, error, &work);
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *given) {
  ANSWER(change_fill(NULL, node, given));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *given) {
  ANSWER(executable ? change_fill(executable, node, given) : KC_INVALID_VALUE);
}

static int change_host(cudaGraphExec_t executable, cudaGraphNode_t node, const void *given) {
  struct kc_work work;
  int error = kc_read_host(given, &work);
  return change(executable, node, error, &work);
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *given) {
  ANSWER(change_host(NULL, node, given));
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                           const struct cudaHostNodeParams *given) {
  ANSWER(executable ? change_host(executable, node, given) : KC_INVALID_VALUE);
}

static int change_child(cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraph_t child) {
  struct kc_work work;
  int error = executable ? read_child(child, &work) : KC_INVALID_VALUE;
  return change(executable, node, error, &work);
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraph_t child) {
  ANSWER(change_child(executable, node, child));
}

static int change_event(cudaGraphExec_t executable, cudaGraphNode_t node, enum kc_node_kind kind, cudaEvent_t event) {
  struct kc_work work;
  int error = executable ? read_event(kind, event, &work) : KC_INVALID_VALUE;
  return change(executable, node, error, &work);
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  ANSWER(kc_change_event(node_of(node), KC_RECORD_NODE, (kc_event *)event));
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  ANSWER(kc_change_event(node_of(node), KC_WAIT_NODE, (kc_event *)event));
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event) {
  ANSWER(change_event(executable, node, KC_RECORD_NODE, event));
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event) {
  ANSWER(change_event(executable, node, KC_WAIT_NODE, event));
}

static int change_any(cudaGraphExec_t executable, cudaGraphNode_t node, const struct cudaGraphNodeParams *given) {
  struct kc_work work;
  int error = given ? read_any(given, &work) : KC_INVALID_VALUE;
  return change(executable, node, error, &work);
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *given) {
  ANSWER(change_any(NULL, node, given));
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                       struct cudaGraphNodeParams *given) {
  ANSWER(executable ? change_any(executable, node, given) : KC_INVALID_VALUE);
}

/* Attributes of a kernel's node are hints, but for clusters and for cooperation. */
static int set_node_attribute(cudaGraphNode_t node, cudaKernelNodeAttrID attribute,
                              const cudaKernelNodeAttrValue *value) {
  struct kc_launch_wish wish;
  const struct kc_work *work = kc_work_of_kind(node_of(node), KC_KERNEL_NODE);
  if (!work || !value) return KC_INVALID_VALUE;
  cudaLaunchAttribute given = {.id = attribute, .val = *value};
  int error = kc_read_launch_attributes(&given, 1, &wish);
  uint32_t concerned = attribute == cudaLaunchAttributeCooperative ? KC_COOPERATIVE : attribute == cudaLaunchAttributeClusterDimension ? KC_CLUSTER_FLAGS : 0;
  if (error || !concerned) return error;
  struct kc_work changed = *work;
  changed.launch.flags = (changed.launch.flags & ~concerned) | wish.flags;
  return kc_set_node_work(node_of(node), &changed);
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID attribute,
                                            const cudaKernelNodeAttrValue *value) {
  ANSWER(set_node_attribute(node, attribute, value));
}

static int node_attribute(cudaGraphNode_t node, cudaKernelNodeAttrID attribute, cudaKernelNodeAttrValue *value) {
  const struct kc_work *work = kc_work_of_kind(node_of(node), KC_KERNEL_NODE);
  if (!work || !value) return KC_INVALID_VALUE;
  memset(value, 0, sizeof *value);
  uint32_t flags = work->launch.flags;
  if (attribute == cudaLaunchAttributeCooperative) value->cooperative = !!(flags & KC_COOPERATIVE);
  if (attribute == cudaLaunchAttributeClusterDimension) {
    value->clusterDim.x = KC_CLUSTER(flags, 0);
    value->clusterDim.y = KC_CLUSTER(flags, 1);
    value->clusterDim.z = KC_CLUSTER(flags, 2);
  }
  return KC_OK;
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID attribute,
                                            cudaKernelNodeAttrValue *value) {
  ANSWER(node_attribute(node, attribute, value));
}

/* The two change places from CUDA 12 to 13; what is copied are hints either way. */
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t one, cudaGraphNode_t other) {
  const struct kc_work *work = kc_work_of_kind(node_of(one), KC_KERNEL_NODE);
  ANSWER(work && kc_work_of_kind(node_of(other), KC_KERNEL_NODE) ? KC_OK : KC_INVALID_VALUE);
}

/* --- nodes and edges --- */

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
  ANSWER(kc_tell_kind(node_of(node), (int *)type));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
  ANSWER(kc_list_nodes(graph_of(graph), false, (struct kc_nodes){(kc_node **)nodes, count}));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
  ANSWER(kc_list_nodes(graph_of(graph), true, (struct kc_nodes){(kc_node **)nodes, count}));
}

/* All edges are of the usual kind, which is told by zeros. */
static void clear_edges(cudaGraphEdgeData *edges, const size_t *count) {
  if (edges && count) memset(edges, 0, *count * sizeof *edges);
}

static int list_edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count) {
  return kc_list_edges(graph_of(graph), (kc_node **)from, (kc_node **)to, count);
}

cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                 cudaGraphEdgeData *edges, size_t *count) {
  clear_edges(edges, count);
  ANSWER(list_edges(graph, from, to, count));
}

static int list_before(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count) {
  return kc_list_before(node_of(node), (struct kc_nodes){(kc_node **)nodes, count});
}

cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges,
                                            size_t *count) {
  clear_edges(edges, count);
  ANSWER(list_before(node, nodes, count));
}

static int list_behind(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count) {
  return kc_list_behind(node_of(node), (struct kc_nodes){(kc_node **)nodes, count});
}

cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges,
                                              size_t *count) {
  clear_edges(edges, count);
  ANSWER(list_behind(node, nodes, count));
}

static int check_edges(cudaGraph_t graph, const void *from, const void *to, size_t count) {
  return !graph || (count && (!from || !to)) ? KC_INVALID_VALUE : KC_OK;
}

static int add_edges(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
  int error = check_edges(graph, from, to, count);
  return error ? error : kc_add_edges((kc_node *const *)from, (kc_node *const *)to, count);
}

cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                        const cudaGraphEdgeData *edges, size_t count) {
  (void)edges;
  ANSWER(add_edges(graph, from, to, count));
}

static int remove_edges(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
  int error = check_edges(graph, from, to, count);
  return error ? error : kc_remove_edges((kc_node *const *)from, (kc_node *const *)to, count);
}

cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                           const cudaGraphEdgeData *edges, size_t count) {
  (void)edges;
  ANSWER(remove_edges(graph, from, to, count));
}

#if KC_CUDA_MAJOR < 13

cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                             struct cudaGraphNodeParams *given) {
  ANSWER(add_any((struct target){node, graph, after, count}, given));
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count) {
  ANSWER(list_edges(graph, from, to, count));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count) {
  ANSWER(list_before(node, nodes, count));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count) {
  ANSWER(list_behind(node, nodes, count));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                     size_t count) {
  ANSWER(add_edges(graph, from, to, count));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                        size_t count) {
  ANSWER(remove_edges(graph, from, to, count));
}

#else

NAME_IN_13(cudaGraphAddNode, cudaGraphAddNode_v2);
NAME_IN_13(cudaGraphGetEdges, cudaGraphGetEdges_v2);
NAME_IN_13(cudaGraphNodeGetDependencies, cudaGraphNodeGetDependencies_v2);
NAME_IN_13(cudaGraphNodeGetDependentNodes, cudaGraphNodeGetDependentNodes_v2);
NAME_IN_13(cudaGraphAddDependencies, cudaGraphAddDependencies_v2);
NAME_IN_13(cudaGraphRemoveDependencies, cudaGraphRemoveDependencies_v2);

#endif

/* --- executables --- */

static int instantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags) {
  if (flags & cudaGraphInstantiateFlagDeviceLaunch) return kc_missing("graphs that a device launches");
  return kc_make_executable(graph_of(graph), flags, (kc_executable **)executable);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags) {
  ANSWER(instantiate(executable, graph, flags));
}

#if KC_CUDA_MAJOR < 12

/* As CUDA 11 had it; the header names a newer form. */
cudaError_t instantiate_11(cudaGraphExec_t *made, cudaGraph_t graph, cudaGraphNode_t *culprit, char *log, size_t room)
    __asm__("cudaGraphInstantiate");
cudaError_t instantiate_11(cudaGraphExec_t *made, cudaGraph_t graph, cudaGraphNode_t *culprit, char *log, size_t room) {
  if (culprit) *culprit = NULL;
  if (log && room) *log = 0;
  ANSWER(instantiate(made, graph, 0));
}

cudaError_t update_11(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphNode_t *culprit,
                      enum cudaGraphExecUpdateResult *result) __asm__("cudaGraphExecUpdate");
cudaError_t update_11(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphNode_t *culprit,
                      enum cudaGraphExecUpdateResult *result) {
  kc_node *node;
  int found;
  if (!culprit) culprit = (cudaGraphNode_t *)&node;
  if (!result) result = (enum cudaGraphExecUpdateResult *)&found;
  ANSWER(kc_update_executable(executable_of(executable), graph_of(graph), (kc_node **)culprit, (int *)result));
}

#else

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
  ANSWER(instantiate(made, graph, flags));
}

static int update(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info) {
  cudaGraphExecUpdateResultInfo found;
  if (!info) info = &found;
  memset(info, 0, sizeof *info);
  return kc_update_executable(executable_of(executable), graph_of(graph), (kc_node **)&info->errorNode,
                              (int *)&info->result);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info) {
  ANSWER(update(executable, graph, info));
}

#endif

static int instantiate_as_wished(cudaGraphExec_t *executable, cudaGraph_t graph, cudaGraphInstantiateParams *wish) {
  if (!wish) return KC_INVALID_VALUE;
  wish->errNode_out = NULL;
  int error = instantiate(executable, graph, wish->flags);
  wish->result_out = error ? cudaGraphInstantiateError : cudaGraphInstantiateSuccess;
  return error;
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *executable, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *wish) {
  ANSWER(instantiate_as_wished(executable, graph, wish));
}
PER_THREAD(cudaGraphInstantiateWithParams, ptsz);

static int end_executable(cudaGraphExec_t executable) {
  if (!executable) return KC_INVALID_VALUE;
  kc_end_executable(executable_of(executable));
  return KC_OK;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { ANSWER(end_executable(executable)); }

static int executable_flags(cudaGraphExec_t executable, unsigned long long *flags) {
  if (!executable || !flags) return KC_INVALID_VALUE;
  *flags = kc_executable_flags(executable_of(executable));
  return KC_OK;
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t executable, unsigned long long *flags) {
  ANSWER(executable_flags(executable, flags));
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned is_enabled) {
  ANSWER(kc_enable_node(executable_of(executable), node_of(node), is_enabled));
}

static int node_is_enabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned *is_enabled) {
  bool found;
  int error = is_enabled ? kc_node_is_enabled(executable_of(executable), node_of(node), &found) : KC_INVALID_VALUE;
  if (!error) *is_enabled = found;
  return error;
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned *is_enabled) {
  ANSWER(node_is_enabled(executable, node, is_enabled));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  ANSWER(executable ? kc_check_stream(stream) : KC_INVALID_VALUE); /* it is where it is needed */
}
PER_THREAD(cudaGraphUpload, ptsz);

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  ANSWER(kc_launch_graph(executable_of(executable), kc_stream_of(stream)));
}
PER_THREAD(cudaGraphLaunch, ptsz);

/* --- memory of graphs: told as that of the device, of which it is a part --- */

cudaError_t cudaDeviceGraphMemTrim(int device) { ANSWER(device ? KC_INVALID_DEVICE : KC_OK); }

static int graph_memory(int device, void *value) {
  size_t free_bytes, total_bytes;
  if (device || !value) return device ? KC_INVALID_DEVICE : KC_INVALID_VALUE;
  kc_memory(&free_bytes, &total_bytes);
  uint64_t used = total_bytes - free_bytes;
  memcpy(value, &used, sizeof used);
  return KC_OK;
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value) {
  (void)attribute;
  ANSWER(graph_memory(device, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value) {
  (void)attribute; /* marks of the most that was used, which can only be set to zero */
  ANSWER(device ? KC_INVALID_DEVICE : value ? KC_OK : KC_INVALID_VALUE);
}

/* --- objects of the program --- */

static int make_object(cudaUserObject_t *object, void *data, cudaHostFn_t end, unsigned references) {
  if (!object || !end || !references) return KC_INVALID_VALUE;
  *object = (cudaUserObject_t)kc_new_object(data, end, references);
  return KC_OK;
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *data, cudaHostFn_t end, unsigned references,
                                 unsigned flags) {
  ANSWER(flags == cudaUserObjectNoDestructorSync ? make_object(object, data, end, references) : KC_INVALID_VALUE);
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  ANSWER(kc_keep_object((kc_object *)object, count));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  ANSWER(kc_release_object((kc_object *)object, count));
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
  ANSWER(kc_graph_keeps(graph_of(graph), (kc_object *)object, count, flags & cudaGraphUserObjectMove));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  ANSWER(kc_graph_releases(graph_of(graph), (kc_object *)object, count));
}
