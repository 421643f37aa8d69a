// From accumulator to code: the arithmetic of kernels/qmath (Scaling.Requantize, Requantize64, RequantizeAdd, Channel.Accumulated),
// bit for bit. requantize.go has the Go side of the structs. Everything here compiles as C++ for the host too and is compared with
// qmath there.
//
// Signed numbers wrap in qmath; here they are shifted, added and multiplied as unsigned ones, because overflow has no meaning in C.
#pragma once
#include "common.cuh"

// Rounding, as qmath numbers it.
enum Rounding { HALF_EVEN, HALF_UP, HALF_DOWN, HALF_TOWARDS_ZERO, HALF_AWAY, ROUND_UP, ROUND_DOWN };

// Form, as qmath numbers it.
enum Form { DOUBLE_UP_AWAY, DOUBLE_UP_UP, SINGLE_UP, SINGLE_UP_SHIFT, SINGLE_AWAY, SHIFT_ONLY, FLOAT_AFTER, FLOAT_INSIDE, FLOAT_DIVIDE,
  FLOAT_TWICE };

// Forms is a class of forms. A kernel that is instantiated for one carries the code of no other: ONLY_SCALE is FLOAT_AFTER with ties to
// even, ONLY_FLOAT every float form, ONLY_FIXED every integer form.
enum Forms { ANY_FORM, ONLY_SCALE, ONLY_FLOAT, ONLY_FIXED };

// Multiplier is the factor of one channel: m and shift of the integer forms, or the bits of scale and bias of the float forms.
struct alignas(8) Multiplier {
  s32 m, shift;
};

// Scaling is a step from accumulator to code but for its multiplier. lo of FLOAT_TWICE is at least -127.
struct Scaling {
  s32 form, rounding;
  s32 zero, lo, hi; // of the float forms within 2^30 of 0
  f32 out;          // FLOAT_DIVIDE: the divisor; FLOAT_TWICE: the second factor
};

// Requantize is what an epilogue makes codes with. Channel c has multipliers[c*step].
struct Requantize {
  const Multiplier *multipliers;
  s32 step;
  s32 skip_zero; // of the residual, as skip_scale
  f32 skip_scale;
  s32 unused;
  Scaling scaling;
};

// Accumulated is what an epilogue makes real numbers with: scale and bias of channel c are multipliers[c*step].
struct Accumulated {
  const Multiplier *multipliers;
  s32 step;
  s32 skip_zero;
  f32 skip_scale;
  f32 lo, hi;
  s32 unused;
};

DEVICE s32 min32(s32 a, s32 b) { return a < b ? a : b; }
DEVICE s32 max32(s32 a, s32 b) { return a > b ? a : b; }
DEVICE s64 min64(s64 a, s64 b) { return a < b ? a : b; }
DEVICE s64 max64(s64 a, s64 b) { return a > b ? a : b; }
DEVICE s32 clamp32(s32 v, s32 lo, s32 hi) { return min32(max32(v, lo), hi); }
DEVICE s64 clamp64(s64 v, s64 lo, s64 hi) { return min64(max64(v, lo), hi); }
DEVICE s32 add32(s32 a, s32 b) { return (s32)((u32)a + (u32)b); }
DEVICE s32 sub32(s32 a, s32 b) { return (s32)((u32)a - (u32)b); }
DEVICE s32 mul32(s32 a, s32 b) { return (s32)((u32)a * (u32)b); }
DEVICE s32 left32(s32 x, s32 n) { return (s32)((u32)x << n); }
DEVICE s64 add64(s64 a, s64 b) { return (s64)((u64)a + (u64)b); }
DEVICE s64 left64(s64 x, s32 n) { return (s64)((u64)x << n); }

// mul_wide is the product in 64 bits. Written as such on the device, because a factor that is widened ahead of a loop makes it a product
// of 64 bits by 64.
#ifdef __CUDA__
DEVICE s64 mul_wide(s32 a, s32 b) { s64 y; asm("mul.wide.s32 %0, %1, %2;" : "=l"(y) : "r"(a), "r"(b)); return y; }
#else
DEVICE s64 mul_wide(s32 a, s32 b) { return (s64)a * (s64)b; }
#endif


DEVICE f32 bits_f32(s32 x) { f32 y; __builtin_memcpy(&y, &x, 4); return y; }
DEVICE s32 f32_bits(f32 x) { s32 y; __builtin_memcpy(&y, &x, 4); return y; }

// larger and smaller are Go's max and min: NaN wins, and +0 is larger than -0.
DEVICE f32 larger(f32 a, f32 b) {
  if (a == b) return bits_f32(f32_bits(a) & f32_bits(b));
  return a > b || a != a ? a : b;
}
DEVICE f32 smaller(f32 a, f32 b) {
  if (a == b) return bits_f32(f32_bits(a) | f32_bits(b));
  return a < b || a != a ? a : b;
}

