/* Graphs of operations, and launches of them. Part of libkerncast_device.so. */
#define _GNU_SOURCE
#include "graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

/* Nodes that one comes after. */
struct list {
  kc_node **nodes;
  size_t count;
};

struct kc_node {
  kc_graph *graph;
  size_t place; /* in its graph */
  struct kc_work work;
  struct list before;
  const kc_node *original; /* of a copy */
};

struct kept_object {
  kc_object *object;
  unsigned count;
};

struct kc_graph {
  kc_node **nodes;
  size_t count, room;
  struct kept_object *objects;
  size_t object_count;
};

/* --- memory that graphs hold --- */

struct held {
  uint64_t address;
  unsigned holders;
  struct held *next;
};
static struct held *all_held;

static struct held **find_held(uint64_t address) {
  struct held **at = &all_held;
  while (*at && (*at)->address != address) at = &(*at)->next;
  return at;
}

static void hold(uint64_t address) {
  kc_lock();
  struct held **at = find_held(address);
  if (!*at) {
    *at = calloc(1, sizeof **at);
    (*at)->address = address;
  }
  (*at)->holders++;
  kc_unlock();
}

static void let_go(uint64_t address) {
  kc_lock();
  struct held **at = find_held(address), *found = *at;
  bool is_last = found && !--found->holders;
  if (is_last) {
    *at = found->next;
    free(found);
  }
  kc_unlock();
  if (is_last) kc_free(address);
}

bool kc_is_held_by_graph(uint64_t address) {
  kc_lock();
  bool found = *find_held(address);
  kc_unlock();
  return found;
}

/* --- the work of nodes --- */

/* Keeps the parameters in one buffer, and pointers into it, as those who ask for them want them. */
static int keep_launch(struct kc_launch *own) {
  int error = kc_describe(own->function);
  if (error) return error;
  int count = kc_function_head(own->function)->parameters;
  if (count && !own->arguments && !own->buffer) return KC_INVALID_VALUE;
  size_t room = kc_parameter_bytes(own->function);
  unsigned char *buffer = calloc(1, room + 1);
  void **arguments = calloc((size_t)count + 1, sizeof *arguments);
  kc_pack(own, buffer, room);
  for (int i = 0; i < count; i++) arguments[i] = buffer + kc_function_parameters(own->function)[i].offset;
  own->buffer = buffer;
  own->buffer_bytes = room;
  own->arguments = arguments;
  return KC_OK;
}

static int keep_library(struct kc_library_call *own) {
  void *operands = malloc(own->bytes + 1);
  if (own->bytes) memcpy(operands, own->operands, own->bytes);
  own->operands = operands;
  own->name = strdup(own->name);
  return KC_OK;
}

static int keep_work(struct kc_work *own, const struct kc_work *given) {
  *own = *given;
  switch (own->kind) {
    case KC_KERNEL_NODE: return own->launch.function ? keep_launch(&own->launch) : KC_INVALID_DEVICE_FUNCTION;
    case KC_LIBRARY_NODE: return keep_library(&own->library);
    case KC_CHILD_NODE:
      if (!given->child) return KC_INVALID_VALUE;
      own->child = kc_copy_graph(given->child);
      return KC_OK;
    case KC_HOST_NODE: return own->host.function ? KC_OK : KC_INVALID_VALUE;
    case KC_WAIT_NODE:
    case KC_RECORD_NODE: return own->event ? KC_OK : KC_INVALID_VALUE;
    case KC_ALLOCATE_NODE: hold(own->memory.address); return KC_OK;
    default: return KC_OK;
  }
}

static void drop_work(struct kc_work *work) {
  if (work->kind == KC_KERNEL_NODE) {
    free((void *)work->launch.buffer);
    free(work->launch.arguments);
  }
  if (work->kind == KC_LIBRARY_NODE) {
    free((void *)work->library.name);
    free((void *)work->library.operands);
  }
  if (work->kind == KC_CHILD_NODE) kc_end_graph(work->child);
  if (work->kind == KC_ALLOCATE_NODE) let_go(work->memory.address);
}

