// Kernels that do nothing useful, as fast as the device can: what others are measured against.
#include "common.cuh"

struct Copy {
  const u32 *src;
  u32 *dst;
  u64 count; // of 16-byte pieces
};

typedef u32 u32x4 __attribute__((ext_vector_type(4)));

// copy moves 16 bytes per thread and turn.
KERNEL BOUNDS(256, 8) copy(Copy p) {
  const u64 step = (u64)threads_x() * blocks_x();
  for (u64 i = (u64)block_x() * threads_x() + thread_x(); i < p.count; i += step)
    ((u32x4 *)p.dst)[i] = ((const u32x4 *)p.src)[i];
}
