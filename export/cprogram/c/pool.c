//! max_pool X | window
/* the largest code of every window; padding does not take part, a window without input gives lowest */
static void max_pool_$X(const struct window *a, size_t planes, const @X *x, @X lowest, @X *y) {
    for (size_t n = 0; n < planes; n++, x += (size_t)a->in[0] * (size_t)a->in[1] * (size_t)a->in[2])
        for (int32_t i = 0; i < a->out[0]; i++)
            for (int32_t j = 0; j < a->out[1]; j++)
                for (int32_t k = 0; k < a->out[2]; k++) {
                    @X best = lowest;
                    for (int32_t kz = 0; kz < a->kernel[0]; kz++)
                        for (int32_t ky = 0; ky < a->kernel[1]; ky++)
                            for (int32_t kx = 0; kx < a->kernel[2]; kx++) {
                                const int32_t z = i * a->stride[0] - a->begin[0] + kz * a->dilation[0];
                                const int32_t v = j * a->stride[1] - a->begin[1] + ky * a->dilation[1];
                                const int32_t p = k * a->stride[2] - a->begin[2] + kx * a->dilation[2];
                                if (z < 0 || v < 0 || p < 0 || z >= a->in[0] || v >= a->in[1] || p >= a->in[2])
                                    continue;
                                const @X q = x[((size_t)z * (size_t)a->in[1] + (size_t)v) * (size_t)a->in[2] + (size_t)p];
                                best = q > best ? q : best;
                            }
                    *y++ = best;
                }
}

//! average_pool T X Y | window
/* the mean of every window; ways[n - first] is the arithmetic for n positions that count, of which with padded set those of the
   padding are */
static void $T_pool_$X_$Y(const struct window *a, const struct $T *ways, int32_t first, int padded, @Y empty, size_t planes, const @X *x, @Y *y) {
    for (size_t n = 0; n < planes; n++, x += (size_t)a->in[0] * (size_t)a->in[1] * (size_t)a->in[2])
        for (int32_t i = 0; i < a->out[0]; i++)
            for (int32_t j = 0; j < a->out[1]; j++)
                for (int32_t k = 0; k < a->out[2]; k++) {
                    int32_t inside = 0, count = 0;
                    $T_sum sum = 0;
                    for (int32_t kz = 0; kz < a->kernel[0]; kz++)
                        for (int32_t ky = 0; ky < a->kernel[1]; ky++)
                            for (int32_t kx = 0; kx < a->kernel[2]; kx++) {
                                const int32_t z = i * a->stride[0] - a->begin[0] + kz * a->dilation[0];
                                const int32_t v = j * a->stride[1] - a->begin[1] + ky * a->dilation[1];
                                const int32_t p = k * a->stride[2] - a->begin[2] + kx * a->dilation[2];
                                if (z >= 0 && v >= 0 && p >= 0 && z < a->in[0] && v < a->in[1] && p < a->in[2]) {
                                    sum += $T_term(ways, x[((size_t)z * (size_t)a->in[1] + (size_t)v) * (size_t)a->in[2] + (size_t)p]);
                                    inside++, count++;
                                } else if (padded && z >= -a->begin[0] && v >= -a->begin[1] && p >= -a->begin[2] &&
                                           z < a->in[0] + a->end[0] && v < a->in[1] + a->end[1] && p < a->in[2] + a->end[2])
                                    count++;
                            }
                    for (; inside < count; inside++)
                        sum += $T_term(ways, ways->x_zero);
                    *y++ = count ? (@Y)$T(&ways[count - first], sum) : empty;
                }
}

//! average T X Y | rows_of row_at
/* the mean over some axes: of is the walk over the results, over that over the elements of each */
static void $T_$X_$Y(const struct $T *way, const struct layout *of, const struct layout *over, const @X *x, @Y *y) {
    for (size_t r = 0; r < rows_of(of); r++)
        for (int32_t i = 0; i < of->size[of->rank - 1]; i++) {
            const @X *from = x + row_at(of, 0, r) + (size_t)i * (size_t)of->steps[0][of->rank - 1];
            $T_sum sum = 0;
            for (size_t k = 0; k < rows_of(over); k++)
                for (int32_t j = 0; j < over->size[over->rank - 1]; j++)
                    sum += $T_term(way, from[row_at(over, 0, k) + (size_t)j * (size_t)over->steps[0][over->rank - 1]]);
            *y++ = (@Y)$T(way, sum);
        }
}

