/* What the files of libcublas.so share: handles, and how a call is told to the server. */
#ifndef KERNCAST_CUBLAS_CALLS_H
#define KERNCAST_CUBLAS_CALLS_H

#include <cublas_v2.h>

#include "core.h"

/* Asks the server for a function of this name, with operands by the letters of a form:
 *
 *   i  int               l  long long           p  pointer of the device
 *   s  scalar that is read       r  result       x  scalar that is read and written
 *
 * The last three are a pointer and how many bytes there are behind it: of the host or of the device, by the handle's
 * pointer mode. */
cublasStatus_t kc_blas(cublasHandle_t handle, const char *name, const char *form, ...);

/* The server takes a scalar by its bytes. */
#define BY(scalar) (scalar), sizeof *(scalar)

#endif
