/* Graphs of operations: made node by node or taken from streams, and what is launched of them.
 *
 * As with CUDA, one graph is for one thread at a time. */
#ifndef KERNCAST_GRAPHS_H
#define KERNCAST_GRAPHS_H

#include "core.h"

typedef struct kc_graph kc_graph;
typedef struct kc_node kc_node;
typedef struct kc_executable kc_executable;
typedef struct kc_object kc_object;

/* By the numbers of cudaGraphNodeType and CUgraphNodeType. */
enum kc_node_kind {
  KC_KERNEL_NODE = 0,
  KC_COPY_NODE = 1,
  KC_FILL_NODE = 2,
  KC_HOST_NODE = 3,
  KC_CHILD_NODE = 4,
  KC_EMPTY_NODE = 5,
  KC_WAIT_NODE = 6,
  KC_RECORD_NODE = 7,
  KC_ALLOCATE_NODE = 10,
  KC_FREE_NODE = 11,
  /* A call of a library, which CUDA has no kind for: programs are told that it is a kernel, which it is there. */
  KC_LIBRARY_NODE = 64,
};

typedef void kc_callback(void *data);

/* What a node does. A node has its own copy of everything, parameters of kernels and child graphs among them. */
struct kc_work {
  enum kc_node_kind kind;
  union {
    struct kc_launch launch;
    struct {
      void *to;
      const void *from;
      struct kc_rows rows;
    } copy;
    struct {
      void *to;
      struct kc_pattern pattern;
    } fill;
    struct {
      kc_callback *function;
      void *data;
    } host;
    kc_graph *child;
    kc_event *event;
    struct {
      uint64_t address;
      size_t bytes;
    } memory;
    struct kc_library_call library;
  };
};

/* nodes.c: parameters of nodes. The runtime and the driver lay those of kernels, fills and functions of the host out
 * alike, but for what names the kernel. */
struct kc_kernel_parameters {
  void *function;
  uint32_t grid[3], block[3], shared_bytes;
  void **arguments, **extra;
};
struct kc_fill_parameters {
  void *to;
  size_t pitch;
  uint32_t value, element_bytes;
  size_t width, rows;
};
struct kc_host_parameters {
  kc_callback *function;
  void *data;
};
int kc_read_kernel(const void *parameters, kc_function *function, struct kc_work *work);
int kc_read_fill(const void *parameters, struct kc_work *work);
int kc_read_host(const void *parameters, struct kc_work *work);
/* The work of a node, which has to be of a kind; NULL where it is not. */
const struct kc_work *kc_work_of_kind(const kc_node *node, enum kc_node_kind kind);
int kc_tell_kernel(const kc_node *node, void *function, void *parameters);
int kc_tell_fill(const kc_node *node, void *parameters);
int kc_tell_host(const kc_node *node, void *parameters);
int kc_tell_child(const kc_node *node, kc_graph **child);
int kc_tell_event(const kc_node *node, enum kc_node_kind kind, kc_event **event);
int kc_change_event(kc_node *node, enum kc_node_kind kind, kc_event *event);
int kc_tell_kind(const kc_node *node, int *kind);
/* A node that frees what one of the same graph allocates. */
int kc_add_free(kc_graph *graph, kc_node *const *after, size_t count, uint64_t address, kc_node **node);
int kc_tell_memory(const kc_node *node, enum kc_node_kind kind, uint64_t *address, size_t *bytes);

/* A list that a caller gets: where `nodes` is NULL only *count is written; otherwise *count is the room it has. */
struct kc_nodes {
  kc_node **nodes;
  size_t *count;
};

kc_graph *kc_new_graph(void);
void kc_end_graph(kc_graph *graph);
kc_graph *kc_copy_graph(const kc_graph *graph);
int kc_add_node(kc_graph *graph, kc_node *const *after, size_t count, const struct kc_work *work, kc_node **node);
int kc_end_node(kc_node *node);
const struct kc_work *kc_node_work(const kc_node *node);
int kc_set_node_work(kc_node *node, const struct kc_work *work);
int kc_add_edges(kc_node *const *from, kc_node *const *to, size_t count);
int kc_remove_edges(kc_node *const *from, kc_node *const *to, size_t count);
int kc_list_nodes(const kc_graph *graph, bool only_roots, struct kc_nodes found);
int kc_list_edges(const kc_graph *graph, kc_node **from, kc_node **to, size_t *count);
int kc_list_before(const kc_node *node, struct kc_nodes found);
int kc_list_behind(const kc_node *node, struct kc_nodes found);
kc_node *kc_find_in_copy(const kc_node *node, const kc_graph *copy);
int kc_print_graph(const kc_graph *graph, const char *path);
/* Memory that belongs to a graph, and to all that is made of it: it is freed with the last of them. */
int kc_add_allocation(kc_graph *graph, kc_node *const *after, size_t count, size_t bytes, kc_node **node);
bool kc_is_held_by_graph(uint64_t address);

int kc_make_executable(const kc_graph *graph, unsigned long long flags, kc_executable **executable);
void kc_end_executable(kc_executable *executable);
unsigned long long kc_executable_flags(const kc_executable *executable);
int kc_set_executable_work(kc_executable *executable, const kc_node *node, const struct kc_work *work);
int kc_enable_node(kc_executable *executable, const kc_node *node, bool is_enabled);
int kc_node_is_enabled(const kc_executable *executable, const kc_node *node, bool *is_enabled);
/* Takes over the work of a graph of the same shape; *result is of cudaGraphExecUpdateResult. */
int kc_update_executable(kc_executable *executable, const kc_graph *graph, kc_node **culprit, int *result);
int kc_launch_graph(kc_executable *executable, kc_stream *stream);

/* Objects of the program that live as long as a graph needs them. */
kc_object *kc_new_object(void *data, kc_callback *end, unsigned references);
int kc_keep_object(kc_object *object, unsigned count);
int kc_release_object(kc_object *object, unsigned count);
int kc_graph_keeps(kc_graph *graph, kc_object *object, unsigned count, bool takes_over);
int kc_graph_releases(kc_graph *graph, kc_object *object, unsigned count);

/* --- capture.c: streams whose operations become nodes --- */
enum kc_capture_mode { KC_CAPTURE_GLOBAL = 0, KC_CAPTURE_THREAD = 1, KC_CAPTURE_RELAXED = 2 };
enum kc_capture_status { KC_NO_CAPTURE = 0, KC_CAPTURING = 1, KC_CAPTURE_FAILED = 2 };

struct kc_capture_state {
  enum kc_capture_status status;
  unsigned long long number;
  kc_graph *graph;
  kc_node *const *after; /* what the next operation will come after */
  size_t after_count;
};

/* Begins to capture a stream, into a graph of its own where none is given. */
int kc_begin_capture(kc_stream *stream, kc_graph *graph, kc_node *const *after, size_t count, int mode);
int kc_end_capture(kc_stream *stream, kc_graph **graph);
struct kc_capture_state kc_capture_state(kc_stream *stream);
int kc_set_capture_after(kc_stream *stream, kc_node *const *after, size_t count, bool keeps_others);
/* Whether any stream is. */
bool kc_is_capturing(void);
/* The graph that a stream is captured into, or NULL. */
kc_graph *kc_captured(kc_stream *stream);
/* Takes any work into a captured stream: see the hooks in inside.h. */
bool kc_take_work(const struct kc_work *work, kc_stream *stream, int *error);
bool kc_take_allocation(size_t bytes, kc_stream *stream, uint64_t *address, int *error);
/* Calls a function of the program in the order of the stream. */
int kc_call_host(kc_callback *function, void *data, kc_stream *stream);

#endif
