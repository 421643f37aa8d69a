// The quantized operators other than products of matrices, one code at a time: the arithmetic of kernels/qmath, bit for bit.
// operators.go has the Go side of the structs. Compiles as C++ for the host too.
#pragma once
#include "requantize.cuh"

// Quantizer is qmath.Quantizer: codes of float32 numbers.
struct Quantizer {
  f32 scale;         // the divisor, or the reciprocal
  s32 multiply;      // scale is the reciprocal
  s32 rounding;
  s32 zero, lo, hi;
  s32 nan;           // the code of NaN
  f32 reciprocal;    // of quantize_some
  f32 near;          // how far from an integer quantize_some is sure of it; below 0, it is nowhere
};

DEVICE s32 quantize(const Quantizer &q, f32 x) {
  const f32 v = q.multiply ? x * q.scale : x / q.scale;
  const s32 code = clamp_rounded(round_s32(q.rounding, v), q.zero, q.lo, q.hi);
  return v != v ? q.nan : code;
}

// quantize_some makes N codes as quantize does, mostly without dividing: the product with the reciprocal is so near the quotient that
// both round alike, unless it lies next to a tie.
template <int N>
DEVICE void quantize_some(const Quantizer &q, const f32 (&x)[N], s32 (&code)[N]) {
  const f32 magic = 12582912.0f; // 1.5 * 2^23: adding it rounds half to even
  const f32 lo = (f32)(q.lo - q.zero), hi = (f32)(q.hi - q.zero);
  bool unsure = false;
#pragma unroll
  for (int k = 0; k < N; k++) {
    const f32 v = x[k] * q.reciprocal, w = min_f32(max_f32(v, lo), hi), t = w + magic;
    unsure |= !(__builtin_fabsf(w - (t - magic)) <= q.near) || v != v;
    code[k] = add32(f32_bits(t), q.zero - f32_bits(magic));
  }
  if (unsure)
#pragma unroll
    for (int k = 0; k < N; k++) code[k] = quantize(q, x[k]);
}

// Rescale is qmath.Rescale: codes from one grid to another.
enum { RESCALE_SAME, RESCALE_FLOAT, RESCALE_EIGHTH, RESCALE_SCALED };
struct Rescale {
  s32 kind;
  s32 zero;    // of the input
  f32 scale;   // of the input
  s32 eighth;
  Multiplier k;
  Scaling scaling;
  Quantizer to;
  s32 unused;
};

DEVICE s32 rescale(const Rescale &r, s32 q) {
  switch (r.kind) {
  case RESCALE_FLOAT: return quantize(r.to, dequantize(q, r.zero, r.scale));
  case RESCALE_EIGHTH:
    return (s32)clamp64(((mul_wide(sub32(q, r.zero), r.eighth) + 128) >> 8) + r.scaling.zero, r.scaling.lo, r.scaling.hi);
  case RESCALE_SCALED: return requantize<ANY_FORM>(r.scaling, sub32(q, r.zero), r.k);
  }
  return q;
}

// Sum is qmath.Sum: codes added or subtracted.
enum SumForm { SUM_FLOAT, SUM_SHIFTED, SUM_EACH, SUM_ALIGNED, SUM_FUSED };
struct Sum {
  s32 form, subtract;
  s32 za, zb;
  f32 fa, fb, k;      // SUM_FLOAT: scales; SUM_FUSED: factors and the constant
  s32 left, right;
  s32 rounding;       // SUM_ALIGNED
  Multiplier ma, mb, my;
  Scaling scaling;    // zero point and limits of all but SUM_FLOAT
  Quantizer to;       // SUM_FLOAT
  s32 unused;
};

// sum_term is what an operand adds to the sum, in SUM_SHIFTED and SUM_EACH; sum_terms is the code of two of them.
template <int form>
DEVICE s32 sum_term(const Sum &s, s32 q, s32 zero, Multiplier k) {
  const s32 v = sub32(q, zero);
  return scale32(s.scaling.form, s.scaling.rounding, form == SUM_SHIFTED ? left32(v, s.left) : v, k);
}
template <int form>
DEVICE s32 sum_terms(const Sum &s, s32 a, s32 b) {
  s64 v = s.subtract ? (s64)a - b : (s64)a + b;
  if (form == SUM_SHIFTED) v = scale32(s.scaling.form, s.scaling.rounding, (s32)v, s.my);
  return (s32)clamp64(v + s.scaling.zero, s.scaling.lo, s.scaling.hi);
}

// scale_small is scale32 of DOUBLE_UP_AWAY, or of SINGLE_UP, for accumulators below 2^30 and factors below a half.
template <int form>
DEVICE s32 scale_small(s32 acc, Multiplier k) {
  if (form == SINGLE_UP) return (s32)((mul_wide(acc, k.m) + (1LL << (30 - k.shift))) >> (31 - k.shift));
  const s32 h = (s32)((mul_wide(acc, k.m) + (1LL << 30)) >> 31);
  return (h + (1 << (-k.shift - 1)) + (h >> 31)) >> -k.shift;
}

