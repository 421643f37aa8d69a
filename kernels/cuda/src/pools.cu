// Pools and reductions of codes. Pools work on images whose channels lie together: [image][z][y][x][channel]. pools.go launches them.
#include "codes.cuh"
#include "index.cuh"
#include "operators.cuh"

// Pool makes count pieces of N channels of one output position each: the pieces of a position, then positions along x, y, z, images.
struct Pool {
  const void *src;
  void *dst;
  u32 count;
  u32 flip, flip_out;
  s32 channels;
  s32 padding; // 1: positions of the padding count
  s32 lowest;  // the maximum of nothing
  Divisor pieces, out[3];
  Window window;
};

// Spot is a piece of the output: taps of the window from first to last read inside.
struct Spot {
  s64 src;    // the place of input position 0, first channel of the piece
  s32 start[3]; // the input position of tap 0
  s32 first[3], last[3];
  s32 o[3];
};

template <int N>
DEVICE Spot spot_of(const Pool &p, u32 i) {
  const Window &w = p.window;
  Spot s;
  u32 rest = split(i, p.pieces);
  const u32 piece = i;
#pragma unroll
  for (int a = 2; a >= 0; a--) {
    const u32 q = split(rest, p.out[a]);
    s.o[a] = (s32)rest;
    rest = q;
    s.start[a] = place(w, a, s.o[a], 0);
    s.first[a] = first_tap(w, a, s.o[a]);
    s.last[a] = last_tap(w, a, s.o[a]);
  }
  s.src = (s64)rest * w.in[0] * w.in[1] * w.in[2] * p.channels + piece * N;
  return s;
}

// each_tap calls f with the place of every tap that reads inside, in order.
template <typename F>
DEVICE void each_tap(const Pool &p, const Spot &s, F f) {
  const Window &w = p.window;
  for (s32 z = s.first[0]; z < s.last[0]; z++)
    for (s32 y = s.first[1]; y < s.last[1]; y++) {
      const s64 row = ((s64)(s.start[0] + z * w.dilation[0]) * w.in[1] + s.start[1] + y * w.dilation[1]) * w.in[2] + s.start[2];
      for (s32 x = s.first[2]; x < s.last[2]; x++) f(s.src + (row + x * w.dilation[2]) * p.channels);
    }
}

template <int BYTES, int N>
DEVICE void max_pool(const Pool &p) {
  for (u32 i = first_piece(); i < p.count; i += all_pieces()) {
    const Spot s = spot_of<N>(p, i);
    s32 best[N];
#pragma unroll
    for (int k = 0; k < N; k++) best[k] = p.lowest + (s32)p.flip;
    each_tap(p, s, [&](s64 at) {
      s32 q[N];
      load_raised<BYTES>(q, p.src, at, p.flip);
#pragma unroll
      for (int k = 0; k < N; k++) best[k] = max32(best[k], q[k]);
    });
#pragma unroll
    for (int k = 0; k < N; k++) best[k] -= (s32)p.flip;
    store_codes<BYTES>(p.dst, (s64)i * N, best);
  }
}
KERNEL BOUNDS(256, 4) max_pool_1x16(Pool p) { max_pool<1, 16>(p); }
KERNEL BOUNDS(256, 4) max_pool_1x4(Pool p) { max_pool<1, 4>(p); }
KERNEL BOUNDS(256, 4) max_pool_1x1(Pool p) { max_pool<1, 1>(p); }
KERNEL BOUNDS(256, 4) max_pool_2x8(Pool p) { max_pool<2, 8>(p); }
KERNEL BOUNDS(256, 4) max_pool_2x1(Pool p) { max_pool<2, 1>(p); }

struct AveragePool {
  Pool pool;
  s32 out_bytes, unused;
  Average average;
};

