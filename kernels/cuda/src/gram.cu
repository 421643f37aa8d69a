// Sums of products of what an operator reads, which observers.Gram keeps; gram.go launches the kernels. A code c of at most 13 bits is two
// signed bytes, c = 128*high + low with high in -32..32 and low in -64..63, so that products are made as those of 8-bit matrices are. A word
// has high in its upper byte.
#include "mma.cuh"

DEVICE void atomic_add(u64 *p, s64 n) { __nvvm_atom_add_gen_ll((s64 *)p, n); }

struct GramCodes {
  const f32 *x;
  u16 *codes;
  const s32 *at; // where runs of x go
  u64 *odd;      // how many were limited, how many are not finite
  f64 by, limit;
  u32 n, run;
};

// gram_codes is qmath.Fixed.Codes; what is not finite becomes 0.
KERNEL BOUNDS(256, 4) gram_codes(GramCodes p) {
  const f64 magic = 6755399441055744.0; // 3 * 2^51: leaves no bits behind the point
  u32 limited = 0, odd = 0;
  for (u32 i = block_x() * 256 + thread_x(); i < p.n; i += blocks_x() * 256) {
    const f32 v = p.x[i];
    f64 q = (f64)v * p.by;
    q = q + magic;
    q = q - magic;
    s32 code = 0;
    if (q >= -p.limit && q <= p.limit) {
      code = (s32)q;
    } else if (!(v - v == 0.0f)) {
      odd++;
    } else {
      code = (s32)(q < 0 ? -p.limit : p.limit);
      limited++;
    }
    const s32 high = (code + 64) >> 7;
    p.codes[p.at[i / p.run] + i % p.run] = high << 8 | ((code - 128 * high) & 255);
  }
  if (limited) atomic_add(p.odd, limited);
  if (odd) atomic_add(p.odd + 1, odd);
}

struct Gram {
  const u16 *codes;
  const s32 *base, *offset; // element c of row r is codes[base[r] + offset[c]]
  u64 *sums;                // by group k x k products, from the diagonal on; then by group k elements
  s32 rows, each;           // each: of a slice, a multiple of STEP, so few that sums have 32 bits
  s32 columns, k;           // columns: k of each group
  s32 span, tiles;          // columns of a unit, one group or several whole ones, and how many tiles they fill
};

// A block makes COLUMNS x COLUMNS products of a unit, its four warps 32 x 32 each, STEP rows at a time. A column of a step has 32 bytes and
// 16 of padding: eight columns of 16 bytes then lie in all banks.
enum { COLUMNS = 64, STEP = 32, PITCH = 12, THREADS = 128 };

