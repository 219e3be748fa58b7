#include "compiler-core/quantize/quantize.h"

#include <math.h>

#include "base/macros.h"

#define HALF (KILN_HISTOGRAM_BINS / 2)
#define LEVELS 255.0 /* steps between the lowest and the highest byte */

#define CLIPPED_SHARE 1e-4 /* of the method percentile */
#define MSE_STEPS 64       /* ranges that the method mse tries: all of it, and down to a part */
#define MSE_LEAST 0.25

#define BIAS_MAX 1073741824.0 /* 2^30: leaves a bit for the products */
#define SCALE_MIN 1e-30       /* products of two are normal floats no more below it */

/* ---- histograms ------------------------------------------------------------------------------ */

/* The least exponent whose bins hold +-magnitude (above 0). */
static int exponent_for(double magnitude) {
    int exponent;
    frexp(magnitude, &exponent); /* below 2^exponent */
    return exponent - 12;        /* 2^12 bins on each side */
}
_Static_assert(HALF == 1 << 12, "exponent_for");

static bool is_flat(const kiln_histogram *h) { return h->count == h->zeros; }

/* Makes bins as wide as 2^exponent: each pair becomes one. */
static void widen(kiln_histogram *h, int exponent) {
    for (; h->exponent < exponent; h->exponent++) {
        for (int i = 0; i < HALF / 2; i++) {
            h->bin[HALF + i] = h->bin[HALF + 2 * i] + h->bin[HALF + 2 * i + 1];
            h->bin[HALF - 1 - i] = h->bin[HALF - 1 - 2 * i] + h->bin[HALF - 2 - 2 * i];
        }
        for (int i = HALF / 2; i < HALF; i++) h->bin[HALF + i] = h->bin[HALF - 1 - i] = 0;
    }
}

/* Room for elements of this magnitude (above 0). */
static void reach(kiln_histogram *h, double magnitude) {
    const int exponent = exponent_for(magnitude);
    if (is_flat(h))
        h->exponent = exponent;
    else
        widen(h, exponent);
}

bool kiln_histogram_add(kiln_histogram *h, const float *data, size_t count) {
    float low = 0, high = 0;
    float poison = 0; /* NaN as soon as an element is not finite */
    for (size_t i = 0; i < count; i++) {
        low = data[i] < low ? data[i] : low;
        high = data[i] > high ? data[i] : high;
        poison += data[i] * 0;
    }
    if (poison != 0) return false;
    const double magnitude = KILN_MAX((double)high, -(double)low);
    if (magnitude > 0) reach(h, magnitude);
    const double per_bin = ldexp(1, -h->exponent);
    uint64_t zeros = 0;
    for (size_t i = 0; i < count; i++) {
        zeros += data[i] == 0;
        if (data[i] != 0) h->bin[HALF + (int)floor((double)data[i] * per_bin)]++;
    }
    h->low = KILN_MIN(h->low, (double)low);
    h->high = KILN_MAX(h->high, (double)high);
    h->count += count;
    h->zeros += zeros;
    return true;
}

void kiln_histogram_merge(kiln_histogram *into, const kiln_histogram *from) {
    if (!is_flat(from)) {
        kiln_histogram wide = *from;
        reach(into, KILN_MAX(from->high, -from->low));
        widen(&wide, into->exponent);
        for (int i = 0; i < KILN_HISTOGRAM_BINS; i++) into->bin[i] += wide.bin[i];
    }
    into->low = KILN_MIN(into->low, from->low);
    into->high = KILN_MAX(into->high, from->high);
    into->count += from->count;
    into->zeros += from->zeros;
}