// to_s32 converts an integral number; what does not fit saturates and NaN is 0. even_s32 rounds half to even first.
#ifdef __CUDA__
// min_f32 and max_f32 return the other number where one is NaN.
DEVICE f32 min_f32(f32 a, f32 b) { return __nvvm_fmin_f(a, b); }
DEVICE f32 max_f32(f32 a, f32 b) { return __nvvm_fmax_f(a, b); }
DEVICE s32 to_s32(f32 x) { s32 y; asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(y) : "f"(x)); return y; }
DEVICE s32 even_s32(f32 x) { s32 y; asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(x)); return y; }
#else
DEVICE f32 min_f32(f32 a, f32 b) { return __builtin_fminf(a, b); }
DEVICE f32 max_f32(f32 a, f32 b) { return __builtin_fmaxf(a, b); }
DEVICE s32 to_s32(f32 x) {
  if (x != x) return 0;
  if (x >= 2147483648.0f) return 0x7fffffff;
  return x < -2147483648.0f ? -0x7fffffff - 1 : (s32)x;
}
DEVICE s32 even_s32(f32 x) { return to_s32(half_even(x)); }
#endif

// round_s32 rounds as r says. Numbers whose rounding does not fit saturate, NaN is 0.
DEVICE s32 round_s32(s32 r, f32 x) {
  if (r == HALF_EVEN) return even_s32(x);
  if (r == ROUND_UP) return to_s32(__builtin_ceilf(x));
  if (r == ROUND_DOWN) return to_s32(__builtin_floorf(x));
  const f32 whole = __builtin_truncf(x), rest = __builtin_fabsf(x - whole); // exact
  f32 y = whole;
  if (rest > 0.5f || (rest == 0.5f && r == HALF_AWAY)) {
    y = whole + (x < 0 ? -1.0f : 1.0f);
  } else if (rest == 0.5f && r == HALF_UP) {
    y = __builtin_ceilf(x);
  } else if (rest == 0.5f && r == HALF_DOWN) {
    y = __builtin_floorf(x);
  } else if (rest != rest) {
    y = x;
  }
  return to_s32(y);
}

// clamp_rounded returns v + zero limited to [lo, hi], where v was rounded with saturation.
DEVICE s32 clamp_rounded(s32 v, s32 zero, s32 lo, s32 hi) { return clamp32(v, lo - zero, hi - zero) + zero; }

// high_mul is a*b/2^31 rounded half up, which is what gemmlowp's nudge and truncation come to; the product that does not fit gives
// the largest number.
DEVICE s32 high_mul(s32 a, s32 b) {
  const s64 v = (mul_wide(a, b) + (1LL << 30)) >> 31;
  return v > 0x7fffffff ? 0x7fffffff : (s32)v;
}

// divide_by_power is x/2^n rounded half away from zero, n in [0, 31].
DEVICE s32 divide_by_power(s32 x, s32 n) {
  const s32 mask = (s32)((1u << n) - 1), threshold = (mask >> 1) + (x < 0);
  return (x >> n) + ((x & mask) > threshold);
}

// rounds_up decides whether a floor becomes the next integer, given the rest above it and what half a step is.
DEVICE bool rounds_up(s32 r, s64 floor, bool negative, s64 rest, s64 half) {
  if (rest == 0 || r == ROUND_DOWN) return false;
  if (r == ROUND_UP) return true;
  if (rest != half) return rest > half;
  switch (r) {
  case HALF_UP: return true;
  case HALF_DOWN: return false;
  case HALF_TOWARDS_ZERO: return negative;
  case HALF_AWAY: return !negative;
  }
  return floor & 1;
}

// shift64 is x*2^n rounded, n in [-62, 31]; results beyond 64 bits saturate.
DEVICE s64 shift64(s32 r, s64 x, s32 n) {
  if (n >= 0) {
    const s64 v = left64(x, n);
    if (v >> n == x) return v;
    return x < 0 ? (s64)(1ULL << 63) : (s64)(~0ULL >> 1);
  }
  const s64 q = x >> -n;
  return q + rounds_up(r, q, x < 0, x - left64(q, -n), 1LL << (-n - 1));
}

// mul_shift is x*m/2^n in 128 bits, n in [1, 62], m in [0, 2^31), rounded half up, or half away from zero; beyond 64 bits it
// saturates.
DEVICE s64 mul_shift(s64 x, s64 m, s32 n, bool up) {
  const u64 magnitude = x < 0 ? 0 - (u64)x : (u64)x, half = (1ULL << (n - 1)) - (x < 0 && up);
  const unsigned __int128 product = (unsigned __int128)magnitude * (u64)m;
  u64 high = (u64)(product >> 64), low = (u64)product;
  low += half;
  high += low < half;
  u64 q = high << (64 - n) | low >> n;
  if (high >> n != 0 || q > ~0ULL >> 1) q = ~0ULL >> 1;
  return x < 0 ? -(s64)q : (s64)q;
}

