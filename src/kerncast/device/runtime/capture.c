/* Streams that are captured: what is put into them becomes nodes of a graph. Part of libkerncast_device.so. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"
#include "inside.h"

/* The last nodes of a stream, or what an event has seen of them: the next operation comes after these. */
struct tails {
  kc_node **nodes;
  size_t count;
};

/* A stream that is captured: the one that the capture began with, or one that has come to it by an event. */
struct branch {
  kc_stream *stream;
  struct tails tails;
  struct branch *next;
};

struct mark {
  const kc_event *event;
  struct tails tails;
  struct mark *next;
};

struct capture {
  unsigned long long number;
  kc_graph *graph;
  bool owns_graph, has_failed;
  int mode;
  pthread_t thread;
  kc_stream *origin;
  struct branch *branches;
  struct mark *marks;
  struct capture *next;
};

static struct capture *captures;
/* Read without the lock by every operation: mostly nothing is captured. */
static _Atomic unsigned capture_count;
static unsigned long long last_number;

enum { NON_BLOCKING = 1 };

/* --- look-ups, under the lock --- */

static struct capture *capture_of(const kc_stream *stream, struct branch **branch) {
  for (struct capture *capture = captures; capture; capture = capture->next)
    for (*branch = capture->branches; *branch; *branch = (*branch)->next)
      if ((*branch)->stream == stream) return capture;
  return NULL;
}

static struct mark **mark_in(struct capture *capture, const kc_event *event) {
  struct mark **at = &capture->marks;
  while (*at && (*at)->event != event) at = &(*at)->next;
  return at;
}

static struct capture *capture_of_event(const kc_event *event, struct mark **mark) {
  for (struct capture *capture = captures; capture; capture = capture->next)
    if ((*mark = *mark_in(capture, event))) return capture;
  return NULL;
}

static bool is_legacy(const kc_stream *stream) { return !stream || stream == KC_LEGACY; }

/* Work of the legacy stream waits for that of all blocking ones, so that it would have to be captured with them. */
static bool touches_capture(const kc_stream *stream) {
  bool found = false;
  if (!is_legacy(stream)) return false;
  for (struct capture *capture = captures; capture; capture = capture->next) {
    if (kc_stream_flags(capture->origin) & NON_BLOCKING) continue;
    capture->has_failed = found = true;
  }
  return found;
}

/* --- tails --- */

static struct tails copy_tails(kc_node *const *nodes, size_t count) {
  struct tails tails = {malloc((count + 1) * sizeof *tails.nodes), count};
  if (count) memcpy(tails.nodes, nodes, count * sizeof *nodes);
  return tails;
}

static void set_tails(struct tails *tails, kc_node *const *nodes, size_t count) {
  struct tails fresh = copy_tails(nodes, count);
  free(tails->nodes);
  *tails = fresh;
}

static void add_tails(struct tails *tails, kc_node *const *nodes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t k = 0;
    while (k < tails->count && tails->nodes[k] != nodes[i]) k++;
    if (k < tails->count) continue;
    tails->nodes = realloc(tails->nodes, (tails->count + 1) * sizeof *tails->nodes);
    tails->nodes[tails->count++] = nodes[i];
  }
}

/* --- what streams take --- */

static int add_work(struct capture *capture, struct branch *branch, const struct kc_work *work, kc_node **node) {
  if (capture->has_failed) return KC_CAPTURE_INVALIDATED;
  struct tails *tails = &branch->tails;
  size_t bytes = work->kind == KC_ALLOCATE_NODE ? work->memory.bytes : 0;
  int error = bytes ? kc_add_allocation(capture->graph, tails->nodes, tails->count, bytes, node)
                    : kc_add_node(capture->graph, tails->nodes, tails->count, work, node);
  if (!error) set_tails(tails, node, 1);
  return error;
}

static bool take(const struct kc_work *work, kc_stream *stream, kc_node **node, int *error) {
  struct branch *branch;
  if (!capture_count) return false;
  kc_lock();
  struct capture *capture = capture_of(stream, &branch);
  bool is_taken = true;
  if (capture) *error = add_work(capture, branch, work, node);
  else if (touches_capture(stream)) *error = KC_CAPTURE_IMPLICIT;
  else is_taken = false;
  kc_unlock();
  return is_taken;
}

bool kc_take_work(const struct kc_work *work, kc_stream *stream, int *error) {
  kc_node *node;
  return take(work, stream, &node, error);
}

bool kc_take_launch(const struct kc_launch *launch, int *error) {
  struct kc_work work = {.kind = KC_KERNEL_NODE, .launch = *launch};
  return capture_count && kc_take_work(&work, launch->stream, error);
}

bool kc_take_library(const struct kc_library_call *call, kc_stream *stream, int *error) {
  struct kc_work work = {.kind = KC_LIBRARY_NODE, .library = *call};
  return capture_count && kc_take_work(&work, stream, error);
}

