// Functions of float32 as package kernels/ref defines them, to the bit: the same operations in the same order, fused where ref fuses.
// Compiles as C++ for the host too.
#pragma once
#include "common.cuh"

DEVICE u32 f32_bits(f32 x) { return __builtin_bit_cast(u32, x); }
DEVICE f32 f32_of(u32 b) { return __builtin_bit_cast(f32, b); }
DEVICE f32 f32_infinity() { return f32_of(0x7f800000u); }
DEVICE f32 f32_nan() { return f32_of(0x7fc00000u); }

// DEVICE_MEMBER is DEVICE for functions of a struct.
#ifdef __CUDA__
#define DEVICE_MEMBER INLINE __attribute__((device))
DEVICE f32 f32_sqrt(f32 x) { return __nvvm_sqrt_rn_f(x); }
DEVICE f64 f64_sqrt(f64 x) { return __nvvm_sqrt_rn_d(x); }
DEVICE f32 f32_floor(f32 x) { f32 y; asm("cvt.rmi.f32.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE f32 f32_ceil(f32 x) { f32 y; asm("cvt.rpi.f32.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#else
#define DEVICE_MEMBER INLINE
DEVICE f32 f32_sqrt(f32 x) { return __builtin_sqrtf(x); }
DEVICE f64 f64_sqrt(f64 x) { return __builtin_sqrt(x); }
DEVICE f32 f32_floor(f32 x) { return __builtin_floorf(x); }
DEVICE f32 f32_ceil(f32 x) { return __builtin_ceilf(x); }
#endif

// limit is ref.Limit: NaN passes, and so does -0 where lo is 0.
DEVICE f32 limit(f32 x, f32 lo, f32 hi) {
  if (x < lo) x = lo;
  if (x > hi) x = hi;
  return x;
}

// larger is ref.Larger: acc unless v is larger, or one of the two is NaN: then the first NaN.
DEVICE f32 larger(f32 acc, f32 v) { return acc == acc && !(v <= acc) ? v : acc; }

// go_max and go_min are those of the language: NaN if one of them is, and +0 above -0.
DEVICE f32 go_max(f32 a, f32 b) {
  if (a != a || b != b) return f32_nan();
  if (a == b) return f32_of(f32_bits(a) & f32_bits(b)); // equal bits, or zeros
  return a > b ? a : b;
}
DEVICE f32 go_min(f32 a, f32 b) {
  if (a != a || b != b) return f32_nan();
  if (a == b) return f32_of(f32_bits(a) | f32_bits(b));
  return a < b ? a : b;
}

DEVICE f32 magnitude(f32 x) { return f32_of(f32_bits(x) & 0x7fffffffu); }
// copy_sign sets the sign of x, which has none, to that of y.
DEVICE f32 copy_sign(f32 x, f32 y) { return f32_of(f32_bits(x) | (f32_bits(y) & 0x80000000u)); }

// expm1_reduced returns n, x/ln(2) rounded to an integer, and sets y to exp(x - n*ln(2)) - 1.
DEVICE f32 expm1_reduced(f32 x, f32 &y) {
  const f32 rounder = 0x1.8p23f;
  const f32 n = fma(x, 0x1.715476p+0f, rounder) - rounder;
  f32 r = fma(n, -0x1.62e430p-1f, x);
  r = fma(n, 0x1.05c610p-29f, r);
  f32 h = 0x1.6b97a6p-10f;
  h = fma(h, r, 0x1.122538p-7f);
  h = fma(h, r, 0x1.5556f6p-5f);
  h = fma(h, r, 0x1.5554b4p-3f);
  h = fma(h, r, 0x1.fffffep-2f);
  y = fma(h, r * r, r);
  return n;
}

// power_of_two is 2^n for -126 <= n <= 127.
DEVICE f32 power_of_two(s32 n) { return f32_of((u32)(n + 127) << 23); }

// scale is x * 2^n, rounded once, for x near 1 and integers n from -151 to 129: the first product is exact.
DEVICE f32 scale(f32 x, f32 n) {
  if (n != n) return n;
  const s32 all = (s32)n, half = all / 2;
  return x * power_of_two(half) * power_of_two(all - half);
}

DEVICE f32 f32_exp(f32 x) {
  f32 y;
  const f32 n = expm1_reduced(limit(x, -104.0f, 89.0f), y);
  return scale(1.0f + y, n);
}

DEVICE f32 f32_sigmoid(f32 x) {
  const f32 e = f32_exp(-magnitude(x));
  return f32_bits(x) >> 31 ? e / (1.0f + e) : 1.0f / (1.0f + e);
}

DEVICE f32 f32_tanh(f32 x) {
  f32 y;
  const f32 n = expm1_reduced(limit(magnitude(x), 0.0f, 10.0f) * -2.0f, y), power = scale(1.0f, n);
  const f32 m = fma(power, y, power - 1.0f);
  return copy_sign(magnitude(m) / (2.0f + m), x);
}

DEVICE f32 f32_erf(f32 x) {
  const f32 t = limit(magnitude(x), 0.0f, 3.93f);
  if (t > 0.875f) {
    f32 p = 0x1.c39598p-13f, y;
    p = fma(p, t, -0x1.a6d68ep-9f);
    p = fma(p, t, 0x1.779b18p-6f);
    p = fma(p, t, -0x1.af603ap-4f);
    p = fma(p, t, -0x1.45777cp-1f);
    p = fma(p, t, -0x1.0738dcp-3f);
    const f32 n = expm1_reduced(fma(p, t, -t), y);
    return copy_sign(1.0f - scale(1.0f + y, n), x);
  }
  const f32 s = x * x;
  f32 p = -0x1.41323cp-11f;
  p = fma(p, s, 0x1.48c424p-8f);
  p = fma(p, s, -0x1.b6c436p-6f);
  p = fma(p, s, 0x1.ce1d88p-4f);
  p = fma(p, s, -0x1.8126f2p-2f);
  p = fma(p, s, 0x1.06eba6p-3f);
  return fma(p, x, x);
}

DEVICE f32 f32_swish(f32 x, f32 alpha) { return x * f32_sigmoid(alpha * x); }
DEVICE f32 f32_gelu(f32 x) { return x * 0.5f * (1.0f + f32_erf(x * 0x1.6a09e6p-1f)); }
DEVICE f32 f32_gelu_tanh(f32 x) {
  const f32 u = x * fma(x * x, 0x1.2444f2p-4f, 0x1.988454p+0f);
  return x * f32_sigmoid(u);
}
DEVICE f32 f32_hard_sigmoid(f32 x, f32 alpha, f32 beta) { return limit(alpha * x + beta, 0.0f, 1.0f); }

// f64_log is the natural logarithm as package math has it on x86-64: x = 2^k * (1+f) with f between sqrt(1/2)-1 and sqrt(2)-1, and
// log(1+f) by a polynomial in s = f/(2+f), none of it fused. x is not a denormal number.
DEVICE f64 f64_log(f64 x) {
  const u64 bits = __builtin_bit_cast(u64, x);
  if ((bits & 0x7fffffffffffffffULL) == 0) return -__builtin_bit_cast(f64, 0x7ff0000000000000ULL);
  if (bits >> 63) return __builtin_bit_cast(f64, 0x7ff8000000000000ULL);
  if (bits >= 0x7ff0000000000000ULL) return x;
  f64 m = __builtin_bit_cast(f64, (bits & 0xfffffffffffffULL) | 0x3fe0000000000000ULL), k = (f64)((s32)(bits >> 52) - 0x3fe);
  if (m <= 7.07106781186547524401e-01) {
    k = k - 1.0;
    m = m * 2.0;
  }
  const f64 f = m - 1.0, s = f / (2.0 + f), s2 = s * s, s4 = s2 * s2;
  const f64 odd = s2 * (6.666666666666735130e-01 + s4 * (2.857142874366239149e-01 + s4 * (1.818357216161805012e-01 + s4 * 1.479819860511658591e-01)));
  const f64 even = s4 * (3.999999999940941908e-01 + s4 * (2.222219843214978396e-01 + s4 * 1.531383769920937332e-01));
  const f64 half = 0.5 * f * f;
  return k * 6.93147180369123816490e-01 - ((half - (s * (half + (odd + even)) + k * 1.90821492927058770002e-10)) - f);
}

// Unary functions, by the numbers that float_elementwise.go has for them.
enum {
  UNARY_LIMIT,        // between a and b
  UNARY_LEAKY,        // a * x below 0
  UNARY_THRESHOLD,    // 0 unless above a
  UNARY_SHRINK,       // x + a below -b, x - a above b, else 0
  UNARY_HARD_SIGMOID, // a * x + b between 0 and 1
  UNARY_HARD_SWISH,
  UNARY_SIGMOID,
  UNARY_TANH,
  UNARY_ERF,
  UNARY_EXP,
  UNARY_GELU,
  UNARY_GELU_TANH,
  UNARY_SWISH, // x * sigmoid(a * x)
  UNARY_SOFTSIGN,
  UNARY_SQRT,
  UNARY_RECIPROCAL,
  UNARY_FLOOR,
  UNARY_CEIL,
  UNARY_ROUND,
  UNARY_ABS,
  UNARY_NEG,
  UNARY_SIGN,
  UNARY_SQUARE,
  UNARY_CUBE, // in float64, rounded once
  UNARY_LOG,  // in float64, rounded once
};

DEVICE f32 unary(s32 op, f32 x, f32 a, f32 b) {
  switch (op) {
  case UNARY_LIMIT: return limit(x, a, b);
  case UNARY_LEAKY: return x < 0.0f ? a * x : x;
  case UNARY_THRESHOLD: return x > a ? x : 0.0f;
  case UNARY_SHRINK: return x < -b ? x + a : x > b ? x - a : 0.0f;
  case UNARY_HARD_SIGMOID: return f32_hard_sigmoid(x, a, b);
  case UNARY_HARD_SWISH: return x * f32_hard_sigmoid(x, (f32)(1.0 / 6), 0.5f);
  case UNARY_SIGMOID: return f32_sigmoid(x);
  case UNARY_TANH: return f32_tanh(x);
  case UNARY_ERF: return f32_erf(x);
  case UNARY_EXP: return f32_exp(x);
  case UNARY_GELU: return f32_gelu(x);
  case UNARY_GELU_TANH: return f32_gelu_tanh(x);
  case UNARY_SWISH: return f32_swish(x, a);
  case UNARY_SOFTSIGN: return x / (1.0f + magnitude(x));
  case UNARY_SQRT: return f32_sqrt(x);
  case UNARY_RECIPROCAL: return 1.0f / x;
  case UNARY_FLOOR: return f32_floor(x);
  case UNARY_CEIL: return f32_ceil(x);
  case UNARY_ROUND: return half_even(x);
  case UNARY_ABS: return magnitude(x);
  case UNARY_NEG: return f32_of(f32_bits(x) ^ 0x80000000u);
  case UNARY_SIGN: return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
  case UNARY_SQUARE: return x * x;
  case UNARY_CUBE: return (f32)((f64)x * (f64)x * (f64)x);
  case UNARY_LOG: return (f32)f64_log((f64)x);
  }
  return x;
}

// Functions of two numbers.
enum { BINARY_ADD, BINARY_SUB, BINARY_MUL, BINARY_DIV, BINARY_MAX, BINARY_MIN, BINARY_PRELU, BINARY_SCALED_ADD,
  BINARY_AT_LEAST, BINARY_AT_MOST }; // as limit

DEVICE f32 binary(s32 op, f32 x, f32 y, f32 scale) {
  switch (op) {
  case BINARY_ADD: return x + y;
  case BINARY_SUB: return x - y;
  case BINARY_MUL: return x * y;
  case BINARY_DIV: return x / y;
  case BINARY_MAX: return go_max(x, y);
  case BINARY_MIN: return go_min(x, y);
  case BINARY_PRELU: return x < 0.0f ? y * x : x;
  case BINARY_AT_LEAST: return x < y ? y : x;
  case BINARY_AT_MOST: return x > y ? y : x;
  }
  return x + scale * y;
}