/* The middle of a bin. */
static double middle(const kiln_histogram *h, int bin) {
    return ldexp(bin - HALF + 0.5, h->exponent);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static kiln_quantization quantization_of(double low, double high, bool shift) {
    const double magnitude = KILN_MAX(high, -low);
    if (!(magnitude > SCALE_MIN)) return (kiln_quantization){1, 0};
    if (shift) /* up: nothing of the range is cut */
        return (kiln_quantization){(float)exp2(ceil(log2(magnitude / 127))), 0};
    const double scale = (high - low) / LEVELS;
    return (kiln_quantization){(float)scale, (int32_t)nearbyint(-128 - low / scale)};
}

typedef kiln_quantization (*range_function)(const kiln_histogram *h, bool shift);

static kiln_quantization range_minmax(const kiln_histogram *h, bool shift) {
    return quantization_of(h->low, h->high, shift);
}

/* What was seen, up to a magnitude. */
static kiln_quantization range_within(const kiln_histogram *h, double limit, bool shift) {
    return quantization_of(KILN_MAX(h->low, -limit), KILN_MIN(h->high, limit), shift);
}

static kiln_quantization range_percentile(const kiln_histogram *h, bool shift) {
    const double most = CLIPPED_SHARE * (double)h->count;
    double beyond = 0;
    int distance = HALF; /* bins on each side that stay */
    while (distance > 1 &&
           beyond + (double)(h->bin[HALF + distance - 1] + h->bin[HALF - distance]) <= most) {
        distance--;
        beyond += (double)(h->bin[HALF + distance] + h->bin[HALF - distance - 1]);
    }
    return range_within(h, is_flat(h) ? 0 : ldexp(distance, h->exponent), shift);
}

/* Of an element inside of the range the error is uniform in a step; one outside is cut. */
static double expected_error(const kiln_histogram *h, kiln_quantization q) {
    const double low = kiln_quantization_low(q), high = kiln_quantization_high(q),
                 inside = (double)q.scale * (double)q.scale / 12;
    double sum = 0;
    for (int i = 0; i < KILN_HISTOGRAM_BINS; i++) {
        if (h->bin[i] == 0) continue;
        const double x = middle(h, i), cut = x < low ? low - x : KILN_MAX(x - high, 0);
        sum += (double)h->bin[i] * KILN_MAX(cut * cut, inside);
    }
    return sum;
}

static kiln_quantization range_mse(const kiln_histogram *h, bool shift) {
    kiln_quantization best = range_minmax(h, shift);
    const double magnitude = KILN_MAX(h->high, -h->low);
    double least = expected_error(h, best);
    for (int i = 1; i < MSE_STEPS; i++) {
        const double part = 1 - (1 - MSE_LEAST) * i / (MSE_STEPS - 1);
        const kiln_quantization q = range_within(h, magnitude * part, shift);
        const double error = expected_error(h, q);
        if (error >= least) continue;
        least = error;
        best = q;
    }
    return best;
}

static const struct {
    const char *name;
    range_function choose;
} method_table[] = {
#define X(id, name, function, doc) {name, function},
#include "compiler-core/quantize/methods.def"
#undef X
};

kiln_status kiln_quantize_method_find(kiln_str name, kiln_quantize_method *out_method) {
    kiln_strbuf list = {0};
    for (int i = 0; i < KILN_QUANTIZE_METHOD_COUNT; i++) {
        if (kiln_str_is(name, method_table[i].name)) {
            kiln_strbuf_deinit(&list);
            *out_method = (kiln_quantize_method)i;
            return KILN_OK;
        }
        kiln_strbuf_printf(&list, "%s%s", i ? ", " : "", method_table[i].name);
    }
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "there is no method '%.*s'; there are %s",
                                KILN_STR_ARG(name), list.data);
    kiln_strbuf_deinit(&list);
    return st;
}

/* ---- scales ---------------------------------------------------------------------------------- */

kiln_quantization kiln_quantize_activation(const kiln_histogram *h, kiln_quantize_method method,
                                           bool shift) {
    return method_table[method].choose(h, shift);
}

float kiln_quantize_weights(double largest, double bias, double input_scale, bool shift) {
    const double for_bias = bias / (input_scale * BIAS_MAX);
    double scale = KILN_MAX(largest / 127, for_bias);
    if (!(scale > SCALE_MIN)) return 1; /* nothing but zeros */
    if (shift) scale = exp2(ceil(log2(scale)));
    return (float)scale;
}

int8_t kiln_quantize_byte(double x, kiln_quantization q, int32_t lowest) {
    const double level = nearbyint(x / (double)q.scale) + q.zero;
    return (int8_t)KILN_MIN(KILN_MAX(level, (double)lowest), 127.0);
}

double kiln_quantization_low(kiln_quantization q) { return (-128 - q.zero) * (double)q.scale; }
double kiln_quantization_high(kiln_quantization q) { return (127 - q.zero) * (double)q.scale; }

double kiln_quantize_clipped(const kiln_histogram *h, kiln_quantization q) {
    const double half = (double)q.scale / 2, low = kiln_quantization_low(q) - half,
                 high = kiln_quantization_high(q) + half;
    uint64_t beyond = 0;
    for (int i = 0; i < KILN_HISTOGRAM_BINS; i++)
        if (middle(h, i) < low || middle(h, i) > high) beyond += h->bin[i];
    return h->count ? (double)beyond / (double)h->count : 0;
}

/* ---- errors ---------------------------------------------------------------------------------- */

void kiln_quantize_error_add(kiln_quantize_error *e, const float *reference, const float *actual,
                             size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double r = (double)reference[i], a = (double)actual[i], d = a - r;
        e->reference2 += r * r;
        e->actual2 += a * a;
        e->product += r * a;
        e->error2 += d * d;
        e->largest = KILN_MAX(e->largest, fabs(r));
        e->largest_error = KILN_MAX(e->largest_error, fabs(d));
    }
}

double kiln_quantize_error_sqnr(const kiln_quantize_error *e) {
    return e->error2 > 0 ? 10 * log10(e->reference2 / e->error2) : HUGE_VAL;
}

double kiln_quantize_error_relative(const kiln_quantize_error *e) {
    if (e->largest_error == 0) return 0;
    return e->largest > 0 ? e->largest_error / e->largest : HUGE_VAL;
}

double kiln_quantize_error_cosine(const kiln_quantize_error *e) {
    if (e->reference2 == 0 && e->actual2 == 0) return 1;
    if (e->reference2 == 0 || e->actual2 == 0) return 0;
    return e->product / sqrt(e->reference2 * e->actual2);
}
