// Products of float32 matrices; float_gemm.go launches them.
#include "float_gemm.cuh"

// FloatGemm is a product, or many of them: product i of the batch is at index i of the axes dims, the last one fastest.
struct FloatGemm {
  Right right;
  const f32 *a; // element (i, k) is at a[i*a_row + k*a_col]
  s64 c_batch;
  s64 a_batch[4], b_batch[4];
  s32 dims[4];
  s32 a_row, a_col;
  s32 rows, columns; // tiles of one product
};

// start moves p to its product.
DEVICE void start(FloatGemm &p, u32 product) {
  s64 a = 0, b = 0;
  const s64 c = product * p.c_batch;
  for (s32 d = 3; d >= 0; d--) {
    const u32 at = product % p.dims[d];
    product /= p.dims[d];
    a += at * p.a_batch[d];
    b += at * p.b_batch[d];
  }
  p.a += a;
  p.right.b += b;
  p.right.c += c;
  if (p.right.add) p.right.add += c;
}

// Matrix is the left-hand side of a product.
template <s32 TILE, s32 STEP> struct Matrix {
  typedef Tile<TILE, STEP> T;
  const FloatGemm &p;
  s32 i0;
  DEVICE_MEMBER void fetch(f32 *v, s32 k0) const {
#pragma unroll
    for (s32 n = 0; n < T::LOADS; n++) {
      const s32 e = thread_x() + n * GEMM_THREADS;
      const s32 k = k0 + (p.a_col == 1 ? e % STEP : e / TILE), i = i0 + (p.a_col == 1 ? e / STEP : e % TILE);
      v[n] = k < p.right.k && i < p.right.m ? p.a[i * p.a_row + k * p.a_col] : 0.0f;
    }
  }
  DEVICE_MEMBER void store(f32 (*to)[TILE + 4], const f32 *v) const {
#pragma unroll
    for (s32 n = 0; n < T::LOADS; n++) {
      const s32 e = thread_x() + n * GEMM_THREADS;
      if (p.a_col == 1)
        to[e % STEP][e / STEP] = v[n];
      else
        to[e / TILE][e % TILE] = v[n];
    }
  }
};

template <s32 TILE, s32 STEP> DEVICE void gemm(FloatGemm &p, Tile<TILE, STEP> &t) {
  const u32 tiles = p.rows * p.columns, tile = block_x() % tiles;
  start(p, block_x() / tiles);
  const s32 i0 = tile / p.columns * TILE, j0 = tile % p.columns * TILE;
  Matrix<TILE, STEP> left = {p, i0};
  product<TILE, STEP>(t, left, p.right, i0, j0);
}

KERNEL BOUNDS(GEMM_THREADS, 1) gemm128(FloatGemm p) {
  SHARED static Tile<128, 8> t;
  gemm<128, 8>(p, t);
}

KERNEL BOUNDS(GEMM_THREADS, 2) gemm64(FloatGemm p) {
  SHARED static Tile<64, 16> t;
  gemm<64, 16>(p, t);
}

// gemm_rows serves a few rows: every thread computes one column of ROWS of them, the left-hand side goes through shared memory.
enum { ROWS = 8, ROW_STEP = 64, ROW_THREADS = 128 };

KERNEL BOUNDS(ROW_THREADS, 4) gemm_rows(FloatGemm p) {
  alignas(16) SHARED static f32 left[ROW_STEP][ROWS];
  const u32 tiles = p.rows * p.columns, tile = block_x() % tiles;
  start(p, block_x() / tiles);
  const Right &r = p.right;
  const s32 i0 = tile / p.columns * ROWS, j = tile % p.columns * ROW_THREADS + thread_x();
  f32 acc[ROWS] = {};
  for (s32 k0 = 0; k0 < r.k; k0 += ROW_STEP) {
    const s32 some = r.k - k0 < ROW_STEP ? r.k - k0 : ROW_STEP;
    barrier();
    for (s32 e = thread_x(); e < ROW_STEP * ROWS; e += ROW_THREADS) {
      const s32 k = e % ROW_STEP, i = e / ROW_STEP;
      left[k][i] = k < some && i0 + i < r.m ? p.a[(i0 + i) * p.a_row + (k0 + k) * p.a_col] : 0.0f;
    }
    barrier();
    if (j >= r.n) continue;
    const f32 *b = r.b + k0 * r.b_row + j * r.b_col;
#pragma unroll 8
    for (s32 k = 0; k < some; k++) {
      const f32 y = b[k * r.b_row];
      const f32x4 x0 = *(const f32x4 *)&left[k][0], x1 = *(const f32x4 *)&left[k][4];
#pragma unroll
      for (s32 i = 0; i < 4; i++) {
        acc[i] = fma(x0[i], y, acc[i]);
        acc[i + 4] = fma(x1[i], y, acc[i + 4]);
      }
    }
  }
  if (j >= r.n) return;
#pragma unroll
  for (s32 i = 0; i < ROWS; i++) {
    if (i0 + i >= r.m) break;
    const s64 at = (s64)(i0 + i) * r.c_row + j;
    r.c[at] = finish(r, acc[i], j, at);
  }
}