KERNEL BOUNDS(THREADS, 2) gram(Gram p) {
  SHARED static __attribute__((aligned(128))) u32 factors[2][2][COLUMNS * PITCH]; // of both tiles the high bytes and the low ones
  const u32 t = thread_x(), lane = t & 31, warp = t >> 5, warp_a = warp / 2 * 32, warp_b = warp % 2 * 32;
  const s32 pairs = p.tiles * (p.tiles + 1) / 2, first = (s32)block_x() / pairs * p.span;
  const s32 end = first + p.span < p.columns ? first + p.span : p.columns;
  s32 i0 = 0, j0 = (s32)block_x() % pairs;
  for (; j0 >= p.tiles - i0; i0++) j0 -= p.tiles - i0;
  const s32 tile_a = first + i0 * COLUMNS, tile_b = tile_a + j0 * COLUMNS, column = t % COLUMNS;
  const s32 offsets[2] = {tile_a + column < end ? p.offset[tile_a + column] : -1, tile_b + column < end ? p.offset[tile_b + column] : -1};
  const s32 begin = block_y() * p.each, last = begin + p.each < p.rows ? begin + p.each : p.rows;

  // gather reads four rows of a column at a time, of the high and the low bytes.
  u32 words[2][2][4];
  auto gather = [&](s32 row) {
#pragma unroll
    for (s32 q = 0; q < 4; q++) {
      const s32 r = row + (q * 2 + t / COLUMNS) * 4;
      s32 base[4];
#pragma unroll
      for (s32 n = 0; n < 4; n++) base[n] = r + n < last ? p.base[r + n] : -1;
#pragma unroll
      for (s32 f = 0; f < 2; f++) {
        u32 high = 0, low = 0;
#pragma unroll
        for (s32 n = 0; n < 4; n++) {
          const u32 v = base[n] >= 0 && offsets[f] >= 0 ? p.codes[base[n] + offsets[f]] : 0;
          high |= v >> 8 << 8 * n;
          low |= (v & 255) << 8 * n;
        }
        words[f][0][q] = high;
        words[f][1][q] = low;
      }
    }
  };

  s32 high[2][4][4], cross[2][4][4], low[2][4][4], plain = 0;
#pragma unroll
  for (s32 i = 0; i < 2; i++)
#pragma unroll
    for (s32 j = 0; j < 4; j++)
#pragma unroll
      for (s32 e = 0; e < 4; e++) high[i][j][e] = cross[i][j][e] = low[i][j][e] = 0;
  gather(begin);
#pragma unroll 1
  for (s32 row = begin; row < last; row += STEP) {
    barrier(); // everybody has read the step before
#pragma unroll
    for (s32 f = 0; f < 2; f++)
#pragma unroll
      for (s32 h = 0; h < 2; h++)
#pragma unroll
        for (s32 q = 0; q < 4; q++) factors[f][h][column * PITCH + q * 2 + t / COLUMNS] = words[f][h][q];
#pragma unroll
    for (s32 q = 0; q < 4; q++) plain += 128 * dot4<true>(words[0][0][q], 0x01010101, 0) + dot4<true>(words[0][1][q], 0x01010101, 0);
    barrier();
    gather(row + STEP);
#if __CUDA_ARCH__ >= 800
    u32 a[2][2][4], b[2][2][4];
#pragma unroll
    for (s32 h = 0; h < 2; h++)
#pragma unroll
      for (s32 i = 0; i < 2; i++) {
        load_matrices(a[h][i], shared_address(factors[0][h]) + (warp_a + i * 16 + (lane & 15)) * (4 * PITCH) + (lane >> 4) * 16);
        load_matrices(b[h][i], shared_address(factors[1][h]) + (warp_b + i * 16 + (lane & 7) + (lane >> 4 << 3)) * (4 * PITCH) + (lane >> 3 & 1) * 16);
      }
#pragma unroll
    for (s32 i = 0; i < 2; i++)
#pragma unroll
      for (s32 j = 0; j < 4; j++) {
        multiply<true>(high[i][j], a[0][i], b[0][j / 2][j % 2 * 2], b[0][j / 2][j % 2 * 2 + 1]);
        multiply<true>(cross[i][j], a[0][i], b[1][j / 2][j % 2 * 2], b[1][j / 2][j % 2 * 2 + 1]);
        multiply<true>(cross[i][j], a[1][i], b[0][j / 2][j % 2 * 2], b[0][j / 2][j % 2 * 2 + 1]);
        multiply<true>(low[i][j], a[1][i], b[1][j / 2][j % 2 * 2], b[1][j / 2][j % 2 * 2 + 1]);
      }
#else
#pragma unroll 1
    for (s32 g = 0; g < STEP / 4; g++) {
      u32 a[2][4], b[2][8];
#pragma unroll
      for (s32 h = 0; h < 2; h++) {
#pragma unroll
        for (s32 i = 0; i < 4; i++) a[h][i] = factors[0][h][(warp_a + i * 8 + lane / 4) * PITCH + g];
#pragma unroll
        for (s32 j = 0; j < 8; j++) b[h][j] = factors[1][h][(warp_b + j / 2 * 8 + lane % 4 * 2 + j % 2) * PITCH + g];
      }
#pragma unroll
      for (s32 i = 0; i < 2; i++)
#pragma unroll
        for (s32 j = 0; j < 4; j++)
#pragma unroll
          for (s32 e = 0; e < 4; e++) {
            const s32 m = i * 2 + e / 2, n = j * 2 + e % 2;
            high[i][j][e] = dot4<true>(a[0][m], b[0][n], high[i][j][e]);
            cross[i][j][e] = dot4<true>(a[1][m], b[0][n], dot4<true>(a[0][m], b[1][n], cross[i][j][e]));
            low[i][j][e] = dot4<true>(a[1][m], b[1][n], low[i][j][e]);
          }
    }
#endif
  }
#pragma unroll
  for (s32 i = 0; i < 2; i++)
#pragma unroll
    for (s32 j = 0; j < 4; j++)
#pragma unroll
      for (s32 e = 0; e < 4; e++) {
        const s32 m = tile_a + warp_a + i * 16 + e / 2 * 8 + lane / 4, n = tile_b + warp_b + j * 8 + lane % 4 * 2 + e % 2;
        if (m <= n && n < end && m / p.k == n / p.k)
          atomic_add(p.sums + (s64)m * p.k + n % p.k, 16384 * (s64)high[i][j][e] + 128 * (s64)cross[i][j][e] + low[i][j][e]);
      }
  if (tile_a == tile_b && offsets[0] >= 0) atomic_add(p.sums + (s64)p.columns * p.k + tile_a + column, plain);
}
