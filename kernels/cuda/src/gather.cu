// Elements to other places: by a list of places, and into another layout. gather.go launches them.
#include "codes.cuh"
#include "index.cuh"

// Gather fills dst with runs of size units that begin in src where the list says, or with fill where it says -1.
struct Gather {
  const void *src;
  void *dst;
  const s32 *starts; // in units
  u32 count;         // of units
  s32 unused;
  Divisor size;
  u32 fill[4]; // the pattern, repeated
  s32 unused2;
};

template <typename T>
DEVICE void gather_units(const Gather &p, T fill) {
  for (u32 i = first_piece(); i < p.count; i += all_pieces()) {
    u32 within = i;
    const s32 start = p.starts[split(within, p.size)];
    ((T *)p.dst)[i] = start < 0 ? fill : ((const T *)p.src)[(s64)start + within];
  }
}
KERNEL BOUNDS(256, 4) gather_1(Gather p) { gather_units<u8>(p, (u8)p.fill[0]); }
KERNEL BOUNDS(256, 4) gather_2(Gather p) { gather_units<u16>(p, (u16)p.fill[0]); }
KERNEL BOUNDS(256, 4) gather_4(Gather p) { gather_units<u32>(p, p.fill[0]); }
KERNEL BOUNDS(256, 4) gather_8(Gather p) { gather_units<u32x2>(p, (u32x2){p.fill[0], p.fill[1]}); }
KERNEL BOUNDS(256, 4) gather_16(Gather p) { gather_units<u32x4>(p, (u32x4){p.fill[0], p.fill[1], p.fill[2], p.fill[3]}); }

// Stride fills dst, axes from the fastest on, with what lies in src in steps along them.
struct Stride {
  const void *src;
  void *dst;
  u32 count; // of units
  s32 axes;
  Divisor size[AXES];
  s32 step[AXES];
};

template <typename T>
DEVICE void stride_units(const Stride &p) {
  for (u32 i = first_piece(); i < p.count; i += all_pieces()) {
    u32 rest = i;
    s32 at = 0;
    for (s32 a = 0; a < p.axes; a++) {
      u32 k = rest;
      rest = split(k, p.size[a]);
      at += (s32)k * p.step[a];
    }
    ((T *)p.dst)[i] = ((const T *)p.src)[at];
  }
}
KERNEL BOUNDS(256, 4) stride_1(Stride p) { stride_units<u8>(p); }
KERNEL BOUNDS(256, 4) stride_2(Stride p) { stride_units<u16>(p); }
KERNEL BOUNDS(256, 4) stride_4(Stride p) { stride_units<u32>(p); }
KERNEL BOUNDS(256, 4) stride_8(Stride p) { stride_units<u32x2>(p); }
KERNEL BOUNDS(256, 4) stride_16(Stride p) { stride_units<u32x4>(p); }

// Turn exchanges rows and columns of each of many matrices: a change of layout. A block turns a tile. In src a row begins every pitch,
// matrix b at b / inner * outer_step + b % inner * inner_step; dst is [batch][columns][rows].
struct Turn {
  const void *src;
  void *dst;
  s64 pitch, outer_step, inner_step;
  u32 rows, columns;
  Divisor tiles_r, tiles_c, inner;
  u32 unused;
};

// Tile is what a block works on.
struct Tile {
  u32 r, c;
  s64 src, dst; // of the matrix
};
DEVICE Tile tile_of(const Turn &p, u32 size) {
  u32 c = block_x();
  u32 r = split(c, p.tiles_c);
  u32 b = split(r, p.tiles_r);
  Tile t = {r * size, c * size, 0, (s64)b * p.rows * p.columns};
  const u32 outer = split(b, p.inner);
  t.src = outer * p.outer_step + b * p.inner_step;
  return t;
}

template <typename T>
DEVICE void turn(const Turn &p) {
  SHARED static T tile[32][33];
  const Tile at = tile_of(p, 32);
  const u32 x = thread_x() % 32;
  for (u32 y = thread_x() / 32; y < 32; y += 8)
    if (at.r + y < p.rows && at.c + x < p.columns) tile[y][x] = ((const T *)p.src)[at.src + (at.r + y) * p.pitch + at.c + x];
  barrier();
  for (u32 y = thread_x() / 32; y < 32; y += 8)
    if (at.c + y < p.columns && at.r + x < p.rows) ((T *)p.dst)[at.dst + (s64)(at.c + y) * p.rows + at.r + x] = tile[x][y];
}
KERNEL BOUNDS(256, 4) turn_1(Turn p) { turn<u8>(p); }
KERNEL BOUNDS(256, 4) turn_2(Turn p) { turn<u16>(p); }
KERNEL BOUNDS(256, 4) turn_4(Turn p) { turn<u32>(p); }
KERNEL BOUNDS(256, 4) turn_8(Turn p) { turn<u64>(p); }

// turn_1x4 is turn_1 for rows and columns that are multiples of 4, aligned in src too: tiles of 64 x 64, read and written by words. A thread turns
// 4 x 4 elements in registers.
KERNEL BOUNDS(256, 4) turn_1x4(Turn p) {
  SHARED static u32 tile[64][17]; // [column][rows / 4]
  const Tile at = tile_of(p, 64);
  const u32 x = thread_x() % 16, y = thread_x() / 16;
  if (at.c + 4 * x < p.columns && at.r + 4 * y < p.rows) {
    u32 w[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) w[k] = *(const u32 *)((const u8 *)p.src + at.src + (at.r + 4 * y + k) * p.pitch + at.c + 4 * x);
#pragma unroll
    for (u32 k = 0; k < 4; k++)
      tile[4 * x + k][y] = (w[0] >> 8 * k & 0xff) | (w[1] >> 8 * k & 0xff) << 8 | (w[2] >> 8 * k & 0xff) << 16 | (w[3] >> 8 * k & 0xff) << 24;
  }
  barrier();
#pragma unroll
  for (u32 k = 0; k < 4; k++) {
    const u32 c = y + 16 * k;
    if (at.c + c < p.columns && at.r + 4 * x < p.rows)
      *(u32 *)((u8 *)p.dst + at.dst + (s64)(at.c + c) * p.rows + at.r + 4 * x) = tile[c][x];
  }
}

// turn_2x2 is turn_2 for even rows and columns, aligned.
KERNEL BOUNDS(256, 4) turn_2x2(Turn p) {
  SHARED static u32 tile[64][33]; // [column][rows / 2]
  const Tile at = tile_of(p, 64);
  const u32 x = thread_x() % 32;
  for (u32 y = thread_x() / 32; y < 32; y += 8)
    if (at.c + 2 * x < p.columns && at.r + 2 * y < p.rows) {
      const u16 *from = (const u16 *)p.src + at.src + (at.r + 2 * y) * p.pitch + at.c + 2 * x;
      const u32 a = *(const u32 *)from, b = *(const u32 *)(from + p.pitch);
      tile[2 * x][y] = (a & 0xffff) | b << 16;
      tile[2 * x + 1][y] = a >> 16 | (b & 0xffff0000);
    }
  barrier();
  for (u32 c = thread_x() / 32; c < 64; c += 8)
    if (at.c + c < p.columns && at.r + 2 * x < p.rows)
      *(u32 *)((u16 *)p.dst + at.dst + (s64)(at.c + c) * p.rows + at.r + 2 * x) = tile[c][x];
}
