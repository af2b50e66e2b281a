"""What the parser sees of the CUDA runtime and of libraries where host code is read: enough for its types to be known.

Nothing of it is ever run or compiled; a function has a body only where its value matters.
"""

from collections.abc import Iterable

from kerncast.compile.headers import stand_ins
from kerncast.compile.host.half_types import HALF_HEADERS

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


_BOTH = "__host__ __device__"


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
