/* Streams, events, and the clock that they show.
 *
 * All work is done when its call returns; what streams and events tell is when a GPU would have done it. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "inside.h"

struct kc_stream {
  uint32_t number; /* 0: the default one */
  unsigned flags;
  int priority;
  double free_at; /* when all of its work will have been done */
  struct kc_stream *next;
};

struct kc_event {
  uint32_t number;
  unsigned flags;
  bool recorded;
  double at;
};

enum { NON_BLOCKING = 1, NO_TIMING = 2 };

static struct kc_stream first;
static struct kc_stream *streams = &first;
static uint32_t stream_count, event_count;
/* Seconds that the program spent inside the virtual GPU, of which some took the processor, and those that its work
 * would have taken. They are written by the thread that is inside, and read by any, even by a handler of signals:
 * readers take no lock, but read again while the turn is odd or another one. (Sums are written out, since += on these
 * would ask for a library of atomic operations.) */
static _Atomic double inside, processor_inside, virtual_seconds;
static _Atomic double entered_at, processor_entered_at;
static _Atomic int depth;
static _Atomic unsigned turn;

/* The machine's clocks: not clock_gettime, which is ours. */
static double machine_clock(clockid_t clock) {
  struct timespec now;
  syscall(SYS_clock_gettime, clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double machine_now(void) { return machine_clock(CLOCK_MONOTONIC); }

/* What this thread had when it was last inside, to tell how much of the time since then others had the processor. */
static _Thread_local struct {
  double at, processor;
  long pushed, waited; /* times that it was pushed off the processor, and that it left it by itself */
} left;
static _Atomic long last_inside;
/* After the server has worked, the program's code and data are no longer in the caches, which costs it microseconds that
 * no GPU takes from it. The shortest time between two calls is mostly that: it is taken off each, up to a limit. */
enum { FEWEST_SHORTEST = 4 };
static const double long_inside = 30e-6, most_coming_back = 10e-6;
static double coming_back, last_lasted;
static int times_come_back;

static void note_leaving(void) {
  struct rusage used;
  getrusage(RUSAGE_THREAD, &used);
  left.at = machine_now();
  left.processor = machine_clock(CLOCK_THREAD_CPUTIME_ID);
  left.pushed = used.ru_nivcsw;
  left.waited = used.ru_nvcsw;
  last_inside = syscall(SYS_gettid);
}

/* Seconds since then in which the thread could have run, and did not, as the machine was busy with something else: no
 * time of the program's. Where it also waited by itself, or another thread has been inside, nothing is known. */
static double pushed_off(double now) {
  struct rusage used;
  if (last_inside != syscall(SYS_gettid)) return 0;
  getrusage(RUSAGE_THREAD, &used);
  if (used.ru_nivcsw == left.pushed || used.ru_nvcsw != left.waited) return 0;
  double lost = (now - left.at) - (machine_clock(CLOCK_THREAD_CPUTIME_ID) - left.processor);
  return lost > 0 ? lost : 0;
}

static double spent_coming_back(double gap) {
  if (last_lasted < long_inside || last_inside != syscall(SYS_gettid)) return 0;
  double shortest = times_come_back++ && coming_back < gap ? coming_back : gap;
  coming_back = shortest < most_coming_back ? shortest : most_coming_back;
  return times_come_back < FEWEST_SHORTEST ? 0 : coming_back;
}

void kc_stop_clock(void) {
  if (depth) {
    depth++;
    return;
  }
  turn++;
  double now = machine_now();
  entered_at = now;
  double pushed = pushed_off(now);
  inside = inside + pushed + spent_coming_back(now - left.at - pushed);
  processor_entered_at = kc_device()->virtual_clock ? machine_clock(CLOCK_THREAD_CPUTIME_ID) : -1;
  depth = 1;
  turn++;
}

void kc_start_clock(void) {
  if (depth > 1) {
    depth--;
    return;
  }
  turn++;
  note_leaving();
  last_lasted = left.at - entered_at;
  inside = inside + last_lasted;
  double processor_at = processor_entered_at < 0 ? 0 : machine_clock(CLOCK_THREAD_CPUTIME_ID) - processor_entered_at;
  processor_inside = processor_inside + processor_at;
  depth = 0;
  turn++;
}

void kc_reset_clock(void) {
  depth = 0;
  turn = 0;
}

/* All times are seconds since this library was loaded, which is as early as a program can be seen. */
static double started;

__attribute__((constructor)) static void note_start(void) {
  started = machine_now();
  note_leaving();
}

double kc_host_now(void) { return (depth ? entered_at : machine_now()) - inside - started; }

double kc_now(void) { return kc_host_now() + virtual_seconds; }

double kc_clock_shift(void) {
  double shift = 0;
  if (!kc_device()->virtual_clock) return 0;
  /* A handler of signals may have stopped the very thread that would end the turn. */
  for (int tries = 0; tries < 1000; tries++) {
    unsigned before = turn;
    shift = virtual_seconds - inside;
    if (depth) shift -= machine_now() - entered_at;
    if (!(before & 1) && before == turn) break;
  }
  return shift;
}

double kc_processor_shift(void) { return kc_device()->virtual_clock ? virtual_seconds - processor_inside : 0; }

static kc_stream *of(kc_stream *stream) { return (uintptr_t)stream <= 2 ? &first : stream; }

static const kc_stream *of_const(const kc_stream *stream) { return (uintptr_t)stream <= 2 ? &first : stream; }

/* With a virtual clock time passes as forecast; without one, as the machine's clock saw it pass inside. */
static double passed(double forecast) {
  return kc_device()->virtual_clock ? forecast : machine_now() - entered_at;
}

static double later(double a, double b) { return a > b ? a : b; }

/* Work of the default stream begins when all other streams have done theirs, and they wait for it. */
static double begins_at(const kc_stream *stream) {
  double at = later(kc_now(), stream->free_at);
  if (stream->flags & NON_BLOCKING) return at;
  if (stream != &first) return later(at, first.free_at);
  for (const kc_stream *each = streams; each; each = each->next)
    if (!(each->flags & NON_BLOCKING)) at = later(at, each->free_at);
  return at;
}

void kc_add_work(kc_stream *stream, double seconds, double call_seconds) {
  kc_stream *own = of(stream);
  double begin = begins_at(own);
  if (kc_device()->virtual_clock) virtual_seconds = virtual_seconds + call_seconds;
  own->free_at = later(begin, kc_now()) + passed(seconds);
}

/* When the engine of each way of a copy will be free. */
static double copying[4];

void kc_add_copy(kc_stream *stream, uint32_t way, double seconds) {
  kc_stream *own = of(stream);
  if (kc_device()->virtual_clock) own->free_at = later(own->free_at, copying[way]);
  kc_add_work(stream, seconds, 0);
  copying[way] = own->free_at;
}

/* Kernels that may still run; of more than these the earliest is forgotten. */
enum { MOST_RUNNING = 128 };
static struct running {
  double end, share;
} running[MOST_RUNNING];
static int running_count;

/* The first moment from one on when the SMs have room for a kernel of this share. */
static double with_room(double begin, double share) {
  double taken = 0;
  int count = 0;
  for (int i = 0; i < running_count; i++)
    if (running[i].end > begin) taken += (running[count++] = running[i]).share;
  running_count = count;
  for (int i = 0; i < count && taken + share > 1 + 1e-9; i++) {
    begin = running[i].end;
    taken -= running[i].share;
  }
  return begin;
}

/* They stay in the order of their ends. */
static void note_running(double end, double share) {
  if (running_count == MOST_RUNNING)
    for (int i = 1; i < running_count--; i++) running[i - 1] = running[i];
  int place = running_count++;
  for (; place && running[place - 1].end > end; place--) running[place] = running[place - 1];
  running[place] = (struct running){end, share};
}

void kc_add_kernel(kc_stream *stream, double seconds, double share, double call_seconds) {
  kc_stream *own = of(stream);
  bool is_shared = kc_device()->virtual_clock && share > 0;
  if (is_shared) own->free_at = later(own->free_at, with_room(begins_at(own), share));
  kc_add_work(stream, seconds, call_seconds);
  if (is_shared) note_running(own->free_at, share);
}

static void wait_until(double at) {
  double now = kc_now();
  if (at > now) virtual_seconds = virtual_seconds + (at - now);
}

void kc_catch_up(const kc_stream *stream) { wait_until(of_const(stream)->free_at); }

uint32_t kc_stream_number(const kc_stream *stream) { return of_const(stream)->number; }

bool kc_is_stream(const kc_stream *stream) {
  if ((uintptr_t)stream <= 2) return true;
  bool found = false;
  kc_lock();
  for (const kc_stream *each = streams; each && !found; each = each->next) found = each == stream;
  kc_unlock();
  return found;
}

kc_stream *kc_new_stream(unsigned flags, int priority) {
  kc_stream *stream = calloc(1, sizeof *stream);
  kc_enter();
  stream->number = ++stream_count;
  stream->flags = flags;
  stream->priority = priority;
  stream->next = first.next;
  first.next = stream;
  uint32_t fields[2] = {stream->number, flags};
  int32_t level = priority;
  kc_head(KC_STREAM, 12);
  kc_put(fields, 8);
  kc_put(&level, 4);
  kc_leave();
  return stream;
}

int kc_end_stream(kc_stream *stream) {
  if ((uintptr_t)stream <= 2) return KC_INVALID_HANDLE;
  kc_enter();
  kc_stream *before = streams;
  while (before && before->next != stream) before = before->next;
  if (before) {
    before->next = stream->next;
    /* What it still has to do is waited for with the device. */
    first.free_at = later(first.free_at, stream->free_at);
    free(stream);
  }
  kc_leave();
  return before ? KC_OK : KC_INVALID_HANDLE;
}

unsigned kc_stream_flags(const kc_stream *stream) { return of_const(stream)->flags; }

int kc_stream_priority(const kc_stream *stream) { return of_const(stream)->priority; }

kc_event *kc_new_event(unsigned flags) {
  kc_event *event = calloc(1, sizeof *event);
  kc_enter();
  event->number = ++event_count;
  event->flags = flags;
  kc_leave();
  return event;
}

int kc_end_event(kc_event *event) {
  if (!event) return KC_INVALID_HANDLE;
  kc_forget_event(event);
  free(event);
  return KC_OK;
}

static void say_two(uint32_t kind, uint32_t one, uint32_t two) {
  double at = kc_host_now();
  uint32_t fields[2] = {one, two};
  kc_head(kind, 16);
  kc_put(&at, 8);
  kc_put(fields, 8);
}

int kc_record(kc_event *event, kc_stream *stream) {
  int error;
  if (!event || !kc_is_stream(stream)) return KC_INVALID_HANDLE;
  if (kc_take_record(event, stream, &error)) return error;
  kc_enter();
  event->recorded = true;
  event->at = begins_at(of(stream));
  say_two(KC_RECORD, event->number, kc_stream_number(stream));
  kc_leave();
  return KC_OK;
}

int kc_depend(kc_stream *stream, kc_event *event) {
  int error;
  if (!event || !kc_is_stream(stream)) return KC_INVALID_HANDLE;
  if (kc_take_depend(stream, event, &error)) return error;
  if (!event->recorded) return KC_OK;
  kc_enter();
  kc_stream *own = of(stream);
  own->free_at = later(own->free_at, event->at);
  say_two(KC_DEPEND, own->number, event->number);
  kc_leave();
  return KC_OK;
}

int kc_wait_device(void) {
  int error = kc_check_wait_device();
  if (error) return error;
  kc_enter();
  double at = 0;
  for (const kc_stream *each = streams; each; each = each->next) at = later(at, each->free_at);
  say_two(KC_WAIT, KC_WHOLE_DEVICE, 0);
  wait_until(at);
  kc_leave();
  return kc_lasting_error();
}

int kc_wait_stream(kc_stream *stream) {
  if (!kc_is_stream(stream)) return KC_INVALID_HANDLE;
  int error = kc_check_wait_stream(stream);
  if (error) return error;
  kc_enter();
  say_two(KC_WAIT, KC_ONE_STREAM, kc_stream_number(stream));
  wait_until(of(stream) == &first ? begins_at(&first) : of(stream)->free_at);
  kc_leave();
  return kc_lasting_error();
}

int kc_wait_event(kc_event *event) {
  if (!event) return KC_INVALID_HANDLE;
  int error = kc_check_wait_event(event);
  if (error) return error;
  kc_enter();
  say_two(KC_WAIT, KC_ONE_EVENT, event->number);
  wait_until(event->at);
  kc_leave();
  return kc_lasting_error();
}

/* A program that asks again and again gets on: each question takes a microsecond of the virtual clock. */
static int is_done(double at) {
  kc_enter();
  bool done = at <= kc_now();
  if (!done) virtual_seconds = virtual_seconds + 1e-6;
  kc_leave();
  return done ? kc_lasting_error() : KC_NOT_READY;
}

int kc_query_stream(kc_stream *stream) {
  if (!kc_is_stream(stream)) return KC_INVALID_HANDLE;
  int error = kc_check_wait_stream(stream);
  return error ? error : is_done(of(stream)->free_at);
}

int kc_query_event(kc_event *event) {
  if (!event) return KC_INVALID_HANDLE;
  int error = kc_check_wait_event(event);
  return error ? error : is_done(event->at);
}

int kc_elapsed_ms(const kc_event *first_event, const kc_event *last_event, float *ms) {
  if (!first_event || !last_event || !first_event->recorded || !last_event->recorded) return KC_INVALID_HANDLE;
  if ((first_event->flags | last_event->flags) & NO_TIMING) return KC_INVALID_HANDLE;
  if (later(first_event->at, last_event->at) > kc_now()) return KC_NOT_READY;
  *ms = (float)(1e3 * (last_event->at - first_event->at));
  return KC_OK;
}