bool kc_take_copy(void *to, const void *from, struct kc_rows rows, kc_stream *stream, int *error) {
  struct kc_work work = {.kind = KC_COPY_NODE, .copy = {to, from, rows}};
  return capture_count && kc_take_work(&work, stream, error);
}

bool kc_take_fill(void *to, struct kc_pattern pattern, kc_stream *stream, int *error) {
  struct kc_work work = {.kind = KC_FILL_NODE, .fill = {to, pattern}};
  return capture_count && kc_take_work(&work, stream, error);
}

bool kc_take_allocation(size_t bytes, kc_stream *stream, uint64_t *address, int *error) {
  struct kc_work work = {.kind = KC_ALLOCATE_NODE, .memory = {0, bytes}};
  kc_node *node = NULL;
  if (!take(&work, stream, &node, error)) return false;
  if (!*error) *address = kc_node_work(node)->memory.address;
  return true;
}

int kc_call_host(kc_callback *function, void *data, kc_stream *stream) {
  struct kc_work work = {.kind = KC_HOST_NODE, .host = {function, data}};
  int error = kc_begin();
  if (error) return error;
  if (!function) return KC_INVALID_VALUE;
  if (!kc_is_stream(stream)) return KC_INVALID_HANDLE;
  if (kc_take_work(&work, stream, &error)) return error;
  function(data); /* all work before it is done */
  return KC_OK;
}

/* --- events --- */

static void drop_mark(struct mark **at) {
  struct mark *mark = *at;
  *at = mark->next;
  free(mark->tails.nodes);
  free(mark);
}

void kc_forget_event(const kc_event *event) {
  if (!capture_count) return;
  kc_lock();
  for (struct capture *capture = captures; capture; capture = capture->next) {
    struct mark **at = mark_in(capture, event);
    if (*at) drop_mark(at);
  }
  kc_unlock();
}

bool kc_take_record(kc_event *event, kc_stream *stream, int *error) {
  struct branch *branch;
  if (!capture_count) return false;
  kc_forget_event(event); /* it tells of its last record only */
  kc_lock();
  struct capture *capture = capture_of(stream, &branch);
  bool is_taken = true;
  if (capture) {
    struct mark *mark = calloc(1, sizeof *mark);
    *mark = (struct mark){event, copy_tails(branch->tails.nodes, branch->tails.count), capture->marks};
    capture->marks = mark;
    *error = capture->has_failed ? KC_CAPTURE_INVALIDATED : KC_OK;
  } else if (touches_capture(stream)) *error = KC_CAPTURE_IMPLICIT;
  else is_taken = false;
  kc_unlock();
  return is_taken;
}

/* A stream that waits for an event of a capture is captured from then on. */
static int join(struct capture *capture, const struct mark *mark, kc_stream *stream) {
  struct branch *branch;
  struct capture *own = capture_of(stream, &branch);
  if (capture->has_failed) return KC_CAPTURE_INVALIDATED;
  if (own && own != capture) {
    own->has_failed = capture->has_failed = true;
    return KC_CAPTURE_MERGE;
  }
  if (is_legacy(stream)) {
    capture->has_failed = true;
    return KC_CAPTURE_IMPLICIT;
  }
  if (own) {
    add_tails(&branch->tails, mark->tails.nodes, mark->tails.count);
    return KC_OK;
  }
  branch = calloc(1, sizeof *branch);
  *branch = (struct branch){stream, copy_tails(mark->tails.nodes, mark->tails.count), capture->branches};
  capture->branches = branch;
  return KC_OK;
}

bool kc_take_depend(kc_stream *stream, kc_event *event, int *error) {
  struct branch *branch;
  struct mark *mark;
  if (!capture_count) return false;
  kc_lock();
  struct capture *capture = capture_of_event(event, &mark), *own = capture_of(stream, &branch);
  bool is_taken = true;
  if (capture) *error = join(capture, mark, stream);
  else if (own) {
    /* What the event tells of lies outside of the graph. */
    own->has_failed = true;
    *error = KC_CAPTURE_ISOLATION;
  } else is_taken = false;
  kc_unlock();
  return is_taken;
}

/* --- what captures forbid --- */

int kc_check_wait_device(void) {
  if (!capture_count) return KC_OK;
  kc_lock();
  int error = captures ? KC_CAPTURE_UNSUPPORTED : KC_OK;
  for (struct capture *capture = captures; capture; capture = capture->next) capture->has_failed = true;
  kc_unlock();
  return error;
}

int kc_check_wait_stream(kc_stream *stream) {
  struct branch *branch;
  int error = KC_OK;
  if (!capture_count) return KC_OK;
  kc_lock();
  struct capture *capture = capture_of(stream, &branch);
  if (capture) {
    capture->has_failed = true;
    error = KC_CAPTURE_UNSUPPORTED;
  } else if (touches_capture(stream)) error = KC_CAPTURE_IMPLICIT;
  kc_unlock();
  return error;
}

