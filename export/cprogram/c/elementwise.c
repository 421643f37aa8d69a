//! layout
/* A walk over a tensor of the given size, row-major: steps[k] is how far operand k moves along each axis, 0 where it is
   repeated. */
struct layout {
    int32_t rank, size[8], steps[3][8];
};

//! rows_of | layout
/* how many rows, along the last axis, a walk has */
static size_t rows_of(const struct layout *l) {
    size_t n = 1;
    for (int32_t a = 0; a + 1 < l->rank; a++)
        n *= (size_t)l->size[a];
    return n;
}

//! row_at | layout
/* where row i of operand k begins */
static size_t row_at(const struct layout *l, int k, size_t i) {
    size_t at = 0;
    for (int32_t a = l->rank - 2; a >= 0; a--) {
        at += i % (size_t)l->size[a] * (size_t)l->steps[k][a];
        i /= (size_t)l->size[a];
    }
    return at;
}

//! map S X Y
/* y = $S(x), element by element */
static void $S_$X_$Y(const struct $S *s, const @X *x, size_t n, @Y *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = (@Y)$S(s, x[i]);
}

//! join S X Y
/* one operand of a concatenation: blocks of n elements that begin stride apart in y */
static void join_$S_$X_$Y(const struct $S *s, const @X *x, size_t blocks, size_t n, @Y *y, size_t stride) {
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < n; i++)
            y[b * stride + i] = (@Y)$S(s, x[b * n + i]);
}

//! pairwise S A B Y | rows_of row_at
/* y = $S(a, b), element by element, with broadcasting */
static void $S_$A_$B_$Y(const struct $S *s, const struct layout *l, const @A *a, const @B *b, @Y *y) {
    const size_t n = (size_t)l->size[l->rank - 1], da = (size_t)l->steps[0][l->rank - 1], db = (size_t)l->steps[1][l->rank - 1];
    for (size_t r = 0; r < rows_of(l); r++) {
        const @A *ra = a + row_at(l, 0, r);
        const @B *rb = b + row_at(l, 1, r);
        for (size_t i = 0; i < n; i++)
            *y++ = (@Y)$S(s, ra[i * da], rb[i * db]);
    }
}

//! select S T A B Y | rows_of row_at
/* y = condition ? $S(a) : $T(b), element by element, with broadcasting */
static void select_$S_$T_$A_$B_$Y(const struct $S *s, const struct $T *t, const struct layout *l, const uint8_t *condition, const @A *a,
                                  const @B *b, @Y *y) {
    const int32_t last = l->rank - 1;
    for (size_t r = 0; r < rows_of(l); r++)
        for (size_t i = 0; i < (size_t)l->size[last]; i++)
            if (condition[row_at(l, 0, r) + i * (size_t)l->steps[0][last]])
                *y++ = (@Y)$S(s, a[row_at(l, 1, r) + i * (size_t)l->steps[1][last]]);
            else
                *y++ = (@Y)$T(t, b[row_at(l, 2, r) + i * (size_t)l->steps[2][last]]);
}

//! clamp
/* a code limited to [lo, hi] */
struct clamp {
    int32_t lo, hi;
};

static int32_t clamp(const struct clamp *s, int32_t q) {
    return q < s->lo ? s->lo : q > s->hi ? s->hi : q;
}

//! lines
/* The code on the line from entry 256 + x/128 to the next, half up, within [lo, hi]. Sums of entries wrap in 16 bits. */
static int32_t wrap16(int32_t v) {
    uint16_t u = (uint16_t)v;
    return u < 32768 ? u : (int32_t)u - 65536;
}

static void lines(const int16_t *table, int32_t lo, int32_t hi, const int16_t *x, size_t n, int16_t *y) {
    for (size_t i = 0; i < n; i++) {
        int32_t u = x[i] + 32768, base = table[u / 128], slope = wrap16(table[u / 128 + 1] - base);
        /* 2^23 keeps what is shifted positive. */
        int32_t v = wrap16(base + (((slope * (u % 128) + 64 + 8388608) >> 7) - 65536));
        y[i] = (int16_t)(v < lo ? lo : v > hi ? hi : v);
    }
}

