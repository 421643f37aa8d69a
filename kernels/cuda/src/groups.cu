// Activations are quantized in groups, and multiplied with matrices in groups; groups.go launches the kernels.
#include "groups.cuh"
#include "mma.cuh"

enum { ALL_LANES = -1, WARP = 32 };

DEVICE f32 warp_max(f32 x) {
#pragma unroll
  for (s32 n = WARP / 2; n > 0; n /= 2) {
    const f32 y = __nvvm_shfl_sync_bfly_f32(ALL_LANES, x, n, WARP - 1);
    x = y > x ? y : x;
  }
  return x;
}

// QuantizeGroups is ref.QuantizeRow of many rows.
struct QuantizeGroups {
  const f32 *x;
  s8 *codes;
  f32 *scales;
  u32 groups; // of all rows
  s32 cols, size, per_row;
};

// quantize_groups has a warp for every group.
KERNEL BOUNDS(256, 4) quantize_groups(QuantizeGroups p) {
  const u32 group = block_x() * (256 / WARP) + thread_x() / WARP, lane = thread_x() % WARP;
  if (group >= p.groups) return;
  const s64 row = group / p.per_row;
  const s32 first = group % p.per_row * p.size, n = p.cols - first < p.size ? p.cols - first : p.size;
  const f32 *x = p.x + row * p.cols + first;
  f32 most = 0.0f;
  bool broken = false;
  for (s32 i = lane; i < n; i += WARP) {
    const f32 v = x[i], size = v < 0.0f ? -v : v;
    broken |= !(v - v == 0.0f);
    most = size > most ? size : most;
  }
  most = warp_max(most);
  broken = warp_max(broken ? 1.0f : 0.0f) != 0.0f;
  const f32 scale = broken ? 0.0f : most / 127.0f;
  s8 *codes = p.codes + row * p.cols + first;
  for (s32 i = lane; i < n; i += WARP) codes[i] = group_code(x[i], scale);
  if (lane == 0) p.scales[group] = broken ? __builtin_bit_cast(f32, 0x7fc00000u) : scale;
}

// GroupsProduct is y[i][r] = row r of m times row i of the activations: of codes in groups, or of floats.
struct GroupsProduct {
  GroupMatrix m;
  const s8 *x; // n x cols
  const f32 *x_scales;
  const f32 *floats; // n x cols
  f32 *y;            // n x m.rows
  s32 n, per_row;    // groups of a row of activations
  s32 block_rows;    // rows of the matrix that a block computes
  s32 stride;        // of a row of terms in shared memory
};

// TOGETHER is how many rows of activations a block multiplies with the codes that it reads.
enum { TOGETHER = 4, PRODUCT_THREADS = 256 };

// signed4 is a word of four signed codes of a word of eight of 4 bits.
DEVICE u32 signed4(u32 eight, s32 half) {
  const u32 raised = word4(eight, half) ^ 0x08080808u; // a code of 4 bits in two's complement
  return raised | (raised & 0x08080808u) * 30;         // with its sign in the upper four
}

// CodeTerm makes the terms of products with codes.
template <s32 N> struct CodeTerm {
  static INLINE __attribute__((device)) void of(const GroupsProduct &p, s64 group, s32 col, s32 i0, f32 *terms) {
    const s32 words = p.m.size / 4;
    const u32 *x[N];
    s32 sums[N];
#pragma unroll
    for (s32 i = 0; i < N; i++) {
      x[i] = (const u32 *)(p.x + (s64)(i0 + i) * p.m.cols + col);
      sums[i] = 0;
    }
    if (p.m.bits == 8 && words % 4 == 0) {
      const u32x4 *w = (const u32x4 *)(p.m.codes + group * p.m.size);
      for (s32 k = 0; k < words / 4; k++) {
        const u32x4 v = w[k];
#pragma unroll
        for (s32 i = 0; i < N; i++) {
          const u32x4 y = ((const u32x4 *)x[i])[k];
          sums[i] = dot4<true>(v[3], y[3], dot4<true>(v[2], y[2], dot4<true>(v[1], y[1], dot4<true>(v[0], y[0], sums[i]))));
        }
      }
    } else if (p.m.bits == 8) {
      const u32 *w = (const u32 *)(p.m.codes + group * p.m.size);
      for (s32 k = 0; k < words; k++) {
#pragma unroll
        for (s32 i = 0; i < N; i++) sums[i] = dot4<true>(w[k], x[i][k], sums[i]);
      }
    } else {
      const u32 *w = (const u32 *)(p.m.codes + group * p.m.size / 2);
      for (s32 k = 0; k < words / 2; k++) {
        const u32 v = w[k], lo = signed4(v, 0), hi = signed4(v, 1);
#pragma unroll
        for (s32 i = 0; i < N; i++) sums[i] = dot4<true>(hi, x[i][2 * k + 1], dot4<true>(lo, x[i][2 * k], sums[i]));
      }
    }
    const f32 scale = p.m.scales[group];
#pragma unroll
    for (s32 i = 0; i < N; i++) terms[i] = group_term(sums[i], scale, p.x_scales[(s64)(i0 + i) * p.per_row + col / p.m.size]);
  }
};

