/* Functions of NVIDIA's library of mathematics that are one instruction or few: LLVM's headers for CUDA call them, and
 * the library itself is not there where kernels are compiled with the host code around them.
 * Sources: libdevice User's Guide, "Function Reference"; PTX ISA 8.7, "Instruction Set". */
#ifndef KERNCAST_CUDA_DEVICE_H
#define KERNCAST_CUDA_DEVICE_H
#ifdef __CUDA_ARCH__

#define KERNCAST_ONE(result, name, first, text, to, from)                                                \
  extern "C" inline __attribute__((device)) result __nv_##name(first a) {                               \
    result found;                                                                                        \
    asm(text " %0, %1;" : to(found) : from(a));                                                          \
    return found;                                                                                        \
  }
#define KERNCAST_TWO(type, name, text, kind)                                                             \
  extern "C" inline __attribute__((device)) type __nv_##name(type a, type b) {                           \
    type found;                                                                                          \
    asm(text " %0, %1, %2;" : "=" kind(found) : kind(a), kind(b));                                       \
    return found;                                                                                        \
  }
#define KERNCAST_THREE(result, type, name, text, kind)                                                   \
  extern "C" inline __attribute__((device)) result __nv_##name(type a, type b, result c) {               \
    result found;                                                                                        \
    asm(text " %0, %1, %2, %3;" : "=" kind(found) : kind(a), kind(b), kind(c));                          \
    return found;                                                                                        \
  }

KERNCAST_ONE(int, clz, int, "clz.b32", "=r", "r")
KERNCAST_ONE(int, clzll, long long, "clz.b64", "=r", "l")
KERNCAST_ONE(int, popc, unsigned, "popc.b32", "=r", "r")
KERNCAST_ONE(int, popcll, unsigned long long, "popc.b64", "=r", "l")
KERNCAST_ONE(int, brev, int, "brev.b32", "=r", "r")
KERNCAST_ONE(long long, brevll, long long, "brev.b64", "=l", "l")
KERNCAST_ONE(int, abs, int, "abs.s32", "=r", "r")
KERNCAST_ONE(long long, llabs, long long, "abs.s64", "=l", "l")
KERNCAST_ONE(float, fabsf, float, "abs.f32", "=f", "f")
KERNCAST_ONE(double, fabs, double, "abs.f64", "=d", "d")
KERNCAST_ONE(float, sqrtf, float, "sqrt.rn.f32", "=f", "f")
KERNCAST_ONE(double, sqrt, double, "sqrt.rn.f64", "=d", "d")
KERNCAST_ONE(float, floorf, float, "cvt.rmi.f32.f32", "=f", "f")
KERNCAST_ONE(double, floor, double, "cvt.rmi.f64.f64", "=d", "d")
KERNCAST_ONE(float, ceilf, float, "cvt.rpi.f32.f32", "=f", "f")
KERNCAST_ONE(double, ceil, double, "cvt.rpi.f64.f64", "=d", "d")
KERNCAST_ONE(float, truncf, float, "cvt.rzi.f32.f32", "=f", "f")
KERNCAST_ONE(double, trunc, double, "cvt.rzi.f64.f64", "=d", "d")
KERNCAST_ONE(float, rintf, float, "cvt.rni.f32.f32", "=f", "f")
KERNCAST_ONE(double, rint, double, "cvt.rni.f64.f64", "=d", "d")
KERNCAST_ONE(float, rsqrtf, float, "rsqrt.approx.f32", "=f", "f")
KERNCAST_ONE(float, exp2f, float, "ex2.approx.f32", "=f", "f")
KERNCAST_ONE(float, log2f, float, "lg2.approx.f32", "=f", "f")
KERNCAST_ONE(float, fast_log2f, float, "lg2.approx.f32", "=f", "f")
KERNCAST_ONE(float, fast_sinf, float, "sin.approx.f32", "=f", "f")
KERNCAST_ONE(float, fast_cosf, float, "cos.approx.f32", "=f", "f")
KERNCAST_TWO(int, mulhi, "mul.hi.s32", "r")
KERNCAST_TWO(unsigned, umulhi, "mul.hi.u32", "r")
KERNCAST_TWO(long long, mul64hi, "mul.hi.s64", "l")
KERNCAST_TWO(unsigned long long, umul64hi, "mul.hi.u64", "l")
KERNCAST_TWO(int, mul24, "mul24.lo.s32", "r")
KERNCAST_TWO(unsigned, umul24, "mul24.lo.u32", "r")
KERNCAST_TWO(int, min, "min.s32", "r")
KERNCAST_TWO(int, max, "max.s32", "r")
KERNCAST_TWO(unsigned, umin, "min.u32", "r")
KERNCAST_TWO(unsigned, umax, "max.u32", "r")
KERNCAST_TWO(long long, llmin, "min.s64", "l")
KERNCAST_TWO(long long, llmax, "max.s64", "l")
KERNCAST_TWO(unsigned long long, ullmin, "min.u64", "l")
KERNCAST_TWO(unsigned long long, ullmax, "max.u64", "l")
KERNCAST_TWO(float, fminf, "min.f32", "f")
KERNCAST_TWO(float, fmaxf, "max.f32", "f")
KERNCAST_TWO(double, fmin, "min.f64", "d")
KERNCAST_TWO(double, fmax, "max.f64", "d")
KERNCAST_TWO(float, fast_fdividef, "div.approx.f32", "f")
KERNCAST_THREE(int, int, sad, "sad.s32", "r")
KERNCAST_THREE(unsigned, unsigned, usad, "sad.u32", "r")
KERNCAST_THREE(int, int, byte_perm, "prmt.b32", "r")
KERNCAST_THREE(float, float, fmaf, "fma.rn.f32", "f")
KERNCAST_THREE(double, double, fma, "fma.rn.f64", "d")

