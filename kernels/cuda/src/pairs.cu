// Codes made of two, with broadcasting: sums, products, choices. pairs.go launches them.
#include "codes.cuh"
#include "index.cuh"
#include "operators.cuh"

// Spread says where the elements of an output come from: axes from the fastest on, after those that lie together have been joined. An
// operand has step 0 along the axes that it is repeated on.
struct Spread {
  u32 count;  // of elements
  u32 vector; // 1: pieces of several elements do not cross the first axis, and everything is aligned
  s32 axes;
  Divisor size[AXES];
  s32 step[3][AXES];
};

template <int OPERANDS>
DEVICE void locate(const Spread &s, u32 i, u32 (&at)[OPERANDS]) {
#pragma unroll
  for (int k = 0; k < OPERANDS; k++) at[k] = 0;
  for (s32 a = 0; a < s.axes; a++) {
    const u32 rest = split(i, s.size[a]);
#pragma unroll
    for (int k = 0; k < OPERANDS; k++) at[k] += i * (u32)s.step[k][a];
    i = rest;
  }
}

// load_operand reads N codes from element i on, or one of them N times.
template <int BYTES, int N>
DEVICE void load_operand(s32 (&q)[N], const void *p, u32 i, s32 step, u32 flip) {
  if (N == 1 || step != 0) return load_codes<BYTES>(q, p, i, flip);
  q[0] = code_at<BYTES>(p, i, flip);
#pragma unroll
  for (int k = 1; k < N; k++) q[k] = q[0];
}

// load_raised_operand is load_operand for 16 bytes, raised.
DEVICE void load_raised_operand(s32 (&q)[16], const void *p, u32 i, s32 step, u32 flip) {
  if (step != 0) return load_raised<1>(q, p, i, flip);
  q[0] = code_at<1>(p, i, flip) + (s32)flip;
#pragma unroll
  for (int k = 1; k < 16; k++) q[k] = q[0];
}

struct Pair {
  const void *a, *b;
  void *dst;
  s32 bytes_a, bytes_b, bytes; // of a code
  u32 flip_a, flip_b;
  s32 unused;
  Spread spread;
};

template <int BYTES, int N, typename F>
DEVICE void pair_piece(const Pair &p, u32 i, F f) {
  u32 at[2];
  s32 a[N], b[N];
  locate(p.spread, i, at);
  load_operand<BYTES>(a, p.a, at[0], p.spread.step[0][0], p.flip_a);
  load_operand<BYTES>(b, p.b, at[1], p.spread.step[1][0], p.flip_b);
#pragma unroll
  for (int k = 0; k < N; k++) a[k] = f(a[k], b[k]);
  store_codes<BYTES>(p.dst, i, a);
}

// each_pair_of calls f(a, b) for every pair of codes of one width, N at a time where it can: 16 bytes, or fewer where f is long.
// each_pair is for codes of any width.
template <int BYTES, int N, typename F>
DEVICE void each_pair_of(const Pair &p, F f) {
  const u32 pieces = p.spread.vector ? p.spread.count / N : 0;
  for (u32 i = first_piece(); i < pieces; i += all_pieces()) pair_piece<BYTES, N>(p, i * N, f);
  for (u32 i = pieces * N + first_piece(); i < p.spread.count; i += all_pieces()) pair_piece<BYTES, 1>(p, i, f);
}
template <typename F>
DEVICE void each_pair(const Pair &p, F f) {
  for (u32 i = first_piece(); i < p.spread.count; i += all_pieces()) {
    u32 at[2];
    locate(p.spread, i, at);
    const s32 a = code_of(p.a, at[0], p.bytes_a, p.flip_a), b = code_of(p.b, at[1], p.bytes_b, p.flip_b);
    set_code_of(p.dst, i, p.bytes, f(a, b));
  }
}

// some_pairs calls f(a, b, codes) for four pairs of 8-bit codes at a time, 16 of which are read at once, or for single pairs.
template <typename F>
DEVICE void some_pairs(const Pair &p, F f) {
  const u32 pieces = p.spread.vector ? p.spread.count / 16 : 0;
  for (u32 i = first_piece(); i < pieces; i += all_pieces()) {
    u32 at[2];
    s32 a[16], b[16];
    locate(p.spread, i * 16, at);
    load_operand<1>(a, p.a, at[0], p.spread.step[0][0], p.flip_a);
    load_operand<1>(b, p.b, at[1], p.spread.step[1][0], p.flip_b);
#pragma unroll
    for (int k = 0; k < 16; k += 4) {
      const s32 four[2][4] = {{a[k], a[k + 1], a[k + 2], a[k + 3]}, {b[k], b[k + 1], b[k + 2], b[k + 3]}};
      s32 code[4];
      f(four[0], four[1], code);
#pragma unroll
      for (int j = 0; j < 4; j++) a[k + j] = code[j];
    }
    store_codes<1>(p.dst, i * 16, a);
  }
  for (u32 i = pieces * 16 + first_piece(); i < p.spread.count; i += all_pieces()) {
    u32 at[2];
    locate(p.spread, i, at);
    const s32 a[1] = {code_at<1>(p.a, at[0], p.flip_a)}, b[1] = {code_at<1>(p.b, at[1], p.flip_b)};
    s32 code[1];
    f(a, b, code);
    set_code<1>(p.dst, i, code[0]);
  }
}

