// Products of 8-bit matrices and convolutions, which are products too: rows are output positions, columns output channels, and k runs
// over the taps of the window and the input channels. A block of threads computes a tile of BM x BN sums, 64 bytes of k at a time.
//
// Memory. Both tiles of a step have 64 bytes per row, four pieces of 16. Piece q of row r stands at piece q ^ (r/2 % 4) of its row:
// eight rows of one column, which ldmatrix reads at once, then lie in all 32 banks (two rows fill 128 bytes, and the four pairs of
// rows take four different pieces), and so do the two rows of four pieces that eight threads write.
//
// Time. STAGES steps lie in a ring; copies run STAGES-1 steps ahead of the tensor cores. Fragments are read half a step ahead of
// their use, also across steps, so that ldmatrix waits behind the products of the half before. There is one barrier a step: it
// publishes the next one and says that the one before is read, whose place the copies issued after it take.
//
// A warp has WM x WN sums. 64 x 64 reads 4 KB of shared memory for 64*64*32 products, which at six tenths of the rate of wgmma on a
// Hopper takes 60 % of what shared memory gives; half of it, 64 x 32, would take 90 %.
//
// Before compute capability 8.0 the same entry points use dp4a: k in groups of four bytes, shared memory in [group][row], a thread
// with BM*16/threads x BN/16 sums.
#pragma once
#include "epilogue.cuh"
#include "mma.cuh"
#include "window.cuh"

// Tiled is the parameter of the kernels.
struct Tiled {
  const u8 *x;
  const u8 *w;          // [blocks of 64 bytes of k][padded_n][64]
  const Piece *pieces;  // of a window: one for 16 bytes of k, or for 4; positions far outside behind the end of k
  const u8 *fill;       // 16 bytes: the code of padding
  const Part *parts;
  s32 m, n, k;          // k without a window: a multiple of 16
  s32 padded_n, blocks; // of k
  s32 each;             // blocks of k of a slice: there are grid.y slices, whose sums have rows of their own in out
  s32 tiles_m, tiles_n, group; // tiles in the order of groups of so many tiles of rows
  s32 unused;
  s64 slice;            // elements of out between slices
  Windows window;        // of tensors below 2 GiB; without one, its pitch is that of the rows of x
  Epilogue epilogue;
};

// Tile is the place of a block in the order of tiles.
struct Tile {
  s32 m, n;
};

// tile_at goes through groups of tiles of rows, and in a group down the rows before it goes to the next columns, so that blocks that
// run at the same time share both factors in the L2 cache.
DEVICE Tile tile_at(const Tiled &p, s32 id) {
  const s32 group = id / (p.group * p.tiles_n), within = id - group * p.group * p.tiles_n;
  const s32 first = group * p.group, rows = min32(p.tiles_m - first, p.group);
  Tile t;
  t.m = first + within % rows;
  t.n = within / rows;
  return t;
}

// Source is where x comes from: rows of a matrix, or windows in pieces of 16 or 4 bytes.
enum Source { PLAIN, WINDOW, NARROW };

// placed is where piece q of row r of a tile stands in shared memory.
DEVICE u32 placed(u32 r, u32 q) { return r * 64 + ((q ^ (r >> 1 & 3)) << 4); }

#ifdef __CUDA__

template <int BM, int BN, int WARPS_M, int WARPS_N, int STAGES>
struct Shape {
  static constexpr int M = BM, N = BN, THREADS = WARPS_M * WARPS_N * 32, RING = STAGES;
  static constexpr int PIECES = 4; // of 16 bytes of k in a step
  static constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N;
  static constexpr int A = BM * 4 / THREADS, B = BN * 4 / THREADS; // pieces of a step that a thread copies
  static constexpr int AT_M = WARPS_M, AT_N = WARPS_N;
  static_assert(A >= 1 && B >= 1 && WN % 16 == 0 && WM % 16 == 0 && THREADS % (BN / 4) == 0, "");
};

// Row is where a row of x begins: of a matrix, or the first position of a window, which may lie before the tensor.
template <int SOURCE>
struct Row {
  s32 offset, z, y, x;
};
template <>
struct Row<PLAIN> {
  s64 offset;
};

// Rows are the rows of x that a thread copies, THREADS/PIECES apart.
template <typename S, int SOURCE>
struct Rows {
  Row<SOURCE> at[S::A];

