//! bits32
union bits32 {
    float number;
    uint32_t bits;
};

//! scale_by_pow2 | bits64
/* x * 2^n rounded once, n an integer in [-200, 200] */
static float scale_by_pow2(float x, float n) {
    union bits64 power;
    power.bits = (uint64_t)(1023 + (int32_t)n) << 52;
    return (float)(x * power.number);
}

//! between
/* x limited to [lo, hi]; what is not a number stays so */
static float between(float x, float lo, float hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

//! absolute | bits32
static float absolute(float x) {
    union bits32 a;
    a.number = x;
    a.bits &= INT32_MAX;
    return a.number;
}

//! signed_as | absolute
/* x >= 0 with the sign of y */
static float signed_as(float x, float y) {
    union bits32 a, b;
    a.number = x, b.number = y;
    a.bits |= b.bits & UINT32_C(0x80000000);
    return a.number;
}

//! exp_reduced | fused
/* exp(x - n*ln(2)) - 1 with n = x/ln(2) rounded, for x in [-104, 89] */
static float exp_reduced(float x, float *n) {
    static const float terms[5] = {0x1.6b97a6p-10f, 0x1.122538p-7f, 0x1.5556f6p-5f, 0x1.5554b4p-3f, 0x1.fffffep-2f};
    float r, y = terms[0];
    *n = fused(x, 0x1.715476p+0f, 0x1.8p23f) - 0x1.8p23f;
    r = fused(*n, -0x1.62e430p-1f, x);
    r = fused(*n, 0x1.05c610p-29f, r);
    for (int i = 1; i < 5; i++)
        y = fused(y, r, terms[i]);
    return fused(y, r * r, r);
}

//! exponential | exp_reduced scale_by_pow2 between
/* e^x within 1.1 units in the last place */
static float exponential(float x) {
    float n, y;
    if (x != x)
        return x;
    y = exp_reduced(between(x, -104, 89), &n);
    return scale_by_pow2(1 + y, n);
}

//! logistic | exponential signed_as
/* 1/(1+e^-x) within 2.5 units in the last place */
static float logistic(float x) {
    float e = exponential(-absolute(x));
    return signed_as(1, x) < 0 ? e / (1 + e) : 1 / (1 + e);
}

//! hyperbolic_tangent | exp_reduced scale_by_pow2 between signed_as
/* tanh(x) within 2.5 units in the last place */
static float hyperbolic_tangent(float x) {
    float n, y, power, m;
    if (x != x)
        return x;
    y = exp_reduced(between(absolute(x), 0, 10) * -2, &n);
    power = scale_by_pow2(1, n);
    m = fused(power, y, power - 1);
    return signed_as(absolute(m) / (2 + m), x);
}

//! error_function | exp_reduced scale_by_pow2 between signed_as
/* erf(x) within a unit in the last place */
static float error_function(float x) {
    static const float near[6] = {-0x1.41323cp-11f, 0x1.48c424p-8f, -0x1.b6c436p-6f, 0x1.ce1d88p-4f, -0x1.8126f2p-2f, 0x1.06eba6p-3f};
    static const float far[6] = {0x1.c39598p-13f, -0x1.a6d68ep-9f, 0x1.779b18p-6f, -0x1.af603ap-4f, -0x1.45777cp-1f, -0x1.0738dcp-3f};
    float t, n, y;
    if (x != x)
        return x;
    t = between(absolute(x), 0, 3.93f);
    if (t > 0.875f) {
        y = far[0];
        for (int i = 1; i < 6; i++)
            y = fused(y, t, far[i]);
        y = exp_reduced(fused(y, t, -t), &n);
        return signed_as(1 - scale_by_pow2(1 + y, n), x);
    }
    y = near[0];
    for (int i = 1; i < 6; i++)
        y = fused(y, x * x, near[i]);
    return fused(y, x, x);
}

//! square_root | bits64
/* the square root, rounded correctly: Newton's method in double from an estimate by the exponent */
static double square_root(double x) {
    union bits64 start;
    double y;
    if (!(x > 0) || x > DBL_MAX)
        return x >= 0 ? x : (x - x) / (x - x);
    start.number = x;
    start.bits = (start.bits >> 1) + UINT64_C(0x1ff7a3bea91d9b1b);
    y = start.number;
    for (int i = 0; i < 6; i++)
        y = 0.5 * (y + x / y);
    return y;
}

//! root | square_root
static float root(float x) {
    return (float)square_root(x);
}

//! gelu | error_function
static float gelu(float x) {
    return x * 0.5f * (1 + error_function(x * 0x1.6a09e6p-1f));
}

//! gelu_tanh | logistic
static float gelu_tanh(float x) {
    float u = x * fused(x * x, 0x1.2444f2p-4f, 0x1.988454p+0f);
    return x * logistic(u);
}

//! swish | logistic
static float swish(float x, float alpha, float unused) {
    (void)unused;
    return x * logistic(alpha * x);
}

//! negative
static float negative(float x) {
    return -x;
}

//! inverse
static float inverse(float x) {
    return 1 / x;
}

//! square
static float square(float x) {
    return x * x;
}

//! relu
static float relu(float x) {
    return x > 0 ? x : x != x ? x : 0;
}

//! leaky_relu
static float leaky_relu(float x, float alpha, float unused) {
    (void)unused;
    return x >= 0 ? x : alpha * x;
}

//! hard_sigmoid | between
static float hard_sigmoid(float x, float alpha, float beta) {
    return between(alpha * x + beta, 0, 1);
}

//! hard_swish | between
static float hard_swish(float x) {
    return x * between(x * 0x1.555556p-3f + 0.5f, 0, 1);
}

//! apply F | $F
static void each_$F(const float *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = $F(x[i]);
}

//! apply_with F | $F
static void each_$F(const float *x, size_t n, float a, float b, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = $F(x[i], a, b);
}

//! plus
static float plus(float a, float b) {
    return a + b;
}

//! minus
static float minus(float a, float b) {
    return a - b;
}

//! times
static float times(float a, float b) {
    return a * b;
}

//! over
static float over(float a, float b) {
    return a / b;
}

//! larger
static float larger(float a, float b) {
    return a > b || a != a ? a : b;
}

//! smaller
static float smaller(float a, float b) {
    return a < b || a != a ? a : b;
}

//! combine F | $F rows_of row_at
/* y = $F(a, b), element by element, with broadcasting */
static void each_$F(const struct layout *l, const float *a, const float *b, float *y) {
    const int32_t last = l->rank - 1;
    for (size_t r = 0; r < rows_of(l); r++)
        for (size_t i = 0; i < (size_t)l->size[last]; i++)
            *y++ = $F(a[row_at(l, 0, r) + i * (size_t)l->steps[0][last]], b[row_at(l, 1, r) + i * (size_t)l->steps[1][last]]);
}

//! row_sum
/* the sum of n numbers step apart: in double, in 16 lanes, which are folded */
static double row_sum(const float *x, size_t n, size_t step) {
    double lanes[16] = {0};
    for (size_t i = 0; i < n; i++)
        lanes[i % 16] += x[i * step];
    for (size_t k = 8; k > 0; k /= 2)
        for (size_t i = 0; i < k; i++)
            lanes[i] += lanes[i + k];
    return lanes[0];
}

//! softmax_reals | exponential row_sum
/* softmax of rows of n numbers that stand inner apart */
static void softmax_reals(const float *x, size_t outer, size_t n, size_t inner, float *y) {
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const float *from = x + o * n * inner + i;
            float *to = y + o * n * inner + i, top = from[0], sum;
            for (size_t k = 0; k < n; k++)
                top = from[k * inner] > top ? from[k * inner] : top;
            for (size_t k = 0; k < n; k++)
                to[k * inner] = exponential(from[k * inner] - top);
            sum = (float)row_sum(to, n, inner);
            for (size_t k = 0; k < n; k++)
                to[k * inner] /= sum;
        }
}

