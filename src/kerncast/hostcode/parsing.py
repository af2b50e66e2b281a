"""libclang set up for host code: as nvcc's host compiler sees it, without the headers of a system.

What is not declared (functions of libraries, types of headers that are missing) is declared as
something that may be called with anything, and the source is parsed again: an unknown name would otherwise take the
whole body of a template with it.
"""

import ctypes
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from clang.cindex import (
    Cursor,
    CursorKind,
    Diagnostic,
    Index,
    LinkageKind,
    SourceLocation,
    TranslationUnit,
    TranslationUnitLoadError,
    Type,
    TypeKind,
    conf,
)

from kerncast.bounded_file import read_bytes
from kerncast.compile.headers import PRELUDE, stand_ins
from kerncast.compile.nouns import SOURCE_FILE
from kerncast.compile.source.parsing import DEVICE_DECLARATIONS, KEEP_GOING, SHIM_FOLDER, TOOLKIT_SHIMS, ParseOptions
from kerncast.errors import CompileError

# Half and bfloat16 as host code sees them: numbers that convert from and to others, so that templates over them hold.
#
# Their constructors and conversions are those of cuda_fp16.h and cuda_bf16.h (CUDA Math API, half precision).


_FROM = ("float", "double", "short", "unsigned short", "int", "unsigned", "long", "unsigned long", "long long",
         "unsigned long long")  # fmt: skip
_BOTH = "__host__ __device__"
_UPDATES = ("+=", "-=", "*=", "/=")
_FUNCTIONS = """
{both} {one} __float2{short}(float); {both} {one} __float2{short}_rn(float); {both} {one} __double2{short}(double);
{both} float __{short}2float({one}); {both} {one} __int2{short}_rn(int); {both} int __{short}2int_rn({one});
{both} {two} __float2{short}2_rn(float); {both} {two} __floats2{short}2_rn(float, float);
{both} {two} __{short}2{short}2({one}); {both} {two} __halves2{short}2({one}, {one});
{both} {two} __float22{short}2_rn(float2); {both} float2 __{short}22float2({two});
"""


def _number(name: str, short: str) -> str:
    """Declare a number of two bytes, a pair of it, and the functions that convert them."""
    rows = [f"{_BOTH} {name}({each});" for each in _FROM]
    rows += [f"{_BOTH} {name} &operator{each}(const {name} &);" for each in _UPDATES]
    pair = f"{name}2" if not name[-1].isdigit() else f"{name.removesuffix('16')}162"
    return (
        f"struct __attribute__((aligned(2))) {name} {{ unsigned short bits; {name}() = default;\n"
        + "\n".join(rows)
        + f"\n{_BOTH} operator float() const; }};\n"
        + f"struct __attribute__((aligned(4))) {pair} {{ {name} x, y; }};\n"
        + _FUNCTIONS.format(both=_BOTH, one=name, two=pair, short=short)
    )


HALF_HEADERS = {
    "cuda_fp16.h": "#pragma once\n#define __CUDA_FP16_H__\n"
    + _number("__half", "half")
    + "typedef __half half;\ntypedef __half2 half2;\n",
    "cuda_bf16.h": '#pragma once\n#define __CUDA_BF16_H__\n#include "cuda_fp16.h"\n'
    + _number("__nv_bfloat16", "bfloat16")
    + "typedef __nv_bfloat16 nv_bfloat16;\ntypedef __nv_bfloat162 nv_bfloat162;\n",
}


# libclang set up for sources in C, which hold the main of many programs: they launch nothing, and may be old.
#
# Functions that nothing declares may be called, as C allows; their headers are not looked for.


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


# What the parser sees of the CUDA runtime and of libraries where host code is read: enough for its types to be known.
#
# Nothing of it is ever run or compiled; a function has a body only where its value matters.


#: The type that what is not declared gets: anything may be done with it.
ANYTHING = "KerncastAny"

#: What functions give of which only the name is known.
UNKNOWN = "KerncastUnknown"

#: Where the members of unknown types go.
_MEMBERS = "  //members\n"

