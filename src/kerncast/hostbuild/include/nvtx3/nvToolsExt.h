/* Where NVTX 3 has it. */
#include "../nvToolsExt.h"
