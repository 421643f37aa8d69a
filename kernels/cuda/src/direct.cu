// Sums of products of every kind, one thread for one output: any groups, one to three axes, transposed, activations of 8 or 16 bits,
// sums of 64 bits, pairs of products that saturate. What the other kernels leave. Neighbouring threads have neighbouring channels, also
// of different groups, so that what they read and write lies together.
#include "epilogue.cuh"
#include "window.cuh"

struct Direct {
  const void *x;
  const s32 *w; // [parts][taps][depth][n], less their zero points
  const Part *parts;
  s64 by_col;   // elements of x between channels; window counts elements too
  s32 rows, n, depth;
  Divisor width;   // of a row of all parts
  Divisor columns; // n
  s32 zero;     // of x
  s32 transposed;
  s32 saturating, raised; // pairs in 16 bits, of x + raised
  s32 wide;     // sums keep 64 bits
  Windows window;
  Taps taps;
  Epilogue epilogue;
};

// Pairs adds products two and two, each pair in 16 bits.
struct Pairs {
  s32 sum, first;
  bool odd;

  INLINE __attribute__((device)) void add(s32 product) {
    if (odd) {
      sum = add32(sum, clamp32(first + product, -32768, 32767));
    } else {
      first = product;
    }
    odd = !odd;
  }
};

template <typename X, typename Acc>
DEVICE void direct(const Direct &p) {
  const u32 at = block_x() * 256 + thread_x();
  const s32 row = quotient(at, p.width);
  if (row >= p.rows) return;
  const u32 rest = at - row * p.width.by, of = quotient(rest, p.columns);
  const s32 c = rest - of * p.columns.by;
  const Part part = p.parts[of];
  const X *x = (const X *)((const u8 *)p.x + part.x);
  const s32 *w = (const s32 *)((const u8 *)p.w + part.w) + c;
  const Windows &window = p.window;
  const OutputPlace o = output_place(window, row);
  const s64 image = o.image * window.image;
  Acc acc = 0;
  Pairs pairs = {0, 0, false};
  s32 weights = 0;
  for (s32 kz = 0; kz < p.taps.d; kz++) {
    for (s32 ky = 0; ky < p.taps.h; ky++) {
      for (s32 kx = 0; kx < p.taps.w; kx++, w += (s64)p.depth * p.n) {
        s32 z, y, xx;
        bool there;
        if (p.transposed) {
          there = spread_from(z, o.z, kz, window.stride_d, window.begin_d, p.taps.dilation_d, window.in_d);
          there = spread_from(y, o.y, ky, window.stride_h, window.begin_h, p.taps.dilation_h, window.in_h) && there;
          there = spread_from(xx, o.x, kx, window.stride_w, window.begin_w, p.taps.dilation_w, window.in_w) && there;
        } else {
          z = o.z * window.stride_d - window.begin_d + kz * p.taps.dilation_d;
          y = o.y * window.stride_h - window.begin_h + ky * p.taps.dilation_h;
          xx = o.x * window.stride_w - window.begin_w + kx * p.taps.dilation_w;
          there = inside(window, z, y, xx);
        }
        const X *from = x + image + (((s64)z * window.in_h + y) * window.in_w + xx) * window.pitch;
        if (p.saturating) {
          for (s32 i = 0; i < p.depth; i++) {
            const s32 v = there ? (s32)from[i * p.by_col] : p.zero, q = w[(s64)i * p.n];
            pairs.add((v + p.raised) * q);
            weights = add32(weights, q);
          }
        } else if (there) {
          for (s32 i = 0; i < p.depth; i++) acc += (Acc)((s32)from[i * p.by_col] - p.zero) * (Acc)w[(s64)i * p.n];
        }
      }
    }
  }
  const Epilogue e = own(p.epilogue, part, 0);
  const Channels<1> channel = channels_of<1>(e, part, c);
  if (p.saturating) {
    if (pairs.odd) pairs.add(0);
    finish(e, channel, row, sub32(pairs.sum, mul32(p.zero + p.raised, weights)));
  } else if (p.wide) {
    finish(e, channel, row, (s64)acc);
  } else {
    finish(e, channel, row, (s32)acc);
  }
}

KERNEL BOUNDS(256, 4) direct_s8(Direct p) { direct<s8, u32>(p); }
KERNEL BOUNDS(256, 4) direct_u8(Direct p) { direct<u8, u32>(p); }
KERNEL BOUNDS(256, 3) direct_s16(Direct p) { direct<s16, s64>(p); }
KERNEL BOUNDS(256, 3) direct_u16(Direct p) { direct<u16, s64>(p); }
