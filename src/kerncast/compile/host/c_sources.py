"""libclang set up for sources in C, which hold the main of many programs: they launch nothing, and may be old.

Functions that nothing declares may be called, as C allows; their headers are not looked for.
"""

from collections.abc import Iterable

from kerncast.compile.source.parsing import SHIM_FOLDER

C_SUFFIX = ".c"
C_PRELUDE = f"{SHIM_FOLDER}/kerncast_host_c.h"

#: How the structs begin that stand for types which are not known.
STAND_IN = "kerncast_"

_INTEGERS = "".join(
    f"typedef {sign} {name} {prefix}int{bits}_t;\n"
    for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
    for sign, prefix in (("signed", ""), ("unsigned", "u"))
)

#: What the headers of C and of CUDA's runtime declare with a type that an implicit declaration would miss.
DECLARATIONS = (
    _INTEGERS
    + """
#define NULL ((void *)0)
#define bool _Bool
#define true 1
#define false 0
#define assert(x) ((void)0)
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef long ssize_t, time_t, clock_t, off_t, intptr_t;
typedef unsigned long uintptr_t;
typedef unsigned int uint;
typedef struct kerncast_file FILE;
struct timeval { long tv_sec, tv_usec; };
struct timespec { long tv_sec, tv_nsec; };
struct timezone { int tz_minuteswest, tz_dsttime; };
extern FILE *stdin, *stdout, *stderr;
void *malloc(size_t), *calloc(size_t, size_t), *realloc(void *, size_t), *aligned_alloc(size_t, size_t);
double atof(const char *), strtod(const char *, char **);
float strtof(const char *, char **);
long atol(const char *), strtol(const char *, char **, int);
unsigned long strtoul(const char *, char **, int);
long long atoll(const char *), strtoll(const char *, char **, int);
unsigned long long strtoull(const char *, char **, int);
char *getenv(const char *);
typedef int cudaError_t;
typedef void *cudaStream_t, *cudaEvent_t;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice
};
"""
)


def c_arguments(defines: Iterable[tuple[str, str]], include_dirs: Iterable[object]) -> list[str]:
    """Return the options of the parser for a source in C, old style too."""
    return [
        "-x", "c", "-target", "x86_64-unknown-linux-gnu", "-nostdinc", "-std=gnu11", "-ferror-limit=0", "-w",
        "-Wno-implicit-function-declaration", "-Wno-implicit-int", "-Wno-int-conversion",
        "-Wno-incompatible-function-pointer-types",
        *(f"-D{name}={value}" for name, value in defines),
        "-include", C_PRELUDE,
        *(f"-I{folder}" for folder in include_dirs),
        "-isystem", SHIM_FOLDER,
    ]  # fmt: skip


def c_declared(types: Iterable[str], values: Iterable[str]) -> str:
    """Return declarations of what a source in C names, and no header declares."""
    rows = [f"typedef struct {STAND_IN}{name} {{ int kerncast_unknown; }} {name};" for name in types]
    return "\n".join([*rows, *(f"extern int {name};" for name in values)]) + "\n"
