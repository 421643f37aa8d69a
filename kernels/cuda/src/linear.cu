// What stands before and behind products: matrices brought into the form that products read, sums of rows, and outputs of sums.
#include "epilogue.cuh"
#include "mma.cuh"
#include "window.cuh"

// Gather is a copy of matrices of bytes to rows of their own.
struct Gather {
  const u8 *x;
  u8 *out;       // [matrices][rows][width]
  s64 matrix;    // bytes of x between matrices
  s64 by_row, by_col;
  s32 rows, cols; // of x
  s32 width;     // of out, a multiple of 4; 0 behind cols
  s32 unused;
};

// gather copies four bytes a thread.
KERNEL BOUNDS(256, 4) gather(Gather p) {
  const s64 at = ((s64)block_x() * 256 + thread_x()) * 4;
  const s64 row = at / p.width;
  if (row >= p.rows) return;
  const s32 col = at - row * p.width;
  const u8 *x = p.x + block_z() * p.matrix + row * p.by_row;
  u32 v = 0;
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (col + i < p.cols) v |= (u32)x[(col + i) * p.by_col] << 8 * i;
  *(u32 *)(p.out + block_z() * ((s64)p.rows * p.width) + at) = v;
}

// Packing brings right factors that are tensors into the form that products read, [blocks of 64 of k][padded][64] as s8, and finds
// what their sums add to the products.
struct Packing {
  const u8 *x;
  u8 *out;
  s32 *correction;    // [matrices][padded]: bias - zero * sum + k * zero * own_zero
  const s32 *bias;    // by column, or null
  s64 matrix, packed; // bytes between matrices of x and of out
  s64 by_row, by_col;
  s32 k, n, padded;   // padded is a multiple of 64
  s32 flip;           // 0x80 in every byte for u8, which are moved by 128
  s32 zero, own_zero; // of the left factor and, moved, of this one
  s32 blocks;         // of k
  s32 unused;
};

// pack has a block for 64 columns of a matrix, which goes down all of k.
KERNEL BOUNDS(256, 4) pack(Packing p) {
  static SHARED __attribute__((aligned(16))) u8 tile[64 * 80]; // [column][k]; 80 spreads 16-byte pieces over the banks
  const u8 *x = p.x + block_z() * p.matrix;
  u8 *out = p.out + block_z() * p.packed;
  const s32 first = block_x() * 64, tid = thread_x();
  const bool along = p.by_col == 1; // neighbouring threads read neighbouring bytes
  s32 sum = 0;
  for (s32 block = 0; block < p.blocks; block++) {
#pragma unroll 4
    for (s32 i = 0; i < 16; i++) {
      const s32 at = tid + i * 256, k = along ? at >> 6 : at & 63, n = along ? at & 63 : at >> 6;
      u8 v = 0;
      if (block * 64 + k < p.k && first + n < p.n) v = x[(block * 64 + k) * p.by_row + (first + n) * p.by_col] ^ (u8)p.flip;
      tile[n * 80 + k] = v;
    }
    barrier();
    const s32 n = tid >> 2, q = tid & 3;
    const u32x4 v = *(const u32x4 *)&tile[n * 80 + q * 16];
    *(u32x4 *)&out[((s64)block * p.padded + first + n) * 64 + q * 16] = v;
#pragma unroll
    for (int i = 0; i < 4; i++) sum = dot4<true>(v[i], 0x01010101, sum);
    barrier();
  }
  s32 *sums = (s32 *)tile;
  sums[tid] = sum;
  barrier();
  if (tid >= 64) return;
  sum = sums[tid * 4] + sums[tid * 4 + 1] + sums[tid * 4 + 2] + sums[tid * 4 + 3];
  const s32 n = first + tid;
  s32 v = sub32(mul32(mul32(p.k, p.zero), p.own_zero), mul32(p.zero, sum));
  if (p.bias && n < p.n) v = add32(v, p.bias[n]);
  p.correction[block_z() * p.padded + n] = v;
}

// Widening brings right factors that are tensors into the form of kernel direct: [matrices][k][n] as s32, less their zero point.
struct Widening {
  const void *x;
  s32 *out;
  s64 matrix; // elements between matrices
  s64 by_row, by_col;
  s32 k, n;
  s32 type, zero;
};

KERNEL BOUNDS(256, 4) widen(Widening p) {
  const s64 at = (s64)block_x() * 256 + thread_x();
  if (at >= (s64)p.k * p.n) return;
  const s64 k = at / p.n, n = at - k * p.n;
  p.out[block_z() * ((s64)p.k * p.n) + at] = read_code(p.x, p.type, block_z() * p.matrix + k * p.by_row + n * p.by_col) - p.zero;
}