static int change_work(struct kc_work *work, const struct kc_work *given) {
  struct kc_work kept;
  if (work->kind != given->kind) return KC_INVALID_VALUE;
  int error = keep_work(&kept, given);
  if (error) return error;
  drop_work(work);
  *work = kept;
  return KC_OK;
}

const struct kc_work *kc_node_work(const kc_node *node) { return &node->work; }

int kc_set_node_work(kc_node *node, const struct kc_work *work) {
  return node ? change_work(&node->work, work) : KC_INVALID_VALUE;
}

/* --- nodes and edges --- */

kc_graph *kc_new_graph(void) { return calloc(1, sizeof(kc_graph)); }

static bool is_in(const struct list *list, const kc_node *node) {
  for (size_t i = 0; i < list->count; i++)
    if (list->nodes[i] == node) return true;
  return false;
}

static void put_in(struct list *list, kc_node *node) {
  list->nodes = realloc(list->nodes, (list->count + 1) * sizeof *list->nodes);
  list->nodes[list->count++] = node;
}

static bool take_out(struct list *list, const kc_node *node) {
  for (size_t i = 0; i < list->count; i++) {
    if (list->nodes[i] != node) continue;
    memmove(list->nodes + i, list->nodes + i + 1, (--list->count - i) * sizeof *list->nodes);
    return true;
  }
  return false;
}

static kc_node *put_node(kc_graph *graph) {
  kc_node *node = calloc(1, sizeof *node);
  if (graph->count == graph->room) {
    graph->room = graph->room ? 2 * graph->room : 16;
    graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
  }
  node->graph = graph;
  node->place = graph->count;
  graph->nodes[graph->count++] = node;
  return node;
}

int kc_add_node(kc_graph *graph, kc_node *const *after, size_t count, const struct kc_work *work, kc_node **node) {
  if (!graph || !node || (count && !after)) return KC_INVALID_VALUE;
  for (size_t i = 0; i < count; i++)
    if (!after[i] || after[i]->graph != graph) return KC_INVALID_VALUE;
  struct kc_work kept;
  int error = keep_work(&kept, work);
  if (error) return error;
  kc_node *made = *node = put_node(graph);
  made->work = kept;
  for (size_t i = 0; i < count; i++)
    if (!is_in(&made->before, after[i])) put_in(&made->before, after[i]);
  return KC_OK;
}

int kc_add_allocation(kc_graph *graph, kc_node *const *after, size_t count, size_t bytes, kc_node **node) {
  struct kc_work work = {.kind = KC_ALLOCATE_NODE};
  int error = kc_allocate(bytes, KC_DEVICE_MEMORY, &work.memory.address);
  if (error) return error;
  work.memory.bytes = bytes;
  error = kc_add_node(graph, after, count, &work, node);
  if (error) kc_free(work.memory.address);
  return error;
}

static void free_node(kc_node *node) {
  drop_work(&node->work);
  free(node->before.nodes);
  free(node);
}

int kc_end_node(kc_node *node) {
  if (!node) return KC_INVALID_VALUE;
  kc_graph *graph = node->graph;
  memmove(graph->nodes + node->place, graph->nodes + node->place + 1,
          (--graph->count - node->place) * sizeof *graph->nodes);
  for (size_t i = 0; i < graph->count; i++) {
    graph->nodes[i]->place = i;
    take_out(&graph->nodes[i]->before, node);
  }
  free_node(node);
  return KC_OK;
}

void kc_end_graph(kc_graph *graph) {
  if (!graph) return;
  for (size_t i = 0; i < graph->count; i++) free_node(graph->nodes[i]);
  for (size_t i = 0; i < graph->object_count; i++)
    kc_release_object(graph->objects[i].object, graph->objects[i].count);
  free(graph->objects);
  free(graph->nodes);
  free(graph);
}