struct Add {
  Pair pair;
  Sum sum;
};
KERNEL BOUNDS(256, 4) add(Add p) { each_pair(p.pair, [&](s32 a, s32 b) { return sum_codes<-1>(p.sum, a, b); }); }
KERNEL BOUNDS(256, 2) add_words(Add p) { each_pair_of<2, 2>(p.pair, [&](s32 a, s32 b) { return sum_codes<-1>(p.sum, a, b); }); }
KERNEL BOUNDS(256, 4) add_float_words(Add p) { each_pair_of<2, 8>(p.pair, [&](s32 a, s32 b) { return sum_codes<SUM_FLOAT>(p.sum, a, b); }); }
KERNEL BOUNDS(256, 4) add_float(Add p) {
  some_pairs(p.pair, [&](auto &a, auto &b, auto &code) { sum_float(p.sum, a, b, code); });
}
KERNEL BOUNDS(256, 4) add_fused(Add p) { each_pair_of<1, 16>(p.pair, [&](s32 a, s32 b) { return sum_codes<SUM_FUSED>(p.sum, a, b); }); }

// The integer forms read what an operand adds to the sum from tables of all its codes, which every block makes for itself.
template <int form>
DEVICE void add_tables(const Add &p) {
  SHARED static s32 terms[2][256];
  const Sum &s = p.sum;
  terms[0][thread_x()] = sum_term<form>(s, (s32)thread_x() - (s32)p.pair.flip_a, s.za, s.ma);
  terms[1][thread_x()] = sum_term<form>(s, (s32)thread_x() - (s32)p.pair.flip_b, s.zb, s.mb);
  barrier();
  each_pair_of<1, 4>(p.pair, [&](s32 a, s32 b) { return sum_terms<form>(s, terms[0][a + p.pair.flip_a], terms[1][b + p.pair.flip_b]); });
}
KERNEL BOUNDS(256, 4) add_shifted(Add p) { add_tables<SUM_SHIFTED>(p); }
KERNEL BOUNDS(256, 4) add_each(Add p) { add_tables<SUM_EACH>(p); }

// AddHalf is a sum in the form of HalfSum.
struct AddHalf {
  Pair pair;
  HalfSum sum;
};

template <int form>
DEVICE void add_half(const AddHalf &p) {
  SHARED static s32 terms[256];
  const Pair &r = p.pair;
  terms[thread_x()] = half_term(p.sum, (s32)thread_x() - (s32)r.flip_b, (s32)r.flip_a);
  barrier();
  const u32 pieces = r.spread.vector ? r.spread.count / 16 : 0;
  for (u32 i = first_piece(); i < pieces; i += all_pieces()) {
    u32 at[2];
    s32 a[16], b[16];
    locate(r.spread, i * 16, at);
    load_raised_operand(a, r.a, at[0], r.spread.step[0][0], r.flip_a);
    load_raised_operand(b, r.b, at[1], r.spread.step[1][0], r.flip_b);
#pragma unroll
    for (int k = 0; k < 16; k++) a[k] = half_sum<form>(p.sum, a[k], terms[b[k]]);
    store_codes<1>(r.dst, i * 16, a);
  }
  for (u32 i = pieces * 16 + first_piece(); i < r.spread.count; i += all_pieces()) {
    u32 at[2];
    locate(r.spread, i, at);
    const s32 a = code_at<1>(r.a, at[0], r.flip_a) + (s32)r.flip_a, b = code_at<1>(r.b, at[1], r.flip_b) + (s32)r.flip_b;
    set_code<1>(r.dst, i, half_sum<form>(p.sum, a, terms[b]));
  }
}
KERNEL BOUNDS(256, 4) add_half_twice(AddHalf p) { add_half<DOUBLE_UP_AWAY>(p); }
KERNEL BOUNDS(256, 4) add_half_once(AddHalf p) { add_half<SINGLE_UP>(p); }

