/* Graphs of the CUDA driver. Part of libcuda.so. */
#include <string.h>

#include "driver.h"

static kc_graph *graph_of(CUgraph graph) { return (kc_graph *)graph; }

static kc_node *node_of(CUgraphNode node) { return (kc_node *)node; }

static kc_executable *executable_of(CUgraphExec executable) { return (kc_executable *)executable; }

/* --- making --- */

static int make_graph(CUgraph *graph, unsigned flags) {
  if (!graph || flags) return KC_INVALID_VALUE;
  *graph = (CUgraph)kc_new_graph();
  return KC_OK;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) { ANSWER_ANYWHERE(make_graph(graph, flags)); }

static int end_graph(CUgraph graph) {
  if (!graph) return KC_INVALID_VALUE;
  kc_end_graph(graph_of(graph));
  return KC_OK;
}

CUresult cuGraphDestroy(CUgraph graph) { ANSWER_ANYWHERE(end_graph(graph)); }

static int copy_graph(CUgraph *copy, CUgraph graph) {
  if (!copy || !graph) return KC_INVALID_VALUE;
  *copy = (CUgraph)kc_copy_graph(graph_of(graph));
  return KC_OK;
}

CUresult cuGraphClone(CUgraph *copy, CUgraph graph) { ANSWER_ANYWHERE(copy_graph(copy, graph)); }

static int find_in_copy(CUgraphNode *found, CUgraphNode node, CUgraph copy) {
  if (!found) return KC_INVALID_VALUE;
  *found = (CUgraphNode)kc_find_in_copy(node_of(node), graph_of(copy));
  return *found ? KC_OK : KC_INVALID_VALUE;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode node, CUgraph copy) {
  ANSWER_ANYWHERE(find_in_copy(found, node, copy));
}

CUresult cuGraphDestroyNode(CUgraphNode node) { ANSWER_ANYWHERE(kc_end_node(node_of(node))); }

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags) {
  (void)flags; /* how much is told: always the same */
  ANSWER_ANYWHERE(kc_print_graph(graph_of(graph), path));
}

/* --- work of nodes, read from their parameters --- */

/* Of all versions of the parameters of kernels the first seven are the same; CUDA 12 has added the kernel. */
static int read_kernel(const void *given, bool has_kernel, struct kc_work *work) {
  const CUDA_KERNEL_NODE_PARAMS *parameters = given;
  if (!given) return KC_INVALID_VALUE;
  kc_function *function = kc_function_of(parameters->func);
  if (!function && has_kernel) function = (kc_function *)parameters->kern;
  return kc_read_kernel(given, kc_is_function(function) ? function : NULL, work);
}

static int read_child(CUgraph child, struct kc_work *work) {
  *work = (struct kc_work){.kind = KC_CHILD_NODE, .child = graph_of(child)};
  return child ? KC_OK : KC_INVALID_VALUE;
}

static int read_event(enum kc_node_kind kind, CUevent event, struct kc_work *work) {
  *work = (struct kc_work){.kind = kind, .event = (kc_event *)event};
  return event ? KC_OK : KC_INVALID_VALUE;
}

