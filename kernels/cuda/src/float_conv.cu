// Convolutions of float32 in channels-last order, one accumulator per result in the order of kernels/ref.Conv: depth, height and width of
// the kernel, then channels. Padding takes part as +0. float_conv.go launches them.
#include "float_gemm.cuh"

// FloatConv is the geometry. c and m are channels of a group.
struct FloatConv {
  Right right; // rows are output positions, k is taps*c, columns are the channels of a group; b is [groups][k][m]
  const f32 *x;
  const s32 *taps; // by k: steps along depth, height and width from the first tap, and of the offset in x
  s32 groups, c_all, m_all;
  s32 in_d, in_h, in_w, out_d, out_h, out_w;
  s32 stride_d, stride_h, stride_w, pad_d, pad_h, pad_w; // pads before
  s32 rows, columns;
};

typedef s32 s32x4 __attribute__((ext_vector_type(4)));

// first is where the first tap of an output position lies, and its offset in x.
DEVICE s32x4 first(const FloatConv &p, u32 position) {
  const s32 x = position % p.out_w * p.stride_w - p.pad_w;
  position /= p.out_w;
  const s32 y = position % p.out_h * p.stride_h - p.pad_h;
  position /= p.out_h;
  const s32 z = position % p.out_d * p.stride_d - p.pad_d;
  position /= p.out_d;
  return (s32x4){z, y, x, (((s32)position * p.in_d + z) * p.in_h + y) * p.in_w * p.c_all + x * p.c_all};
}

// inside returns where a tap reads, null in the padding.
DEVICE const f32 *inside(const FloatConv &p, s32x4 at, s32x4 step) {
  const bool in = (u32)(at[0] + step[0]) < (u32)p.in_d && (u32)(at[1] + step[1]) < (u32)p.in_h && (u32)(at[2] + step[2]) < (u32)p.in_w;
  return in ? p.x + (at[3] + step[3]) : nullptr;
}

DEVICE f32 tap(const FloatConv &p, s32x4 at, s32x4 step) {
  const f32 *x = inside(p, at, step);
  return x ? *x : 0.0f;
}

// Windows are the left-hand side: what the windows of output positions see.
template <s32 TILE, s32 STEP> struct Windows {
  typedef Tile<TILE, STEP> T;
  const FloatConv &p;
  const s32x4 *at; // of the rows of the tile
  s32 i0;
  DEVICE_MEMBER void fetch(f32 *v, s32 k0) const {
    const s32 k = k0 + thread_x() % STEP;
    const s32x4 step = k < p.right.k ? *(const s32x4 *)(p.taps + 4 * k) : (s32x4){-0x40000000, 0, 0, 0};
#pragma unroll
    for (s32 n = 0; n < T::LOADS; n++) v[n] = tap(p, at[(thread_x() + n * GEMM_THREADS) / STEP], step);
  }
  DEVICE_MEMBER void store(f32 (*to)[TILE + 4], const f32 *v) const {
#pragma unroll
    for (s32 n = 0; n < T::LOADS; n++) {
      const s32 e = thread_x() + n * GEMM_THREADS;
      to[e % STEP][e / STEP] = v[n];
    }
  }
};

template <s32 TILE, s32 STEP> DEVICE void conv(FloatConv &p, Tile<TILE, STEP> &t, s32x4 *at) {
  const u32 tiles = p.rows * p.columns, tile = block_x() % tiles, group = block_x() / tiles;
  const s32 i0 = tile / p.columns * TILE, j0 = tile % p.columns * TILE;
  p.x += group * (p.c_all / p.groups);
  p.right.b += (s64)group * p.right.k * p.right.n;
  p.right.c += group * p.right.n;
  if (p.right.add) p.right.add += group * p.right.n;
  if (p.right.bias) p.right.bias += group * p.right.n;
  if (thread_x() < TILE) // rows beyond the last see nothing
    at[thread_x()] = i0 + (s32)thread_x() < p.right.m ? first(p, i0 + thread_x()) : (s32x4){-0x40000000, 0, 0, 0};
  barrier();
  Windows<TILE, STEP> left = {p, at, i0};
  product<TILE, STEP>(t, left, p.right, i0, j0);
}

KERNEL BOUNDS(GEMM_THREADS, 1) conv128(FloatConv p) {
  SHARED static Tile<128, 8> t;
  SHARED static s32x4 at[128];
  conv<128, 8>(p, t, at);
}

