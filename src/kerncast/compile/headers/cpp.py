"""Stand-ins for headers of C++: what device code can use, and opaque types that host code owns."""

from kerncast.compile.headers.traits import FUNCTORS, SEQUENCES, TRAITS

_TRAITS = (
    """#pragma once
namespace std {
template <class T, T V> struct integral_constant {
  static constexpr T value = V;
  typedef T value_type; typedef integral_constant type;
  __host__ __device__ constexpr operator T() const { return V; }
  __host__ __device__ constexpr T operator()() const { return V; }
};
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
#if __cplusplus >= 201402L
template <class T, class U> constexpr bool is_same_v = is_same<T, U>::value;
#endif
template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> struct remove_volatile { typedef T type; };
template <class T> struct remove_volatile<volatile T> { typedef T type; };
template <class T> struct remove_cv {
  typedef typename remove_const<typename remove_volatile<T>::type>::type type;
};
template <class T> struct remove_pointer { typedef T type; };
template <class T> struct remove_pointer<T *> { typedef T type; };
template <class T> struct KerncastUnref { typedef T type; };
template <class T> struct KerncastUnref<T &> { typedef T type; };
template <class T> struct KerncastUnref<T &&> { typedef T type; };
template <class T> using remove_reference_t = typename KerncastUnref<T>::type;
template <class...> using void_t = void;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using decay_t = remove_cv_t<remove_reference_t<T>>;
template <class T> struct is_floating_point : false_type {};
template <> struct is_floating_point<float> : true_type {};
template <> struct is_floating_point<double> : true_type {};
template <class T> struct is_integral : false_type {};
template <> struct is_integral<bool> : true_type {};
template <> struct is_integral<char> : true_type {};
template <> struct is_integral<signed char> : true_type {};
template <> struct is_integral<unsigned char> : true_type {};
template <> struct is_integral<short> : true_type {};
template <> struct is_integral<unsigned short> : true_type {};
template <> struct is_integral<int> : true_type {};
template <> struct is_integral<unsigned int> : true_type {};
template <> struct is_integral<long> : true_type {};
template <> struct is_integral<unsigned long> : true_type {};
template <> struct is_integral<long long> : true_type {};
template <> struct is_integral<unsigned long long> : true_type {};
template <class T> struct is_arithmetic
    : integral_constant<bool, is_integral<T>::value || is_floating_point<T>::value> {};
template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T *> : true_type {};
template <class T> struct is_void : is_same<void, typename remove_cv<T>::type> {};
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_unsigned : integral_constant<bool, is_integral<T>::value && (T(0) < T(-1))> {};
template <class T> struct is_signed : integral_constant<bool, is_arithmetic<T>::value && (T(-1) < T(0))> {};
template <class B, class D> struct is_base_of : integral_constant<bool, __is_base_of(B, D)> {};
template <class T> struct decay { typedef decay_t<T> type; };
template <class T> struct remove_reference { typedef remove_reference_t<T> type; };
template <class T> __host__ __device__ T &&declval();
template <class...> struct common_type {};
template <class T> struct common_type<T> { typedef decay_t<T> type; };
template <class T, class U> struct common_type<T, U> {
  typedef decay_t<decltype(true ? declval<T>() : declval<U>())> type;
};
template <class T, class U, class V, class... W> struct common_type<T, U, V, W...>
    : common_type<typename common_type<T, U>::type, V, W...> {};
template <class... T> using common_type_t = typename common_type<T...>::type;
template <class T> struct alignment_of : integral_constant<decltype(sizeof(0)), alignof(T)> {};
#if __cplusplus >= 201402L
template <class T> constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T> constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> constexpr bool is_integral_v = is_integral<T>::value;
template <class T> constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
#endif
"""
    + TRAITS
    + "}\n"
)


