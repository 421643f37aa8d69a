// Functions of one and two numbers, element by element, with broadcasting; float_elementwise.go launches them.
#include "float.cuh"
#include "index.cuh"

typedef f32 f32x4 __attribute__((ext_vector_type(4)));

// FloatUnary is y[i] = f(x[i]), four elements at a time where wide.
struct FloatUnary {
  const f32 *x;
  f32 *y;
  u32 count;
  s32 op;
  f32 a, b;
  u32 wide, unused;
};

KERNEL BOUNDS(256, 4) unary(FloatUnary p) {
  const u32 first = block_x() * threads_x() + thread_x(), step = blocks_x() * threads_x();
  u32 done = 0;
  if (p.wide) {
    for (u32 i = first; i < p.count / 4; i += step) {
      const f32x4 x = ((const f32x4 *)p.x)[i];
      f32x4 y;
#pragma unroll
      for (s32 k = 0; k < 4; k++) y[k] = unary(p.op, x[k], p.a, p.b);
      ((f32x4 *)p.y)[i] = y;
    }
    done = p.count & ~3u;
  }
  for (u32 i = done + first; i < p.count; i += step) p.y[i] = unary(p.op, p.x[i], p.a, p.b);
}

// FloatAffine is y[i] = x[i] * scale[c] + bias[c], product and sum rounded, with c = i / inner % channels.
struct FloatAffine {
  const f32 *x, *scale, *bias;
  f32 *y;
  u32 count, inner, channels, unused;
};

KERNEL BOUNDS(256, 4) affine(FloatAffine p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.count; i += blocks_x() * threads_x()) {
    const u32 c = i / p.inner % p.channels;
    p.y[i] = p.x[i] * p.scale[c] + p.bias[c];
  }
}

// Spread says where the operands of result i lie: i in the sizes of the axes, from the slowest to the fastest, times the steps.
struct Spread {
  u32 count;
  s32 axes;
  Divisor size[AXES];
  s32 step[3][AXES];
};

struct Offsets {
  s32 at[3];
};

DEVICE Offsets offsets(const Spread &p, u32 i) {
  Offsets o = {};
  for (s32 a = p.axes - 1; a > 0; a--) {
    const u32 rest = split(i, p.size[a]);
#pragma unroll
    for (s32 k = 0; k < 3; k++) o.at[k] += i * p.step[k][a];
    i = rest;
  }
#pragma unroll
  for (s32 k = 0; k < 3; k++) o.at[k] += i * p.step[k][0];
  return o;
}

// FloatBinary is y[i] = f(a, b), between lo and hi where limited. Where wide, i counts four neighbouring results, for which an operand has
// four neighbours, or one element where bit 1 (of a) or bit 2 (of b) of wide is not set.
struct FloatBinary {
  const f32 *a, *b;
  f32 *y;
  s32 op, limited;
  f32 scale, lo, hi;
  Spread spread;
  u32 wide;
};

DEVICE f32x4 four(const f32 *x, u32 wide) {
  if (wide) return *(const f32x4 *)x;
  const f32 v = *x;
  return (f32x4){v, v, v, v};
}

KERNEL BOUNDS(256, 4) binary(FloatBinary p) {
  const f32 lo = p.limited ? p.lo : -f32_infinity(), hi = p.limited ? p.hi : f32_infinity(); // which change nothing
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.spread.count; i += blocks_x() * threads_x()) {
    const Offsets o = offsets(p.spread, i);
    if (!p.wide) {
      p.y[i] = limit(binary(p.op, p.a[o.at[0]], p.b[o.at[1]], p.scale), lo, hi);
      continue;
    }
    const f32x4 a = four(p.a + o.at[0], p.wide & 2), b = four(p.b + o.at[1], p.wide & 4);
    f32x4 y;
#pragma unroll
    for (s32 k = 0; k < 4; k++) y[k] = limit(binary(p.op, a[k], b[k], p.scale), lo, hi);
    ((f32x4 *)p.y)[i] = y;
  }
}