kc_graph *kc_copy_graph(const kc_graph *graph) {
  kc_graph *copy = kc_new_graph();
  for (size_t i = 0; i < graph->count; i++) {
    kc_node *node = put_node(copy);
    keep_work(&node->work, &graph->nodes[i]->work);
    node->original = graph->nodes[i];
  }
  for (size_t i = 0; i < graph->count; i++) {
    const struct list *before = &graph->nodes[i]->before;
    for (size_t k = 0; k < before->count; k++)
      put_in(&copy->nodes[i]->before, copy->nodes[before->nodes[k]->place]);
  }
  for (size_t i = 0; i < graph->object_count; i++)
    kc_graph_keeps(copy, graph->objects[i].object, graph->objects[i].count, false);
  return copy;
}

int kc_add_edges(kc_node *const *from, kc_node *const *to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!from[i] || !to[i] || from[i] == to[i] || from[i]->graph != to[i]->graph) return KC_INVALID_VALUE;
    if (is_in(&to[i]->before, from[i])) return KC_INVALID_VALUE;
    put_in(&to[i]->before, from[i]);
  }
  return KC_OK;
}

int kc_remove_edges(kc_node *const *from, kc_node *const *to, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!from[i] || !to[i] || !take_out(&to[i]->before, from[i])) return KC_INVALID_VALUE;
  return KC_OK;
}

/* --- questions --- */

/* Puts down one of those found, where there is room. */
static void tell(struct kc_nodes found, size_t *number, kc_node *node) {
  if (found.nodes && *number < *found.count) found.nodes[*number] = node;
  ++*number;
}

static int end_list(struct kc_nodes found, size_t number) {
  /* What is left of the room holds nothing. */
  for (size_t i = number; found.nodes && i < *found.count; i++) found.nodes[i] = NULL;
  if (!found.nodes || number < *found.count) *found.count = number;
  return KC_OK;
}

int kc_list_nodes(const kc_graph *graph, bool only_roots, struct kc_nodes found) {
  if (!graph || !found.count) return KC_INVALID_VALUE;
  size_t number = 0;
  for (size_t i = 0; i < graph->count; i++)
    if (!only_roots || !graph->nodes[i]->before.count) tell(found, &number, graph->nodes[i]);
  return end_list(found, number);
}

int kc_list_before(const kc_node *node, struct kc_nodes found) {
  if (!node || !found.count) return KC_INVALID_VALUE;
  size_t number = 0;
  for (size_t i = 0; i < node->before.count; i++) tell(found, &number, node->before.nodes[i]);
  return end_list(found, number);
}

int kc_list_behind(const kc_node *node, struct kc_nodes found) {
  if (!node || !found.count) return KC_INVALID_VALUE;
  size_t number = 0;
  for (size_t i = 0; i < node->graph->count; i++)
    if (is_in(&node->graph->nodes[i]->before, node)) tell(found, &number, node->graph->nodes[i]);
  return end_list(found, number);
}

int kc_list_edges(const kc_graph *graph, kc_node **from, kc_node **to, size_t *count) {
  if (!graph || !count || !from != !to) return KC_INVALID_VALUE;
  size_t number = 0, other = 0, room = *count;
  struct kc_nodes sources = {from, &room}, targets = {to, count};
  for (size_t i = 0; i < graph->count; i++) {
    kc_node *node = graph->nodes[i];
    for (size_t k = 0; k < node->before.count; k++) {
      tell(sources, &number, node->before.nodes[k]);
      tell(targets, &other, node);
    }
  }
  end_list(sources, number);
  return end_list(targets, other);
}

kc_node *kc_find_in_copy(const kc_node *node, const kc_graph *copy) {
  for (size_t i = 0; copy && i < copy->count; i++)
    if (copy->nodes[i]->original == node) return copy->nodes[i];
  return NULL;
}

