// Codes in groups with a scale each: kernels/ref/groups.go on the device. Compiles as C++ for the host too.
#pragma once
#include "common.cuh"

// GroupMatrix is a matrix of codes in groups. Groups of size neighbours run on from row to row; scales has one entry for each. Codes of
// 4 bits lie in words of eight: the first four in the lower halves of the bytes, the others in the upper halves, each raised by 8.
struct GroupMatrix {
  const u8 *codes;
  const f32 *scales;
  s32 rows, cols, size, bits;
};

// word4 returns four codes of 4 bits, raised by 8: the first or the second half of a word of eight.
DEVICE u32 word4(u32 eight, s32 half) { return eight >> (4 * half) & 0x0f0f0f0fu; }

// code returns element i of m.
DEVICE s32 code(const GroupMatrix &m, s64 i) {
  if (m.bits == 8) return (s8)m.codes[i];
  return (s32)(m.codes[i / 8 * 4 + i % 4] >> (i % 8 / 4 * 4) & 15) - 8;
}

// group_term is what a sum of products adds to a product: each operation rounded.
DEVICE f32 group_term(s32 sum, f32 w, f32 x) { return (f32)sum * w * x; }

// group_code is round(v / scale), ties away from zero, between -127 and 127.
DEVICE s8 group_code(f32 v, f32 scale) {
  if (scale == 0.0f) return 0;
  const f32 q = v / scale;
  const f64 size = (f64)(q < 0.0f ? -q : q) + 0.5;
  const s32 c = size >= 127.0 ? 127 : (s32)size;
  return (s8)(q < 0.0f ? -c : c);
}
