// Products by wgmma, the instruction that Hopper has for products of matrices, by one to three warpgroups, 128 bytes of k a step.
//
// Tiles. 256 x 128 is for few columns, each warpgroup has two products of 64 x 128; 128 x 256 and 192 x 256 are for more, with one of
// 64 x 256. Of the 128 bytes that shared memory gives in a cycle a product of 64 x N x 32, which takes N/2 cycles, reads 64*32 + N*32:
// 96 in a cycle where N is 128 and 80 where it is 256. The copies from the L2 cache write 48 more in the tiles of two warpgroups and
// 37 in that of three, whose 168 registers of a thread are just enough. Of 128 x 128, of one warpgroup, a multiprocessor has two
// blocks: for short sums, when outputs take as long as products, those of one hide behind the other's.
//
// Memory. A row of a step has 128 bytes, eight pieces of 16; piece q of row r stands at piece q ^ r%8, so that a column of eight rows
// lies in all 32 banks. That is the order that the descriptors below name as swizzled by 128 bytes.
//
// Time. Copies run two steps ahead. The products of a step are started and not waited for before those of the next are: what a
// thread waits for in a step are the products of the step before, and the barrier of the next step tells all threads so; only then
// copies take the place of that step's bytes. Where the ring has only three stages, that place is needed at once, and there is a
// barrier more. Copies are made by ordinary threads, and the products read memory by the other proxy: each thread fences its own,
// finished copies before the barrier.
#pragma once
#define ALIGNMENT 1024
#include "product.cuh"

// Wide is the shape of a tile. Each warpgroup has ROWS rows, PRODUCTS times 64.
template <int BM, int BN, int GROUPS, int STAGES>
struct Wide {
  static constexpr int M = BM, N = BN, THREADS = GROUPS * 128, RING = STAGES, PIECES = 8;
  static constexpr int APART = THREADS / PIECES;                       // rows of a step that a thread copies
  static constexpr int A = BM / APART, B = (BN + APART - 1) / APART; // how many, at most
  static constexpr int AHEAD = 2; // steps that copies run ahead
  static constexpr int ROWS = BM / GROUPS, PRODUCTS = ROWS / 64;
  static_assert(RING >= AHEAD + 1 && RING * (BM + BN) * 128 <= 227 << 10 && BM * (BN + 8) * 4 <= RING * (BM + BN) * 128, "");
};

// descriptor names a matrix in shared memory whose rows are 128 bytes of k, swizzled by 128 bytes:
//
//	bits 0-13   where it begins, without the four lowest bits
//	bits 16-29  the distance along k of parts that swizzled rows do not have; the manual says 1
//	bits 32-45  the distance of groups of eight rows, 8*128 bytes, without the four lowest bits
//	bits 49-51  0: the pattern of eight rows begins at a multiple of its 1024 bytes
//	bits 62-63  1: swizzled by 128 bytes
//
// A product takes 32 bytes of each row. The next 32 begin 32 bytes further, which is 2 in the descriptor: swizzling works on addresses,
// whose bits 4-6 it changes by bits 7-9, and the latter stay what they are within a row.
DEVICE u64 descriptor(u32 shared) { return (u64)(shared >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62; }

#define R4(i) "+r"(c[i]), "+r"(c[i + 1]), "+r"(c[i + 2]), "+r"(c[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)
#define WGMMA_128(X)                                                                                                               \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.s32." X ".s8 {"                                                            \
               "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"            \
               "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,"          \
               "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1;"                                                            \
               : R64(0)                                                                                                            \
               : "l"(a), "l"(b))
#define WGMMA_256(X)                                                                                                               \
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k32.s32." X ".s8 {"                                                            \
               "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"            \
               "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,"          \
               "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"          \
               "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,"              \
               "%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,"              \
               "%124,%125,%126,%127}, %128, %129, 1;"                                                                              \
               : R64(0), R64(64)                                                                                                   \
               : "l"(a), "l"(b))

// multiply64 adds 64 x 32 by 32 x 128 or 32 x 256 bytes to the sums of a warpgroup: c[4*j] and following are, in lane l of warp w,
// columns 8*j + 2*(l%4) and the next of row 16*w + l/4, then those of the row 8 further.
template <bool SIGNED>
DEVICE void multiply64(s32 (&c)[64], u64 a, u64 b) {
  if (SIGNED) {
    WGMMA_128("s8");
  } else {
    WGMMA_128("u8");
  }
}
template <bool SIGNED>
DEVICE void multiply64(s32 (&c)[128], u64 a, u64 b) {
  if (SIGNED) {
    WGMMA_256("s8");
  } else {
    WGMMA_256("u8");
  }
}

DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void products_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT>
DEVICE void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }
DEVICE void copies_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

