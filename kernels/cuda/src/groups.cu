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

#if __CUDA_ARCH__ >= 800

// What a block of groups_tiles computes: 128 rows of the matrix with 64 rows of activations, each of its eight warps 32 of both, in
// steps of 32 codes. Rows of a step have two pieces of 16 bytes; four rows fill all banks, so that the pieces of the next four are
// exchanged, and ldmatrix reads eight rows of one piece without conflicts.
enum { TILE_ROWS = 128, TILE_N = 64, TILE_STEP = 32, TILE_RING = 4, TILE_BYTES = (TILE_ROWS + TILE_N) * TILE_STEP };

DEVICE u32 tile_place(u32 row, u32 piece) { return row * TILE_STEP + ((piece ^ (row >> 2 & 1)) << 4); }

// groups_tiles is for codes of 8 bits in groups that are a multiple of 32 and divide rows, and many rows of activations: the sums of a
// group are made by tensor cores, and their terms added group by group, in order.
KERNEL BOUNDS(256, 2) groups_tiles(GroupsProduct p) {
  SHARED static __attribute__((aligned(128))) u8 ring[TILE_RING * TILE_BYTES];
  const u32 tid = thread_x(), lane = tid & 31, warp = tid >> 5, warp_r = warp / 2 * 32, warp_n = warp % 2 * 32;
  const s32 r0 = block_y() * TILE_ROWS, n0 = block_x() * TILE_N, steps = p.m.cols / TILE_STEP;
  const u32 at = shared_address(ring), row = tid >> 1, piece = tid & 1;
  const s32 last_r = p.m.rows - 1, last_n = p.n - 1; // rows beyond the end copy the last
  const u8 *from_r = p.m.codes + (s64)(r0 + (s32)row < last_r ? r0 + (s32)row : last_r) * p.m.cols + piece * 16;
  const u8 *from_n = (const u8 *)p.x + (s64)(n0 + (s32)row < last_n ? n0 + (s32)row : last_n) * p.m.cols + piece * 16;
  const u32 to_r = at + tile_place(row, piece), to_n = to_r + TILE_ROWS * TILE_STEP;
  auto copy = [&](s32 step) {
    const u32 slot = step % TILE_RING * TILE_BYTES;
    if (step < steps) {
      copy16(to_r + slot, from_r + (s64)step * TILE_STEP);
      if (row < TILE_N) copy16(to_n + slot, from_n + (s64)step * TILE_STEP);
    }
    copies_end();
  };
  for (s32 step = 0; step < TILE_RING - 1; step++) copy(step);

  f32 y[2][4][4];
  s32 sums[2][4][4];
#pragma unroll
  for (s32 i = 0; i < 2; i++)
#pragma unroll
    for (s32 j = 0; j < 4; j++)
#pragma unroll
      for (s32 e = 0; e < 4; e++) y[i][j][e] = 0.0f, sums[i][j][e] = 0;

  // The lane's rows of the matrix are r and those 8, 16 and 24 further; its rows of activations are n, n+1 and those 8, 16 and 24 further.
  const s32 r = r0 + warp_r + lane / 4, n = n0 + warp_n + lane % 4 * 2;
  const u32 read_r = at + tile_place(warp_r + (lane & 15), lane >> 4);
  const u32 read_n = at + TILE_ROWS * TILE_STEP + tile_place(warp_n + (lane & 7) + (lane >> 4 << 3), lane >> 3 & 1);
  s32 within = 0, group = 0;
#pragma unroll 1
  for (s32 step = 0; step < steps; step++) {
    copies_wait<TILE_RING - 2>();
    barrier(); // the step is there for everybody, and everybody has read the one before, whose place the next copies take
    copy(step + TILE_RING - 1);
    const u32 slot = step % TILE_RING * TILE_BYTES;
    u32 a[2][4], b[2][4];
#pragma unroll
    for (s32 i = 0; i < 2; i++) {
      load_matrices(a[i], read_r + slot + i * 16 * TILE_STEP);
      load_matrices(b[i], read_n + slot + i * 16 * TILE_STEP);
    }
#pragma unroll
    for (s32 i = 0; i < 2; i++)
#pragma unroll
      for (s32 j = 0; j < 4; j++) multiply<true>(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    within += TILE_STEP;
    if (within < p.m.size) continue;
    f32 ws[4];
#pragma unroll
    for (s32 i = 0; i < 4; i++) {
      const s32 of = r + i * 8 < last_r ? r + i * 8 : last_r;
      ws[i] = p.m.scales[(s64)of * p.per_row + group];
    }
#pragma unroll
    for (s32 j = 0; j < 4; j++)
#pragma unroll
      for (s32 e = 0; e < 2; e++) {
        const s32 of = n + j * 8 + e < last_n ? n + j * 8 + e : last_n;
        const f32 xs = p.x_scales[(s64)of * p.per_row + group];
#pragma unroll
        for (s32 i = 0; i < 4; i++) {
          s32 &sum = sums[i / 2][j][i % 2 * 2 + e];
          y[i / 2][j][i % 2 * 2 + e] = y[i / 2][j][i % 2 * 2 + e] + group_term(sum, ws[i], xs);
          sum = 0;
        }
      }
    within = 0;
    group++;
  }
#pragma unroll
  for (s32 i = 0; i < 2; i++)
#pragma unroll
    for (s32 j = 0; j < 4; j++)
#pragma unroll
      for (s32 e = 0; e < 4; e++) {
        const s32 to_row = r + i * 16 + e / 2 * 8, of = n + j * 8 + e % 2;
        if (to_row <= last_r && of <= last_n) p.y[(s64)of * p.m.rows + to_row] = y[i][j][e];
      }
}

#endif

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
