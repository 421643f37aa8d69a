// The arithmetic and index headers of the kernels, compiled for the host: reads requests from standard input and writes results.
//
// A request is five 32-bit numbers - what to compute, for which forms, how many cases, the bytes of the parameter and of its table -
// then parameter and table, an s64 and an s32 per case. The answer is an s32 per case.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../src/operators.cuh"
#include "../src/index.cuh"

enum { REQUANTIZE, REQUANTIZE_64, REQUANTIZE_ADD, ACCUMULATED, ACCUMULATED_ADD, QUANTIZE, DEQUANTIZE, RESCALE, SUM, PRODUCT, AVERAGE,
  AVERAGE_REAL, SOFTMAX, DIVIDE, WINDOW, HALF_SUM };

// SMALL are the forms of product_small.
enum { SMALL = 9 };

static void fail(const char *why) {
  fprintf(stderr, "host: %s\n", why);
  exit(1);
}

static void read(void *to, size_t bytes) {
  if (bytes && fread(to, 1, bytes, stdin) != bytes) fail("a request is cut off");
}

// Request is one of them. parameter<T> reads it as a T whose first field, where it is a pointer, is the table.
struct Request {
  u32 what, forms, n, bytes, table_bytes;
  std::vector<u64> parameter, table;
  std::vector<s64> a;
  std::vector<s32> b, out;

  template <typename T>
  T get(bool pointer) {
    if (bytes != sizeof(T)) fail("a parameter has another size than its struct");
    T p;
    memcpy((void *)&p, parameter.data(), sizeof p);
    const void *t = table.data();
    if (pointer) memcpy((void *)&p, &t, sizeof t);
    return p;
  }
};

template <int forms>
static void requantize_all(Request &r) {
  const Requantize p = r.get<Requantize>(true);
  const u32 channels = r.table_bytes / sizeof(Multiplier);
  for (u32 i = 0; i < r.n; i++) {
    const Multiplier k = p.multipliers[i % channels * p.step];
    switch (r.what) {
    case REQUANTIZE: r.out[i] = requantize<forms>(p.scaling, (s32)r.a[i], k); break;
    case REQUANTIZE_64: r.out[i] = requantize64<forms>(p.scaling, r.a[i], k); break;
    case REQUANTIZE_ADD: r.out[i] = requantize_add<forms>(p, r.a[i], k, r.b[i]); break;
    }
  }
}

// softmax computes rows of forms codes.
static void softmax(Request &r) {
  const Softmax p = r.get<Softmax>(true);
  for (u32 first = 0; first + r.forms <= r.n; first += r.forms) {
    const s32 *row = &r.b[first];
    s32 top = row[0], *out = &r.out[first];
    s64 sum = 0;
    f32 real = 0;
    for (u32 i = 0; i < r.forms; i++) top = max32(top, row[i]);
    for (u32 i = 0; i < r.forms; i++) {
      if (p.form == SOFTMAX_MLAS) real = real + bits_f32(softmax_exp(p, top - row[i]));
      else sum += softmax_term(p, top - row[i], softmax_exp(p, top - row[i]));
    }
    const SoftmaxRow all = softmax_row(p, sum);
    for (u32 i = 0; i < r.forms; i++) {
      const s32 d = top - row[i], e = softmax_exp(p, d);
      out[i] = p.form == SOFTMAX_MLAS ? softmax_real(p, e, real) : softmax_code(p, e, all);
    }
  }
}

// window gives, for output position a and tap b along axis forms, four times the input position, 2 where that lies in the padding or
// inside and 1 where the tap is among those counted.
static void window(Request &r) {
  const Window w = r.get<Window>(false);
  for (u32 i = 0; i < r.n; i++) {
    const s32 o = (s32)r.a[i], k = r.b[i], at = place(w, r.forms, o, k);
    const bool taken = k >= first_tap(w, r.forms, o) && k < last_tap(w, r.forms, o);
    if (taken != inside(w, r.forms, at)) fail("first_tap and last_tap disagree with inside");
    r.out[i] = at * 4 + 2 * padded(w, r.forms, at) + (k < counted(w, r.forms, o));
  }
}