//! mean_reals S | rows_of row_at
/* the sum over some axes, in $S, divided by count */
static void mean_in_$S(const struct layout *of, const struct layout *over, $S count, const float *x, float *y) {
    for (size_t r = 0; r < rows_of(of); r++)
        for (int32_t i = 0; i < of->size[of->rank - 1]; i++) {
            const float *from = x + row_at(of, 0, r) + (size_t)i * (size_t)of->steps[0][of->rank - 1];
            $S sum = 0;
            for (size_t k = 0; k < rows_of(over); k++)
                for (int32_t j = 0; j < over->size[over->rank - 1]; j++)
                    sum += from[row_at(over, 0, k) + (size_t)j * (size_t)over->steps[0][over->rank - 1]];
            *y++ = (float)(sum / count);
        }
}

//! layer_norm | row_sum square_root
/* rows of n numbers with their mean removed, divided by their deviation, scaled and shifted; bias may be absent */
static void layer_norm(const float *x, size_t rows, size_t n, const float *scale, const float *bias, double eps, float *y) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = row_sum(x, n, 1) / (double)n, lanes[16] = {0}, inverse;
        for (size_t i = 0; i < n; i++)
            lanes[i % 16] += (x[i] - mean) * (x[i] - mean);
        for (size_t k = 8; k > 0; k /= 2)
            for (size_t i = 0; i < k; i++)
                lanes[i] += lanes[i + k];
        inverse = 1 / square_root(lanes[0] / (double)n + eps);
        for (size_t i = 0; i < n; i++)
            y[i] = (float)((x[i] - mean) * inverse * scale[i] + (bias ? bias[i] : 0.0));
    }
}

