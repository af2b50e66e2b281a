"""Half and bfloat16 as host code sees them: numbers that convert from and to others, so that templates over them hold.

Their constructors and conversions are those of cuda_fp16.h and cuda_bf16.h (CUDA Math API, half precision).
"""

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
