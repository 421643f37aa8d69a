// Where things lie: division by numbers that are known before the launch, broadcasting, and windows of convolutions and pools.
// index.go has the Go side. Compiles as C++ for the host too.
#pragma once
#include "common.cuh"

// Divisor divides numbers below 2^31 by a number that the host knows: (high(n*mul) + n) >> shift.
struct Divisor {
  u32 by, mul, shift;
};

#ifdef __CUDA__
DEVICE u32 high_u32(u32 a, u32 b) { return __nvvm_mulhi_ui(a, b); }
#else
DEVICE u32 high_u32(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
#endif

DEVICE u32 quotient(u32 n, const Divisor &d) { return (high_u32(n, d.mul) + n) >> d.shift; }

// split returns n / d and leaves the remainder in n.
DEVICE u32 split(u32 &n, const Divisor &d) {
  const u32 q = quotient(n, d);
  n -= q * d.by;
  return q;
}

// AXES is how many axes an array has at most, after those that lie together have been joined.
enum { AXES = 8 };

// Window slides over up to three spatial axes; the missing ones come first and have size 1.
struct Window {
  s32 in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
};

// place is the input position of output position o and tap k along axis a.
DEVICE s32 place(const Window &w, int a, s32 o, s32 k) { return o * w.stride[a] - w.begin[a] + k * w.dilation[a]; }

// inside says that input positions exist, padded that they lie in the padding or inside.
DEVICE bool inside(const Window &w, int a, s32 i) { return (u32)i < (u32)w.in[a]; }
DEVICE bool padded(const Window &w, int a, s32 i) { return i >= -w.begin[a] && i < w.in[a] + w.end[a]; }

// taps returns the first tap along axis a that reads inside for output position o, and the one after the last.
DEVICE s32 first_tap(const Window &w, int a, s32 o) {
  const s32 start = o * w.stride[a] - w.begin[a];
  return start >= 0 ? 0 : (-start + w.dilation[a] - 1) / w.dilation[a];
}
DEVICE s32 last_tap(const Window &w, int a, s32 o) {
  const s32 room = w.in[a] - 1 - (o * w.stride[a] - w.begin[a]);
  if (room < 0) return 0;
  const s32 n = room / w.dilation[a] + 1;
  return n < w.kernel[a] ? n : w.kernel[a];
}

// counted is how many taps along axis a lie in the padding or inside: of the positions of a window that count with its padding.
DEVICE s32 counted(const Window &w, int a, s32 o) {
  const s32 room = w.in[a] + w.end[a] - 1 - (o * w.stride[a] - w.begin[a]); // the first lies in the padding or inside
  if (room < 0) return 0;
  const s32 n = room / w.dilation[a] + 1;
  return n < w.kernel[a] ? n : w.kernel[a];
}