static const char *label_of(const struct kc_work *work) {
  static const char *names[] = {"kernel", "memcpy", "memset", "host", "child graph", "empty", "event wait",
                                "event record", "", "", "allocation", "free"};
  if (work->kind == KC_LIBRARY_NODE) return work->library.name;
  return work->kind == KC_KERNEL_NODE ? kc_function_name(work->launch.function) : names[work->kind];
}

int kc_print_graph(const kc_graph *graph, const char *path) {
  FILE *file = graph && path ? fopen(path, "w") : NULL;
  if (!file) return KC_INVALID_VALUE;
  fprintf(file, "digraph graph_1 {\n");
  for (size_t i = 0; i < graph->count; i++)
    fprintf(file, "  node_%zu [label=\"%zu\\n%s\"];\n", i, i, label_of(&graph->nodes[i]->work));
  for (size_t i = 0; i < graph->count; i++) {
    const struct list *before = &graph->nodes[i]->before;
    for (size_t k = 0; k < before->count; k++)
      fprintf(file, "  node_%zu -> node_%zu;\n", before->nodes[k]->place, i);
  }
  fprintf(file, "}\n");
  return fclose(file) ? KC_INVALID_VALUE : KC_OK;
}

/* --- what is launched --- */

struct step {
  struct kc_work work;
  const kc_node *origin;
  bool is_enabled;
  kc_executable *inner; /* of a child graph */
  size_t *before;       /* by their places among the steps */
  size_t before_count;
};

struct kc_executable {
  struct step *steps;
  size_t count;
  unsigned long long flags;
};

static bool is_ready(const kc_node *node, const size_t *steps) {
  for (size_t i = 0; i < node->before.count; i++)
    if (!steps[node->before.nodes[i]->place]) return false;
  return true;
}

/* Gives each node, by its place, the number of its step, from 1 on; false where the edges go round in a circle. Nodes
 * mostly stand in their order already: one pass then numbers them all. */
static bool number_steps(const kc_graph *graph, size_t *steps) {
  size_t number = 0, before;
  do {
    before = number;
    for (size_t i = 0; i < graph->count; i++)
      if (!steps[i] && is_ready(graph->nodes[i], steps)) steps[i] = ++number;
  } while (number > before && number < graph->count);
  return number == graph->count;
}

static int make_step(struct step *step, const kc_node *node, const size_t *steps) {
  step->origin = node;
  step->is_enabled = true;
  int error = keep_work(&step->work, &node->work);
  if (error) step->work.kind = KC_EMPTY_NODE;
  step->before = calloc(node->before.count + 1, sizeof *step->before);
  step->before_count = node->before.count;
  for (size_t i = 0; i < node->before.count; i++) step->before[i] = steps[node->before.nodes[i]->place] - 1;
  /* Nodes of a child graph are named by the child that its node holds. */
  if (!error && node->work.kind == KC_CHILD_NODE) error = kc_make_executable(node->work.child, 0, &step->inner);
  return error;
}

int kc_make_executable(const kc_graph *graph, unsigned long long flags, kc_executable **executable) {
  if (!graph || !executable) return KC_INVALID_VALUE;
  size_t *steps = calloc(graph->count + 1, sizeof *steps);
  if (!number_steps(graph, steps)) {
    free(steps);
    return KC_INVALID_VALUE;
  }
  kc_executable *made = calloc(1, sizeof *made);
  made->steps = calloc(graph->count + 1, sizeof *made->steps);
  made->count = graph->count;
  made->flags = flags;
  int error = KC_OK;
  for (size_t i = 0; i < graph->count; i++) {
    int found = make_step(made->steps + steps[i] - 1, graph->nodes[i], steps);
    if (!error) error = found;
  }
  free(steps);
  if (error) kc_end_executable(made);
  else *executable = made;
  return error;
}

void kc_end_executable(kc_executable *executable) {
  if (!executable) return;
  for (size_t i = 0; i < executable->count; i++) {
    drop_work(&executable->steps[i].work);
    kc_end_executable(executable->steps[i].inner);
    free(executable->steps[i].before);
  }
  free(executable->steps);
  free(executable);
}

