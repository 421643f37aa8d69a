// Instructions that products of 8-bit numbers are made of, and copies to shared memory that go past the registers.
#pragma once
#include "common.cuh"

typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef s32 s32x4 __attribute__((ext_vector_type(4)));

// dot4 adds four products of bytes to acc. Those of x are unsigned unless SIGNED, those of w are signed.
template <bool SIGNED>
DEVICE s32 dot4(u32 x, u32 w, s32 acc) {
#ifdef __CUDA__
  s32 d;
  if (SIGNED) {
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(w), "r"(acc));
  } else {
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(w), "r"(acc));
  }
  return d;
#else
  for (int i = 0; i < 32; i += 8) {
    const s32 a = SIGNED ? (s32)(s8)(x >> i) : (s32)(u8)(x >> i);
    acc += a * (s32)(s8)(w >> i);
  }
  return acc;
#endif
}

#ifdef __CUDA__

// exchange returns the v of the lane whose number differs by mask.
DEVICE s32 exchange(s32 v, s32 mask) {
  s32 r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=r"(r) : "r"(v), "r"(mask));
  return r;
}

// shared_address is where a variable in shared memory stands, as the instructions below want it.
DEVICE u32 shared_address(const void *p) { return (u32)(u64)(const __attribute__((address_space(3))) void *)p; }

#if __CUDA_ARCH__ >= 800

// copy16 copies 16 bytes from global to shared memory, later; copy16_kept keeps them in the L1 cache, for what is read again soon.
DEVICE void copy16(u32 to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
DEVICE void copy16_kept(u32 to, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
DEVICE void copy4(u32 to, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
// copies_end closes a group of copies; copies_wait waits until at most so many of the last groups are under way.
DEVICE void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT>
DEVICE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

// load_matrices reads four matrices of 8 rows of 16 bytes. Lane l gives the address of row l%8 of matrix l/8, and receives bytes
// 4*(l%4) to 4*(l%4)+3 of row l/4 of each.
DEVICE void load_matrices(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// multiply adds the product of a 16 x 32 and a 32 x 8 matrix of bytes to c. In lane l, a has of rows l/4, l/4+8, l/4, l/4+8 the
// columns 4*(l%4) and following, in the last two moved by 16; b of column l/4 the same rows; c the columns 2*(l%4) and following of
// row l/4, then of row l/4+8.
template <bool SIGNED>
DEVICE void multiply(s32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if (SIGNED) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

#endif
#endif