// Link is a function in a chain: of one number, or of two where other is not null, which is then where the second is; the chain's number is
// on the right where swapped. step is that of other along the axes of the chain, wide that it has four neighbours.
struct Link {
  const f32 *other;
  s32 op;
  f32 a, b;
  s32 swapped, wide, unused;
  s32 step[AXES];
};

// FloatChain is y[i] = the last of functions of functions of x[i]; where wide, i counts four neighbours.
enum { LINKS = 8 };
struct FloatChain {
  const f32 *x;
  f32 *y;
  u32 count, wide;
  s32 axes, links;
  Divisor size[AXES];
  Link link[LINKS];
};

DEVICE f32 follow(const Link &l, f32 v, f32 other) {
  if (!l.other) return unary(l.op, v, l.a, l.b);
  return l.swapped ? binary(l.op, other, v, l.a) : binary(l.op, v, other, l.a);
}

DEVICE const f32 *operand(const FloatChain &p, s32 k, u32 i) {
  s32 at = 0;
  for (s32 a = p.axes - 1; a > 0; a--) {
    const u32 rest = split(i, p.size[a]);
    at += i * p.link[k].step[a];
    i = rest;
  }
  return p.link[k].other + (at + (s32)i * p.link[k].step[0]);
}

KERNEL BOUNDS(256, 4) chain(FloatChain p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.count; i += blocks_x() * threads_x()) {
    if (p.wide) {
      f32x4 v = ((const f32x4 *)p.x)[i];
#pragma unroll 1
      for (s32 k = 0; k < p.links; k++) {
        f32x4 y = v;
        if (p.link[k].other) y = four(operand(p, k, i), p.link[k].wide);
#pragma unroll
        for (s32 e = 0; e < 4; e++) v[e] = follow(p.link[k], v[e], y[e]);
      }
      ((f32x4 *)p.y)[i] = v;
      continue;
    }
    f32 v = p.x[i];
#pragma unroll 1
    for (s32 k = 0; k < p.links; k++) v = follow(p.link[k], v, p.link[k].other ? *operand(p, k, i) : 0.0f);
    p.y[i] = v;
  }
}

// Select is y[i] = condition ? a : b, of elements of 1, 2, 4 or 8 bytes.
struct Select {
  const u8 *condition;
  const void *a, *b;
  void *y;
  s32 size, pad;
  Spread spread;
};

template <class T> DEVICE void choose(const Select &p, u32 i) {
  const Offsets o = offsets(p.spread, i);
  ((T *)p.y)[i] = p.condition[o.at[0]] ? ((const T *)p.a)[o.at[1]] : ((const T *)p.b)[o.at[2]];
}

KERNEL BOUNDS(256, 4) select(Select p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.spread.count; i += blocks_x() * threads_x()) {
    switch (p.size) {
    case 1: choose<u8>(p, i); break;
    case 2: choose<u16>(p, i); break;
    case 4: choose<u32>(p, i); break;
    default: choose<u64>(p, i);
    }
  }
}

// Element types, by the numbers that float_elementwise.go has for them.
enum { TYPE_F32, TYPE_BOOL, TYPE_S8, TYPE_U8, TYPE_S16, TYPE_U16, TYPE_S32, TYPE_U32, TYPE_S64 };

// integer reads an integer.
DEVICE s64 integer(const void *x, s32 type, u32 i) {
  switch (type) {
  case TYPE_S8: return ((const s8 *)x)[i];
  case TYPE_BOOL:
  case TYPE_U8: return ((const u8 *)x)[i];
  case TYPE_S16: return ((const s16 *)x)[i];
  case TYPE_U16: return ((const u16 *)x)[i];
  case TYPE_S32: return ((const s32 *)x)[i];
  case TYPE_U32: return ((const u32 *)x)[i];
  }
  return ((const s64 *)x)[i];
}

// Compare is y[i] = a op b as a byte, of numbers of one type; logic of bytes that are 0 or 1 is among it.
struct Compare {
  const void *a, *b;
  u8 *y;
  s32 op, type;
  Spread spread;
};

enum { COMPARE_EQUAL, COMPARE_GREATER, COMPARE_GREATER_EQUAL, COMPARE_LESS, COMPARE_LESS_EQUAL, COMPARE_AND, COMPARE_OR, COMPARE_XOR };

