//! output A
/* What is made of accumulators: write takes n of them, of output channels first, first + step, ..., for the elements from at on. */
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
    for (size_t i = 0; i < n; i++)
        y[i] = (@Y)requantize_$A$F(acc[i], &o->m[(first + i * step) % o->count], o->zero, o->lo, o->hi);
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
    for (size_t i = 0; i < n; i++)
        y[i] = (@Y)requantize_$A$F(acc[i], &o->m[(first + i * step) % o->count], o->zero, o->lo, o->hi);
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
    for (size_t i = 0; i < n; i++)
        y[i] = (@Y)$F(acc[i], &o->m[(first + i * step) % o->count], r[i], &s->skip, o->zero, o->lo, o->hi);
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

//! span
/* the output positions [from, to) whose position o*stride + offset lies in an input of length in */
struct span {
    int32_t from, to;
};

static struct span span_of(int32_t in, int32_t out, int32_t stride, int32_t offset) {
    struct span s = {0, 0};
    if (offset < 0)
        s.from = (stride - 1 - offset) / stride;
    if (offset < in)
        s.to = (in - 1 - offset) / stride + 1;
    s.to = s.to < out ? s.to : out;
    return s;
}

//! convolution | window
/* images of groups * depth channels become images of channels; bias and the zero points of weights may be absent */
struct convolution {
    struct window window;
    int32_t images, groups, depth, channels;
};

//! conv A X W | convolution span write_all:$A
/* acc = bias + sum (x - zx) * (w - zw), a plane of one output channel at a time; padding adds nothing */
static void conv_$A$X_$W(const struct convolution *g, const @X *x, int32_t zx, const @W *w, const int32_t *zw, const @A *bias,
                       u@A *acc, const struct $Aoutput *out, int outs) {
    const struct window *a = &g->window;
    const size_t inside = (size_t)a->in[0] * a->in[1] * a->in[2], outside = (size_t)a->out[0] * a->out[1] * a->out[2];
    for (int32_t n = 0; n < g->images; n++)
        for (int32_t m = 0; m < g->channels; m++) {
            const int32_t group = m / (g->channels / g->groups);
            const @X *plane = x + ((size_t)n * g->groups + group) * g->depth * inside;
            const @W *tap = w + (size_t)m * g->depth * a->kernel[0] * a->kernel[1] * a->kernel[2];
            for (size_t i = 0; i < outside; i++)
                acc[i] = bias ? (u@A)bias[m] : 0;
            for (int32_t c = 0; c < g->depth; c++, plane += inside)
                for (int32_t kz = 0; kz < a->kernel[0]; kz++)
                    for (int32_t ky = 0; ky < a->kernel[1]; ky++)
                        for (int32_t kx = 0; kx < a->kernel[2]; kx++) {
                            const u@A weight = (u@A)(*tap++ - (zw ? zw[m] : 0));
                            const int32_t oz = kz * a->dilation[0] - a->begin[0], oy = ky * a->dilation[1] - a->begin[1];
                            const int32_t ox = kx * a->dilation[2] - a->begin[2];
                            const struct span z = span_of(a->in[0], a->out[0], a->stride[0], oz);
                            const struct span y = span_of(a->in[1], a->out[1], a->stride[1], oy);
                            const struct span p = span_of(a->in[2], a->out[2], a->stride[2], ox);
                            for (int32_t i = z.from; i < z.to; i++)
                                for (int32_t j = y.from; j < y.to; j++) {
                                    const @X *row = plane + ((size_t)(i * a->stride[0] + oz) * a->in[1] + (j * a->stride[1] + oy)) * a->in[2];
                                    u@A *to = acc + ((size_t)i * a->out[1] + j) * a->out[2];
                                    for (int32_t k = p.from; k < p.to; k++)
                                        to[k] += weight * (u@A)(row[k * a->stride[2] + ox] - zx);
                                }
                        }
            write_$Aall(out, outs, acc, outside, (size_t)m, 0, ((size_t)n * g->channels + m) * outside);
        }
}

