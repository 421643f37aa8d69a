// The peak of the instruction that Hopper has for products of matrices: what mma.sync reaches on it is less.
#include "common.cuh"

// A peak.cu Compute.
struct Compute {
  u32 *dst; // one word per thread
  u32 seed;
  u32 turns;
};

DEVICE u32 mix(u32 x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// descriptor names a matrix in shared memory, of rows of 128 bytes in the order that swizzling by 128 bytes gives; 8 rows are 1024
// bytes.
DEVICE u64 descriptor(u32 shared) { return (u64)(shared >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62; }

#define R4(i) "+r"(sum[i]), "+r"(sum[i + 1]), "+r"(sum[i + 2]), "+r"(sum[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)

// multiply adds 64x32 by 32x256 codes to the sums of a warpgroup.
DEVICE void multiply(s32 *sum, u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
      "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
      "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,"
      "%122,%123,%124,%125,%126,%127}, %128, %129, 1;"
      : R64(0), R64(64)
      : "l"(a), "l"(b));
}

// wgmma_s8 is two warpgroups, each with 64 rows of its own; the 256 columns are shared.
KERNEL BOUNDS(256, 1) wgmma_s8(Compute p) {
  static SHARED u32 memory[12 << 10] __attribute__((aligned(1024)));
  const u32 at = block_x() * threads_x() + thread_x();
  for (u32 i = thread_x(); i < 12 << 10; i += 256) memory[i] = mix(p.seed + i);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  barrier();
  const u32 base = (u32)(u64)(__attribute__((address_space(3))) u32 *)memory;
  const u64 a = descriptor(base + (thread_x() / 128) * 8192), b = descriptor(base + 16384);
  s32 sum[128];
#pragma unroll
  for (u32 i = 0; i < 128; i++) sum[i] = 0;
#pragma unroll 1
  for (u32 t = 0; t < p.turns; t++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (u32 i = 0; i < 16; i++) multiply(sum, a + (i % 4) * 2, b + (i % 4) * 2);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  s32 all = 0;
#pragma unroll
  for (u32 i = 0; i < 128; i++) all ^= sum[i];
  p.dst[at] = all;
}
