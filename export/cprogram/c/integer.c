//! copy
/* n bytes to elsewhere: memcpy, which programs without a C library lack */
static void copy(void *to, const void *from, size_t n) {
    uint8_t *t = to;
    const uint8_t *f = from;
    for (size_t i = 0; i < n; i++)
        t[i] = f[i];
}

//! wrap
/* The low 32 bits of a sum or product as a signed number: the accumulators of the targets wrap, signed overflow is undefined in C. */
static int32_t wrap(uint32_t u) {
    return u <= INT32_MAX ? (int32_t)u : (int32_t)(u - (uint32_t)INT32_MAX - 1) + INT32_MIN;
}

//! limit
/* v limited to [lo, hi] */
static int32_t limit(int64_t v, int32_t lo, int32_t hi) {
    return v < lo ? lo : v > hi ? hi : (int32_t)v;
}

//! shift_right
/* x / 2^n rounded down; >> of negative numbers is left to the compiler by C */
static int64_t shift_right(int64_t x, int32_t n) {
    return x >= 0 ? x >> n : -1 - ((-1 - x) >> n);
}

//! shift_left | wrap
/* x * 2^n, the low 32 bits of it */
static int32_t shift_left(int32_t x, int32_t n) {
    return n > 31 ? 0 : wrap((uint32_t)x << n);
}

//! high_mul | wrap
/* a * b / 2^31 rounded half up, saturating: gemmlowp's SaturatingRoundingDoublingHighMul */
static int32_t high_mul(int32_t a, int32_t b) {
    int64_t ab = (int64_t)a * b;
    if (a == INT32_MIN && b == INT32_MIN)
        return INT32_MAX;
    return wrap((uint32_t)(((uint64_t)ab + (UINT64_C(1) << 30)) >> 31)); /* half up: the sign does not reach the 32 bits */
}

//! divide_pow2 | wrap
/* x / 2^n rounded half away from zero: gemmlowp's RoundingDivideByPOT */
static int32_t divide_pow2(int32_t x, int32_t n) {
    const uint32_t size = x < 0 ? 0 - (uint32_t)x : (uint32_t)x;
    const uint32_t q = n < 32 ? (size + ((UINT32_C(1) << n) >> 1)) >> n : n == 32 && size > INT32_MAX;
    return wrap(x < 0 ? 0 - q : q);
}

//! up_half_even
/* whether what lies rest above the integer q, half being half a step, is rounded up */
static int up_half_even(int64_t q, int negative, int64_t rest, int64_t half) {
    (void)negative;
    return rest > half || (rest == half && (q & 1) != 0);
}

//! up_half_up
/* whether what lies rest above the integer q, half being half a step, is rounded up */
static int up_half_up(int64_t q, int negative, int64_t rest, int64_t half) {
    (void)q, (void)negative;
    return rest >= half;
}

//! up_half_down
/* whether what lies rest above the integer q, half being half a step, is rounded up */
static int up_half_down(int64_t q, int negative, int64_t rest, int64_t half) {
    (void)q, (void)negative;
    return rest > half;
}

//! up_half_towards_zero
/* whether what lies rest above the integer q, half being half a step, is rounded up */
static int up_half_towards_zero(int64_t q, int negative, int64_t rest, int64_t half) {
    (void)q;
    return rest > half || (rest == half && negative);
}

//! up_half_away_from_zero
/* whether what lies rest above the integer q, half being half a step, is rounded up */
static int up_half_away_from_zero(int64_t q, int negative, int64_t rest, int64_t half) {
    (void)q;
    return rest > half || (rest == half && !negative);
}

//! up_up
/* whether what lies rest above the integer q is rounded up: whatever is not an integer */
static int up_up(int64_t q, int negative, int64_t rest, int64_t half) {
    (void)q, (void)negative, (void)half;
    return rest > 0;
}

//! up_down
/* whether what lies rest above the integer q is rounded up: nothing is */
static int up_down(int64_t q, int negative, int64_t rest, int64_t half) {
    (void)q, (void)negative, (void)rest, (void)half;
    return 0;
}

//! round_shift R | up_$R shift_right
/* x / 2^n rounded once, n in [1, 62] */
static int64_t round_shift_$R(int64_t x, int32_t n) {
    int64_t q = shift_right(x, n), rest = x - q * (INT64_C(1) << n);
    return q + (rest != 0 && up_$R(q, x < 0, rest, INT64_C(1) << (n - 1)));
}

//! quotient R | up_$R
/* x * 2^n / d rounded once */
static int64_t quotient_$R(int64_t x, int32_t n, int64_t d) {
    int64_t q, rest;
    if (n >= 0)
        x *= INT64_C(1) << n;
    else
        d *= INT64_C(1) << -n;
    q = x / d, rest = x - q * d;
    if (rest < 0)
        q--, rest += d;
    return q + (rest != 0 && up_$R(q, x < 0, 2 * rest, d));
}

//! nibble_i4
/* element i of integers of 4 bits, two in a byte, the first in the lower half */
static int32_t nibble_i4(const uint8_t *w, size_t i) {
    const int32_t q = w[i >> 1] >> (i & 1 ? 4 : 0) & 15;
    return q < 8 ? q : q - 16;
}

//! nibble_u4
/* element i of integers of 4 bits without sign, two in a byte, the first in the lower half */
static int32_t nibble_u4(const uint8_t *w, size_t i) {
    return w[i >> 1] >> (i & 1 ? 4 : 0) & 15;
}
