/* Streams, events and captures of the CUDA runtime. Part of libcudart.so. */
#include <stdlib.h>
#include <string.h>

#include "cudart.h"
#include "graphs.h"

static kc_event *event_of(cudaEvent_t event) { return (kc_event *)event; }

/* --- streams --- */

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

static int make_stream(cudaStream_t *stream, unsigned flags, int priority) {
  if (!stream || flags > cudaStreamNonBlocking) return KC_INVALID_VALUE;
  if (priority > LEAST_PRIORITY) priority = LEAST_PRIORITY;
  if (priority < GREATEST_PRIORITY) priority = GREATEST_PRIORITY;
  *stream = (cudaStream_t)kc_new_stream(flags, priority);
  return KC_OK;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) { ANSWER(make_stream(stream, 0, 0)); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) { ANSWER(make_stream(stream, flags, 0)); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  ANSWER(make_stream(stream, flags, priority));
}

static int priority_range(int *least, int *greatest) {
  if (least) *least = LEAST_PRIORITY;
  if (greatest) *greatest = GREATEST_PRIORITY;
  return KC_OK;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { ANSWER(priority_range(least, greatest)); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) { ANSWER(kc_end_stream(kc_stream_of(stream))); }

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { ANSWER(kc_wait_stream(kc_stream_of(stream))); }
PER_THREAD(cudaStreamSynchronize, ptsz);

cudaError_t cudaStreamQuery(cudaStream_t stream) { ANSWER(kc_query_stream(kc_stream_of(stream))); }
PER_THREAD(cudaStreamQuery, ptsz);

/* The place for an answer, and a stream that is there. */
static int check_question(cudaStream_t stream, const void *answer) {
  return answer ? kc_check_stream(stream) : KC_INVALID_VALUE;
}

static int stream_flags(cudaStream_t stream, unsigned *flags) {
  int error = check_question(stream, flags);
  if (!error) *flags = kc_stream_flags(kc_stream_of(stream));
  return error;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags) { ANSWER(stream_flags(stream, flags)); }
PER_THREAD(cudaStreamGetFlags, ptsz);

static int stream_priority(cudaStream_t stream, int *priority) {
  int error = check_question(stream, priority);
  if (!error) *priority = kc_stream_priority(kc_stream_of(stream));
  return error;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) { ANSWER(stream_priority(stream, priority)); }
PER_THREAD(cudaStreamGetPriority, ptsz);

static int stream_number(cudaStream_t stream, unsigned long long *number) {
  int error = check_question(stream, number);
  if (!error) *number = kc_stream_number(kc_stream_of(stream));
  return error;
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *number) { ANSWER(stream_number(stream, number)); }
PER_THREAD(cudaStreamGetId, ptsz);

static int stream_device(cudaStream_t stream, int *device) {
  int error = check_question(stream, device);
  if (!error) *device = 0;
  return error;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) { ANSWER(stream_device(stream, device)); }
PER_THREAD(cudaStreamGetDevice, ptsz);

/* Attributes are hints, but for the priority, which a stream keeps from its making. */
static int stream_attribute(cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue *value) {
  int error = check_question(stream, value);
  if (error) return error;
  memset(value, 0, sizeof *value);
  if (attribute == cudaLaunchAttributePriority) value->priority = kc_stream_priority(kc_stream_of(stream));
  if (attribute == cudaLaunchAttributeSynchronizationPolicy) value->syncPolicy = cudaSyncPolicyAuto;
  return KC_OK;
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue *value) {
  ANSWER(stream_attribute(stream, attribute, value));
}
PER_THREAD(cudaStreamGetAttribute, ptsz);

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue *value) {
  (void)attribute;
  ANSWER(check_question(stream, value));
}
PER_THREAD(cudaStreamSetAttribute, ptsz);

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  int error = kc_check_stream(to);
  ANSWER(error ? error : kc_check_stream(from));
}
PER_THREAD(cudaStreamCopyAttributes, ptsz);

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t bytes, unsigned flags) {
  (void)bytes, (void)flags; /* who may use managed memory when: all may always */
  ANSWER(check_question(stream, pointer));
}
PER_THREAD(cudaStreamAttachMemAsync, ptsz);

