// Products of float32 matrices: one accumulator per result, to which the products are added by fused multiply-adds in the order of k,
// as kernels/ref.Gemm does. A block computes a tile, step by step of k: both sides go through shared memory, the next step is on its
// way from global memory while one is computed.
#pragma once
#include "float.cuh"

typedef f32 f32x4 __attribute__((ext_vector_type(4)));

enum { GEMM_THREADS = 256 };

// Right is the right-hand side and what becomes of the sums: element (k, j) is at b[k*b_row + j*b_col], result (i, j) at c[i*c_row+j].
// One matrix has fewer than 2^31 elements.
struct Right {
  const f32 *b;
  f32 *c;
  const f32 *bias; // one per column, or null
  const f32 *add;  // where c is, or null
  s32 b_row, b_col, c_row;
  s32 m, n, k, limited;
  f32 lo, hi;
};

DEVICE f32 finish(const Right &r, f32 x, s32 j, s64 at) {
  if (r.bias) x = x + r.bias[j];
  if (r.add) x = x + r.add[at];
  return r.limited ? limit(x, r.lo, r.hi) : x;
}

// Tile is TILE x TILE results by 16 x 16 threads, STEP of k at a time.
template <s32 TILE, s32 STEP> struct Tile {
  enum { PARTS = TILE / 64, LOADS = TILE * STEP / GEMM_THREADS };
  alignas(16) f32 a[2][STEP][TILE + 4], b[2][STEP][TILE + 4]; // rows are read 16 bytes at a time
};

// fetch_right reads a thread's part of rows [k0, k0+STEP) of the right-hand side. Outside of it is 0.
template <s32 TILE, s32 STEP> DEVICE void fetch_right(f32 *v, const Right &r, s32 k0, s32 j0) {
  for (s32 i = 0; i < (s32)Tile<TILE, STEP>::LOADS; i++) {
    const s32 e = thread_x() + i * GEMM_THREADS;
    const s32 k = k0 + (r.b_col == 1 ? e / TILE : e % STEP), j = j0 + (r.b_col == 1 ? e % TILE : e / STEP);
    v[i] = k < r.k && j < r.n ? r.b[k * r.b_row + j * r.b_col] : 0.0f;
  }
}

template <s32 TILE, s32 STEP> DEVICE void store_right(f32 (*to)[TILE + 4], const f32 *v, const Right &r) {
  for (s32 i = 0; i < (s32)Tile<TILE, STEP>::LOADS; i++) {
    const s32 e = thread_x() + i * GEMM_THREADS;
    if (r.b_col == 1)
      to[e / TILE][e % TILE] = v[i];
    else
      to[e % STEP][e / STEP] = v[i];
  }
}

// multiply adds the products of one k to a thread's sums.
template <s32 TILE, s32 STEP>
DEVICE void multiply(f32 (&acc)[TILE / 16][TILE / 16], const f32 *a, const f32 *b) {
  enum { PARTS = Tile<TILE, STEP>::PARTS };
  const s32 ty = thread_x() / 16, tx = thread_x() % 16;
  f32x4 x[PARTS], y[PARTS];
#pragma unroll
  for (s32 p = 0; p < PARTS; p++) {
    x[p] = *(const f32x4 *)(a + p * 64 + ty * 4);
    y[p] = *(const f32x4 *)(b + p * 64 + tx * 4);
  }
#pragma unroll
  for (s32 i = 0; i < TILE / 16; i++)
#pragma unroll
    for (s32 j = 0; j < TILE / 16; j++) acc[i][j] = fma(x[i / 4][i % 4], y[j / 4][j % 4], acc[i][j]);
}

// product computes tile (i0, j0). left has fetch(v, k0), which reads a thread's part of columns [k0, k0+STEP) of the left-hand side, and
// store(to, v). Only the steps of k that exist are added: one more zero would turn -0 into +0.
template <s32 TILE, s32 STEP, class Left> DEVICE void product(Tile<TILE, STEP> &t, Left &left, const Right &r, s32 i0, s32 j0) {
  typedef Tile<TILE, STEP> T;
  f32 acc[TILE / 16][TILE / 16] = {};
  f32 va[T::LOADS], vb[T::LOADS];
  left.fetch(va, 0);
  fetch_right<TILE, STEP>(vb, r, 0, j0);
  left.store(t.a[0], va);
  store_right<TILE, STEP>(t.b[0], vb, r);
  barrier();
  s32 now = 0;
  for (s32 k0 = 0; k0 < r.k; k0 += STEP) {
    const bool more = k0 + STEP < r.k;
    if (more) {
      left.fetch(va, k0 + STEP);
      fetch_right<TILE, STEP>(vb, r, k0 + STEP, j0);
    }
    if (k0 + STEP <= r.k) {
#pragma unroll
      for (s32 k = 0; k < STEP; k++) multiply<TILE, STEP>(acc, t.a[now][k], t.b[now][k]);
    } else {
#pragma unroll 1
      for (s32 k = 0; k < r.k - k0; k++) multiply<TILE, STEP>(acc, t.a[now][k], t.b[now][k]);
    }
    if (more) {
      now ^= 1;
      left.store(t.a[now], va);
      store_right<TILE, STEP>(t.b[now], vb, r);
      barrier();
    }
  }
  const s32 ty = thread_x() / 16, tx = thread_x() % 16;
#pragma unroll
  for (s32 i = 0; i < TILE / 16; i++) {
    const s32 row = i0 + i / 4 * 64 + ty * 4 + i % 4;
    if (row >= r.m) continue;
#pragma unroll
    for (s32 j = 0; j < TILE / 16; j++) {
      const s32 col = j0 + j / 4 * 64 + tx * 4 + j % 4;
      if (col >= r.n) continue;
      const s64 at = (s64)row * r.c_row + col;
      r.c[at] = finish(r, acc[i][j], col, at);
    }
  }
}
