// Depthwise convolution of channels-last bytes: every output channel has one input channel. A thread has four neighbouring channels,
// whose bytes come in one load, and goes over some rows with its weights in registers. Four taps of four channels are transposed, so
// that dp4a adds four taps of one channel at a time.
#include "epilogue.cuh"
#include "mma.cuh"
#include "window.cuh"

struct Depthwise {
  const u8 *x;
  const u32 *w;        // [groups of four taps][channels], a byte for each tap; 0 behind the last
  const Piece *pieces; // by tap, up to a multiple of four; positions far outside behind the last
  const Part *parts;   // one
  Divisor width;       // channels/4
  Divisor fours;       // of kernel three: groups of four positions in a line
  s32 channels, rows, each; // each: rows of a thread
  s32 groups;
  u32 fill;            // the code of padding in every byte
  u32 unused;
  Piece few[28];       // the same pieces, where there are no more
  Windows window;
  Epilogue epilogue;
};

DEVICE u32 permuted(u32 a, u32 b, u32 selector) {
  u32 r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}

// add4 adds four taps of four channels.
template <bool SIGNED>
DEVICE void add4(s32x4 &sum, const u32 (&x)[4], u32x4 w) {
  const u32 ab = permuted(x[0], x[1], 0x5140), cd = permuted(x[2], x[3], 0x5140);
  const u32 ef = permuted(x[0], x[1], 0x7362), gh = permuted(x[2], x[3], 0x7362);
  sum[0] = dot4<SIGNED>(permuted(ab, cd, 0x5410), w[0], sum[0]);
  sum[1] = dot4<SIGNED>(permuted(ab, cd, 0x7632), w[1], sum[1]);
  sum[2] = dot4<SIGNED>(permuted(ef, gh, 0x5410), w[2], sum[2]);
  sum[3] = dot4<SIGNED>(permuted(ef, gh, 0x7632), w[3], sum[3]);
}

DEVICE u32 read4(const Depthwise &p, const u8 *x, const Position &o, const Piece &t) {
  return inside(p.window, o.z + t.z, o.y + t.y, o.x + t.x) ? *(const u32 *)(x + o.offset + t.offset) : p.fill;
}

// depthwise has the weights of FEW groups in registers, or reads those of any number for every row where FEW is 0.
template <bool SIGNED, int FEW>
DEVICE void depthwise(const Depthwise &p) {
  const u32 at = block_x() * 128 + thread_x();
  const s32 turn = quotient(at, p.width), c = (at - turn * p.width.by) * 4;
  if ((s64)turn * p.each >= p.rows) return;
  const u8 *x = p.x + c;
  Epilogue e = own(p.epilogue, p.parts[0], 0);
  e.zeros = nullptr; // there are none here, which the compiler is told
  Channels<4> channels;
  if (e.vector) channels = channels_of<4>(e, p.parts[0], c);
  u32x4 w[FEW ? FEW : 1];
  if constexpr (FEW > 0) {
#pragma unroll
    for (int g = 0; g < FEW; g++) w[g] = *(const u32x4 *)&p.w[g * p.channels + c];
  }

#pragma unroll 1
  for (s32 row = turn * p.each; row < min32((turn + 1) * p.each, p.rows); row++) {
    const Position o = position(p.window, row);
    s32x4 sum = {0, 0, 0, 0};
    u32 v[4];
    if constexpr (FEW > 0) {
      u32 all[FEW * 4];
#pragma unroll
      for (int t = 0; t < FEW * 4; t++) all[t] = read4(p, x, o, p.few[t]);
#pragma unroll
      for (int g = 0; g < FEW; g++) {
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = all[g * 4 + i];
        add4<SIGNED>(sum, v, w[g]);
      }
    } else {
#pragma unroll 1
      for (s32 g = 0; g < p.groups; g++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          Piece t;
          *(s32x4 *)&t = *(const s32x4 *)&p.pieces[g * 4 + i];
          v[i] = read4(p, x, o, t);
        }
        add4<SIGNED>(sum, v, *(const u32x4 *)&p.w[(s64)g * p.channels + c]);
      }
    }
    if (e.vector) {
      finish4(e, channels, row, sum);
      continue;
    }
#pragma unroll 1
    for (s32 i = 0; i < 4; i++) {
      finish(e, channels_of<1>(e, p.parts[0], c + i), row, sum[0]);
      sum = s32x4{sum[1], sum[2], sum[3], 0};
    }
  }
}