//! table X Y
/* a function of single codes by its values, which are indexed by the code's bits */
static void table_$X_$Y(const @Y *table, const @X *x, size_t n, @Y *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = table[(@U)x[i]];
}

//! rescale_integer F | multiplier requantize_integer:$F
/* a code on another grid */
struct rescale_$F {
    int32_t zero;
    struct multiplier m;
    int32_t y_zero, lo, hi;
};

static int32_t rescale_$F(const struct rescale_$F *s, int32_t q) {
    return requantize_$F(q - s->zero, &s->m, s->y_zero, s->lo, s->hi);
}

//! rescale_eighth | limit shift_right
/* a code on another grid, by a factor in units of 2^-8 */
struct rescale_eighth {
    int32_t zero, factor, y_zero, lo, hi;
};

static int32_t rescale_eighth(const struct rescale_eighth *s, int32_t q) {
    return limit(shift_right((int64_t)(q - s->zero) * s->factor + 128, 8) + s->y_zero, s->lo, s->hi);
}

//! rescale_float Q | dequantize
/* a code on another grid, through a real number */
struct rescale_$Q {
    struct grid x, y;
};

static int32_t rescale_$Q(const struct rescale_$Q *s, int32_t q) {
    return $Q(&s->y, dequantize(&s->x, q));
}

//! add_float Q | dequantize
/* the sum or difference of two codes, through real numbers */
struct add_$Q {
    int32_t subtract;
    struct grid a, b, y;
};

static int32_t add_$Q(const struct add_$Q *s, int32_t a, int32_t b) {
    float u = dequantize(&s->a, a), v = dequantize(&s->b, b);
    return $Q(&s->y, s->subtract ? u - v : u + v);
}

//! add_shifted F | scale_$F limit wrap
/* the sum or difference of two codes: both on a fine common scale, 2^left times finer */
struct add_shifted_$F {
    int32_t subtract, left, a_zero, b_zero;
    struct multiplier a, b, y;
    int32_t zero, lo, hi;
};

static int32_t add_shifted_$F(const struct add_shifted_$F *s, int32_t a, int32_t b) {
    int32_t u = scale_$F((a - s->a_zero) * (1 << s->left), &s->a), v = scale_$F((b - s->b_zero) * (1 << s->left), &s->b);
    uint32_t sum = s->subtract ? (uint32_t)u - (uint32_t)v : (uint32_t)u + (uint32_t)v;
    return limit((int64_t)scale_$F(wrap(sum), &s->y) + s->zero, s->lo, s->hi);
}

//! add_each F | scale_$F limit
/* the sum or difference of two codes, each brought to the scale of the result */
struct add_each_$F {
    int32_t subtract, a_zero, b_zero;
    struct multiplier a, b;
    int32_t zero, lo, hi;
};

static int32_t add_each_$F(const struct add_each_$F *s, int32_t a, int32_t b) {
    int64_t u = scale_$F(a - s->a_zero, &s->a), v = scale_$F(b - s->b_zero, &s->b);
    return limit((s->subtract ? u - v : u + v) + s->zero, s->lo, s->hi);
}

//! add_aligned R | round_shift:$R limit
/* the sum or difference of two codes, exact on a common scale 2^right times finer than the result's, rounded once */
struct add_aligned_$R {
    int32_t subtract, right, a_zero, b_zero, a, b, zero, lo, hi;
};

static int32_t add_aligned_$R(const struct add_aligned_$R *s, int32_t a, int32_t b) {
    int64_t u = (int64_t)(a - s->a_zero) * s->a, v = (int64_t)(b - s->b_zero) * s->b;
    u = s->subtract ? u - v : u + v;
    if (s->right > 0)
        u = round_shift_$R(u, s->right);
    else
        u = limit(u, INT32_MIN, INT32_MAX) * (INT64_C(1) << -s->right);
    return limit(u + s->zero, s->lo, s->hi);
}

