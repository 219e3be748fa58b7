/* Measured figures of a processor's core and caches (deploy/runtime/calibrate.h). They replace the
 * figures of the table of processors (cpus.def) in schedules and in the cost model, and are part of
 * no key and of no target's text. A value without pointers: boards send theirs (BOARD_UP), trackers
 * store them, jobs and compilations carry them. */
#ifndef KILN_BASE_FIGURES_H
#define KILN_BASE_FIGURES_H

#include "base/mpack.h"
#include "base/status.h"
#include "base/str.h"

/* Rows of figures.def. */
typedef enum kiln_figure {
#define X(number, NAME, text, unit, least, most, place, doc) KILN_FIGURE_##NAME,
#include "base/figures.def"
#undef X
    KILN_FIGURE_COUNT
} kiln_figure;

#define KILN_FIGURES_BYTES_MAX 512u /* of the encoded map */

typedef struct kiln_figures {
    double figure[KILN_FIGURE_COUNT]; /* 0: not known, the table's is used */
} kiln_figures;

typedef struct kiln_figure_info {
    uint32_t number;
    const char *name, *unit, *doc;
    double least, most;
} kiln_figure_info;

const kiln_figure_info *kiln_figure_info_of(kiln_figure figure);
bool kiln_figures_is_empty(const kiln_figures *calibration);
bool kiln_figures_equal(const kiln_figures *a, const kiln_figures *b);
/* Whether each known figure is within its bounds, and no cache is larger than the next level. */
bool kiln_figures_is_plausible(const kiln_figures *calibration);
/* A rate in bytes a cycle as bytes a second, by the clock that it was measured in. 0: not known. */
double kiln_figures_bytes_per_second(const kiln_figures *calibration, kiln_figure rate);
/* "multiply-adds 2 vectors/cycle", a line for each known figure. */
void kiln_figures_print(const kiln_figures *calibration, kiln_strbuf *out);
/* A msgpack map from the numbers of figures.def to values, ascending; unknown numbers are skipped.
 * Reading fails with DATA_LOSS if it is not such a map or not plausible. */
void kiln_figures_code(kiln_mpack_coder *coder, kiln_figures *calibration);
/* The same as bytes of their own; an empty calibration has none. */
void kiln_figures_encode(const kiln_figures *calibration, kiln_strbuf *out);
KILN_MUST_USE kiln_status kiln_figures_decode(kiln_str bytes, kiln_figures *out_calibration);

#endif
