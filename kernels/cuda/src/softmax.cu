// Softmax of rows of codes. softmax.go launches it.
#include "codes.cuh"
#include "operators.cuh"
#include "index.cuh"

// SoftmaxRows are rows of n codes. Element k of row r lies at (r/inner*n + k)*inner + r%inner. A block of 256 threads computes several
// rows at once, each by as many threads; the threads of a row are neighbours where inner is 1.
struct SoftmaxRows {
  const void *src;
  void *dst;
  u32 count;   // of rows
  u32 n;
  Divisor inner;
  s32 rows;    // of a block, a power of two
  s32 bytes, out_bytes;
  u32 flip;
  s32 unused;
  Softmax softmax;
};

// merge combines a number of every thread of a row and returns the result to each.
template <typename T, typename Join>
DEVICE T merge(T *parts, u32 worker, u32 workers, u32 row, u32 rows, T v, Join join) {
  barrier(); // what was read of them before
  parts[worker * rows + row] = v;
  for (u32 half = workers / 2; half > 0; half /= 2) {
    barrier();
    if (worker < half) parts[worker * rows + row] = join(parts[worker * rows + row], parts[(worker + half) * rows + row]);
  }
  barrier();
  return parts[row];
}

// TERMS is how many terms of SOFTMAX_MLAS the rows of a block have in shared memory at once.
enum { TERMS = 2048 };

KERNEL BOUNDS(256, 2) softmax(SoftmaxRows p) {
  SHARED static s64 parts[256];
  SHARED static s32 terms[TERMS + TERMS / 32];
  SHARED static f32 sums[256];
  SHARED static s32 exps[256];
  const Softmax &s = p.softmax;
  const bool bytes = p.bytes == 1; // the exponentials of their distances are a table
  if (bytes) exps[thread_x()] = softmax_exp(s, (s32)thread_x());
  const auto exp = [&](s32 d) { return bytes ? exps[d] : softmax_exp(s, d); };
  const u32 t = thread_x(), rows = p.rows, workers = 256 / rows;
  const bool apart = p.inner.by != 1;
  const u32 worker = apart ? t / rows : t % workers, row = apart ? t % rows : t / workers;
  const u32 r = block_x() * rows + row;
  const u32 outer = quotient(r, p.inner);
  const s64 first = ((s64)outer * p.n) * p.inner.by + (r - outer * p.inner.by);
  const u32 n = r < p.count ? p.n : 0; // threads without a row wait with the others
  const s64 step = p.inner.by;

  s32 top = -0x7fffffff - 1;
  for (u32 k = worker; k < n; k += workers) top = max32(top, code_of(p.src, first + k * step, p.bytes, p.flip));
  top = merge((s32 *)parts, worker, workers, row, rows, top, [](s32 a, s32 b) { return max32(a, b); });

  if (s.form == SOFTMAX_MLAS) { // float32 terms, added in order by the first thread of the row
    const u32 some = TERMS / rows; // of each row; its own place lets lanes of neighbouring rows use other banks
    f32 sum = 0;
    for (u32 from = 0; from < p.n; from += some) {
      barrier();
      for (u32 k = worker; k < some && from + k < n; k += workers)
        terms[k * (rows + 1) + row] = exp(top - code_of(p.src, first + (from + k) * step, p.bytes, p.flip));
      barrier();
      if (worker == 0)
        for (u32 k = 0; k < some && from + k < n; k++) sum = sum + bits_f32(terms[k * (rows + 1) + row]);
    }
    if (worker == 0) sums[row] = sum;
    barrier();
    sum = sums[row];
    for (u32 k = worker; k < n; k += workers) {
      const s64 at = first + k * step;
      set_code_of(p.dst, at, p.out_bytes, softmax_real(s, exp(top - code_of(p.src, at, p.bytes, p.flip)), sum));
    }
    return;
  }
  s64 sum = 0;
  for (u32 k = worker; k < n; k += workers) {
    const s32 d = top - code_of(p.src, first + k * step, p.bytes, p.flip);
    sum += softmax_term(s, d, exp(d));
  }
  sum = merge(parts, worker, workers, row, rows, sum, [](s64 a, s64 b) { return a + b; });
  const SoftmaxRow all = softmax_row(s, sum);
  for (u32 k = worker; k < n; k += workers) {
    const s64 at = first + k * step;
    const s32 d = top - code_of(p.src, at, p.bytes, p.flip);
    set_code_of(p.dst, at, p.out_bytes, softmax_code(s, exp(d), all));
  }
}

