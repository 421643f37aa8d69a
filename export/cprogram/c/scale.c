//! multiplier
/* the factor m * 2^(shift-31) */
struct multiplier {
    int32_t m, shift;
};

//! scale_double_up_away | multiplier high_mul divide_pow2 shift_left
/* acc times a factor: a doubling high product rounded half up, then a shift rounded half away from zero */
static int32_t scale_double_up_away(int32_t acc, const struct multiplier *f) {
    if (f->shift > 0)
        return high_mul(shift_left(acc, f->shift), f->m);
    return divide_pow2(high_mul(acc, f->m), -f->shift);
}

//! scale_double_up_up | multiplier shift_right shift_left wrap
/* acc times a factor: a doubling high product rounded half up, then a shift rounded half up */
static int32_t scale_double_up_up(int32_t acc, const struct multiplier *f) {
    int64_t h;
    if (f->shift >= 0)
        return wrap((uint32_t)shift_right((int64_t)shift_left(acc, f->shift) * f->m + (1 << 30), 31));
    h = shift_right((int64_t)acc * f->m + (1 << 30), 31);
    return wrap((uint32_t)shift_right(h + (INT64_C(1) << (-f->shift - 1)), -f->shift));
}

//! scale_single_up | multiplier shift_right wrap
/* acc times a factor, rounded once, half up */
static int32_t scale_single_up(int32_t acc, const struct multiplier *f) {
    int32_t t = 31 - f->shift;
    return wrap((uint32_t)shift_right((int64_t)acc * f->m + (INT64_C(1) << (t - 1)), t));
}

//! scale_single_up_shift | scale_single_up shift_left wrap shift_right
/* acc times a factor, rounded once, half up; a power of two is a shift in 32 bits */
static int32_t scale_single_up_shift(int32_t acc, const struct multiplier *f) {
    int32_t k = f->shift - 1;
    if (f->m == 1 << 30 && k >= 0)
        return shift_left(acc, k);
    if (f->m == 1 << 30)
        return (int32_t)shift_right(wrap((uint32_t)acc + (UINT32_C(1) << (-k - 1))), -k);
    return scale_single_up(acc, f);
}

//! scale_single_away | multiplier shift_right wrap
/* acc times a factor, rounded once, half away from zero */
static int32_t scale_single_away(int32_t acc, const struct multiplier *f) {
    int32_t t = 31 - f->shift;
    int64_t v = (int64_t)acc * f->m;
    return wrap((uint32_t)shift_right(v + (INT64_C(1) << (t - 1)) - (v < 0), t));
}

//! scale_shift_only R | multiplier limit round_shift:$R
/* acc * 2^(shift-1), rounded once, saturating */
static int32_t scale_shift_only_$R(int32_t acc, const struct multiplier *f) {
    int32_t n = f->shift - 1;
    if (n >= 0)
        return limit(acc * (INT64_C(1) << (n < 31 ? n : 31)), INT32_MIN, INT32_MAX);
    return limit(round_shift_$R(acc, -n), INT32_MIN, INT32_MAX);
}

//! scale_single_any R | multiplier limit round_shift:$R
/* acc times a factor, rounded once, saturating */
static int32_t scale_single_any_$R(int32_t acc, const struct multiplier *f) {
    const int64_t v = (int64_t)acc * f->m;
    return limit(f->shift < 31 ? round_shift_$R(v, 31 - f->shift) : v, INT32_MIN, INT32_MAX);
}

//! requantize_integer F | multiplier scale_$F limit
/* the code of an accumulator */
static int32_t requantize_$F(int32_t acc, const struct multiplier *f, int32_t zero, int32_t lo, int32_t hi) {
    return limit((int64_t)scale_$F(acc, f) + zero, lo, hi);
}

//! factor
/* what makes a real number, in steps of the output, of an accumulator: acc * scale + bias, then divided or multiplied by out */
struct factor {
    float scale, bias, out;
};

//! requantize_float_after A R | factor round:$R
/* the code of an accumulator */
static int32_t requantize_$Afloat_after_$R(@A acc, const struct factor *f, int32_t zero, int32_t lo, int32_t hi) {
    return round_$R((float)acc * f->scale + f->bias, zero, lo, hi);
}

//! requantize_float_inside A R | factor round:half_even
/* the code of an accumulator, the zero point inside the rounding */
static int32_t requantize_$Afloat_inside_$R(@A acc, const struct factor *f, int32_t zero, int32_t lo, int32_t hi) {
    float v = (float)acc * f->scale + f->bias;
    return round_half_even(v + (float)zero, 0, lo, hi);
}

//! requantize_float_divide A R | factor round:$R
/* the code of an accumulator */
static int32_t requantize_$Afloat_divide_$R(@A acc, const struct factor *f, int32_t zero, int32_t lo, int32_t hi) {
    return round_$R(((float)acc * f->scale + f->bias) / f->out, zero, lo, hi);
}

//! requantize_float_twice A R | factor round:$R
/* the code of an accumulator; -128 does not occur */
static int32_t requantize_$Afloat_twice_$R(@A acc, const struct factor *f, int32_t zero, int32_t lo, int32_t hi) {
    return round_$R(((float)acc * f->scale + f->bias) * f->out, zero, lo > -127 ? lo : -127, hi);
}

//! skip
/* a residual: its codes, and what one step of them is in the unit of the accumulator's real number */
struct skip {
    float scale;
    int32_t zero;
};

//! add_float_after A R | factor skip round:$R
/* the code of an accumulator and a residual q */
static int32_t add_$Afloat_after_$R(@A acc, const struct factor *f, int32_t q, const struct skip *s, int32_t zero, int32_t lo, int32_t hi) {
    float v = (float)acc * f->scale + f->bias, r = (float)(q - s->zero) * s->scale;
    return round_$R(v + r, zero, lo, hi);
}

//! add_float_divide A R | factor skip round:$R
/* the code of an accumulator and a residual q */
static int32_t add_$Afloat_divide_$R(@A acc, const struct factor *f, int32_t q, const struct skip *s, int32_t zero, int32_t lo, int32_t hi) {
    float v = (float)acc * f->scale + f->bias, r = (float)(q - s->zero) * s->scale;
    return round_$R((v + r) / f->out, zero, lo, hi);
}

//! add_float_twice A R | factor skip round:$R
/* the code of an accumulator and a residual q; -128 does not occur */
static int32_t add_$Afloat_twice_$R(@A acc, const struct factor *f, int32_t q, const struct skip *s, int32_t zero, int32_t lo, int32_t hi) {
    float v = (float)acc * f->scale + f->bias, r = (float)(q - s->zero) * s->scale;
    return round_$R((v + r) * f->out, zero, lo > -127 ? lo : -127, hi);
}