// RowSums are sums of codes over windows, for weights with zero points. Padding counts as code zero.
struct RowSums {
  const u8 *x;
  s32 *out;    // [parts][rows]
  s64 part;    // bytes of x between parts
  s64 by_col;  // bytes between channels
  s32 rows, channels;
  s32 is_signed, zero;
  Windows window;
  Taps taps;
};

// row_sums has a warp for a row.
KERNEL BOUNDS(256, 4) row_sums(RowSums p) {
  const s32 row = block_x() * 8 + (thread_x() >> 5);
  if (row >= p.rows) return;
  const u8 *x = p.x + block_z() * p.part;
  const Position o = position(p.window, row);
  s32 sum = 0;
  for (s32 z = 0; z < p.taps.d; z++) {
    for (s32 y = 0; y < p.taps.h; y++) {
      for (s32 k = 0; k < p.taps.w; k++) {
        const s32 dz = z * p.taps.dilation_d, dy = y * p.taps.dilation_h, dx = k * p.taps.dilation_w;
        const bool there = inside(p.window, o.z + dz, o.y + dy, o.x + dx);
        const u8 *from = x + o.offset + (((s64)dz * p.window.in_h + dy) * p.window.in_w + dx) * p.window.pitch;
        for (s32 c = thread_x() & 31; c < p.channels; c += 32) {
          s32 v = p.zero;
          if (there) v = p.is_signed ? (s32)(s8)from[c * p.by_col] : (s32)from[c * p.by_col];
          sum = add32(sum, v);
        }
      }
    }
  }
#pragma unroll
  for (s32 i = 16; i > 0; i >>= 1) sum = add32(sum, exchange(sum, i));
  if ((thread_x() & 31) == 0) p.out[block_z() * (s64)p.rows + row] = sum;
}

// Finish makes outputs of sums in memory.
struct Finish {
  const void *sums; // [slices][rows of all parts][stride] of s32 or s64
  const Part *parts;
  s64 slice, stride; // elements between slices, and rows
  s32 slices, rows;  // of a part
  Divisor width;     // of a row: its channels, or a quarter of them where the epilogue takes four
  s32 unused;
  Epilogue epilogue;
};

DEVICE s32 plus(s32 a, s32 b) { return add32(a, b); }
DEVICE s32x4 plus(s32x4 a, s32x4 b) {
  s32x4 c;
#pragma unroll
  for (int i = 0; i < 4; i++) c[i] = add32(a[i], b[i]);
  return c;
}

// all_slices adds the sums of all slices, of which it reads eight at a time.
template <typename T>
DEVICE T all_slices(const Finish &p, const s32 *sums) {
  T v = *(const T *)sums;
#pragma unroll 1
  for (s32 first = 1; first < p.slices; first += 8) {
    T some[8];
#pragma unroll
    for (int i = 0; i < 8; i++) some[i] = first + i < p.slices ? *(const T *)(sums + (first + i) * p.slice) : T(0);
#pragma unroll
    for (int i = 0; i < 8; i++) v = plus(v, some[i]);
  }
  return v;
}

// finish_s32 has a thread for one or four channels of a row.
KERNEL BOUNDS(256, 4) finish_s32(Finish p) {
  const u32 at = block_x() * 256 + thread_x();
  const s32 row = quotient(at, p.width);
  if (row >= p.rows) return;
  const Part part = p.parts[block_z()];
  const Epilogue e = own(p.epilogue, part, 0);
  const s32 c = (at - row * p.width.by) * (e.vector ? 4 : 1);
  const s32 *sums = (const s32 *)p.sums + (part.row + row) * p.stride + part.channel + c;
  if (e.vector) {
    finish4(e, channels_of<4>(e, part, c), row, all_slices<s32x4>(p, sums));
  } else {
    finish(e, channels_of<1>(e, part, c), row, all_slices<s32>(p, sums));
  }
}

KERNEL BOUNDS(256, 4) finish_s64(Finish p) {
  const u32 at = block_x() * 256 + thread_x();
  const s32 row = quotient(at, p.width);
  if (row >= p.rows) return;
  const Part part = p.parts[block_z()];
  const Epilogue e = own(p.epilogue, part, 0);
  const s32 c = at - row * p.width.by;
  finish(e, channels_of<1>(e, part, c), row, ((const s64 *)p.sums)[(part.row + row) * p.stride + part.channel + c]);
}
