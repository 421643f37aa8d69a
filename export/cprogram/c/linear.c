//! output A
/* What is made of accumulators: write takes n of them, of output channels first, first + step, ..., step being
   0 or 1, for the elements from at on. */
struct $Aoutput {
    void (*write)(const void *how, const @A *acc, size_t n, size_t first, size_t step, size_t at);
    const void *how;
};

//! write_all A | output:$A
static void write_$Aall(const struct $Aoutput *out, int outs, const u@A *acc, size_t n, size_t first, size_t step, size_t at) {
    for (int k = 0; k < outs; k++)
        out[k].write(out[k].how, (const @A *)acc, n, first, step, at);
}

//! codes | multiplier
/* codes of accumulators, by a multiplier for each of count channels */
struct codes {
    void *y;
    const struct multiplier *m;
    size_t count;
    int32_t zero, lo, hi;
};

//! write_codes A F Y | codes requantize_$Ainteger:$F
static void write_$A$F_$Y(const void *how, const @A *acc, size_t n, size_t first, size_t step, size_t at) {
    const struct codes *o = how;
    @Y *y = (@Y *)o->y + at;
    size_t c = first % o->count;
    for (size_t i = 0; i < n; i++) {
        y[i] = (@Y)requantize_$A$F(acc[i], &o->m[c], o->zero, o->lo, o->hi);
        c = c + step < o->count ? c + step : 0;
    }
}

//! float_codes | factor
/* codes of accumulators, by a factor for each of count channels */
struct float_codes {
    void *y;
    const struct factor *m;
    size_t count;
    int32_t zero, lo, hi;
};

//! write_float_codes A F Y | float_codes
static void write_$A$F_$Y(const void *how, const @A *acc, size_t n, size_t first, size_t step, size_t at) {
    const struct float_codes *o = how;
    @Y *y = (@Y *)o->y + at;
    size_t c = first % o->count;
    for (size_t i = 0; i < n; i++) {
        y[i] = (@Y)requantize_$A$F(acc[i], &o->m[c], o->zero, o->lo, o->hi);
        c = c + step < o->count ? c + step : 0;
    }
}

//! sum_codes | float_codes skip
/* codes of accumulators and of a residual, which is added before rounding */
struct sum_codes {
    struct float_codes to;
    const void *residual;
    struct skip skip;
};

//! write_sum_codes A F R Y | sum_codes
static void write_$F_$R_$Y(const void *how, const @A *acc, size_t n, size_t first, size_t step, size_t at) {
    const struct sum_codes *s = how;
    const struct float_codes *o = &s->to;
    const @R *r = (const @R *)s->residual + at;
    @Y *y = (@Y *)o->y + at;
    size_t c = first % o->count;
    for (size_t i = 0; i < n; i++) {
        y[i] = (@Y)$F(acc[i], &o->m[c], r[i], &s->skip, o->zero, o->lo, o->hi);
        c = c + step < o->count ? c + step : 0;
    }
}

//! reals
/* real numbers of accumulators, limited: acc * scale + bias by channel */
struct reals {
    float *y;
    const float *scale, *bias;
    size_t count;
    float lo, hi;
};

//! write_reals A | reals
static void write_$Areals(const void *how, const @A *acc, size_t n, size_t first, size_t step, size_t at) {
    const struct reals *o = how;
    for (size_t i = 0; i < n; i++) {
        size_t c = (first + i * step) % o->count;
        float v = (float)acc[i] * o->scale[c] + o->bias[c];
        v = v > o->lo ? v : o->lo;
        o->y[at + i] = v < o->hi ? v : o->hi;
    }
}

//! sum_reals | reals dequantize
/* real numbers of accumulators and of a residual */
struct sum_reals {
    struct reals to;
    const void *residual;
    struct grid grid;
};

