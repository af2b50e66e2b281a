/* Streams, events and captures of the CUDA driver. Part of libcuda.so. */
#include <string.h>

#include "driver.h"

static kc_event *event_of(CUevent event) { return (kc_event *)event; }

/* --- streams --- */

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

static int make_stream(CUstream *stream, unsigned flags, int priority) {
  if (!stream || flags > CU_STREAM_NON_BLOCKING) return KC_INVALID_VALUE;
  if (priority > LEAST_PRIORITY) priority = LEAST_PRIORITY;
  if (priority < GREATEST_PRIORITY) priority = GREATEST_PRIORITY;
  *stream = (CUstream)kc_new_stream(flags, priority);
  return KC_OK;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) { ANSWER(make_stream(stream, flags, 0)); }

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  ANSWER(make_stream(stream, flags, priority));
}

static int priority_range(int *least, int *greatest) {
  if (least) *least = LEAST_PRIORITY;
  if (greatest) *greatest = GREATEST_PRIORITY;
  return KC_OK;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) { ANSWER(priority_range(least, greatest)); }

CUresult cuStreamDestroy(CUstream stream) { ANSWER(kc_end_stream(kc_stream_of(stream))); }
OLD_NAME("cuStreamDestroy", cuStreamDestroy);

CUresult cuStreamSynchronize(CUstream stream) { ANSWER(kc_wait_stream(kc_stream_of(stream))); }
PER_THREAD(cuStreamSynchronize, ptsz);

CUresult cuStreamQuery(CUstream stream) { ANSWER(kc_query_stream(kc_stream_of(stream))); }
PER_THREAD(cuStreamQuery, ptsz);

/* The place for an answer, and a stream that is there. */
static int check_question(CUstream stream, const void *answer) {
  return answer ? kc_check_stream(stream) : KC_INVALID_VALUE;
}

static int stream_priority(CUstream stream, int *priority) {
  int error = check_question(stream, priority);
  if (!error) *priority = kc_stream_priority(kc_stream_of(stream));
  return error;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) { ANSWER(stream_priority(stream, priority)); }
PER_THREAD(cuStreamGetPriority, ptsz);

static int stream_device(CUstream stream, CUdevice *device) {
  int error = check_question(stream, device);
  if (!error) *device = 0;
  return error;
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice *device) { ANSWER(stream_device(stream, device)); }
PER_THREAD(cuStreamGetDevice, ptsz);

static int stream_flags(CUstream stream, unsigned *flags) {
  int error = check_question(stream, flags);
  if (!error) *flags = kc_stream_flags(kc_stream_of(stream));
  return error;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) { ANSWER(stream_flags(stream, flags)); }
PER_THREAD(cuStreamGetFlags, ptsz);

static int stream_number(CUstream stream, unsigned long long *number) {
  int error = check_question(stream, number);
  if (!error) *number = kc_stream_number(kc_stream_of(stream));
  return error;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *number) { ANSWER(stream_number(stream, number)); }
PER_THREAD(cuStreamGetId, ptsz);

static int stream_context(CUstream stream, CUcontext *context) {
  int error = check_question(stream, context);
  if (!error) *context = (CUcontext)kc_current_context();
  return error;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) { ANSWER(stream_context(stream, context)); }
PER_THREAD(cuStreamGetCtx, ptsz);

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green) {
  if (green) *green = NULL;
  ANSWER(stream_context(stream, context));
}
PER_THREAD(cuStreamGetCtx_v2, ptsz);

/* Attributes are hints, but for the priority, which a stream keeps from its making. */
static int stream_attribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value) {
  int error = check_question(stream, value);
  if (error) return error;
  memset(value, 0, sizeof *value);
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = kc_stream_priority(kc_stream_of(stream));
  if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) value->syncPolicy = CU_SYNC_POLICY_AUTO;
  return KC_OK;
}

CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value) {
  ANSWER(stream_attribute(stream, attribute, value));
}
PER_THREAD(cuStreamGetAttribute, ptsz);

CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value) {
  (void)attribute;
  ANSWER(check_question(stream, value));
}
PER_THREAD(cuStreamSetAttribute, ptsz);

CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  int error = kc_check_stream(to);
  ANSWER(error ? error : kc_check_stream(from));
}
PER_THREAD(cuStreamCopyAttributes, ptsz);

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags) {
  (void)bytes, (void)flags; /* who may use managed memory when: all may always */
  ANSWER(check_question(stream, kc_pointer_to(address)));
}
PER_THREAD(cuStreamAttachMemAsync, ptsz);

/* --- functions of the host --- */

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  ANSWER(kc_call_host(function, data, kc_stream_of(stream)));
}
PER_THREAD(cuLaunchHostFunc, ptsz);

static int add_callback(CUstream stream, CUstreamCallback function, void *data, unsigned flags) {
  if (!function || flags) return KC_INVALID_VALUE;
  int error = kc_check_stream(stream);
  if (error) return error;
  if (kc_captured(kc_stream_of(stream))) return KC_CAPTURE_UNSUPPORTED;
  function(stream, CUDA_SUCCESS, data); /* all work before it is done */
  return KC_OK;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data, unsigned flags) {
  ANSWER(add_callback(stream, function, data, flags));
}
PER_THREAD(cuStreamAddCallback, ptsz);

/* --- events --- */

static int make_event(CUevent *event, unsigned flags) {
  if (!event || flags > 7) return KC_INVALID_VALUE;
  if (flags & CU_EVENT_INTERPROCESS) return kc_missing("events that processes share");
  *event = (CUevent)kc_new_event(flags);
  return KC_OK;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) { ANSWER(make_event(event, flags)); }

CUresult cuEventDestroy(CUevent event) { ANSWER(kc_end_event(event_of(event))); }
OLD_NAME("cuEventDestroy", cuEventDestroy);

CUresult cuEventSynchronize(CUevent event) { ANSWER(kc_wait_event(event_of(event))); }

CUresult cuEventQuery(CUevent event) { ANSWER(kc_query_event(event_of(event))); }

static int elapsed(float *milliseconds, CUevent first, CUevent last) {
  return milliseconds ? kc_elapsed_ms(event_of(first), event_of(last), milliseconds) : KC_INVALID_VALUE;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent first, CUevent last) {
  ANSWER(elapsed(milliseconds, first, last));
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent first, CUevent last) {
  ANSWER(elapsed(milliseconds, first, last));
}

/* An external event of a captured stream becomes a node of its own; others only tell where they stand. */
static int use_event(enum kc_node_kind kind, CUevent event, CUstream stream, unsigned flags) {
  struct kc_work work = {.kind = kind, .event = event_of(event)};
  int error;
  if (flags > 1 || !event) return flags > 1 ? KC_INVALID_VALUE : KC_INVALID_HANDLE;
  if (flags && kc_captured(kc_stream_of(stream)) && kc_take_work(&work, kc_stream_of(stream), &error)) return error;
  return kind == KC_RECORD_NODE ? kc_record(event_of(event), kc_stream_of(stream))
                                : kc_depend(kc_stream_of(stream), event_of(event));
}

CUresult cuEventRecord(CUevent event, CUstream stream) { ANSWER(use_event(KC_RECORD_NODE, event, stream, 0)); }
PER_THREAD(cuEventRecord, ptsz);

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  ANSWER(use_event(KC_RECORD_NODE, event, stream, flags));
}
PER_THREAD(cuEventRecordWithFlags, ptsz);

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  ANSWER(use_event(KC_WAIT_NODE, event, stream, flags));
}
PER_THREAD(cuStreamWaitEvent, ptsz);

