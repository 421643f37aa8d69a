// What observing a tensor keeps of it, and the arithmetic of it; package observers says what it means. All of it is counts and
// extremes, which do not depend on the order in which threads come.
#pragma once
#include "common.cuh"

// The grid of kernels/ref.Bin: equal bins per octave, for the largest octave and those below it that a histogram keeps apart.
#define BIN_SHIFT 13
#define BINS 1024u
#define ZEROS 16u
#define OCTAVES 21u
#define SIDE (1u + OCTAVES * BINS)

// Tally is what has been seen of a tensor. All zeros is: nothing.
struct Tally {
  u32 top;   // largest exponent field among the values of the table
  u32 signs; // 1: there are values above zero, 2: below
  u32 halves[2][2]; // extremes of the samples of either half: of -x, of x; see rank
  u64 infinite[2];  // positive, negative
  u64 ties;         // rows whose two largest values are equal
  u64 unused[2];
  u32 table[ZEROS + 2 * SIDE]; // of kernels.Meter.Count from octave lowest(top) on
};

DEVICE u32 bits_of(f32 v) { return __builtin_bit_cast(u32, v); }
DEVICE f32 float_of(u32 b) { return __builtin_bit_cast(f32, b); }

DEVICE bool finite(f32 v) { return (bits_of(v) & 0x7f800000u) != 0x7f800000u; }

// rank numbers finite values in their order, from 1 on; both zeros alike. 0 is no value.
DEVICE u32 rank(f32 v) {
  const u32 b = bits_of(v + 0.0f);
  return b >> 31 ? ~b : b | 1u << 31;
}

// value is what has a rank.
DEVICE f32 value(u32 rank) { return float_of(rank >> 31 ? rank ^ 1u << 31 : ~rank); }

// lowest is the lowest exponent field that is kept apart.
DEVICE u32 lowest(u32 top) { return top > OCTAVES ? top - (OCTAVES - 1) : 1; }

// counter is kernels/ref.Bin of a value that is neither zero nor denormal and whose exponent is at most top.
DEVICE u32 counter(u32 bits, u32 top) {
  const u32 key = bits << 1 >> (BIN_SHIFT + 1), first = lowest(top) * BINS;
  return ZEROS + (bits >> 31) * SIDE + (key < first ? 0 : 1 + key - first);
}

// Extremes of some values, and how many are not finite.
struct Extremes {
  f32 lo, hi; // lo > hi where there are none
  u32 nan, positive, negative; // infinite ones
};

DEVICE Extremes no_extremes() { return {float_of(0x7f800000u), float_of(0xff800000u), 0, 0, 0}; }

DEVICE void see(Extremes &e, f32 v) {
  if (finite(v)) {
    e.lo = v < e.lo ? v : e.lo;
    e.hi = v > e.hi ? v : e.hi;
  } else if (v != v) {
    e.nan++;
  } else {
    e.positive += v > 0;
    e.negative += v < 0;
  }
}

// extremes_between looks at every stride-th value from x on, up to end. What is not finite is rare: it is looked for again.
DEVICE Extremes extremes_between(const f32 *x, const f32 *end, u64 stride) {
  const f32 *first = x;
  Extremes e = no_extremes();
  u32 most = 0; // of the bits of |x|
  auto quick = [&](f32 v) {
    const u32 size = bits_of(v) & 0x7fffffffu;
    most = size > most ? size : most;
    e.lo = __builtin_fminf(e.lo, v);
    e.hi = __builtin_fmaxf(e.hi, v);
  };
  for (; x + 7 * stride < end; x += 8 * stride) {
    f32 v[8];
#pragma unroll
    for (u32 k = 0; k < 8; k++) v[k] = x[k * stride];
#pragma unroll
    for (u32 k = 0; k < 8; k++) quick(v[k]);
  }
  for (; x < end; x += stride) quick(*x);
  if (most < 0x7f800000u) return e;
  e = no_extremes();
  for (x = first; x < end; x += stride) see(e, *x);
  return e;
}

// Leaders are the two largest values of a row; equal ones count each.
struct Leaders {
  f32 first, second;
  u32 finite; // all values are
};

DEVICE Leaders no_leaders() { return {float_of(0xff800000u), float_of(0xff800000u), 1}; }

DEVICE void see(Leaders &l, f32 v) {
  l.finite &= finite(v);
  if (v > l.first) {
    l.second = l.first;
    l.first = v;
  } else if (v > l.second) {
    l.second = v;
  }
}

DEVICE void join(Leaders &l, const Leaders &m) {
  l.finite &= m.finite;
  const f32 less = m.first < l.first ? m.first : l.first;
  const f32 next = m.second > l.second ? m.second : l.second;
  l.first = m.first > l.first ? m.first : l.first;
  l.second = less > next ? less : next;
}