/* --- functions of the host --- */

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  ANSWER(kc_call_host(function, data, kc_stream_of(stream)));
}
PER_THREAD(cudaLaunchHostFunc, ptsz);

static int add_callback(cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned flags) {
  if (!function || flags) return KC_INVALID_VALUE;
  int error = kc_check_stream(stream);
  if (error) return error;
  if (kc_captured(kc_stream_of(stream))) return KC_CAPTURE_UNSUPPORTED;
  function(stream, cudaSuccess, data); /* all work before it is done */
  return KC_OK;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned flags) {
  ANSWER(add_callback(stream, function, data, flags));
}
PER_THREAD(cudaStreamAddCallback, ptsz);

/* --- events --- */

static int make_event(cudaEvent_t *event, unsigned flags) {
  if (!event || flags > 7) return KC_INVALID_VALUE;
  if (flags & cudaEventInterprocess) return kc_missing("events that processes share");
  *event = (cudaEvent_t)kc_new_event(flags);
  return KC_OK;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { ANSWER(make_event(event, cudaEventDefault)); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) { ANSWER(make_event(event, flags)); }

cudaError_t cudaEventDestroy(cudaEvent_t event) { ANSWER(kc_end_event(event_of(event))); }

cudaError_t cudaEventSynchronize(cudaEvent_t event) { ANSWER(kc_wait_event(event_of(event))); }

cudaError_t cudaEventQuery(cudaEvent_t event) { ANSWER(kc_query_event(event_of(event))); }

static int elapsed(float *milliseconds, cudaEvent_t first, cudaEvent_t last) {
  return milliseconds ? kc_elapsed_ms(event_of(first), event_of(last), milliseconds) : KC_INVALID_VALUE;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t first, cudaEvent_t last) {
  ANSWER(elapsed(milliseconds, first, last));
}

cudaError_t cudaEventElapsedTime_v2(float *milliseconds, cudaEvent_t first, cudaEvent_t last) {
  ANSWER(elapsed(milliseconds, first, last));
}

/* An external event of a captured stream becomes a node of its own; others only tell where they stand. */
static int use_event(enum kc_node_kind kind, cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  struct kc_work work = {.kind = kind, .event = event_of(event)};
  int error;
  if (flags > 1 || !event) return flags > 1 ? KC_INVALID_VALUE : KC_INVALID_HANDLE;
  if (flags && kc_captured(kc_stream_of(stream)) && kc_take_work(&work, kc_stream_of(stream), &error)) return error;
  return kind == KC_RECORD_NODE ? kc_record(event_of(event), kc_stream_of(stream))
                                : kc_depend(kc_stream_of(stream), event_of(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  ANSWER(use_event(KC_RECORD_NODE, event, stream, 0));
}
PER_THREAD(cudaEventRecord, ptsz);

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  ANSWER(use_event(KC_RECORD_NODE, event, stream, flags));
}
PER_THREAD(cudaEventRecordWithFlags, ptsz);

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  ANSWER(use_event(KC_WAIT_NODE, event, stream, flags));
}
PER_THREAD(cudaStreamWaitEvent, ptsz);

/* --- captures --- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  ANSWER(kc_begin_capture(kc_stream_of(stream), NULL, NULL, 0, (int)mode));
}
PER_THREAD(cudaStreamBeginCapture, ptsz);

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *after,
                                          const cudaGraphEdgeData *edges, size_t count,
                                          enum cudaStreamCaptureMode mode) {
  (void)edges; /* of which kind they are makes no difference: every node waits for all before it */
  if (!graph) ANSWER(KC_INVALID_VALUE);
  ANSWER(kc_begin_capture(kc_stream_of(stream), (kc_graph *)graph, (kc_node *const *)after, count, (int)mode));
}
PER_THREAD(cudaStreamBeginCaptureToGraph, ptsz);

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  ANSWER(kc_end_capture(kc_stream_of(stream), (kc_graph **)graph));
}
PER_THREAD(cudaStreamEndCapture, ptsz);