/* --- captures --- */

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  ANSWER(kc_begin_capture(kc_stream_of(stream), NULL, NULL, 0, (int)mode));
}
PER_THREAD(cuStreamBeginCapture, ptsz);

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                     const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
  (void)edges; /* of which kind they are makes no difference: every node waits for all before it */
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  ANSWER(kc_begin_capture(kc_stream_of(stream), (kc_graph *)graph, (kc_node *const *)after, count, (int)mode));
}
PER_THREAD(cuStreamBeginCaptureToGraph, ptsz);

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  ANSWER(kc_end_capture(kc_stream_of(stream), (kc_graph **)graph));
}
PER_THREAD(cuStreamEndCapture, ptsz);

static int is_capturing(CUstream stream, CUstreamCaptureStatus *status) {
  int error = check_question(stream, status);
  if (!error) *status = (CUstreamCaptureStatus)kc_capture_state(kc_stream_of(stream)).status;
  return error;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) { ANSWER(is_capturing(stream, status)); }
PER_THREAD(cuStreamIsCapturing, ptsz);

/* What may be asked of a capture: all but the status may be left out. */
struct answers {
  CUstreamCaptureStatus *status;
  cuuint64_t *number;
  CUgraph *graph;
  const CUgraphNode **after;
  size_t *count;
};

static int capture_info(CUstream stream, struct answers answers) {
  int error = check_question(stream, answers.status);
  if (error) return error;
  struct kc_capture_state state = kc_capture_state(kc_stream_of(stream));
  *answers.status = (CUstreamCaptureStatus)state.status;
  if (state.status != KC_CAPTURING) return KC_OK;
  if (answers.number) *answers.number = state.number;
  if (answers.graph) *answers.graph = (CUgraph)state.graph;
  if (answers.after) *answers.after = (const CUgraphNode *)state.after;
  if (answers.count) *answers.count = state.after_count;
  return KC_OK;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *number, CUgraph *graph,
                                   const CUgraphNode **after, size_t *count) {
  ANSWER(capture_info(stream, (struct answers){status, number, graph, after, count}));
}
PER_THREAD(cuStreamGetCaptureInfo_v2, ptsz);

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *number, CUgraph *graph,
                                   const CUgraphNode **after, const CUgraphEdgeData **edges, size_t *count) {
  if (edges) *edges = NULL; /* as for edges that are all of the usual kind */
  ANSWER(capture_info(stream, (struct answers){status, number, graph, after, count}));
}
PER_THREAD(cuStreamGetCaptureInfo_v3, ptsz);

static int update_after(CUstream stream, const CUgraphNode *after, size_t count, unsigned flags) {
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return KC_INVALID_VALUE;
  return kc_set_capture_after(kc_stream_of(stream), (kc_node *const *)after, count, !flags);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *after, size_t count, unsigned flags) {
  ANSWER(update_after(stream, after, count, flags));
}
PER_THREAD(cuStreamUpdateCaptureDependencies, ptsz);

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *after, const CUgraphEdgeData *edges,
                                              size_t count, unsigned flags) {
  (void)edges;
  ANSWER(update_after(stream, after, count, flags));
}
PER_THREAD(cuStreamUpdateCaptureDependencies_v2, ptsz);

static int exchange_mode(CUstreamCaptureMode *mode) {
  static _Thread_local CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) return KC_INVALID_VALUE;
  CUstreamCaptureMode before = own;
  own = *mode;
  *mode = before;
  return KC_OK;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) { ANSWER_ANYWHERE(exchange_mode(mode)); }

/* --- as CUDA 10 had it: cuda.h gives these names to newer forms --- */

#undef cuStreamBeginCapture
CUresult cuStreamBeginCapture(CUstream stream) {
  ANSWER(kc_begin_capture(kc_stream_of(stream), NULL, NULL, 0, KC_CAPTURE_GLOBAL));
}
PER_THREAD(cuStreamBeginCapture, ptsz);

#undef cuStreamGetCaptureInfo
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *number) {
  ANSWER(capture_info(stream, (struct answers){status, number, NULL, NULL, NULL}));
}
PER_THREAD(cuStreamGetCaptureInfo, ptsz);