template <int BYTES, int N>
DEVICE void average_pool(const AveragePool &p) {
  const Window &w = p.pool.window;
  const Average &a = p.average;
  for (u32 i = first_piece(); i < p.pool.count; i += all_pieces()) {
    const Spot s = spot_of<N>(p.pool, i);
    const s32 read = max32(s.last[0] - s.first[0], 0) * max32(s.last[1] - s.first[1], 0) * max32(s.last[2] - s.first[2], 0);
    s32 n = read;
    if (p.pool.padding) n = counted(w, 0, s.o[0]) * counted(w, 1, s.o[1]) * counted(w, 2, s.o[2]);
    s32 q[N];
    if (a.form == AVERAGE_TERMS) { // float32 terms in order; those of the padding are 0
      f32 sum[N];
#pragma unroll
      for (int k = 0; k < N; k++) sum[k] = 0;
      each_tap(p.pool, s, [&](s64 at) {
        load_codes<BYTES>(q, p.pool.src, at, p.pool.flip);
#pragma unroll
        for (int k = 0; k < N; k++) sum[k] = sum[k] + dequantize(q[k], a.zero, a.scale);
      });
#pragma unroll
      for (int k = 0; k < N; k++) q[k] = n ? average_real(a, sum[k], n) : a.empty;
    } else {
      s32 sum[N];
#pragma unroll
      for (int k = 0; k < N; k++) sum[k] = 0;
      each_tap(p.pool, s, [&](s64 at) {
        load_codes<BYTES>(q, p.pool.src, at, p.pool.flip);
#pragma unroll
        for (int k = 0; k < N; k++) sum[k] = add32(sum[k], average_term(a, q[k]));
      });
      const s32 pad = a.form == AVERAGE_EACH && n > read ? mul32(n - read, average_term(a, a.zero)) : 0;
#pragma unroll
      for (int k = 0; k < N; k++) q[k] = n ? average_codes(a, add32(sum[k], pad), n) : a.empty;
    }
    if (p.out_bytes == BYTES) store_codes<BYTES>(p.pool.dst, (s64)i * N, q);
    else
      for (int k = 0; k < N; k++) set_code_of(p.pool.dst, (s64)i * N + k, p.out_bytes, q[k]);
  }
}
KERNEL BOUNDS(256, 2) average_pool_1x4(AveragePool p) { average_pool<1, 4>(p); }
KERNEL BOUNDS(256, 2) average_pool_1x1(AveragePool p) { average_pool<1, 1>(p); }
KERNEL BOUNDS(256, 2) average_pool_2x1(AveragePool p) { average_pool<2, 1>(p); }

// Reduce makes one output of terms elements each: axes that stay and axes that are reduced, each from the fastest on. A block of 256
// threads makes outputs of them, which 256/outputs threads share; the threads of an output are neighbours where together is 1.
struct Reduce {
  const void *src;
  void *dst;
  u32 count, terms;
  s32 kept_axes, reduced_axes;
  Divisor kept[AXES], reduced[AXES];
  s32 kept_step[AXES], reduced_step[AXES];
  s32 outputs, together;
  s32 bytes, out_bytes;
  u32 flip;
  s32 unused;
};

DEVICE u32 offset_of(const Divisor *size, const s32 *step, s32 axes, u32 i) {
  u32 at = 0;
  for (s32 a = 0; a < axes; a++) {
    const u32 rest = split(i, size[a]);
    at += i * (u32)step[a];
    i = rest;
  }
  return at;
}

