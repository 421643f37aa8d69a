//! mul_shift
/* x * m / 2^n for 0 <= m < 2^31 and n in [1, 62], exact, rounded half up, or half away from zero if away is set; saturating */
static int64_t mul_shift(int64_t x, int32_t m, int32_t n, int away) {
    const uint64_t magnitude = x < 0 ? 0 - (uint64_t)x : (uint64_t)x, half = (UINT64_C(1) << (n - 1)) - (x < 0 && !away);
    const uint64_t upper = (magnitude >> 32) * (uint32_t)m;
    uint64_t low = (magnitude & UINT32_MAX) * (uint32_t)m, high = upper >> 32, q;
    low += upper << 32, high += low < upper << 32;
    low += half, high += low < half;
    q = high >> n != 0 ? UINT64_MAX : high << (64 - n) | low >> n;
    q = q > INT64_MAX ? INT64_MAX : q;
    return x < 0 ? -(int64_t)q : (int64_t)q;
}

//! scale_wide_single_up | multiplier mul_shift
/* acc times a factor, whose multiplier is rounded to 15 bits; one rounding, half up */
static int64_t scale_wide_single_up(int64_t acc, const struct multiplier *f) {
    const int32_t reduced = f->m < 0x7fff0000 ? (f->m + (1 << 15)) >> 16 : 0x7fff;
    return mul_shift(acc, reduced, 15 - f->shift, 0);
}

//! scale_wide_double_up_away | scale_wide_single_up
/* the same: of sums of 64 bits there is one form */
static int64_t scale_wide_double_up_away(int64_t acc, const struct multiplier *f) {
    return scale_wide_single_up(acc, f);
}

//! scale_wide_double_up_up | multiplier mul_shift shift_right
/* acc times a factor, rounded half up, then a shift rounded half up */
static int64_t scale_wide_double_up_up(int64_t acc, const struct multiplier *f) {
    if (f->shift >= 0)
        return mul_shift(acc * (INT64_C(1) << f->shift), f->m, 31, 0);
    return shift_right(mul_shift(acc, f->m, 31, 0) + (INT64_C(1) << (-f->shift - 1)), -f->shift);
}

//! scale_wide_single_up_shift | multiplier mul_shift
/* acc times a factor, rounded once, half up */
static int64_t scale_wide_single_up_shift(int64_t acc, const struct multiplier *f) {
    return mul_shift(acc, f->m, 31 - f->shift, 0);
}

//! scale_wide_single_away | multiplier mul_shift
/* acc times a factor, rounded once, half away from zero */
static int64_t scale_wide_single_away(int64_t acc, const struct multiplier *f) {
    return mul_shift(acc, f->m, 31 - f->shift, 1);
}

//! scale_wide_shift_only R | multiplier round_shift:$R
/* acc * 2^(shift-1), rounded once, saturating */
static int64_t scale_wide_shift_only_$R(int64_t acc, const struct multiplier *f) {
    const int32_t n = f->shift - 1;
    if (n < 0)
        return round_shift_$R(acc, -n);
    if (acc > INT64_MAX >> n || acc < -(INT64_MAX >> n))
        return acc < 0 ? -INT64_MAX : INT64_MAX;
    return acc * (INT64_C(1) << n);
}

//! scale_wide_single_any R | multiplier up_$R
/* acc times a factor, rounded once in 128 bits, saturating */
static int64_t scale_wide_single_any_$R(int64_t acc, const struct multiplier *f) {
    const int32_t n = 31 - f->shift;
    const uint64_t magnitude = acc < 0 ? 0 - (uint64_t)acc : (uint64_t)acc, upper = (magnitude >> 32) * (uint32_t)f->m;
    uint64_t low = (magnitude & UINT32_MAX) * (uint32_t)f->m, high = upper >> 32;
    int64_t q, rest;
    low += upper << 32, high += low < upper << 32;
    if (high >> n != 0 || (high << (64 - n) | low >> n) > INT64_MAX - 1)
        return acc < 0 ? INT64_MIN : INT64_MAX;
    q = (int64_t)(high << (64 - n) | low >> n), rest = (int64_t)(low & ((UINT64_C(1) << n) - 1));
    if (acc < 0) {
        q = -q;
        if (rest != 0)
            q--, rest = (INT64_C(1) << n) - rest;
    }
    return q + (rest != 0 && up_$R(q, acc < 0, rest, INT64_C(1) << (n - 1)));
}

//! requantize_wide_integer F | multiplier scale_wide_$F limit
/* the code of an accumulator of 64 bits, limited before the zero point is added */
static int32_t requantize_wide_$F(int64_t acc, const struct multiplier *f, int32_t zero, int32_t lo, int32_t hi) {
    return limit(scale_wide_$F(acc, f), lo - zero, hi - zero) + zero;
}
