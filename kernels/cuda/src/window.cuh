// The windows of convolutions over channels-last tensors: where they begin, and what lies inside. A matrix is a tensor of one line.
#pragma once
#include "index.cuh"

// Windows is the geometry but for the taps. Axes that a tensor does not have are 1 long.
struct Windows {
  Divisor out_w, out_h, out_d;
  s32 in_d, in_h, in_w;
  s32 stride_d, stride_h, stride_w;
  s32 begin_d, begin_h, begin_w; // padding in front
  s32 unused;
  s64 image, pitch; // bytes of an image, and between neighbouring positions
};

// Taps are the positions of a window.
struct Taps {
  s32 d, h, w;
  s32 dilation_d, dilation_h, dilation_w;
};

// Piece says where some neighbouring bytes of k come from: the position (z, y, x) in the window and a channel. The offset in bytes
// is from the window's first position.
struct Piece {
  s32 offset, z, y, x;
};

// Position is where the window of an output position begins.
struct Position {
  s64 offset; // in bytes; may be before the beginning
  s32 z, y, x;
};

// OutputPlace is an output position.
struct OutputPlace {
  s32 image, z, y, x;
};

DEVICE OutputPlace output_place(const Windows &w, s32 row) {
  const u32 line = quotient(row, w.out_w), plane = quotient(line, w.out_h);
  OutputPlace o;
  o.image = quotient(plane, w.out_d);
  o.x = row - line * w.out_w.by;
  o.y = line - plane * w.out_h.by;
  o.z = plane - o.image * w.out_d.by;
  return o;
}

DEVICE Position position(const Windows &w, s32 row) {
  const OutputPlace at = output_place(w, row);
  Position o;
  o.z = at.z * w.stride_d - w.begin_d;
  o.y = at.y * w.stride_h - w.begin_h;
  o.x = at.x * w.stride_w - w.begin_w;
  o.offset = at.image * w.image + (((s64)o.z * w.in_h + o.y) * w.in_w + o.x) * w.pitch;
  return o;
}

DEVICE bool inside(const Windows &w, s32 z, s32 y, s32 x) { return (u32)z < (u32)w.in_d && (u32)y < (u32)w.in_h && (u32)x < (u32)w.in_w; }

// spread_from finds the input position that tap k of a transposed convolution sends to output position o along an axis; false where
// there is none.
DEVICE bool spread_from(s32 &i, s32 o, s32 k, s32 stride, s32 begin, s32 dilation, s32 size) {
  const s32 at = o + begin - k * dilation;
  i = at / stride;
  return at >= 0 && i < size && i * stride == at;
}