/* The four ways of rounding, of arithmetic and of conversions. */
#define KERNCAST_ROUNDED_ONE(type, name, text, end, kind)                                                \
  KERNCAST_ONE(type, name##_rn, type, text ".rn" end, "=" kind, kind)                                    \
  KERNCAST_ONE(type, name##_rz, type, text ".rz" end, "=" kind, kind)                                    \
  KERNCAST_ONE(type, name##_ru, type, text ".rp" end, "=" kind, kind)                                    \
  KERNCAST_ONE(type, name##_rd, type, text ".rm" end, "=" kind, kind)
#define KERNCAST_ROUNDED_TWO(type, name, text, end, kind)                                                \
  KERNCAST_TWO(type, name##_rn, text ".rn" end, kind)                                                    \
  KERNCAST_TWO(type, name##_rz, text ".rz" end, kind)                                                    \
  KERNCAST_TWO(type, name##_ru, text ".rp" end, kind)                                                    \
  KERNCAST_TWO(type, name##_rd, text ".rm" end, kind)
#define KERNCAST_ROUNDED_FMA(type, name, end, kind)                                                      \
  KERNCAST_THREE(type, type, name##_rn, "fma.rn" end, kind)                                              \
  KERNCAST_THREE(type, type, name##_rz, "fma.rz" end, kind)                                              \
  KERNCAST_THREE(type, type, name##_ru, "fma.rp" end, kind)                                              \
  KERNCAST_THREE(type, type, name##_rd, "fma.rm" end, kind)
#define KERNCAST_TO_WHOLE(whole, name, end, to, type, from)                                              \
  KERNCAST_ONE(whole, name##_rn, type, "cvt.rni" end, "=" to, from)                                      \
  KERNCAST_ONE(whole, name##_rz, type, "cvt.rzi" end, "=" to, from)                                      \
  KERNCAST_ONE(whole, name##_ru, type, "cvt.rpi" end, "=" to, from)                                      \
  KERNCAST_ONE(whole, name##_rd, type, "cvt.rmi" end, "=" to, from)
#define KERNCAST_OF_WHOLE(type, name, end, to, whole, from)                                              \
  KERNCAST_ONE(type, name##_rn, whole, "cvt.rn" end, "=" to, from)                                       \
  KERNCAST_ONE(type, name##_rz, whole, "cvt.rz" end, "=" to, from)                                       \
  KERNCAST_ONE(type, name##_ru, whole, "cvt.rp" end, "=" to, from)                                       \
  KERNCAST_ONE(type, name##_rd, whole, "cvt.rm" end, "=" to, from)
KERNCAST_ROUNDED_ONE(float, frcp, "rcp", ".f32", "f")
KERNCAST_ROUNDED_ONE(float, fsqrt, "sqrt", ".f32", "f")
KERNCAST_ROUNDED_ONE(double, drcp, "rcp", ".f64", "d")
KERNCAST_ROUNDED_ONE(double, dsqrt, "sqrt", ".f64", "d")
KERNCAST_ROUNDED_TWO(float, fadd, "add", ".f32", "f")
KERNCAST_ROUNDED_TWO(float, fsub, "sub", ".f32", "f")
KERNCAST_ROUNDED_TWO(float, fmul, "mul", ".f32", "f")
KERNCAST_ROUNDED_TWO(float, fdiv, "div", ".f32", "f")
KERNCAST_ROUNDED_TWO(double, dadd, "add", ".f64", "d")
KERNCAST_ROUNDED_TWO(double, dsub, "sub", ".f64", "d")
KERNCAST_ROUNDED_TWO(double, dmul, "mul", ".f64", "d")
KERNCAST_ROUNDED_TWO(double, ddiv, "div", ".f64", "d")
KERNCAST_ROUNDED_FMA(float, fmaf, ".f32", "f")
KERNCAST_ROUNDED_FMA(double, fma, ".f64", "d")
KERNCAST_TO_WHOLE(int, float2int, ".s32.f32", "r", float, "f")
KERNCAST_TO_WHOLE(unsigned, float2uint, ".u32.f32", "r", float, "f")
KERNCAST_TO_WHOLE(long long, float2ll, ".s64.f32", "l", float, "f")
KERNCAST_TO_WHOLE(unsigned long long, float2ull, ".u64.f32", "l", float, "f")
KERNCAST_TO_WHOLE(int, double2int, ".s32.f64", "r", double, "d")
KERNCAST_TO_WHOLE(unsigned, double2uint, ".u32.f64", "r", double, "d")
KERNCAST_TO_WHOLE(long long, double2ll, ".s64.f64", "l", double, "d")
KERNCAST_TO_WHOLE(unsigned long long, double2ull, ".u64.f64", "l", double, "d")
KERNCAST_OF_WHOLE(float, int2float, ".f32.s32", "f", int, "r")
KERNCAST_OF_WHOLE(float, uint2float, ".f32.u32", "f", unsigned, "r")
KERNCAST_OF_WHOLE(float, ll2float, ".f32.s64", "f", long long, "l")
KERNCAST_OF_WHOLE(float, ull2float, ".f32.u64", "f", unsigned long long, "l")
KERNCAST_OF_WHOLE(float, double2float, ".f32.f64", "f", double, "d")
KERNCAST_ONE(float, saturatef, float, "cvt.sat.f32.f32", "=f", "f")
KERNCAST_ONE(int, float_as_int, float, "mov.b32", "=r", "f")
KERNCAST_ONE(unsigned, float_as_uint, float, "mov.b32", "=r", "f")
KERNCAST_ONE(float, int_as_float, int, "mov.b32", "=f", "r")
KERNCAST_ONE(float, uint_as_float, unsigned, "mov.b32", "=f", "r")
/* The headers of LLVM declare it without a sign. */
KERNCAST_ONE(unsigned long long, double_as_longlong, double, "mov.b64", "=l", "d")
KERNCAST_ONE(double, longlong_as_double, long long, "mov.b64", "=d", "l")

extern "C" inline __attribute__((device)) int __nv_double2hiint(double a) {
  return (int)(__nv_double_as_longlong(a) >> 32);
}
extern "C" inline __attribute__((device)) int __nv_double2loint(double a) { return (int)__nv_double_as_longlong(a); }
extern "C" inline __attribute__((device)) double __nv_hiloint2double(int high, int low) {
  return __nv_longlong_as_double((long long)high << 32 | (unsigned)low);
}
extern "C" inline __attribute__((device)) int __nv_ffs(int a) { return a ? __nv_clz(__nv_brev(a)) + 1 : 0; }
extern "C" inline __attribute__((device)) int __nv_ffsll(long long a) {
  return a ? __nv_clzll(__nv_brevll(a)) + 1 : 0;
}

extern "C" inline __attribute__((device)) float __nv_fast_expf(float a) { return __nv_exp2f(a * 1.44269504f); }
extern "C" inline __attribute__((device)) float __nv_fast_exp10f(float a) { return __nv_exp2f(a * 3.32192809f); }
extern "C" inline __attribute__((device)) float __nv_fast_logf(float a) { return __nv_fast_log2f(a) * 0.69314718f; }
extern "C" inline __attribute__((device)) float __nv_fast_powf(float a, float b) {
  return __nv_exp2f(b * __nv_fast_log2f(a));
}
/* 2^whole * 2^part with the power's rest from ln 2 in two pieces: within two units in the last place. */
extern "C" inline __attribute__((device)) float __nv_expf(float a) {
  float whole = __nv_rintf(__nv_fminf(__nv_fmaxf(a * 1.44269504f, -252.0f), 252.0f));
  float part = __nv_fmaf(whole, -1.90465421e-9f, __nv_fmaf(whole, -0.693147182f, a)) * 1.44269504f;
  float half = __nv_truncf(whole * 0.5f);
  float found = __nv_exp2f(part) * __nv_exp2f(half) * __nv_exp2f(whole - half);
  return a != a ? a : a > 88.8f ? __builtin_inff() : a < -104.0f ? 0.0f : found;
}
/* The logarithm of 1 + f is twice the inverse hyperbolic tangent of f / (2 + f), with 1 + f between 2/3 and 4/3. */
extern "C" inline __attribute__((device)) float __nv_logf(float a) {
  float scaled = a < 1.17549435e-38f ? a * 8388608.0f : a;
  int bits = __nv_float_as_int(scaled), power = (bits - 0x3f2aaaab) & 0xff800000;
  float f = __nv_int_as_float(bits - power) - 1.0f, s = __nv_fast_fdividef(f, f + 2.0f), t = s * s;
  float series = __nv_fmaf(t, __nv_fmaf(t, __nv_fmaf(t, __nv_fmaf(t, 0.22222222f, 0.28571429f), 0.4f), 0.66666667f), 2.0f);
  float powers = (float)(power >> 23) - (a < 1.17549435e-38f ? 23.0f : 0.0f);
  float found = __nv_fmaf(powers, 0.693147182f, s * series);
  if (!(a < __builtin_inff())) return a;
  return a > 0.0f ? found : a == 0.0f ? -__builtin_inff() : __builtin_nanf("");
}

extern "C" inline __attribute__((device)) int __nv_signbitf(float a) { return __builtin_signbitf(a); }
extern "C" inline __attribute__((device)) int __nv_signbitd(double a) { return __builtin_signbit(a); }
extern "C" inline __attribute__((device)) float __nv_copysignf(float a, float b) { return __builtin_copysignf(a, b); }
extern "C" inline __attribute__((device)) double __nv_copysign(double a, double b) { return __builtin_copysign(a, b); }
extern "C" inline __attribute__((device)) int __nv_isnanf(float a) { return a != a; }
extern "C" inline __attribute__((device)) int __nv_isnand(double a) { return a != a; }
extern "C" inline __attribute__((device)) int __nv_isinff(float a) { return __nv_fabsf(a) == __builtin_inff(); }
extern "C" inline __attribute__((device)) int __nv_isinfd(double a) { return __nv_fabs(a) == __builtin_inf(); }
extern "C" inline __attribute__((device)) int __nv_finitef(float a) { return __nv_fabsf(a) < __builtin_inff(); }
extern "C" inline __attribute__((device)) int __nv_isfinited(double a) { return __nv_fabs(a) < __builtin_inf(); }

#undef KERNCAST_ROUNDED_ONE
#undef KERNCAST_ROUNDED_TWO
#undef KERNCAST_ROUNDED_FMA
#undef KERNCAST_TO_WHOLE
#undef KERNCAST_OF_WHOLE
#undef KERNCAST_ONE
#undef KERNCAST_TWO
#undef KERNCAST_THREE
#endif
#endif
