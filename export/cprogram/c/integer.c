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

//! high_mul
/* a * b / 2^31 rounded half up, saturating: gemmlowp's SaturatingRoundingDoublingHighMul */
static int32_t high_mul(int32_t a, int32_t b) {
    int64_t ab = (int64_t)a * b;
    if (a == INT32_MIN && b == INT32_MIN)
        return INT32_MAX;
    return (int32_t)((ab + (ab < 0 ? 1 - (1 << 30) : 1 << 30)) / INT64_C(2147483648));
}

//! divide_pow2 | shift_right
/* x / 2^n rounded half away from zero: gemmlowp's RoundingDivideByPOT */
static int32_t divide_pow2(int32_t x, int32_t n) {
    int64_t floor = shift_right(x, n), one = INT64_C(1) << n, rest = x - floor * one;
    return (int32_t)(floor + (rest > (one - 1) / 2 + (x < 0)));
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