#: Names that any header of C or CUDA may have brought along.
RUNTIME = """
struct KerncastAny {
  //members
  template <class... A> KerncastAny(A &&...) {}
  template <class T> operator T() const;
  template <class... A> KerncastAny operator()(A &&...) const;
  template <class T> const KerncastAny &operator<<(const T &) const;
  template <class T> const KerncastAny &operator>>(T &) const;
  template <class T> KerncastAny &operator=(const T &);
  KerncastAny *begin() const; KerncastAny *end() const; KerncastAny *operator->() const;
};
struct KerncastUnknown : KerncastAny { using KerncastAny::KerncastAny; };
//operators
const char *cudaGetErrorString(cudaError_t);
typedef struct KerncastFile FILE;
struct cudaDeviceProp {
  char name[256]; size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor, sharedMemPerBlockOptin;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, major, minor;
  int multiProcessorCount, concurrentKernels, l2CacheSize, maxThreadsPerMultiProcessor, memoryClockRate;
  int memoryBusWidth, cooperativeLaunch, canMapHostMemory, integrated, managedMemory, maxBlocksPerMultiProcessor;
  size_t totalConstMem, textureAlignment, memPitch; int asyncEngineCount, unifiedAddressing;
};
template <class T> cudaError_t cudaMalloc(T **, size_t);
template <class T> cudaError_t cudaMallocManaged(T **, size_t, unsigned = 1);
template <class T> cudaError_t cudaMallocHost(T **, size_t, unsigned = 0);
template <class T> cudaError_t cudaHostAlloc(T **, size_t, unsigned);
template <class T> cudaError_t cudaMallocAsync(T **, size_t, cudaStream_t);
template <class T> cudaError_t cudaMallocPitch(T **, size_t *, size_t, size_t);
cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t = 0);
cudaError_t cudaMemset(void *, int, size_t);
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t = 0);
cudaError_t cudaFree(void *); cudaError_t cudaFreeHost(void *);
template <class T> cudaError_t cudaLaunchKernel(T, dim3, dim3, void **, size_t = 0, cudaStream_t = 0);
template <class T> cudaError_t cudaLaunchCooperativeKernel(T, dim3, dim3, void **, size_t = 0, cudaStream_t = 0);
template <class T> cudaError_t cudaMemcpyToSymbol(
    const T &, const void *, size_t, size_t = 0, cudaMemcpyKind = cudaMemcpyHostToDevice);
template <class T> cudaError_t cudaGetSymbolAddress(void **, const T &);
template <class T> cudaError_t cudaHostGetDevicePointer(T **, void *, unsigned);
extern "C" {
void *malloc(size_t); void *calloc(size_t, size_t); void free(void *); void exit(int); void abort();
void *aligned_alloc(size_t, size_t);
int atoi(const char *); long atol(const char *); long long atoll(const char *); double atof(const char *);
long strtol(const char *, char **, int); unsigned long strtoul(const char *, char **, int);
double strtod(const char *, char **);
int strcmp(const char *, const char *); int strncmp(const char *, const char *, size_t);
int rand(); void srand(unsigned);
int fprintf(FILE *, const char *, ...); int sprintf(char *, const char *, ...);
int snprintf(char *, size_t, const char *, ...);
int scanf(const char *, ...); int fscanf(FILE *, const char *, ...); int sscanf(const char *, const char *, ...);
FILE *fopen(const char *, const char *); int fclose(FILE *); int puts(const char *); int putchar(int);
size_t fread(void *, size_t, size_t, FILE *); size_t fwrite(const void *, size_t, size_t, FILE *);
void *memset(void *, int, size_t); void *memcpy(void *, const void *, size_t); size_t strlen(const char *);
}
#define stdout 0
#define stderr 0
#define stdin 0
#define CUDART_VERSION 12090
"""

#: Operators of what is unknown with anything, and of nothing else: numbers convert to what is unknown, too.
_OPERATORS = """template <bool> struct KerncastIf {};
template <> struct KerncastIf<true> { typedef int type; };
""" + "\n".join(
    "template <class A, class B,"
    " typename KerncastIf<__is_base_of(KerncastAny, A) || __is_base_of(KerncastAny, B)>::type = 0>\n"
    f"{result} operator{name}(const A &, const B &);"
    for result, names in (("KerncastAny", "+ - * / %"), ("bool", "== != < > <= >="))
    for name in names.split()
)