unsigned long long kc_executable_flags(const kc_executable *executable) { return executable->flags; }

static struct step *step_of(const kc_executable *executable, const kc_node *node) {
  for (size_t i = 0; executable && i < executable->count; i++) {
    struct step *step = executable->steps + i;
    if (step->origin == node) return step;
    struct step *inside = step->inner ? step_of(step->inner, node) : NULL;
    if (inside) return inside;
  }
  return NULL;
}

static bool takes_over(kc_executable *executable, const kc_graph *graph, kc_node **culprit, int *result);

int kc_set_executable_work(kc_executable *executable, const kc_node *node, const struct kc_work *work) {
  struct step *step = step_of(executable, node);
  if (!step) return KC_INVALID_VALUE;
  if (work->kind != KC_CHILD_NODE || !step->inner) return change_work(&step->work, work);
  kc_node *culprit;
  int result;
  return work->child && takes_over(step->inner, work->child, &culprit, &result) ? KC_OK : KC_GRAPH_UPDATE_FAILED;
}

static bool can_be_disabled(const struct step *step) { return step->work.kind <= KC_FILL_NODE; }

int kc_enable_node(kc_executable *executable, const kc_node *node, bool is_enabled) {
  struct step *step = step_of(executable, node);
  if (!step || !can_be_disabled(step)) return KC_INVALID_VALUE;
  step->is_enabled = is_enabled;
  return KC_OK;
}

int kc_node_is_enabled(const kc_executable *executable, const kc_node *node, bool *is_enabled) {
  const struct step *step = step_of(executable, node);
  if (!step || !can_be_disabled(step) || !is_enabled) return KC_INVALID_VALUE;
  *is_enabled = step->is_enabled;
  return KC_OK;
}

enum { UPDATED = 0, UPDATE_ERROR = 1, OTHER_TOPOLOGY = 2, OTHER_KIND = 3, OTHER_PARAMETERS = 5 };

static bool comes_after_the_same(const struct step *step, const kc_node *node, const size_t *steps) {
  if (step->before_count != node->before.count) return false;
  for (size_t i = 0; i < step->before_count; i++)
    if (step->before[i] != steps[node->before.nodes[i]->place] - 1) return false;
  return true;
}

static int differs(const struct step *step, const kc_node *node, const size_t *steps) {
  if (step->work.kind != node->work.kind) return OTHER_KIND;
  return comes_after_the_same(step, node, steps) ? UPDATED : OTHER_TOPOLOGY;
}

static int update_step(struct step *step, const kc_node *node, kc_node **culprit) {
  int result;
  if (step->inner) return takes_over(step->inner, node->work.child, culprit, &result) ? UPDATED : result;
  return change_work(&step->work, &node->work) ? OTHER_PARAMETERS : UPDATED;
}

/* All is compared before anything is changed. */
static bool takes_over(kc_executable *executable, const kc_graph *graph, kc_node **culprit, int *result) {
  *culprit = NULL;
  *result = OTHER_TOPOLOGY;
  if (graph->count != executable->count) return false;
  size_t *steps = calloc(graph->count + 1, sizeof *steps);
  *result = number_steps(graph, steps) ? UPDATED : UPDATE_ERROR;
  for (int changes = 0; changes <= 1; changes++)
    for (size_t i = 0; i < graph->count && !*result; i++) {
      struct step *step = executable->steps + steps[i] - 1;
      *result = changes ? update_step(step, graph->nodes[i], culprit) : differs(step, graph->nodes[i], steps);
      if (*result && !*culprit) *culprit = graph->nodes[i];
    }
  free(steps);
  return !*result;
}

int kc_update_executable(kc_executable *executable, const kc_graph *graph, kc_node **culprit, int *result) {
  if (!executable || !graph) return KC_INVALID_VALUE;
  return takes_over(executable, graph, culprit, result) ? KC_OK : KC_GRAPH_UPDATE_FAILED;
}