// reduce combines the terms of an output, read by term, from start on with join, in any order, and calls finish with each result.
template <typename Term, typename Join, typename Finish>
DEVICE void reduce(const Reduce &p, s32 start, Term term, Join join, Finish finish) {
  SHARED static s32 parts[256];
  const u32 t = thread_x(), workers = 256 / p.outputs;
  const u32 worker = p.together ? t % workers : t / p.outputs, out = p.together ? t / workers : t % p.outputs;
  const u32 o = block_x() * p.outputs + out;
  s32 part = start;
  if (o < p.count) {
    const u32 base = offset_of(p.kept, p.kept_step, p.kept_axes, o);
    for (u32 i = worker; i < p.terms; i += workers)
      part = join(part, term(code_of(p.src, base + offset_of(p.reduced, p.reduced_step, p.reduced_axes, i), p.bytes, p.flip)));
  }
  parts[worker * p.outputs + out] = part;
  for (u32 half = workers / 2; half > 0; half /= 2) {
    barrier();
    if (worker < half) parts[worker * p.outputs + out] = join(parts[worker * p.outputs + out], parts[(worker + half) * p.outputs + out]);
  }
  if (worker == 0 && o < p.count) set_code_of(p.dst, o, p.out_bytes, finish(parts[out]));
}

KERNEL BOUNDS(256, 4) reduce_max(Reduce p) {
  reduce(p, -0x7fffffff - 1, [](s32 q) { return q; }, [](s32 a, s32 b) { return max32(a, b); }, [](s32 q) { return q; });
}
KERNEL BOUNDS(256, 4) reduce_min(Reduce p) {
  reduce(p, 0x7fffffff, [](s32 q) { return q; }, [](s32 a, s32 b) { return min32(a, b); }, [](s32 q) { return q; });
}

struct Mean {
  Reduce reduce;
  Average average;
};
KERNEL BOUNDS(256, 4) mean(Mean p) {
  const Average &a = p.average;
  reduce(p.reduce, 0, [&](s32 q) { return average_term(a, q); }, [](s32 a, s32 b) { return add32(a, b); },
         [&](s32 sum) { return average_codes(a, sum, (s32)p.reduce.terms); });
}

// Columns reduces [outer][terms][channels], of bytes whose channels are a multiple of 4, over the terms. A block makes 128 channels, its
// 32 lanes four each; eight rows of lanes share the terms.
struct Columns {
  const void *src;
  void *dst;
  u32 terms, channels;
  Divisor pieces; // blocks for the channels
  u32 flip;
  s32 out_bytes;
  s32 unused;
};

template <typename Term, typename Join, typename Finish>
DEVICE void columns(const Columns &p, s32 start, Term term, Join join, Finish finish) {
  SHARED static s32 parts[8][128];
  const u32 t = thread_x(), lane = t % 32, worker = t / 32;
  u32 piece = block_x();
  const u32 outer = split(piece, p.pieces), c = piece * 128 + lane * 4;
  s32 part[4] = {start, start, start, start};
  if (c < p.channels) {
    const s64 base = (s64)outer * p.terms * p.channels + c;
    for (u32 i = worker; i < p.terms; i += 8) {
      s32 q[4];
      load_codes<1>(q, p.src, base + (s64)i * p.channels, p.flip);
#pragma unroll
      for (int k = 0; k < 4; k++) part[k] = join(part[k], term(q[k]));
    }
  }
#pragma unroll
  for (int k = 0; k < 4; k++) parts[worker][lane + 32 * k] = part[k];
  barrier();
  const u32 channel = piece * 128 + t % 32 * 4 + t / 32;
  if (t < 128 && channel < p.channels) {
    s32 v = start;
#pragma unroll
    for (int w = 0; w < 8; w++) v = join(v, parts[w][t]);
    set_code_of(p.dst, (s64)outer * p.channels + channel, p.out_bytes, finish(v));
  }
}

KERNEL BOUNDS(256, 4) columns_max(Columns p) {
  columns(p, -0x7fffffff - 1, [](s32 q) { return q; }, [](s32 a, s32 b) { return max32(a, b); }, [](s32 q) { return q; });
}

struct MeanColumns {
  Columns columns;
  Average average;
};
KERNEL BOUNDS(256, 2) columns_mean(MeanColumns p) {
  const Average &a = p.average;
  columns(p.columns, 0, [&](s32 q) { return average_term(a, q); }, [](s32 a, s32 b) { return add32(a, b); },
          [&](s32 sum) { return average_codes(a, sum, (s32)p.columns.terms); });
}