_MATH_OF_ONE = "ceil floor round trunc sqrt exp log log2 log10 fabs sin cos tan cbrt rint"
_MATH_OF_TWO = "pow fmod fmin fmax atan2 hypot"


def _math() -> str:
    """Declare the functions of math.h for double, float and whole numbers, also in std."""
    rows = []
    for names, parameters in ((_MATH_OF_ONE, 1), (_MATH_OF_TWO, 2)):
        for name in names.split():
            rows += [f"{_BOTH} {each} {name}({', '.join([each] * parameters)});" for each in ("double", "float")]
            # A mixture of types is a double.
            generic = "class T" if parameters == 1 else "class T, class U"
            taken = "T" if parameters == 1 else "T, U"
            rows.append(f"template <{generic}> {_BOTH} double {name}({taken});")
            rows.append(f"{_BOTH} float {name}f({', '.join(['float'] * parameters)});")
    rows += [f"{_BOTH} {type_name} abs({type_name});" for type_name in ("int", "long", "double", "float")]
    both = f"{_MATH_OF_ONE} {_MATH_OF_TWO} abs"
    used = " ".join(f"using ::{name};" for name in both.split())
    wrapped = " ".join(f"using ::{name};" for name in ("malloc", "calloc", "free", "exit", "abort", "atoi", "atof"))
    extremes = "\n".join(
        f"template <class T, class U> {_BOTH} constexpr auto {name}(T a, U b) -> decltype(a + b)"
        f" {{ return {test} ? b : a; }}"
        for name, test in (("min", "b < a"), ("max", "a < b"))
    )
    return "\n".join(rows) + f"\nnamespace std {{ {used} {wrapped} }}\n{extremes}\n"


def _vectors() -> str:
    """Declare make_float4 and its like."""
    rows = []
    for short in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "longlong", "ulonglong", "float",
                  "double"):  # fmt: skip
        for width in (1, 2, 3, 4):
            members = "xyzw"[:width]
            name = f"{short}{width}"
            parameters = ", ".join(f"decltype({name}::{m}) {m}" for m in members)
            rows.append(f"{_BOTH} inline {name} make_{name}({parameters}) {{ return {{{', '.join(members)}}}; }}")
    return "\n".join(rows)


_CONTAINER = """
template <class T, class... R> struct {name} {{
  typedef T value_type; typedef T *iterator; typedef const T *const_iterator; typedef size_t size_type;
  template <class... A> explicit {name}(A &&...) {{}}
  {name}(std::initializer_list<T>);
  size_t size() const; bool empty() const; T *data() const; T &operator[](size_t) const; T &at(size_t) const;
  T *begin() const; T *end() const; T *cbegin() const; T *cend() const; T &front() const; T &back() const;
  template <class... A> void push_back(A &&...); template <class... A> void emplace_back(A &&...);
  template <class... A> void resize(A &&...); template <class... A> void reserve(A &&...);
  template <class... A> void assign(A &&...); template <class... A> void insert(A &&...);
  void clear(); void pop_back(); void shrink_to_fit();
  template <class U> {name} &operator=(const U &);
}};
"""

_INITIALIZER_LIST = """
namespace std {
template <class T> class initializer_list {
  const T *first; decltype(sizeof(0)) count;
public:
  constexpr initializer_list() : first(0), count(0) {}
  constexpr decltype(sizeof(0)) size() const { return count; }
};
}
"""

