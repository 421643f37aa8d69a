// Rows of float32: softmax, normalizations, reductions, as kernels/ref/rows.go defines them; float_rows.go launches them. Sums of a row
// are 16 sums in float64, element i being added to sum i%16, that are folded by halves: 16 neighbouring threads compute a row, each of
// them one of the sums.
#include "float.cuh"
#include "index.cuh"

enum { LANES = 16, ROWS_THREADS = 128, ROWS_PER_BLOCK = ROWS_THREADS / LANES };

DEVICE u32 lane() { return thread_x() % LANES; }

// from_lane reads a number of another of the 16 threads.
DEVICE u32 from_lane(u32 v, u32 lane) {
  u32 y;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, %3, 0xffffffff;" : "=r"(y) : "r"(v), "r"(lane), "n"((32 - LANES) << 8 | 31));
  return y;
}
DEVICE f32 from_lane(f32 v, u32 lane) { return f32_of(from_lane(f32_bits(v), lane)); }
DEVICE f64 from_lane(f64 v, u32 lane) {
  const u64 bits = __builtin_bit_cast(u64, v);
  const u64 low = from_lane((u32)bits, lane), high = from_lane((u32)(bits >> 32), lane);
  return __builtin_bit_cast(f64, high << 32 | low);
}

// fold adds the upper half of the lanes to the lower until one is left, and returns that to all.
DEVICE f64 fold(f64 sum) {
#pragma unroll
  for (u32 n = LANES / 2; n > 0; n /= 2) {
    const f64 other = from_lane(sum, (lane() + n) % LANES);
    sum = sum + other; // right in the lower n lanes
  }
  return from_lane(sum, 0u);
}

// top is the largest element of a row as kernels.Table.Maxima finds it: that of each lane in whole groups of 16, those from the first
// lane on, then the rest in order.
DEVICE f32 top(const f32 *x, u32 n) {
  const u32 whole = n - n % LANES;
  f32 acc = -f32_infinity();
#pragma unroll 8
  for (u32 i = lane(); i < whole; i += LANES) acc = larger(acc, x[i]);
  f32 all = -f32_infinity();
  if (whole)
    for (u32 k = 0; k < LANES; k++) all = larger(all, from_lane(acc, k));
  for (u32 i = whole; i < n; i++) all = larger(all, x[i]);
  return all;
}

// each is y[i] = f(x[i], i) for the elements of this lane. Several are read before one is written: y may be x.
template <class F> DEVICE void each(f32 *y, const f32 *x, u32 n, F f) {
  enum { AHEAD = 4 };
  u32 i = lane();
  for (; i + (AHEAD - 1) * LANES < n; i += AHEAD * LANES) {
    f32 v[AHEAD];
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) v[k] = x[i + k * LANES];
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) y[i + k * LANES] = f(v[k], i + k * LANES);
  }
  for (; i < n; i += LANES) y[i] = f(x[i], i);
}

struct FloatRows {
  const f32 *x;
  f32 *y;
  u32 rows, n;
  u32 log, pad; // log: the logarithm of the softmax
};

// Rows beyond the last are computed as the last one, so that all threads take part in exchanges, and not written.
DEVICE u32 row_of(u32 rows, bool &valid) {
  const u32 row = block_x() * ROWS_PER_BLOCK + thread_x() / LANES;
  valid = row < rows;
  return valid ? row : rows - 1;
}

KERNEL BOUNDS(ROWS_THREADS, 8) softmax(FloatRows p) {
  bool valid;
  const s64 at = (s64)row_of(p.rows, valid) * p.n;
  const f32 *x = p.x + at;
  f32 *y = p.y + at;
  const f32 peak = top(x, p.n);
  f64 sum = 0;
#pragma unroll 4
  for (u32 i = lane(); i < p.n; i += LANES) sum = sum + (f64)f32_exp(x[i] - peak);
  sum = fold(sum);
  if (!valid) return;
  if (p.log) {
    const f64 shift = (f64)peak + f64_log(sum);
    each(y, x, p.n, [&](f32 v, u32) { return (f32)((f64)v - shift); });
    return;
  }
  const f32 all = (f32)sum;
  each(y, x, p.n, [&](f32 v, u32) { return f32_exp(v - peak) / all; });
}

// FloatNormalize is (x - mean) / sqrt(variance + eps) of each row, times scale plus bias, in float64 rounded once; without center the
// mean is 0. Element i of row r has entry (r % groups * (n / inner) + i / inner) / share of scale and bias, either of which may be null.
struct FloatNormalize {
  const f32 *x, *scale, *bias;
  f32 *y, *mean, *inv; // mean and inv take one number per row, or are null
  f64 eps;
  u32 rows, n, center, groups;
  u32 inner, share;
};

// Moments of a row: its mean, and 1 / sqrt(variance + eps).
struct Moments {
  f64 mean, inv;
};

DEVICE Moments moments_of(const FloatNormalize &p, const f32 *x) {
  f64 mean = 0, squares = 0;
  if (p.center) {
    f64 sum = 0;
#pragma unroll 8
    for (u32 i = lane(); i < p.n; i += LANES) sum = sum + (f64)x[i];
    mean = fold(sum) / (f64)p.n;
  }
#pragma unroll 8
  for (u32 i = lane(); i < p.n; i += LANES) {
    const f64 d = (f64)x[i] - mean;
    squares = squares + d * d;
  }
  return {mean, 1.0 / f64_sqrt(fold(squares) / (f64)p.n + p.eps)};
}

