/* What a program on the virtual GPU and its server say to one another. device/wire.py holds the same numbers.
 *
 * A message is its kind and the bytes that follow, both of 32 bits, then the fields in the order given here, without
 * padding, little-endian. The program writes; where a reply is named, it waits for it. Times are seconds of the
 * program's own clock, which stands still while the virtual GPU works. */
#ifndef KERNCAST_WIRE_H
#define KERNCAST_WIRE_H

#include <stdint.h>

#define KC_PROTOCOL 2

enum kc_message {
  KC_HELLO = 1,      /* u32 protocol, u32 process; with the memory's file. Reply: struct kc_device */
  KC_MODULE = 2,     /* i32 module, u32 form, the code */
  KC_VARIABLE = 3,   /* i32 module, u64 address, u64 bytes, name */
  KC_ALLOCATE = 4,   /* f64 at, u64 address, u64 bytes, u32 kind */
  KC_FREE = 5,       /* f64 at, u64 address */
  KC_COPY = 6,       /* f64 at, u64 to, u64 from, u64 bytes, u32 direction, u32 stream, u32 waits */
  KC_FILL = 7,       /* f64 at, u64 to, u64 bytes, u32 stream, u32 waits */
  KC_WAIT = 8,       /* f64 at, u32 what, u32 number */
  KC_RECORD = 9,     /* f64 at, u32 event, u32 stream */
  KC_DEPEND = 10,    /* f64 at, u32 stream, u32 event */
  KC_FUNCTION = 11,  /* i32 function, i32 module, name. Reply: struct kc_function_head, then its parameters */
  KC_LAUNCH = 12,    /* f64 at, i32 function, u32 grid[3], u32 block[3], u32 shared, u32 stream, u32 flags, parameters.
                        The flags are those below, and the blocks of a cluster in x, y and z: 5 bits each from bit 8 on,
                        0 where the launch names no cluster.
                        Reply: struct kc_done, then the text that the kernel printed */
  KC_SYMBOL = 13,    /* i32 module, name. Reply: u64 address, u64 bytes; 0 where there is none */
  KC_LIBRARY = 14,   /* f64 at, u32 stream, u32 bytes of the name, name, operands. Reply: struct kc_done */
  KC_MISSING = 15,   /* name of an entry point that is not there */
  KC_NOTE = 16,      /* text for the user */
  KC_GOODBYE = 17,   /* f64 at */
  KC_STREAM = 18,    /* u32 stream, u32 flags, i32 priority */
};

enum kc_form { KC_PTX = 1, KC_FATBIN = 2, KC_SOURCE = 3, KC_MACHINE_CODE = 4 };
enum kc_kind { KC_DEVICE_MEMORY = 0, KC_PINNED = 1, KC_MANAGED = 2, KC_VARIABLE_MEMORY = 3, KC_REGISTERED = 4 };
enum kc_direction { KC_HOST_TO_HOST = 0, KC_HOST_TO_DEVICE = 1, KC_DEVICE_TO_HOST = 2, KC_DEVICE_TO_DEVICE = 3 };
enum kc_waited { KC_WHOLE_DEVICE = 0, KC_ONE_STREAM = 1, KC_ONE_EVENT = 2 };
enum kc_launch_flag { KC_COOPERATIVE = 1, KC_FROM_GRAPH = 2 };
#define KC_CLUSTER_SHIFT(axis) (8 + 5 * (axis))
#define KC_CLUSTER(flags, axis) ((flags) >> KC_CLUSTER_SHIFT(axis) & 31)
#define KC_CLUSTER_FLAGS (UINT32_C(0x7fff) << 8)

/* First address of the device's memory: kerncast.execute.setup.arena.GLOBAL_BASE. */
#define KC_BASE (UINT64_C(1) << 44)

struct kc_device {
  char name[256];
  uint8_t uuid[16];
  int32_t major, minor, multiprocessors, clock_khz, memory_clock_khz, bus_bits, l2_bytes, shared_per_block;
  int32_t shared_per_block_optin, shared_per_multiprocessor, reserved_shared, registers_per_block;
  int32_t registers_per_multiprocessor, threads_per_multiprocessor, blocks_per_multiprocessor, virtual_clock;
  uint64_t memory_bytes;
  uint64_t budget_bytes; /* of memory that may be touched on this machine */
  double launch_s;       /* of the processor, for one launch */
  double copy_s;         /* of any copy, beside what its bytes take */
  double to_device_bytes_per_s, to_host_bytes_per_s, on_device_bytes_per_s;
  double pageable; /* rate of copies of memory that is not pinned, as a part of the others' */
};

struct kc_function_head {
  int32_t parameters; /* -1: the kernel is not there, or cannot be executed */
  int32_t registers, shared, local, constant, most_threads, ptx_version, binary_version;
};

struct kc_parameter {
  int32_t offset, bytes;
};

struct kc_done {
  int32_t status; /* of cudaError_t */
  uint32_t text_bytes;
  double seconds; /* forecast of the duration on the device; 0 without a clock */
  double share;   /* part of the SMs that it fills; 0 where that is not known */
};

#endif
