/* What the files of the core share with one another, and with nobody else. */
#ifndef KERNCAST_INSIDE_H
#define KERNCAST_INSIDE_H

#include "core.h"

/* core.c: one thread at a time is inside; meanwhile the program's clock stands still. Entering takes the lock. */
void kc_enter(void);
void kc_leave(void);
void kc_head(uint32_t kind, size_t bytes);
void kc_put(const void *data, size_t bytes);
void kc_flush(void);
void kc_take(void *data, size_t bytes);
int kc_memory_file(void);
/* How many bytes the parameters of a kernel take. */
size_t kc_parameter_bytes(const kc_function *function);
/* Writes the parameters of a launch as its kernel finds them, and returns how many bytes they take. */
uint32_t kc_pack(const struct kc_launch *launch, unsigned char *to, size_t room);

/* Does a call at once; one that a graph launches has been paid for with it. */
int kc_call_library(const struct kc_library_call *call, kc_stream *stream, bool from_graph);

/* memory.c: bytes of address space. */
void kc_room(uint64_t bytes);
int kc_allocate_variable(size_t bytes, bool is_managed, uint64_t *address);
/* Takes note of memory that the server has placed. */
void kc_know(uint64_t address, uint64_t bytes);
/* Puts the device's addresses in the place of registered ones of the host: on a GPU they are the same. */
void kc_translate(unsigned char *parameters, size_t bytes);

/* streams.c */
void kc_stop_clock(void);
void kc_start_clock(void);
/* For a forked child, whose parent may have been inside. */
void kc_reset_clock(void);
/* The clock of the program as far as it is its own: what it would show were all work of the device free. */
double kc_host_now(void);
/* Work that a call has put into a stream, and what the call itself takes of the processor. */
void kc_add_work(kc_stream *stream, double seconds, double call_seconds);
/* A copy that a call has put into a stream: one of each way at a time. */
void kc_add_copy(kc_stream *stream, uint32_t way, double seconds);
/* A kernel, which fills a share of the device's SMs. */
void kc_add_kernel(kc_stream *stream, double seconds, double share, double call_seconds);
/* Lets the host wait until a stream has done its work. */
void kc_catch_up(const kc_stream *stream);

/* capture.c: whether a captured stream takes an operation as a node; *error tells whether it could. */
bool kc_take_launch(const struct kc_launch *launch, int *error);
bool kc_take_copy(void *to, const void *from, struct kc_rows rows, kc_stream *stream, int *error);
bool kc_take_library(const struct kc_library_call *call, kc_stream *stream, int *error);
bool kc_take_fill(void *to, struct kc_pattern pattern, kc_stream *stream, int *error);
bool kc_take_record(kc_event *event, kc_stream *stream, int *error);
bool kc_take_depend(kc_stream *stream, kc_event *event, int *error);
/* What captures forbid: to wait for or to ask about what they have taken. */
int kc_check_wait_device(void);
int kc_check_wait_stream(kc_stream *stream);
int kc_check_wait_event(const kc_event *event);
void kc_forget_event(const kc_event *event);

#endif
