/* The curve of a search: the best time so far over the trials. Drawn by the live display as one
 * line of text and by `kiln db plot` as a figure. */
#ifndef KILN_CLI_CURVE_H
#define KILN_CLI_CURVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

/* From `trial` trials on, the best is `best_ns`. */
typedef struct kiln_curve_point {
    uint32_t trial;
    double best_ns;
} kiln_curve_point;

/* Zero-initialise. */
typedef struct kiln_curve {
    KILN_VEC(kiln_curve_point) point; /* both members ascend and descend strictly; in the arena */
    uint32_t trial_count;             /* so far, those that improved nothing included */
} kiln_curve;

/* After `trial` trials the best is `best_ns` (0: none yet). Trials that come late change nothing.
 */
void kiln_curve_add(kiln_curve *curve, kiln_arena *arena, uint32_t trial, double best_ns);
/* The best after `trial` trials; 0: none yet. */
double kiln_curve_at(const kiln_curve *curve, uint32_t trial);

/* Draws `width` characters, higher is faster, between the slower of the first best and `base_ns`
 * (0: none) and the fastest. What of the `planned` trials has not been made is left as dots;
 * `planned` below the trials made means that they fill the width. */
void kiln_curve_draw(const kiln_curve *curve, double base_ns, uint32_t planned, uint32_t width,
                     bool utf8, kiln_strbuf *out);

#endif