// HalfSum is a SUM_SHIFTED of 8-bit codes in which the factor of a is a half, as that of the larger scale is: a adds a number of steps
// without any rounding, and all that depends on b alone is a table.
struct HalfSum {
  s32 factor;      // of a - zero of a: 2^19, or -2^19 where a is taken away
  s32 za, zb;
  s32 negative;    // b is taken away
  s32 left;
  s32 form;
  Multiplier mb, my;
  s32 zero, lo, hi;
  s32 unused;
};

// half_term is what code b adds, together with what the zero point of a does; half_sum is the code of both. Codes of a are raised.
DEVICE s32 half_term(const HalfSum &s, s32 b, s32 raised) {
  const s32 v = scale32(s.form, HALF_EVEN, left32(sub32(b, s.zb), s.left), s.mb);
  return (s.negative ? -v : v) - (s.za + raised) * s.factor;
}
template <int form>
DEVICE s32 half_sum(const HalfSum &s, s32 a, s32 term) { return clamp32(scale_small<form>(a * s.factor + term, s.my) + s.zero, s.lo, s.hi); }

// sum_codes is the sum of codes a and b. form is the form where a kernel is for one, or -1.
template <int form>
DEVICE s32 sum_codes(const Sum &s, s32 a, s32 b) {
  const s32 f = form < 0 ? s.form : form;
  if (f == SUM_FUSED) return clamp32(even_s32(fma((f32)a, s.fa, fma((f32)b, s.fb, s.k))), s.scaling.lo, s.scaling.hi);
  if (f == SUM_FLOAT) {
    const f32 x = dequantize(a, s.za, s.fa), y = dequantize(b, s.zb, s.fb);
    return quantize(s.to, x + (s.subtract ? -y : y));
  }
  if (f == SUM_SHIFTED) return sum_terms<SUM_SHIFTED>(s, sum_term<SUM_SHIFTED>(s, a, s.za, s.ma), sum_term<SUM_SHIFTED>(s, b, s.zb, s.mb));
  if (f == SUM_EACH) return sum_terms<SUM_EACH>(s, sum_term<SUM_EACH>(s, a, s.za, s.ma), sum_term<SUM_EACH>(s, b, s.zb, s.mb));
  const s64 va = mul_wide(sub32(a, s.za), s.ma.m), vb = mul_wide(sub32(b, s.zb), s.mb.m);
  const s64 v = shift64(s.rounding, s.subtract ? va - vb : va + vb, -s.right);
  return (s32)clamp64(v + s.scaling.zero, s.scaling.lo, s.scaling.hi);
}

// sum_float is sum_codes of SUM_FLOAT for several pairs.
template <int N>
DEVICE void sum_float(const Sum &s, const s32 (&a)[N], const s32 (&b)[N], s32 (&code)[N]) {
  f32 v[N];
#pragma unroll
  for (int k = 0; k < N; k++) {
    const f32 x = dequantize(a[k], s.za, s.fa), y = dequantize(b[k], s.zb, s.fb);
    v[k] = x + (s.subtract ? -y : y);
  }
  quantize_some(s.to, v, code);
}

// Product is qmath.Product: codes multiplied.
struct Product {
  s32 real; // in float32
  s32 za, zb;
  f32 fa, fb;
  s32 unused;
  Multiplier k;
  Scaling scaling;
  Quantizer to;
  s32 unused2;
};

// product_codes is the product of codes a and b; forms leaves out what a kernel is not for.
template <int forms>
DEVICE s32 product_codes(const Product &p, s32 a, s32 b) {
  if (forms != ONLY_FIXED && p.real) return quantize(p.to, dequantize(a, p.za, p.fa) * dequantize(b, p.zb, p.fb));
  return requantize<forms>(p.scaling, mul32(sub32(a, p.za), sub32(b, p.zb)), p.k);
}

// product_real is product_codes of a real product for several pairs.
template <int N>
DEVICE void product_real(const Product &p, const s32 (&a)[N], const s32 (&b)[N], s32 (&code)[N]) {
  f32 v[N];
#pragma unroll
  for (int k = 0; k < N; k++) v[k] = dequantize(a[k], p.za, p.fa) * dequantize(b[k], p.zb, p.fb);
  quantize_some(p.to, v, code);
}

// product_small is product_codes of 8-bit codes by scale_small.
template <int form>
DEVICE s32 product_small(const Product &p, s32 a, s32 b) {
  const Scaling &s = p.scaling;
  return clamp32(scale_small<form>((a - p.za) * (b - p.zb), p.k) + s.zero, s.lo, s.hi);
}