// three is for windows of 3 x 3 of stride 1 or 2, which nearly all are. A thread has four neighbouring positions of a line and four
// channels; w has three taps of a line of the window to a word. Two neighbouring columns of x are transposed once and serve every
// position that they belong to: an odd position of stride 1 has its taps one byte further on.
template <bool SIGNED, int STRIDE>
DEVICE void three(const Depthwise &p) {
  constexpr int COLUMNS = 3 * STRIDE + 3, PAIRS = (COLUMNS + 1) / 2;
  const u32 at = block_x() * 128 + thread_x();
  const s32 turn = quotient(at, p.width), c = (at - turn * p.width.by) * 4;
  const s32 line = quotient(turn, p.fours), first = (turn - line * p.fours.by) * 4;
  if (line >= p.rows) return;
  const s32 image = quotient(line, p.window.out_h);
  const s32 y = (line - image * (s32)p.window.out_h.by) * STRIDE - p.window.begin_h, x = first * STRIDE - p.window.begin_w;
  Epilogue e = own(p.epilogue, p.parts[0], 0);
  e.zeros = nullptr; // there are none here, which the compiler is told
  s32x4 sum[4];
#pragma unroll
  for (int i = 0; i < 4; i++) sum[i] = s32x4{0, 0, 0, 0};
  const u8 *from = p.x + image * p.window.image + ((s64)y * p.window.in_w + x) * p.window.pitch + c;
#pragma unroll
  for (int ky = 0; ky < 3; ky++, from += p.window.in_w * p.window.pitch) {
    const u32x4 w = *(const u32x4 *)&p.w[ky * p.channels + c];
    u32 v[PAIRS * 2];
#pragma unroll
    for (int i = 0; i < PAIRS * 2; i++) {
      v[i] = p.fill;
      if (i < COLUMNS && (u32)(y + ky) < (u32)p.window.in_h && (u32)(x + i) < (u32)p.window.in_w)
        v[i] = *(const u32 *)(from + i * p.window.pitch);
    }
    u32 low[PAIRS], high[PAIRS]; // of two columns, channels 0 and 1, channels 2 and 3
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
      low[i] = permuted(v[2 * i], v[2 * i + 1], 0x5140);
      high[i] = permuted(v[2 * i], v[2 * i + 1], 0x7362);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int pair = STRIDE == 1 ? i / 2 : i, shift = STRIDE == 1 ? i % 2 * 8 : 0;
      sum[i][0] = dot4<SIGNED>(permuted(low[pair], low[pair + 1], 0x5410), w[0] << shift, sum[i][0]);
      sum[i][1] = dot4<SIGNED>(permuted(low[pair], low[pair + 1], 0x7632), w[1] << shift, sum[i][1]);
      sum[i][2] = dot4<SIGNED>(permuted(high[pair], high[pair + 1], 0x5410), w[2] << shift, sum[i][2]);
      sum[i][3] = dot4<SIGNED>(permuted(high[pair], high[pair + 1], 0x7632), w[3] << shift, sum[i][3]);
    }
  }
  const s32 row = line * p.window.out_w.by + first, end = min32(p.window.out_w.by - first, 4);
  if (e.vector) {
    const Channels<4> channels = channels_of<4>(e, p.parts[0], c);
    if (e.type <= ELEMENT_U8 && !e.residual && e.requantize.scaling.form == FLOAT_AFTER) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (i < end) codes4<FLOAT_AFTER, false>(e, channels, row + i, sum[i], 0);
      return;
    }
#pragma unroll 1
    for (s32 i = 0; i < end; i++) {
      finish4(e, channels, row + i, sum[0]);
      sum[0] = sum[1], sum[1] = sum[2], sum[2] = sum[3];
    }
    return;
  }
#pragma unroll 1
  for (s32 k = 0; k < 4; k++) {
    const Channels<1> channel = channels_of<1>(e, p.parts[0], c + k);
    s32 v[4] = {sum[0][0], sum[1][0], sum[2][0], sum[3][0]};
#pragma unroll 1
    for (s32 i = 0; i < end; i++) {
      finish(e, channel, row + i, v[0]);
      v[0] = v[1], v[1] = v[2], v[2] = v[3];
    }
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = s32x4{sum[i][1], sum[i][2], sum[i][3], 0};
  }
}

KERNEL BOUNDS(128, 4) few_s8(Depthwise p) { depthwise<true, 3>(p); }
KERNEL BOUNDS(128, 4) few_u8(Depthwise p) { depthwise<false, 3>(p); }
KERNEL BOUNDS(128, 4) some_s8(Depthwise p) { depthwise<true, 7>(p); } // 5 x 5
KERNEL BOUNDS(128, 4) some_u8(Depthwise p) { depthwise<false, 7>(p); }
KERNEL BOUNDS(128, 4) many_s8(Depthwise p) { depthwise<true, 0>(p); }
KERNEL BOUNDS(128, 4) many_u8(Depthwise p) { depthwise<false, 0>(p); }
KERNEL BOUNDS(128, 5) three1_s8(Depthwise p) { three<true, 1>(p); }
KERNEL BOUNDS(128, 5) three1_u8(Depthwise p) { three<false, 1>(p); }
KERNEL BOUNDS(128, 5) three2_s8(Depthwise p) { three<true, 2>(p); }
KERNEL BOUNDS(128, 5) three2_u8(Depthwise p) { three<false, 2>(p); }