_VECTOR = '#pragma once\n#include "cstddef"\n#include "algorithm"\n#include "utility"\n' + (
    "namespace std {" + _CONTAINER.format(name="vector") + "}\n"
)
_THRUST = (
    '#pragma once\n#include "vector"\n#ifndef KERNCAST_THRUST\n#define KERNCAST_THRUST\nnamespace thrust {\n'
    + "".join(_CONTAINER.format(name=name) for name in ("device_vector", "host_vector", "universal_vector"))
    + """
template <class T> struct device_ptr { device_ptr(T * = 0); T *get() const; };
template <class T> T *raw_pointer_cast(T *); template <class T> T *raw_pointer_cast(device_ptr<T>);
template <class T> device_ptr<T> device_pointer_cast(T *);
}
#endif
"""
)
_STREAM_TYPES = "ostream istream iostream ifstream ofstream fstream stringstream ostringstream istringstream"
_STREAMS = (
    """#pragma once
#include "string"
#ifndef KERNCAST_STREAMS
#define KERNCAST_STREAMS
namespace std {
struct kerncast_stream : KerncastAny {
  template <class... A> kerncast_stream(A &&...) {}
  bool is_open() const; bool good() const; bool eof() const; bool fail() const; void close();
  template <class... A> void open(A &&...); template <class... A> KerncastAny read(A &&...);
  template <class... A> KerncastAny write(A &&...); template <class... A> KerncastAny seekg(A &&...); long tellg();
  string str() const; template <class... A> KerncastAny ignore(A &&...); void clear(); KerncastAny rdbuf();
  template <class... A> KerncastAny precision(A &&...); template <class... A> KerncastAny setf(A &&...);
};
struct ios { static KerncastAny in, out, binary, ate, app, trunc, beg, end, cur, fixed, floatfield; };
typedef ios ios_base;
extern kerncast_stream cout, cerr, cin, clog; extern KerncastAny endl, fixed, flush, scientific, left, right, hex, dec;
template <class... A> KerncastAny setprecision(A &&...); template <class... A> KerncastAny setw(A &&...);
template <class... A> KerncastAny setfill(A &&...); template <class... A> KerncastAny getline(A &&...);
"""
    + " ".join(f"typedef kerncast_stream {name};" for name in _STREAM_TYPES.split())
    + "\n}\n#endif\n"
)
_RANDOM_TYPES = "uniform_real_distribution uniform_int_distribution normal_distribution bernoulli_distribution"
_RANDOM = """#pragma once
#include "vector"
#include "string"
namespace std {
struct mt19937 : KerncastAny { template <class... A> mt19937(A &&...) {} unsigned operator()(); };
typedef mt19937 mt19937_64; typedef mt19937 default_random_engine; typedef mt19937 minstd_rand;
struct random_device : KerncastAny { random_device(); unsigned operator()(); };
""" + (
    "".join(
        f"template <class T = double> struct {name} {{ template <class... A> {name}(A &&...) {{}}"
        " template <class G> T operator()(G &&); };\n"
        for name in _RANDOM_TYPES.split()
    )
    + "}\n"
)
_STRING = """#pragma once
#include "vector"
namespace std {
struct string : vector<char> {
  template <class... A> string(A &&...) {}
  const char *c_str() const; size_t length() const; template <class T> bool operator==(const T &) const;
  template <class... A> string substr(A &&...) const; template <class... A> int compare(A &&...) const;
  template <class T> string &operator+=(const T &); size_t find(const char *) const;
};
template <class... A> int stoi(A &&...); template <class... A> long stol(A &&...);
template <class... A> unsigned long stoul(A &&...); template <class... A> double stod(A &&...);
template <class... A> float stof(A &&...); template <class T> string to_string(T);
}
"""
_CHRONO = """#pragma once
namespace std { namespace chrono {
struct duration_ : KerncastAny { double count() const; };
template <class... T> struct duration : duration_ { template <class... A> duration(A &&...) {} };
struct time_point : KerncastAny { duration_ operator-(const time_point &) const; };
struct steady_clock {
  typedef chrono::time_point time_point; typedef duration_ duration; static time_point now();
};
typedef steady_clock high_resolution_clock; typedef steady_clock system_clock;
typedef duration_ seconds; typedef duration_ milliseconds; typedef duration_ microseconds;
typedef duration_ nanoseconds;
template <class T, class U> T duration_cast(U);
} }
namespace std { typedef KerncastAny milli; typedef KerncastAny micro; typedef KerncastAny nano; }
"""

#: Containers that only are gone through, by header.
_OPAQUE = {
    "map": "map multimap",
    "unordered_map": "unordered_map unordered_multimap",
    "set": "set multiset",
    "unordered_set": "unordered_set unordered_multiset",
    "list": "list",
    "deque": "deque",
    "queue": "queue priority_queue",
    "stack": "stack",
    "tuple": "tuple",
}