def _numeric_limits() -> str:
    rows = []
    for type_name, low, most, least in (
        ("float", "-FLT_MAX", "FLT_MAX", "FLT_MIN"),
        ("double", "-DBL_MAX", "DBL_MAX", "DBL_MIN"),
        ("char", "CHAR_MIN", "CHAR_MAX", "CHAR_MIN"),
        ("signed char", "SCHAR_MIN", "SCHAR_MAX", "SCHAR_MIN"),
        ("unsigned char", "0", "UCHAR_MAX", "0"),
        ("short", "SHRT_MIN", "SHRT_MAX", "SHRT_MIN"),
        ("unsigned short", "0", "USHRT_MAX", "0"),
        ("int", "INT_MIN", "INT_MAX", "INT_MIN"),
        ("unsigned int", "0", "UINT_MAX", "0"),
        ("long", "LONG_MIN", "LONG_MAX", "LONG_MIN"),
        ("unsigned long", "0", "ULONG_MAX", "0"),
        ("long long", "LLONG_MIN", "LLONG_MAX", "LLONG_MIN"),
        ("unsigned long long", "0", "ULLONG_MAX", "0"),
    ):
        real = type_name in {"float", "double"}
        extra = {"float": ("FLT_EPSILON", "f", "FLT"), "double": ("DBL_EPSILON", "", "DBL")}.get(type_name)
        functions = [("min", least), ("max", most), ("lowest", low), ("epsilon", extra[0] if extra else "0")]
        if extra:
            zero = f"0.0{extra[1]}"
            functions += [("infinity", f"1 / {zero}"), ("quiet_NaN", f"-({zero} / {zero})")]
        body = " ".join(
            f"__host__ __device__ static constexpr {type_name} {name}() {{ return {value}; }}"
            for name, value in functions
        )
        digits = f"{extra[2]}_MANT_DIG" if extra else f"(int)(sizeof({type_name}) * 8) - {int(low != '0')}"
        rows.append(
            f"template <> struct numeric_limits<{type_name}> {{ static constexpr bool is_specialized = true;"
            f" static constexpr bool is_integer = {str(not real).lower()};"
            f" static constexpr int digits = {digits}; {body} }};"
        )
    return "\n".join(rows)


_LIMITS = (
    '#pragma once\n#include "float.h"\nnamespace std {\n'
    "template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };\n"
    + _numeric_limits()
    + "\n}\n"
)

_ALGORITHM = """#pragma once
#include "limits"
namespace std {
template <class T>
__host__ __device__ constexpr const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T>
__host__ __device__ constexpr const T &max(const T &a, const T &b) { return a < b ? b : a; }
template <class T> __host__ __device__ void swap(T &a, T &b) { T c = a; a = b; b = c; }
}
"""

_UTILITY = (
    """#pragma once
namespace std {
template <class A, class B> struct pair { typedef A first_type; typedef B second_type; A first; B second; };
"""
    + SEQUENCES
    + "}\n"
)

_ARRAY = """#pragma once
#if __cplusplus >= 201402L
#define KERNCAST_CONSTEXPR constexpr
#else
#define KERNCAST_CONSTEXPR
#endif
namespace std {
template <class T, decltype(sizeof(0)) N> struct array {
  T elements[N];
  __host__ __device__ KERNCAST_CONSTEXPR T &operator[](decltype(sizeof(0)) i) { return elements[i]; }
  __host__ __device__ constexpr const T &operator[](decltype(sizeof(0)) i) const { return elements[i]; }
  __host__ __device__ constexpr decltype(sizeof(0)) size() const { return N; }
  __host__ __device__ KERNCAST_CONSTEXPR T *data() { return elements; }
  __host__ __device__ constexpr const T *data() const { return elements; }
};
}
"""

_CHRONO = """#pragma once
namespace std { namespace chrono {
struct KerncastTime {};
template <class...> struct time_point { template <class... A> __host__ __device__ time_point(A &&...) {} };
template <class...> struct duration { template <class... A> __host__ __device__ duration(A &&...) {} };
struct steady_clock { typedef chrono::time_point<> time_point; typedef chrono::duration<> duration; };
typedef steady_clock high_resolution_clock; typedef steady_clock system_clock;
typedef duration<> seconds; typedef seconds milliseconds;
typedef seconds microseconds; typedef seconds nanoseconds;
} }
"""