  INLINE __attribute__((device)) Rows(const Tiled &p, const Part &part, s32 first) {
#pragma unroll
    for (int i = 0; i < S::A; i++) {
      // Those beyond the end copy the last.
      const s32 row = min32(first + (s32)(thread_x() / S::PIECES) + i * (S::THREADS / S::PIECES), p.m - 1);
      if constexpr (SOURCE == PLAIN) {
        at[i].offset = part.x + row * p.window.pitch;
      } else {
        const Position o = position(p.window, row);
        at[i] = Row<SOURCE>{(s32)(o.offset + part.x), o.z, o.y, o.x};
      }
    }
  }
};

// Pieces are those of one step of k.
template <typename S, int SOURCE>
struct Pieces {
  Piece t[SOURCE == NARROW ? 4 : 1];

  INLINE __attribute__((device)) void read(const Tiled &p, s32 step) {
    const s32 at = step * S::PIECES + thread_x() % S::PIECES;
    if (SOURCE == PLAIN) {
      t[0].offset = at * 16;
    } else if (SOURCE == WINDOW) {
      *(s32x4 *)&t[0] = *(const s32x4 *)&p.pieces[at];
    } else {
#pragma unroll
      for (int j = 0; j < 4; j++) *(s32x4 *)&t[j] = *(const s32x4 *)&p.pieces[at * 4 + j];
    }
  }

  // from returns the address of piece j of a row.
  INLINE __attribute__((device)) const u8 *from(const Tiled &p, const Row<SOURCE> &o, int j) const {
    if constexpr (SOURCE == PLAIN) {
      return t[0].offset < p.k ? p.x + o.offset + t[0].offset : p.fill;
    } else {
      return inside(p.window, o.z + t[j].z, o.y + t[j].y, o.x + t[j].x) ? p.x + (o.offset + t[j].offset) : p.fill;
    }
  }
};

// Band is some rows of sums in shared memory, with BN+8 sums each: row r is row base + r/PER*STEP + r%PER of the product.
template <typename S, int COUNT, int PER, int STEP>
struct Band {
  const s32 *sums;
  s32 base;

  INLINE __attribute__((device)) s32 row(s32 r) const { return base + r / PER * STEP + r % PER; }
  INLINE __attribute__((device)) const s32 *at(s32 r, s32 c) const { return &sums[r * (S::N + 8) + c]; }
};

// by_one makes outputs channel by channel, a row at a time.
template <typename S, int COUNT, int PER, int STEP>
DEVICE void by_one(const Tiled &p, const Epilogue &e, const Channels<1> &a, Band<S, COUNT, PER, STEP> band) {
#pragma unroll 1
  for (s32 r = thread_x() / S::N; r < COUNT; r += S::THREADS / S::N) {
    const s32 row = band.row(r);
    if (row < p.m) finish(e, a, row, *band.at(r, thread_x() % S::N));
  }
}

// WORDS is the form of by_four for what is not codes.
enum { WORDS = -1 };

// by_four makes the outputs of four channels, words4 or codes4. It takes several rows at a time, so that their residuals are read at
// the same time.
template <typename S, int COUNT, int PER, int STEP, int FORM, bool ADDS>
DEVICE void by_four(const Tiled &p, const Epilogue &e, const Channels<4> &a, Band<S, COUNT, PER, STEP> band) {
  constexpr int WIDTH = S::N / 4, NEXT = S::THREADS / WIDTH, ALL = COUNT / NEXT, EACH = FORM != FLOAT_AFTER ? 1 : ALL < 4 ? ALL : 4;
  static_assert(COUNT % NEXT == 0 && ALL % EACH == 0, "");
#pragma unroll 1
  for (s32 r = thread_x() / WIDTH; r < COUNT; r += NEXT * EACH) {
    u32 residual[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      residual[i] = 0;
      if (ADDS && band.row(r + i * NEXT) < p.m) residual[i] = residual4(e, a, band.row(r + i * NEXT));
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const s32 row = band.row(r + i * NEXT);
      const s32x4 v = *(const s32x4 *)band.at(r + i * NEXT, thread_x() % WIDTH * 4);
      if (row >= p.m) continue;
      if constexpr (FORM == WORDS) {
        words4(e, a, row, v);
      } else {
        codes4<FORM, ADDS>(e, a, row, v, residual[i]);
      }
    }
  }
}