//! write_sum_reals A R | sum_reals
static void write_$Asum_reals_$R(const void *how, const @A *acc, size_t n, size_t first, size_t step, size_t at) {
    const struct sum_reals *s = how;
    const struct reals *o = &s->to;
    const @R *r = (const @R *)s->residual + at;
    for (size_t i = 0; i < n; i++) {
        size_t c = (first + i * step) % o->count;
        float v = (float)acc[i] * o->scale[c] + o->bias[c];
        v += dequantize(&s->grid, r[i]);
        v = v > o->lo ? v : o->lo;
        o->y[at + i] = v < o->hi ? v : o->hi;
    }
}

//! window
/* A window that slides over three spatial axes; axes that a tensor does not have are 1 long. Padding lies in front of and behind
   the input; output position o reads o*stride - begin + k*dilation for tap k. */
struct window {
    int32_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
};

//! convolution | window
/* images of groups * depth channels become images of channels; bias and the zero points of weights may be absent */
struct convolution {
    struct window window;
    int32_t images, groups, depth, channels;
};

//! columns X P | convolution
/* What the windows of n output positions from at on see of the channels of a group, a column for each: channel after channel, tap after
   tap, without the zero point, and 0 for padding. */
static void columns_$X(const struct convolution *g, const @X *x, int32_t zx, size_t at, size_t n, @P *to) {
    const struct window *a = &g->window;
    const size_t width = (size_t)a->in[2], inside = (size_t)a->in[0] * (size_t)a->in[1] * width;
    const size_t across = (size_t)a->out[2], plane = (size_t)a->out[1] * across;
    const int point = a->kernel[0] == 1 && a->kernel[1] == 1 && a->kernel[2] == 1;
    int32_t i = (int32_t)(at / plane), j = (int32_t)(at % plane / across), k = (int32_t)(at % across);
    for (; n > 0; n--) {
        const int32_t z = i * a->stride[0] - a->begin[0], y = j * a->stride[1] - a->begin[1], p = k * a->stride[2] - a->begin[2];
        const int32_t end = p + (a->kernel[2] - 1) * a->dilation[2];
        const int whole = p >= 0 && end < a->in[2];
        const @X *image = x;
        if (point && whole && z >= 0 && z < a->in[0] && y >= 0 && y < a->in[1]) {
            const @X *from = x + ((size_t)z * (size_t)a->in[1] + (size_t)y) * width + p;
            for (int32_t c = 0; c < g->depth; c++, from += inside)
                *to++ = (@P)(*from - zx);
        } else
            for (int32_t c = 0; c < g->depth; c++, image += inside)
                for (int32_t kz = 0, v = z; kz < a->kernel[0]; kz++, v += a->dilation[0])
                    for (int32_t ky = 0, u = y; ky < a->kernel[1]; ky++, u += a->dilation[1]) {
                        const int within = v >= 0 && v < a->in[0] && u >= 0 && u < a->in[1];
                        const @X *row = within ? image + ((size_t)v * (size_t)a->in[1] + (size_t)u) * width : image;
                        if (within && whole)
                            for (int32_t t = p; t <= end; t += a->dilation[2])
                                *to++ = (@P)(row[t] - zx);
                        else
                            for (int32_t t = p; t <= end; t += a->dilation[2])
                                *to++ = (@P)(within && t >= 0 && t < a->in[2] ? row[t] - zx : 0);
                    }
        if (++k == a->out[2]) {
            k = 0;
            if (++j == a->out[1])
                j = 0, i++;
        }
    }
}

//! total P S
/* the sum of n elements */
static @S total_$P_$S(const @P *p, size_t n) {
    @S sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += (@S)p[k];
    return sum;
}

//! hot
/* what the time goes into: compilers have instructions for it, which gcc looks for from -O3 on */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#define HOT __attribute__((optimize("O3")))
#else
#define HOT
#endif

//! dot P W S | hot
/* the sum of products of a column with the n weights from first on */
HOT static @S dot_$P_$W_$S(const @P *p, const @W *w, size_t first, size_t n) {
    @S sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += (@S)p[k] * (@S)w[first + k];
    return sum;
}