KERNEL BOUNDS(256, 4) add_aligned(Add p) { each_pair_of<1, 4>(p.pair, [&](s32 a, s32 b) { return sum_codes<SUM_ALIGNED>(p.sum, a, b); }); }

struct Multiply {
  Pair pair;
  Product product;
};
KERNEL BOUNDS(256, 4) multiply(Multiply p) { each_pair(p.pair, [&](s32 a, s32 b) { return product_codes<ANY_FORM>(p.product, a, b); }); }
KERNEL BOUNDS(256, 4) multiply_words(Multiply p) {
  each_pair_of<2, 2>(p.pair, [&](s32 a, s32 b) { return product_codes<ANY_FORM>(p.product, a, b); });
}
KERNEL BOUNDS(256, 4) multiply_real(Multiply p) {
  some_pairs(p.pair, [&](auto &a, auto &b, auto &code) { product_real(p.product, a, b, code); });
}
KERNEL BOUNDS(256, 4) multiply_float(Multiply p) {
  const Product &m = p.product;
  each_pair_of<1, 8>(p.pair, [&](s32 a, s32 b) {
    return requantize<ONLY_FLOAT>(m.scaling, mul32(sub32(a, m.za), sub32(b, m.zb)), m.k);
  });
}
// Products of TFLite, whose factors are below a half.
KERNEL BOUNDS(256, 4) multiply_twice(Multiply p) {
  each_pair_of<1, 16>(p.pair, [&](s32 a, s32 b) { return product_small<DOUBLE_UP_AWAY>(p.product, a, b); });
}
KERNEL BOUNDS(256, 4) multiply_once(Multiply p) {
  each_pair_of<1, 16>(p.pair, [&](s32 a, s32 b) { return product_small<SINGLE_UP>(p.product, a, b); });
}
KERNEL BOUNDS(256, 4) multiply_fixed(Multiply p) {
  each_pair_of<1, 4>(p.pair, [&](s32 a, s32 b) { return product_codes<ONLY_FIXED>(p.product, a, b); });
}

// Choose takes an element of a where cond is not 0, else of b, each brought to the grid of the output. Operand 2 of the spread is cond.
struct Choose {
  Pair pair;
  const u8 *cond;
  s32 lo, hi;
  Rescale rescale[2];
};
DEVICE s32 chosen(const Choose &p, int k, s32 q) { return clamp32(rescale(p.rescale[k], q), p.lo, p.hi); }

KERNEL BOUNDS(256, 4) choose(Choose p) {
  const Pair &r = p.pair;
  for (u32 i = first_piece(); i < r.spread.count; i += all_pieces()) {
    u32 at[3];
    locate(r.spread, i, at);
    const bool c = p.cond[at[2]] != 0;
    const s32 q = c ? code_of(r.a, at[0], r.bytes_a, r.flip_a) : code_of(r.b, at[1], r.bytes_b, r.flip_b);
    set_code_of(r.dst, i, r.bytes, c ? chosen(p, 0, q) : chosen(p, 1, q));
  }
}

template <int N>
DEVICE void choose_piece(const Choose &p, const u8 (&tables)[2][256], u32 i) {
  const Pair &r = p.pair;
  u32 at[3];
  s32 a[N], b[N], c[N];
  locate(r.spread, i, at);
  load_operand<1>(a, r.a, at[0], r.spread.step[0][0], 0);
  load_operand<1>(b, r.b, at[1], r.spread.step[1][0], 0);
  load_operand<1>(c, p.cond, at[2], r.spread.step[2][0], 0);
#pragma unroll
  for (int k = 0; k < N; k++) a[k] = tables[c[k] == 0][c[k] ? a[k] : b[k]];
  store_codes<1>(r.dst, i, a);
}

// choose_bytes is choose for 8-bit codes, which are looked up by their raw bits.
KERNEL BOUNDS(256, 4) choose_bytes(Choose p) {
  SHARED static u8 tables[2][256];
  const u32 t = thread_x(), n = p.pair.spread.count;
  tables[0][t] = (u8)chosen(p, 0, (s32)(t ^ p.pair.flip_a) - (s32)p.pair.flip_a);
  tables[1][t] = (u8)chosen(p, 1, (s32)(t ^ p.pair.flip_b) - (s32)p.pair.flip_b);
  barrier();
  const u32 pieces = p.pair.spread.vector ? n / 16 : 0;
  for (u32 i = first_piece(); i < pieces; i += all_pieces()) choose_piece<16>(p, tables, i * 16);
  for (u32 i = pieces * 16 + first_piece(); i < n; i += all_pieces()) choose_piece<1>(p, tables, i);
}
