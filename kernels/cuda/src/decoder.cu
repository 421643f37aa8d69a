// What a language model computes between its products, as graph/language/decode does on the processor; decoder.go launches the kernels.
#include "float.cuh"

enum { DECODER_THREADS = 128, LANES = 16, KEY_BLOCK = 32 };

// A Place says where a row of a pass belongs: the cache of its sequence, and its position there.
//
// A cache has capacity positions, a multiple of KEY_BLOCK. Layer by layer and head by head it has the keys, in blocks of KEY_BLOCK
// positions, element by element of the head and then by position, and the values, position by position.
struct Place {
  f32 *cache;
  s32 position, capacity;
};

struct Heads {
  s32 heads, shared; // of queries, of keys and values
  s32 dim;           // of a head
  s32 layer;
};

DEVICE f32 *keys_of(const Place &at, const Heads &h, s32 head) {
  return at.cache + (s64)(2 * (h.layer * h.shared + head)) * at.capacity * h.dim;
}
DEVICE f32 *values_of(const Place &at, const Heads &h, s32 head) { return keys_of(at, h, head) + (s64)at.capacity * h.dim; }
DEVICE s64 key_at(const Heads &h, s32 position, s32 i) {
  return (s64)(position / KEY_BLOCK * h.dim + i) * KEY_BLOCK + position % KEY_BLOCK;
}

// Rotate turns pairs of elements of queries and keys by the angles of their position, and puts keys and values into the cache.
struct Rotate {
  f32 *q; // n x heads x dim, turned in place
  const f32 *k, *v;
  const f32 *cos, *sin; // by position, dim/2 each
  const Place *places;
  Heads h;
  s32 step, apart; // of the first elements of pairs, and of the two
};

KERNEL BOUNDS(DECODER_THREADS, 8) rotate(Rotate p) {
  const Place at = p.places[block_x()];
  const s32 half = p.h.dim / 2;
  const f32 *cos = p.cos + (s64)at.position * half, *sin = p.sin + (s64)at.position * half;
  f32 *q = p.q + (s64)block_x() * p.h.heads * p.h.dim;
  for (s32 e = thread_x(); e < p.h.heads * half; e += DECODER_THREADS) {
    const s32 i = e % half;
    f32 *x = q + e / half * p.h.dim + i * p.step;
    const f32 a = x[0], b = x[p.apart], c = cos[i], s = sin[i];
    x[0] = a * c - b * s;
    x[p.apart] = a * s + b * c;
  }
  const s64 row = (s64)block_x() * p.h.shared * p.h.dim;
  for (s32 e = thread_x(); e < p.h.shared * half; e += DECODER_THREADS) {
    const s32 i = e % half, head = e / half;
    const f32 *x = p.k + row + head * p.h.dim + i * p.step;
    const f32 a = x[0], b = x[p.apart], c = cos[i], s = sin[i];
    f32 *keys = keys_of(at, p.h, head);
    keys[key_at(p.h, at.position, i * p.step)] = a * c - b * s;
    keys[key_at(p.h, at.position, i * p.step + p.apart)] = a * s + b * c;
  }
  for (s32 e = thread_x(); e < p.h.shared * p.h.dim; e += DECODER_THREADS) {
    const s32 head = e / p.h.dim, i = e % p.h.dim;
    values_of(at, p.h, head)[(s64)at.position * p.h.dim + i] = p.v[row + e];
  }
}

// Attend writes softmax(keys * q * scale) * values of the positions up to a row's own: a block for each head of each row.
struct Attend {
  const f32 *q; // n x heads x dim
  f32 *y;
  const Place *places;
  Heads h;
  f32 scale;
  s32 rows;
};

