// What becomes of sums of products: corrections for zero points, and then codes, real numbers, or the sums themselves. The Go side
// is in epilogue.go.
#pragma once
#include "requantize.cuh"

// GLOBAL marks what a pointer refers to as global memory, where the compiler cannot see that.
#ifdef __CUDA__
#define GLOBAL __attribute__((address_space(1)))
#else
#define GLOBAL
#endif

typedef f32 f32x4 __attribute__((ext_vector_type(4)));
typedef s32 s32x4 __attribute__((ext_vector_type(4)));

// Element is the type of what is read or written.
enum Element { ELEMENT_S8, ELEMENT_U8, ELEMENT_S16, ELEMENT_U16, ELEMENT_F32, ELEMENT_S32, ELEMENT_S64 };

// Epilogue makes output (row, c) of the sum of row and channel c. Sums are sum x*w over raw codes; what zero points and the bias add
// to them depends on the channel alone and stands in correction, but for weights with zero points, which take zeros[c] times the sum
// of the row's codes away.
struct Epilogue {
  void *out;              // [rows][stride] of type; element (row, c) at row*stride + c
  const void *residual;   // [rows][residual_stride]; null for none
  const s32 *correction;  // by channel; null for none
  const s32 *zeros;       // zero points of the weights by channel; null for none
  const s32 *sums;        // of the codes of x, by row; read where zeros is
  s64 stride, residual_stride;
  s32 type, residual_type;
  s32 channels;
  s32 zeros_step; // 0 where one zero point serves all channels
  s32 vector; // 1 where four channels are made at once: they are a multiple of 4, aligned; to 8-bit codes by one of the forms below,
              // to f32 or to s32, with a residual of 8 bits. Everything else is made channel by channel.
  s32 unused;
  Requantize requantize;   // to codes
  Accumulated accumulated; // to f32
};

// Part is one of several products of a launch: a pair of a stack of matrices, or a group of a convolution.
struct Part {
  s64 x, w;       // offsets in bytes
  s32 row;        // the first of the outputs and the residual
  s32 channel;    // the first of the outputs, the residual and the tables, but for
  s32 correction; // the first in Epilogue.correction
  s32 sum;        // the first in Epilogue.sums
};

// own returns the epilogue of a part, whose outputs begin shift elements further on.
DEVICE Epilogue own(Epilogue e, const Part &part, s64 shift) {
  const s64 size = e.type <= ELEMENT_U8 ? 1 : e.type <= ELEMENT_U16 ? 2 : e.type == ELEMENT_S64 ? 8 : 4;
  e.out = (u8 *)e.out + (part.row * e.stride + part.channel + shift) * size;
  if (e.residual)
    e.residual = (const u8 *)e.residual + (part.row * e.residual_stride + part.channel) * (e.residual_type <= ELEMENT_U8 ? 1 : 2);
  if (e.sums) e.sums += part.sum;
  return e;
}

// Channels are the constants of N neighbouring channels.
template <int N>
struct Channels {
  s32 c; // the first
  s32 correction[N], zero[N];
  Multiplier k[N];
};

// channels_of reads the constants of the N channels of a part from c on. Tables have one entry for each, or one for all.
template <int N>
DEVICE Channels<N> channels_of(const Epilogue &e, const Part &part, s32 c) {
  Channels<N> a;
  a.c = c;
  const bool real = e.type == ELEMENT_F32;
  const Multiplier *table = real ? e.accumulated.multipliers : e.requantize.multipliers;
  const s32 step = real ? e.accumulated.step : e.requantize.step;
#pragma unroll
  for (int i = 0; i < N; i++) a.correction[i] = a.zero[i] = a.k[i].m = a.k[i].shift = 0;
  if (e.correction) {
#pragma unroll
    for (int i = 0; i < N; i++) a.correction[i] = e.correction[part.correction + c + i];
  }
  if (e.zeros) {
#pragma unroll
    for (int i = 0; i < N; i++) a.zero[i] = e.zeros_step ? e.zeros[part.channel + c + i] : e.zeros[0];
  }
  if (e.type <= ELEMENT_F32) {
    if (step) {
#pragma unroll
      for (int i = 0; i < N; i++) a.k[i] = table[part.channel + c + i];
    } else {
      const Multiplier one = table[0];
#pragma unroll
      for (int i = 0; i < N; i++) a.k[i] = one;
    }
  }
  return a;
}

// read_code returns element i of codes.
DEVICE s32 read_code(const void *p, s32 type, s64 i) {
  switch (type) {
  case ELEMENT_S8: return ((const s8 *)p)[i];
  case ELEMENT_U8: return ((const u8 *)p)[i];
  case ELEMENT_S16: return ((const s16 *)p)[i];
  }
  return ((const u16 *)p)[i];
}

// at_row is where a row begins.
DEVICE s64 at_row(s32 row, s64 stride) { return (s64)row * (s32)stride; }

// row_sum is the sum of a row's codes, where weights have zero points.
DEVICE s32 row_sum(const Epilogue &e, s32 row) { return e.zeros ? e.sums[row] : 0; }

