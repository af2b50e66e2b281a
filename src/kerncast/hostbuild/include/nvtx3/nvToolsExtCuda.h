/* Names of streams and events for a profiler: there is none. */
#include "../nvToolsExt.h"
