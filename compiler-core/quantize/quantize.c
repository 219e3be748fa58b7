#include "compiler-core/quantize/quantize.h"

#include <math.h>

#include "base/check.h"
#include "base/macros.h"

#define HALF (KILN_HISTOGRAM_BINS / 2)

#define CLIPPED_SHARE 1e-4 /* of the method percentile */
#define MSE_STEPS 64       /* ranges that the method mse tries: all of it, and down to a part */
#define MSE_LEAST 0.25
#define MSE_LEAST_FEW (1.0 / 64) /* of fewer than 8 bits */

#define FEW_SCALES 32   /* that are tried for weights of few bits, ... */
#define FEW_SAMPLES 256 /* ... on so many of them */
#define FEW_PASSES 3    /* and then made better with all */

#define BIAS_MAX 1073741824.0 /* 2^30: leaves a bit for the products */
#define SCALE_MIN 1e-30       /* below it products of two are no longer normal floats */

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

static double lowest(uint32_t bits) { return -(double)(1 << (bits - 1)); }
static double highest(uint32_t bits) { return (double)(1 << (bits - 1)) - 1; }

static kiln_quantization quantization_of(double low, double high, kiln_quantize_form form) {
    const double magnitude = KILN_MAX(high, -low), least = lowest(form.bits),
                 most = highest(form.bits);
    if (!(magnitude > SCALE_MIN)) return (kiln_quantization){1, 0, form.bits};
    if (form.shift) /* up: nothing of the range is clipped */
        return (kiln_quantization){(float)exp2(ceil(log2(magnitude / most))), 0, form.bits};
    const double scale = (high - low) / (most - least);
    return (kiln_quantization){(float)scale, (int32_t)nearbyint(least - low / scale), form.bits};
}

typedef kiln_quantization (*range_function)(const kiln_histogram *h, kiln_quantize_form form);

static kiln_quantization range_minmax(const kiln_histogram *h, kiln_quantize_form form) {
    return quantization_of(h->low, h->high, form);
}

/* The observed range, up to a magnitude. */
static kiln_quantization range_within(const kiln_histogram *h, double limit,
                                      kiln_quantize_form form) {
    return quantization_of(KILN_MAX(h->low, -limit), KILN_MIN(h->high, limit), form);
}

static kiln_quantization range_percentile(const kiln_histogram *h, kiln_quantize_form form) {
    const double most = CLIPPED_SHARE * (double)h->count;
    double beyond = 0;
    int distance = HALF; /* bins on each side that stay */
    while (distance > 1 &&
           beyond + (double)(h->bin[HALF + distance - 1] + h->bin[HALF - distance]) <= most) {
        distance--;
        beyond += (double)(h->bin[HALF + distance] + h->bin[HALF - distance - 1]);
    }
    return range_within(h, is_flat(h) ? 0 : ldexp(distance, h->exponent), form);
}

static double level_of(double x, double scale, double zero, double least, double most) {
    return KILN_MIN(KILN_MAX(nearbyint(x / scale) + zero, least), most);
}

/* The error with few levels, computed bin by bin. */
static double expected_error_few(const kiln_histogram *h, kiln_quantization q) {
    const double scale = (double)q.scale, zero = q.zero;
    double sum = 0;
    for (int i = 0; i < KILN_HISTOGRAM_BINS; i++) {
        if (h->bin[i] == 0) continue;
        const double x = middle(h, i),
                     level = level_of(x, scale, zero, lowest(q.bits), highest(q.bits)),
                     error = (level - zero) * scale - x;
        sum += (double)h->bin[i] * error * error;
    }
    return sum;
}

