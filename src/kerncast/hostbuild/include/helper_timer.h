/* Timers of the host, as programs made after NVIDIA's samples use them; times are milliseconds. */
#ifndef COMMON_HELPER_TIMER_H_
#define COMMON_HELPER_TIMER_H_

#include <time.h>

class StopWatchInterface {
 public:
  void start() {
    begin_ = now();
    running_ = true;
  }
  void stop() {
    last_ = now() - begin_;
    total_ += last_;
    sessions_++;
    running_ = false;
  }
  void reset() {
    total_ = last_ = 0;
    sessions_ = 0;
    if (running_) begin_ = now();
  }
  float getTime() { return (float)(running_ ? total_ + now() - begin_ : total_); }
  float getAverageTime() { return sessions_ ? (float)(total_ / sessions_) : 0.f; }

 private:
  static double now() {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
  }
  double begin_ = 0, last_ = 0, total_ = 0;
  int sessions_ = 0;
  bool running_ = false;
};

inline bool sdkCreateTimer(StopWatchInterface **timer) {
  *timer = new StopWatchInterface();
  return true;
}
inline bool sdkDeleteTimer(StopWatchInterface **timer) {
  delete *timer;
  *timer = nullptr;
  return true;
}
inline bool sdkStartTimer(StopWatchInterface **timer) { return *timer ? ((*timer)->start(), true) : false; }
inline bool sdkStopTimer(StopWatchInterface **timer) { return *timer ? ((*timer)->stop(), true) : false; }
inline bool sdkResetTimer(StopWatchInterface **timer) { return *timer ? ((*timer)->reset(), true) : false; }
inline float sdkGetTimerValue(StopWatchInterface **timer) { return *timer ? (*timer)->getTime() : -1.f; }
inline float sdkGetAverageTimerValue(StopWatchInterface **timer) { return *timer ? (*timer)->getAverageTime() : 0.f; }

#endif
