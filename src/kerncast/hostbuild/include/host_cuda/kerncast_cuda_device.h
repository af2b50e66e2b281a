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
KERNCAST_THREE(int, int, sad, "sad.s32", "r")
KERNCAST_THREE(unsigned, unsigned, usad, "sad.u32", "r")
KERNCAST_THREE(int, int, byte_perm, "prmt.b32", "r")
KERNCAST_THREE(float, float, fmaf, "fma.rn.f32", "f")
KERNCAST_THREE(double, double, fma, "fma.rn.f64", "d")

extern "C" inline __attribute__((device)) int __nv_ffs(int a) { return a ? __nv_clz(__nv_brev(a)) + 1 : 0; }
extern "C" inline __attribute__((device)) int __nv_ffsll(long long a) {
  return a ? __nv_clzll(__nv_brevll(a)) + 1 : 0;
}

extern "C" inline __attribute__((device)) int __nv_isnanf(float a) { return a != a; }
extern "C" inline __attribute__((device)) int __nv_isnand(double a) { return a != a; }
extern "C" inline __attribute__((device)) int __nv_isinff(float a) { return __nv_fabsf(a) == __builtin_inff(); }
extern "C" inline __attribute__((device)) int __nv_isinfd(double a) { return __nv_fabs(a) == __builtin_inf(); }
extern "C" inline __attribute__((device)) int __nv_finitef(float a) { return __nv_fabsf(a) < __builtin_inff(); }
extern "C" inline __attribute__((device)) int __nv_isfinited(double a) { return __nv_fabs(a) < __builtin_inf(); }

#undef KERNCAST_ONE
#undef KERNCAST_TWO
#undef KERNCAST_THREE
#endif
#endif