//! add_fused | fused round:half_even
/* the sum of two codes by two fused float operations; k holds the zero points */
struct add_fused {
    float a, b, k;
    int32_t lo, hi;
};

static int32_t add_fused(const struct add_fused *s, int32_t a, int32_t b) {
    return round_half_even(fused((float)a, s->a, fused((float)b, s->b, s->k)), 0, s->lo, s->hi);
}

//! mul_float Q | dequantize
/* the product of two codes, through real numbers */
struct mul_$Q {
    struct grid a, b, y;
};

static int32_t mul_$Q(const struct mul_$Q *s, int32_t a, int32_t b) {
    return $Q(&s->y, dequantize(&s->a, a) * dequantize(&s->b, b));
}

//! mul_scaled F M | wrap
/* the product of two codes, scaled */
struct mul_$F {
    int32_t a_zero, b_zero;
    struct $M m;
    int32_t zero, lo, hi;
};

static int32_t mul_$F(const struct mul_$F *s, int32_t a, int32_t b) {
    return requantize_$F(wrap((uint32_t)(a - s->a_zero) * (uint32_t)(b - s->b_zero)), &s->m, s->zero, s->lo, s->hi);
}

//! pick X
/* Elements by axis: element (i, j, ...) of y is the one of x at at[0][i] + at[1][j] + ...; a negative place stands for fill. */
static void pick_$X(int32_t rank, const int32_t *size, const int32_t *const *at, const @X *x, @X fill, @X *y) {
    size_t rows = 1;
    for (int32_t a = 0; a + 1 < rank; a++)
        rows *= (size_t)size[a];
    for (size_t r = 0; r < rows; r++) {
        size_t rest = r;
        int64_t begin = 0;
        int outside = 0;
        for (int32_t a = rank - 2; a >= 0; a--) {
            int32_t step = at[a][rest % (size_t)size[a]];
            begin += step;
            outside |= step < 0;
            rest /= (size_t)size[a];
        }
        for (int32_t i = 0; i < size[rank - 1]; i++)
            *y++ = outside || at[rank - 1][i] < 0 ? fill : x[begin + at[rank - 1][i]];
    }
}

//! extreme X D | rows_of row_at
/* the largest (smallest) element over some axes: of is the walk over the results, over that over the elements of each */
static void $D_$X(const struct layout *of, const struct layout *over, const @X *x, @X *y) {
    for (size_t r = 0; r < rows_of(of); r++)
        for (int32_t i = 0; i < of->size[of->rank - 1]; i++) {
            const @X *from = x + row_at(of, 0, r) + (size_t)i * (size_t)of->steps[0][of->rank - 1];
            @X best = *from;
            for (size_t k = 0; k < rows_of(over); k++)
                for (int32_t j = 0; j < over->size[over->rank - 1]; j++) {
                    const @X q = from[row_at(over, 0, k) + (size_t)j * (size_t)over->steps[0][over->rank - 1]];
                    if ($D_of(q, best))
                        best = q;
                }
            *y++ = best;
        }
}

//! largest
#define largest_of(a, b) ((a) > (b))

//! smallest
#define smallest_of(a, b) ((a) < (b))

//! gather X I | copy
/* y = the parts of x, inner elements each, that stand along an axis of n at the given indices; negative ones count from the end,
   and an index outside selects the nearest */
static void gather_$X_$I(size_t outer, int64_t n, size_t inner, size_t count, const @X *x, const @I *index, @X *y) {
    for (size_t o = 0; o < outer; o++)
        for (size_t k = 0; k < count; k++, y += inner) {
            int64_t i = index[k] < 0 ? index[k] + n : index[k];
            i = i < 0 ? 0 : i >= n ? n - 1 : i;
            copy(y, x + (o * (size_t)n + (size_t)i) * inner, inner * sizeof *y);
        }
}
