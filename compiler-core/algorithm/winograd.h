/* The matrices of Winograd's minimal filtering, private to algorithm/winograd*.c and their tests.
 */
#ifndef KILN_COMPILER_CORE_ALGORITHM_WINOGRAD_H
#define KILN_COMPILER_CORE_ALGORITHM_WINOGRAD_H

#include <stdint.h>

#define KILN_WINOGRAD_POINTS_MAX 9

/* F(outputs, taps) along one dimension, whose outputs are `stride` apart in the data, with points =
 * stride * (outputs - 1) + taps:
 *
 *     y = result * ((weights * g) . (data * d))     d: [points], g: [taps], y: [outputs] */
typedef struct kiln_winograd {
    int64_t outputs, taps, stride, points;
    double data[KILN_WINOGRAD_POINTS_MAX][KILN_WINOGRAD_POINTS_MAX];    /* [points][points] */
    double weights[KILN_WINOGRAD_POINTS_MAX][KILN_WINOGRAD_POINTS_MAX]; /* [points][taps] */
    double result[KILN_WINOGRAD_POINTS_MAX][KILN_WINOGRAD_POINTS_MAX];  /* [outputs][points] */
} kiln_winograd;

/* Toom and Cook's method: polynomials are multiplied by their values at `point`, different numbers,
 * and at infinity; its transpose filters. Points +a and -a side by side share half of what they
 * compute. Exact in doubles but for the divisions in `weights`.
 *
 * With a stride the taps t of equal t mod stride are a phase, which slides over every stride-th
 * element of the data one by one. Outputs are the sums of the results of all phases; the points of
 * the phases follow one another, those of phase 0 first. A phase of one tap multiplies its data
 * directly. `taps` is `stride` at least. `point`: one fewer than the points of the phase with most
 * taps.
 *
 * Source: Blahut, Fast Algorithms for Signal Processing (2010), chapter 5. */
kiln_winograd kiln_winograd_of_points(int64_t outputs, int64_t taps, int64_t stride,
                                      const double *point);

#endif