//! conv_transpose A X W | convolution write_all:$A
/* acc = bias + sum (x - zx) * (w - zw), a plane of one output channel at a time: every input is spread over the output. The
   weights are [input channels, output channels of a group, kernel]. */
static void conv_transpose_$A$X_$W(const struct convolution *g, const @X *x, int32_t zx, const @W *w, const int32_t *zw, const @A *bias,
                                 u@A *acc, const struct $Aoutput *out, int outs) {
    const struct window *a = &g->window;
    const size_t inside = (size_t)a->in[0] * a->in[1] * a->in[2], outside = (size_t)a->out[0] * a->out[1] * a->out[2];
    const size_t taps = (size_t)a->kernel[0] * a->kernel[1] * a->kernel[2];
    const int32_t per = g->channels / g->groups;
    for (int32_t n = 0; n < g->images; n++)
        for (int32_t m = 0; m < g->channels; m++) {
            for (size_t i = 0; i < outside; i++)
                acc[i] = bias ? (u@A)bias[m] : 0;
            for (int32_t c = 0; c < g->depth; c++) {
                const size_t channel = (size_t)(m / per) * g->depth + c;
                const @X *plane = x + ((size_t)n * g->groups * g->depth + channel) * inside;
                const @W *tap = w + (channel * per + m % per) * taps;
                for (int32_t kz = 0; kz < a->kernel[0]; kz++)
                    for (int32_t ky = 0; ky < a->kernel[1]; ky++)
                        for (int32_t kx = 0; kx < a->kernel[2]; kx++) {
                            const u@A weight = (u@A)(*tap++ - (zw ? zw[m] : 0));
                            for (int32_t i = 0; i < a->in[0]; i++)
                                for (int32_t j = 0; j < a->in[1]; j++)
                                    for (int32_t k = 0; k < a->in[2]; k++) {
                                        const int32_t z = i * a->stride[0] + kz * a->dilation[0] - a->begin[0];
                                        const int32_t y = j * a->stride[1] + ky * a->dilation[1] - a->begin[1];
                                        const int32_t p = k * a->stride[2] + kx * a->dilation[2] - a->begin[2];
                                        if (z < 0 || y < 0 || p < 0 || z >= a->out[0] || y >= a->out[1] || p >= a->out[2])
                                            continue;
                                        acc[((size_t)z * a->out[1] + y) * a->out[2] + p] +=
                                            weight * (u@A)(plane[((size_t)i * a->in[1] + j) * a->in[2] + k] - zx);
                                    }
                        }
            }
            write_$Aall(out, outs, acc, outside, (size_t)m, 0, ((size_t)n * g->channels + m) * outside);
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
    const size_t inside = (size_t)a->in[0] * a->in[1] * a->in[2], outside = (size_t)a->out[0] * a->out[1] * a->out[2];
    const size_t taps = (size_t)a->kernel[0] * a->kernel[1] * a->kernel[2];
    for (int32_t n = 0; n < g->images; n++)
        for (int32_t m = 0; m < g->channels; m++) {
            const int32_t group = m / (g->channels / g->groups);
            const @X *image = x + ((size_t)n * g->groups + group) * g->depth * inside;
            const int8_t *own = w + (size_t)m * g->depth * taps;
            for (size_t at = 0; at < outside; at++) {
                int32_t first = 0, half = 0;
                acc[at] = bias ? (uint32_t)bias[m] : 0;
                for (size_t t = 0; t < taps; t++) {
                    const int32_t kz = (int32_t)(t / ((size_t)a->kernel[1] * a->kernel[2]));
                    const int32_t ky = (int32_t)(t / a->kernel[2] % a->kernel[1]), kx = (int32_t)(t % a->kernel[2]);
                    const int32_t z = (int32_t)(at / ((size_t)a->out[1] * a->out[2])) * a->stride[0] - a->begin[0] + kz * a->dilation[0];
                    const int32_t y = (int32_t)(at / a->out[2] % a->out[1]) * a->stride[1] - a->begin[1] + ky * a->dilation[1];
                    const int32_t p = (int32_t)(at % a->out[2]) * a->stride[2] - a->begin[2] + kx * a->dilation[2];
                    const int in = z >= 0 && y >= 0 && p >= 0 && z < a->in[0] && y < a->in[1] && p < a->in[2];
                    for (int32_t c = 0; c < g->depth; c++) {
                        const int32_t q = in ? image[c * inside + ((size_t)z * a->in[1] + y) * a->in[2] + p] : zx;
                        const int32_t weight = own[c * taps + t], product = (q + up) * weight;
                        acc[at] -= (uint32_t)((zx + up) * weight);
                        if (half)
                            acc[at] += pair(first, product);
                        first = product, half = !half;
                    }
                }
                if (half)
                    acc[at] += pair(first, 0);
            }
            write_all(out, outs, acc, outside, (size_t)m, 0, ((size_t)n * g->channels + m) * outside);
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

//! matmul A X W | product write_all:$A
/* acc = bias + sum (x - zx) * (w - zw), row by row */
static void matmul_$A$X_$W(const struct product *g, const @X *x, int32_t zx, const @W *w, const int32_t *zw, const @A *bias, u@A *acc,
                         const struct $Aoutput *out, int outs) {
    for (int32_t s = 0; s < g->stack; s++)
        for (int32_t i = 0; i < g->rows; i++) {
            const @X *row = x + (g->x_at ? g->x_at[s] : 0) + (size_t)i * g->x_row;
            const @W *right = w + (g->w_at ? g->w_at[s] : 0);
            for (int32_t j = 0; j < g->columns; j++)
                acc[j] = bias ? (u@A)bias[j] : 0;
            for (int32_t p = 0; p < g->depth; p++) {
                const u@A left = (u@A)(row[(size_t)p * g->x_column] - zx);
                const @W *across = right + (size_t)p * g->w_row;
                for (int32_t j = 0; j < g->columns; j++)
                    acc[j] += left * (u@A)(across[(size_t)j * g->w_column] - (g->zeros ? zw[j % g->zeros] : 0));
            }
            write_$Aall(out, outs, acc, (size_t)g->columns, 0, 1, ((size_t)s * g->rows + i) * g->columns);
        }
}

//! matmul_saturating X | product pair write_all:
/* matmul with the products of neighbours added by pair; up is added to codes to make them unsigned */
static void matmul_saturating_$X(const struct product *g, const @X *x, int32_t zx, int32_t up, const int8_t *w, const int32_t *bias,
                                 uint32_t *acc, const struct output *out, int outs) {
    for (int32_t s = 0; s < g->stack; s++)
        for (int32_t i = 0; i < g->rows; i++) {
            const @X *row = x + (g->x_at ? g->x_at[s] : 0) + (size_t)i * g->x_row;
            const int8_t *right = w + (g->w_at ? g->w_at[s] : 0);
            for (int32_t j = 0; j < g->columns; j++) {
                acc[j] = bias ? (uint32_t)bias[j] : 0;
                for (int32_t p = 0; p < g->depth; p += 2) {
                    int32_t product[2] = {0, 0};
                    for (int32_t k = 0; k < 2 && p + k < g->depth; k++) {
                        const int32_t weight = right[(size_t)(p + k) * g->w_row + (size_t)j * g->w_column];
                        product[k] = (row[(size_t)(p + k) * g->x_column] + up) * weight;
                        acc[j] -= (uint32_t)((zx + up) * weight);
                    }
                    acc[j] += pair(product[0], product[1]);
                }
            }
            write_all(out, outs, acc, (size_t)g->columns, 0, 1, ((size_t)s * g->rows + i) * g->columns);
        }
}