/* The work of a node of any kind that has no memory of its own. */
static int read_any(const CUgraphNodeParams *given, struct kc_work *work) {
  switch ((int)given->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return read_kernel(&given->kernel, true, work);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return kc_read_box(&given->memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET: return kc_read_fill(&given->memset, work);
    case CU_GRAPH_NODE_TYPE_HOST: return kc_read_host(&given->host, work);
    case CU_GRAPH_NODE_TYPE_GRAPH: return read_child(given->graph.graph, work);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return read_event(KC_WAIT_NODE, given->eventWait.event, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return read_event(KC_RECORD_NODE, given->eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_EMPTY: *work = (struct kc_work){.kind = KC_EMPTY_NODE}; return KC_OK;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return kc_missing("nodes of graphs with a condition");
    default: return kc_missing("nodes of graphs of this kind");
  }
}

/* --- adding nodes --- */

/* Where a node goes: its graph, and the nodes that it comes after. */
struct target {
  CUgraphNode *node;
  CUgraph graph;
  const CUgraphNode *after;
  size_t count;
};

static int add(struct target target, int error, const struct kc_work *work) {
  return error ? error : kc_add_node(graph_of(target.graph), (kc_node *const *)target.after, target.count, work,
                                     (kc_node **)target.node);
}

static int add_kernel(struct target target, const void *given, bool has_kernel) {
  struct kc_work work;
  int error = read_kernel(given, has_kernel, &work);
  return add(target, error, &work);
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS *given) {
  ANSWER_ANYWHERE(add_kernel((struct target){node, graph, after, count}, given, true));
}

static int add_copy(struct target target, const CUDA_MEMCPY3D *given) {
  struct kc_work work;
  int error = kc_read_box(given, &work);
  return add(target, error, &work);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_MEMCPY3D *given, CUcontext context) {
  (void)context;
  ANSWER_ANYWHERE(add_copy((struct target){node, graph, after, count}, given));
}

static int add_fill(struct target target, const void *given) {
  struct kc_work work;
  int error = kc_read_fill(given, &work);
  return add(target, error, &work);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *given, CUcontext context) {
  (void)context;
  ANSWER_ANYWHERE(add_fill((struct target){node, graph, after, count}, given));
}

static int add_host(struct target target, const void *given) {
  struct kc_work work;
  int error = kc_read_host(given, &work);
  return add(target, error, &work);
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                            const CUDA_HOST_NODE_PARAMS *given) {
  ANSWER_ANYWHERE(add_host((struct target){node, graph, after, count}, given));
}

static int add_child(struct target target, CUgraph child) {
  struct kc_work work;
  int error = read_child(child, &work);
  return add(target, error, &work);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                  CUgraph child) {
  ANSWER_ANYWHERE(add_child((struct target){node, graph, after, count}, child));
}

static int add_empty(struct target target) {
  struct kc_work work = {.kind = KC_EMPTY_NODE};
  return add(target, KC_OK, &work);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count) {
  ANSWER_ANYWHERE(add_empty((struct target){node, graph, after, count}));
}

static int add_event(struct target target, enum kc_node_kind kind, CUevent event) {
  struct kc_work work;
  int error = read_event(kind, event, &work);
  return add(target, error, &work);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                   CUevent event) {
  ANSWER_ANYWHERE(add_event((struct target){node, graph, after, count}, KC_RECORD_NODE, event));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                 CUevent event) {
  ANSWER_ANYWHERE(add_event((struct target){node, graph, after, count}, KC_WAIT_NODE, event));
}

static int add_allocation(struct target target, size_t bytes, CUdeviceptr *place) {
  uint64_t address;
  if (!bytes) return KC_INVALID_VALUE;
  int error = kc_add_allocation(graph_of(target.graph), (kc_node *const *)target.after, target.count, bytes,
                                (kc_node **)target.node);
  if (!error) error = kc_tell_memory(node_of(*target.node), KC_ALLOCATE_NODE, &address, NULL);
  if (!error) *place = address;
  return error;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *given) {
  struct target target = {node, graph, after, count};
  ANSWER_ANYWHERE(given ? add_allocation(target, given->bytesize, &given->dptr) : KC_INVALID_VALUE);
}

static int add_free(struct target target, CUdeviceptr address) {
  return kc_add_free(graph_of(target.graph), (kc_node *const *)target.after, target.count, address,
                     (kc_node **)target.node);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                               CUdeviceptr address) {
  ANSWER_ANYWHERE(add_free((struct target){node, graph, after, count}, address));
}

static int add_any(struct target target, CUgraphNodeParams *given) {
  struct kc_work work;
  if (!given) return KC_INVALID_VALUE;
  if (given->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    return add_allocation(target, given->alloc.bytesize, &given->alloc.dptr);
  if (given->type == CU_GRAPH_NODE_TYPE_MEM_FREE) return add_free(target, given->free.dptr);
  int error = read_any(given, &work);
  return add(target, error, &work);
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *given) {
  ANSWER_ANYWHERE(add_any((struct target){node, graph, after, count}, given));
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *given) {
  (void)edges;
  ANSWER_ANYWHERE(add_any((struct target){node, graph, after, count}, given));
}

/* --- asking for and changing parameters --- */

static int tell_kernel(CUgraphNode node, void *found, size_t bytes) {
  const struct kc_work *work = kc_work_of_kind(node_of(node), KC_KERNEL_NODE);
  if (!work || !found) return KC_INVALID_VALUE;
  memset(found, 0, bytes);
  return kc_tell_kernel(node_of(node), work->launch.function, found);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *found) {
  ANSWER_ANYWHERE(tell_kernel(node, found, sizeof *found));
}

static int tell_copy(CUgraphNode node, CUDA_MEMCPY3D *found) {
  const struct kc_work *work = kc_work_of_kind(node_of(node), KC_COPY_NODE);
  if (!work || !found) return KC_INVALID_VALUE;
  struct kc_rows rows = work->copy.rows;
  memset(found, 0, sizeof *found);
  found->srcMemoryType = found->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  found->srcDevice = (CUdeviceptr)(uintptr_t)work->copy.from;
  found->dstDevice = (CUdeviceptr)(uintptr_t)work->copy.to;
  found->srcPitch = rows.from_pitch;
  found->dstPitch = rows.to_pitch;
  found->srcHeight = rows.from_pitch && rows.from_slice ? rows.from_slice / rows.from_pitch : rows.rows;
  found->dstHeight = rows.to_pitch && rows.to_slice ? rows.to_slice / rows.to_pitch : rows.rows;
  found->WidthInBytes = rows.width;
  found->Height = rows.rows;
  found->Depth = rows.slices ? rows.slices : 1;
  return KC_OK;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *found) {
  ANSWER_ANYWHERE(tell_copy(node, found));
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *found) {
  ANSWER_ANYWHERE(kc_tell_fill(node_of(node), found));
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *found) {
  ANSWER_ANYWHERE(kc_tell_host(node_of(node), found));
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child) {
  ANSWER_ANYWHERE(kc_tell_child(node_of(node), (kc_graph **)child));
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event) {
  ANSWER_ANYWHERE(kc_tell_event(node_of(node), KC_RECORD_NODE, (kc_event **)event));
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event) {
  ANSWER_ANYWHERE(kc_tell_event(node_of(node), KC_WAIT_NODE, (kc_event **)event));
}

static int tell_allocation(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *found) {
  uint64_t address;
  size_t bytes;
  int error = found ? kc_tell_memory(node_of(node), KC_ALLOCATE_NODE, &address, &bytes) : KC_INVALID_VALUE;
  if (error) return error;
  memset(found, 0, sizeof *found);
  found->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  found->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  found->bytesize = bytes;
  found->dptr = address;
  return KC_OK;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *found) {
  ANSWER_ANYWHERE(tell_allocation(node, found));
}

static int tell_free(CUgraphNode node, CUdeviceptr *found) {
  uint64_t address;
  int error = found ? kc_tell_memory(node_of(node), KC_FREE_NODE, &address, NULL) : KC_INVALID_VALUE;
  if (!error) *found = address;
  return error;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *found) { ANSWER_ANYWHERE(tell_free(node, found)); }

/* Nodes and executables alike take new work: a node where no executable is given. */
static int change(CUgraphExec executable, CUgraphNode node, int error, const struct kc_work *work) {
  if (error) return error;
  return executable ? kc_set_executable_work(executable_of(executable), node_of(node), work)
                    : kc_set_node_work(node_of(node), work);
}

static int change_kernel(CUgraphExec executable, CUgraphNode node, const void *given, bool has_kernel) {
  struct kc_work work;
  int error = read_kernel(given, has_kernel, &work);
  return change(executable, node, error, &work);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *given) {
  ANSWER_ANYWHERE(change_kernel(NULL, node, given, true));
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS *given) {
  ANSWER_ANYWHERE(executable ? change_kernel(executable, node, given, true) : KC_INVALID_VALUE);
}

static int change_copy(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D *given) {
  struct kc_work work;
  int error = kc_read_box(given, &work);
  return change(executable, node, error, &work);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *given) {
  ANSWER_ANYWHERE(change_copy(NULL, node, given));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D *given,
                                        CUcontext context) {
  (void)context;
  ANSWER_ANYWHERE(executable ? change_copy(executable, node, given) : KC_INVALID_VALUE);
}

static int change_fill(CUgraphExec executable, CUgraphNode node, const void *given) {
  struct kc_work work;
  int error = kc_read_fill(given, &work);
  return change(executable, node, error, &work);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *given) {
  ANSWER_ANYWHERE(change_fill(NULL, node, given));
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *given,
                                        CUcontext context) {
  (void)context;
  ANSWER_ANYWHERE(executable ? change_fill(executable, node, given) : KC_INVALID_VALUE);
}

static int change_host(CUgraphExec executable, CUgraphNode node, const void *given) {
  struct kc_work work;
  int error = kc_read_host(given, &work);
  return change(executable, node, error, &work);
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *given) {
  ANSWER_ANYWHERE(change_host(NULL, node, given));
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *given) {
  ANSWER_ANYWHERE(executable ? change_host(executable, node, given) : KC_INVALID_VALUE);
}

static int change_child(CUgraphExec executable, CUgraphNode node, CUgraph child) {
  struct kc_work work;
  int error = executable ? read_child(child, &work) : KC_INVALID_VALUE;
  return change(executable, node, error, &work);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraph child) {
  ANSWER_ANYWHERE(change_child(executable, node, child));
}

static int change_event(CUgraphExec executable, CUgraphNode node, enum kc_node_kind kind, CUevent event) {
  struct kc_work work;
  int error = executable ? read_event(kind, event, &work) : KC_INVALID_VALUE;
  return change(executable, node, error, &work);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  ANSWER_ANYWHERE(kc_change_event(node_of(node), KC_RECORD_NODE, (kc_event *)event));
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  ANSWER_ANYWHERE(kc_change_event(node_of(node), KC_WAIT_NODE, (kc_event *)event));
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event) {
  ANSWER_ANYWHERE(change_event(executable, node, KC_RECORD_NODE, event));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event) {
  ANSWER_ANYWHERE(change_event(executable, node, KC_WAIT_NODE, event));
}

static int change_any(CUgraphExec executable, CUgraphNode node, const CUgraphNodeParams *given) {
  struct kc_work work;
  int error = given ? read_any(given, &work) : KC_INVALID_VALUE;
  return change(executable, node, error, &work);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *given) {
  ANSWER_ANYWHERE(change_any(NULL, node, given));
}

CUresult cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraphNodeParams *given) {
  ANSWER_ANYWHERE(executable ? change_any(executable, node, given) : KC_INVALID_VALUE);
}

/* Attributes of a kernel's node are hints, but for clusters and for cooperation. */
static int set_node_attribute(CUgraphNode node, CUkernelNodeAttrID attribute, const CUkernelNodeAttrValue *value) {
  struct kc_launch_wish wish;
  const struct kc_work *work = kc_work_of_kind(node_of(node), KC_KERNEL_NODE);
  if (!work || !value) return KC_INVALID_VALUE;
  CUlaunchAttribute given = {.id = attribute, .value = *value};
  int error = kc_read_launch_attributes(&given, 1, &wish);
  uint32_t concerned = attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ? KC_COOPERATIVE : attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ? KC_CLUSTER_FLAGS : 0;
  if (error || !concerned) return error;
  struct kc_work changed = *work;
  changed.launch.flags = (changed.launch.flags & ~concerned) | wish.flags;
  return kc_set_node_work(node_of(node), &changed);
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue *value) {
  ANSWER_ANYWHERE(set_node_attribute(node, attribute, value));
}

static int node_attribute(CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue *value) {
  const struct kc_work *work = kc_work_of_kind(node_of(node), KC_KERNEL_NODE);
  if (!work || !value) return KC_INVALID_VALUE;
  memset(value, 0, sizeof *value);
  uint32_t flags = work->launch.flags;
  if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->cooperative = !!(flags & KC_COOPERATIVE);
  if (attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    value->clusterDim.x = KC_CLUSTER(flags, 0);
    value->clusterDim.y = KC_CLUSTER(flags, 1);
    value->clusterDim.z = KC_CLUSTER(flags, 2);
  }
  return KC_OK;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue *value) {
  ANSWER_ANYWHERE(node_attribute(node, attribute, value));
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  const struct kc_work *work = kc_work_of_kind(node_of(to), KC_KERNEL_NODE);
  ANSWER_ANYWHERE(work && kc_work_of_kind(node_of(from), KC_KERNEL_NODE) ? KC_OK : KC_INVALID_VALUE);
}

/* --- nodes and edges --- */

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  ANSWER_ANYWHERE(kc_tell_kind(node_of(node), (int *)type));
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  ANSWER_ANYWHERE(kc_list_nodes(graph_of(graph), false, (struct kc_nodes){(kc_node **)nodes, count}));
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  ANSWER_ANYWHERE(kc_list_nodes(graph_of(graph), true, (struct kc_nodes){(kc_node **)nodes, count}));
}

/* All edges are of the usual kind, which is told by zeros. */
static void clear_edges(CUgraphEdgeData *edges, const size_t *count) {
  if (edges && count) memset(edges, 0, *count * sizeof *edges);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  ANSWER_ANYWHERE(kc_list_edges(graph_of(graph), (kc_node **)from, (kc_node **)to, count));
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count) {
  clear_edges(edges, count);
  ANSWER_ANYWHERE(kc_list_edges(graph_of(graph), (kc_node **)from, (kc_node **)to, count));
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  ANSWER_ANYWHERE(kc_list_before(node_of(node), (struct kc_nodes){(kc_node **)nodes, count}));
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count) {
  clear_edges(edges, count);
  ANSWER_ANYWHERE(kc_list_before(node_of(node), (struct kc_nodes){(kc_node **)nodes, count}));
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  ANSWER_ANYWHERE(kc_list_behind(node_of(node), (struct kc_nodes){(kc_node **)nodes, count}));
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count) {
  clear_edges(edges, count);
  ANSWER_ANYWHERE(kc_list_behind(node_of(node), (struct kc_nodes){(kc_node **)nodes, count}));
}

static int add_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  if (!graph || (count && (!from || !to))) return KC_INVALID_VALUE;
  return kc_add_edges((kc_node *const *)from, (kc_node *const *)to, count);
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  ANSWER_ANYWHERE(add_edges(graph, from, to, count));
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edges, size_t count) {
  (void)edges;
  ANSWER_ANYWHERE(add_edges(graph, from, to, count));
}

static int remove_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  if (!graph || (count && (!from || !to))) return KC_INVALID_VALUE;
  return kc_remove_edges((kc_node *const *)from, (kc_node *const *)to, count);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  ANSWER_ANYWHERE(remove_edges(graph, from, to, count));
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edges, size_t count) {
  (void)edges;
  ANSWER_ANYWHERE(remove_edges(graph, from, to, count));
}

