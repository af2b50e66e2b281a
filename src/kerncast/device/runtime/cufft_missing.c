/* Entry points of cuFFT that are not there: each tells the user so when a program calls it, and returns
 * CUFFT_NOT_SUPPORTED. Part of libcufft.so. */
#include "core.h"

#define MISSING(name)  \
  int name(void) {     \
    kc_missing(#name); \
    return 16;         \
  }

MISSING(cufftGetPlanPropertyInt64)
MISSING(cufftGetSizeMany64)
MISSING(cufftResetPlanProperty)
MISSING(cufftSetPlanPropertyInt64)
MISSING(cufftXtClearCallback)
MISSING(cufftXtExecDescriptor)
MISSING(cufftXtExecDescriptorC2C)
MISSING(cufftXtExecDescriptorC2R)
MISSING(cufftXtExecDescriptorD2Z)
MISSING(cufftXtExecDescriptorR2C)
MISSING(cufftXtExecDescriptorZ2D)
MISSING(cufftXtExecDescriptorZ2Z)
MISSING(cufftXtFree)
MISSING(cufftXtMalloc)
MISSING(cufftXtMemcpy)
MISSING(cufftXtQueryPlan)
MISSING(cufftXtSetCallback)
MISSING(cufftXtSetCallbackSharedSize)
MISSING(cufftXtSetDistribution)
MISSING(cufftXtSetGPUs)
MISSING(cufftXtSetJITCallback)
MISSING(cufftXtSetSubformatDefault)
MISSING(cufftXtSetWorkArea)
MISSING(cufftXtSetWorkAreaPolicy)
