/* What the files of the core share with one another, and with nobody else. */
#ifndef KERNCAST_INSIDE_H
#define KERNCAST_INSIDE_H

#include "core.h"

/* core.c: one thread at a time is inside; meanwhile the program's clock stands still. */
void kc_enter(void);
void kc_leave(void);
void kc_head(uint32_t kind, size_t bytes);
void kc_put(const void *data, size_t bytes);
void kc_flush(void);
void kc_take(void *data, size_t bytes);
int kc_memory_file(void);

/* memory.c: bytes of address space. */
void kc_room(uint64_t bytes);

/* streams.c */
void kc_stop_clock(void);
void kc_start_clock(void);
/* The clock of the program as far as it is its own: what it would show were all work of the device free. */
double kc_host_now(void);
/* Work that a call has put into a stream, and what the call itself takes of the processor. */
void kc_add_work(kc_stream *stream, double seconds, double call_seconds);
/* Lets the host wait until a stream has done its work. */
void kc_catch_up(const kc_stream *stream);
uint32_t kc_stream_number(const kc_stream *stream);

/* graphs.c: whether a captured stream takes an operation as a node. */
bool kc_take_launch(const struct kc_launch *launch);
bool kc_take_copy(void *to, const void *from, struct kc_rows rows, kc_stream *stream);
bool kc_take_fill(void *to, uint32_t value, int element_bytes, size_t count, kc_stream *stream);

#endif