static int is_capturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  int error = check_question(stream, status);
  if (!error) *status = (enum cudaStreamCaptureStatus)kc_capture_state(kc_stream_of(stream)).status;
  return error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  ANSWER(is_capturing(stream, status));
}
PER_THREAD(cudaStreamIsCapturing, ptsz);

/* What may be asked of a capture: all but the status may be left out. */
struct answers {
  enum cudaStreamCaptureStatus *status;
  unsigned long long *number;
  cudaGraph_t *graph;
  const cudaGraphNode_t **after;
  size_t *count;
};

static int capture_info(cudaStream_t stream, struct answers answers) {
  int error = check_question(stream, answers.status);
  if (error) return error;
  struct kc_capture_state state = kc_capture_state(kc_stream_of(stream));
  *answers.status = (enum cudaStreamCaptureStatus)state.status;
  if (state.status != KC_CAPTURING) return KC_OK;
  if (answers.number) *answers.number = state.number;
  if (answers.graph) *answers.graph = (cudaGraph_t)state.graph;
  if (answers.after) *answers.after = (const cudaGraphNode_t *)state.after;
  if (answers.count) *answers.count = state.after_count;
  return KC_OK;
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *number, cudaGraph_t *graph, const cudaGraphNode_t **after,
                                        size_t *count) {
  ANSWER(capture_info(stream, (struct answers){status, number, graph, after, count}));
}
PER_THREAD(cudaStreamGetCaptureInfo_v2, ptsz);

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *number, cudaGraph_t *graph, const cudaGraphNode_t **after,
                                        const cudaGraphEdgeData **edges, size_t *count) {
  if (edges) *edges = NULL; /* as for edges that are all of the usual kind */
  ANSWER(capture_info(stream, (struct answers){status, number, graph, after, count}));
}
PER_THREAD(cudaStreamGetCaptureInfo_v3, ptsz);

static int update_after(cudaStream_t stream, const cudaGraphNode_t *after, size_t count, unsigned flags) {
  if (flags > cudaStreamSetCaptureDependencies) return KC_INVALID_VALUE;
  return kc_set_capture_after(kc_stream_of(stream), (kc_node *const *)after, count, !flags);
}

cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *after,
                                                   const cudaGraphEdgeData *edges, size_t count, unsigned flags) {
  (void)edges;
  ANSWER(update_after(stream, after, count, flags));
}
PER_THREAD(cudaStreamUpdateCaptureDependencies_v2, ptsz);

#if KC_CUDA_MAJOR < 13

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *number) {
  ANSWER(capture_info(stream, (struct answers){status, number, NULL, NULL, NULL}));
}
PER_THREAD(cudaStreamGetCaptureInfo, ptsz);

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after, size_t count,
                                                unsigned flags) {
  ANSWER(update_after(stream, after, count, flags));
}
PER_THREAD(cudaStreamUpdateCaptureDependencies, ptsz);

#else

NAME_IN_13(cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_v3);
NAME_IN_13(cudaStreamGetCaptureInfo_ptsz, cudaStreamGetCaptureInfo_v3);
NAME_IN_13(cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_v2);
NAME_IN_13(cudaStreamUpdateCaptureDependencies_ptsz, cudaStreamUpdateCaptureDependencies_v2);

#endif

static int exchange_mode(enum cudaStreamCaptureMode *mode) {
  static _Thread_local enum cudaStreamCaptureMode own = cudaStreamCaptureModeGlobal;
  if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed) return KC_INVALID_VALUE;
  enum cudaStreamCaptureMode before = own;
  own = *mode;
  *mode = before;
  return KC_OK;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) { ANSWER(exchange_mode(mode)); }
