// Reading and writing codes of 8 and 16 bits, several at a time. A kernel is made for widths; whether codes are signed is said by a
// parameter: flip is the sign bit of a signed type and 0 of an unsigned one, and (u ^ flip) - flip the code of raw bits u.
#pragma once
#include "common.cuh"

typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

template <int BYTES> struct Raw;
template <> struct Raw<1> { typedef u8 type; };
template <> struct Raw<2> { typedef u16 type; };
template <> struct Raw<4> { typedef u32 type; };
template <> struct Raw<8> { typedef u64 type; };

// first is the first piece of work of this thread, all the distance to its next.
DEVICE u32 first_piece() { return block_x() * threads_x() + thread_x(); }
DEVICE u32 all_pieces() { return blocks_x() * threads_x(); }

// load_words reads 1, 2, 4 or 8 words, aligned to 16 bytes or their size.
template <int WORDS>
DEVICE void load_words(u32 (&w)[WORDS], const void *p) {
  if constexpr (WORDS == 1) {
    w[0] = *(const u32 *)p;
  } else if constexpr (WORDS == 2) {
    const u32x2 v = *(const u32x2 *)p;
    w[0] = v.x, w[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < WORDS; i += 4) {
      const u32x4 v = ((const u32x4 *)p)[i / 4];
      w[i] = v.x, w[i + 1] = v.y, w[i + 2] = v.z, w[i + 3] = v.w;
    }
  }
}

template <int WORDS>
DEVICE void store_words(void *p, const u32 (&w)[WORDS]) {
  if constexpr (WORDS == 1) {
    *(u32 *)p = w[0];
  } else if constexpr (WORDS == 2) {
    *(u32x2 *)p = (u32x2){w[0], w[1]};
  } else {
#pragma unroll
    for (int i = 0; i < WORDS; i += 4) ((u32x4 *)p)[i / 4] = (u32x4){w[i], w[i + 1], w[i + 2], w[i + 3]};
  }
}

// code_at is element i; set_code writes it.
template <int BYTES>
DEVICE s32 code_at(const void *p, s64 i, u32 flip) {
  return (s32)(((const typename Raw<BYTES>::type *)p)[i] ^ flip) - (s32)flip;
}
template <int BYTES>
DEVICE void set_code(void *p, s64 i, s32 q) { ((typename Raw<BYTES>::type *)p)[i] = (typename Raw<BYTES>::type)q; }

// code_of and set_code_of are the same for codes of a width that is said by a parameter.
DEVICE s32 code_of(const void *p, s64 i, s32 bytes, u32 flip) { return bytes == 1 ? code_at<1>(p, i, flip) : code_at<2>(p, i, flip); }
DEVICE void set_code_of(void *p, s64 i, s32 bytes, s32 q) {
  if (bytes == 1) set_code<1>(p, i, q); else set_code<2>(p, i, q);
}

// load_codes reads N codes from element i on, store_codes writes them; i is a multiple of N and the memory is aligned, but for N = 1.
// load_raised reads codes plus flip, which are not negative and cost less.
template <int BYTES, int N>
DEVICE void load_raised(s32 (&q)[N], const void *p, s64 i, u32 flip) {
  if constexpr (N == 1) {
    q[0] = code_at<BYTES>(p, i, flip) + (s32)flip;
  } else {
    constexpr int EACH = 4 / BYTES;
    u32 w[N / EACH];
    load_words(w, (const u8 *)p + i * BYTES);
#pragma unroll
    for (int k = 0; k < N / EACH; k++) {
      w[k] ^= flip * (BYTES == 1 ? 0x01010101u : 0x00010001u);
#pragma unroll
      for (int e = 0; e < EACH; e++) q[k * EACH + e] = (s32)(w[k] >> 8 * BYTES * e & (BYTES == 1 ? 0xffu : 0xffffu));
    }
  }
}
template <int BYTES, int N>
DEVICE void load_codes(s32 (&q)[N], const void *p, s64 i, u32 flip) {
  load_raised<BYTES>(q, p, i, flip);
#pragma unroll
  for (int k = 0; k < N; k++) q[k] -= (s32)flip;
}
template <int BYTES, int N>
DEVICE void store_codes(void *p, s64 i, const s32 (&q)[N]) {
  if constexpr (N == 1) {
    set_code<BYTES>(p, i, q[0]);
  } else {
    constexpr int EACH = 4 / BYTES;
    u32 w[N / EACH];
#pragma unroll
    for (int k = 0; k < N / EACH; k++) {
      w[k] = 0;
#pragma unroll
      for (int e = 0; e < EACH; e++) w[k] |= ((u32)q[k * EACH + e] & (BYTES == 1 ? 0xffu : 0xffffu)) << 8 * BYTES * e;
    }
    store_words((u8 *)p + i * BYTES, w);
  }
}
