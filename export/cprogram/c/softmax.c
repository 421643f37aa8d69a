//! softmax_integer R X Y | quotient:$R limit
/* softmax of rows of n codes that stand inner apart: e holds exp by distance from the row's largest code */
struct softmax_$R {
    const int32_t *e;
    int64_t inverse;
    int32_t zero, lo, hi;
};

static void softmax_$R_$X_$Y(const struct softmax_$R *s, const @X *x, size_t outer, size_t n, size_t inner, @Y *y) {
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const @X *from = x + o * n * inner + i;
            @Y *to = y + o * n * inner + i;
            int64_t sum = 0;
            @X top = from[0];
            for (size_t k = 0; k < n; k++)
                top = from[k * inner] > top ? from[k * inner] : top;
            for (size_t k = 0; k < n; k++)
                sum += s->e[top - from[k * inner]];
            for (size_t k = 0; k < n; k++)
                to[k * inner] = (@Y)limit(quotient_$R(s->e[top - from[k * inner]] * s->inverse, 0, sum * 65536) + s->zero, s->lo, s->hi);
        }
}

//! softmax_float X Y | round:half_even
/* softmax of rows of n codes that stand inner apart: terms holds exp by distance from the row's largest code */
struct softmax_float {
    const float *terms;
    float per_output;
    int32_t zero, lo, hi;
};

static void softmax_float_$X_$Y(const struct softmax_float *s, const @X *x, size_t outer, size_t n, size_t inner, @Y *y) {
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const @X *from = x + o * n * inner + i;
            @Y *to = y + o * n * inner + i;
            float sum = 0;
            @X top = from[0];
            for (size_t k = 0; k < n; k++)
                top = from[k * inner] > top ? from[k * inner] : top;
            for (size_t k = 0; k < n; k++)
                sum += s->terms[top - from[k * inner]];
            for (size_t k = 0; k < n; k++)
                to[k * inner] = (@Y)round_half_even(s->terms[top - from[k * inner]] * s->per_output / sum, s->zero, s->lo, s->hi);
        }
}

//! exp_negative | high_mul divide_pow2 wrap
/* exp(a) in Q0.31 for a <= 0 in Q5.26 (gemmlowp): the part below a quarter by Taylor's series, the rest by a product of powers */
static int32_t exp_negative(int32_t a) {
    static const int32_t powers[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t quarter = 1 << 24, middle = 1895147668, third = 715827883;
    int32_t low, rest, x, x2, x3, x4, tail, result;
    if (a == 0)
        return INT32_MAX;
    low = (int32_t)((uint32_t)a & (uint32_t)(quarter - 1)) - quarter;
    x = low * 32 + (1 << 28);
    x2 = high_mul(x, x), x3 = high_mul(x2, x), x4 = high_mul(x2, x2);
    tail = divide_pow2(high_mul(divide_pow2(x4, 2) + x3, third) + x2, 1);
    result = middle + high_mul(middle, x + tail);
    rest = wrap((uint32_t)low - (uint32_t)a);
    for (int i = 0; i < 7; i++)
        if (rest & (quarter << i))
            result = high_mul(result, powers[i]);
    return result;
}

//! reciprocal | high_mul limit
/* 1/x in Q0.31 for x > 0 in Q12.19, shifted left by *over bits: Newton's method */
static int32_t reciprocal(int32_t x, int32_t *over) {
    const int32_t c48over17 = 1515870810, c32over17 = -1010580540, one = 1 << 29;
    int32_t lead = 0, fraction, half, y;
    while (((uint32_t)x << lead) <= INT32_MAX)
        lead++;
    fraction = (int32_t)(((uint32_t)x << lead) - UINT32_C(2147483648));
    half = (int32_t)(((int64_t)fraction + INT32_MAX + 1) / 2);
    y = c48over17 + high_mul(half, c32over17);
    for (int i = 0; i < 3; i++)
        y += limit((int64_t)high_mul(y, one - high_mul(half, y)) * 4, INT32_MIN, INT32_MAX);
    *over = 12 - lead;
    return limit((int64_t)y * 2, INT32_MIN, INT32_MAX);
}

//! softmax_fixed F X Y | scale_$F exp_negative reciprocal
/* softmax of rows of n codes that stand inner apart, in fixed point as TFLite's; codes more than radius below the largest count
   as 0 */
struct softmax_$F {
    struct multiplier m;
    int32_t radius, zero, lo, hi;
};

static void softmax_$F_$X_$Y(const struct softmax_$F *s, const @X *x, size_t outer, size_t n, size_t inner, @Y *y) {
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const @X *from = x + o * n * inner + i;
            @Y *to = y + o * n * inner + i;
            int32_t sum = 0, over, inverse;
            @X top = from[0];
            for (size_t k = 0; k < n; k++)
                top = from[k * inner] > top ? from[k * inner] : top;
            for (size_t k = 0; k < n; k++)
                if (top - from[k * inner] <= s->radius)
                    sum += divide_pow2(exp_negative(scale_$F(from[k * inner] - top, &s->m)), 12);
            inverse = reciprocal(sum, &over);
            for (size_t k = 0; k < n; k++) {
                int32_t v = 0;
                if (top - from[k * inner] <= s->radius && over <= 8) /* beyond it is below half a code */
                    v = divide_pow2(high_mul(inverse, exp_negative(scale_$F(from[k * inner] - top, &s->m))), over + 31 - 8);
                to[k * inner] = (@Y)limit((int64_t)v + s->zero, s->lo, s->hi);
            }
        }
}

//! square_root_64
/* integer part of the root of v, bit by bit */
static int64_t square_root_64(uint64_t v) {
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 62; bit > 0; bit >>= 2) {
        int fits = v >= root + bit;
        v -= fits ? root + bit : 0;
        root = (root >> 1) + (fits ? bit : 0);
    }
    return (int64_t)root;
}

//! norm_codes R X Y | quotient:$R round_shift:$R square_root_64 limit
/* normalization of rows of n codes; gain and offset have shift - 16 and shift fractional bits, the radicand has fraction */
struct norm_codes_$R {
    const int32_t *gain;
    const int64_t *offset;
    int64_t epsilon;
    int32_t least, fraction, shift, zero, lo, hi;
};

static void norm_codes_$R_$X_$Y(const struct norm_codes_$R *s, const @X *x, size_t rows, int64_t n, @Y *y) {
    for (; rows > 0; rows--, x += n, y += n) {
        int64_t sum = 0, squares = 0, v, root;
        int32_t left = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t d = x[i] - s->least;
            sum += d, squares += d * d;
        }
        v = (n * squares - sum * sum) * (INT64_C(1) << s->fraction) + s->epsilon;
        while (v != 0 && left < 31 && v * (INT64_C(1) << (2 * left)) < INT64_C(1) << 60)
            left++;
        root = square_root_64((uint64_t)v << (2 * left));
        for (int64_t i = 0; i < n; i++) {
            int64_t u = quotient_$R(n * ((int64_t)x[i] - s->least) - sum, left + s->fraction / 2 + 16, root > 0 ? root : 1);
            y[i] = (@Y)limit(round_shift_$R(u * s->gain[i] + s->offset[i], s->shift) + s->zero, s->lo, s->hi);
        }
    }
}
