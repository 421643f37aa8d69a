//! float_half_even
/* whether an integral q with the rest v - q moves up or down by one */
static int32_t float_half_even(int32_t q, float rest) {
    int odd = q % 2 != 0;
    return (rest > 0.5f || (rest == 0.5f && odd)) - (rest < -0.5f || (rest == -0.5f && odd));
}

//! float_half_up
/* whether an integral q with the rest v - q moves up or down by one */
static int32_t float_half_up(int32_t q, float rest) {
    (void)q;
    return (rest >= 0.5f) - (rest < -0.5f);
}

//! float_half_down
/* whether an integral q with the rest v - q moves up or down by one */
static int32_t float_half_down(int32_t q, float rest) {
    (void)q;
    return (rest > 0.5f) - (rest <= -0.5f);
}

//! float_half_towards_zero
/* whether an integral q with the rest v - q moves up or down by one */
static int32_t float_half_towards_zero(int32_t q, float rest) {
    (void)q;
    return (rest > 0.5f) - (rest < -0.5f);
}

//! float_half_away_from_zero
/* whether an integral q with the rest v - q moves up or down by one */
static int32_t float_half_away_from_zero(int32_t q, float rest) {
    (void)q;
    return (rest >= 0.5f) - (rest <= -0.5f);
}

//! float_up
/* whether an integral q with the rest v - q moves up by one */
static int32_t float_up(int32_t q, float rest) {
    (void)q;
    return rest > 0;
}

//! float_down
/* whether an integral q with the rest v - q moves down by one */
static int32_t float_down(int32_t q, float rest) {
    (void)q;
    return -(rest < 0);
}

//! round R | float_$R
/* v rounded to an integer, moved by zero and limited to [lo, hi]; what is not a number counts as 0 */
static int32_t round_$R(float v, int32_t zero, int32_t lo, int32_t hi) {
    int32_t q;
    if (v != v)
        v = 0;
    if (v <= -1073741824.0f)
        return lo;
    if (v >= 1073741824.0f)
        return hi;
    q = (int32_t)v;
    q += float_$R(q, v - (float)q) + zero;
    return q < lo ? lo : q > hi ? hi : q;
}

//! grid
/* codes in [lo, hi] stand for the real numbers (code - zero) * scale */
struct grid {
    float scale;
    int32_t zero, lo, hi;
};

//! dequantize | grid
static float dequantize(const struct grid *g, int32_t q) {
    return (float)(q - g->zero) * g->scale;
}

//! quantize R | grid round:$R
static int32_t quantize_$R(const struct grid *g, float x) {
    return round_$R(x / g->scale, g->zero, g->lo, g->hi);
}

//! quantize_reciprocal R | grid round:$R
/* scale holds 1/scale */
static int32_t quantize_reciprocal_$R(const struct grid *g, float x) {
    return round_$R(x * g->scale, g->zero, g->lo, g->hi);
}

//! quantize_all Q Y | grid
/* integers of real numbers */
static void $Q_$Y(const struct grid *g, const float *x, size_t n, @Y *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = (@Y)$Q(g, x[i]);
}

//! dequantize_all X | dequantize
/* real numbers of integers */
static void dequantize_$X(const struct grid *g, const @X *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = dequantize(g, x[i]);
}

//! bits64
union bits64 {
    double number;
    uint64_t bits;
};

//! fused | bits64
/* x * y + z rounded once. The product is exact in double; the sum is rounded to odd there, so that the second rounding is right. */
static float fused(float x, float y, float z) {
    double p = (double)x * y, c = z, s = p + c, t, e;
    union bits64 odd;
    if (s - s != 0 || s == 0)
        return (float)s;
    t = s - p;
    e = (p - (s - t)) + (c - t); /* what the sum has lost */
    odd.number = s;
    if (e != 0 && (odd.bits & 1) == 0) {
        if ((e > 0) == (s > 0))
            odd.bits++;
        else
            odd.bits--;
    }
    return (float)odd.number;
}