//! matmul_reals | product fused
/* sum x * w + bias; bias_row and bias_column are the distances of its neighbours */
static void matmul_reals(const struct product *g, const float *x, const float *w, const float *bias, size_t bias_row, size_t bias_column, float *y) {
    for (int32_t s = 0; s < g->stack; s++)
        for (int32_t i = 0; i < g->rows; i++)
            for (int32_t j = 0; j < g->columns; j++) {
                const float *left = x + (g->x_at ? g->x_at[s] : 0) + (size_t)i * (size_t)g->x_row;
                const float *right = w + (g->w_at ? g->w_at[s] : 0) + (size_t)j * (size_t)g->w_column;
                float acc = 0;
                for (int32_t p = 0; p < g->depth; p++)
                    acc = fused(left[(size_t)p * (size_t)g->x_column], right[(size_t)p * (size_t)g->w_row], acc);
                *y++ = bias ? acc + bias[(size_t)i * bias_row + (size_t)j * bias_column] : acc;
            }
}

//! conv_reals | convolution fused
/* sum x * w + bias */
static void conv_reals(const struct convolution *g, const float *x, const float *w, const float *bias, float *y) {
    const struct window *a = &g->window;
    const size_t inside = (size_t)a->in[0] * (size_t)a->in[1] * (size_t)a->in[2], taps = (size_t)a->kernel[0] * (size_t)a->kernel[1] * (size_t)a->kernel[2];
    for (int32_t n = 0; n < g->images; n++)
        for (int32_t m = 0; m < g->channels; m++)
            for (int32_t i = 0; i < a->out[0]; i++)
                for (int32_t j = 0; j < a->out[1]; j++)
                    for (int32_t k = 0; k < a->out[2]; k++) {
                        const float *image = x + ((size_t)n * (size_t)g->groups + (size_t)(m / (g->channels / g->groups))) * (size_t)g->depth * inside;
                        const float *own = w + (size_t)m * (size_t)g->depth * taps;
                        float acc = 0;
                        for (size_t t = 0; t < taps; t++) {
                            const int32_t kz = (int32_t)(t / (size_t)a->kernel[2] / (size_t)a->kernel[1]), ky = (int32_t)(t / (size_t)a->kernel[2] % (size_t)a->kernel[1]);
                            const int32_t z = i * a->stride[0] - a->begin[0] + kz * a->dilation[0];
                            const int32_t v = j * a->stride[1] - a->begin[1] + ky * a->dilation[1];
                            const int32_t p = k * a->stride[2] - a->begin[2] + (int32_t)(t % (size_t)a->kernel[2]) * a->dilation[2];
                            if (z >= 0 && v >= 0 && p >= 0 && z < a->in[0] && v < a->in[1] && p < a->in[2])
                                for (int32_t c = 0; c < g->depth; c++)
                                    acc = fused(image[(size_t)c * inside + ((size_t)z * (size_t)a->in[1] + (size_t)v) * (size_t)a->in[2] + (size_t)p], own[(size_t)c * taps + t], acc);
                        }
                        *y++ = bias ? acc + bias[m] : acc;
                    }
}

