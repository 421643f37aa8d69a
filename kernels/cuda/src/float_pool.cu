// Pools of float32 in channels-last order, as kernels/ref has them; float_pool.go launches them. One thread computes one result, the
// channels of a position being neighbours.
#include "float.cuh"

struct FloatPool {
  const f32 *x;
  f32 *y;
  u32 count; // of results
  s32 channels, average, include_pad;
  s32 in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
};

// span are the taps from lo to hi along an axis that lie inside the input, and how many count.
struct Span {
  s32 start, lo, hi, counted;
};

DEVICE Span span(const FloatPool &p, s32 axis, s32 o) {
  Span s = {o * p.stride[axis] - p.begin[axis], p.kernel[axis], 0, 0};
  for (s32 k = 0; k < p.kernel[axis]; k++) {
    const s32 i = s.start + k * p.dilation[axis];
    const bool inside = i >= 0 && i < p.in[axis];
    if (inside) {
      s.lo = k < s.lo ? k : s.lo;
      s.hi = k + 1;
    }
    s.counted += p.include_pad ? i >= -p.begin[axis] && i < p.in[axis] + p.end[axis] : inside;
  }
  return s;
}

KERNEL BOUNDS(256, 4) pool(FloatPool p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.count; i += blocks_x() * threads_x()) {
    u32 at = i / p.channels;
    const u32 channel = i - at * p.channels;
    Span s[3];
#pragma unroll
    for (s32 axis = 2; axis >= 0; axis--) {
      s[axis] = span(p, axis, at % p.out[axis]);
      at /= p.out[axis];
    }
    f32 acc = p.average ? 0.0f : -f32_infinity();
    for (s32 d = s[0].lo; d < s[0].hi; d++)
      for (s32 h = s[1].lo; h < s[1].hi; h++)
        for (s32 w = s[2].lo; w < s[2].hi; w++) {
          const s64 z = s[0].start + d * p.dilation[0], y = s[1].start + h * p.dilation[1], x = s[2].start + w * p.dilation[2];
          const f32 v = p.x[(((at * p.in[0] + z) * p.in[1] + y) * p.in[2] + x) * p.channels + channel];
          acc = p.average ? acc + v : larger(acc, v);
        }
    if (p.average) {
      const s32 n = s[0].counted * s[1].counted * s[2].counted;
      acc = n ? acc / (f32)n : 0.0f;
    }
    p.y[i] = acc;
  }
}

// FloatGlobal is a pool over all positions of an image, in their order.
struct FloatGlobal {
  const f32 *x;
  f32 *y;
  u32 count; // images times channels
  s32 channels, positions, average;
};

KERNEL BOUNDS(128, 4) global_pool(FloatGlobal p) {
  for (u32 i = block_x() * threads_x() + thread_x(); i < p.count; i += blocks_x() * threads_x()) {
    const f32 *x = p.x + (s64)(i / p.channels) * p.positions * p.channels + i % p.channels;
    f32 acc = p.average ? 0.0f : -f32_infinity();
    if (p.average) {
#pragma unroll 8
      for (s32 k = 0; k < p.positions; k++) acc = acc + x[(s64)k * p.channels];
      acc = p.positions ? acc / (f32)p.positions : 0.0f;
    } else {
#pragma unroll 8
      for (s32 k = 0; k < p.positions; k++) acc = go_max(acc, x[(s64)k * p.channels]);
    }
    p.y[i] = acc;
  }
}