def _opaque(names: str) -> str:
    """Declare containers of which nothing is known."""
    body = "{{ template <class... A> {name}(A &&...) {{}} size_t size() const; bool empty() const; }};"
    rows = (f"template <class... T> struct {name} : KerncastAny {body.format(name=name)}" for name in names.split())
    return '#pragma once\n#include "vector"\nnamespace std {\n' + "\n".join(rows) + "\n}\n"


#: Options of the command line, in C; declared only where they are included: sources have names like these of their own.
COMMAND_LINE = {
    "unistd.h": """#pragma once
extern char *optarg;
extern int optind, opterr, optopt;
int getopt(int, char *const *, const char *);
""",
    "getopt.h": """#pragma once
#include "unistd.h"
#define no_argument 0
#define required_argument 1
#define optional_argument 2
struct option { const char *name; int has_arg; int *flag; int val; };
int getopt_long(int, char *const *, const char *, const struct option *, int *);
""",
}

#: Headers that replace the stand-ins for device code, by name.
HEADERS: dict[str, str] = {
    **{name: f'extern "C" {{\n{text}}}\n' for name, text in COMMAND_LINE.items()},
    **HALF_HEADERS,
    "vector": _VECTOR,
    "string": _STRING,
    **{name: _opaque(names) for name, names in _OPAQUE.items()},
    **dict.fromkeys(["iostream", "ostream", "istream", "fstream", "sstream", "iomanip"], _STREAMS),
    "random": _RANDOM,
    "chrono": _CHRONO,
    **dict.fromkeys((name for name in stand_ins() if name.startswith("thrust/")), _THRUST),
}

#: What other headers than these may have brought along.
_BASE = ("cstddef", "cstdint", "type_traits", "limits", "algorithm", "utility", "array")
_ALWAYS = "\n" + "".join(
    f'#include "{name}"\n' for name in (*_BASE, *HEADERS) if not name.endswith(".h") and "/" not in name
)


def declarations(members: Iterable[str] = ()) -> str:
    """Return the text that stands before a source; ``members`` are names that what is unknown must have."""
    unknown = "".join(f"template <class... A> KerncastAny {name}(A &&...) const;\n" for name in members)
    return (
        _INITIALIZER_LIST
        + RUNTIME.replace(_MEMBERS, unknown).replace("//operators", _OPERATORS)
        + _math()
        + _vectors()
        + _ALWAYS
    )


_INT, _FLOAT = 1, 2
#: Structs inside one another that are looked into.
_DEEPEST = 4
_SHARED = {CursorKind.FIELD_DECL, CursorKind.STRUCT_DECL, CursorKind.CLASS_DECL, CursorKind.UNION_DECL}