/* --- executables --- */

static int instantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) return kc_missing("graphs that a device launches");
  return kc_make_executable(graph_of(graph), flags, (kc_executable **)executable);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
  ANSWER(instantiate(executable, graph, flags));
}

/* As CUDA 11 had it; cuda.h gives the name to the one above. */
CUresult cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *culprit, char *log, size_t room) {
  if (culprit) *culprit = NULL;
  if (log && room) *log = 0;
  ANSWER(instantiate(executable, graph, 0));
}
OLD_NAME("cuGraphInstantiate", cuGraphInstantiate_v2);

static int instantiate_as_wished(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *wish) {
  if (!wish) return KC_INVALID_VALUE;
  wish->hErrNode_out = NULL;
  int error = instantiate(executable, graph, wish->flags);
  wish->result_out = error ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return error;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *wish) {
  ANSWER(instantiate_as_wished(executable, graph, wish));
}
PER_THREAD(cuGraphInstantiateWithParams, ptsz);

static int end_executable(CUgraphExec executable) {
  if (!executable) return KC_INVALID_VALUE;
  kc_end_executable(executable_of(executable));
  return KC_OK;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) { ANSWER_ANYWHERE(end_executable(executable)); }

static int executable_flags(CUgraphExec executable, cuuint64_t *flags) {
  if (!executable || !flags) return KC_INVALID_VALUE;
  *flags = kc_executable_flags(executable_of(executable));
  return KC_OK;
}