// FloatTerm makes the terms of products with floats: ref.DotGroupsFloat.
template <s32 N> struct FloatTerm {
  static INLINE __attribute__((device)) void of(const GroupsProduct &p, s64 group, s32 col, s32 i0, f32 *terms) {
    f32 chains[N][4] = {};
    const s64 first = group * p.m.size;
    for (s32 k = 0; k < p.m.size; k += 4) {
      f32 c[4];
      if (p.m.bits == 8) {
        const u32 w = *(const u32 *)(p.m.codes + first + k);
#pragma unroll
        for (s32 j = 0; j < 4; j++) c[j] = (f32)(s8)(w >> 8 * j);
      } else {
        const u32 w = signed4(*(const u32 *)(p.m.codes + (first + k) / 8 * 4), k % 8 / 4);
#pragma unroll
        for (s32 j = 0; j < 4; j++) c[j] = (f32)(s8)(w >> 8 * j);
      }
#pragma unroll
      for (s32 i = 0; i < N; i++) {
        const f32 *x = p.floats + (s64)(i0 + i) * p.m.cols + col + k;
#pragma unroll
        for (s32 j = 0; j < 4; j++) chains[i][j] = chains[i][j] + c[j] * x[j];
      }
    }
    const f32 scale = p.m.scales[group];
#pragma unroll
    for (s32 i = 0; i < N; i++) terms[i] = ((chains[i][0] + chains[i][1]) + (chains[i][2] + chains[i][3])) * scale;
  }
};

// rows_of computes block_rows rows of the matrix with N rows of activations. Every thread makes terms of some groups; then the terms of
// a row are added in their order.
template <s32 N, template <s32> class Term> DEVICE void rows_of(const GroupsProduct &p, s32 i0, f32 *terms) {
  const s32 r0 = block_x() * p.block_rows;
  const s32 rows = p.m.rows - r0 < p.block_rows ? p.m.rows - r0 : p.block_rows;
  for (s32 at = thread_x(); at < rows * p.per_row; at += PRODUCT_THREADS) {
    const s32 r = at / p.per_row, g = at % p.per_row;
    f32 t[N];
    Term<N>::of(p, (s64)(r0 + r) * p.per_row + g, g * p.m.size, i0, t);
#pragma unroll
    for (s32 i = 0; i < N; i++) terms[(i * p.block_rows + r) * p.stride + g] = t[i];
  }
  barrier();
  for (s32 at = thread_x(); at < N * rows; at += PRODUCT_THREADS) {
    const s32 i = at / rows, r = at % rows;
    f32 acc = 0.0f;
    for (s32 g = 0; g < p.per_row; g++) acc = acc + terms[(i * p.block_rows + r) * p.stride + g];
    p.y[(s64)(i0 + i) * p.m.rows + r0 + r] = acc;
  }
}

extern __attribute__((shared)) f32 group_terms[];

template <template <s32> class Term> DEVICE void multiply(const GroupsProduct &p) {
  const s32 i0 = block_y() * TOGETHER;
  if (p.n - i0 >= TOGETHER) {
    rows_of<TOGETHER, Term>(p, i0, group_terms);
    return;
  }
  for (s32 i = i0; i < p.n; i++) {
    if (i > i0) barrier();
    rows_of<1, Term>(p, i, group_terms);
  }
}

// groups_codes and groups_floats are for groups that divide rows and are a multiple of 4, of 8 for codes of 4 bits.
KERNEL BOUNDS(PRODUCT_THREADS, 2) groups_codes(GroupsProduct p) { multiply<CodeTerm>(p); }
KERNEL BOUNDS(PRODUCT_THREADS, 2) groups_floats(GroupsProduct p) { multiply<FloatTerm>(p); }

// groups_plain is for all groups: a thread for every product, as ref.DotGroups and ref.DotGroupsFloat have it.
KERNEL BOUNDS(PRODUCT_THREADS, 4) groups_plain(GroupsProduct p) {
  const s64 at = (s64)block_x() * PRODUCT_THREADS + thread_x();
  if (at >= (s64)p.n * p.m.rows) return;
  const s64 i = at / p.m.rows, from = at % p.m.rows * p.m.cols;
  const s32 size = p.m.size, shift = from % size;
  f32 acc = 0.0f;
  for (s32 lo = 0; lo < p.m.cols;) {
    s32 hi = lo + size - (lo + shift) % size;
    if (p.floats) {
      if (hi > p.m.cols) hi = p.m.cols;
      f32 c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
      for (s32 k = lo; k < hi; k++) {
        const f32 t = (f32)code(p.m, from + k) * p.floats[i * p.m.cols + k];
        switch ((k - lo) % 4) {
        case 0: c0 = c0 + t; break;
        case 1: c1 = c1 + t; break;
        case 2: c2 = c2 + t; break;
        default: c3 = c3 + t;
        }
      }
      acc = acc + ((c0 + c1) + (c2 + c3)) * p.m.scales[(from + lo) / size];
    } else {
      if (lo + size - lo % size < hi) hi = lo + size - lo % size;
      if (hi > p.m.cols) hi = p.m.cols;
      s32 sum = 0;
      for (s32 k = lo; k < hi; k++) sum += code(p.m, from + k) * p.x[i * p.m.cols + k];
      acc = acc + group_term(sum, p.m.scales[(from + lo) / size], p.x_scales[i * p.per_row + lo / size]);
    }
    lo = hi;
  }
  p.y[at] = acc;
}

// EmbedRows writes rows of a matrix in groups, code times scale.
struct EmbedRows {
  GroupMatrix m;
  const s32 *ids;
  f32 *x; // n x cols
  u32 n;
  s32 pad;
};

KERNEL BOUNDS(PRODUCT_THREADS, 4) embed_groups(EmbedRows p) {
  const s64 from = (s64)p.ids[block_x()] * p.m.cols;
  for (s32 k = thread_x(); k < p.m.cols; k += PRODUCT_THREADS)
    p.x[(s64)block_x() * p.m.cols + k] = (f32)code(p.m, from + k) * p.m.scales[(from + k) / p.m.size];
}