// rounded_quotient is x*2^n/d, rounded.
DEVICE s64 rounded_quotient(s32 rounding, s64 x, s32 n, s64 d) {
  s64 num = x;
  if (n >= 0) num = left64(x, n); else d = left64(d, -n);
  if (num == (s32)num && d == (s32)d) { // mostly
    s32 q = (s32)num / (s32)d, rest = (s32)num - q * (s32)d;
    if (rest < 0) q--, rest += (s32)d;
    return q + rounds_up(rounding, q, num < 0, 2 * (s64)rest, d);
  }
  s64 q = num / d, rest = num - q * d;
  if (rest < 0) q--, rest += d;
  return q + rounds_up(rounding, q, num < 0, 2 * rest, d);
}

// Average is qmath.Average: means of n codes. multipliers has the factor of n at n-first, where the form is AVERAGE_SCALED.
enum AverageForm { AVERAGE_SCALED, AVERAGE_FLOAT, AVERAGE_SAME, AVERAGE_EACH, AVERAGE_EXACT, AVERAGE_TERMS };
struct Average {
  const Multiplier *multipliers;
  s32 form;
  s32 zero;       // of the input
  f32 scale;      // of the input
  f32 out;        // AVERAGE_TERMS: scale of the output
  s32 shift, rounding; // AVERAGE_EXACT
  s32 empty;      // the mean of nothing
  s32 first;
  Scaling scaling; // zero point and limits of all but AVERAGE_FLOAT
  Quantizer to;    // AVERAGE_FLOAT
  s32 unused2;
  Rescale each;    // AVERAGE_EACH
};

// average_term is what code q adds to the sum of all forms but AVERAGE_TERMS.
DEVICE s32 average_term(const Average &a, s32 q) { return a.form == AVERAGE_EACH ? rescale(a.each, q) : sub32(q, a.zero); }

// average_codes is the mean, given the sum of n terms.
DEVICE s32 average_codes(const Average &a, s32 sum, s32 n) {
  const Scaling &s = a.scaling;
  switch (a.form) {
  case AVERAGE_FLOAT: return quantize(a.to, (f32)sum * a.scale / (f32)n);
  case AVERAGE_SAME: {
    const s64 raw = sum + (s64)n * a.zero, half = n / 2;
    const u64 magnitude = (u64)(raw < 0 ? -raw : raw) + (u64)half;
    const s64 q = magnitude >> 32 ? (s64)(magnitude / (u64)n) : (s64)((u32)magnitude / (u32)n);
    return (s32)clamp64(raw < 0 ? -q : q, s.lo, s.hi);
  }
  case AVERAGE_EACH: return clamp32(sum / n, s.lo, s.hi);
  case AVERAGE_EXACT: return (s32)clamp64(rounded_quotient(a.rounding, sum, a.shift, n) + s.zero, s.lo, s.hi);
  }
  return requantize<ANY_FORM>(s, sum, a.multipliers[n - a.first]);
}

// average_real is the mean of AVERAGE_TERMS, given the float32 sum of n terms.
DEVICE s32 average_real(const Average &a, f32 sum, s32 n) {
  return clamp32(even_s32(sum / (f32)n / a.out + (f32)a.scaling.zero), a.scaling.lo, a.scaling.hi);
}

// Softmax is qmath.Softmax: rows of codes. Every d is the distance of a code from the row's largest.
enum SoftmaxForm { SOFTMAX_INTEGER, SOFTMAX_GEMMLOWP, SOFTMAX_MLAS };
struct Softmax {
  const s32 *table; // SOFTMAX_INTEGER: exponentials; SOFTMAX_MLAS: bits of float32 terms
  s64 inverse;      // SOFTMAX_INTEGER
  s32 form;
  s32 rounding;     // SOFTMAX_INTEGER
  s32 zero, lo, hi;
  s32 fixed;        // SOFTMAX_GEMMLOWP: form of the scaling
  Multiplier k;     // SOFTMAX_GEMMLOWP
  s32 radius;       // SOFTMAX_GEMMLOWP
  f32 per_output;   // SOFTMAX_MLAS
};

// exp_quarter is exp(a) for a in [-1/4, 0), both with 31 fractional bits.
DEVICE s32 exp_quarter(s32 a) {
  const s32 middle = 1895147668, third = 715827883; // exp(-1/8), 1/3
  const s32 x = add32(a, 1 << 28), x2 = high_mul(x, x), x3 = high_mul(x2, x), x4 = high_mul(x2, x2);
  const s32 tail = divide_by_power(add32(high_mul(add32(divide_by_power(x4, 2), x3), third), x2), 1);
  return add32(middle, high_mul(middle, add32(x, tail)));
}

