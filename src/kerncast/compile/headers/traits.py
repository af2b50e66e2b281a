"""Further traits and small templates of C++ that device code uses, on what both compilers have built in."""

#: Traits that are one built-in each: name, built-in, and whether it takes two types.
_BUILT_IN = (
    ("is_enum", "__is_enum(T)"), ("is_class", "__is_class(T)"), ("is_union", "__is_union(T)"),
    ("is_empty", "__is_empty(T)"), ("is_polymorphic", "__is_polymorphic(T)"), ("is_abstract", "__is_abstract(T)"),
    ("is_final", "__is_final(T)"), ("is_trivially_copyable", "__is_trivially_copyable(T)"),
    ("is_trivial", "__is_trivial(T)"), ("is_standard_layout", "__is_standard_layout(T)"),
    ("is_default_constructible", "__is_constructible(T)"),
    ("is_copy_constructible", "__is_constructible(T, const T &)"),
    ("is_move_constructible", "__is_constructible(T, T &&)"),
    ("is_nothrow_move_constructible", "__is_nothrow_constructible(T, T &&)"),
    ("is_nothrow_copy_constructible", "__is_nothrow_constructible(T, const T &)"),
    ("is_nothrow_default_constructible", "__is_nothrow_constructible(T)"),
    ("is_copy_assignable", "__is_assignable(T &, const T &)"), ("is_move_assignable", "__is_assignable(T &, T &&)"),
    ("is_nothrow_move_assignable", "__is_nothrow_assignable(T &, T &&)"),
    ("is_nothrow_copy_assignable", "__is_nothrow_assignable(T &, const T &)"),
)  # fmt: skip

_ROWS = "\n".join(
    f"template <class T> struct {name} : integral_constant<bool, {built_in}> {{}};" for name, built_in in _BUILT_IN
)

#: Traits whose value C++17 also gives as a variable.
_VARIABLES = (
    *(name for name, _ in _BUILT_IN), "is_void", "is_const", "is_signed", "is_unsigned", "is_array", "is_reference",
    "is_lvalue_reference", "is_rvalue_reference", "is_fundamental", "is_scalar",
)  # fmt: skip

#: What type_traits holds beside the most usual.
TRAITS = f"""
{_ROWS}
template <class F, class T> struct is_convertible : integral_constant<bool, __is_convertible_to(F, T)> {{}};
template <class T, class... A> struct is_constructible : integral_constant<bool, __is_constructible(T, A...)> {{}};
template <class T, class... A>
struct is_nothrow_constructible : integral_constant<bool, __is_nothrow_constructible(T, A...)> {{}};
template <class T, class U> struct is_assignable : integral_constant<bool, __is_assignable(T, U)> {{}};
template <class T> struct is_nothrow_swappable : is_nothrow_move_constructible<T> {{}};
template <class T> struct is_lvalue_reference : false_type {{}};
template <class T> struct is_lvalue_reference<T &> : true_type {{}};
template <class T> struct is_rvalue_reference : false_type {{}};
template <class T> struct is_rvalue_reference<T &&> : true_type {{}};
template <class T>
struct is_reference : integral_constant<bool, is_lvalue_reference<T>::value || is_rvalue_reference<T>::value> {{}};
template <class T> struct is_array : false_type {{}};
template <class T> struct is_array<T[]> : true_type {{}};
template <class T, decltype(sizeof(0)) N> struct is_array<T[N]> : true_type {{}};
template <class T>
struct is_fundamental : integral_constant<bool, is_arithmetic<T>::value || is_void<T>::value> {{}};
template <class T>
struct is_scalar : integral_constant<bool, is_arithmetic<T>::value || is_enum<T>::value || is_pointer<T>::value> {{}};
template <class T> struct underlying_type {{ typedef __underlying_type(T) type; }};
template <class T> using underlying_type_t = typename underlying_type<T>::type;
template <class T> struct type_identity {{ typedef T type; }};
template <class T> struct add_const {{ typedef const T type; }};
template <class T> using add_const_t = const T;
template <class T> struct add_pointer {{ typedef remove_reference_t<T> *type; }};
template <class T> using add_pointer_t = typename add_pointer<T>::type;
template <class T> struct remove_extent {{ typedef T type; }};
template <class T> struct remove_extent<T[]> {{ typedef T type; }};
template <class T, decltype(sizeof(0)) N> struct remove_extent<T[N]> {{ typedef T type; }};
template <class T> using remove_extent_t = typename remove_extent<T>::type;
template <class T> struct remove_cvref {{ typedef remove_cv_t<remove_reference_t<T>> type; }};
template <class T> struct KerncastSigned;
template <class T> struct KerncastUnsigned;
#define KERNCAST_SIGNS(S, U) \\
  template <> struct KerncastSigned<S> {{ typedef S type; }}; \\
  template <> struct KerncastSigned<U> {{ typedef S type; }}; \\
  template <> struct KerncastUnsigned<S> {{ typedef U type; }}; \\
  template <> struct KerncastUnsigned<U> {{ typedef U type; }};
KERNCAST_SIGNS(signed char, unsigned char)
KERNCAST_SIGNS(short, unsigned short)
KERNCAST_SIGNS(int, unsigned int)
KERNCAST_SIGNS(long, unsigned long)
KERNCAST_SIGNS(long long, unsigned long long)
#undef KERNCAST_SIGNS
template <> struct KerncastSigned<char> {{ typedef signed char type; }};
template <> struct KerncastUnsigned<char> {{ typedef unsigned char type; }};
template <class T> struct make_signed {{ typedef typename KerncastSigned<T>::type type; }};
template <class T> using make_signed_t = typename make_signed<T>::type;
template <class T> struct make_unsigned {{ typedef typename KerncastUnsigned<T>::type type; }};
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
template <decltype(sizeof(0)) N, decltype(sizeof(0)) A = 16> struct aligned_storage {{
  struct type {{ alignas(A) unsigned char data[N]; }};
}};
template <decltype(sizeof(0)) N, decltype(sizeof(0)) A = 16>
using aligned_storage_t = typename aligned_storage<N, A>::type;
template <class...> struct conjunction : true_type {{}};
template <class T, class... R> struct conjunction<T, R...> : conditional_t<bool(T::value), conjunction<R...>, T> {{}};
template <class...> struct disjunction : false_type {{}};
template <class T, class... R> struct disjunction<T, R...> : conditional_t<bool(T::value), T, disjunction<R...>> {{}};
template <class T> struct negation : integral_constant<bool, !bool(T::value)> {{}};
#if __cplusplus >= 201402L
{"".join(f"template <class T> constexpr bool {name}_v = {name}<T>::value;" + chr(10) for name in _VARIABLES)}
template <class F, class T> constexpr bool is_convertible_v = is_convertible<F, T>::value;
template <class T, class... A> constexpr bool is_constructible_v = is_constructible<T, A...>::value;
template <class B, class D> constexpr bool is_base_of_v = is_base_of<B, D>::value;
template <class... T> constexpr bool conjunction_v = conjunction<T...>::value;
template <class... T> constexpr bool disjunction_v = disjunction<T...>::value;
template <class T> constexpr bool negation_v = negation<T>::value;
#endif
"""

