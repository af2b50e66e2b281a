/* Operands of a call of a library, as kerncast.device.libraries.operands reads them. */
#ifndef KERNCAST_OPERANDS_H
#define KERNCAST_OPERANDS_H

#include <string.h>

#include "core.h"

enum kc_operand_kind { KC_INTEGER = 1, KC_POINTER = 2, KC_SCALAR = 3 };

struct kc_operand {
  uint32_t kind, bytes; /* of a scalar */
  union {
    int64_t integer;
    uint64_t address;
    double real;
    unsigned char raw[16];
  } is;
};

static inline struct kc_operand kc_integer(int64_t value) {
  return (struct kc_operand){KC_INTEGER, 8, {.integer = value}};
}

/* Memory of the host that is no memory of the device is told as it is: the server refuses it. */
static inline struct kc_operand kc_pointer(const void *pointer) {
  uint64_t address = kc_device_address(pointer);
  return (struct kc_operand){KC_POINTER, 8, {.address = address ? address : (uint64_t)(uintptr_t)pointer}};
}

static inline struct kc_operand kc_scalar(const void *value, size_t bytes) {
  struct kc_operand made = {KC_SCALAR, (uint32_t)bytes, {.integer = 0}};
  memcpy(made.is.raw, value, bytes < sizeof made.is.raw ? bytes : sizeof made.is.raw);
  return made;
}

static inline struct kc_operand kc_real(double value) { return kc_scalar(&value, sizeof value); }

#endif