template <typename S, bool SIGNED, int SOURCE>
DEVICE void wide(const Tiled &p) {
  constexpr int STAGE = (S::M + S::N) * 128;
  const Part part = p.parts[block_z()];
  const Tile tile = tile_at(p, block_x());
  const s32 begin = block_y() * (p.each / 2), steps = min32(p.blocks / 2 - begin, p.each / 2);
  const u32 group = thread_x() >> 7, warp = thread_x() >> 5 & 3, lane = thread_x() & 31;
  const u32 ring = shared_address(shared_memory);

  const Rows<S, SOURCE> rows(p, part, tile.m * S::M);
  // Piece q of a step is piece q%4 of its block q/4 of 64.
  const u32 q = thread_x() & 7, row = thread_x() >> 3;
  const u8 *w = p.w + part.w + ((s64)(begin * 2 + (q >> 2)) * p.padded_n + tile.n * S::N + row) * 64 + (q & 3) * 16;
  const u32 to = row * 128 + ((q ^ (row & 7)) << 4); // rows of a thread are a multiple of 8 apart: the same piece
  auto copy = [&](s32 step, u32 slot) {
    Pieces<S, SOURCE> pieces; // read when they are needed: there is time while products are under way, and few registers
    pieces.read(p, begin + step);
    const u32 a = ring + slot * STAGE + to, b = a + S::M * 128;
#pragma unroll
    for (int i = 0; i < S::A; i++) {
      if (SOURCE == WINDOW) {
        copy16_kept(a + i * (S::APART * 128), pieces.from(p, rows.at[i], 0));
      } else {
        copy16(a + i * (S::APART * 128), pieces.from(p, rows.at[i], 0));
      }
    }
    const u8 *from = w + (s64)step * p.padded_n * 128;
#pragma unroll
    for (int i = 0; i < S::B; i++) {
      if ((i + 1) * S::APART <= S::N || row < S::N % S::APART) copy16(b + i * (S::APART * 128), from + i * (S::APART * 64));
    }
  };

#pragma unroll
  for (int s = 0; s < S::AHEAD; s++) {
    if (s < steps) copy(s, s);
    copies_end();
  }

  s32 c[S::PRODUCTS][S::N / 2];
#pragma unroll
  for (int i = 0; i < S::PRODUCTS; i++)
#pragma unroll
    for (int j = 0; j < S::N / 2; j++) c[i][j] = 0;
  const u64 from_a = descriptor(ring + group * S::ROWS * 128), from_b = descriptor(ring + S::M * 128);
  u32 slot = 0;
#pragma unroll 1
  for (s32 step = 0; step < steps; step++) {
    copies_wait<S::AHEAD - 1>();
    copies_fence();
    barrier();
    products_begin();
    const u64 at = slot * (STAGE >> 4);
#pragma unroll
    for (int k = 0; k < 4; k++) {
#pragma unroll
      for (int i = 0; i < S::PRODUCTS; i++) multiply64<SIGNED>(c[i], from_a + at + i * (64 * 128 >> 4) + k * 2, from_b + at + k * 2);
    }
    products_end();
    if (S::RING == S::AHEAD + 1) {
      products_wait<1>();
      barrier();
    }
    if (step + S::AHEAD < steps) copy(step + S::AHEAD, slot + S::AHEAD < S::RING ? slot + S::AHEAD : slot + S::AHEAD - S::RING);
    copies_end();
    slot = slot + 1 == S::RING ? 0 : slot + 1;
    if (S::RING > S::AHEAD + 1) products_wait<1>();
  }
  products_wait<0>();
  barrier();

  // All sums go through the memory of the ring at once, so that no thread holds any while it makes outputs.
  s32 *sums = (s32 *)shared_memory;
#pragma unroll
  for (int i = 0; i < S::PRODUCTS; i++) {
    s32 *at = sums + (group * S::ROWS + i * 64 + warp * 16 + lane / 4) * (S::N + 8) + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < S::N / 8; j++) {
      *(u64 *)(at + j * 8) = (u64)(u32)c[i][4 * j + 1] << 32 | (u32)c[i][4 * j];
      *(u64 *)(at + j * 8 + 8 * (S::N + 8)) = (u64)(u32)c[i][4 * j + 3] << 32 | (u32)c[i][4 * j + 2];
    }
  }
  barrier();
  Finisher<S> finisher(p, p.parts[block_z()], block_y(), tile.n * S::N); // read again, so that it is in no register meanwhile
  if (S::THREADS % S::N != 0 && !finisher.e.vector && thread_x() >= S::THREADS / S::N * S::N) return; // those left are less than a row
  finisher.run(p, Band<S, S::M, S::M, S::M>{sums, tile.m * S::M});
}

// PLAIN_PRODUCTS and WINDOW_PRODUCTS make the entry points of a tile.
#define PLAIN_PRODUCTS(BLOCKS)                                                              \
  KERNEL BOUNDS(TILE::THREADS, BLOCKS) plain_u8(Tiled p) { wide<TILE, false, PLAIN>(p); }   \
  KERNEL BOUNDS(TILE::THREADS, BLOCKS) plain_s8(Tiled p) { wide<TILE, true, PLAIN>(p); }
#define WINDOW_PRODUCTS(BLOCKS)                                                             \
  KERNEL BOUNDS(TILE::THREADS, BLOCKS) window_u8(Tiled p) { wide<TILE, false, WINDOW>(p); } \
  KERNEL BOUNDS(TILE::THREADS, BLOCKS) window_s8(Tiled p) { wide<TILE, true, WINDOW>(p); }