#: What utility holds beside pair: sequences of integers.
SEQUENCES = """
template <class T, T... I> struct integer_sequence {
  typedef T value_type;
  __host__ __device__ static constexpr decltype(sizeof(0)) size() { return sizeof...(I); }
};
template <class T, class S, class U> struct KerncastJoined;
template <class T, T... I, T... J>
struct KerncastJoined<T, integer_sequence<T, I...>, integer_sequence<T, J...>> {
  typedef integer_sequence<T, I..., (T(sizeof...(I)) + J)...> type;
};
template <class T, decltype(sizeof(0)) N> struct KerncastCounted
    : KerncastJoined<T, typename KerncastCounted<T, N / 2>::type, typename KerncastCounted<T, N - N / 2>::type> {};
template <class T> struct KerncastCounted<T, 0> { typedef integer_sequence<T> type; };
template <class T> struct KerncastCounted<T, 1> { typedef integer_sequence<T, T(0)> type; };
template <class T, T N> using make_integer_sequence = typename KerncastCounted<T, N>::type;
template <decltype(sizeof(0))... I> using index_sequence = integer_sequence<decltype(sizeof(0)), I...>;
template <decltype(sizeof(0)) N> using make_index_sequence = make_integer_sequence<decltype(sizeof(0)), N>;
template <class... T> using index_sequence_for = make_index_sequence<sizeof...(T)>;
template <class A, class B> __host__ __device__ constexpr pair<A, B> make_pair(A a, B b) { return pair<A, B>{a, b}; }
"""

_OPERATORS = (
    ("plus", "+"), ("minus", "-"), ("multiplies", "*"), ("divides", "/"), ("modulus", "%"), ("bit_and", "&"),
    ("bit_or", "|"), ("bit_xor", "^"), ("less", "<"), ("greater", ">"), ("less_equal", "<="), ("greater_equal", ">="),
    ("equal_to", "=="), ("not_equal_to", "!="), ("logical_and", "&&"), ("logical_or", "||"),
)  # fmt: skip
_COMPARING = {"<", ">", "<=", ">=", "==", "!=", "&&", "||"}

#: The function objects of functional, of one type each, and of any (void).
FUNCTORS = (
    "#pragma once\nnamespace std {\n"
    + "\n".join(
        f"template <class T = void> struct {name} {{ __host__ __device__ constexpr"
        f" {'bool' if sign in _COMPARING else 'T'} operator()(const T &a, const T &b) const"
        f" {{ return a {sign} b; }} }};\n"
        f"template <> struct {name}<void> {{ template <class A, class B> __host__ __device__ constexpr auto"
        f" operator()(const A &a, const B &b) const -> decltype(a {sign} b) {{ return a {sign} b; }} }};"
        for name, sign in _OPERATORS
    )
    + "\n}\n"
)
