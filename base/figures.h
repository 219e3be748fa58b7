/* What was measured of a processor's core and caches (deploy/runtime/calibrate.h). It takes the
 * place of what the table of processors (cpus.def) says of a target, for the schedules that are
 * tried and for the cost model; it is part of no key and of no target's text. A value without
 * pointers: boards tell theirs (BOARD_UP), trackers keep it, jobs and compilations carry it. */
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

#define KILN_FIGURES_BYTES_MAX 512u /* of its bytes */

typedef struct kiln_figures {
    double figure[KILN_FIGURE_COUNT]; /* 0: not known, so that the table's holds */
} kiln_figures;

typedef struct kiln_figure_info {
    uint32_t number;
    const char *name, *unit, *doc;
    double least, most;
} kiln_figure_info;

const kiln_figure_info *kiln_figure_info_of(kiln_figure figure);
bool kiln_figures_is_empty(const kiln_figures *calibration);
bool kiln_figures_equal(const kiln_figures *a, const kiln_figures *b);
/* Whether the processor can be so: each known figure within its bounds, and no cache larger than
 * the one behind it. */
bool kiln_figures_is_plausible(const kiln_figures *calibration);
/* "multiply-adds 2 vectors/cycle", a line for each known figure. */
void kiln_figures_print(const kiln_figures *calibration, kiln_strbuf *out);
/* A msgpack map from the numbers of figures.def to values, ascending; unknown numbers are skipped.
 * Reading: DATA_LOSS where it is no such map or not plausible. */
void kiln_figures_code(kiln_mpack_coder *coder, kiln_figures *calibration);
/* The same alone; nothing is appended for an empty one, and no bytes are an empty one. */
void kiln_figures_encode(const kiln_figures *calibration, kiln_strbuf *out);
KILN_MUST_USE kiln_status kiln_figures_decode(kiln_str bytes, kiln_figures *out_calibration);

#endif
