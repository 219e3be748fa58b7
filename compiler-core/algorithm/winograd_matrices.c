/* Winograd's matrices out of interpolation points. */
#include "compiler-core/algorithm/winograd.h"

#include "base/check.h"

/* Multiplies the polynomial of `*degree`, lowest coefficient first, by (x - root). */
static void multiply_by_root(double *polynomial, int64_t *degree, double root) {
    polynomial[++*degree] = 0;
    for (int64_t i = *degree; i >= 0; i--)
        polynomial[i] = (i > 0 ? polynomial[i - 1] : 0) - root * polynomial[i];
}

static double power(double base, int64_t exponent) {
    double value = 1;
    for (int64_t i = 0; i < exponent; i++) value *= base;
    return value;
}

/* Row j of the point: signs are such that the weights' divisor is positive. */
static void set_point(kiln_winograd *w, const double *point, int64_t j) {
    double *row = w->data[j], divisor = 1;
    int64_t degree = 0;
    row[0] = 1;
    for (int64_t l = 0; l < w->points - 1; l++) {
        if (l == j) continue;
        multiply_by_root(row, &degree, point[l]);
        divisor *= point[j] - point[l];
    }
    KILN_CHECK(divisor != 0);
    for (int64_t i = 0; i <= degree && divisor < 0; i++) row[i] = 0 - row[i];
    const double size = divisor < 0 ? -divisor : divisor;
    for (int64_t i = 0; i < w->taps; i++) w->weights[j][i] = power(point[j], i) / size;
    for (int64_t i = 0; i < w->outputs; i++) w->result[i][j] = power(point[j], i);
}

/* The last row: only the highest coefficients. The data's begins with a positive number. */
static void set_infinity(kiln_winograd *w, const double *point) {
    const int64_t last = w->points - 1;
    double *row = w->data[last], first = 0;
    int64_t degree = 0;
    row[0] = 1;
    for (int64_t l = 0; l < last; l++) multiply_by_root(row, &degree, point[l]);
    for (int64_t i = 0; i <= degree && first == 0; i++) first = row[i];
    for (int64_t i = 0; i <= degree && first < 0; i++) row[i] = 0 - row[i];
    w->weights[last][w->taps - 1] = 1;
    w->result[w->outputs - 1][last] = first < 0 ? -1 : 1;
}

static kiln_winograd without_stride(int64_t outputs, int64_t taps, const double *point) {
    kiln_winograd w = {.outputs = outputs, .taps = taps, .stride = 1, .points = outputs + taps - 1};
    KILN_CHECK(w.points <= KILN_WINOGRAD_POINTS_MAX);
    for (int64_t j = 0; j < w.points && taps == 1; j++)
        w.data[j][j] = w.weights[j][0] = w.result[j][j] = 1;
    for (int64_t j = 0; j < w.points - 1 && taps > 1; j++) set_point(&w, point, j);
    if (taps > 1) set_infinity(&w, point);
    return w;
}

/* The points of the phase whose first tap is `phase`, from point `first` on. */
static void set_phase(kiln_winograd *w, const kiln_winograd *of, int64_t phase, int64_t first) {
    for (int64_t j = 0; j < of->points; j++) {
        for (int64_t i = 0; i < of->points; i++)
            w->data[first + j][phase + i * w->stride] = of->data[j][i];
        for (int64_t i = 0; i < of->taps; i++)
            w->weights[first + j][phase + i * w->stride] = of->weights[j][i];
        for (int64_t i = 0; i < of->outputs; i++) w->result[i][first + j] = of->result[i][j];
    }
}

kiln_winograd kiln_winograd_of_points(int64_t outputs, int64_t taps, int64_t stride,
                                      const double *point) {
    kiln_winograd w = {.outputs = outputs, .taps = taps, .stride = stride};
    KILN_CHECK(taps >= stride);
    KILN_CHECK(stride * (outputs - 1) + taps <= KILN_WINOGRAD_POINTS_MAX);
    for (int64_t phase = 0; phase < stride; phase++) {
        const kiln_winograd of =
            without_stride(outputs, (taps - phase + stride - 1) / stride, point);
        set_phase(&w, &of, phase, w.points);
        w.points += of.points;
    }
    return w;
}