CUresult cuGraphExecGetFlags(CUgraphExec executable, cuuint64_t *flags) {
  ANSWER_ANYWHERE(executable_flags(executable, flags));
}

static int update(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  CUgraphExecUpdateResultInfo found;
  if (!info) info = &found;
  memset(info, 0, sizeof *info);
  return kc_update_executable(executable_of(executable), graph_of(graph), (kc_node **)&info->errorNode,
                              (int *)&info->result);
}

CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  ANSWER_ANYWHERE(update(executable, graph, info));
}

CUresult cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned is_enabled) {
  ANSWER_ANYWHERE(kc_enable_node(executable_of(executable), node_of(node), is_enabled));
}

static int node_is_enabled(CUgraphExec executable, CUgraphNode node, unsigned *is_enabled) {
  bool found;
  int error = is_enabled ? kc_node_is_enabled(executable_of(executable), node_of(node), &found) : KC_INVALID_VALUE;
  if (!error) *is_enabled = found;
  return error;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned *is_enabled) {
  ANSWER_ANYWHERE(node_is_enabled(executable, node, is_enabled));
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
  ANSWER(executable ? kc_check_stream(stream) : KC_INVALID_VALUE); /* it is where it is needed */
}
PER_THREAD(cuGraphUpload, ptsz);

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ANSWER(kc_launch_graph(executable_of(executable), kc_stream_of(stream)));
}
PER_THREAD(cuGraphLaunch, ptsz);

