// Statistics of tensors. A tensor is observed in three steps, because where values are counted depends on the largest: extremes,
// settle, count. Elements lie in memory as samples, each of them runs of inner elements, of channel 0 to count-1 again and again.
#include "observe.cuh"

DEVICE u32 blocks_z() { return __nvvm_read_ptx_sreg_nctaid_z(); }

DEVICE void atomic_add(u32 *p, u32 n) { __nvvm_atom_add_gen_i((int *)p, (int)n); }
DEVICE void atomic_add(u64 *p, u64 n) { __nvvm_atom_add_gen_ll((s64 *)p, (s64)n); }
DEVICE void atomic_max(u32 *p, u32 n) { __nvvm_atom_max_gen_ui(p, n); }

struct Look {
  const f32 *x;
  Tally *tally;
  u32 *channels;   // extremes of each channel, as in Tally.halves; none if null
  u32 *nan;        // how many, of each sample
  const u32 *half; // of each sample
  u64 inner;       // elements of a run
  u64 runs;        // of a sample
  u32 count;       // channels
  u32 samples;
  u32 width;  // threads that look at neighbours, a power of two
  u32 pieces; // that a run is cut into
};

#define LOOKERS 256u

// note_odd adds what is not finite.
DEVICE void note_odd(const Look &p, u32 sample, const Extremes &e) {
  if (e.nan)
    atomic_add(p.nan + sample, e.nan);
  if (e.positive)
    atomic_add(p.tally->infinite, (u64)e.positive);
  if (e.negative)
    atomic_add(p.tally->infinite + 1, (u64)e.negative);
}

// widen makes a pair of extremes cover another, 0 being none.
DEVICE void widen(u32 *pair, u32 below, u32 above) {
  if (above) {
    atomic_max(pair, below);
    atomic_max(pair + 1, above);
  }
}

// extremes_of_runs is for runs of several elements, each of one channel, which width threads share.
KERNEL BOUNDS(LOOKERS, 4) extremes_of_runs(Look p) {
  static SHARED u32 below[LOOKERS], above[LOOKERS];
  const u32 t = thread_x(), lane = t & (p.width - 1);
  const u64 unit = (u64)block_x() * (LOOKERS / p.width) + t / p.width;
  const u64 run = unit / p.pieces, piece = unit % p.pieces;
  for (u32 sample = block_z(); sample < p.samples; sample += blocks_z()) {
    Extremes e = no_extremes();
    if (run < p.runs) {
      const f32 *x = p.x + (sample * p.runs + run) * p.inner;
      e = extremes_between(x + p.inner * piece / p.pieces + lane, x + p.inner * (piece + 1) / p.pieces, p.width);
      note_odd(p, sample, e);
    }
    below[t] = e.lo <= e.hi ? rank(-e.lo) : 0;
    above[t] = e.lo <= e.hi ? rank(e.hi) : 0;
    for (u32 s = 1;; s *= 2) {
      barrier();
      if (s == p.width && lane == 0 && p.channels && run < p.runs)
        widen(p.channels + 2 * (run % p.count), below[t], above[t]);
      if (s == LOOKERS)
        break;
      if (t % (2 * s) == 0) {
        below[t] = below[t + s] > below[t] ? below[t + s] : below[t];
        above[t] = above[t + s] > above[t] ? above[t + s] : above[t];
      }
    }
    if (t == 0)
      widen(p.tally->halves[p.half[sample]], below[0], above[0]);
    barrier();
  }
}

// extremes_of_rows is for channels that follow each other element by element: a thread looks at one of them. width is at least 2.
KERNEL BOUNDS(LOOKERS, 4) extremes_of_rows(Look p) {
  static SHARED u32 below[LOOKERS], above[LOOKERS];
  const u32 t = thread_x(), channel = block_y() * p.width + (t & (p.width - 1));
  for (u32 sample = block_z(); sample < p.samples; sample += blocks_z()) {
    Extremes e = no_extremes();
    if (channel < p.count) {
      const f32 *x = p.x + sample * p.runs;
      const u64 row = (u64)block_x() * (LOOKERS / p.width) + t / p.width;
      e = extremes_between(x + row * p.count + channel, x + p.runs, (u64)blocks_x() * (LOOKERS / p.width) * p.count);
      note_odd(p, sample, e);
    }
    below[t] = e.lo <= e.hi ? rank(-e.lo) : 0;
    above[t] = e.lo <= e.hi ? rank(e.hi) : 0;
    for (u32 s = LOOKERS / 2;; s /= 2) {
      barrier();
      if (2 * s == p.width && t < p.width && channel < p.count)
        widen(p.channels + 2 * channel, below[t], above[t]);
      if (s == 0)
        break;
      if (t < s) {
        below[t] = below[t + s] > below[t] ? below[t + s] : below[t];
        above[t] = above[t + s] > above[t] ? above[t + s] : above[t];
      }
    }
    if (t == 0)
      widen(p.tally->halves[p.half[sample]], below[0], above[0]);
    barrier();
  }
}

struct Settle {
  Tally *tally;
};

#define SETTLERS 512u