//! average_scaled F M
/* the mean of codes: their sum, scaled */
struct average_$F {
    int32_t x_zero;
    struct $M m;
    int32_t zero, lo, hi;
};

typedef int32_t average_$F_sum;

static int32_t average_$F_term(const struct average_$F *s, int32_t q) {
    return q - s->x_zero;
}

static int32_t average_$F(const struct average_$F *s, int32_t sum) {
    return requantize_$F(sum, &s->m, s->zero, s->lo, s->hi);
}

//! average_float Q | grid
/* the mean of n codes, through real numbers */
struct average_$Q {
    int32_t x_zero, n;
    float scale;
    struct grid y;
};

typedef int32_t average_$Q_sum;

static int32_t average_$Q_term(const struct average_$Q *s, int32_t q) {
    return q - s->x_zero;
}

static int32_t average_$Q(const struct average_$Q *s, int32_t sum) {
    return $Q(&s->y, (float)sum * s->scale / (float)s->n);
}

//! average_same | limit wrap
/* the mean of n codes on one grid, rounded half away from zero */
struct average_same {
    int32_t x_zero, n, lo, hi;
};

typedef int32_t average_same_sum;

static int32_t average_same_term(const struct average_same *s, int32_t q) {
    return q - s->x_zero;
}

static int32_t average_same(const struct average_same *s, int32_t sum) {
    const int32_t raw = wrap((uint32_t)sum + (uint32_t)s->n * (uint32_t)s->x_zero), half = s->n / 2;
    return limit((raw > 0 ? raw + half : raw - half) / s->n, s->lo, s->hi);
}

//! average_each F | requantize_integer:$F limit
/* the mean of n codes: each is brought to the output's grid, the sum divided and truncated */
struct average_each_$F {
    int32_t x_zero, n;
    struct multiplier m;
    int32_t zero, lo, hi;
};

typedef int32_t average_each_$F_sum;

static int32_t average_each_$F_term(const struct average_each_$F *s, int32_t q) {
    return requantize_$F(q - s->x_zero, &s->m, s->zero, INT32_MIN, INT32_MAX);
}

static int32_t average_each_$F(const struct average_each_$F *s, int32_t sum) {
    return limit(sum / s->n, s->lo, s->hi);
}

//! average_exact R | quotient:$R limit
/* the mean of n codes times a power of two, rounded once */
struct average_exact_$R {
    int32_t x_zero, n, shift, zero, lo, hi;
};

typedef int32_t average_exact_$R_sum;

static int32_t average_exact_$R_term(const struct average_exact_$R *s, int32_t q) {
    return q - s->x_zero;
}

static int32_t average_exact_$R(const struct average_exact_$R *s, int32_t sum) {
    return limit(quotient_$R(sum, s->shift, s->n) + s->zero, s->lo, s->hi);
}

//! average_terms | dequantize round:half_even
/* the mean of n codes: their real numbers summed in order, the zero point inside the rounding */
struct average_terms {
    int32_t x_zero, n;
    struct grid x, y;
};

typedef float average_terms_sum;

static float average_terms_term(const struct average_terms *s, int32_t q) {
    return dequantize(&s->x, q);
}

static int32_t average_terms(const struct average_terms *s, float sum) {
    return round_half_even(sum / (float)s->n / s->y.scale + (float)s->y.zero, 0, s->y.lo, s->y.hi);
}

//! average_reals
/* the mean of n real numbers, summed in order */
struct average_reals {
    float x_zero, n;
};

typedef float average_reals_sum;

static float average_reals_term(const struct average_reals *s, float x) {
    (void)s;
    return x;
}

static float average_reals(const struct average_reals *s, float sum) {
    return sum / s->n;
}