// corrected adds what zero points and the bias make of a sum. Sums of 64 bits have been made without zero points.
template <int N>
DEVICE s32 corrected(const Channels<N> &a, int i, s32 row_sum, s32 sum) {
  return sub32(add32(sum, a.correction[i]), mul32(a.zero[i], row_sum));
}
template <int N>
DEVICE s64 corrected(const Channels<N> &a, int i, s32 row_sum, s64 sum) {
  return add64(sum, a.correction[i]);
}

DEVICE s32 requantize_any(const Requantize &r, s32 acc, Multiplier k) { return requantize<ANY_FORM>(r.scaling, acc, k); }
DEVICE s32 requantize_any(const Requantize &r, s64 acc, Multiplier k) { return requantize64<ANY_FORM>(r.scaling, acc, k); }

// finish makes one output of any type.
template <typename Acc>
DEVICE void finish(const Epilogue &e, const Channels<1> &a, s32 row, Acc sum) {
  const Acc acc = corrected(a, 0, row_sum(e, row), sum);
  const s64 at = at_row(row, e.stride) + a.c;
  s32 q = 0;
  if (e.residual) q = read_code(e.residual, e.residual_type, at_row(row, e.residual_stride) + a.c);
  switch (e.type) {
  case ELEMENT_F32:
    ((f32 *)e.out)[at] = e.residual ? accumulated_add(e.accumulated, acc, a.k[0], q) : accumulated(e.accumulated, acc, a.k[0]);
    return;
  case ELEMENT_S32:
  case ELEMENT_S64:
    ((Acc *)e.out)[at] = acc;
    return;
  }
  q = e.residual ? requantize_add<ONLY_FLOAT>(e.requantize, acc, a.k[0], q) : requantize_any(e.requantize, acc, a.k[0]);
  if (e.type <= ELEMENT_U8) {
    ((u8 *)e.out)[at] = (u8)q;
  } else {
    ((u16 *)e.out)[at] = (u16)q;
  }
}

// residual4 reads the residual of four channels, which has 8 bits.
DEVICE u32 residual4(const Epilogue &e, const Channels<4> &a, s32 row) {
  return *(GLOBAL const u32 *)((const u8 *)e.residual + at_row(row, e.residual_stride) + a.c);
}

// byte_of is code i of four.
DEVICE s32 byte_of(s32 type, u32 four, int i) { return type == ELEMENT_S8 ? (s32)(s8)(four >> 8 * i) : (s32)(u8)(four >> 8 * i); }

// codes4 makes four codes of 8 bits by a form, with the residual where it ADDS. FLOAT_AFTER rounds half to even.
template <int FORM, bool ADDS>
DEVICE void codes4(const Epilogue &e, const Channels<4> &a, s32 row, s32x4 sum, u32 residual) {
  constexpr int forms = FORM == FLOAT_AFTER ? ONLY_SCALE : ONLY_FIXED;
  Scaling scaling = e.requantize.scaling;
  scaling.form = FORM;
  const s32 codes = row_sum(e, row);
  u32 out = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const s32 acc = corrected(a, i, codes, sum[i]);
    const s32 code = ADDS ? requantize_add<ONLY_SCALE>(e.requantize, acc, a.k[i], byte_of(e.residual_type, residual, i))
                          : requantize<forms>(scaling, acc, a.k[i]);
    out |= (u32)(u8)code << 8 * i;
  }
  *(u32 *)((u8 *)e.out + at_row(row, e.stride) + a.c) = out;
}

// words4 makes four real numbers, or writes the sums.
DEVICE void words4(const Epilogue &e, const Channels<4> &a, s32 row, s32x4 sum) {
  const s64 at = at_row(row, e.stride) + a.c;
  const s32 codes = row_sum(e, row);
  const u32 residual = e.residual ? residual4(e, a, row) : 0;
  f32x4 v;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    sum[i] = corrected(a, i, codes, sum[i]);
    v[i] = e.residual ? accumulated_add(e.accumulated, sum[i], a.k[i], byte_of(e.residual_type, residual, i))
                      : accumulated(e.accumulated, sum[i], a.k[i]);
  }
  if (e.type == ELEMENT_F32) {
    *(f32x4 *)((f32 *)e.out + at) = v;
  } else {
    *(s32x4 *)((s32 *)e.out + at) = sum;
  }
}

// finish4 makes four outputs where Epilogue.vector allows it.
DEVICE void finish4(const Epilogue &e, const Channels<4> &a, s32 row, s32x4 sum) {
  if (e.type > ELEMENT_U8) {
    words4(e, a, row, sum);
  } else if (e.residual) {
    codes4<FLOAT_AFTER, true>(e, a, row, sum, residual4(e, a, row));
  } else if (e.requantize.scaling.form == DOUBLE_UP_AWAY) {
    codes4<DOUBLE_UP_AWAY, false>(e, a, row, sum, 0);
  } else if (e.requantize.scaling.form == SINGLE_UP) {
    codes4<SINGLE_UP, false>(e, a, row, sum, 0);
  } else {
    codes4<FLOAT_AFTER, false>(e, a, row, sum, 0);
  }
}
