// Elements of 1, 2, 4 or 8 bytes to other places: transposes, parts of arrays, layouts, borders, nearest neighbours; and interpolation
// along one axis. float_move.go launches them.
#include "float.cuh"
#include "index.cuh"

// Move copies element i, in the sizes of the axes from the slowest to the fastest, from its steps in src to those in dst.
struct Move {
  const void *src;
  void *dst;
  u32 count;
  s32 size, axes;
  Divisor sizes[AXES];
  s32 from[AXES], to[AXES];
  u32 pad;
};

template <class T> DEVICE void move_element(const Move &p, u32 i) {
  s32 from = 0, to = 0;
  for (s32 a = p.axes - 1; a > 0; a--) {
    const u32 rest = split(i, p.sizes[a]);
    from += i * p.from[a];
    to += i * p.to[a];
    i = rest;
  }
  ((T *)p.dst)[to + (s32)i * p.to[0]] = ((const T *)p.src)[from + (s32)i * p.from[0]];
}

KERNEL BOUNDS(256, 4) move(Move p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.count; i += blocks_x() * threads_x()) {
    switch (p.size) {
    case 1: move_element<u8>(p, i); break;
    case 2: move_element<u16>(p, i); break;
    case 4: move_element<u32>(p, i); break;
    default: move_element<u64>(p, i);
    }
  }
}

// Turn exchanges rows and columns of each of many matrices of 4-byte elements: a change of layout. Tiles go through shared memory, so
// that both sides are read and written in runs.
struct Turn {
  const u32 *src; // [batch][rows][columns]
  u32 *dst;       // [batch][columns][rows]
  s32 rows, columns;
  s32 tiles_r, tiles_c;
};

KERNEL BOUNDS(256, 4) turn(Turn p) {
  SHARED static u32 tile[32][33];
  u32 at = block_x();
  const s32 c0 = at % p.tiles_c * 32;
  at /= p.tiles_c;
  const s32 r0 = at % p.tiles_r * 32;
  const s64 base = (s64)(at / p.tiles_r) * p.rows * p.columns;
  const s32 x = thread_x() % 32;
  for (s32 y = thread_x() / 32; y < 32; y += 8)
    if (r0 + y < p.rows && c0 + x < p.columns) tile[y][x] = p.src[base + (s64)(r0 + y) * p.columns + c0 + x];
  barrier();
  for (s32 y = thread_x() / 32; y < 32; y += 8)
    if (c0 + y < p.columns && r0 + x < p.rows) p.dst[base + (s64)(c0 + y) * p.rows + r0 + x] = tile[x][y];
}

// Pick makes result i, in the sizes of the axes, the element of src at the sum of table[axis][index] over the axes; where one of them is
// negative it is the value fill. The tables lie one after the other.
struct Pick {
  const void *src;
  void *dst;
  const s32 *table;
  u64 fill;
  u32 count;
  s32 size, axes;
  Divisor sizes[AXES];
  s32 start[AXES]; // of the table of an axis
  u32 pad;
};

template <class T> DEVICE void pick_element(const Pick &p, u32 i, T fill) {
  const u32 to = i;
  s32 from = 0;
  bool outside = false;
  for (s32 a = p.axes - 1; a >= 0; a--) {
    u32 rest = 0;
    if (a) rest = split(i, p.sizes[a]);
    const s32 at = p.table[p.start[a] + i];
    outside |= at < 0;
    from += at;
    i = rest;
  }
  ((T *)p.dst)[to] = outside ? fill : ((const T *)p.src)[from];
}

KERNEL BOUNDS(256, 4) pick(Pick p) {
  const u64 fill = p.fill;
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.count; i += blocks_x() * threads_x()) {
    switch (p.size) {
    case 1: pick_element<u8>(p, i, fill); break;
    case 2: pick_element<u16>(p, i, fill); break;
    case 4: pick_element<u32>(p, i, fill); break;
    default: pick_element<u64>(p, i, fill);
    }
  }
}

// Lookup is y[o, i, e] = x[o, index[i], e]: rows of inner elements, chosen along an axis of n by integers of 4 or 8 bytes. Negative ones
// count from the end. One outside of the axis reads row 0 and sets the word at fault.
struct Lookup {
  const void *src, *index;
  void *dst;
  u32 *fault;
  u32 count, inner, indices, n;
  s32 size, wide;
};

template <class T> DEVICE void lookup(const Lookup &p, u32 i) {
  const u32 row = i / p.inner, e = i % p.inner, o = row / p.indices, k = row % p.indices;
  s64 at = p.wide ? ((const s64 *)p.index)[k] : ((const s32 *)p.index)[k];
  if (at < 0) at += p.n;
  if (at < 0 || at >= p.n) {
    at = 0;
    *p.fault = 1;
  }
  ((T *)p.dst)[i] = ((const T *)p.src)[((s64)o * p.n + at) * p.inner + e];
}

KERNEL BOUNDS(256, 4) gather(Lookup p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.count; i += blocks_x() * threads_x()) {
    switch (p.size) {
    case 1: lookup<u8>(p, i); break;
    case 2: lookup<u16>(p, i); break;
    case 4: lookup<u32>(p, i); break;
    default: lookup<u64>(p, i);
    }
  }
}

// Blend resamples one axis: result k of size is the sum of taps elements of the n, each times its weight, product and sum rounded; ones
// whose index is negative are left out, and without any the result is blank.
struct Blend {
  const f32 *x;
  f32 *y;
  const s32 *index;  // [size][taps]
  const f32 *weight; // the same
  u32 count, inner, size, n;
  s32 taps;
  f32 blank;
};

KERNEL BOUNDS(256, 4) blend(Blend p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.count; i += blocks_x() * threads_x()) {
    const u32 row = i / p.inner, e = i % p.inner, k = row % p.size, o = row / p.size;
    f32 sum = 0.0f;
    bool any = false;
    for (s32 t = 0; t < p.taps; t++) {
      const s32 at = p.index[k * p.taps + t];
      if (at < 0) continue;
      any = true;
      sum = sum + p.x[((s64)o * p.n + at) * p.inner + e] * p.weight[k * p.taps + t];
    }
    p.y[i] = any ? sum : p.blank;
  }
}
