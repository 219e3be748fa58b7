/* `kiln explain --why`: which stored schedule of a task is used, and why it is fast.
 *
 * why.c           the answer: who won over what, its loops in words, the roofline
 * why_launches.c  what its launches ask of a device
 * why_model.c     what a cost model learnt from the stored trials says of it */
#ifndef KILN_CLI_WHY_H
#define KILN_CLI_WHY_H

#include "cli/cli.h"
#include "cli/common/roofline.h"
#include "compiler-core/frontend/frontend.h"

typedef struct kiln_why_options {
    const char *task; /* number or beginning of a key */
    const kiln_target *target;
    const char *db_path; /* NULL: there are no records */
    bool json;
    const kiln_import_options *onnx; /* NULL: none */
    kiln_accuracy accuracy;          /* of what may win */
} kiln_why_options;

/* The model is read and compiled in processes without rights, before the database is opened.
 * Appends the answer for each task asked for; with `json` prints one object a line instead.
 * INVALID_ARGUMENT: no such task; NOT_FOUND: no record of it for this target that could be best,
 * unless launches of the target are counted: then the default schedule is explained. */
KILN_MUST_USE kiln_status kiln_why_print(const char *model_path, const kiln_why_options *options,
                                         kiln_arena *process, kiln_strbuf *out);

/* Appends lines for people: what the launches of a scheduled program ask of a device of the
 * target; nothing where kernels are no launches. Of GPUs with what the analytic model sees of each,
 * of other devices what lowering makes. */
void kiln_why_launches(const kiln_program *scheduled, const kiln_target *target, kiln_arena *arena,
                       kiln_strbuf *out);

/* One feature's part in the predicted speed, in doublings (XGBoost's SHAP values on top of the
 * analytic model). Only differences mean something: what is common to a task is left out. */
typedef struct kiln_attribution {
    const char *name, *unit, *doc;    /* of the feature */
    double value;                     /* of the winner's feature */
    double winner, fallback, average; /* contributions: to the winner, the default, and the mean of
                                         the task's trials */
} kiln_attribution;
#define KILN_ATTRIBUTIONS_MAX 8

typedef struct kiln_attributions {
    uint32_t sample_count, task_count; /* that the model learnt from */
    double gain;                       /* predicted speed of the winner over the average trial's */
    uint32_t count;                    /* 0: too few samples to learn from */
    kiln_attribution item[KILN_ATTRIBUTIONS_MAX]; /* farthest from the average first */
} kiln_attributions;

/* Trains a model on the records of `target` in the database and asks it for the contributions to
 * the scores of two schedules of a task. A task's own records are all taken, of others the newest.
 */
KILN_MUST_USE kiln_status kiln_attributions_of(kiln_db *db, const kiln_task *task,
                                               const kiln_target *target,
                                               const kiln_program *winner,
                                               const kiln_program *fallback, kiln_arena *arena,
                                               kiln_attributions *out);

#endif
