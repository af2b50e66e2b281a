/* What programs made after NVIDIA's samples include for options and timers. */
#ifndef COMMON_HELPER_FUNCTIONS_H_
#define COMMON_HELPER_FUNCTIONS_H_

#include <helper_string.h>
#include <helper_timer.h>

#endif