// scale32 applies an integer form. It is not limited, and wraps where qmath does.
DEVICE s32 scale32(s32 form, s32 rounding, s32 acc, Multiplier k) {
  switch (form) {
  case DOUBLE_UP_AWAY:
    return divide_by_power(high_mul(left32(acc, max32(k.shift, 0)), k.m), max32(-k.shift, 0));
  case DOUBLE_UP_UP: {
    const s64 h = (mul_wide(left32(acc, max32(k.shift, 0)), k.m) + (1LL << 30)) >> 31;
    return (s32)(k.shift >= 0 ? h : (h + (1LL << (-k.shift - 1))) >> -k.shift);
  }
  case SINGLE_UP_SHIFT:
    if (k.m == 1 << 30 && k.shift >= 1) return left32(acc, k.shift - 1);
    if (k.m == 1 << 30) return add32(acc, left32(1, -k.shift)) >> min32(1 - k.shift, 31);
    break;
  case SINGLE_AWAY: {
    const s64 v = mul_wide(acc, k.m);
    return (s32)((v + (1LL << (30 - k.shift)) - (v < 0)) >> (31 - k.shift));
  }
  case SHIFT_ONLY:
    return (s32)clamp64(shift64(rounding, acc, k.shift - 1), -0x7fffffffLL - 1, 0x7fffffff);
  }
  return (s32)((mul_wide(acc, k.m) + (1LL << (30 - k.shift))) >> (31 - k.shift));
}

// round_real makes a code of a float32 value that has been scaled.
template <int forms>
DEVICE s32 round_real(const Scaling &s, f32 v) {
  if (forms == ONLY_SCALE) return clamp_rounded(even_s32(v), s.zero, s.lo, s.hi);
  switch (s.form) {
  case FLOAT_INSIDE: return clamp32(even_s32(v + (f32)s.zero), s.lo, s.hi);
  case FLOAT_DIVIDE: v = v / s.out; break;
  case FLOAT_TWICE: v = v * s.out; break;
  }
  return clamp_rounded(round_s32(s.rounding, v), s.zero, s.lo, s.hi);
}

// scale_real is float32(acc)*scale + bias.
template <typename Acc>
DEVICE f32 scale_real(Acc acc, Multiplier k) {
  return (f32)acc * bits_f32(k.m) + bits_f32(k.shift);
}

// requantize makes the code of an accumulator.
template <int forms>
DEVICE s32 requantize(const Scaling &s, s32 acc, Multiplier k) {
  if (forms == ONLY_FIXED || (forms == ANY_FORM && s.form < FLOAT_AFTER))
    return (s32)clamp64((s64)scale32(s.form, s.rounding, acc, k) + s.zero, s.lo, s.hi);
  return round_real<forms>(s, scale_real(acc, k));
}

// requantize64 is requantize of an accumulator of 64 bits.
template <int forms>
DEVICE s32 requantize64(const Scaling &s, s64 acc, Multiplier k) {
  if (forms == ONLY_SCALE || forms == ONLY_FLOAT || (forms == ANY_FORM && s.form >= FLOAT_AFTER))
    return round_real<forms>(s, scale_real(acc, k));
  s64 v;
  switch (s.form) {
  case DOUBLE_UP_AWAY:
  case SINGLE_UP:
    v = mul_shift(acc, k.m < 0x7fff0000 ? (k.m + (1 << 15)) >> 16 : 0x7fff, 15 - k.shift, true);
    break;
  case DOUBLE_UP_UP:
    v = mul_shift(left64(acc, max32(k.shift, 0)), k.m, 31, true);
    v = shift64(HALF_UP, v, min32(k.shift, 0));
    break;
  case SINGLE_AWAY:
    v = mul_shift(acc, k.m, 31 - k.shift, false);
    break;
  case SHIFT_ONLY:
    v = shift64(s.rounding, acc, k.shift - 1);
    break;
  default:
    v = mul_shift(acc, k.m, 31 - k.shift, true);
  }
  return (s32)clamp64(v, (s64)s.lo - s.zero, (s64)s.hi - s.zero) + s.zero;
}

// dequantize is float32(q - zero) * scale.
DEVICE f32 dequantize(s32 q, s32 zero, f32 scale) { return (f32)sub32(q, zero) * scale; }

// requantize_add is requantize with the residual code q added before the one rounding; only float forms have it. Acc is s32 or s64.
template <int forms, typename Acc>
DEVICE s32 requantize_add(const Requantize &r, Acc acc, Multiplier k, s32 q) {
  return round_real<forms>(r.scaling, scale_real(acc, k) + dequantize(q, r.skip_zero, r.skip_scale));
}

// accumulated is the real number of an accumulator, limited to [lo, hi]; accumulated_add adds the residual code q before that.
template <typename Acc>
DEVICE f32 accumulated(const Accumulated &r, Acc acc, Multiplier k) {
  return smaller(larger(scale_real(acc, k), r.lo), r.hi);
}
template <typename Acc>
DEVICE f32 accumulated_add(const Accumulated &r, Acc acc, Multiplier k, s32 q) {
  return smaller(larger(scale_real(acc, k) + dequantize(q, r.skip_zero, r.skip_scale), r.lo), r.hi);
}
