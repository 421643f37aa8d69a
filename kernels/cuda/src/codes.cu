// Codes made of single codes or numbers: tables, limits, other grids, quantize and dequantize. codes.go launches them.
#include "codes.cuh"
#include "index.cuh"
#include "operators.cuh"

// Lines is what a kernel from codes to codes works on: count elements that lie together in src, and in dst in lines of width that
// begin every stride.
struct Lines {
  const void *src;
  void *dst;
  s64 stride;
  u32 count;
  u32 vector; // 1: pieces of several elements do not cross lines, and everything is aligned
  Divisor width;
  u32 flip; // of src
};

DEVICE s64 line_place(const Lines &l, u32 i) {
  const u32 line = split(i, l.width);
  return line * l.stride + i;
}

// each_line_code calls f(q) for every code of type IN and writes the results as OUT, N at a time where it can.
template <int IN, int OUT, int N, typename F>
DEVICE void each_line_code(const Lines &l, F f) {
  const u32 pieces = l.vector ? l.count / N : 0;
  for (u32 i = first_piece(); i < pieces; i += all_pieces()) {
    s32 q[N];
    load_codes<IN>(q, l.src, (s64)i * N, l.flip);
#pragma unroll
    for (int k = 0; k < N; k++) q[k] = f(q[k]);
    store_codes<OUT>(l.dst, line_place(l, i * N), q);
  }
  for (u32 i = pieces * N + first_piece(); i < l.count; i += all_pieces())
    set_code<OUT>(l.dst, line_place(l, i), f(code_at<IN>(l.src, i, l.flip)));
}

// Map replaces every code by the entry of a table at its raw bits.
struct Map {
  Lines lines; // flip is 0
  const void *table;
};

// Tables of 8-bit codes stand in shared memory once for each lane of a warp, every one in a bank of its own: row r of 32 words has the
// entries r, r + ROWS, ... of lane l in word l.
template <int OUT>
DEVICE void map_bytes(const Map &p) {
  constexpr u32 EACH = 4 / OUT, ROWS = 256 / EACH, MASK = ROWS - 1, LOG = OUT == 1 ? 6 : 7;
  SHARED static u32 one[ROWS];
  SHARED static u32 table[ROWS * 32];
  typedef typename Raw<OUT>::type T;
  const u32 t = thread_x();
  if (t < ROWS) {
    u32 w = 0;
    for (u32 e = 0; e < EACH; e++) w |= (u32)((const T *)p.table)[t + e * ROWS] << 8 * OUT * e;
    one[t] = w;
  }
  barrier();
  for (u32 i = t; i < ROWS * 32; i += threads_x()) table[i] = one[i / 32];
  barrier();
  const u8 *lane = (const u8 *)(table + t % 32);
  each_line_code<1, OUT, 16 / OUT>(p.lines, [&](s32 q) { return (s32)*(const T *)(lane + (((u32)q & MASK) << 7 | (u32)q >> LOG << (OUT - 1))); });
}
KERNEL BOUNDS(256, 4) map_1_1(Map p) { map_bytes<1>(p); }
KERNEL BOUNDS(256, 4) map_1_2(Map p) { map_bytes<2>(p); }
KERNEL BOUNDS(256, 4) map_2_1(Map p) { each_line_code<2, 1, 8>(p.lines, [&](s32 q) { return (s32)((const u8 *)p.table)[q]; }); }
KERNEL BOUNDS(256, 4) map_2_2(Map p) { each_line_code<2, 2, 8>(p.lines, [&](s32 q) { return (s32)((const u16 *)p.table)[q]; }); }

// Recode brings codes to another grid and limits them.
struct Recode {
  Lines lines;
  s32 in, out; // bytes of a code
  s32 lo, hi;
  Rescale rescale;
};
KERNEL BOUNDS(256, 4) clamp_1(Recode p) { each_line_code<1, 1, 16>(p.lines, [&](s32 q) { return clamp32(q, p.lo, p.hi); }); }
KERNEL BOUNDS(256, 4) clamp_2(Recode p) { each_line_code<2, 2, 8>(p.lines, [&](s32 q) { return clamp32(q, p.lo, p.hi); }); }

// recode takes codes of any width, one at a time: those of 8 bits are better mapped.
KERNEL BOUNDS(256, 4) recode(Recode p) {
  for (u32 i = first_piece(); i < p.lines.count; i += all_pieces()) {
    const s32 q = clamp32(rescale(p.rescale, code_of(p.lines.src, i, p.in, p.lines.flip)), p.lo, p.hi);
    set_code_of(p.lines.dst, line_place(p.lines, i), p.out, q);
  }
}

// recode_words is recode for codes of 16 bits.
KERNEL BOUNDS(256, 4) recode_words(Recode p) {
  each_line_code<2, 2, 4>(p.lines, [&](s32 q) { return clamp32(rescale(p.rescale, q), p.lo, p.hi); });
}

// Convert quantizes or dequantizes.
struct Convert {
  const void *src;
  void *dst;
  u32 *odd; // of quantize: its first word is set where a number is NaN, the second where one is infinite; 0: nobody looks
  u32 count;
  u32 vector;
  u32 flip; // of the codes that are read
  Quantizer quantizer; // for dequantize zero and scale
};

DEVICE void meet(u32 *odd, f32 x) {
  const u32 b = (u32)f32_bits(x) & 0x7fffffffu;
  if (b >= 0x7f800000u && odd) odd[b == 0x7f800000u] = 1;
}

template <int OUT>
DEVICE void quantize_all(const Convert &p) {
  const u32 pieces = p.vector ? p.count / 4 : 0;
  for (u32 i = first_piece(); i < pieces; i += all_pieces()) {
    u32 w[4];
    f32 x[4];
    s32 q[4];
    load_words(w, (const u32 *)p.src + (s64)i * 4);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      x[k] = bits_f32((s32)w[k]);
      meet(p.odd, x[k]);
    }
    quantize_some(p.quantizer, x, q);
    store_codes<OUT>(p.dst, (s64)i * 4, q);
  }
  for (u32 i = pieces * 4 + first_piece(); i < p.count; i += all_pieces()) {
    const f32 x = ((const f32 *)p.src)[i];
    meet(p.odd, x);
    set_code<OUT>(p.dst, i, quantize(p.quantizer, x));
  }
}
KERNEL BOUNDS(256, 4) quantize_1(Convert p) { quantize_all<1>(p); }
KERNEL BOUNDS(256, 4) quantize_2(Convert p) { quantize_all<2>(p); }

template <int IN>
DEVICE void dequantize_all(const Convert &p) {
  const Quantizer &z = p.quantizer;
  const u32 pieces = p.vector ? p.count / 4 : 0;
  for (u32 i = first_piece(); i < pieces; i += all_pieces()) {
    u32 w[4];
    s32 q[4];
    load_codes<IN>(q, p.src, (s64)i * 4, p.flip);
#pragma unroll
    for (int k = 0; k < 4; k++) w[k] = (u32)f32_bits(dequantize(q[k], z.zero, z.scale));
    store_words((u32 *)p.dst + (s64)i * 4, w);
  }
  for (u32 i = pieces * 4 + first_piece(); i < p.count; i += all_pieces())
    ((f32 *)p.dst)[i] = dequantize(code_at<IN>(p.src, i, p.flip), z.zero, z.scale);
}
KERNEL BOUNDS(256, 4) dequantize_1(Convert p) { dequantize_all<1>(p); }
KERNEL BOUNDS(256, 4) dequantize_2(Convert p) { dequantize_all<2>(p); }