def opaque(names: str, templates: str = "", namespace: str = "std") -> str:
    """Declare types that host code owns: a struct may hold one, device code can do nothing with it."""
    body = "{{ public: template <class... A> __host__ __device__ {name}(A &&...) {{}} }};"
    rows = [f"class {name} " + body.format(name=name) for name in names.split()]
    rows += [
        f"template <class...> class {name} "
        + body.format(name=name)[:-2]
        + " class iterator {}; class const_iterator {}; class value_type {}; };"
        for name in templates.split()
    ]
    return f"#pragma once\nnamespace {namespace} {{\n" + "\n".join(rows) + "\n}\n"


_STREAMS = opaque("ostream istream iostream ofstream ifstream fstream stringstream ostringstream istringstream")
_STRING = opaque("string string_view")
_MEMORY = (
    opaque("", "unique_ptr shared_ptr weak_ptr allocator")
    + """namespace std {
template <class A> struct allocator_traits {
  typedef A allocator_type; typedef typename A::value_type value_type; typedef value_type *pointer;
  typedef decltype(sizeof(0)) size_type;
};
}
"""
)
_ATOMIC = opaque("atomic_flag", "atomic") + "namespace std {\n" + "".join(
    f"typedef atomic<{type_name}> atomic_{name};\n"
    for name, type_name in (
        ("bool", "bool"), ("char", "char"), ("short", "short"), ("ushort", "unsigned short"), ("int", "int"),
        ("uint", "unsigned"), ("long", "long"), ("ulong", "unsigned long"), ("llong", "long long"),
        ("ullong", "unsigned long long"), ("size_t", "decltype(sizeof(0))"),
    )
) + "}\n"  # fmt: skip
_RANDOM = opaque(
    "mt19937 mt19937_64 random_device default_random_engine",
    "uniform_real_distribution uniform_int_distribution normal_distribution",
)

#: What every C++ header of the host brings along, as the usual implementations do.
_BASE = "".join(
    f'#include "{name}"\n' for name in ("cstddef", "cstdint", "type_traits", "limits", "algorithm", "utility")
)

#: Headers that others include; they include no others.
BASE_HEADERS: tuple[tuple[str, str], ...] = (
    ("type_traits", _TRAITS),
    ("limits", _LIMITS),
    ("algorithm", _ALGORITHM),
    ("utility", _UTILITY),
)

#: Headers of C++, each of which brings _BASE along.
_HOST_HEADERS: tuple[tuple[str, str], ...] = (
    ("array", _ARRAY),
    ("chrono", _CHRONO),
    ("iostream ostream istream fstream sstream", '#include "string"\n' + _STREAMS),
    # The threads of the C library come along, as with the GNU implementation.
    ("string string_view", '#include "pthread.h"\n' + _STRING),
    ("vector", opaque("", "vector")),
    ("random", '#include "vector"\n#include "string"\n' + _RANDOM),
    ("map unordered_map", opaque("", "map multimap unordered_map unordered_multimap")),
    ("set unordered_set", opaque("", "set multiset unordered_set")),
    (
        "list deque queue stack",
        '#include "vector"\n' + opaque("", "list deque queue priority_queue stack"),
    ),
    ("memory", _MEMORY),
    ("functional", '#include "vector"\n#include "array"\n' + FUNCTORS + opaque("", "function")),
    ("tuple optional variant", '#include "array"\n' + opaque("", "tuple optional variant")),
    ("complex", opaque("", "complex")),
    (
        "thread mutex condition_variable future",
        opaque("thread mutex condition_variable", "future"),
    ),
    ("exception stdexcept", opaque("exception runtime_error logic_error invalid_argument")),
    ("atomic", _ATOMIC),
    ("filesystem regex bitset valarray ratio execution", '#include "string"\n'),
    ("iomanip ios iosfwd iterator numeric new initializer_list typeinfo locale clocale cfenv", ""),
)


HEADERS = (*BASE_HEADERS, *((names, f"#pragma once\n{_BASE}{text}") for names, text in _HOST_HEADERS))