//! dot_columns P W S | hot
/* dot for four columns, which lie behind each other: a weight is read once for all of them */
HOT static void dot_columns_$P_$W_$S(const @P *p, const @W *w, size_t first, size_t n, @S *sum) {
    const @P *q = p + n, *r = q + n, *s = r + n;
    @S a = 0, b = 0, c = 0, d = 0;
    for (size_t k = 0; k < n; k++) {
        const @S weight = (@S)w[first + k];
        a += weight * (@S)p[k];
        b += weight * (@S)q[k];
        c += weight * (@S)r[k];
        d += weight * (@S)s[k];
    }
    sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
}

//! dot_columns_i16_i8_i32 | hot
/* dot for four columns, which lie behind each other: a weight is read once for all of them. Processors of Arm with the DSP extension
   (Cortex-M4, M7, M33) multiply two and two in one instruction. */
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && !defined(__ARM_BIG_ENDIAN)
#include <arm_acle.h>

static int32_t two(const int16_t *p) {
    int32_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

static void dot_columns_i16_i8_i32(const int16_t *p, const int8_t *w, size_t first, size_t n, int32_t *sum) {
    const int16_t *q = p + n, *r = q + n, *s = r + n;
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (size_t k = 0; k < n - n % 4; k += 4) {
        uint32_t four, even, odd;
        int32_t low, high;
        __builtin_memcpy(&four, w + first + k, sizeof four);
        even = (uint32_t)__sxtb16((int32_t)four), odd = (uint32_t)__sxtb16((int32_t)(four >> 8 | four << 24));
        low = (int32_t)((even & 65535) | odd << 16), high = (int32_t)(even >> 16 | (odd & ~UINT32_C(65535)));
        a = __smlad(low, two(p + k), __smlad(high, two(p + k + 2), a));
        b = __smlad(low, two(q + k), __smlad(high, two(q + k + 2), b));
        c = __smlad(low, two(r + k), __smlad(high, two(r + k + 2), c));
        d = __smlad(low, two(s + k), __smlad(high, two(s + k + 2), d));
    }
    for (size_t k = n - n % 4; k < n; k++) {
        const int32_t weight = w[first + k];
        a += weight * p[k];
        b += weight * q[k];
        c += weight * r[k];
        d += weight * s[k];
    }
    sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
}
#else
HOT static void dot_columns_i16_i8_i32(const int16_t *p, const int8_t *w, size_t first, size_t n, int32_t *sum) {
    const int16_t *q = p + n, *r = q + n, *s = r + n;
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (size_t k = 0; k < n; k++) {
        const int32_t weight = (int32_t)w[first + k];
        a += weight * (int32_t)p[k];
        b += weight * (int32_t)q[k];
        c += weight * (int32_t)r[k];
        d += weight * (int32_t)s[k];
    }
    sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
}
#endif

//! dot_rows P W S | hot
/* dot for four rows of n weights from first on: an element of the column is read once for all of them */
HOT static void dot_rows_$P_$W_$S(const @P *p, const @W *w, size_t first, size_t n, @S *sum) {
    const size_t f = first, g = f + n, h = g + n, i = h + n;
    @S a = 0, b = 0, c = 0, d = 0;
    for (size_t k = 0; k < n; k++) {
        const @S left = (@S)p[k];
        a += left * (@S)w[f + k];
        b += left * (@S)w[g + k];
        c += left * (@S)w[h + k];
        d += left * (@S)w[i + k];
    }
    sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
}

//! conv A X P W S | columns:$X:$P total:$P:$S dot:$P:$W:$S dot_columns:$P:$W:$S write_all:$A
/* acc = bias + sum (x - zx) * (w - zw), for columns of a group at a time; padding adds nothing */
static void conv_$A$X_$W_$S(const struct convolution *g, const @X *x, int32_t zx, const @W *w, const int32_t *zw, const @A *bias, size_t most,
    @P *column, u@A *acc, const struct $Aoutput *out, int outs) {
    const struct window *a = &g->window;
    const size_t inside = (size_t)a->in[0] * (size_t)a->in[1] * (size_t)a->in[2];
    const size_t outside = (size_t)a->out[0] * (size_t)a->out[1] * (size_t)a->out[2];
    const size_t length = (size_t)g->depth * (size_t)a->kernel[0] * (size_t)a->kernel[1] * (size_t)a->kernel[2];
    const size_t parts = (size_t)g->images * (size_t)g->groups, channels = (size_t)g->channels, each = channels / (size_t)g->groups;
    for (size_t part = 0; part < parts; part++) {
        const @X *from = x + part * (size_t)g->depth * inside;
        for (size_t at = 0; at < outside; at += most) {
            const size_t n = outside - at < most ? outside - at : most;
            columns_$X(g, from, zx, at, n, column);
            for (size_t k = 0; k < each; k++) {
                const size_t m = part * each % channels + k;
                const u@A start = bias ? (u@A)bias[m] : 0;
                for (size_t i = 0; i < n - n % 4; i += 4) {
                    @S sum[4];
                    dot_columns_$P_$W_$S(column + i * length, w, m * length, length, sum);
                    for (size_t l = 0; l < 4; l++)
                        acc[i + l] = start + (u@A)sum[l];
                }
                for (size_t i = n - n % 4; i < n; i++)
                    acc[i] = start + (u@A)dot_$P_$W_$S(column + i * length, w, m * length, length);
                if (zw && zw[m] != 0)
                    for (size_t i = 0; i < n; i++)
                        acc[i] -= (u@A)zw[m] * (u@A)total_$P_$S(column + i * length, length);
                write_$Aall(out, outs, acc, n, m, 0, (part * each + k) * outside + at);
            }
        }
    }
}

//! span
/* the numbers [from, to) */
struct span {
    int32_t from, to;
};

//! taps_of | span
/* which of kernel taps, dilation apart, lie in an input of length in, where the first lies at at */
static struct span taps_of(int32_t in, int32_t kernel, int32_t dilation, int32_t at) {
    struct span s = {0, kernel};
    if (at < 0)
        s.from = (dilation - 1 - at) / dilation;
    if (at + (kernel - 1) * dilation >= in)
        s.to = at < in ? (in - 1 - at) / dilation + 1 : 0;
    return s;
}

//! conv_planes A X P W S | convolution taps_of write_all:$A
/* conv where every output channel reads one input channel; tap is for a kernel without its zero point, acc for a row of outputs */
static void conv_planes_$A$X_$W_$S(const struct convolution *g, const @X *x, int32_t zx, const @W *w, const int32_t *zw, const @A *bias, @P *tap,
    u@A *acc, const struct $Aoutput *out, int outs) {
    const struct window *a = &g->window;
    const size_t height = (size_t)a->in[1], width = (size_t)a->in[2], inside = (size_t)a->in[0] * height * width;
    const size_t taps = (size_t)a->kernel[0] * (size_t)a->kernel[1] * (size_t)a->kernel[2], across = (size_t)a->out[2];
    const size_t planes = (size_t)g->images * (size_t)g->channels, channels = (size_t)g->channels, each = channels / (size_t)g->groups;
    size_t at = 0;
    for (size_t n = 0; n < planes; n++) {
        const @X *plane = x + n / each * inside;
        const size_t m = n % channels, first = m * taps;
        const u@A start = bias ? (u@A)bias[m] : 0;
        for (size_t k = 0; k < taps; k++)
            tap[k] = (@P)(w[first + k] - (zw ? zw[m] : 0));
        for (int32_t i = 0; i < a->out[0]; i++)
            for (int32_t j = 0; j < a->out[1]; j++, at += across) {
                const int32_t z = i * a->stride[0] - a->begin[0], y = j * a->stride[1] - a->begin[1];
                const struct span in_z = taps_of(a->in[0], a->kernel[0], a->dilation[0], z);
                const struct span in_y = taps_of(a->in[1], a->kernel[1], a->dilation[1], y);
                int32_t p = -a->begin[2];
                for (size_t l = 0; l < across; l++, p += a->stride[2]) {
                    const struct span in_p = taps_of(a->in[2], a->kernel[2], a->dilation[2], p);
                    @S sum = 0;
                    for (int32_t kz = in_z.from; kz < in_z.to; kz++)
                        for (int32_t ky = in_y.from; ky < in_y.to; ky++) {
                            const size_t row = ((size_t)(z + kz * a->dilation[0]) * height + (size_t)(y + ky * a->dilation[1])) * width;
                            const @P *t = tap + (kz * a->kernel[1] + ky) * a->kernel[2];
                            for (int32_t kx = in_p.from; kx < in_p.to; kx++)
                                sum += (@S)t[kx] * (@S)(plane[row + (size_t)(p + kx * a->dilation[2])] - zx);
                        }
                    acc[l] = start + (u@A)sum;
                }
                write_$Aall(out, outs, acc, across, m, 0, at);
            }
    }
}

//! conv_transpose A X W | convolution write_all:$A
/* acc = bias + sum (x - zx) * (w - zw), a plane of one output channel at a time: every input is spread over the output. The
   weights are [input channels, output channels of a group, kernel]. */
static void conv_transpose_$A$X_$W(const struct convolution *g, const @X *x, int32_t zx, const @W *w, const int32_t *zw, const @A *bias,
                                 u@A *acc, const struct $Aoutput *out, int outs) {
    const struct window *a = &g->window;
    const size_t inside = (size_t)a->in[0] * (size_t)a->in[1] * (size_t)a->in[2], outside = (size_t)a->out[0] * (size_t)a->out[1] * (size_t)a->out[2];
    const size_t taps = (size_t)a->kernel[0] * (size_t)a->kernel[1] * (size_t)a->kernel[2];
    const int32_t per = g->channels / g->groups;
    for (int32_t n = 0; n < g->images; n++)
        for (int32_t m = 0; m < g->channels; m++) {
            for (size_t i = 0; i < outside; i++)
                acc[i] = bias ? (u@A)bias[m] : 0;
            for (int32_t c = 0; c < g->depth; c++) {
                const size_t channel = (size_t)(m / per) * (size_t)g->depth + (size_t)c;
                const @X *plane = x + ((size_t)n * (size_t)g->groups * (size_t)g->depth + channel) * inside;
                const size_t first = (channel * (size_t)per + (size_t)(m % per)) * taps;
                size_t k = 0;
                for (int32_t kz = 0; kz < a->kernel[0]; kz++)
                    for (int32_t ky = 0; ky < a->kernel[1]; ky++)
                        for (int32_t kx = 0; kx < a->kernel[2]; kx++, k++) {
                            const u@A weight = (u@A)(w[first + k] - (zw ? zw[m] : 0));
                            for (int32_t i = 0; i < a->in[0]; i++)
                                for (int32_t j = 0; j < a->in[1]; j++)
                                    for (int32_t l = 0; l < a->in[2]; l++) {
                                        const int32_t z = i * a->stride[0] + kz * a->dilation[0] - a->begin[0];
                                        const int32_t y = j * a->stride[1] + ky * a->dilation[1] - a->begin[1];
                                        const int32_t p = l * a->stride[2] + kx * a->dilation[2] - a->begin[2];
                                        if (z < 0 || y < 0 || p < 0 || z >= a->out[0] || y >= a->out[1] || p >= a->out[2])
                                            continue;
                                        acc[((size_t)z * (size_t)a->out[1] + (size_t)y) * (size_t)a->out[2] + (size_t)p] +=
                                            weight * (u@A)(plane[((size_t)i * (size_t)a->in[1] + (size_t)j) * (size_t)a->in[2] + (size_t)l] - zx);
                                    }
                        }
            }
            write_$Aall(out, outs, acc, outside, (size_t)m, 0, ((size_t)n * (size_t)g->channels + (size_t)m) * outside);
        }
}

//! pair
/* the sum of two products in 16 bits, saturating, as VPMADDUBSW adds them */
static uint32_t pair(int32_t a, int32_t b) {
    int32_t sum = a + b;
    return (uint32_t)(sum < -32768 ? -32768 : sum > 32767 ? 32767 : sum);
}

//! conv_saturating X | convolution pair write_all:
/* conv with the products of neighbours added by pair: tap by tap, channel after channel. up is added to codes to make them
   unsigned; padding is a code like others. */
static void conv_saturating_$X(const struct convolution *g, const @X *x, int32_t zx, int32_t up, const int8_t *w, const int32_t *bias,
                               uint32_t *acc, const struct output *out, int outs) {
    const struct window *a = &g->window;
    const size_t inside = (size_t)a->in[0] * (size_t)a->in[1] * (size_t)a->in[2], outside = (size_t)a->out[0] * (size_t)a->out[1] * (size_t)a->out[2];
    const size_t taps = (size_t)a->kernel[0] * (size_t)a->kernel[1] * (size_t)a->kernel[2];
    for (int32_t n = 0; n < g->images; n++)
        for (int32_t m = 0; m < g->channels; m++) {
            const int32_t group = m / (g->channels / g->groups);
            const @X *image = x + ((size_t)n * (size_t)g->groups + (size_t)group) * (size_t)g->depth * inside;
            const int8_t *own = w + (size_t)m * (size_t)g->depth * taps;
            for (size_t at = 0; at < outside; at++) {
                int32_t first = 0, half = 0;
                acc[at] = bias ? (uint32_t)bias[m] : 0;
                for (size_t t = 0; t < taps; t++) {
                    const int32_t kz = (int32_t)(t / ((size_t)a->kernel[1] * (size_t)a->kernel[2]));
                    const int32_t ky = (int32_t)(t / (size_t)a->kernel[2] % (size_t)a->kernel[1]), kx = (int32_t)(t % (size_t)a->kernel[2]);
                    const int32_t z = (int32_t)(at / ((size_t)a->out[1] * (size_t)a->out[2])) * a->stride[0] - a->begin[0] + kz * a->dilation[0];
                    const int32_t y = (int32_t)(at / (size_t)a->out[2] % (size_t)a->out[1]) * a->stride[1] - a->begin[1] + ky * a->dilation[1];
                    const int32_t p = (int32_t)(at % (size_t)a->out[2]) * a->stride[2] - a->begin[2] + kx * a->dilation[2];
                    const int in = z >= 0 && y >= 0 && p >= 0 && z < a->in[0] && y < a->in[1] && p < a->in[2];
                    for (int32_t c = 0; c < g->depth; c++) {
                        const int32_t q = in ? image[(size_t)c * inside + ((size_t)z * (size_t)a->in[1] + (size_t)y) * (size_t)a->in[2] + (size_t)p] : zx;
                        const int32_t weight = own[(size_t)c * taps + t], product = (q + up) * weight;
                        acc[at] -= (uint32_t)((zx + up) * weight);
                        if (half)
                            acc[at] += pair(first, product);
                        first = product, half = !half;
                    }
                }
                if (half)
                    acc[at] += pair(first, 0);
            }
            write_all(out, outs, acc, outside, (size_t)m, 0, ((size_t)n * (size_t)g->channels + (size_t)m) * outside);
        }
}

//! product
/* A stack of products of matrices, rows x depth by depth x columns; x_at and w_at say where the matrices of each product begin,
   NULL where there is one. */
struct product {
    int32_t stack, rows, depth, columns;
    int32_t x_row, x_column, w_row, w_column; /* distances of neighbours */
    const int32_t *x_at, *w_at;
    int32_t zeros; /* how many zero points the right factor has: none, one, or one for every column */
};

//! matmul_rows A X P W S | product total:$P:$S dot:$P:$W:$S dot_rows:$P:$W:$S write_all:$A
/* acc = bias + sum (x - zx) * (w - zw), row by row; the columns of the right factor lie as rows */
static void matmul_rows_$A$X_$W_$S(const struct product *g, const @X *x, int32_t zx, const @W *w, const int32_t *zw, const @A *bias,
    @P *column, u@A *acc, const struct $Aoutput *out, int outs) {
    const size_t depth = (size_t)g->depth, columns = (size_t)g->columns, rows = (size_t)g->rows;
    for (size_t s = 0; s < (size_t)g->stack; s++)
        for (size_t i = 0; i < rows; i++) {
            const @X *row = x + (g->x_at ? g->x_at[s] : 0) + i * (size_t)g->x_row;
            const size_t right = g->w_at ? (size_t)g->w_at[s] : 0;
            @S all = 0;
            for (size_t p = 0; p < depth; p++)
                column[p] = (@P)(row[p * (size_t)g->x_column] - zx);
            for (size_t j = 0; j < columns - columns % 4; j += 4) {
                @S sum[4];
                dot_rows_$P_$W_$S(column, w, right + j * depth, depth, sum);
                for (size_t l = 0; l < 4; l++)
                    acc[j + l] = (u@A)sum[l];
            }
            for (size_t j = columns - columns % 4; j < columns; j++)
                acc[j] = (u@A)dot_$P_$W_$S(column, w, right + j * depth, depth);
            if (g->zeros)
                all = total_$P_$S(column, depth);
            for (size_t j = 0; j < columns; j++)
                acc[j] += (bias ? (u@A)bias[j] : 0) - (g->zeros ? (u@A)zw[j % (size_t)g->zeros] * (u@A)all : 0);
            write_$Aall(out, outs, acc, columns, 0, 1, (s * rows + i) * columns);
        }
}

//! matmul A X W | product write_all:$A
/* acc = bias + sum (x - zx) * (w - zw), row by row */
static void matmul_$A$X_$W(const struct product *g, const @X *x, int32_t zx, const @W *w, const int32_t *zw, const @A *bias, u@A *acc,
    const struct $Aoutput *out, int outs) {
    const size_t columns = (size_t)g->columns, rows = (size_t)g->rows;
    for (size_t s = 0; s < (size_t)g->stack; s++)
        for (size_t i = 0; i < rows; i++) {
            const @X *row = x + (g->x_at ? g->x_at[s] : 0) + i * (size_t)g->x_row;
            const size_t right = g->w_at ? (size_t)g->w_at[s] : 0;
            u@A all = 0;
            for (size_t j = 0; j < columns; j++)
                acc[j] = bias ? (u@A)bias[j] : 0;
            for (size_t p = 0; p < (size_t)g->depth; p++) {
                const u@A left = (u@A)(row[p * (size_t)g->x_column] - zx);
                const size_t first = right + p * (size_t)g->w_row;
                all += left;
                for (size_t k = 0; k < columns; k++) {
                    const u@A weight = (u@A)w[first + k];
                    acc[k] += left * weight;
                }
            }
            if (g->zeros)
                for (size_t j = 0; j < columns; j++)
                    acc[j] -= (u@A)zw[j % (size_t)g->zeros] * all;
            write_$Aall(out, outs, acc, columns, 0, 1, (s * rows + i) * columns);
        }
}

//! matmul_saturating X | product pair write_all:
/* matmul with the products of neighbours added by pair; up is added to codes to make them unsigned */
static void matmul_saturating_$X(const struct product *g, const @X *x, int32_t zx, int32_t up, const int8_t *w, const int32_t *bias,
                                 uint32_t *acc, const struct output *out, int outs) {
    for (int32_t s = 0; s < g->stack; s++)
        for (int32_t i = 0; i < g->rows; i++) {
            const @X *row = x + (g->x_at ? g->x_at[s] : 0) + (size_t)i * (size_t)g->x_row;
            const int8_t *right = w + (g->w_at ? g->w_at[s] : 0);
            for (int32_t j = 0; j < g->columns; j++) {
                acc[j] = bias ? (uint32_t)bias[j] : 0;
                for (int32_t p = 0; p < g->depth; p += 2) {
                    int32_t product[2] = {0, 0};
                    for (int32_t k = 0; k < 2 && p + k < g->depth; k++) {
                        const int32_t weight = right[(size_t)(p + k) * (size_t)g->w_row + (size_t)j * (size_t)g->w_column];
                        product[k] = (row[(size_t)(p + k) * (size_t)g->x_column] + up) * weight;
                        acc[j] -= (uint32_t)((zx + up) * weight);
                    }
                    acc[j] += pair(product[0], product[1]);
                }
            }
            write_all(out, outs, acc, (size_t)g->columns, 0, 1, ((size_t)s * (size_t)g->rows + (size_t)i) * (size_t)g->columns);
        }
}