// settle makes room in the table for the extremes: octaves that are too far below the largest one are folded. It is one block.
KERNEL BOUNDS(SETTLERS, 1) settle(Settle p) {
  Tally &y = *p.tally;
  const u32 old = y.top, t = thread_x();
  u32 top = old, signs = 0;
  for (u32 half = 0; half < 2; half++)
    for (u32 end = 0; end < 2; end++) {
      if (!y.halves[half][end])
        continue;
      const f32 v = value(y.halves[half][end]); // -x or x
      const u32 exponent = bits_of(v) << 1 >> 24;
      top = exponent > top ? exponent : top;
      if (v > 0)
        signs |= end ? 1 : 2;
    }
  barrier(); // all have read top
  if (t == 0) {
    y.top = top;
    y.signs = signs;
  }
  u32 moved = (lowest(top) - lowest(old)) * BINS;
  moved = moved < OCTAVES * BINS ? moved : OCTAVES * BINS;
  if (moved == 0)
    return;
  // A thread reads and writes every SETTLERS-th counter, which divides what they are moved by: it meets no other thread.
  for (u32 sign = 0; sign < 2; sign++) {
    u32 *below = y.table + ZEROS + sign * SIDE, *bins = below + 1;
    u32 folded = 0;
    for (u32 i = t; i < moved; i += SETTLERS)
      folded += bins[i];
    if (folded)
      atomic_add(below, folded);
    for (u32 i = t; i < OCTAVES * BINS; i += SETTLERS)
      bins[i] = i + moved < OCTAVES * BINS ? bins[i + moved] : 0;
  }
}

struct Count {
  const f32 *x;
  Tally *tally;
  u64 n;
  u32 near; // octaves that a block counts in shared memory, which has as many counters and one more
  u32 unused;
};

#define COUNTERS 512u

// count adds all finite values to the table. Most values are less than a few octaves below the largest; blocks count those apart.
KERNEL BOUNDS(COUNTERS, 2) count(Count p) {
  extern SHARED u32 near[];
  Tally &y = *p.tally;
  const u32 t = thread_x(), top = y.top;
  const bool both = y.signs == 3;
  const u32 octaves = both ? p.near / 2 : p.near;
  const u32 first = (top > octaves ? top + 1 - octaves : 1) * BINS, span = (top + 1) * BINS - first; // of near bins
  const u32 negative = both ? octaves * BINS : 0; // where those of negative values begin
  u32 *zeros = near + p.near * BINS;
  for (u32 i = t; i < p.near * BINS + 1; i += COUNTERS)
    near[i] = 0;
  barrier();
  u32 none = 0;
  const u64 step = (u64)blocks_x() * COUNTERS;
  u64 i = (u64)block_x() * COUNTERS + t;
  auto one = [&](f32 v) {
    const u32 bits = bits_of(v), key = bits << 1 >> (BIN_SHIFT + 1), at = key - first;
    if (at < span)
      atomic_add(near + (at + (bits >> 31 ? negative : 0)), 1);
    else if (key < BINS)
      none++;
    else if (key < first)
      atomic_add(y.table + counter(bits, top), 1);
  };
  for (; i + 7 * step < p.n; i += 8 * step) {
    f32 v[8];
#pragma unroll
    for (u32 k = 0; k < 8; k++)
      v[k] = p.x[i + k * step];
#pragma unroll
    for (u32 k = 0; k < 8; k++)
      one(v[k]);
  }
  for (; i < p.n; i += step)
    one(p.x[i]);
  if (none)
    atomic_add(zeros, none);
  barrier();
  if (t == 0 && *zeros)
    atomic_add(y.table, *zeros);
  for (u32 j = t; j < p.near * BINS; j += COUNTERS) {
    if (!near[j])
      continue;
    const u32 back = both && j >= negative;
    const u32 key = first + j - (back ? negative : 0), sign = both ? back : y.signs >> 1;
    atomic_add(y.table + counter(sign << 31 | key << BIN_SHIFT, top), near[j]);
  }
}

struct Rows {
  const f32 *x;
  Tally *second; // of the second largest values of rows, 0 where they are negative; ties are counted here
  Tally *gap;    // of the differences between the two largest
  u64 rows;      // outer * inner
  u64 n;         // elements of a row, inner apart
  u64 inner;
  u32 width;   // threads of a row, a power of two
  u32 counted; // 0: extremes are looked for, 1: settle was done and they are counted
};

#define READERS 128u

// leaders looks at the two largest values of each row of finite ones.
KERNEL BOUNDS(READERS, 4) leaders(Rows p) {
  static SHARED f32 first[READERS], second[READERS];
  static SHARED u32 good[READERS];
  const u32 t = thread_x(), lane = t & (p.width - 1);
  const u64 row = (u64)block_x() * (READERS / p.width) + t / p.width;
  Leaders l = no_leaders();
  if (row < p.rows) {
    const f32 *x = p.x + row / p.inner * p.n * p.inner + row % p.inner;
    for (u64 i = lane; i < p.n; i += p.width)
      see(l, x[i * p.inner]);
  }
  first[t] = l.first;
  second[t] = l.second;
  good[t] = l.finite;
  for (u32 s = p.width / 2; s > 0; s /= 2) {
    barrier();
    if (lane < s) {
      join(l, {first[t + s], second[t + s], good[t + s]});
      first[t] = l.first;
      second[t] = l.second;
      good[t] = l.finite;
    }
  }
  if (lane > 0 || row >= p.rows || !l.finite)
    return;
  if (l.first == l.second) {
    if (!p.counted)
      atomic_add(&p.second->ties, 1);
    return;
  }
  const f32 most = float_of(0x7f7fffffu), difference = l.first - l.second;
  const f32 v[2] = {l.second > 0 ? l.second : 0, difference < most ? difference : most};
  Tally *const to[2] = {p.second, p.gap};
  for (u32 k = 0; k < 2; k++) {
    if (!p.counted)
      widen(to[k]->halves[0], rank(-v[k]), rank(v[k]));
    else if (bits_of(v[k]) < BINS << BIN_SHIFT)
      atomic_add(to[k]->table, 1);
    else
      atomic_add(to[k]->table + counter(bits_of(v[k]), to[k]->top), 1);
  }
}