//! conv_transpose_reals | convolution fused
/* sum x * w + bias, every input being spread over the output; the weights are [input channels, output channels of a group, kernel] */
static void conv_transpose_reals(const struct convolution *g, const float *x, const float *w, const float *bias, float *y) {
    const struct window *a = &g->window;
    const size_t inside = (size_t)a->in[0] * (size_t)a->in[1] * (size_t)a->in[2], outside = (size_t)a->out[0] * (size_t)a->out[1] * (size_t)a->out[2];
    const size_t taps = (size_t)a->kernel[0] * (size_t)a->kernel[1] * (size_t)a->kernel[2];
    const int32_t per = g->channels / g->groups;
    for (int32_t n = 0; n < g->images; n++)
        for (int32_t m = 0; m < g->channels; m++, y += outside) {
            for (size_t i = 0; i < outside; i++)
                y[i] = 0;
            for (size_t t = 0; t < taps; t++)
                for (int32_t c = 0; c < g->depth; c++) {
                    const size_t channel = (size_t)(m / per) * (size_t)g->depth + (size_t)c;
                    const float *plane = x + ((size_t)n * (size_t)g->groups * (size_t)g->depth + channel) * inside;
                    const float weight = w[(channel * (size_t)per + (size_t)(m % per)) * taps + t];
                    for (size_t i = 0; i < inside; i++) {
                        const int32_t kz = (int32_t)(t / (size_t)a->kernel[2] / (size_t)a->kernel[1]), ky = (int32_t)(t / (size_t)a->kernel[2] % (size_t)a->kernel[1]);
                        const int32_t iz = (int32_t)(i / (size_t)a->in[2] / (size_t)a->in[1]), iy = (int32_t)(i / (size_t)a->in[2] % (size_t)a->in[1]);
                        const int32_t z = iz * a->stride[0] + kz * a->dilation[0] - a->begin[0];
                        const int32_t v = iy * a->stride[1] + ky * a->dilation[1] - a->begin[1];
                        const int32_t p = (int32_t)(i % (size_t)a->in[2]) * a->stride[2] + (int32_t)(t % (size_t)a->kernel[2]) * a->dilation[2] - a->begin[2];
                        if (z >= 0 && v >= 0 && p >= 0 && z < a->out[0] && v < a->out[1] && p < a->out[2]) {
                            float *to = y + ((size_t)z * (size_t)a->out[1] + (size_t)v) * (size_t)a->out[2] + (size_t)p;
                            *to = fused(plane[i], weight, *to);
                        }
                    }
                }
            for (size_t i = 0; i < outside && bias; i++)
                y[i] += bias[m];
        }
}

//! choose_reals | rows_of row_at
/* y = condition ? a : b, element by element, with broadcasting */
static void choose_reals(const struct layout *l, const uint8_t *condition, const float *a, const float *b, float *y) {
    const int32_t last = l->rank - 1;
    for (size_t r = 0; r < rows_of(l); r++)
        for (size_t i = 0; i < (size_t)l->size[last]; i++)
            *y++ = condition[row_at(l, 0, r) + i * (size_t)l->steps[0][last]] ? a[row_at(l, 1, r) + i * (size_t)l->steps[1][last]]
                                                                             : b[row_at(l, 2, r) + i * (size_t)l->steps[2][last]];
}
