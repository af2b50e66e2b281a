"""Stand-ins for headers of C: the part that device code can use."""

_STDINT = """#pragma once
#ifndef _LIBCUDACXX___CUDA_CSTDINT_PRELUDE_H
#define KERNCAST_WIDTH(N) \\
  typedef int##N##_t int_fast##N##_t; typedef uint##N##_t uint_fast##N##_t; \\
  typedef int##N##_t int_least##N##_t; typedef uint##N##_t uint_least##N##_t;
KERNCAST_WIDTH(8) KERNCAST_WIDTH(16) KERNCAST_WIDTH(32) KERNCAST_WIDTH(64)
#undef KERNCAST_WIDTH
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
#define INT8_MIN SCHAR_MIN
#define INT16_MIN SHRT_MIN
#define INT32_MIN INT_MIN
#define INT64_MIN LLONG_MIN
#define INT8_MAX SCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT32_MAX INT_MAX
#define INT64_MAX LLONG_MAX
#define UINT8_MAX UCHAR_MAX
#define UINT16_MAX USHRT_MAX
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULLONG_MAX
#define INT8_C(X) ((int_least8_t) (X))
#define INT16_C(X) ((int_least16_t) (X))
#define INT32_C(X) ((int_least32_t) (X))
#define INT64_C(X) ((int_least64_t) (X))
#define UINT8_C(X) ((uint_least8_t) (X))
#define UINT16_C(X) ((uint_least16_t) (X))
#define UINT32_C(X) ((uint_least32_t) (X))
#define UINT64_C(X) ((uint_least64_t) (X))
#endif
#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define SIZE_MAX ULLONG_MAX
#define PTRDIFF_MAX INT64_MAX
"""

_CSTDINT = """#pragma once
#include "stdint.h"
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::intptr_t; using ::uintptr_t;
}
"""

_FLOAT = """#pragma once
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define FLT_MAX_EXP 128
#define FLT_MIN_EXP (-125)
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MAX_EXP 1024
#define DBL_MIN_EXP (-1021)
"""

_STDDEF = """#pragma once
#ifndef offsetof
#define offsetof(TYPE, MEMBER) ((decltype(sizeof(0))) & (((TYPE *)0)->MEMBER))
#endif
namespace std {
typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
}
#ifndef KERNCAST_PARSE
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
#endif
"""

# Functions that CUDA declares for device code in the global namespace and, under nvcc, in std as well.
_STD_MATH = (
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim"
    " floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint"
    " lround modf nearbyint nextafter pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh"
    " tgamma trunc isfinite isinf isnan signbit"
)

_CMATH = (
    "#pragma once\n#ifndef KERNCAST_PARSE\nnamespace std {\n"
    + "\n".join(f"using ::{name};" for name in _STD_MATH.split())
    + "\n}\n#endif\n"
)

_CSTRING = """#pragma once
#ifndef KERNCAST_PARSE
namespace std { using ::memcpy; using ::memset; }
#endif
"""

_CSTDIO = """#pragma once
struct KerncastFile; typedef struct KerncastFile FILE;
#ifndef KERNCAST_PARSE
namespace std { using ::printf; }
#endif
"""

_CSTDLIB = """#pragma once
#ifndef KERNCAST_PARSE
namespace std { using ::malloc; using ::free; using ::abs; }
#endif
"""

_TIME = """#pragma once
struct timeval { long tv_sec; long tv_usec; };
struct timespec { long tv_sec; long tv_nsec; };
struct timezone; struct tm; struct rusage; struct stat;
"""

#: What host code owns, on Linux with 64 bits.
_PTHREAD_BYTES = {
    "mutex": 40, "mutexattr": 8, "cond": 48, "condattr": 8, "barrier": 32, "barrierattr": 8, "rwlock": 56, "attr": 56,
}  # fmt: skip

_PTHREAD = "#pragma once\ntypedef unsigned long pthread_t;\ntypedef unsigned pthread_key_t;\n" + "\n".join(
    f"typedef union {{ char bytes[{size}]; long align; }} pthread_{name}_t;" for name, size in _PTHREAD_BYTES.items()
)

_EMPTY = (
    "assert.h cassert limits.h climits stdbool.h cstdbool sys/mman.h unistd.h getopt.h errno.h cerrno signal.h"
    " csignal ctype.h cctype stdarg.h cstdarg fcntl.h fenv.h omp.h mpi.h windows.h Windows.h err.h error.h"
)

#: Names under which a source may include a stand-in, and its text.
HEADERS: tuple[tuple[str, str], ...] = (
    ("stdint.h inttypes.h sys/types.h", _STDINT),
    ("cstdint cinttypes", _CSTDINT),
    ("float.h cfloat", _FLOAT),
    ("stddef.h cstddef", _STDDEF),
    ("math.h cmath", _CMATH),
    ("string.h cstring memory.h strings.h", _CSTRING),
    ("stdio.h cstdio", _CSTDIO),
    ("stdlib.h cstdlib malloc.h", _CSTDLIB),
    ("time.h ctime sys/time.h sys/times.h sys/timeb.h sys/stat.h sys/resource.h", _TIME),
    ("pthread.h", _PTHREAD),
    (_EMPTY, "#pragma once\n"),
)