/* --- memory of graphs: told as that of the device, of which it is a part --- */

CUresult cuDeviceGraphMemTrim(CUdevice device) { ANSWER_ANYWHERE(kc_check_device(device)); }

static int graph_memory(void *value) {
  size_t free_bytes, total_bytes;
  if (!value) return KC_INVALID_VALUE;
  kc_memory(&free_bytes, &total_bytes);
  uint64_t used = total_bytes - free_bytes;
  memcpy(value, &used, sizeof used);
  return KC_OK;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value) {
  (void)attribute;
  ANSWER_ANYWHERE(device ? KC_INVALID_DEVICE : graph_memory(value));
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value) {
  (void)attribute; /* marks of the most that was used, which can only be set to zero */
  ANSWER_ANYWHERE(device ? KC_INVALID_DEVICE : value ? KC_OK : KC_INVALID_VALUE);
}

/* --- objects of the program --- */

static int make_object(CUuserObject *object, void *data, CUhostFn end, unsigned references) {
  if (!object || !end || !references) return KC_INVALID_VALUE;
  *object = (CUuserObject)kc_new_object(data, end, references);
  return KC_OK;
}

CUresult cuUserObjectCreate(CUuserObject *object, void *data, CUhostFn end, unsigned references, unsigned flags) {
  ANSWER_ANYWHERE(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC ? make_object(object, data, end, references)
                                                              : KC_INVALID_VALUE);
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  ANSWER_ANYWHERE(kc_keep_object((kc_object *)object, count));
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  ANSWER_ANYWHERE(kc_release_object((kc_object *)object, count));
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  ANSWER_ANYWHERE(kc_graph_keeps(graph_of(graph), (kc_object *)object, count, flags & CU_GRAPH_USER_OBJECT_MOVE));
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  ANSWER_ANYWHERE(kc_graph_releases(graph_of(graph), (kc_object *)object, count));
}

/* --- as CUDA 11 had it: cuda.h gives these names to newer forms --- */

#undef cuGraphAddKernelNode
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *given) {
  ANSWER_ANYWHERE(add_kernel((struct target){node, graph, after, count}, given, false));
}

#undef cuGraphKernelNodeGetParams
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *found) {
  ANSWER_ANYWHERE(tell_kernel(node, found, sizeof *found));
}

#undef cuGraphKernelNodeSetParams
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *given) {
  ANSWER_ANYWHERE(change_kernel(NULL, node, given, false));
}

#undef cuGraphExecKernelNodeSetParams
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *given) {
  ANSWER_ANYWHERE(executable ? change_kernel(executable, node, given, false) : KC_INVALID_VALUE);
}

static int update_11(CUgraphExec executable, CUgraph graph, CUgraphNode *culprit, CUgraphExecUpdateResult *result) {
  kc_node *node;
  int found;
  return kc_update_executable(executable_of(executable), graph_of(graph), culprit ? (kc_node **)culprit : &node,
                              result ? (int *)result : &found);
}

#undef cuGraphExecUpdate
CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode *culprit,
                           CUgraphExecUpdateResult *result) {
  ANSWER_ANYWHERE(update_11(executable, graph, culprit, result));
}