static void compute(Request &r) {
  const auto each = [&](auto f) { for (u32 i = 0; i < r.n; i++) r.out[i] = f((s32)r.a[i], r.b[i]); };
  switch (r.what) {
  case REQUANTIZE:
  case REQUANTIZE_64:
  case REQUANTIZE_ADD:
    switch (r.forms) {
    case ONLY_SCALE: return requantize_all<ONLY_SCALE>(r);
    case ONLY_FLOAT: return requantize_all<ONLY_FLOAT>(r);
    case ONLY_FIXED: return requantize_all<ONLY_FIXED>(r);
    }
    return requantize_all<ANY_FORM>(r);
  case ACCUMULATED:
  case ACCUMULATED_ADD: {
    const Accumulated p = r.get<Accumulated>(true);
    const u32 channels = r.table_bytes / sizeof(Multiplier);
    for (u32 i = 0; i < r.n; i++) {
      const Multiplier k = p.multipliers[i % channels * p.step];
      r.out[i] = f32_bits(r.what == ACCUMULATED ? accumulated(p, r.a[i], k) : accumulated_add(p, r.a[i], k, r.b[i]));
    }
    return;
  }
  case QUANTIZE: {
    const Quantizer p = r.get<Quantizer>(false);
    if (r.forms) { // four at a time
      for (u32 i = 0; i + 4 <= r.n; i += 4) {
        const f32 x[4] = {bits_f32((s32)r.a[i]), bits_f32((s32)r.a[i + 1]), bits_f32((s32)r.a[i + 2]), bits_f32((s32)r.a[i + 3])};
        s32 code[4];
        quantize_some(p, x, code);
        memcpy(&r.out[i], code, sizeof code);
      }
      return;
    }
    return each([&](s32 a, s32) { return quantize(p, bits_f32(a)); });
  }
  case DEQUANTIZE: {
    const Quantizer p = r.get<Quantizer>(false);
    return each([&](s32 a, s32) { return f32_bits(dequantize(a, p.zero, p.scale)); });
  }
  case RESCALE: {
    const Rescale p = r.get<Rescale>(false);
    return each([&](s32 a, s32) { return rescale(p, a); });
  }
  case SUM: {
    const Sum p = r.get<Sum>(false);
    switch (r.forms * (p.form + 1)) {
    case SUM_FLOAT + 1: return each([&](s32 a, s32 b) { return sum_codes<SUM_FLOAT>(p, a, b); });
    case SUM_SHIFTED + 1: return each([&](s32 a, s32 b) { return sum_codes<SUM_SHIFTED>(p, a, b); });
    case SUM_EACH + 1: return each([&](s32 a, s32 b) { return sum_codes<SUM_EACH>(p, a, b); });
    case SUM_ALIGNED + 1: return each([&](s32 a, s32 b) { return sum_codes<SUM_ALIGNED>(p, a, b); });
    case SUM_FUSED + 1: return each([&](s32 a, s32 b) { return sum_codes<SUM_FUSED>(p, a, b); });
    }
    return each([&](s32 a, s32 b) { return sum_codes<-1>(p, a, b); });
  }
  case PRODUCT: {
    const Product p = r.get<Product>(false);
    switch (r.forms) {
    case SMALL: {
      if (p.scaling.form == DOUBLE_UP_AWAY) return each([&](s32 a, s32 b) { return product_small<DOUBLE_UP_AWAY>(p, a, b); });
      return each([&](s32 a, s32 b) { return product_small<SINGLE_UP>(p, a, b); });
    }
    case ONLY_FLOAT: return each([&](s32 a, s32 b) { return product_codes<ONLY_FLOAT>(p, a, b); });
    case ONLY_FIXED: return each([&](s32 a, s32 b) { return product_codes<ONLY_FIXED>(p, a, b); });
    }
    return each([&](s32 a, s32 b) { return product_codes<ANY_FORM>(p, a, b); });
  }
  case AVERAGE: { // a is the sum of b terms; without terms, a is a code and its term is the result
    const Average p = r.get<Average>(true);
    return each([&](s32 a, s32 b) { return b ? average_codes(p, a, b) : average_term(p, a); });
  }
  case AVERAGE_REAL: {
    const Average p = r.get<Average>(true);
    return each([&](s32 a, s32 b) { return average_real(p, bits_f32(a), b); });
  }
  case SOFTMAX: return softmax(r);
  case DIVIDE: {
    const Divisor p = r.get<Divisor>(false);
    return each([&](s32 a, s32) { return (s32)quotient((u32)a, p); });
  }
  case WINDOW: return window(r);
  case HALF_SUM: {
    const HalfSum p = r.get<HalfSum>(false);
    const s32 raised = r.forms;
    if (p.form == DOUBLE_UP_AWAY)
      return each([&](s32 a, s32 b) { return half_sum<DOUBLE_UP_AWAY>(p, a + raised, half_term(p, b, raised)); });
    return each([&](s32 a, s32 b) { return half_sum<SINGLE_UP>(p, a + raised, half_term(p, b, raised)); });
  }
  }
  fail("a request for something unknown");
}

int main() {
  Request r;
  while (fread(&r.what, 4, 1, stdin) == 1) {
    read(&r.forms, 16);
    r.parameter.assign(r.bytes / 8 + 1, 0);
    r.table.assign(r.table_bytes / 8 + 1, 0);
    r.a.resize(r.n), r.b.resize(r.n), r.out.assign(r.n, 0);
    read(r.parameter.data(), r.bytes);
    read(r.table.data(), r.table_bytes);
    read(r.a.data(), 8 * (size_t)r.n);
    read(r.b.data(), 4 * (size_t)r.n);
    compute(r);
    if (fwrite(r.out.data(), 4, r.n, stdout) != r.n || fflush(stdout)) fail("cannot write");
  }
}