// Finisher makes the outputs of a tile: four channels a thread, or one.
template <typename S>
struct Finisher {
  Epilogue e;
  Channels<4> four;
  Channels<1> one;
  s32 live; // channels that the thread has

  INLINE __attribute__((device)) Finisher(const Tiled &p, const Part &part, s32 slice, s32 first);

  template <int COUNT, int PER, int STEP>
  INLINE __attribute__((device)) void run(const Tiled &p, Band<S, COUNT, PER, STEP> band) {
    if (live <= 0) return;
    if (!e.vector) {
      by_one(p, e, one, band);
    } else if (e.type > ELEMENT_U8) {
      by_four<S, COUNT, PER, STEP, WORDS, false>(p, e, four, band);
    } else if (e.residual) {
      by_four<S, COUNT, PER, STEP, FLOAT_AFTER, true>(p, e, four, band);
    } else if (e.requantize.scaling.form == DOUBLE_UP_AWAY) {
      by_four<S, COUNT, PER, STEP, DOUBLE_UP_AWAY, false>(p, e, four, band);
    } else if (e.requantize.scaling.form == SINGLE_UP) {
      by_four<S, COUNT, PER, STEP, SINGLE_UP, false>(p, e, four, band);
    } else {
      by_four<S, COUNT, PER, STEP, FLOAT_AFTER, false>(p, e, four, band);
    }
  }
};

#ifndef ALIGNMENT
#define ALIGNMENT 128
#endif
extern SHARED __attribute__((aligned(ALIGNMENT))) u8 shared_memory[];

template <typename S>
INLINE __attribute__((device)) Finisher<S>::Finisher(const Tiled &p, const Part &part, s32 slice, s32 first) {
  e = own(p.epilogue, part, slice * p.slice);
  const s32 c = first + (e.vector ? thread_x() % (S::N / 4) * 4 : thread_x() % S::N);
  live = e.channels - c;
  if (live <= 0) return;
  if (e.vector) {
    four = channels_of<4>(e, part, c);
  } else {
    one = channels_of<1>(e, part, c);
  }
}

#if __CUDA_ARCH__ >= 800