@cache
def _library() -> Any:
    library = conf.lib
    pointer = ctypes.c_void_p
    for name, arguments, result in (
        ("clang_Cursor_Evaluate", [Cursor], pointer),
        ("clang_EvalResult_getKind", [pointer], ctypes.c_int),
        ("clang_EvalResult_getAsLongLong", [pointer], ctypes.c_longlong),
        ("clang_EvalResult_getAsUnsigned", [pointer], ctypes.c_ulonglong),
        ("clang_EvalResult_isUnsignedInt", [pointer], ctypes.c_uint),
        ("clang_EvalResult_getAsDouble", [pointer], ctypes.c_double),
        ("clang_EvalResult_dispose", [pointer], None),
        ("clang_getCursorBinaryOperatorKind", [Cursor], ctypes.c_int),
        ("clang_getCursorUnaryOperatorKind", [Cursor], ctypes.c_int),
        ("clang_getFileLocation", [SourceLocation, pointer, pointer, pointer, pointer], None),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


def constant(expression: Cursor) -> int | float | None:
    """Return the number that an expression always has; None where that is not known when it is compiled."""
    library = _library()
    result = library.clang_Cursor_Evaluate(expression)
    if not result:
        return None
    try:
        kind = library.clang_EvalResult_getKind(result)
        if kind == _FLOAT:
            return float(library.clang_EvalResult_getAsDouble(result))
        if kind != _INT:
            return None
        if library.clang_EvalResult_isUnsignedInt(result):
            return int(library.clang_EvalResult_getAsUnsigned(result))
        return int(library.clang_EvalResult_getAsLongLong(result))
    finally:
        library.clang_EvalResult_dispose(result)


def identity(declaration: Cursor) -> int:
    """Return what tells declarations apart: the same for a variable, a class or a field that several sources share."""
    kind = declaration.kind
    if kind in _SHARED or (kind == CursorKind.VAR_DECL and declaration.linkage == LinkageKind.EXTERNAL):
        return hash(declaration.get_usr())
    return int(declaration.canonical.hash)


def parameter_types(function: Cursor | None) -> list[Type]:
    """Return the types of the parameters of a function; none where C does not declare them, or it is no function."""
    is_function = function is not None and function.type.kind == TypeKind.FUNCTIONPROTO
    return list(function.type.argument_types()) if function is not None and is_function else []


def operator_of(expression: Cursor) -> int:
    """Return the number of a binary or unary operator, as CXBinaryOperatorKind or CXUnaryOperatorKind."""
    library = _library()
    if expression.kind == CursorKind.UNARY_OPERATOR:
        return int(library.clang_getCursorUnaryOperatorKind(expression))
    return int(library.clang_getCursorBinaryOperatorKind(expression))


def overloads(expression: Cursor) -> list[Cursor]:
    """Return the functions that a name which is not resolved may mean."""
    if expression.kind != CursorKind.OVERLOADED_DECL_REF:
        return []
    count = conf.lib.clang_getNumOverloadedDecls(expression)
    return [conf.lib.clang_getOverloadedDecl(expression, index) for index in range(count)]


def overloaded(expression: Cursor) -> Cursor | None:
    """Return the only function or template that a name which is not resolved may mean; None where there are more."""
    for cursor in (expression, *expression.get_children()):
        found = overloads(cursor)
        if len(found) == 1:
            return found[0]
    return None


def is_declared_here(type_: Type, depth: int = _DEEPEST) -> bool:
    """Whether a type is one, or holds one, that the source does not declare, and that stands in for it.

    Its size means nothing; nor does that of a class of a library of which only the methods are declared here.
    """
    type_ = type_.get_canonical()
    while type_.kind == TypeKind.CONSTANTARRAY:
        type_ = type_.element_type.get_canonical()
    declared = type_.get_declaration()
    if type_.kind != TypeKind.RECORD or declared.location.file is None:
        return False
    fields = list(type_.get_fields())
    if not declared.location.file.name.startswith(SHIM_FOLDER):
        return depth > 0 and any(is_declared_here(each.type, depth - 1) for each in fields)
    bases = (each.type.spelling for each in declared.get_children() if each.kind == CursorKind.CXX_BASE_SPECIFIER)
    is_stand_in = declared.spelling.startswith(STAND_IN)
    return is_stand_in or not fields or not {ANYTHING, UNKNOWN}.isdisjoint({str(declared.spelling), *bases})


def is_stand_in(declared: Cursor | None) -> bool:
    """Whether a variable is one that only the parser's own text declares, since its source does not."""
    is_variable = declared is not None and declared.kind == CursorKind.VAR_DECL
    file = declared.location.file if declared is not None else None
    return is_variable and file is not None and file.name.startswith(SHIM_FOLDER)


def written_at(location: SourceLocation) -> int:
    """Return the offset where a token was written: of an argument of a macro, its own place."""
    offset = ctypes.c_uint()
    _library().clang_getFileLocation(location, None, None, None, ctypes.byref(offset))
    return offset.value


_PRELUDE = f"{SHIM_FOLDER}/kerncast_host.h"

#: CXTranslationUnit_DetailedPreprocessingRecord: which lines the preprocessor left out.
_OPTIONS = KEEP_GOING | 0x01

#: Names that are declared in the second pass, at most.
_MOST_DECLARED = 500
#: A name that is declared may let the parser see further ones.
_MOST_PASSES = 4

#: Bytes before a name in which the end of the statement before is looked for.
_NEAR = 200
#: The brackets of a launch with spaces between them.
_OPENED = re.compile(r"<(?:<(\s+)|(\s+)<)<(?!<)")
_CLOSED = re.compile(r"(<<<[^;{}]*?)>(?:>(\s+)|(\s+)>)>(\s*\()")

_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'")
_UNKNOWN_TYPE = re.compile(r"unknown type name '(\w+)'")
_NO_MEMBER = re.compile(r"no member named '(\w+)' in '[\w:]+'")
_NOT_IN_STD = re.compile(r"no (?:member|type|template) named '(\w+)' in namespace 'std(::\w+)?'")


@dataclass(slots=True)
class _Missing:
    """Names that the parser did not know, in the order in which it met them."""

    functions: dict[str, None] = field(default_factory=dict)
    values: dict[str, None] = field(default_factory=dict)
    types: dict[str, None] = field(default_factory=dict)
    members: dict[str, None] = field(default_factory=dict)
    """unknown members of classes that are declared here"""
    inside: dict[tuple[str, str], None] = field(default_factory=dict)
    """pairs of namespace and unknown name inside"""

    @property
    def count(self) -> int:
        """Number of names."""
        plain = (self.functions, self.values, self.types, self.members)
        return len(self.inside) + sum(len(each) for each in plain)


def parse_host(source: Path, options: ParseOptions) -> TranslationUnit | None:
    """Parse a source for its host code; None where libclang gives up."""
    missing = _Missing()
    unit = _parse(source, options, missing)
    for _ in range(_MOST_PASSES):
        known = missing.count
        if unit is None or known >= _MOST_DECLARED:
            break
        _collect(unit, missing)
        if missing.count == known:
            break
        unit = _parse(source, options, missing) or unit
    return unit


def _parse(source: Path, options: ParseOptions, missing: _Missing) -> TranslationUnit | None:
    if source.suffix == C_SUFFIX:
        arguments = c_arguments(options.defines, options.include_dirs)
        files = [(f"{SHIM_FOLDER}/{name}", text) for name, text in COMMAND_LINE.items()]
        files.append((C_PRELUDE, DECLARATIONS + c_declared(missing.types, _values(missing))))
    else:
        arguments, files = _arguments(options), _files(missing)
    files += _rejoined(source)
    try:
        return Index.create().parse(str(source), arguments, files, options=_OPTIONS)
    except TranslationUnitLoadError:
        return None


def _rejoined(source: Path) -> list[tuple[str, str]]:
    """Return a source with the brackets of its launches joined, where formatters have put spaces into them.

    nvcc takes ``k << <1, 32>> >(x)``, clang does not.
    """
    try:
        text = text_of(source).decode()
    except UnicodeDecodeError:
        return []
    joined = _OPENED.sub(r"<<<\1\2", text)
    if joined == text:
        return []
    return [(str(source), _CLOSED.sub(r"\1>>>\2\3\4", joined))]


def _files(missing: _Missing) -> list[tuple[str, str]]:
    """Return the headers that the parser sees instead of those of a system and of the toolkit."""
    texts = stand_ins() | TOOLKIT_SHIMS | HEADERS
    files = [(f"{SHIM_FOLDER}/{name}", text) for name, text in texts.items()]
    files.append((_PRELUDE, DEVICE_DECLARATIONS + PRELUDE + declarations(missing.members) + _declared(missing)))
    return files


def _arguments(options: ParseOptions) -> list[str]:
    defines = {"__CUDACC__": "1", "__CUDACC_VER_MAJOR__": "12", "__CUDACC_VER_MINOR__": "9"} | dict(options.defines)
    return [
        "-x", "cuda", "--cuda-host-only", "-target", "x86_64-unknown-linux-gnu", "-nostdinc", "-nostdinc++",
        # An empty path, so that clang looks for no toolkit on the machine.
        "-nocudainc", "-nocudalib", f"--cuda-path={SHIM_FOLDER}",
        f"-std={options.standard}", "-ferror-limit=0", "-w",
        *(f"-D{name}={value}" for name, value in defines.items()),
        "-include", _PRELUDE,
        *(f"-I{folder}" for folder in options.include_dirs),
        "-isystem", SHIM_FOLDER,
    ]  # fmt: skip


def _collect(unit: TranslationUnit, missing: _Missing) -> None:
    """Add what the parser did not know."""
    is_c = Path(unit.spelling).suffix == C_SUFFIX
    texts: dict[str, bytes] = {}
    for each in unit.diagnostics:
        if each.severity < Diagnostic.Error:
            continue
        if found := _UNDECLARED.search(each.spelling):
            members = _members(each, found[1], texts)
            missing.inside |= dict.fromkeys((found[1], member) for member in members)
            if is_c and _is_type_of_c(each, found[1], texts):
                missing.types[found[1]] = None
            elif not members:
                place = missing.functions if _is_called(each, found[1], texts) else missing.values
                place[found[1]] = None
        elif found := _UNKNOWN_TYPE.search(each.spelling):
            missing.types[found[1]] = None
        elif found := _NOT_IN_STD.search(each.spelling):
            missing.inside["std" + (found[2] or ""), found[1]] = None
        elif found := _NO_MEMBER.search(each.spelling):
            missing.members[found[1]] = None


def _is_type_of_c(diagnostic: Diagnostic, name: str, texts: dict[str, bytes]) -> bool:
    """Whether a name that is unknown in C declares something: inside functions the parser takes it for a variable."""
    place = diagnostic.location
    text = _text(place.file.name, texts) if place.file is not None else b""
    plain, pointer = (re.compile(name.encode() + each) for each in (rb"\s+[A-Za-z_]", rb"\s*\*[\s*]*[A-Za-z_]"))
    if name.endswith("_t") or plain.match(text, place.offset):
        return True
    begins = re.search(rb"[;{}]\s*\Z", text[max(place.offset - _NEAR, 0) : place.offset])
    return begins is not None and pointer.match(text, place.offset) is not None


def _is_called(diagnostic: Diagnostic, name: str, texts: dict[str, bytes]) -> bool:
    """Whether a name that is unknown is followed by arguments."""
    place = diagnostic.location
    if place.file is None:
        return True
    text = _text(place.file.name, texts)
    pattern = re.compile(rb"\b" + name.encode() + rb"\s*(?:\(|<[^;(){}]*>\s*\()")
    # In a macro the place is that of its use.
    return pattern.match(text, place.offset) is not None or (
        not text.startswith(name.encode(), place.offset) and pattern.search(text) is not None
    )


def _members(diagnostic: Diagnostic, name: str, texts: dict[str, bytes]) -> list[str]:
    """Return what a file names in a namespace that is unknown; nothing where the name is none."""
    place = diagnostic.location
    text = _text(place.file.name, texts) if place.file is not None else b""
    if not re.compile(name.encode() + rb"\s*::").match(text, place.offset):
        return []
    found = re.findall(rb"\b" + name.encode() + rb"\s*::\s*([A-Za-z_]\w*)", text)
    return [member.decode() for member in dict.fromkeys(found)][:_MOST_DECLARED]


def _text(name: str, texts: dict[str, bytes]) -> bytes:
    if name not in texts:
        texts[name] = text_of(name)
    return texts[name]


def text_of(name: Path | str) -> bytes:
    """Return what a source or header holds; nothing where it cannot be read."""
    try:
        return read_bytes(name, SOURCE_FILE)
    except CompileError:
        return b""


def _declared(missing: _Missing) -> str:
    types = set(missing.types)
    functions = [name for name in _plain(missing.functions) if name not in types]
    values = _values(missing)
    rows = [f"template <class... A> {UNKNOWN} {name}(A &&...);" for name in functions]
    rows += [f"extern KerncastAny {name};" for name in values]
    rows += [f"namespace {namespace} {{ {_type(name)} }}" for namespace, name in missing.inside]
    rows += [_type(name) for name in _plain(missing.types)]
    return "\n".join(rows) + "\n"


def _values(missing: _Missing) -> list[str]:
    other = {*missing.types, *missing.functions}
    return [name for name in _plain(missing.values) if name not in other]


def _type(name: str) -> str:
    return f"struct {name} : KerncastAny {{ template <class... A> {name}(A &&...) {{}} }};"


def _plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("__") and name not in {"std", "thrust", "cub"}]
