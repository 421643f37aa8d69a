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
    set_code_of(p.dst, at, p.out_bytes, softmax_code(s, d, exp(d), all));
  }
}