/* An element inside of the range has an error uniform in a step; one outside is clipped. */
static double expected_error(const kiln_histogram *h, kiln_quantization q) {
    if (q.bits < 8) return expected_error_few(h, q);
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

static kiln_quantization range_mse(const kiln_histogram *h, kiln_quantize_form form) {
    kiln_quantization best = range_minmax(h, form);
    const double magnitude = KILN_MAX(h->high, -h->low);
    double least = expected_error(h, best);
    for (int i = 1; i < MSE_STEPS; i++) {
        const double way = (double)i / (MSE_STEPS - 1),
                     part = form.bits < 8 ? pow(MSE_LEAST_FEW, way) : 1 - (1 - MSE_LEAST) * way;
        const kiln_quantization q = range_within(h, magnitude * part, form);
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
                                           kiln_quantize_form form) {
    KILN_CHECK(form.bits >= 1 && form.bits <= 8);
    return method_table[method].choose(h, form);
}

float kiln_quantize_weights(double largest, double bias, double input_scale, bool shift) {
    const double for_bias = bias / (input_scale * BIAS_MAX);
    double scale = KILN_MAX(largest / 127, for_bias);
    if (!(scale > SCALE_MIN)) return 1; /* nothing but zeros */
    if (shift) scale = exp2(ceil(log2(scale)));
    return (float)scale;
}

static double few_error(const float *weight, size_t count, size_t step, uint32_t bits,
                        double scale) {
    double sum = 0;
    for (size_t i = 0; i < count; i += step) {
        const double x = (double)weight[i],
                     error = level_of(x, scale, 0, lowest(bits), highest(bits)) * scale - x;
        sum += error * error;
    }
    return sum;
}

/* The best scale of these levels: the sum of weight * level over that of level^2. */
static double few_refined(const float *weight, size_t count, uint32_t bits, double scale) {
    double product = 0, square = 0;
    for (size_t i = 0; i < count; i++) {
        const double level = level_of((double)weight[i], scale, 0, lowest(bits), highest(bits));
        product += (double)weight[i] * level;
        square += level * level;
    }
    return product > 0 ? product / square : scale;
}

static double few_scale(const float *weight, size_t count, uint32_t bits, double largest) {
    const size_t step = KILN_MAX(count / FEW_SAMPLES, 1);
    double best = largest / -lowest(bits), least = few_error(weight, count, step, bits, best);
    const double widest = best * 2;
    for (int i = 1; i < FEW_SCALES; i++) {
        const double scale = widest * i / FEW_SCALES,
                     error = few_error(weight, count, step, bits, scale);
        if (error >= least) continue;
        least = error;
        best = scale;
    }
    for (int i = 0; i < FEW_PASSES; i++) best = few_refined(weight, count, bits, best);
    return best;
}

float kiln_quantize_weights_few(const float *weight, size_t count, kiln_quantize_form form,
                                int8_t *out_level) {
    double largest = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        largest = KILN_MAX(largest, fabs((double)weight[i]));
        sum += fabs((double)weight[i]);
    }
    double scale =
        largest > SCALE_MIN
            ? (form.bits == 1 ? sum / (double)count : few_scale(weight, count, form.bits, largest))
            : SCALE_MIN; /* -1 and 1 must be as good as 0 */
    if (form.shift) scale = exp2(nearbyint(log2(scale)));
    for (size_t i = 0; i < count; i++) {
        const double x = (double)weight[i];
        out_level[i] =
            (int8_t)(form.bits == 1 ? (x < 0 ? -1 : 1)
                                    : level_of(x, scale, 0, lowest(form.bits), highest(form.bits)));
    }
    return (float)KILN_MAX(scale, SCALE_MIN);
}

int8_t kiln_quantize_byte(double x, kiln_quantization q, int32_t least) {
    const double level = nearbyint(x / (double)q.scale) + q.zero;
    return (int8_t)KILN_MIN(KILN_MAX(level, (double)least), 127.0);
}

double kiln_quantization_low(kiln_quantization q) {
    return (lowest(q.bits) - q.zero) * (double)q.scale;
}

double kiln_quantization_high(kiln_quantization q) {
    return (highest(q.bits) - q.zero) * (double)q.scale;
}

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
