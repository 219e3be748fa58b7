/* `kiln db plot`: one self-contained page of what a database holds: how each search went, where its
 * kernels sit on the roofline, and where the time went.
 *
 * plot_data.c  from the database to numbers
 * plot.c       from numbers to the page */
#ifndef KILN_CLI_PLOT_H
#define KILN_CLI_PLOT_H

#include "cli/cli.h"
#include "cli/common/roofline.h"
#include "cli/curve.h"

typedef struct kiln_plot_trial {
    double ns; /* median; 0: it failed */
} kiln_plot_trial;

/* One task on one target. */
typedef struct kiln_plot_task {
    kiln_str key, op, target;
    const char *label;
    double flops, bytes; /* of one run; bytes 0: unknown */
    uint32_t trial_count, failed_count, raced_count;
    kiln_plot_trial *trial; /* in the order of their records; finals are no trials */
    kiln_curve curve;
    double best_ns, default_ns; /* 0: none */
    kiln_str found_by;          /* searcher of the best */
    double peak_flops;          /* of all threads it may use; 0: unknown */
    double search_ns, build_ns, board_ns, train_ns;
} kiln_plot_task;

typedef struct kiln_plot {
    const char *source; /* path of the database */
    kiln_plot_task *task;
    uint32_t task_count;
    kiln_roofline machine; /* memory 0: the tasks are another machine's */
} kiln_plot;

/* Reads the tasks with records that match; `filter` names a task, a target, or neither. */
KILN_MUST_USE kiln_status kiln_plot_read(kiln_db *db, const kiln_db_filter *filter,
                                         kiln_arena *arena, kiln_plot *out);
/* Writes the page: HTML that is XML too, with its style and figures inside and nothing from
 * elsewhere. */
void kiln_plot_print(const kiln_plot *plot, kiln_strbuf *out);

#endif
