// Kernels that compute nothing useful, as fast as the device can: what the others are measured against.
#include "common.cuh"

typedef u32 u32x4 __attribute__((ext_vector_type(4)));

// What a kernel runs on: its sums or its last word go to dst, so that no compiler leaves the work out.
struct Compute {
  u32 *dst; // one word per thread
  u32 seed; // of the operands
  u32 turns;
};

struct Move {
  const u32x4 *src;
  u32x4 *dst;
  u64 count; // of 16-byte pieces
};

DEVICE u32 index() { return block_x() * threads_x() + thread_x(); }

// mix makes operands of all bits: those of few bits would let the device run at a higher clock than real ones do.
DEVICE u32 mix(u32 x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

#if __CUDA_ARCH__ >= 800
// mma_s8 multiplies 16x32 by 32x8 codes in a warp, per turn as often as there are independent sums, and keeps operands in registers.
KERNEL BOUNDS(256, 2) mma_s8(Compute p) {
  const u32 first = mix(p.seed + index());
  u32 a[2][4], b[4][2];
  s32 sum[2][4][4] = {};
#pragma unroll
  for (u32 i = 0; i < 8; i++) a[i / 4][i % 4] = mix(first + i), b[i / 2][i % 2] = mix(first ^ i);
#pragma unroll 1
  for (u32 t = 0; t < p.turns; t++)
#pragma unroll
    for (u32 i = 0; i < 2; i++)
#pragma unroll
      for (u32 j = 0; j < 4; j++) {
        s32 *c = sum[i][j];
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                     : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
      }
  s32 all = 0;
#pragma unroll
  for (u32 i = 0; i < 32; i++) all ^= sum[i / 16][i / 4 % 4][i % 4];
  p.dst[index()] = all;
}
#endif

// dp4a adds products of 4 codes per thread and instruction.
KERNEL BOUNDS(256, 4) dp4a(Compute p) {
  const u32 first = mix(p.seed + index());
  s32 sum[16] = {};
#pragma unroll 1
  for (u32 t = 0; t < p.turns; t++) {
#pragma unroll
    for (u32 i = 0; i < 16; i++)
      asm volatile("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum[i]) : "r"(first), "r"(first + i));
  }
  s32 all = 0;
#pragma unroll
  for (u32 i = 0; i < 16; i++) all ^= sum[i];
  p.dst[index()] = all;
}

// fma_f32 multiplies and adds float32.
KERNEL BOUNDS(256, 4) fma_f32(Compute p) {
  const f32 x = (f32)(s32)(mix(p.seed + index()) >> 8) * 0x1p-24f; // below 1: sums stay finite
  f32 sum[16];
#pragma unroll
  for (u32 i = 0; i < 16; i++) sum[i] = x + (f32)i;
#pragma unroll 1
  for (u32 t = 0; t < p.turns; t++) {
#pragma unroll
    for (u32 i = 0; i < 16; i++) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(sum[i]) : "f"(x), "f"(1.0f));
  }
  f32 all = 0;
#pragma unroll
  for (u32 i = 0; i < 16; i++) all += sum[i];
  ((f32 *)p.dst)[index()] = all;
}

// copy reads and writes.
KERNEL BOUNDS(256, 4) copy(Move p) {
  const u64 step = (u64)threads_x() * blocks_x();
  u64 i = index();
  for (; i + 3 * step < p.count; i += 4 * step) {
    const u32x4 a = p.src[i], b = p.src[i + step], c = p.src[i + 2 * step], d = p.src[i + 3 * step];
    p.dst[i] = a, p.dst[i + step] = b, p.dst[i + 2 * step] = c, p.dst[i + 3 * step] = d;
  }
  for (; i < p.count; i += step) p.dst[i] = p.src[i];
}

// read reads, and leaves one piece per thread in dst.
KERNEL BOUNDS(256, 4) read(Move p) {
  const u64 step = (u64)threads_x() * blocks_x();
  u64 i = index();
  u32x4 all = 0;
  for (; i + 3 * step < p.count; i += 4 * step) all ^= p.src[i] ^ p.src[i + step] ^ p.src[i + 2 * step] ^ p.src[i + 3 * step];
  for (; i < p.count; i += step) all ^= p.src[i];
  p.dst[index()] = all;
}

// write writes.
KERNEL BOUNDS(256, 4) write(Move p) {
  const u64 step = (u64)threads_x() * blocks_x();
  const u32x4 all = index();
  for (u64 i = index(); i < p.count; i += step) p.dst[i] = all;
}
