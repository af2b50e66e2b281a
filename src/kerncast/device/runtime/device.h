/* What a program may ask of the device itself: attributes, limits, contexts, pools of memory, and texts of errors.
 * Numbers of attributes and limits are those that the runtime and the driver have in common. */
#ifndef KERNCAST_DEVICE_H
#define KERNCAST_DEVICE_H

#include "core.h"

/* NULL for a number that is no error. */
const char *kc_error_name(int error, bool of_driver);
const char *kc_error_text(int error);

/* The version of CUDA that the driver is said to have: the newest that a program may be built for, or more. */
#define KC_DRIVER_VERSION 13000
#define KC_PCI_NAME "0000:01:00.0"
/* By how many bytes rows are aligned that CUDA lays out. */
#define KC_PITCH 512

int kc_attribute(int attribute, int *value);
int kc_limit(int limit, size_t *value);
int kc_set_limit(int limit, size_t value);

/* --- contexts: they only keep their flags, since there is but one device --- */
typedef struct kc_context kc_context;
kc_context *kc_primary_context(void);
/* Returns how often it is held afterwards. */
int kc_hold_primary(int change);
kc_context *kc_new_context(unsigned flags);
int kc_end_context(kc_context *context);
bool kc_is_context(const kc_context *context);
unsigned kc_context_flags(const kc_context *context);
void kc_set_context_flags(kc_context *context, unsigned flags);
unsigned long long kc_context_number(const kc_context *context);
/* The context of this thread, or NULL; and the stack that it is on top of. */
kc_context *kc_current_context(void);
void kc_set_current_context(kc_context *context);
int kc_push_context(kc_context *context);
int kc_pop_context(kc_context **context);

/* --- memory in the order of streams --- */
typedef struct kc_pool kc_pool;
kc_pool *kc_default_pool(void);
kc_pool *kc_device_pool(void);
int kc_set_device_pool(kc_pool *pool);
kc_pool *kc_new_pool(void);
int kc_end_pool(kc_pool *pool);
int kc_pool_attribute(const kc_pool *pool, int attribute, void *value);
int kc_set_pool_attribute(kc_pool *pool, int attribute, const void *value);
int kc_allocate_from_pool(kc_pool *pool, size_t bytes, kc_stream *stream, uint64_t *address);
int kc_free_to_pool(uint64_t address, kc_stream *stream);
/* Frees memory of the kinds in a set of bits, each 1 << kind. */
int kc_free_kind(uint64_t address, unsigned kinds);

#endif