// normal is element i of a row whose entries of scale and bias begin at from.
DEVICE f32 normal(const FloatNormalize &p, const Moments &m, u32 from, f32 v, u32 i) {
  const u32 k = p.inner == 1 && p.share == 1 ? from + i : (from + i / p.inner) / p.share;
  f64 z = ((f64)v - m.mean) * m.inv;
  if (p.scale) z = z * (f64)p.scale[k];
  if (p.bias) z = z + (f64)p.bias[k];
  return (f32)z;
}

DEVICE void put_moments(const FloatNormalize &p, const Moments &m, u32 row) {
  if (p.mean) p.mean[row] = (f32)m.mean;
  if (p.inv) p.inv[row] = (f32)m.inv;
}

KERNEL BOUNDS(ROWS_THREADS, 8) normalize(FloatNormalize p) {
  bool valid;
  const u32 row = row_of(p.rows, valid);
  const f32 *x = p.x + (s64)row * p.n;
  const Moments m = moments_of(p, x);
  if (!valid) return;
  const u32 from = row % p.groups * (p.n / p.inner);
  each(p.y + (s64)row * p.n, x, p.n, [&](f32 v, u32 i) { return normal(p, m, from, v, i); });
  if (!lane()) put_moments(p, m, row);
}

enum { WIDE_THREADS = 512 };
extern __attribute__((shared)) f32 wide_row[]; // n elements

// normalize_wide is normalize with a block for each row, for few rows: all threads read and write, only the sums are those of 16 lanes.
KERNEL BOUNDS(WIDE_THREADS, 2) normalize_wide(FloatNormalize p) {
  SHARED static Moments shared;
  const u32 row = block_x();
  const f32 *x = p.x + (s64)row * p.n;
  f32 *y = p.y + (s64)row * p.n;
  for (u32 i = thread_x(); i < p.n; i += WIDE_THREADS) wide_row[i] = x[i];
  barrier();
  if (thread_x() < 2 * LANES) { // a warp, as exchanges want it; its halves compute the same
    const Moments m = moments_of(p, wide_row);
    if (thread_x() == 0) {
      shared = m;
      put_moments(p, m, row);
    }
  }
  barrier();
  const Moments m = shared;
  const u32 from = row % p.groups * (p.n / p.inner);
  for (u32 i = thread_x(); i < p.n; i += WIDE_THREADS) y[i] = normal(p, m, from, wide_row[i], i);
}

// Reductions, by the numbers that float_rows.go has for them.
enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_SQUARES, REDUCE_L1, REDUCE_L2, REDUCE_MAXIMA, REDUCE_MAX, REDUCE_MIN };

// FloatReduce reduces groups of elements: element i of group g is at the sum of its steps along the axes inside, and of those of g
// along the axes outside. Axes go from the slowest to the fastest.
struct FloatReduce {
  const f32 *x;
  f32 *y;
  u32 rows, n;
  s32 op, outside, inside, contiguous; // contiguous: the elements of a group are neighbours
  Divisor outside_size[AXES], inside_size[AXES];
  s32 outside_step[AXES], inside_step[AXES];
};

DEVICE s32 offset(u32 at, s32 axes, const Divisor *size, const s32 *step) {
  s32 sum = 0;
  for (s32 a = axes - 1; a > 0; a--) {
    const u32 rest = split(at, size[a]);
    sum += at * step[a];
    at = rest;
  }
  return axes ? sum + at * step[0] : 0;
}

KERNEL BOUNDS(ROWS_THREADS, 8) reduce(FloatReduce p) {
  bool valid;
  const u32 row = row_of(p.rows, valid);
  const f32 *x = p.x + offset(row, p.outside, p.outside_size, p.outside_step);
  f32 y;
  if (p.op == REDUCE_MAXIMA) { // of neighbours
    y = top(x, p.n);
  } else if (p.op == REDUCE_MAX || p.op == REDUCE_MIN) {
    y = p.op == REDUCE_MAX ? -f32_infinity() : f32_infinity();
    for (u32 i = lane(); i < p.n; i += LANES) {
      const f32 v = x[p.contiguous ? i : offset(i, p.inside, p.inside_size, p.inside_step)];
      y = p.op == REDUCE_MAX ? go_max(y, v) : go_min(y, v);
    }
    for (u32 n = LANES / 2; n > 0; n /= 2) {
      const f32 v = from_lane(y, (lane() + n) % LANES);
      y = p.op == REDUCE_MAX ? go_max(y, v) : go_min(y, v);
    }
  } else {
    f64 sum = 0;
#pragma unroll 4
    for (u32 i = lane(); i < p.n; i += LANES) {
      const f64 v = (f64)x[p.contiguous ? i : offset(i, p.inside, p.inside_size, p.inside_step)];
      f64 term = v;
      if (p.op == REDUCE_SQUARES || p.op == REDUCE_L2) term = v * v;
      if (p.op == REDUCE_L1) term = v < 0 ? -v : v;
      sum = sum + term;
    }
    sum = fold(sum);
    if (p.op == REDUCE_MEAN) sum = sum / (f64)p.n;
    if (p.op == REDUCE_L2) sum = f64_sqrt(sum);
    y = (f32)sum;
  }
  if (valid && !lane()) p.y[row] = y;
}