// SoftmaxBytes are rows of n codes of 8 bits that lie together, n a multiple of 16, by an integer form. 16 codes of a row are a thread's,
// which keeps them; as many neighbours as a power of two says share a row. Blocks go through the rows.
struct SoftmaxBytes {
  const void *src;
  void *dst;
  u32 count; // of rows
  u32 n;
  s32 workers; // of a row
  u32 flip;
  Softmax softmax;
};

DEVICE s32 from_lane(s32 v, u32 distance) {
  s32 y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=r"(y) : "r"(v), "r"(distance));
  return y;
}
DEVICE s64 from_lane(s64 v, u32 distance) {
  const u32 low = (u32)from_lane((s32)v, distance), high = (u32)from_lane((s32)(v >> 32), distance);
  return (s64)((u64)high << 32 | low);
}

// merge_neighbours is merge for neighbouring threads: within a warp without a barrier.
template <typename T, typename Join>
DEVICE T merge_neighbours(T *parts, u32 workers, T v, Join join) {
  for (u32 d = 1; d < workers && d < 32; d *= 2) v = join(v, from_lane(v, d));
  if (workers <= 32) return v;
  const u32 warp = thread_x() / 32, first = warp / (workers / 32) * (workers / 32);
  barrier(); // what was read of them before
  if (thread_x() % 32 == 0) parts[warp] = v;
  barrier();
  v = parts[first];
  for (u32 i = 1; i < workers / 32; i++) v = join(v, parts[first + i]);
  return v;
}

template <int form>
DEVICE void softmax_bytes(const SoftmaxBytes &p) {
  SHARED static s64 parts[8];
  SHARED static s32 exps[256], terms[256];
  Softmax s = p.softmax;
  s.form = form;
  const u32 t = thread_x(), workers = p.workers, rows = 256 / workers, worker = t % workers;
  exps[t] = softmax_exp(s, (s32)t);
  terms[t] = softmax_term(s, (s32)t, exps[t]);
  barrier();
  for (u32 r0 = block_x() * rows; r0 < p.count; r0 += blocks_x() * rows) {
    const u32 r = r0 + t / workers;
    const bool some = r < p.count && worker * 16 < p.n;
    const s64 at = (s64)r * p.n + worker * 16;
    s32 q[16], top = 0;
    if (some) {
      load_raised<1>(q, p.src, at, p.flip);
#pragma unroll
      for (int k = 0; k < 16; k++) top = max32(top, q[k]);
    }
    top = merge_neighbours((s32 *)parts, workers, top, [](s32 a, s32 b) { return max32(a, b); });
    s64 sum = 0;
    if (some) {
#pragma unroll
      for (int k = 0; k < 16; k++) sum += terms[top - q[k]];
    }
    sum = merge_neighbours(parts, workers, sum, [](s64 a, s64 b) { return a + b; });
    if (some) {
      const SoftmaxRow all = softmax_row(s, sum);
#pragma unroll
      for (int k = 0; k < 16; k++) q[k] = softmax_code(s, exps[top - q[k]], all);
      store_codes<1>(p.dst, at, q);
    }
  }
}
KERNEL BOUNDS(256, 4) softmax_bytes_integer(SoftmaxBytes p) { softmax_bytes<SOFTMAX_INTEGER>(p); }
KERNEL BOUNDS(256, 4) softmax_bytes_gemmlowp(SoftmaxBytes p) { softmax_bytes<SOFTMAX_GEMMLOWP>(p); }