template <class T> DEVICE bool compare(s32 op, T a, T b) {
  switch (op) {
  case COMPARE_EQUAL: return a == b;
  case COMPARE_GREATER: return a > b;
  case COMPARE_GREATER_EQUAL: return a >= b;
  case COMPARE_LESS: return a < b;
  }
  return a <= b;
}

KERNEL BOUNDS(256, 4) compare(Compare p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.spread.count; i += blocks_x() * threads_x()) {
    const Offsets o = offsets(p.spread, i);
    bool y;
    if (p.type == TYPE_F32) {
      y = compare(p.op, ((const f32 *)p.a)[o.at[0]], ((const f32 *)p.b)[o.at[1]]);
    } else {
      const s64 a = integer(p.a, p.type, o.at[0]), b = integer(p.b, p.type, o.at[1]);
      switch (p.op) {
      case COMPARE_AND: y = a && b; break;
      case COMPARE_OR: y = a || b; break;
      case COMPARE_XOR: y = !a != !b; break;
      default: y = compare(p.op, a, b);
      }
    }
    p.y[i] = y;
  }
}

// Integers is y[i] = a op b of integers of one type, in 64 bits of which those are kept that the type has room for.
struct Integers {
  const void *a, *b;
  void *y;
  s32 op, type;
  Spread spread;
};

enum { INTEGER_ADD, INTEGER_SUB, INTEGER_MUL, INTEGER_MAX, INTEGER_MIN };

DEVICE void set_integer(void *y, s32 type, u32 i, s64 v) {
  switch (type) {
  case TYPE_S8:
  case TYPE_U8: ((u8 *)y)[i] = v; break;
  case TYPE_S16:
  case TYPE_U16: ((u16 *)y)[i] = v; break;
  case TYPE_S32:
  case TYPE_U32: ((u32 *)y)[i] = v; break;
  default: ((s64 *)y)[i] = v;
  }
}

KERNEL BOUNDS(256, 4) integers(Integers p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.spread.count; i += blocks_x() * threads_x()) {
    const Offsets o = offsets(p.spread, i);
    const s64 a = integer(p.a, p.type, o.at[0]), b = integer(p.b, p.type, o.at[1]);
    u64 y;
    switch (p.op) {
    case INTEGER_ADD: y = (u64)a + (u64)b; break;
    case INTEGER_SUB: y = (u64)a - (u64)b; break;
    case INTEGER_MUL: y = (u64)a * (u64)b; break;
    case INTEGER_MAX: y = a > b ? a : b; break;
    default: y = a < b ? a : b;
    }
    set_integer(p.y, p.type, i, y);
  }
}

// Cast is y[i] = x[i] in another type: floats are truncated towards zero, what an integer of 32 or 64 bits cannot hold is its lowest
// number, bits that narrower ones have no room for are dropped, and every number but zero is true.
struct Cast {
  const void *x;
  void *y;
  u32 count;
  s32 from, to;
  u32 pad;
};

// wide and whole are what an x86-64 processor makes of a float, in 64 and 32 bits.
DEVICE s64 wide(f32 x) { return x >= -0x1p63f && x < 0x1p63f ? (s64)x : -0x7fffffffffffffffLL - 1; }
DEVICE s32 whole(f32 x) { return x >= -0x1p31f && x < 0x1p31f ? (s32)x : -0x7fffffff - 1; }

KERNEL BOUNDS(256, 4) cast(Cast p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.count; i += blocks_x() * threads_x()) {
    s64 v;
    if (p.from == TYPE_F32) {
      const f32 x = ((const f32 *)p.x)[i];
      v = p.to == TYPE_BOOL ? x != 0.0f : p.to == TYPE_S64 || p.to == TYPE_U32 ? wide(x) : whole(x);
    } else {
      v = integer(p.x, p.from, i);
    }
    switch (p.to) {
    case TYPE_F32: ((f32 *)p.y)[i] = (f32)v; break;
    case TYPE_BOOL: ((u8 *)p.y)[i] = v != 0; break;
    default: set_integer(p.y, p.to, i, v);
    }
  }
}
