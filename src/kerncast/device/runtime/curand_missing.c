/* Entry points of cuRAND that are not there: each tells the user so when a program calls it, and returns
 * CURAND_STATUS_INTERNAL_ERROR. Part of libcurand.so. */
#include "core.h"

#define MISSING(name)  \
  int name(void) {     \
    kc_missing(#name); \
    return 999;        \
  }

MISSING(curandGenerateBinomial)
MISSING(curandGenerateBinomialMethod)
MISSING(curandGeneratePoissonMethod)
MISSING(curandGetDirectionVectors32)
MISSING(curandGetDirectionVectors64)
MISSING(curandGetScrambleConstants32)
MISSING(curandGetScrambleConstants64)