// exp_negative is exp(a), with 31 fractional bits, for a <= 0 with 26.
DEVICE s32 exp_negative(s32 a) {
  if (a == 0) return 0x7fffffff;
  const s32 quarter = 1 << 24;
  const s32 low = (a & (quarter - 1)) - quarter, rest = sub32(low, a);
  s32 e = exp_quarter(left32(low, 5));
  // exp(-2^(i-2))
  if (rest & quarter << 0) e = high_mul(e, 1672461947);
  if (rest & quarter << 1) e = high_mul(e, 1302514674);
  if (rest & quarter << 2) e = high_mul(e, 790015084);
  if (rest & quarter << 3) e = high_mul(e, 290630308);
  if (rest & quarter << 4) e = high_mul(e, 39332535);
  if (rest & quarter << 5) e = high_mul(e, 720401);
  if (rest & quarter << 6) e = high_mul(e, 242);
  return e;
}

DEVICE s32 saturating_left(s32 x, s32 n) { return (s32)clamp64(left64(x, n), -0x7fffffffLL - 1, 0x7fffffff); }

// softmax_reciprocal is 1/x with 31 fractional bits for x > 0 with 19, shifted left by over bits.
DEVICE s32 softmax_reciprocal(s32 x, s32 &over) {
  const s32 lead = __builtin_clz((u32)x), fraction = (s32)(((u32)x << lead) - (1u << 31));
  const s32 half = (s32)(((s64)fraction + (1LL << 31)) / 2);
  s32 y = add32(1515870810, high_mul(half, -1010580540));
  for (int i = 0; i < 3; i++) y = add32(y, saturating_left(high_mul(y, sub32(1 << 29, high_mul(half, y))), 2));
  over = 12 - lead;
  return saturating_left(y, 1);
}

// softmax_exp is the exponential of a code, or the bits of its term in SOFTMAX_MLAS. Beyond the radius of SOFTMAX_GEMMLOWP it is not read.
DEVICE s32 softmax_exp(const Softmax &s, s32 d) {
  if (s.form != SOFTMAX_GEMMLOWP) return s.table[d];
  return d <= s.radius ? exp_negative(scale32(s.fixed, HALF_EVEN, -d, s.k)) : 0;
}

// softmax_term is what a code with exponential e adds to the sum of its row, in the integer forms.
DEVICE s32 softmax_term(const Softmax &s, s32 d, s32 e) {
  if (s.form == SOFTMAX_INTEGER) return e;
  return d <= s.radius ? divide_by_power(e, 12) : 0;
}

// SoftmaxRow is what the sum of a row comes to, in the integer forms.
struct SoftmaxRow {
  s64 sum;        // SOFTMAX_INTEGER: the divisor, and nearly the reciprocal
  f32 inverse;
  s32 reciprocal; // SOFTMAX_GEMMLOWP
  s32 shift;
};

DEVICE SoftmaxRow softmax_row(const Softmax &s, s64 sum) {
  SoftmaxRow row = {sum << 16, 1.0f / (f32)(sum << 16), 0, 0};
  if (s.form == SOFTMAX_GEMMLOWP) {
    row.reciprocal = softmax_reciprocal((s32)sum, row.shift);
    row.shift += 31 - 8;
  }
  return row;
}

// softmax_code is the result for a code with exponential e, in the integer forms.
DEVICE s32 softmax_code(const Softmax &s, s32 e, const SoftmaxRow &row) {
  if (s.form == SOFTMAX_INTEGER) {
    // The quotient is at most one away from that in float32. Above 2^18 it is limited anyway.
    const s64 num = e * s.inverse;
    const f32 about = (f32)num * row.inverse;
    s64 q = about < 262144.0f ? (s32)about : 262144, rest = num - q * row.sum;
    if (rest < 0) q--, rest += row.sum;
    if (rest >= row.sum && q < 262144) q++, rest -= row.sum;
    q += rounds_up(s.rounding, q, false, 2 * rest, row.sum);
    return clamp32((s32)q + s.zero, s.lo, s.hi);
  }
  // Nothing is negative here, and the reciprocal of a sum with its largest term is shifted by 23 bits or more: with more than 31, what is
  // left is below half a code. Beyond the radius, exponentials are 0.
  const u32 v = (u32)((mul_wide(row.reciprocal, e) + (1LL << 30)) >> 31);
  const s32 code = row.shift > 31 ? 0 : (s32)((v + (1u << ((row.shift - 1) & 31))) >> (row.shift & 31));
  return clamp32(code + s.zero, s.lo, s.hi);
}

// softmax_real is the result for a code of SOFTMAX_MLAS with the bits e of its term, given the float32 sum of the row's terms in order.
DEVICE s32 softmax_real(const Softmax &s, s32 e, f32 sum) {
  return clamp_rounded(even_s32(bits_f32(e) * s.per_output / sum), s.zero, s.lo, s.hi);
}
