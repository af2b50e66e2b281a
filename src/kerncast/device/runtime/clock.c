/* The clocks that a program reads: they show the time that a GPU would have taken. Part of libkerncast_device.so, which
 * is loaded before all others, so that these functions stand before those of the C library.
 *
 * They may be called before anything else here, from any thread and from handlers of signals: no locks, no memory.
 * Without a virtual clock they are plain system calls. Sleeping is real; but where a program names a moment until which
 * it wants to wait, it has read that from the clock here, and the system has another. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "core.h"

#define NANOSECONDS INT64_C(1000000000)

static int64_t to_nanoseconds(double seconds) { return (int64_t)(seconds * 1e9); }

static void move(struct timespec *time, int64_t nanoseconds) {
  int64_t whole = (int64_t)time->tv_sec * NANOSECONDS + time->tv_nsec + nanoseconds;
  if (whole < 0) whole = 0;
  time->tv_sec = (time_t)(whole / NANOSECONDS);
  time->tv_nsec = (long)(whole % NANOSECONDS);
}

/* Threads see one clock: what one has read, none reads less of later. */
static void never_back(struct timespec *time) {
  static _Atomic int64_t latest;
  int64_t now = (int64_t)time->tv_sec * NANOSECONDS + time->tv_nsec, before = latest;
  while (now > before && !atomic_compare_exchange_weak(&latest, &before, now)) continue;
  if (before > now) move(time, before - now);
}

static bool is_of_processor(clockid_t clock) {
  return clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
}

static bool is_shifted(clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_TAI: return true;
    default: return is_of_processor(clock);
  }
}

static int read_clock(clockid_t clock, struct timespec *time) {
  /* The shift first: what is read later is not behind it. */
  double shift = is_of_processor(clock) ? kc_processor_shift() : kc_clock_shift();
  int error = (int)syscall(SYS_clock_gettime, clock, time);
  if (error || !kc_device()->virtual_clock || !is_shifted(clock)) return error;
  move(time, to_nanoseconds(shift));
  if (clock == CLOCK_MONOTONIC) never_back(time);
  return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) { return read_clock(clock, time); }

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void)zone; /* out of use */
  if (read_clock(CLOCK_REALTIME, &now)) return -1;
  *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *place) {
  struct timespec now;
  if (read_clock(CLOCK_REALTIME, &now)) return (time_t)-1;
  if (place) *place = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec *time, int base) {
  return base == TIME_UTC && !read_clock(CLOCK_REALTIME, time) ? base : 0;
}

clock_t clock(void) {
  struct timespec now;
  if (read_clock(CLOCK_PROCESS_CPUTIME_ID, &now)) return (clock_t)-1;
  return (clock_t)now.tv_sec * CLOCKS_PER_SEC + (clock_t)(now.tv_nsec / (NANOSECONDS / CLOCKS_PER_SEC));
}

/* --- moments until which a program waits --- */

/* A moment of the program's clock, by the system's. */
static const struct timespec *of_system(const struct timespec *moment, struct timespec *place) {
  if (!moment || !kc_device()->virtual_clock || moment->tv_nsec < 0 || moment->tv_nsec >= NANOSECONDS) return moment;
  *place = *moment;
  move(place, -to_nanoseconds(kc_clock_shift()));
  return place;
}

/* The C library's own function. Several of these have had older forms, which a look-up without a version may find. */
static void *own(const char *name) {
  void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict moment) {
  typedef int function(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  static function *_Atomic found;
  struct timespec place;
  if (!found) found = (function *)own("pthread_cond_timedwait");
  return found(condition, mutex, of_system(moment, &place));
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict moment) {
  typedef int function(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
  static function *_Atomic found;
  struct timespec place;
  if (!found) found = (function *)own("pthread_cond_clockwait");
  return found ? found(condition, mutex, clock, of_system(moment, &place)) : ENOSYS;
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict moment) {
  typedef int function(pthread_mutex_t *, const struct timespec *);
  static function *_Atomic found;
  struct timespec place;
  if (!found) found = (function *)own("pthread_mutex_timedlock");
  return found(mutex, of_system(moment, &place));
}

int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t clock, const struct timespec *restrict moment) {
  typedef int function(pthread_mutex_t *, clockid_t, const struct timespec *);
  static function *_Atomic found;
  struct timespec place;
  if (!found) found = (function *)own("pthread_mutex_clocklock");
  return found ? found(mutex, clock, of_system(moment, &place)) : ENOSYS;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict moment) {
  typedef int function(sem_t *, const struct timespec *);
  static function *_Atomic found;
  struct timespec place;
  if (!found) found = (function *)own("sem_timedwait");
  return found(semaphore, of_system(moment, &place));
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict moment) {
  typedef int function(sem_t *, clockid_t, const struct timespec *);
  static function *_Atomic found;
  struct timespec place;
  if (!found) found = (function *)own("sem_clockwait");
  if (found) return found(semaphore, clock, of_system(moment, &place));
  errno = ENOSYS;
  return -1;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wish, struct timespec *rest) {
  typedef int function(clockid_t, int, const struct timespec *, struct timespec *);
  static function *_Atomic found;
  struct timespec place;
  if (!found) found = (function *)own("clock_nanosleep");
  bool is_moment = flags & TIMER_ABSTIME && is_shifted(clock) && !is_of_processor(clock);
  return found(clock, flags, is_moment ? of_system(wish, &place) : wish, rest);
}
