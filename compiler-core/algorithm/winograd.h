/* The matrices of Winograd's minimal filtering, private to algorithm/winograd*.c and their tests.
 */
#ifndef KILN_COMPILER_CORE_ALGORITHM_WINOGRAD_H
#define KILN_COMPILER_CORE_ALGORITHM_WINOGRAD_H

#include <stdint.h>

#define KILN_WINOGRAD_POINTS_MAX 8

/* F(outputs, taps) along one dimension, with points = outputs + taps - 1:
 *
 *     y = result * ((weights * g) . (data * d))     d: [points], g: [taps], y: [outputs] */
typedef struct kiln_winograd {
    int64_t outputs, taps, points;
    double data[KILN_WINOGRAD_POINTS_MAX][KILN_WINOGRAD_POINTS_MAX];    /* [points][points] */
    double weights[KILN_WINOGRAD_POINTS_MAX][KILN_WINOGRAD_POINTS_MAX]; /* [points][taps] */
    double result[KILN_WINOGRAD_POINTS_MAX][KILN_WINOGRAD_POINTS_MAX];  /* [outputs][points] */
} kiln_winograd;

/* Toom and Cook's method: polynomials are multiplied by their values at `point`, [points - 1]
 * different numbers, and at infinity; its transpose filters. Points +a and -a side by side share
 * half of what they compute. Exact in doubles but for the divisions in `weights`.
 *
 * Source: Blahut, Fast Algorithms for Signal Processing (2010), chapter 5. */
kiln_winograd kiln_winograd_of_points(int64_t outputs, int64_t taps, const double *point);

#endif
