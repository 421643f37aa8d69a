// What every kernel source needs: qualifiers, indices, and the few operations that C++ has no name for. Code that uses nothing but
// this file compiles as C++ for the host too, where DEVICE functions are plain inline functions, and is tested there.
#pragma once

typedef signed char s8;
typedef unsigned char u8;
typedef short s16;
typedef unsigned short u16;
typedef int s32;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

#define INLINE inline __attribute__((always_inline))

#ifdef __CUDA__

#define DEVICE static INLINE __attribute__((device))
#define KERNEL extern "C" __attribute__((global)) void
#define SHARED __attribute__((shared))
#define BOUNDS(threads, blocks) __attribute__((launch_bounds(threads, blocks)))

DEVICE u32 thread_x() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 thread_y() { return __nvvm_read_ptx_sreg_tid_y(); }
DEVICE u32 block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE u32 block_z() { return __nvvm_read_ptx_sreg_ctaid_z(); }
DEVICE u32 threads_x() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE u32 blocks_x() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE void barrier() { __nvvm_bar_sync(0); }

// fma is one rounding of a*b + c.
DEVICE f32 fma(f32 a, f32 b, f32 c) { return __nvvm_fma_rn_f(a, b, c); }
// half_even rounds to an integral number, ties to even.
DEVICE f32 half_even(f32 x) { f32 y; asm("cvt.rni.f32.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }

#else

#define DEVICE static INLINE
DEVICE f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
DEVICE f32 half_even(f32 x) { return __builtin_rintf(x); }

#endif