template <typename S, bool SIGNED, int SOURCE>
DEVICE void product(const Tiled &p) {
  constexpr int STAGE = (S::M + S::N) * 64;
  const Part part = p.parts[block_z()];
  const Tile tile = tile_at(p, block_x());
  const s32 begin = block_y() * p.each, steps = min32(p.blocks - begin, p.each);
  const u32 lane = thread_x() & 31, warp = thread_x() >> 5, warp_m = warp / S::AT_N, warp_n = warp % S::AT_N;
  const u32 ring = shared_address(shared_memory);

  const Rows<S, SOURCE> rows(p, part, tile.m * S::M);
  const u8 *w = p.w + part.w + ((s64)begin * p.padded_n + tile.n * S::N) * 64 + thread_x() * 16;
  const u32 to = placed(thread_x() >> 2, thread_x() & 3); // rows of a thread are a multiple of 8 apart: the same piece
  Pieces<S, SOURCE> pieces;

  // copy starts the copies of a step.
  auto copy = [&](s32 step, u32 slot) {
    const u32 a = ring + slot * STAGE + to, b = a + S::M * 64;
#pragma unroll
    for (int i = 0; i < S::A; i++) {
      if (SOURCE == NARROW) {
#pragma unroll
        for (int j = 0; j < 4; j++) copy4(a + i * (S::THREADS * 16) + 4 * j, pieces.from(p, rows.at[i], j));
      } else if (SOURCE == WINDOW) {
        copy16_kept(a + i * (S::THREADS * 16), pieces.from(p, rows.at[i], 0));
      } else {
        copy16(a + i * (S::THREADS * 16), pieces.from(p, rows.at[i], 0));
      }
    }
    const u8 *from = w + (s64)step * p.padded_n * 64;
#pragma unroll
    for (int i = 0; i < S::B; i++) copy16(b + i * (S::THREADS * 16), from + i * (S::THREADS * 16));
  };

#pragma unroll
  for (int s = 0; s < S::RING - 1; s++) {
    if (s < steps) {
      pieces.read(p, begin + s);
      copy(s, s);
    }
    copies_end();
  }
  if (S::RING - 1 < steps) pieces.read(p, begin + S::RING - 1);

  s32 c[S::WM / 16][S::WN / 8][4];
#pragma unroll
  for (int i = 0; i < S::WM / 16; i++)
#pragma unroll
    for (int j = 0; j < S::WN / 8; j++) c[i][j][0] = c[i][j][1] = c[i][j][2] = c[i][j][3] = 0;

  // Addresses in a stage of what the lane gives to ldmatrix, for the two halves of a step.
  const u32 row_a = warp_m * S::WM + (lane & 15), row_b = warp_n * S::WN + (lane & 7) + (lane >> 4 << 3);
  const u32 from_a[2] = {ring + placed(row_a, lane >> 4), ring + placed(row_a, 2 + (lane >> 4))};
  const u32 from_b[2] = {ring + S::M * 64 + placed(row_b, lane >> 3 & 1), ring + S::M * 64 + placed(row_b, 2 + (lane >> 3 & 1))};
  u32 a[2][S::WM / 16][4], b[2][S::WN / 16][4];
  auto fragments = [&](int half, u32 slot) {
#pragma unroll
    for (int i = 0; i < S::WM / 16; i++) load_matrices(a[half][i], from_a[half] + slot * STAGE + i * 1024);
#pragma unroll
    for (int j = 0; j < S::WN / 16; j++) load_matrices(b[half][j], from_b[half] + slot * STAGE + j * 1024);
  };
  auto products = [&](int half) {
#pragma unroll
    for (int i = 0; i < S::WM / 16; i++)
#pragma unroll
      for (int j = 0; j < S::WN / 8; j++)
        multiply<SIGNED>(c[i][j], a[half][i], b[half][j / 2][j % 2 * 2], b[half][j / 2][j % 2 * 2 + 1]);
  };

  copies_wait<S::RING - 2>();
  barrier();
  if (steps > 0) fragments(0, 0);
  u32 slot = 0, free = S::RING - 1;
#pragma unroll 1
  for (s32 step = 0; step < steps; step++) {
    fragments(1, slot);
    if (step + S::RING - 1 < steps) {
      copy(step + S::RING - 1, free);
      if (step + S::RING < steps) pieces.read(p, begin + step + S::RING);
    }
    copies_end();
    products(0);
    free = slot;
    slot = slot + 1 == S::RING ? 0 : slot + 1;
    copies_wait<S::RING - 2>();
    barrier();
    if (step + 1 < steps) fragments(0, slot);
    products(1);
  }

  // The ring is read; the sums go through its memory, half of them at a time, so that rows are written as such. A row has eight sums
  // more than it needs: four rows of 8 bytes each then lie in different banks. The other half moves up, so that the registers of
  // what is written are free for making outputs.
  barrier();
  constexpr int PASSES = S::WM / 16 < 2 ? 1 : 2, EACH = S::WM / 16 / PASSES;
  s32 *sums = (s32 *)shared_memory;
#pragma unroll 1
  for (s32 pass = 0; pass < PASSES; pass++) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      s32 *at = sums + ((warp_m * EACH + i) * 16 + lane / 4) * (S::N + 8) + warp_n * S::WN + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < S::WN / 8; j++) {
        *(u64 *)(at + j * 8) = (u64)(u32)c[i][j][1] << 32 | (u32)c[i][j][0];
        *(u64 *)(at + j * 8 + 8 * (S::N + 8)) = (u64)(u32)c[i][j][3] << 32 | (u32)c[i][j][2];
        if (PASSES > 1) {
#pragma unroll
          for (int k = 0; k < 4; k++) c[i][j][k] = c[(i + EACH) % (S::WM / 16)][j][k];
        }
      }
    }
    barrier();
    Finisher<S> finisher(p, part, block_y(), tile.n * S::N);
    finisher.run(p, Band<S, S::AT_M * EACH * 16, EACH * 16, S::WM>{sums, tile.m * S::M + pass * EACH * 16});
    barrier();
  }
}

#else