static int run(const kc_executable *executable, kc_stream *stream);

static int run_step(const struct step *step, kc_stream *stream) {
  const struct kc_work *work = &step->work;
  struct kc_launch launch;
  switch (work->kind) {
    case KC_KERNEL_NODE:
      launch = work->launch;
      launch.stream = stream;
      launch.flags |= KC_FROM_GRAPH;
      return kc_launch(&launch);
    case KC_LIBRARY_NODE: return kc_call_library(&work->library, stream, true);
    case KC_COPY_NODE: return kc_copy_rows(work->copy.to, work->copy.from, work->copy.rows, stream, false);
    case KC_FILL_NODE: return kc_fill_rows(work->fill.to, work->fill.pattern, stream, false);
    case KC_HOST_NODE: return kc_call_host(work->host.function, work->host.data, stream);
    case KC_CHILD_NODE: return run(step->inner, stream);
    case KC_WAIT_NODE: return kc_depend(stream, work->event);
    case KC_RECORD_NODE: return kc_record(work->event, stream);
    default: return KC_OK;
  }
}

static int run(const kc_executable *executable, kc_stream *stream) {
  int error = KC_OK;
  for (size_t i = 0; i < executable->count && !error; i++)
    if (executable->steps[i].is_enabled) error = run_step(executable->steps + i, stream);
  return error;
}

int kc_launch_graph(kc_executable *executable, kc_stream *stream) {
  int error = kc_begin();
  if (!error) error = kc_lasting_error();
  if (error) return error;
  if (!executable) return KC_INVALID_VALUE;
  if (!kc_is_stream(stream)) return KC_INVALID_HANDLE;
  if (!kc_captured(stream)) {
    kc_enter();
    kc_add_work(stream, 0, kc_device()->launch_s);
    kc_leave();
  }
  return run(executable, stream);
}

/* --- objects of the program --- */

struct kc_object {
  void *data;
  kc_callback *end;
  unsigned references;
};

kc_object *kc_new_object(void *data, kc_callback *end, unsigned references) {
  kc_object *object = calloc(1, sizeof *object);
  *object = (struct kc_object){data, end, references};
  return object;
}

int kc_keep_object(kc_object *object, unsigned count) {
  if (!object || !count) return KC_INVALID_VALUE;
  kc_lock();
  object->references += count;
  kc_unlock();
  return KC_OK;
}

int kc_release_object(kc_object *object, unsigned count) {
  if (!object || !count) return KC_INVALID_VALUE;
  kc_lock();
  bool is_valid = count <= object->references, is_last = count == object->references;
  if (is_valid) object->references -= count;
  kc_unlock();
  if (!is_valid) return KC_INVALID_VALUE;
  if (is_last) {
    object->end(object->data);
    free(object);
  }
  return KC_OK;
}

int kc_graph_keeps(kc_graph *graph, kc_object *object, unsigned count, bool takes_over) {
  if (!graph) return KC_INVALID_VALUE;
  int error = takes_over ? object && count ? KC_OK : KC_INVALID_VALUE : kc_keep_object(object, count);
  if (error) return error;
  graph->objects = realloc(graph->objects, (graph->object_count + 1) * sizeof *graph->objects);
  graph->objects[graph->object_count++] = (struct kept_object){object, count};
  return KC_OK;
}

int kc_graph_releases(kc_graph *graph, kc_object *object, unsigned count) {
  if (!graph || !object) return KC_INVALID_VALUE;
  for (size_t i = 0; i < graph->object_count; i++) {
    struct kept_object *kept = graph->objects + i;
    if (kept->object != object || kept->count < count) continue;
    kept->count -= count;
    if (!kept->count) *kept = graph->objects[--graph->object_count];
    return kc_release_object(object, count);
  }
  return KC_INVALID_VALUE;
}
