// Stands for all headers of Thrust that do not compile under NVRTC: containers and algorithms that host code calls.
#pragma once
#include "kerncast_opaque.h"
namespace thrust {
KERNCAST_EMPTY_TEMPLATE(host_vector)
KERNCAST_EMPTY_TEMPLATE(device_vector)
KERNCAST_EMPTY_TEMPLATE(universal_vector)
KERNCAST_EMPTY_TEMPLATE(device_ptr)
KERNCAST_EMPTY_TEMPLATE(universal_ptr)
KERNCAST_EMPTY_TEMPLATE(device_allocator)
KERNCAST_EMPTY_TEMPLATE(device_reference)
}