template <typename S, bool SIGNED, int SOURCE>
DEVICE void product(const Tiled &p) {
  // Thread (x, y) has the sums of rows 4*y + i%4 + i/4*4*Y and of columns CW*x + j%CW + j/CW*CW*16.
  constexpr int Y = S::THREADS / 16, TM = S::M / Y, TN = S::N / 16, CW = TN < 4 ? TN : 4;
  constexpr int LA = S::M + 4, LB = S::N + 4; // numbers between groups of k
  const Part part = p.parts[block_z()];
  const Tile tile = tile_at(p, block_x());
  const s32 begin = block_y() * p.each, steps = min32(p.blocks - begin, p.each);
  const s32 x = thread_x() % 16, y = thread_x() / 16;
  u32 *at_a = (u32 *)shared_memory, *at_b = at_a + 16 * LA;

  const Rows<S, SOURCE> rows(p, part, tile.m * S::M);
  const u8 *w = p.w + part.w + ((s64)begin * p.padded_n + tile.n * S::N) * 64 + thread_x() * 16;
  s32 c[TM][TN];
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) c[i][j] = 0;

  const s32 row = thread_x() >> 2, piece = thread_x() & 3;
#pragma unroll 1
  for (s32 step = 0; step < steps; step++) {
    Pieces<S, SOURCE> pieces;
    pieces.read(p, begin + step);
#pragma unroll
    for (int i = 0; i < S::A; i++) {
      u32x4 v;
      if (SOURCE == NARROW) {
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = *(const u32 *)pieces.from(p, rows.at[i], j);
      } else {
        v = *(const u32x4 *)pieces.from(p, rows.at[i], 0);
      }
#pragma unroll
      for (int j = 0; j < 4; j++) at_a[(piece * 4 + j) * LA + row + i * (S::THREADS / 4)] = v[j];
    }
#pragma unroll
    for (int i = 0; i < S::B; i++) {
      const u32x4 v = *(const u32x4 *)(w + (s64)step * p.padded_n * 64 + i * (S::THREADS * 16));
#pragma unroll
      for (int j = 0; j < 4; j++) at_b[(piece * 4 + j) * LB + row + i * (S::THREADS / 4)] = v[j];
    }
    barrier();
#pragma unroll 2
    for (s32 g = 0; g < 16; g++) {
      u32 a[TM], b[TN];
#pragma unroll
      for (int i = 0; i < TM; i += 4) *(u32x4 *)&a[i] = *(const u32x4 *)&at_a[g * LA + 4 * y + i * Y];
#pragma unroll
      for (int j = 0; j < TN; j++) b[j] = at_b[g * LB + CW * x + j % CW + j / CW * CW * 16];
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) c[i][j] = dot4<SIGNED>(a[i], b[j], c[i][j]);
    }
    barrier();
  }

  s32 *sums = (s32 *)shared_memory;
#pragma unroll 1
  for (s32 pass = 0; pass < TM / 4; pass++) {
#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
      for (int j = 0; j < TN; j++) {
        if (i < 4) sums[(4 * y + i) * (S::N + 8) + CW * x + j % CW + j / CW * CW * 16] = c[i][j];
        c[i][j] = c[(i + 4) % TM][j]; // the next ones move up
      }
    }
    barrier();
    Finisher<S> finisher(p, part, block_y(), tile.n * S::N);
    finisher.run(p, Band<S, 4 * Y, 4 * Y, 4 * Y>{sums, tile.m * S::M + pass * 4 * Y});
    barrier();
  }
}

#endif

#define PRODUCT(NAME, SIGNED, SOURCE, BLOCKS) \
  KERNEL BOUNDS(TILE::THREADS, BLOCKS) NAME(Tiled p) { product<TILE, SIGNED, SOURCE>(p); }

// PRODUCTS makes the entry points of a tile, NARROW_PRODUCTS those for pieces of 4 bytes.
#define PRODUCTS(BLOCKS)                    \
  PRODUCT(plain_u8, false, PLAIN, BLOCKS)   \
  PRODUCT(plain_s8, true, PLAIN, BLOCKS)    \
  PRODUCT(window_u8, false, WINDOW, BLOCKS) \
  PRODUCT(window_s8, true, WINDOW, BLOCKS)
#define NARROW_PRODUCTS(BLOCKS)             \
  PRODUCT(narrow_u8, false, NARROW, BLOCKS) \
  PRODUCT(narrow_s8, true, NARROW, BLOCKS)

#endif