// chain is the sum of n products a[i] * b[i * step], one after the other. AHEAD of b are read before the first of them is added: each
// read takes hundreds of cycles, and a head has few threads. a is in shared memory.
DEVICE f32 chain(const f32 *a, const f32 *b, s32 step, s32 n) {
  enum { AHEAD = 16 };
  f32 acc = 0.0f, v[AHEAD];
  s32 i = 0;
  for (; i + AHEAD <= n; i += AHEAD) {
#pragma unroll
    for (s32 k = 0; k < AHEAD; k++) v[k] = b[(s64)(i + k) * step];
#pragma unroll
    for (s32 k = 0; k < AHEAD; k++) acc = acc + a[i + k] * v[k];
  }
  if (i == n) return acc;
  auto last = [&](s32 k) { return i + k < n ? i + k : n - 1; };
#pragma unroll
  for (s32 k = 0; k < AHEAD; k++) v[k] = b[(s64)last(k) * step];
#pragma unroll
  for (s32 k = 0; k < AHEAD; k++) {
    const f32 more = acc + a[last(k)] * v[k];
    acc = i + k < n ? more : acc; // without a branch, which reads would wait behind
  }
  return acc;
}

extern __attribute__((shared)) f32 attended[]; // dim elements of the query, then a score for every position

KERNEL BOUNDS(DECODER_THREADS, 4) attend(Attend p) {
  SHARED static f32 peaks[DECODER_THREADS];
  SHARED static f64 sums[LANES];
  const u32 tid = thread_x(), head = block_x();
  const Place at = p.places[block_y()];
  const s32 n = at.position + 1, shared = head / (p.h.heads / p.h.shared);
  const f32 *keys = keys_of(at, p.h, shared), *values = values_of(at, p.h, shared);
  const s64 row = ((s64)block_y() * p.h.heads + head) * p.h.dim;
  f32 *q = attended, *scores = attended + p.h.dim;
  for (s32 i = tid; i < p.h.dim; i += DECODER_THREADS) q[i] = p.q[row + i];
  barrier();
  f32 peak = -f32_infinity();
  for (s32 k = tid; k < n; k += DECODER_THREADS) {
    const f32 acc = chain(q, keys + key_at(p.h, k, 0), KEY_BLOCK, p.h.dim) * p.scale;
    scores[k] = acc;
    peak = larger(peak, acc);
  }
  peaks[tid] = peak;
  barrier();
  for (s32 k = 0; k < DECODER_THREADS; k++) peak = larger(peak, peaks[k]);
  for (s32 k = tid; k < n; k += DECODER_THREADS) scores[k] = f32_exp(scores[k] - peak);
  barrier();
  if (tid < LANES) { // the sums of every 16th element, in float64
    f64 sum = 0.0;
    for (s32 k = tid; k < n; k += LANES) sum = sum + (f64)scores[k];
    sums[tid] = sum;
  }
  barrier();
  f64 all[LANES];
#pragma unroll
  for (s32 i = 0; i < LANES; i++) all[i] = sums[i];
#pragma unroll
  for (s32 half = LANES / 2; half > 0; half /= 2)
#pragma unroll
    for (s32 i = 0; i < half; i++) all[i] = all[i] + all[i + half];
  const f32 sum = (f32)all[0];
  for (s32 k = tid; k < n; k += DECODER_THREADS) scores[k] = scores[k] / sum;
  barrier();
  for (s32 i = tid; i < p.h.dim; i += DECODER_THREADS) p.y[row + i] = chain(scores, values + i, p.h.dim, n);
}

// Pairwise computes on two arrays of equal length.
struct Pairwise {
  f32 *x; // the result too
  const f32 *y;
  u64 n, period; // element i of x goes with i % period of y
};

KERNEL BOUNDS(256, 8) add_to(Pairwise p) {
  const u64 i = (u64)block_x() * 256 + thread_x();
  if (i < p.n) p.x[i] = p.x[i] + p.y[i % p.period];
}

// swiglu is swish(x) * y.
KERNEL BOUNDS(256, 8) swiglu(Pairwise p) {
  const u64 i = (u64)block_x() * 256 + thread_x();
  if (i < p.n) p.x[i] = f32_swish(p.x[i], 1.0f) * p.y[i];
}

// PickRows copies the rows of a matrix that ids name.
struct PickRows {
  const f32 *from;
  const s32 *ids;
  f32 *to;
  s32 cols, pad;
};

KERNEL BOUNDS(256, 8) pick_rows(PickRows p) {
  const f32 *from = p.from + (s64)p.ids[block_x()] * p.cols;
  for (s32 i = thread_x(); i < p.cols; i += 256) p.to[(s64)block_x() * p.cols + i] = from[i];
}