int kc_check_wait_event(const kc_event *event) {
  struct mark *mark;
  if (!capture_count) return KC_OK;
  kc_lock();
  struct capture *capture = capture_of_event(event, &mark);
  if (capture) capture->has_failed = true;
  kc_unlock();
  return capture ? KC_CAPTURED_EVENT : KC_OK;
}

/* --- beginning and end --- */

int kc_begin_capture(kc_stream *stream, kc_graph *graph, kc_node *const *after, size_t count, int mode) {
  struct branch *branch;
  int error = kc_begin();
  if (error) return error;
  if (!kc_is_stream(stream)) return KC_INVALID_HANDLE;
  if (is_legacy(stream)) return KC_CAPTURE_UNSUPPORTED;
  if (mode < KC_CAPTURE_GLOBAL || mode > KC_CAPTURE_RELAXED || (count && !after)) return KC_INVALID_VALUE;
  kc_lock();
  if (capture_of(stream, &branch)) {
    kc_unlock();
    return KC_INVALID_VALUE;
  }
  branch = calloc(1, sizeof *branch);
  *branch = (struct branch){stream, copy_tails(after, count), NULL};
  struct capture *capture = calloc(1, sizeof *capture);
  *capture = (struct capture){.number = ++last_number, .graph = graph ? graph : kc_new_graph(), .owns_graph = !graph,
                              .mode = mode, .thread = pthread_self(), .origin = stream, .branches = branch,
                              .next = captures};
  captures = capture;
  capture_count++;
  kc_unlock();
  return KC_OK;
}

static void drop_capture(struct capture *capture) {
  struct capture **at = &captures;
  while (*at != capture) at = &(*at)->next;
  *at = capture->next;
  capture_count--;
  while (capture->marks) drop_mark(&capture->marks);
  while (capture->branches) {
    struct branch *branch = capture->branches;
    capture->branches = branch->next;
    free(branch->tails.nodes);
    free(branch);
  }
  free(capture);
}

/* Whether something comes after a node: what is last in a stream has to be last in the whole capture. */
static bool is_followed(const kc_node *node, const struct branch *origin) {
  size_t count = 0;
  for (size_t i = 0; i < origin->tails.count; i++)
    if (origin->tails.nodes[i] == node) return true;
  kc_list_behind(node, (struct kc_nodes){NULL, &count});
  return count > 0;
}

static bool has_joined(const struct capture *capture, const struct branch *origin) {
  for (const struct branch *branch = capture->branches; branch; branch = branch->next)
    for (size_t i = 0; branch != origin && i < branch->tails.count; i++)
      if (!is_followed(branch->tails.nodes[i], origin)) return false;
  return true;
}

int kc_end_capture(kc_stream *stream, kc_graph **graph) {
  struct branch *branch;
  if (!graph) return KC_INVALID_VALUE;
  *graph = NULL;
  if (!kc_is_stream(stream)) return KC_INVALID_HANDLE;
  kc_lock();
  int error = KC_OK;
  struct capture *capture = capture_of(stream, &branch);
  if (!capture) error = KC_INVALID_VALUE;
  else if (capture->mode != KC_CAPTURE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
    error = KC_CAPTURE_WRONG_THREAD;
  else if (capture->origin != stream) error = KC_CAPTURE_UNMATCHED;
  else {
    if (capture->has_failed) error = KC_CAPTURE_INVALIDATED;
    else if (!has_joined(capture, branch)) error = KC_CAPTURE_UNJOINED;
    if (!error) *graph = capture->graph;
    else if (capture->owns_graph) kc_end_graph(capture->graph);
    drop_capture(capture);
  }
  kc_unlock();
  return error;
}

struct kc_capture_state kc_capture_state(kc_stream *stream) {
  struct branch *branch;
  struct kc_capture_state state = {KC_NO_CAPTURE, 0, NULL, NULL, 0};
  if (!capture_count) return state;
  kc_lock();
  const struct capture *capture = capture_of(stream, &branch);
  if (capture) {
    state.status = capture->has_failed ? KC_CAPTURE_FAILED : KC_CAPTURING;
    state.number = capture->number;
    state.graph = capture->graph;
    state.after = branch->tails.nodes;
    state.after_count = branch->tails.count;
  }
  kc_unlock();
  return state;
}

int kc_set_capture_after(kc_stream *stream, kc_node *const *after, size_t count, bool keeps_others) {
  struct branch *branch;
  if (count && !after) return KC_INVALID_VALUE;
  kc_lock();
  int error = KC_INVALID_VALUE;
  if (capture_of(stream, &branch)) {
    if (keeps_others) add_tails(&branch->tails, after, count);
    else set_tails(&branch->tails, after, count);
    error = KC_OK;
  }
  kc_unlock();
  return error;
}

bool kc_is_capturing(void) { return capture_count; }

kc_graph *kc_captured(kc_stream *stream) { return kc_capture_state(stream).graph; }