KERNEL BOUNDS(GEMM_THREADS, 2) conv64(FloatConv p) {
  SHARED static Tile<64, 16> t;
  SHARED static s32x4 at[64];
  conv<64, 16>(p, t, at);
}

// conv_each computes one result per thread, the channels of a position being neighbours: for groups of few channels, depthwise ones
// above all. The weights are [k][m_all].
KERNEL BOUNDS(256, 4) conv_each(FloatConv p) {
  const u32 count = (u32)p.right.m * p.m_all;
  const s32 cg = p.c_all / p.groups, mg = p.m_all / p.groups;
  for (u32 i = block_x() * threads_x() + thread_x(); i < count; i += blocks_x() * threads_x()) {
    const s32 m = i % p.m_all;
    s32x4 at = first(p, i / p.m_all);
    at[3] += m / mg * cg;
    const f32 *w = p.right.b + m;
    f32 acc = 0.0f;
#pragma unroll 4
    for (s32 k = 0; k < p.right.k; k++) acc = fma(tap(p, at, *(const s32x4 *)(p.taps + 4 * k)), w[(s64)k * p.m_all], acc);
    p.right.c[i] = finish(p.right, acc, m, i);
  }
}

// conv_depthwise4 is conv_each for one channel per group and a number of channels that is a multiple of 4: a thread computes 4 of them.
KERNEL BOUNDS(256, 4) conv_depthwise4(FloatConv p) {
  const u32 fours = p.m_all / 4, count = (u32)p.right.m * fours;
  for (u32 i = block_x() * threads_x() + thread_x(); i < count; i += blocks_x() * threads_x()) {
    const u32 m = i % fours * 4;
    s32x4 at = first(p, i / fours);
    at[3] += m;
    const f32 *w = p.right.b + m;
    f32x4 acc = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 3
    for (s32 k = 0; k < p.right.k; k++) {
      const s32x4 step = *(const s32x4 *)(p.taps + 4 * k);
      const f32x4 y = *(const f32x4 *)(w + (s64)k * p.m_all);
      const f32 *x = inside(p, at, step);
      const f32x4 v = x ? *(const f32x4 *)x : (f32x4){0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (s32 c = 0; c < 4; c++) acc[c] = fma(v[c], y[c], acc[c]);
    }
    f32x4 out;
#pragma unroll
    for (s32 c = 0; c < 4; c++) out[c] = finish(p.right, acc[c], m + c, (s64)i * 4 + c);
    ((f32x4 *)p.right.c)[i] = out;
  }
}

// conv_transpose_each is kernels/ref.ConvTranspose, one result per thread: taps that fall between input positions take no part, those
// outside of the input take part as +0. The weights are [taps][c][m_all], c being that of a group; taps holds depth, height and width
// of the kernel position times the dilation.
KERNEL BOUNDS(256, 4) conv_transpose_each(FloatConv p) {
  const u32 count = (u32)p.right.m * p.m_all;
  const s32 cg = p.c_all / p.groups, mg = p.m_all / p.groups;
  for (u32 i = block_x() * threads_x() + thread_x(); i < count; i += blocks_x() * threads_x()) {
    const s32 m = i % p.m_all;
    u32 position = i / p.m_all;
    const s32 x = position % p.out_w + p.pad_w;
    position /= p.out_w;
    const s32 y = position % p.out_h + p.pad_h;
    position /= p.out_h;
    const s32 z = position % p.out_d + p.pad_d;
    const s64 image = position / p.out_d;
    f32 acc = 0.0f;
    for (s32 k = 0; k < p.right.k; k++) {
      const s32x4 step = *(const s32x4 *)(p.taps + 4 * k);
      const s32 dz = z - step[0], dy = y - step[1], dx = x - step[2];
      if (dz % p.stride_d || dy % p.stride_h || dx % p.stride_w) continue;
      const s32 iz = dz / p.stride_d, iy = dy / p.stride_h, ix = dx / p.stride_w;
      const bool inside = (u32)iz < (u32)p.in_d && (u32)iy < (u32)p.in_h && (u32)ix < (u32)p.in_w;
      const f32 *src = p.x + (((image * p.in_d + iz) * p.in_h + iy) * p.in_w + ix) * p.c_all + m / mg * cg;
      const f32 *w = p.right.b + (s64)k * cg * p.m_all + m;
      for (s32 c = 0; c < cg; c++) acc = fma(inside ? src[c] : 0.0f, w[(s64)c * p.m_all], acc);
    }
    p.right.c[i] = finish(p.right, acc, m, i);
  }
}
